//! Projections where the simulation (`projection_sim`) does not look: what is refused, what operators
//! see and do, and how a new revision replaces the old one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use annals::entity::{EntityEvent, Stored};
use annals::feed::Filter;
use annals::journal::Expected;
use annals::layout::AnnalsLayout;
use annals::memory::Memory;
use annals::projection::{Fed, Handler, OnPoison, RunSettings, View, descending};
use annals::{Annals, Clock, Error, ErrorKind, Result, SystemClock};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize, EntityEvent)]
enum CartEvent {
    Added { cents: u64 },
    CheckedOut,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize, Stored)]
struct Cart {
    cents: u64,
}

/// A view with one difference each.
macro_rules! view {
    ($name:ident, $revision:literal, $category:literal, $row:ty, $apply:expr) => {
        struct $name;

        impl View for $name {
            const NAME: &'static str = "carts";
            const REVISION: u32 = $revision;
            type Event = CartEvent;
            type Row = $row;

            fn source() -> Filter {
                Filter::new().category($category)
            }

            fn key(event: &Fed<CartEvent>) -> Option<String> {
                Some(event.entity().to_owned())
            }

            fn apply(row: Option<$row>, event: &Fed<CartEvent>) -> Option<$row> {
                let apply: fn(Option<$row>, &CartEvent) -> Option<$row> = $apply;
                apply(row, &event.event)
            }
        }
    };
}

fn sum(row: Option<Cart>, event: &CartEvent) -> Option<Cart> {
    match event {
        CartEvent::CheckedOut => None,
        CartEvent::Added { cents } => {
            let before = row.unwrap_or_default().cents;
            Some(Cart {
                cents: before + cents,
            })
        }
    }
}

view!(Carts, 1, "Cart", Cart, sum);
view!(OtherSource, 1, "Order", Cart, sum);
view!(NewRevision, 2, "Cart", Total, |row, event| {
    sum(row.map(|Total { sum, .. }| Cart { cents: sum }), event).map(|cart| Total {
        sum: cart.cents,
        revision: 2,
    })
});
view!(OtherRows, 1, "Cart", Total, |_, _| None);

#[derive(Debug, PartialEq, Serialize, Deserialize, Stored)]
struct Total {
    sum: u64,
    revision: u32,
}

async fn open() -> Annals {
    let layout = AnnalsLayout::default();
    Annals::create(Memory::new(), &layout).await.unwrap()
}

async fn append(annals: &Annals, id: &str, event: CartEvent) {
    let (id, event) = (id.parse().unwrap(), event.to_event().unwrap());
    let appended = annals.journal().append(&id, Expected::Any, event);
    appended.await.unwrap();
}

async fn add(annals: &Annals, id: &str, cents: u64) {
    append(annals, id, CartEvent::Added { cents }).await;
}

/// Fast enough for a test.
pub(crate) fn quick() -> RunSettings {
    RunSettings::default().lease(Duration::from_millis(200))
}

fn refused<T: std::fmt::Debug>(outcome: Result<T>, part: &str) {
    let error: Error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    assert!(error.to_string().contains(part), "{error:?}");
}

/// Waits for something that runners do in the background.
pub(crate) async fn until<F: Future<Output = bool>>(check: impl Fn() -> F) {
    for _ in 0..3_000 {
        if check().await {
            return;
        }
        SystemClock::new().sleep(Duration::from_millis(10)).await;
    }
    panic!("it never happens");
}

