//! Snapshots of the `j5ik2o` layout with a lagging index: with keys in order every saved snapshot is
//! found.

use std::sync::Arc;

use annals::items::{Items, Scan, scan_all};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::snapshot::Criteria;
use annals::{Codec, ManualClock, Payload, PersistenceId, Random};
use annals_testkit::journals::number;
use annals_testkit::lagging::{Lag, Lagging};
use annals_testkit::store;
use futures::TryStreamExt;

use crate::j5ik2o_stores_plugin::{ID, PluginSnapshots, j5ik2o};

#[tokio::test]
async fn snapshots_not_yet_in_the_index_are_loaded_and_deleted() {
    let settings = j5ik2o();
    let items: Arc<dyn Items> = Arc::new(Lagging::new(Arc::new(Memory::new()), Lag::Held));
    let plugin = PluginSnapshots::new(&items, &settings);
    let created = items.create_table(&plugin.table, Default::default());
    created.await.unwrap();
    let clock = Arc::new(ManualClock::at_ms(1_000));
    let snapshots = settings
        .snapshots(&store(items.clone(), clock, Random::seeded(1)))
        .unwrap();
    let id: PersistenceId = ID.parse().unwrap();
    for n in 1..=3 {
        let state = Payload::new(Codec::Text, "x");
        snapshots.save(&id, number(n), state).await.unwrap();
    }
    assert_eq!(
        plugin.load(ID, None, None).await,
        None,
        "the plugin replays all"
    );
    let found = snapshots.load(&id, Criteria::ALL).await.unwrap();
    assert_eq!(found.unwrap().sequence_number, number(3));
    assert_eq!(plugin.delete(ID, 3).await, 0, "and deletes nothing");
    let left = async || {
        let all = scan_all(items.clone(), plugin.table.clone().into(), Scan::whole());
        all.try_collect::<Vec<_>>().await.unwrap().len()
    };
    snapshots
        .delete(&id, Criteria::at(number(3)))
        .await
        .unwrap();
    assert_eq!(left().await, 2);
    snapshots.delete(&id, Criteria::ALL).await.unwrap();
    assert_eq!(left().await, 0);
}
