//! Scripted faults: which verb fails, how often, and how.
//!
//! Guarantees: the entries for a verb apply to its calls in the order in which these begin, and
//! override the faults of the seed; a held call has begun.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::plan::{Fault, Side};
use super::{Faults, Faulty};
use annals::items::Items;
use annals::store::Verb;
use annals::{ErrorKind, Random};

/// The script entry for one call: a fault, or none.
pub(super) type Said = Option<Fault>;

/// Makes calls of a verb wait. Numbered, so that a later hold is a different one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hold {
    side: Side,
    number: u64,
}

#[derive(Debug, Default)]
struct Holds {
    of: HashMap<Verb, Hold>,
    count: u64,
}

/// The script of a test.
#[derive(Debug, Default)]
pub(super) struct Script {
    next: Mutex<HashMap<Verb, VecDeque<Said>>>,
    holds: watch::Sender<Holds>,
    n_held: watch::Sender<usize>,
}

/// Counts a call as held until it is dropped.
struct Held<'a>(&'a watch::Sender<usize>);

impl<'a> Held<'a> {
    fn new(n_held: &'a watch::Sender<usize>) -> Self {
        n_held.send_modify(|n| *n += 1);
        Self(n_held)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n -= 1);
    }
}

impl Script {
    fn say(&self, verb: Verb, n: usize, said: Said) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let next = next.entry(verb).or_default();
        next.extend(std::iter::repeat_n(said, n));
    }

    fn hold(&self, verb: Verb, side: Side) {
        self.holds.send_modify(|holds| {
            holds.count += 1;
            let number = holds.count;
            holds.of.insert(verb, Hold { side, number });
        });
    }

    /// The entry for a call that begins now.
    pub(super) fn next(&self, verb: Verb) -> Option<Said> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.get_mut(&verb).and_then(VecDeque::pop_front)
    }

    /// Waits while calls of the verb are held at this point.
    pub(super) async fn pass(&self, verb: Verb, side: Side) {
        let mut holds = self.holds.subscribe();
        let own = holds.borrow().of.get(&verb).copied();
        let Some(own) = own.filter(|hold| hold.side == side) else {
            return;
        };
        let _held = Held::new(&self.n_held);
        let is_over = |holds: &Holds| holds.of.get(&verb) != Some(&own);
        // Cannot fail: `self` owns the sender.
        let _ = holds.wait_for(is_over).await;
    }
}

/// Scripted faults, independent of the seed.
///
/// ```
/// use annals::store::Verb;
/// use annals_testkit::faulty::Faulty;
/// use annals::items::{Condition, Item, Items, KeyAttribute, KeySchema, TableSpec};
/// use annals::memory::Memory;
/// use annals::{Error, ErrorKind};
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// let items = Arc::new(Faulty::scripted(Arc::new(Memory::new())));
/// items.create_table(&table, Default::default()).await?;
/// let put = |id| items.put(&table, Item::new().with("id", id), Condition::Absent);
///
/// items.fail_next(Verb::Put, 1, ErrorKind::Corrupt);
/// items.lose_next(Verb::Put, 1);
/// assert_eq!(Error::from(put("a").await.unwrap_err()).kind(), ErrorKind::Corrupt);
/// assert_eq!(Error::from(put("b").await.unwrap_err()).kind(), ErrorKind::Unavailable);
/// assert!(put("a").await.is_ok(), "the first was not stored");
/// assert!(put("b").await.is_err(), "the second was stored");
///
/// items.hold(Verb::Put);
/// let (landed, ()) = tokio::join!(put("c"), async {
///     items.until_held(1).await;
///     items.release(Verb::Put);
/// });
/// assert!(landed.is_ok());
/// # Ok(())
/// # }
/// ```
impl Faulty {
    /// The store `inner` with only scripted faults.
    pub fn scripted(inner: Arc<dyn Items>) -> Self {
        Self::new(inner, Random::seeded(0), Faults::none())
    }

    /// The next `n` calls of a verb without a script entry fail with an error of this kind, without
    /// an effect.
    pub fn fail_next(&self, verb: Verb, n: usize, kind: ErrorKind) {
        self.script.say(verb, n, Some(Fault::Said(kind)));
    }

    /// The next `n` calls of a verb without a script entry take effect, and their answers are lost.
    pub fn lose_next(&self, verb: Verb, n: usize) {
        self.script.say(verb, n, Some(Fault::LostAnswer));
    }

    /// The next `n` calls of a verb without a script entry have no fault, so that the next entry
    /// applies to a later call.
    pub fn spare_next(&self, verb: Verb, n: usize) {
        self.script.say(verb, n, None);
    }

    /// From now on calls of a verb wait before they take effect, until [`release`].
    ///
    /// [`release`]: Self::release
    pub fn hold(&self, verb: Verb) {
        self.script.hold(verb, Side::Before);
    }

    /// From now on calls of a verb wait after they took effect, until [`release`].
    ///
    /// [`release`]: Self::release
    pub fn hold_answers(&self, verb: Verb) {
        self.script.hold(verb, Side::After);
    }

    /// Lets held calls of a verb continue, and later ones pass.
    pub fn release(&self, verb: Verb) {
        self.script.holds.send_modify(|holds| {
            holds.of.remove(&verb);
        });
    }

    /// How many calls are held now.
    pub fn n_held(&self) -> usize {
        *self.script.n_held.borrow()
    }

    /// Waits until this many calls are held.
    pub async fn until_held(&self, n: usize) {
        let mut n_held = self.script.n_held.subscribe();
        // Cannot fail: `self` owns the sender.
        let _ = n_held.wait_for(|n_held| *n_held >= n).await;
    }
}
