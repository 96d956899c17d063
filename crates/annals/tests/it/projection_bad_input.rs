//! Wrong positions, sources and stored data: each error says what to do, nothing is lost, and no row has
//! an event twice.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use annals::entity::{EntityEvent, Stored};
use annals::feed::{Filter, Position};
use annals::group::{GroupSettings, Start, Take};
use annals::items::{Item, Items, Scan, Write};
use annals::journal::Expected;
use annals::layout::AnnalsLayout;
use annals::memory::Memory;
use annals::projection::{Fed, Handler, Rows, RunSettings, Running, View};
use annals::{Annals, Clock, Error, ErrorKind, Result, SystemClock};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize, EntityEvent)]
struct Added {
    cents: u64,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize, Stored)]
struct Cart {
    cents: u64,
}

static IS_BROKEN: AtomicBool = AtomicBool::new(false);

struct Carts;

impl View for Carts {
    const NAME: &'static str = "carts";
    type Event = Added;
    type Row = Cart;

    fn source() -> Filter {
        Filter::new().category("Cart")
    }

    fn key(event: &Fed<Added>) -> Option<String> {
        Some(event.entity().to_owned())
    }

    fn apply(row: Option<Cart>, event: &Fed<Added>) -> Option<Cart> {
        let cents = event.event.cents;
        assert!(cents != 13 || !IS_BROKEN.load(Ordering::SeqCst), "unlucky");
        Some(Cart {
            cents: row.unwrap_or_default().cents + cents,
        })
    }
}

/// The same name and revision, but rows of another type.
struct OtherRows;

#[derive(Debug, Serialize, Deserialize, Stored)]
struct Total {
    sum: u64,
}

impl View for OtherRows {
    const NAME: &'static str = "carts";
    type Event = Added;
    type Row = Total;

    fn source() -> Filter {
        Carts::source()
    }

    fn key(event: &Fed<Added>) -> Option<String> {
        Carts::key(event)
    }

    fn apply(_: Option<Total>, event: &Fed<Added>) -> Option<Total> {
        Some(Total {
            sum: event.event.cents,
        })
    }
}

async fn open() -> Annals {
    let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await;
    annals.unwrap()
}

async fn add(annals: &Annals, id: &str, cents: u64) {
    let (id, added) = (id.parse().unwrap(), Added { cents }.to_event().unwrap());
    let appended = annals.journal().append(&id, Expected::Any, added).await;
    appended.unwrap();
}

fn quick() -> RunSettings {
    RunSettings::default().lease(Duration::from_millis(200))
}

async fn start<V: View>(annals: &Annals) -> Running<Rows<V>> {
    let starting = annals.projections().view::<V>().settings(quick());
    starting.start().await.unwrap()
}

fn refused<T: std::fmt::Debug>(outcome: Result<T>, part: &str) {
    let error: Error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    assert!(error.to_string().contains(part), "{error:?}");
}

/// Waits for something that runners do in the background.
async fn until<T>(what: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..6_000 {
        if let Some(found) = what().await {
            return found;
        }
        SystemClock::new().sleep(Duration::from_millis(10)).await;
    }
    panic!("it never happens");
}

/// Why a share of the projection does not go on, once it does not.
async fn stopped(annals: &Annals, name: &str) -> String {
    until(async || {
        let status = annals.projections().status(name).await.unwrap()?;
        let mut shares = status.builds.into_iter().flat_map(|build| build.shares);
        shares.find_map(|share| share.stopped)
    })
    .await
}

/// The same items in another store, as after a restore: the feed has another history.
async fn restored(annals: &Annals) -> Annals {
    let (from, memory) = (annals.store(), Memory::new());
    for name in ["annals-journal", "annals-projection"] {
        let table = from.items().describe_table(&name.parse().unwrap()).await;
        let table = Arc::new(table.unwrap().unwrap());
        memory
            .create_table(&table, Default::default())
            .await
            .unwrap();
        let items = from.scan_all(&table, Scan::whole());
        let items: Vec<Item> = items.try_collect().await.unwrap();
        let writes = items.into_iter().map(Write::Put).collect();
        memory.write(&table, writes).await.unwrap();
    }
    let annals = Annals::create(memory, &AnnalsLayout::default()).await;
    annals.unwrap()
}

#[tokio::test]
async fn positions_that_the_feed_does_not_have_are_refused_at_once() {
    let annals = open().await;
    add(&annals, "Cart|1", 5).await;
    let carts = start::<Carts>(&annals).await;
    let head = annals.feed().head().await.unwrap();
    carts.reached(&head).await.unwrap();
    let wrong = |text: String| text.parse::<Position>().unwrap();
    for (position, part) in [
        (
            wrong(format!("{}.0:99", head.generation())),
            "after the end",
        ),
        (wrong(format!("{head},1:0")), "another store's feed"),
        (wrong("1.0:0".to_owned()), "another store's feed"),
    ] {
        refused(carts.reached(&position).await, part);
        refused(carts.get_after(&position, "1").await, part);
        let start = GroupSettings::new().start(Start::After(position.clone()));
        let group = annals.groups().group("workers").unwrap();
        let created = group.put(&start).await;
        assert_eq!(
            created.unwrap_err().kind(),
            ErrorKind::Invalid,
            "{position}"
        );
        assert!(group.status().await.unwrap().is_none());
    }
    carts.stop().await;
}

