//! A view whose rows are right only if every event was applied once, and those of an id in order.
//!
//! Rows of the ids `Step|chain-N` are deleted and created again. The ids `Step|sum-N-M` with the same N
//! have one row, which several shares change, so it does not depend on the order of ids.

use std::collections::BTreeMap;

use annals::entity::{EntityEvent, Stored};
use annals::feed::Filter;
use annals::journal::Window;
use annals::projection::{Fed, View, ascending};
use annals::{Annals, PersistenceId, Random};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

const CHAINS: u64 = 24;
const SUMS: u64 = 6;
const IDS_OF_SUM: u64 = 5;

/// An event.
#[derive(Debug, Serialize, Deserialize, EntityEvent)]
pub(super) enum Step {
    Made,
    /// Deletes the row of a chain.
    Closed,
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Stored)]
pub(super) struct Row {
    events: u64,
    hash: u64,
}

impl Row {
    /// The row after an event.
    fn after(&self, id: &PersistenceId, number: u64) -> Self {
        let seed = id.as_str().bytes().fold(number, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(byte.into())
        });
        let event = Random::seeded(seed).bits();
        let hash = match is_chain(id) {
            true => self.hash.rotate_left(1) ^ event,
            false => self.hash.wrapping_add(event),
        };
        Self {
            events: self.events + 1,
            hash,
        }
    }
}

fn is_chain(id: &PersistenceId) -> bool {
    id.as_str().starts_with("Step|chain-")
}

/// The key of the row that an id changes.
fn key(id: &PersistenceId) -> String {
    let entity = id.as_str().strip_prefix("Step|").unwrap();
    match is_chain(id) {
        true => entity.to_owned(),
        false => entity.rsplit_once('-').unwrap().0.to_owned(),
    }
}

/// The view.
pub(super) struct Chains;

impl View for Chains {
    const NAME: &'static str = "chains";
    type Event = Step;
    type Row = Row;

    fn source() -> Filter {
        Filter::new().category("Step")
    }

    fn key(event: &Fed<Step>) -> Option<String> {
        Some(key(event.id()))
    }

    fn apply(row: Option<Row>, event: &Fed<Step>) -> Option<Row> {
        match event.event {
            Step::Closed if is_chain(event.id()) => None,
            _ => {
                let row = row.unwrap_or_default();
                Some(row.after(event.id(), event.sequence_number().get()))
            }
        }
    }

    fn order(row: &Row) -> Option<String> {
        Some(ascending(row.events))
    }
}

/// Some events, and the id to append them to.
pub(super) fn draw(random: &Random) -> (PersistenceId, Vec<Step>) {
    let id = match random.below(2) {
        0 => format!("Step|chain-{}", random.below(CHAINS)),
        _ => format!(
            "Step|sum-{}-{}",
            random.below(SUMS),
            random.below(IDS_OF_SUM)
        ),
    };
    let step = |_| match random.below(8) {
        0 => Step::Closed,
        _ => Step::Made,
    };
    (
        id.parse().unwrap(),
        (0..=random.below(3)).map(step).collect(),
    )
}

/// The rows according to the journal; and the number of events.
pub(super) async fn fold(annals: &Annals) -> (BTreeMap<String, Row>, u64) {
    let (mut rows, mut events) = (BTreeMap::<String, Row>::new(), 0);
    let ids: Vec<PersistenceId> = annals
        .journal()
        .persistence_ids("Step|")
        .try_collect()
        .await
        .unwrap();
    for id in ids {
        let mut replay = annals.journal().replay(&id, Window::ALL);
        while let Some(event) = replay.try_next().await.unwrap() {
            events += 1;
            match &*event.data.manifest {
                "Closed" if is_chain(&id) => drop(rows.remove(&key(&id))),
                "Closed" | "Made" => {
                    let row = rows.entry(key(&id)).or_default();
                    *row = row.after(&id, event.sequence_number.get());
                }
                other => panic!("{other}"),
            }
        }
    }
    (rows, events)
}

/// The rows of the view, which are the same in both lists.
pub(super) async fn rows(annals: &Annals) -> BTreeMap<String, Row> {
    let rows = annals.projections().rows::<Chains>().unwrap();
    let listed: Vec<(String, Row)> = rows.list().limit(9).all().try_collect().await.unwrap();
    let ordered: Vec<(String, Row)> = rows.ordered().limit(7).all().try_collect().await.unwrap();
    assert!(ordered.iter().map(|(_, row)| row.events).is_sorted());
    assert_eq!(ordered.len(), listed.len());
    let ordered: BTreeMap<String, Row> = ordered.into_iter().collect();
    assert_eq!(ordered, listed.into_iter().collect());
    ordered
}
