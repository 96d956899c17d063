//! `annals import`: put items from DynamoDB JSON lines into a table, overwriting nothing.
//!
//! Guarantees: an existing item is unchanged without `--replace`; importing the same lines again
//! changes nothing; an invalid line is reported by its number.

use std::cell::Cell;
use std::collections::HashSet;
use std::future::ready;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use annals::items::{
    Condition, Items, Key, KeyAttribute, KeySchema, KeyType, TableName, TableSpec, Write,
    WriteError,
};
use annals::log::{Log, LogTables, Span, Time};
use annals::store::Store;
use annals::{Error, Result};
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use serde_json::json;

use super::{Context, Purpose, existing_table};
use crate::lines::{Entry, Lines};
use crate::open::Access;
use crate::output::counted;
use crate::progress;

/// Items in flight at once.
const CONCURRENCY: usize = 64;
/// Items in a batch of `--replace`: many requests, bounded memory.
const BATCH: usize = 500;
/// How many of the differing items an error lists.
const LISTED_MAX: usize = 5;

/// Import items from lines of `{"Item":{…}}`, as written by `annals export` and by DynamoDB's own
/// export
#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// The table
    table: TableName,
    /// The file to read [default: standard input]
    file: Option<PathBuf>,
    /// Create the table with this key if it is missing, such as `id:S` or `par:S,num:N`. A table of the
    /// layout (--layout) or the log gets its indexes, too, without which a layout cannot read it; any
    /// other table has none
    #[arg(long, value_name = "KEY", value_parser = parse_key)]
    key: Option<KeySchema>,
    /// Overwrite existing items
    #[arg(long)]
    replace: bool,
}

fn parse_key(text: &str) -> Result<KeySchema> {
    let attribute = |part: &str| -> Result<KeyAttribute> {
        let key_type = |letter: &str| match letter {
            "S" => Some(KeyType::S),
            "N" => Some(KeyType::N),
            "B" => Some(KeyType::B),
            _ => None,
        };
        let parsed = part.rsplit_once(':');
        let parsed = parsed.and_then(|(name, letter)| Some((name, key_type(letter)?)));
        match parsed {
            Some((name, key_type)) if !name.is_empty() => Ok(KeyAttribute::new(name, key_type)),
            _ => Err(Error::invalid(
                "a key is NAME:S, NAME:N or NAME:B, and a second one after a comma",
            )),
        }
    };
    match text.split_once(',') {
        None => Ok(KeySchema::new(attribute(text)?)),
        Some((first, second)) => Ok(KeySchema::new(attribute(first)?).sorted(attribute(second)?)),
    }
}

/// The outcome for all items.
#[derive(Clone, Debug, Default)]
struct Tally {
    imported: u64,
    unchanged: u64,
    differing: u64,
    /// Some of the keys that differ.
    listed: Vec<Key>,
    /// The error that ended the import.
    failure: Option<Error>,
}

impl Tally {
    fn into_error(self) -> Option<Error> {
        if self.failure.is_some() || self.differing == 0 {
            return self.failure;
        }
        let listed: Vec<_> = self.listed.iter().map(|key| format!("`{key}`")).collect();
        Some(Error::conflict(format!(
            "items exist with other contents and were not changed; use --replace to overwrite them. items={}, among them {}",
            self.differing,
            listed.join(", ")
        )))
    }
}

