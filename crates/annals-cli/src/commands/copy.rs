//! `annals copy`: journals, snapshots and durable state from one layout or store to another.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use annals::copy::{Copied, Copier, CopyEndpoint, Outcome};
use annals::items::{Items, TableName, TableSpec, missing_table};
use annals::layout::Tables;
use annals::store::Store;
use annals::{Error, ErrorKind, PersistenceId, Result};
use futures::TryStreamExt;
use indicatif::ProgressBar;
use serde_json::{Map, Value as Json, json};

use super::Context;
use crate::open::{self, Absent};
use crate::output::{ABSENT, Output, exit_code, print_error, print_line, print_note};
use crate::progress;
use crate::side::{SideText, share_store};

/// A line tells how far it is after so many events.
const TOLD: u64 = 500;

/// Copy the events of ids, their snapshots and their durable state from one layout or store to
/// another, and compare all of it.
///
/// A SIDE is a layout (annals, akka, j5ik2o), a settings file, or settings such as
/// `layout=akka,data=./old`; what it does not say is as the global options say. What was cut off is
/// gone on with by the same command. Nothing in the target is overwritten. Exits with 3 where the
/// target has something of its own, having copied the other ids.
#[derive(Debug, clap::Args)]
pub(crate) struct Copy {
    /// Where from
    #[arg(long, value_name = "SIDE")]
    from: SideText,
    /// Where to
    #[arg(long, value_name = "SIDE")]
    to: SideText,
    /// Whose events [default: everybody's]
    persistence_ids: Vec<PersistenceId>,
    /// Only ids that begin so
    #[arg(
        long,
        value_name = "P",
        default_value = "",
        conflicts_with = "persistence_ids"
    )]
    prefix: String,
    /// Leave snapshots out
    #[arg(long)]
    no_snapshots: bool,
    /// Leave durable state out
    #[arg(long)]
    no_states: bool,
    /// Delete in the target what the source has not: events and snapshots that it has deleted since
    /// they were copied, and ids that it has purged, wherever they came from
    #[arg(long)]
    deletions: bool,
}

/// Both sides, open.
struct Opened {
    from: CopyEndpoint,
    to: CopyEndpoint,
    /// The stores, one where both sides are in it.
    stores: Vec<Store>,
}

