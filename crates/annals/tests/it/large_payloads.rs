//! Snapshots and states larger than an item that are replaced and deleted concurrently: readers and
//! deletions pause between any two requests.

use std::sync::Arc;
use std::time::Duration;

use annals::items::Items;
use annals::layout::Layout;
use annals::memory::Memory;
use annals::snapshot::{Criteria, Snapshots};
use annals::state::States;
use annals::{Clock, Codec, ManualClock, Payload, Random};
use annals_jvm::AnyLayout;
use annals_testkit::faulty::{Faults, Faulty};
use annals_testkit::store;

use annals_testkit::journals::{id, number};

struct World {
    items: Arc<dyn Items>,
    clock: Arc<ManualClock>,
    /// More than an item holds, and does not compress.
    large: Payload,
}

impl World {
    async fn new() -> Self {
        let (items, settings) = (Arc::new(Memory::new()), AnyLayout::default());
        for table in settings.tables().unwrap().all() {
            let created = items.create_table(table, Default::default());
            created.await.unwrap();
        }
        let random = Random::seeded(0);
        let words = (0..60_000).flat_map(|_| random.bits().to_le_bytes());
        Self {
            items,
            clock: Arc::new(ManualClock::at_ms(1_700_000_000_000)),
            large: Payload::new(Codec::Bytes, words.collect::<Vec<u8>>()),
        }
    }

    /// A store whose calls yield to others, by seed.
    fn slow(&self, seed: u64) -> Arc<dyn Items> {
        let faults = Faults {
            delay: 1_000,
            ..Faults::none()
        };
        let random = Random::seeded(seed);
        Arc::new(Faulty::new(self.items.clone(), random, faults))
    }

    fn snapshots(&self, seed: u64) -> Snapshots {
        let (settings, random) = (AnyLayout::default(), Random::seeded(seed));
        settings
            .snapshots(&store(self.slow(seed), self.clock.clone(), random))
            .unwrap()
    }

    fn states(&self, seed: u64) -> States {
        let (settings, random) = (AnyLayout::default(), Random::seeded(seed));
        settings
            .states(&store(self.slow(seed), self.clock.clone(), random))
            .unwrap()
    }
}

#[tokio::test]
async fn a_reader_finds_a_snapshot_that_is_being_replaced() {
    for seed in 0..100 {
        let world = World::new().await;
        let (reader, writer) = (world.snapshots(seed), world.snapshots(seed + 1_000));
        let save = |payload: &Payload| {
            let (writer, payload) = (writer.clone(), payload.clone());
            async move { writer.save(&id(), number(7), payload).await }
        };
        save(&world.large).await.unwrap();
        let small = Payload::new(Codec::Bytes, "small");
        let id = id();
        let (found, saved) = futures::join!(reader.load(&id, Criteria::ALL), save(&small));
        saved.unwrap();
        let found = found.unwrap().map(|found| found.payload);
        assert!(
            found == Some(small) || found == Some(world.large),
            "seed {seed}: neither the one nor the other"
        );
    }
}

#[tokio::test]
async fn a_reader_finds_a_state_that_is_being_replaced() {
    for seed in 0..100 {
        let world = World::new().await;
        let (reader, writer) = (world.states(seed), world.states(seed + 1_000));
        let (id, small) = (id(), Payload::new(Codec::Bytes, "small"));
        writer.upsert(&id, 1, world.large.clone()).await.unwrap();
        let (found, written) = futures::join!(reader.get(&id), writer.upsert(&id, 2, small));
        written.unwrap();
        let found = found.map(|found| found.map(|found| found.revision));
        assert!(matches!(found, Ok(Some(1 | 2))), "seed {seed}: {found:?}");
    }
}

#[tokio::test]
async fn a_deletion_by_time_keeps_later_snapshots() {
    for seed in 0..100 {
        let world = World::new().await;
        let (deleter, writer) = (world.snapshots(seed), world.snapshots(seed + 1_000));
        let (id, now_ms) = (id(), world.clock.now_ms());
        let save = |text: &'static str| {
            let (writer, id) = (writer.clone(), id.clone());
            async move {
                let payload = Payload::new(Codec::Text, text);
                writer.save(&id, number(7), payload).await
            }
        };
        save("old").await.unwrap();
        world.clock.advance(Duration::from_millis(1));
        let until = Criteria::ALL.until_ms(now_ms);
        let (deleted, saved) = futures::join!(deleter.delete(&id, until), save("new"));
        deleted.unwrap();
        saved.unwrap();
        let found = writer.load(&id, Criteria::ALL).await.unwrap();
        let found = found.map(|found| found.payload);
        assert_eq!(found, Some(Payload::new(Codec::Text, "new")), "seed {seed}");
    }
}
