//! The faults of one call, drawn from the seed before the call begins.

use annals::{ErrorKind, Random};

/// The rate of each fault, in thousandths of the calls.
///
/// ```
/// use annals_testkit::faulty::Faults;
///
/// let faults = Faults { lost_answer: 100, ..Faults::none() };
/// assert_eq!(faults.crash, 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// The call fails without an effect.
    pub error: u32,
    /// The store is out of capacity: the call fails without an effect.
    pub throttled: u32,
    /// The call takes effect, and its answer is lost.
    pub lost_answer: u32,
    /// Some writes of a batch are stored, and the others are returned as unprocessed.
    pub unprocessed: u32,
    /// The call yields to other tasks a few times, before or after it takes effect.
    pub delay: u32,
    /// The call, before or after it takes effect, and all later calls fail.
    pub crash: u32,
}

impl Faults {
    /// No faults.
    pub const fn none() -> Self {
        Self {
            error: 0,
            throttled: 0,
            lost_answer: 0,
            unprocessed: 0,
            delay: 0,
            crash: 0,
        }
    }

    /// Every fault except a crash; about one call in seven fails.
    pub const fn bad_day() -> Self {
        Self {
            error: 50,
            throttled: 50,
            lost_answer: 50,
            unprocessed: 200,
            delay: 300,
            crash: 0,
        }
    }
}

/// Whether something happens before or after a call takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

/// Why a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Error,
    Throttled,
    LostAnswer,
    Crash(Side),
    /// A scripted error of this kind.
    Said(ErrorKind),
}

/// The faults of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) fault: Option<Fault>,
    pub(super) is_unprocessed: bool,
    pub(super) yields: u64,
    /// Whether it yields before or after.
    pub(super) yields_at: Side,
    /// Whether it waits before or after, while the store is frozen.
    pub(super) freezes_at: Option<Side>,
}

/// The maximum number of yields of a delayed call.
const YIELDS_MAX: u64 = 8;

impl Plan {
    /// For calls about tables, which have no random faults.
    pub(super) const NONE: Self = Self {
        fault: None,
        is_unprocessed: false,
        yields: 0,
        yields_at: Side::Before,
        freezes_at: None,
    };

    /// Draws a plan. The number of draws is always the same, so that changing one rate does not
    /// change the other faults of a seed.
    pub(super) fn draw(faults: Faults, random: &Random) -> Self {
        let side = || match random.below(2) {
            0 => Side::Before,
            _ => Side::After,
        };
        let crashes = random.happens(faults.crash);
        let crashes_at = side();
        let errs = random.happens(faults.error);
        let is_throttled = random.happens(faults.throttled);
        let loses_answer = random.happens(faults.lost_answer);
        let is_unprocessed = random.happens(faults.unprocessed);
        let is_delayed = random.happens(faults.delay);
        let yields = 1 + random.below(YIELDS_MAX);
        let (yields_at, freezes_at) = (side(), side());
        let fault = match (crashes, errs, is_throttled, loses_answer) {
            (true, ..) => Some(Fault::Crash(crashes_at)),
            (_, true, ..) => Some(Fault::Error),
            (_, _, true, _) => Some(Fault::Throttled),
            (_, _, _, true) => Some(Fault::LostAnswer),
            _ => None,
        };
        Self {
            fault,
            is_unprocessed,
            yields: if is_delayed { yields } else { 0 },
            yields_at,
            freezes_at: Some(freezes_at),
        }
    }
}
