//! Custom resolvers for j5ik2o's tables, for events, snapshots and durable state, with ordered and
//! unordered keys.

use std::sync::Arc;

use annals::items::{Items, Scan, Value, scan_all};
use annals::journal::{Journal, Window};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::snapshot::{Criteria, Snapshots};
use annals::state::States;
use annals::store::Store;
use annals::{Codec, Event, ManualClock, Payload, PersistenceId, Result};
use annals_jvm::j5ik2o::{
    J5ik2oJournal, J5ik2oSnapshots, J5ik2oStates, PartitionKeyResolver, Resolvers, SortKeyResolver,
};
use annals_jvm::settings::PartitionKeyKind;
use futures::TryStreamExt;

use crate::j5ik2o_plugin::j5ik2o;
use annals_testkit::journals::{after, number, text};

/// By tenant, the part before the slash.
#[derive(Debug)]
struct ByTenant {
    is_ordered: bool,
}

impl PartitionKeyResolver for ByTenant {
    fn resolve(&self, id: &PersistenceId, _number: u64) -> Result<String> {
        let id = id.as_str();
        Ok(id
            .split_once('/')
            .map_or(id, |(tenant, _)| tenant)
            .to_owned())
    }

    fn is_constant(&self) -> bool {
        true
    }
}

impl SortKeyResolver for ByTenant {
    fn resolve(&self, id: &PersistenceId, number: u64) -> Result<String> {
        let number = match self.is_ordered {
            true => format!("{number:019}"),
            false => number.to_string(),
        };
        Ok(format!("{id}#{number}"))
    }

    fn is_ordered(&self) -> bool {
        self.is_ordered
    }
}

#[tokio::test]
async fn custom_resolvers_make_the_keys() {
    for is_ordered in [true, false] {
        let settings = j5ik2o(PartitionKeyKind::PersistenceIdBased);
        let items: Arc<dyn Items> = Arc::new(Memory::new());
        let tables = settings.tables().unwrap();
        for table in tables.all() {
            items.create_table(table, Default::default()).await.unwrap();
        }
        let resolvers = || Resolvers {
            partition: Arc::new(ByTenant { is_ordered }),
            sort: Arc::new(ByTenant { is_ordered }),
        };
        let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
        let store = Store::from(items.clone()).with_clock(clock);

        let layout = J5ik2oJournal::open_with(&store, &settings, resolvers()).unwrap();
        let journal = Journal::new(Arc::new(layout), &store);
        let layout = J5ik2oSnapshots::open_with(&store, &settings, resolvers()).unwrap();
        let snapshots = Snapshots::new(Arc::new(layout), &store);
        let layout = J5ik2oStates::open_with(&store, &settings, resolvers()).unwrap();
        let states = States::new(Arc::new(layout), &store);

        let ids = ["acme/cart", "acme/cart-2", "globex/cart"].map(|id| id.parse().unwrap());
        for id in &ids {
            for n in 0..12 {
                let event = text(format!("{id} {n}"));
                journal.append(id, after(n), event).await.unwrap();
            }
            journal.delete_to(id, number(3)).await.unwrap();
            let state = Payload::new(Codec::Text, id.to_string());
            snapshots.save(id, number(12), state.clone()).await.unwrap();
            states.upsert(id, 1, state).await.unwrap();
        }
        for id in &ids {
            let read = journal.replay(id, Window::ALL).try_collect().await;
            let read: Vec<Event> = read.unwrap();
            assert_eq!(read.len(), 9);
            assert_eq!(read[8].data.payload, format!("{id} 11"));
            let found = snapshots.load(id, Criteria::ALL).await.unwrap().unwrap();
            assert_eq!(found.payload.bytes, id.as_str());
            let value = states.get(id).await.unwrap().unwrap().value.unwrap();
            assert_eq!(value.bytes, id.as_str());
        }
        for table in tables.all() {
            let rows = scan_all(items.clone(), Arc::new(table.clone()), Scan::whole());
            let rows: Vec<_> = rows.try_collect().await.unwrap();
            let of_acme = rows.iter().filter(|row| {
                let sort = row.get("skey").and_then(Value::as_str).unwrap();
                sort.starts_with("acme/")
            });
            assert!(of_acme.clone().count() >= 2);
            for row in of_acme {
                assert_eq!(row.get("pkey").and_then(Value::as_str), Some("acme"));
            }
        }
    }
}
