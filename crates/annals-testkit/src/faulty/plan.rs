//! What befalls one call, drawn from the seed before the call begins.

use annals::{ErrorKind, Random};

/// How often things go wrong, each in thousandths of the calls.
///
/// ```
/// use annals_testkit::faulty::Faults;
///
/// let faults = Faults { lost_answer: 100, ..Faults::none() };
/// assert_eq!(faults.crash, 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// The call fails before anything happened.
    pub error: u32,
    /// The store has no capacity left: the call fails before anything happened.
    pub throttled: u32,
    /// What was asked happened, and the answer is lost.
    pub lost_answer: u32,
    /// Of a batch, some writes happen and the others are handed back.
    pub unprocessed: u32,
    /// The call gives way to others a few times, before or after what was asked happened.
    pub delay: u32,
    /// The call and all later ones fail, before or after what was asked happened.
    pub crash: u32,
}

impl Faults {
    /// Nothing goes wrong.
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

    /// A bad day: everything but a crash happens, about one call in seven fails.
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

/// On which side of what was asked something befalls a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

/// What makes a call fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Error,
    Throttled,
    LostAnswer,
    Crash(Side),
    /// What a test says it fails with.
    Said(ErrorKind),
}

/// What befalls one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) fault: Option<Fault>,
    pub(super) is_unprocessed: bool,
    pub(super) yields: u64,
    /// Where it gives way.
    pub(super) yields_at: Side,
    /// Where it waits while the store is frozen.
    pub(super) freezes_at: Option<Side>,
}

/// The most often a delayed call gives way.
const YIELDS_MAX: u64 = 8;

impl Plan {
    /// Of a call about tables, for which nothing is drawn.
    pub(super) const NONE: Self = Self {
        fault: None,
        is_unprocessed: false,
        yields: 0,
        yields_at: Side::Before,
        freezes_at: None,
    };

    /// Draws a plan. Always the same number of draws, whatever the rates, so that another rate
    /// does not change what else a seed brings.
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