impl Copy {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let opened = self.open(context).await?;
        let told = Arc::new(Told::new(context.output));
        let teller = told.clone();
        let copier = Copier::new(opened.from, opened.to).on_progress(move |more| teller.add(more));
        let copier = match self.deletions {
            true => copier.with_deletions(),
            false => copier,
        };
        let mut outcomes = match self.persistence_ids.is_empty() {
            true => copier.all(&self.prefix),
            false => copier.ids(self.persistence_ids),
        };
        let mut ended = Ended::default();
        let listed = loop {
            match outcomes.try_next().await {
                Ok(Some(outcome)) => ended.add(&told, &outcome)?,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        told.finish(&ended)?;
        let costs = opened.stores.iter();
        let cost = costs.map(|store| store.counts().total().cost).sum();
        context.output.cost(cost)?;
        listed.map(|()| ended.code())
    }

    /// Opens both sides: the source as it is, the target with its tables.
    async fn open(&self, context: &Context) -> Result<Opened> {
        let side = |text: &SideText| -> Result<Context> {
            Ok(Context {
                settings: text.settings(&context.settings)?,
                output: context.output,
            })
        };
        let (from, to) = (side(&self.from)?, side(&self.to)?);
        let (old, new) = (self.tables(&from)?, self.tables(&to)?);
        let is_shared = share_store(&from.settings, &to.settings);
        if let Some(name) = old.iter().find(|name| is_shared && new.contains(name)) {
            return Err(Error::invalid(format!(
                "both sides are one table; name another layout, store or table for one of them. table=`{name}`"
            )));
        }
        let source = open::store(&from.settings, Absent::Empty).await?;
        let table = from.settings.tables()?.journal;
        check_there(&source, &table).await?;
        let target = match is_shared {
            true => source.clone(),
            false => open::store(&to.settings, Absent::Create).await?,
        };
        to.make_tables(&target).await?;
        let opened = Opened {
            from: self.side(&from, &source).await?,
            to: self.side(&to, &target).await?,
            stores: match is_shared {
                true => vec![source],
                false => vec![source, target.clone()],
            },
        };
        self.check_target(&to, (&target, &opened)).await?;
        opened.to.journal.prepare().await?;
        opened.stores.iter().for_each(|store| {
            store.take_counts();
        });
        Ok(opened)
    }

    /// The tables that this copy has to do with.
    fn tables(&self, side: &Context) -> Result<Vec<TableName>> {
        let tables = side.settings.tables()?;
        let Tables {
            journal,
            snapshot,
            state,
        } = tables;
        let snapshot = Some(snapshot).filter(|_| !self.no_snapshots);
        let state = state.filter(|_| !self.no_states);
        let all = [Some(journal), snapshot, state].into_iter().flatten();
        Ok(all.map(|table| table.name().clone()).collect())
    }

    async fn side(&self, side: &Context, store: &Store) -> Result<CopyEndpoint> {
        let snapshots = match self.no_snapshots {
            true => None,
            false => side.snapshots_in(store).await?,
        };
        let states = match self.no_states {
            true => None,
            false => side.states_in(store).await?,
        };
        let endpoint = CopyEndpoint::new(side.journal_in(store).await?);
        Ok(endpoint.snapshots(snapshots).states(states))
    }

    /// Refuses a target that lacks tables for what the source has.
    async fn check_target(&self, side: &Context, (store, opened): (&Store, &Opened)) -> Result<()> {
        let tables = side.settings.tables()?;
        check_there(store, &tables.journal).await?;
        if opened.from.snapshots.is_some() {
            check_there(store, &tables.snapshot).await?;
        }
        match (&opened.from.states, &tables.state) {
            (Some(_), Some(table)) => check_there(store, table).await,
            (Some(states), None) if !matches!(states.ids("").try_next().await, Ok(None)) => {
                let layout = side.settings.layout;
                print_note(&format!(
                    "annals: durable state is not copied: layout {layout} has none"
                ));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

async fn check_there(store: &Store, table: &TableSpec) -> Result<()> {
    match store.describe_table(table.name()).await? {
        Some(_) => Ok(()),
        None => Err(missing_table(table.name())),
    }
}

/// How far it is, for whoever waits.
struct Told {
    output: Output,
    bar: ProgressBar,
    all: Mutex<Copied>,
}

impl Told {
    fn new(output: Output) -> Self {
        Self {
            output,
            bar: progress::counter("events copied or compared"),
            all: Mutex::default(),
        }
    }

    fn add(&self, more: &Copied) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let thousands = |all: &Copied| passed(all) / TOLD;
        let before = thousands(&all);
        *all += *more;
        self.bar.set_position(passed(&all));
        if self.output.is_json() && thousands(&all) > before {
            // What cannot be printed is told with the first outcome.
            let _ = print_line(&json!({"progress": object(&all)}).to_string());
        }
    }

    fn finish(&self, ended: &Ended) -> Result<()> {
        self.bar.finish_and_clear();
        let all = *self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let mut totals = object(&all);
        totals.insert("ids".to_owned(), ended.ids.into());
        totals.insert("absent".to_owned(), ended.absent.into());
        totals.insert("failed".to_owned(), ended.failed.into());
        let ids = ended.ids;
        let mut text = format!(
            "{ids} ids: {} events copied, {} were there, {} verified; {} snapshots, {} values copied",
            all.events, all.present, all.verified, all.snapshots, all.states
        );
        for (count, what) in [
            (all.kept, "events kept that the source has deleted"),
            (all.snapshots_kept, "snapshots kept that the source has not"),
            (all.ids_kept, "ids kept that the source has not"),
            (all.snapshots_deleted, "snapshots deleted"),
            (all.ids_purged, "ids purged"),
            (ended.absent, "ids are not there"),
            (ended.failed, "ids failed"),
        ] {
            if count > 0 {
                text.push_str(&format!("; {count} {what}"));
            }
        }
        self.output.line(&json!({"copied": totals}), &text)
    }
}

/// How many events of the source have been dealt with.
fn passed(copied: &Copied) -> u64 {
    copied.events + copied.present
}

/// What became of all ids so far.
#[derive(Default)]
struct Ended {
    ids: u64,
    absent: u64,
    failed: u64,
    worst: Option<ErrorKind>,
}

impl Ended {
    fn add(&mut self, told: &Told, outcome: &Outcome) -> Result<()> {
        let id = outcome.persistence_id.as_str();
        self.ids += 1;
        self.absent += u64::from(!outcome.is_found);
        if let Some(failure) = &outcome.failure {
            self.failed += 1;
            self.worst = Some(worse(self.worst, failure.kind()));
            told.bar.suspend(|| print_error(failure));
        }
        if !told.output.is_json() {
            return Ok(());
        }
        let mut line = Map::from_iter([("persistence_id".to_owned(), id.into())]);
        line.extend(object(&outcome.copied));
        line.insert("is_done".to_owned(), outcome.failure.is_none().into());
        print_line(&Json::Object(line).to_string())
    }

    fn code(&self) -> ExitCode {
        match self.worst {
            Some(kind) => exit_code(kind),
            None if self.absent > 0 => ExitCode::from(ABSENT),
            None => ExitCode::SUCCESS,
        }
    }
}

/// The kind that wants a person sooner: what does not parse, then what is wrong with the call, then
/// what differs; what may pass by itself comes last.
fn worse(one: Option<ErrorKind>, other: ErrorKind) -> ErrorKind {
    let severity = |kind: &ErrorKind| match kind {
        ErrorKind::Unavailable => 0,
        ErrorKind::Conflict => 1,
        ErrorKind::Invalid => 2,
        _ => 3,
    };
    one.into_iter().fold(other, |one, other| {
        std::cmp::max_by_key(one, other, severity)
    })
}

fn object(copied: &Copied) -> Map<String, Json> {
    [
        ("events", copied.events),
        ("present", copied.present),
        ("verified", copied.verified),
        ("kept", copied.kept),
        ("ids_kept", copied.ids_kept),
        ("ids_purged", copied.ids_purged),
        ("snapshots", copied.snapshots),
        ("snapshots_present", copied.snapshots_present),
        ("snapshots_kept", copied.snapshots_kept),
        ("snapshots_deleted", copied.snapshots_deleted),
        ("states", copied.states),
        ("states_present", copied.states_present),
    ]
    .into_iter()
    .map(|(name, count)| (name.to_owned(), count.into()))
    .collect()
}
