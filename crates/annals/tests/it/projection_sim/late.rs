//! A put that creates a row, and takes effect only after the runner that sent it lost its share and its
//! successor created and deleted the same row: a request that was on its way all the time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use annals::entity::EntityEvent;
use annals::items::{Condition, Item, Items, TableSpec};
use annals::journal::Expected;
use annals::memory::Memory;
use annals::projection::RunSettings;
use annals::{Annals, ManualClock, Random};
use annals_jvm::AnyLayout;
use annals_testkit::hooked::{Answered, Call, Hook, Hooked};
use annals_testkit::store;
use async_trait::async_trait;

use super::tamper::{Guard, Tampered};
use super::views::{CartEvent, Carts};
use super::{LEASE, START};

type Put = (TableSpec, Item, Condition);

/// Keeps the first put of a row, and answers no call from then on.
#[derive(Default)]
struct OnItsWay {
    put: Mutex<Option<Put>>,
    is_silent: AtomicBool,
}

#[async_trait]
impl Hook for OnItsWay {
    async fn call(&self, inner: &dyn Items, call: Call<'_>) -> Answered {
        if let Call::Put(table, item, condition) = &call
            && item
                .text("p")
                .is_some_and(|partition| partition.starts_with("r:"))
            && !self.is_silent.swap(true, Ordering::SeqCst)
        {
            let put = (TableSpec::clone(table), item.clone(), condition.clone());
            *self.put.lock().unwrap() = Some(put);
        }
        if self.is_silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        call.send(inner).await
    }
}

async fn open(items: Arc<dyn Items>, clock: &Arc<ManualClock>, seed: u64) -> Annals {
    let store = store(items, clock.clone(), Random::seeded(seed));
    Annals::create(store, &AnyLayout::default()).await.unwrap()
}

async fn append(annals: &Annals, event: CartEvent) {
    let (id, event) = ("Cart|1".parse().unwrap(), event.to_event().unwrap());
    let appended = annals.journal().append(&id, Expected::Any, event).await;
    appended.unwrap();
}

/// Whether the deleted row is there again after the late put.
async fn comes_back(guard: Guard) -> bool {
    let memory: Arc<dyn Items> = Arc::new(Memory::new());
    let items: Arc<dyn Items> = Arc::new(Tampered::over(memory, guard));
    let clock = Arc::new(ManualClock::at_ms(START));
    let settings = RunSettings::default().lease(LEASE);
    let time_passes = || async {
        for _ in 0..40 {
            clock.advance(LEASE / 8);
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
        }
    };
    let direct = open(items.clone(), &clock, 1).await;
    let (n, group, is_poison) = (1, 0, false);
    append(
        &direct,
        CartEvent::Added {
            n,
            group,
            is_poison,
        },
    )
    .await;

    let on_its_way = Arc::new(Hooked::over(items.clone(), OnItsWay::default()));
    let first = open(on_its_way.clone(), &clock, 2).await;
    let first = first
        .projections()
        .view::<Carts>()
        .settings(settings.clone());
    let first = first.start().await.unwrap();
    time_passes().await;
    let put = on_its_way.put.lock().unwrap().take();
    let (table, item, condition) = put.expect("a row on its way");

    let second = direct.projections().view::<Carts>().settings(settings);
    let second = second.start().await.unwrap();
    time_passes().await;
    assert!(second.get("Cart|1").await.unwrap().is_some());
    append(&direct, CartEvent::Closed { n: 2 }).await;
    time_passes().await;
    assert!(second.get("Cart|1").await.unwrap().is_none());

    // Refused, or not.
    let _ = items.put(&table, item, condition).await;
    let found = second.get("Cart|1").await.unwrap();
    second.stop().await;
    drop(first);
    found.is_some()
}

#[tokio::test]
async fn a_deleted_row_needs_its_tombstone() {
    assert!(!comes_back(Guard::Kept).await);
    assert!(comes_back(Guard::Tombstone).await);
}