impl Import {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let lines = self.open_input().await?;
        let (store, table, is_missing) = self.open_table(context).await?;
        let mut entries = std::pin::pin!(lines.entries(&table).peekable());
        if is_missing {
            // A key that does not fit the items is found in the first one, before a table has it.
            entries.as_mut().next_if(Result::is_err).await.transpose()?;
            store.create_table(&table, Default::default()).await?;
        }
        let items: Arc<dyn Items> = store.items().clone();
        let log = self.log(context, &store).await?;
        if let Some(log) = &log {
            // The import may add slots that the index does not have.
            log.mark_index_incomplete().await?;
        }
        let tally = if self.replace {
            replace_all(&*items, &table, entries).await
        } else {
            add_all(&*items, &table, entries).await
        };
        if let Some(log) = &log {
            // Always: a concurrent sweep may have marked the index as complete.
            log.link(Span::new(Time::FIRST, Time::FIRST)?).await?;
        }
        self.print(context, &tally)?;
        context.print_cost(&store)?;
        match tally.into_error() {
            None => Ok(ExitCode::SUCCESS),
            Some(error) => Err(error),
        }
    }

    /// The log, if the table is its event table.
    async fn log(&self, context: &Context, store: &Store) -> Result<Option<Log>> {
        let tables = LogTables::new(&context.settings.log)?;
        if *tables.event.name() != self.table {
            return Ok(None);
        }
        for table in tables.all() {
            if store.describe_table(table.name()).await?.is_none() {
                return Ok(None);
            }
        }
        let log = context.log_on(store, Purpose::Write).await?;
        Ok(Some(log))
    }

    /// The table to import into, and whether it must be created, with `--key`.
    async fn open_table(&self, context: &Context) -> Result<(Store, Arc<TableSpec>, bool)> {
        let Some(key) = &self.key else {
            let store = context.existing_store(Access::Write).await?;
            let table = existing_table(&*store, &self.table).await?;
            return Ok((store, table, false));
        };
        // An improper key creates no store.
        let plain = TableSpec::new(self.table.clone(), key.clone())?;
        let store = context.store().await?;
        let Some(found) = store.describe_table(&self.table).await? else {
            return Ok((store, Arc::new(self.with_indexes(context, plain)?), true));
        };
        if found.key() != key {
            return Err(Error::invalid(
                "table exists with another key; leave --key out or name another table",
            )
            .fact("table", &self.table)
            .fact("its key", found.key())
            .fact("--key", key));
        }
        Ok((store, Arc::new(found), false))
    }

    /// The table to create. One of the layout or the log has indexes, and DynamoDB cannot add all
    /// kinds of indexes later.
    fn with_indexes(&self, context: &Context, plain: TableSpec) -> Result<TableSpec> {
        let (layout, log) = (
            context.settings.tables()?,
            LogTables::new(&context.settings.log)?,
        );
        let mut ours = layout.all().chain(log.all());
        match ours.find(|table| *table.name() == self.table) {
            None => Ok(plain),
            Some(table) if table.key() == plain.key() => Ok(table.clone()),
            Some(table) => Err(Error::invalid(
                "the settings name this table, with another key; leave --key out and run `annals tables create` first, or set the layout and tables that the items are from",
            )
            .fact("table", &self.table)
            .fact("its key", table.key())
            .fact("--key", plain.key())),
        }
    }

    fn print(&self, context: &Context, tally: &Tally) -> Result<()> {
        let (imported, unchanged, differing) = (tally.imported, tally.unchanged, tally.differing);
        let object = json!({
            "table": self.table.as_str(),
            "imported": imported,
            "unchanged": unchanged,
            "differing": differing,
        });
        let text = format!(
            "{} imported, {unchanged} unchanged, {differing} differ",
            counted(imported, "item")
        );
        context.output.line(&object, &text)
    }

    async fn open_input(&self) -> Result<Lines> {
        let Some(path) = &self.file else {
            let bar = progress::counter("bytes read");
            return Ok(Lines::new(tokio::io::stdin(), bar));
        };
        let unread = |cause| {
            Error::invalid("cannot read the file to import")
                .fact("file", path.display())
                .because(cause)
        };
        let file = tokio::fs::File::open(path).await.map_err(unread)?;
        let total = file.metadata().await.map_err(unread)?.len();
        let bar = progress::bytes("importing", total);
        Ok(Lines::new(file, bar))
    }
}

/// A failure ends reading; puts in flight finish and are counted.
async fn add_all(
    items: &dyn Items,
    table: &TableSpec,
    entries: impl Stream<Item = Result<Entry>>,
) -> Tally {
    let has_failed = Cell::new(false);
    let entries = entries.take_while(|_| ready(!has_failed.get()));
    let added = entries.map(|entry| async { add(items, table, entry?).await });
    let mut added = std::pin::pin!(added.buffer_unordered(CONCURRENCY));
    let mut tally = Tally::default();
    while let Some(outcome) = added.next().await {
        match outcome {
            Ok(Added::New) => tally.imported += 1,
            Ok(Added::Unchanged) => tally.unchanged += 1,
            Ok(Added::Differs(key)) => {
                tally.differing += 1;
                if tally.listed.len() < LISTED_MAX {
                    tally.listed.push(key);
                }
            }
            Err(error) => {
                has_failed.set(true);
                tally.failure.get_or_insert(error);
            }
        }
    }
    tally
}

async fn add(items: &dyn Items, table: &TableSpec, entry: Entry) -> Result<Added> {
    let Entry { key, item } = entry;
    match items.put(table, item.clone(), Condition::Absent).await {
        Ok(_) => Ok(Added::New),
        Err(WriteError::Refused { existing, .. }) if existing.as_deref() == Some(&item) => {
            Ok(Added::Unchanged)
        }
        Err(WriteError::Refused { .. }) => Ok(Added::Differs(key)),
        Err(WriteError::Failed(error)) => Err(error),
    }
}

enum Added {
    New,
    Unchanged,
    Differs(Key),
}

async fn replace_all(
    items: &dyn Items,
    table: &TableSpec,
    entries: impl Stream<Item = Result<Entry>>,
) -> Tally {
    let mut tally = Tally::default();
    let mut batches = std::pin::pin!(entries.try_ready_chunks(BATCH));
    while let Some(batch) = batches.next().await {
        // Items before an invalid line are written before it is reported.
        let (batch, invalid_line) = match batch {
            Ok(batch) => (batch, None),
            Err(stream::TryReadyChunksError(batch, error)) => (batch, Some(error)),
        };
        let written = replace(items, table, batch, &mut tally.imported).await;
        tally.failure = written.err().or(invalid_line);
        if tally.failure.is_some() {
            break;
        }
    }
    tally
}

async fn replace(
    items: &dyn Items,
    table: &TableSpec,
    batch: Vec<Entry>,
    imported: &mut u64,
) -> Result<()> {
    for writes in distinct(batch) {
        let count = writes.len() as u64;
        items.write(table, writes).await.inspect_err(|error| {
            *imported += count - error.remaining.len() as u64;
        })?;
        *imported += count;
    }
    Ok(())
}

/// Splits entries, in order, into batches without a repeated key.
fn distinct(entries: Vec<Entry>) -> Vec<Vec<Write>> {
    let mut batches = Vec::new();
    let mut batch = Vec::new();
    let mut seen = HashSet::new();
    for Entry { key, item } in entries {
        if seen.contains(&key) {
            batches.push(std::mem::take(&mut batch));
            seen.clear();
        }
        seen.insert(key);
        batch.push(Write::Put(item));
    }
    batches.push(batch);
    batches
}
