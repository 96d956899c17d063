//! A follower that wakes up late writes what was true before: it is refused, and only because of the
//! versions of rows and of tombstones.

use std::sync::Arc;

use annals::Annals;
use annals::items::{Condition, Items, Key};
use annals::memory::Memory;
use annals::store::Store;
use annals_jvm::LayoutName;
use annals_testkit::hooked::{Answered, Call, Hook, Hooked};
use async_trait::async_trait;
use tokio::sync::{Mutex, Semaphore, watch};

use super::{LAYOUTS, Running, append, id, settings};

/// What keeps a late write from making a row wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// Nothing is removed.
    Kept,
    /// A row is written whatever its version is.
    Version,
    /// A purged id leaves no tombstone.
    Tombstone,
}

/// A process whose writes of rows wait until the test lets one through; then it does nothing more.
struct Paused {
    guard: Guard,
    /// Whether rows are held.
    holds: watch::Sender<bool>,
    waits: watch::Sender<bool>,
    go: Semaphore,
    done: watch::Sender<bool>,
}

impl Paused {
    fn over(inner: &Arc<dyn Items>, guard: Guard) -> Arc<Hooked<Self>> {
        let paused = Self {
            guard,
            holds: watch::Sender::new(false),
            waits: watch::Sender::new(false),
            go: Semaphore::new(0),
            done: watch::Sender::new(false),
        };
        Arc::new(Hooked::over(inner.clone(), paused))
    }
}

async fn is_set(flag: &watch::Sender<bool>) {
    flag.subscribe().wait_for(|flag| *flag).await.unwrap();
}

#[async_trait]
impl Hook for Paused {
    async fn call(&self, inner: &dyn Items, mut call: Call<'_>) -> Answered {
        let Call::Put(table, item, condition) = &mut call else {
            return call.send(inner).await;
        };
        let Some(partition) = item.text("p").filter(|key| key.starts_with("i:")) else {
            return call.send(inner).await;
        };
        let is_held = *self.holds.borrow();
        if is_held {
            self.waits.send_replace(true);
            self.go.acquire().await.unwrap().forget();
        }
        let is_tombstone = item.text("q").is_some_and(|key| key.ends_with(":gone"));
        let answered = match self.guard {
            Guard::Version => {
                *condition = Condition::Always;
                call.send(inner).await
            }
            Guard::Tombstone if is_tombstone => {
                let key = Key::new(partition).sorted("row");
                let condition = condition.clone();
                Call::Delete(table, key, condition).send(inner).await
            }
            _ => call.send(inner).await,
        };
        if is_held {
            self.done.send_replace(true);
            std::future::pending::<()>().await;
        }
        answered
    }
}

struct World {
    direct: Annals,
    /// Follows all the time.
    sound: Running,
    late: Running,
    paused: Arc<Hooked<Paused>>,
}

impl World {
    async fn new(guard: Guard, layout: LayoutName) -> Self {
        let items: Arc<dyn Items> = Arc::new(Memory::new());
        let settings = settings(layout);
        let direct = Annals::create(items.clone(), &settings).await.unwrap();
        let sound: Store = Paused::over(&items, guard).into();
        let sound = Annals::open(sound, &settings).await.unwrap();
        let paused = Paused::over(&items, guard);
        let late = Annals::open(Store::from(paused.clone()), &settings)
            .await
            .unwrap();
        let (sound, late) = (Running::start(&sound), Running::start(&late));
        sound.view.caught_up().await.unwrap();
        late.view.caught_up().await.unwrap();
        Self {
            direct,
            sound,
            late,
            paused,
        }
    }

    /// The late process gets to its next write of a row.
    async fn pause(&self) {
        self.paused.holds.send_replace(true);
        let reading = self.late.view.caught_up();
        tokio::select! {
            _ = reading => panic!("it writes nothing"),
            () = is_set(&self.paused.waits) => {}
        }
    }

    /// It writes, and ends. Returns whether the id is listed now.
    async fn wake(self) -> bool {
        self.paused.go.add_permits(1);
        is_set(&self.paused.done).await;
        self.late.stop().await;
        let is_listed = !self.sound.ids().await.is_empty();
        self.sound.stop().await;
        is_listed
    }
}

/// It saw the append; the id is purged before it writes. The sound one reads both at once.
async fn purged_meanwhile(guard: Guard, layout: LayoutName) -> bool {
    let world = World::new(guard, layout).await;
    let id = id("Cart|p1-1");
    append(world.direct.journal(), &id, 1).await;
    world.pause().await;
    world.direct.journal().purge(&id).await.unwrap();
    assert!(world.sound.ids().await.is_empty());
    world.wake().await
}

/// It saw the purge; events are appended again before it writes.
async fn appended_meanwhile(guard: Guard, layout: LayoutName) -> bool {
    let world = World::new(guard, layout).await;
    let id = id("Cart|p1-1");
    append(world.direct.journal(), &id, 1).await;
    assert_eq!(world.sound.ids().await.len(), 1);
    assert_eq!(world.late.ids().await.len(), 1);
    world.direct.journal().purge(&id).await.unwrap();
    world.pause().await;
    append(world.direct.journal(), &id, 1).await;
    assert_eq!(world.sound.ids().await.len(), 1);
    world.wake().await
}

#[tokio::test]
async fn a_purged_id_is_not_brought_back() {
    for layout in LAYOUTS {
        assert!(!purged_meanwhile(Guard::Kept, layout).await, "{layout:?}");
    }
}

#[tokio::test]
async fn an_id_that_is_appended_again_is_not_taken_off() {
    for layout in LAYOUTS {
        assert!(appended_meanwhile(Guard::Kept, layout).await, "{layout:?}");
    }
}

#[tokio::test]
async fn every_guard_is_needed() {
    let layout = LayoutName::Annals;
    assert!(purged_meanwhile(Guard::Version, layout).await);
    assert!(purged_meanwhile(Guard::Tombstone, layout).await);
    assert!(!appended_meanwhile(Guard::Version, layout).await);
}

/// Begins the view in another process just before this one does.
struct Overtaken {
    other: Annals,
    running: Mutex<Option<Running>>,
}

#[async_trait]
impl Hook for Overtaken {
    async fn call(&self, inner: &dyn Items, call: Call<'_>) -> Answered {
        let is_record = matches!(&call, Call::Put(_, item, _) if item.text("p") == Some("i"));
        if is_record && self.running.lock().await.is_none() {
            let running = Running::start(&self.other);
            running.view.caught_up().await.unwrap();
            *self.running.lock().await = Some(running);
        }
        call.send(inner).await
    }
}

#[tokio::test]
async fn two_that_begin_at_once_make_one_build() {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let settings = settings(LayoutName::Annals);
    let other = Annals::create(items.clone(), &settings).await.unwrap();
    append(other.journal(), &id("Cart|1"), 1).await;
    let running = Mutex::default();
    let hook = Overtaken {
        other: other.clone(),
        running,
    };
    let hooked = Arc::new(Hooked::over(items.clone(), hook));
    let annals = Annals::open(Store::from(hooked.clone()), &settings)
        .await
        .unwrap();
    let running = Running::start(&annals);
    assert_eq!(running.ids().await, [id("Cart|1")]);
    let first = hooked.running.lock().await.take().expect("it was begun");
    append(other.journal(), &id("Cart|2"), 1).await;
    assert_eq!(running.ids().await, first.ids().await);
    let rows = super::cost::versions(&items).await;
    assert_eq!(rows.len(), 2, "not two for each id");
    first.stop().await;
    running.stop().await;
}
