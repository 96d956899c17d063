//! The tables of akka-persistence-dynamodb 1.x and pekko-persistence-dynamodb, journal and
//! snapshots. Their bytes: `docs/format.md`.

mod deletion;
mod feed;
mod format;
mod hints;
mod ids;
mod keys;
mod markers;
mod reader;
mod record;
mod row;
mod snapshots;
mod tail;
mod verify;

pub(crate) use format::AkkaJournal;
pub(crate) use hints::hints;
pub(crate) use snapshots::AkkaSnapshots;

use crate::settings::{AnyLayout, name_or};
use annals::items::{IndexSpec, KeyAttribute, KeySchema, TableSpec};
use annals::layout::Tables;
use annals::{Error, Result};

pub(crate) fn tables(settings: &AnyLayout) -> Result<Tables> {
    if let Some(name) = &settings.state_table {
        return Err(
            Error::invalid("layout akka has no durable state; leave state-table out")
                .fact("name", name),
        );
    }
    let key = |sort| KeySchema::new(KeyAttribute::text("par")).sorted(KeyAttribute::number(sort));
    let journal = name_or(settings.journal_table.as_ref(), "akka-persistence")?;
    let snapshot = name_or(
        settings.snapshot_table.as_ref(),
        "akka-persistence-snapshot",
    )?;
    // The plugin finds the newest snapshot by time through this index, with a consistent read.
    let by_time = IndexSpec::local("ts-idx".parse()?, key("ts"));
    let journal = TableSpec::new(journal, key("num"))?;
    let snapshot = TableSpec::new(snapshot, key("seq"))?.with_index(by_time)?;
    Ok(Tables::new(journal, snapshot))
}
