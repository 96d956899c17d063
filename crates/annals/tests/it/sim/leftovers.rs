//! Orphaned chunks at the end of a run: interrupted writes leave chunks, and a sweep deletes only
//! those.

use std::sync::Arc;
use std::time::Duration;

use annals::Random;
use annals::items::{Item, Scan, scan_all};
use annals::layout::Layout;
use annals::snapshot::Criteria;
use annals::verify::Verify;
use annals_jvm::AnyLayout;
use futures::TryStreamExt;

use super::IDS;
use super::process::{World, id};
use annals_testkit::journals::open_at;

const HOUR: Duration = Duration::from_secs(3_600);

/// Sweeps all orphans. Acknowledged writes are checked afterwards.
pub(super) async fn sweep(world: &World, random: &Random) {
    world.clock.advance(2 * HOUR);
    let journal = open_at(world.items.clone(), world.clock.clone(), 0).await;
    let snapshots = world.open_snapshots(world.items.clone(), random);
    let states = world.open_states(world.items.clone(), random);
    for verify in [Verify::Repair, Verify::Check] {
        for swept in [
            journal.orphans(HOUR, verify).await,
            snapshots.orphans(HOUR, verify).await,
            states.orphans(HOUR, verify).await,
        ] {
            match (swept, verify) {
                (Ok(_), Verify::Repair) => {}
                (Ok(left), _) if left.is_empty() => {}
                (other, _) => world.record().violated(format!("after a sweep: {other:?}")),
            }
        }
    }
}

/// After everything is deleted there are no chunks left.
pub(super) async fn check(world: &World, random: &Random) {
    let snapshots = world.open_snapshots(world.items.clone(), random);
    let states = world.open_states(world.items.clone(), random);
    for index in 0..IDS {
        let deleted = snapshots.delete(&id(index), Criteria::ALL).await;
        deleted.unwrap();
        states.delete(&id(index), None).await.unwrap();
    }
    let settings = AnyLayout::default();
    let tables = settings.tables().unwrap();
    for table in [tables.snapshot, tables.state.unwrap()] {
        let name = table.name().clone();
        let all = scan_all(world.items.clone(), Arc::new(table), Scan::whole());
        let all: Vec<Item> = all.try_collect().await.unwrap();
        let parts = all.iter().filter(|item| item.get("b").is_some()).count();
        if parts > 0 {
            let what = format!("{parts} parts are left in {name}");
            world.record().violated(what);
        }
    }
}