#[tokio::test]
async fn what_does_not_fit_the_stored_projection_is_refused() {
    let annals = open().await;
    let projections = annals.projections();
    projections
        .view::<Carts>()
        .shares(2)
        .start()
        .await
        .unwrap()
        .stop()
        .await;
    refused(
        projections.view::<Carts>().shares(3).start().await,
        "number of shares changed",
    );
    refused(
        projections.view::<OtherSource>().start().await,
        "source of this projection changed",
    );
    refused(projections.handler(SameName).start().await, "another kind");
    refused(
        projections.view::<Carts>().shares(0).start().await,
        "1 to 1024 shares",
    );
    // As many as before.
    projections
        .view::<Carts>()
        .start()
        .await
        .unwrap()
        .stop()
        .await;
    refused(
        projections.rows::<NewRevision>().unwrap().get("1").await,
        "never started",
    );
    refused(projections.status("a:b").await, "letters, digits");
    assert!(projections.status("orders").await.unwrap().is_none());
    assert!(projections.dead_letters("orders").await.unwrap().is_none());
    assert!(!projections.pause("orders").await.unwrap());
    assert_eq!(projections.rebuild("orders").await.unwrap(), None);
}

struct SameName;

#[async_trait::async_trait]
impl Handler for SameName {
    const NAME: &'static str = "carts";
    type Event = CartEvent;

    fn source() -> Filter {
        Filter::new()
    }

    async fn handle(&self, _: &Fed<CartEvent>) -> Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_position_of_another_store_is_refused() {
    let (annals, other) = (open().await, open().await);
    let carts = annals.projections().view::<Carts>().start().await.unwrap();
    let position = other.feed().head().await.unwrap();
    refused(carts.get_after(&position, "1").await, "another store");
    carts.stop().await;
}

#[tokio::test]
async fn a_row_type_that_changed_without_a_revision_is_an_error() {
    let annals = open().await;
    add(&annals, "Cart|1", 5).await;
    let carts = annals.projections().view::<Carts>().start().await.unwrap();
    carts.caught_up().await.unwrap();
    carts.stop().await;
    let rows = annals.projections().rows::<OtherRows>().unwrap();
    let error = rows.get("1").await.unwrap_err();
    assert!(error.to_string().contains("raise REVISION"), "{error:?}");
}

#[tokio::test]
async fn a_new_revision_is_built_beside_the_live_one_and_replaces_it() {
    let annals = open().await;
    add(&annals, "Cart|1", 5).await;
    let projections = annals.projections();
    let old = projections
        .view::<Carts>()
        .settings(quick())
        .start()
        .await
        .unwrap();
    old.caught_up().await.unwrap();
    let keep = quick().keep_retired(Duration::ZERO);
    let new = projections
        .view::<NewRevision>()
        .settings(keep)
        .start()
        .await
        .unwrap();
    add(&annals, "Cart|1", 2).await;
    new.caught_up().await.unwrap();
    old.caught_up().await.unwrap();
    assert_eq!(
        new.get("1").await.unwrap(),
        Some(Total {
            sum: 7,
            revision: 2
        })
    );
    assert_eq!(old.get("1").await.unwrap(), Some(Cart { cents: 7 }));
    refused(projections.rebuild("carts").await, "being made already");

    until(|| async { projections.switch("carts").await.is_ok() }).await;
    refused(projections.switch("carts").await, "no build is being made");
    // The old rows are dropped, and the old code is refused.
    until(|| async {
        let status = projections.status("carts").await.unwrap().unwrap();
        status.builds.len() == 1 && status.live == Some(2)
    })
    .await;
    old.stop().await;
    refused(projections.view::<Carts>().start().await, "newer revision");
    assert_eq!(
        new.get("1").await.unwrap(),
        Some(Total {
            sum: 7,
            revision: 2
        })
    );
    new.stop().await;
}

#[tokio::test]
async fn a_rebuild_has_the_same_rows() {
    let annals = open().await;
    for n in 0..50 {
        add(&annals, &format!("Cart|{}", n % 7), n).await;
    }
    let projections = annals.projections();
    let settings = quick().switch_when_caught_up();
    let carts = projections
        .view::<Carts>()
        .shares(3)
        .settings(settings)
        .start()
        .await
        .unwrap();
    carts.caught_up().await.unwrap();
    let before: Vec<_> = carts.list().all().try_collect().await.unwrap();
    assert_eq!(projections.rebuild("carts").await.unwrap(), Some(2));
    until(|| async { projections.status("carts").await.unwrap().unwrap().live == Some(2) }).await;
    // The number of the live build is remembered for a second.
    SystemClock::new().sleep(Duration::from_millis(1_100)).await;
    let after: Vec<_> = carts.list().all().try_collect().await.unwrap();
    assert_eq!(after, before);
    carts.stop().await;
}

#[tokio::test]
async fn a_paused_projection_stands_still() {
    let annals = open().await;
    let projections = annals.projections();
    let carts = projections
        .view::<Carts>()
        .settings(quick())
        .start()
        .await
        .unwrap();
    carts.caught_up().await.unwrap();
    assert!(projections.pause("carts").await.unwrap());
    let has_owner = || async {
        let status = projections.status("carts").await.unwrap().unwrap();
        status.builds[0].shares[0].owner.is_some()
    };
    until(|| async { !has_owner().await }).await;
    add(&annals, "Cart|1", 5).await;
    assert_eq!(carts.get("1").await.unwrap(), None);
    let status = projections.status("carts").await.unwrap().unwrap();
    assert!(status.paused);
    assert_eq!(status.builds[0].lag_events, 1);
    assert!(projections.resume("carts").await.unwrap());
    carts.caught_up().await.unwrap();
    assert_eq!(carts.get("1").await.unwrap(), Some(Cart { cents: 5 }));
    carts.stop().await;
}

/// A handler whose bug can be fixed.
#[derive(Default)]
struct Picky {
    is_fixed: AtomicBool,
    cents: AtomicU64,
}

#[async_trait::async_trait]
impl Handler for Picky {
    const NAME: &'static str = "picky";
    type Event = CartEvent;

