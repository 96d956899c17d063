//! The crash tests of the testkit: right projections pass, and each guard that is missing is found, with
//! the step that shows it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use annals::Result;
use annals::feed::Filter;
use annals::projection::testkit::{GivenEvents, given, given_to_handler};
use annals::projection::{Fed, Handler};
use async_trait::async_trait;

use super::tamper::{Guard, Tampered};
use super::views::{CartEvent, Carts, Groups};

fn added(n: u64) -> CartEvent {
    CartEvent::Added {
        n,
        group: n % 2,
        is_poison: false,
    }
}

/// Rows are created, changed, deleted, and created again.
fn events() -> [(&'static str, CartEvent); 7] {
    [
        ("Cart|1", added(1)),
        ("Cart|2", added(2)),
        ("Cart|1", added(3)),
        ("Cart|1", CartEvent::Closed { n: 4 }),
        ("Cart|2", added(5)),
        ("Cart|3", added(6)),
        ("Cart|3", CartEvent::Closed { n: 7 }),
    ]
}

fn carts() -> GivenEvents<Carts> {
    given::<Carts>(events())
}

/// The message of a test that fails.
fn failure(test: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(test)).expect_err("it does not fail");
    let text = panic.downcast_ref::<String>();
    text.expect("a message").clone()
}

/// What the crash test says of the machinery of views without a guard.
fn failure_without(guard: Guard) -> String {
    let tampered = |store| Arc::new(Tampered::over(store, guard)) as _;
    failure(|| drop(carts().survives_crashes_on(tampered)))
}

#[test]
fn views_survive_crashes_at_every_step() {
    let _ = carts().survives_crashes();
    let _ = given::<Groups>(events()).survives_crashes();
}

#[tokio::test]
async fn they_survive_inside_a_runtime() {
    let _ = given::<Carts>([("Cart|1", added(1))]).survives_crashes();
}

#[test]
fn a_row_without_its_condition_is_found() {
    let failure = failure_without(Guard::RowVersion);
    assert!(failure.contains("put of (r:carts:1:Cart|"), "{failure}");
    assert!(failure.contains("only after the next process"), "{failure}");
    assert!(failure.contains("wanted "), "{failure}");
}

#[test]
fn a_row_without_its_position_is_found() {
    let failure = failure_without(Guard::RowPosition);
    assert!(failure.contains("after a crash at step "), "{failure}");
    assert!(
        failure.contains("Cart|2: wanted [2,5], found [2,"),
        "{failure}"
    );
}

#[test]
fn a_position_that_is_saved_before_the_rows_is_found() {
    let failure = failure_without(Guard::OffsetOrder);
    assert!(failure.contains("after a crash at step "), "{failure}");
}

#[test]
fn a_deleted_row_without_its_tombstone_is_found() {
    let failure = failure_without(Guard::Tombstone);
    assert!(failure.contains("only after the next process"), "{failure}");
    assert!(failure.contains("wanted no row, found ["), "{failure}");
}

/// What a handler did in the world.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Vec<String>>>);

impl Ledger {
    fn enter(&self, key: String) {
        self.0.lock().unwrap().push(key);
    }

    fn sorted(&self) -> Vec<String> {
        let mut all = self.0.lock().unwrap().clone();
        all.sort_unstable();
        all
    }
}

/// How a handler enters events in the ledger.
#[derive(Clone, Copy)]
enum Entering {
    /// Unless it is there.
    Once,
    /// Whether or not it is there.
    Again,
    /// With the next event.
    Later,
}

struct Clerk {
    ledger: Ledger,
    entering: Entering,
    left: Mutex<Option<String>>,
}

#[async_trait]
impl Handler for Clerk {
    const NAME: &'static str = "clerk";
    type Event = CartEvent;

    fn source() -> Filter {
        Filter::new().category("Cart")
    }

    async fn handle(&self, event: &Fed<CartEvent>) -> Result<()> {
        let key = event.idempotency_key();
        match self.entering {
            Entering::Once if self.ledger.sorted().contains(&key) => {}
            Entering::Once | Entering::Again => self.ledger.enter(key),
            Entering::Later => {
                let left = self.left.lock().unwrap().replace(key);
                left.into_iter().for_each(|key| self.ledger.enter(key));
            }
        }
        Ok(())
    }
}

fn check_clerk(entering: Entering, wanted: &[&str]) {
    let clerk = |ledger: &Ledger| Clerk {
        ledger: ledger.clone(),
        entering,
        left: Mutex::default(),
    };
    let events = [
        ("Cart|1", added(1)),
        ("Cart|2", added(2)),
        ("Cart|1", added(3)),
    ];
    given_to_handler::<Clerk>(events).survives_crashes(Ledger::default, clerk, |ledger| {
        assert_eq!(ledger.sorted(), wanted);
    });
}

#[test]
fn a_handler_that_knows_what_it_did_survives() {
    check_clerk(Entering::Once, &["Cart|1#1", "Cart|1#2", "Cart|2#1"]);
}

#[test]
fn a_handler_that_does_things_twice_is_found() {
    let all = ["Cart|1#1", "Cart|1#2", "Cart|2#1"];
    let failure = failure(|| check_clerk(Entering::Again, &all));
    assert!(failure.contains("handling of Cart|1#1"), "{failure}");
    assert!(
        failure.contains("took effect without a response"),
        "{failure}"
    );
}

#[test]
fn a_handler_that_acts_too_late_is_found() {
    // The last event is always left.
    let failure = failure(|| check_clerk(Entering::Later, &["Cart|1#1", "Cart|2#1"]));
    assert!(failure.contains("after a crash at step "), "{failure}");
}
