//! What goes wrong because a test says so: which verb, how often, and how.
//!
//! Promises: what is said for a verb befalls its calls in the order in which they begin, instead of
//! what the seed draws for them; a call that is held has begun.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::plan::{Fault, Side};
use super::{Faults, Faulty};
use annals::items::Items;
use annals::store::Verb;
use annals::{ErrorKind, Random};

/// What is said of one call: its fault, or that it has none.
pub(super) type Said = Option<Fault>;

/// Calls of a verb wait, since this hold was put on.
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

/// What a test says.
#[derive(Debug, Default)]
pub(super) struct Script {
    next: Mutex<HashMap<Verb, VecDeque<Said>>>,
    holds: watch::Sender<Holds>,
    n_held: watch::Sender<usize>,
}

/// One call that is held, for as long as it is.
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

    /// What was said of a call that begins now.
    pub(super) fn next(&self, verb: Verb) -> Option<Said> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.get_mut(&verb).and_then(VecDeque::pop_front)
    }

    /// Waits while calls of the verb are held on this side.
    pub(super) async fn pass(&self, verb: Verb, side: Side) {
        let mut holds = self.holds.subscribe();
        let own = holds.borrow().of.get(&verb).copied();
        let Some(own) = own.filter(|hold| hold.side == side) else {
            return;
        };
        let _held = Held::new(&self.n_held);
        let is_over = |holds: &Holds| holds.of.get(&verb) != Some(&own);
        // An error would mean that the sender is gone, which is `self`.
        let _ = holds.wait_for(is_over).await;
    }
}

/// What a test says goes wrong, whatever the seed.
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
/// assert!(put("a").await.is_ok(), "the first did not land");
/// assert!(put("b").await.is_err(), "the second did");
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
    /// The store `inner`, in which nothing goes wrong but what is said.
    pub fn scripted(inner: Arc<dyn Items>) -> Self {
        Self::new(inner, Random::seeded(0), Faults::none())
    }

    /// The next `n` calls of a verb, behind those of which something was said already, fail with an
    /// error of this kind before anything happens.
    pub fn fail_next(&self, verb: Verb, n: usize, kind: ErrorKind) {
        self.script.say(verb, n, Some(Fault::Said(kind)));
    }

    /// The next `n` calls of a verb, behind those of which something was said already, do what they
    /// are asked, and their answers are lost.
    pub fn lose_next(&self, verb: Verb, n: usize) {
        self.script.say(verb, n, Some(Fault::LostAnswer));
    }

    /// The next `n` calls of a verb, behind those of which something was said already, are left
    /// alone: so what is said next befalls a later one.
    pub fn spare_next(&self, verb: Verb, n: usize) {
        self.script.say(verb, n, None);
    }

    /// From now on calls of a verb wait before anything happens, until [`release`].
    ///
    /// [`release`]: Self::release
    pub fn hold(&self, verb: Verb) {
        self.script.hold(verb, Side::Before);
    }

    /// From now on calls of a verb wait when what they ask for has happened, until [`release`].
    ///
    /// [`release`]: Self::release
    pub fn hold_answers(&self, verb: Verb) {
        self.script.hold(verb, Side::After);
    }

    /// Lets the calls of a verb that are held go on, and later ones pass.
    pub fn release(&self, verb: Verb) {
        self.script.holds.send_modify(|holds| {
            holds.of.remove(&verb);
        });
    }

    /// How many calls are held now.
    pub fn n_held(&self) -> usize {
        *self.script.n_held.borrow()
    }

    /// Waits until so many calls are held.
    pub async fn until_held(&self, n: usize) {
        let mut n_held = self.script.n_held.subscribe();
        // An error would mean that the sender is gone, which is `self`.
        let _ = n_held.wait_for(|n_held| *n_held >= n).await;
    }
}