    fn source() -> Filter {
        Filter::new()
    }

    async fn handle(&self, event: &Fed<CartEvent>) -> Result<()> {
        if let CartEvent::Added { cents } = event.event {
            assert!(
                cents != 13 || self.is_fixed.load(Ordering::SeqCst),
                "unlucky"
            );
            self.cents.fetch_add(cents, Ordering::SeqCst);
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_panicking_handler_stops_its_share_until_it_is_fixed() {
    let annals = open().await;
    for (id, cents) in [("Cart|1", 1), ("Cart|2", 13), ("Cart|2", 4)] {
        add(&annals, id, cents).await;
    }
    let projections = annals.projections();
    let picky = projections
        .handler(Picky::default())
        .settings(quick())
        .start()
        .await
        .unwrap();
    let stopped = || async {
        let status = projections.status("picky").await.unwrap().unwrap();
        status.builds[0].shares[0].stopped.clone()
    };
    until(|| async { stopped().await.is_some() }).await;
    let reason = stopped().await.unwrap();
    assert!(
        reason.contains("Cart|2") && reason.contains("unlucky"),
        "{reason}"
    );
    assert_eq!(picky.handler().cents.load(Ordering::SeqCst), 1);
    picky.handler().is_fixed.store(true, Ordering::SeqCst);
    picky.caught_up().await.unwrap();
    assert_eq!(picky.handler().cents.load(Ordering::SeqCst), 18);
    picky.stop().await;
}

#[tokio::test]
async fn dead_letters_wait_in_order_until_they_are_retried() {
    let annals = open().await;
    for (id, cents) in [("Cart|1", 13), ("Cart|2", 1), ("Cart|1", 4), ("Cart|3", 13)] {
        add(&annals, id, cents).await;
    }
    let projections = annals.projections();
    let settings = quick().on_poison(OnPoison::DeadLetter);
    let picky = projections
        .handler(Picky::default())
        .settings(settings)
        .start()
        .await
        .unwrap();
    picky.caught_up().await.unwrap();
    assert_eq!(picky.handler().cents.load(Ordering::SeqCst), 1);
    let letters = projections.dead_letters("picky").await.unwrap().unwrap();
    let letter = |n: usize| (letters[n].persistence_id.as_str(), letters[n].events);
    assert_eq!(
        (letters.len(), letter(0), letter(1)),
        (2, ("Cart|1", 2), ("Cart|3", 1))
    );
    assert!(letters[0].reason.contains("unlucky"), "{letters:?}");

    let count = || async {
        projections
            .dead_letters("picky")
            .await
            .unwrap()
            .unwrap()
            .len()
    };
    projections
        .discard("picky", Some(&"Cart|3".parse().unwrap()))
        .await
        .unwrap();
    until(|| async { count().await == 1 }).await;
    picky.handler().is_fixed.store(true, Ordering::SeqCst);
    assert!(projections.retry("picky", None).await.unwrap());
    until(|| async { count().await == 0 }).await;
    assert_eq!(picky.handler().cents.load(Ordering::SeqCst), 18);
    // Later events of the ids are handled again.
    add(&annals, "Cart|3", 2).await;
    picky.caught_up().await.unwrap();
    assert_eq!(picky.handler().cents.load(Ordering::SeqCst), 20);
    let status = projections.status("picky").await.unwrap().unwrap();
    assert_eq!(
        (status.builds[0].dead_letters, status.builds[0].missed),
        (0, 1)
    );
    picky.stop().await;
}

/// Pages of lists do not depend on how many rows were deleted.
struct BySize;

impl View for BySize {
    const NAME: &'static str = "by-size";
    type Event = CartEvent;
    type Row = Cart;

    fn source() -> Filter {
        Filter::new()
    }

    fn key(event: &Fed<CartEvent>) -> Option<String> {
        Some(event.entity().to_owned())
    }

    fn apply(row: Option<Cart>, event: &Fed<CartEvent>) -> Option<Cart> {
        sum(row, &event.event)
    }

    fn order(cart: &Cart) -> Option<String> {
        Some(descending(cart.cents))
    }
}

#[tokio::test]
async fn rows_are_listed_by_prefix_range_and_order() {
    let annals = open().await;
    for n in 0..30 {
        add(&annals, &format!("Cart|{n:02}"), 100 - n).await;
        if n % 3 == 0 {
            append(&annals, &format!("Cart|{n:02}"), CartEvent::CheckedOut).await;
        }
    }
    let carts = annals.projections().view::<BySize>().start().await.unwrap();
    carts.caught_up().await.unwrap();
    let keys = |rows: Vec<(String, Cart)>| rows.into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    let listed = keys(carts.list().limit(4).all().try_collect().await.unwrap());
    assert_eq!(listed.len(), 20);
    assert!(listed.is_sorted());
    let page = carts.list().prefix("1").limit(3).page().await.unwrap();
    assert_eq!(keys(page.rows), ["10", "11", "13"]);
    let page = carts
        .list()
        .prefix("1")
        .limit(3)
        .after(page.next)
        .page()
        .await
        .unwrap();
    assert_eq!(keys(page.rows), ["14", "16", "17"]);
    let range = carts.list().range("11", "14").page().await.unwrap();
    assert_eq!(keys(range.rows), ["11", "13"]);
    let none = carts.list().range("14", "11").page().await.unwrap();
    assert_eq!(keys(none.rows), Vec::<String>::new());
    let largest = carts.ordered().limit(3).page().await.unwrap();
    assert_eq!(keys(largest.rows), ["01", "02", "04"]);
    let smallest = carts.ordered().descending().limit(2).page().await.unwrap();
    assert_eq!(keys(smallest.rows), ["29", "28"]);
    let between = carts
        .ordered()
        .range(descending(95), descending(91))
        .page()
        .await
        .unwrap();
    assert_eq!(keys(between.rows), ["05", "07", "08"]);
    let wrong = Some("no page".to_owned());
    refused(
        carts.ordered().after(wrong).page().await,
        "where another one ended",
    );
    carts.stop().await;
}