/// A handler of one source.
macro_rules! handler {
    ($name:ident, $source:expr) => {
        struct $name;

        #[async_trait::async_trait]
        impl Handler for $name {
            const NAME: &'static str = "mails";
            type Event = Added;

            fn source() -> Filter {
                $source
            }

            async fn handle(&self, _: &Fed<Added>) -> Result<()> {
                Ok(())
            }
        }
    };
}

handler!(WholeId, Filter::new().category("Cart|1"));
handler!(NoSlices, Filter::new().slices(RangeInclusive::new(9, 3)));
handler!(FarSlices, Filter::new().slices(1_000..=1_024));

#[tokio::test]
async fn a_source_that_wants_nothing_is_refused() {
    let annals = open().await;
    let projections = annals.projections();
    refused(
        projections.handler(WholeId).start().await,
        "before the first `|`",
    );
    refused(
        projections.handler(NoSlices).start().await,
        "slices are 0 to 1023",
    );
    refused(
        projections.handler(FarSlices).start().await,
        "slices are 0 to 1023",
    );
    assert!(projections.status("mails").await.unwrap().is_none());
    let settings = GroupSettings::new().filter(WholeId::source());
    let group = annals.groups().group("workers").unwrap();
    refused(group.put(&settings).await, "before the first `|`");
}

#[tokio::test]
async fn a_view_of_another_history_keeps_its_rows_until_it_is_rebuilt() {
    let annals = open().await;
    add(&annals, "Cart|1", 5).await;
    let carts = start::<Carts>(&annals).await;
    carts.caught_up().await.unwrap();
    carts.stop().await;

    let annals = restored(&annals).await;
    add(&annals, "Cart|1", 2).await;
    let carts = start::<Carts>(&annals).await;
    let reason = stopped(&annals, "carts").await;
    assert!(reason.contains("has other events"), "{reason}");
    assert!(reason.contains("rebuild the view"), "{reason}");
    let before = carts.get("1").await.unwrap();
    assert_eq!(before, Some(Cart { cents: 5 }));

    let projections = annals.projections();
    assert_eq!(projections.rebuild("carts").await.unwrap(), Some(2));
    until(async || projections.switch("carts").await.unwrap_or(None)).await;
    let head = annals.feed().head().await.unwrap();
    let after = carts.get_after(&head, "1").await.unwrap();
    assert_eq!(after, Some(Cart { cents: 7 }));
    carts.stop().await;
}

#[tokio::test]
async fn a_group_of_another_history_is_created_again() {
    let annals = open().await;
    add(&annals, "Cart|1", 5).await;
    let group = annals.groups().group("workers").unwrap();
    group.put(&GroupSettings::new()).await.unwrap();

    let annals = restored(&annals).await;
    let group = annals.groups().group("workers").unwrap();
    refused(
        group.next(&Take::new()).await,
        "delete it and create it again",
    );
    assert!(group.delete().await.unwrap());
    group.put(&GroupSettings::new()).await.unwrap();
    let taken = group.next(&Take::new()).await.unwrap().unwrap();
    assert_eq!(taken.len(), 1);
}

#[tokio::test]
async fn rows_of_another_type_stay_as_they_are_until_the_right_code_runs() {
    let annals = open().await;
    add(&annals, "Cart|1", 5).await;
    let carts = start::<Carts>(&annals).await;
    carts.caught_up().await.unwrap();
    carts.stop().await;

    add(&annals, "Cart|1", 2).await;
    let wrong = start::<OtherRows>(&annals).await;
    let reason = stopped(&annals, "carts").await;
    assert!(reason.contains("raise REVISION"), "{reason}");
    wrong.stop().await;

    let carts = start::<Carts>(&annals).await;
    carts.caught_up().await.unwrap();
    assert_eq!(carts.get("1").await.unwrap(), Some(Cart { cents: 7 }));
    carts.stop().await;
}

#[tokio::test]
async fn a_view_that_panics_stops_before_the_event_and_goes_on_when_it_is_fixed() {
    IS_BROKEN.store(true, Ordering::SeqCst);
    let annals = open().await;
    for (id, cents) in [("Cart|1", 1), ("Cart|2", 13), ("Cart|1", 4)] {
        add(&annals, id, cents).await;
    }
    let carts = start::<Carts>(&annals).await;
    let reason = stopped(&annals, "carts").await;
    for part in ["id=`Cart|2`", "number=`1`", "unlucky"] {
        assert!(reason.contains(part), "{reason}");
    }
    // What is before the event is there, once; nothing after it.
    assert_eq!(carts.get("1").await.unwrap(), Some(Cart { cents: 1 }));
    IS_BROKEN.store(false, Ordering::SeqCst);
    carts.caught_up().await.unwrap();
    assert_eq!(carts.get("1").await.unwrap(), Some(Cart { cents: 5 }));
    assert_eq!(carts.get("2").await.unwrap(), Some(Cart { cents: 13 }));
    carts.stop().await;
}
