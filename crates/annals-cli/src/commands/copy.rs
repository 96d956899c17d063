//! `annals copy`: copy journals, snapshots and durable state from one layout or store to another.
//!
//! Guarantees: nothing in the target is overwritten; the same command resumes an interrupted copy.

use std::fmt;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use annals::copy::{Copied, Copier, CopyEndpoint, Outcome};
use annals::items::{TableName, TableSpec, missing_table};
use annals::layout::Tables;
use annals::store::Store;
use annals::{Error, ErrorKind, PersistenceId, Result};
use futures::TryStreamExt;
use indicatif::ProgressBar;
use serde_json::{Map, Value as Json, json};

use super::Context;
use crate::args::{Global, given};
use crate::copy_endpoint::{EndpointArg, is_same_store};
use crate::open::{Absent, Access};
use crate::output::{ABSENT, Output, counted, exit_code, print_error, print_line, print_note};
use crate::progress;
use crate::settings::StoreKind;

/// A JSON progress line is printed after this many events.
const PROGRESS_EVENTS: u64 = 500;

/// Copy events, snapshots and durable state from one layout or store to another, and verify the copy.
///
/// SOURCE and TARGET are a layout (annals, akka, j5ik2o), a settings file, or settings such as
/// `layout=akka,data=./old`; the global options apply to both. The same command resumes an
/// interrupted copy. Nothing in the target is overwritten: ids with other data there are reported with
/// exit code 3, after all other ids are copied. On the layout akka, journals of other names in the same
/// table are not copied: copy each with its journal-name.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Settings of --from and --to override options and variables, which override the settings file. But
--region or --endpoint that differs from a settings file of --from or --to is an error.")]
pub(crate) struct Copy {
    /// The source: a layout, a settings file, or settings such as layout=akka,data=./old. On akka, other
    /// journals in the same table are named and not copied: copy each with its journal-name
    #[arg(long, value_name = "SOURCE")]
    from: EndpointArg,
    /// The target, in the same forms
    #[arg(long, value_name = "TARGET")]
    to: EndpointArg,
    /// The persistence ids [default: all]
    persistence_ids: Vec<PersistenceId>,
    /// Only ids with this prefix
    #[arg(
        long,
        value_name = "P",
        default_value = "",
        conflicts_with = "persistence_ids"
    )]
    prefix: String,
    /// Do not copy snapshots
    #[arg(long)]
    no_snapshots: bool,
    /// Do not copy durable state
    #[arg(long)]
    no_states: bool,
    /// Delete in the target what the source does not have: events and snapshots deleted since they were
    /// copied, and every id that is not in the source
    #[arg(long)]
    deletions: bool,
}

/// Source and target, open.
struct Opened {
    from: CopyEndpoint,
    to: CopyEndpoint,
    /// Where both are.
    route: Route,
    /// The stores; one if both are in the same.
    stores: Vec<Store>,
}

impl Copy {
    /// Refuses an option that a settings file contradicts: the file would win, because it belongs to
    /// one of the two.
    pub(crate) fn check_options(&self, global: &Global) -> Result<()> {
        let options = [
            ("region", given(&global.region), global.region_is_typed),
            (
                "endpoint",
                given(&global.endpoint),
                global.endpoint_is_typed,
            ),
        ];
        for (key, value, is_typed) in options {
            let Some(value) = value.filter(|_| is_typed) else {
                continue;
            };
            self.from.check_option("--from", key, &value)?;
            self.to.check_option("--to", key, &value)?;
        }
        Ok(())
    }

    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let opened = self.open(context).await?;
        let source = opened.from.journal.clone();
        let progress = Arc::new(Progress::new(context.output));
        let reporter = progress.clone();
        let copier =
            Copier::new(opened.from, opened.to).on_progress(move |more| reporter.add(more));
        let copier = match self.deletions {
            true => copier.with_deletions(),
            false => copier,
        };
        let mut outcomes = match self.persistence_ids.is_empty() {
            true => copier.all(&self.prefix),
            false => copier.ids(self.persistence_ids),
        };
        let mut summary = Summary::default();
        let listed = loop {
            match outcomes.try_next().await {
                Ok(Some(outcome)) => summary.add(&progress, &outcome)?,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        summary.other_journals = source.other_journals();
        progress.finish(&summary, &opened.route)?;
        summary.note_other_journals();
        let costs = opened.stores.iter();
        let cost = costs.map(|store| store.counts().total().cost).sum();
        context.output.cost(cost)?;
        listed.map(|()| summary.exit_code())
    }

    /// Opens the source as it is, and the target with its tables.
    async fn open(&self, context: &Context) -> Result<Opened> {
        let endpoint = |text: &EndpointArg| -> Result<Context> {
            let settings = text.settings(&context.settings)?;
            // What names no other store is on the server.
            let is_there = is_same_store(&settings, &context.settings);
            Ok(Context {
                settings,
                output: context.output,
                server: context.server.clone().filter(|_| is_there),
            })
        };
        let (from, to) = (endpoint(&self.from)?, endpoint(&self.to)?);
        let (old, new) = (self.tables(&from)?, self.tables(&to)?);
        let is_same = is_same_store(&from.settings, &to.settings);
        if let Some(name) = old.iter().find(|name| is_same && new.contains(name)) {
            return Err(Error::invalid(
                "source and target use the same table; name another layout, store or table for one of them",
            )
            .fact("table", name));
        }
        let access = match is_same {
            true => Access::Write,
            false => Access::Read,
        };
        let source = from.open(Absent::Refuse, access).await?;
        let table = from.settings.tables()?.journal;
        check_exists(&from, &source, &table).await?;
        let target = match is_same {
            true => source.clone(),
            false => to.open(Absent::Create, Access::Write).await?,
        };
        to.make_tables(&target).await?;
        let opened = Opened {
            from: self
                .endpoint(&from, &source)
                .await
                .map_err(|error| from.with_region(error))?,
            to: self
                .endpoint(&to, &target)
                .await
                .map_err(|error| to.with_region(error))?,
            route: Route::new(&from, &to)?,
            stores: match is_same {
                true => vec![source],
                false => vec![source, target.clone()],
            },
        };
        self.check_target(&to, &target, &opened).await?;
        opened.to.journal.prepare().await?;
        opened.stores.iter().for_each(|store| {
            store.take_counts();
        });
        Ok(opened)
    }

    /// The tables that this copy reads or writes.
    fn tables(&self, endpoint: &Context) -> Result<Vec<TableName>> {
        let tables = endpoint.settings.tables()?;
        let Tables {
            journal,
            snapshot,
            state,
            ..
        } = tables;
        let snapshot = Some(snapshot).filter(|_| !self.no_snapshots);
        let state = state.filter(|_| !self.no_states);
        let all = [Some(journal), snapshot, state].into_iter().flatten();
        Ok(all.map(|table| table.name().clone()).collect())
    }

    async fn endpoint(&self, context: &Context, store: &Store) -> Result<CopyEndpoint> {
        let snapshots = match self.no_snapshots {
            true => None,
            false => context.snapshots_in(store).await?,
        };
        let states = match self.no_states {
            true => None,
            false => context.states_in(store).await?,
        };
        let endpoint = CopyEndpoint::new(context.journal_in(store).await?);
        Ok(endpoint.snapshots(snapshots).states(states))
    }

    /// Refuses a target without the tables that the source needs.
    async fn check_target(&self, to: &Context, store: &Store, opened: &Opened) -> Result<()> {
        let tables = to.settings.tables()?;
        check_exists(to, store, &tables.journal).await?;
        if opened.from.snapshots.is_some() {
            check_exists(to, store, &tables.snapshot).await?;
        }
        match (&opened.from.states, &tables.state) {
            (Some(_), Some(table)) => check_exists(to, store, table).await,
            (Some(states), None) if !matches!(states.ids("").try_next().await, Ok(None)) => {
                let layout = to.settings.layout;
                print_note(&format!(
                    "annals: durable state is not copied: layout {layout} has none"
                ));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

async fn check_exists(context: &Context, store: &Store, table: &TableSpec) -> Result<()> {
    match store.describe_table(table.name()).await? {
        Some(_) => Ok(()),
        None => Err(context.with_region(missing_table(table.name()))),
    }
}

/// Source and target, for people and programs. Without credentials: a store's settings have none.
struct Route {
    from: Place,
    to: Place,
}

struct Place {
    layout: String,
    store: &'static str,
    location: String,
    journal_table: TableName,
}

impl Place {
    fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            layout: context.settings.layout.to_string(),
            store: match (&context.server, context.settings.store) {
                (Some(_), _) => "server",
                (None, StoreKind::Embedded) => "embedded",
                (None, StoreKind::DynamoDb) => "dynamodb",
            },
            location: context.location(),
            journal_table: context.settings.tables()?.journal.name().clone(),
        })
    }

    fn object(&self) -> Json {
        json!({
            "layout": self.layout,
            "store": self.store,
            "location": self.location,
            "journal_table": self.journal_table.as_str(),
        })
    }
}

impl Route {
    fn new(from: &Context, to: &Context) -> Result<Self> {
        Ok(Self {
            from: Place::new(from)?,
            to: Place::new(to)?,
        })
    }

    fn object(&self) -> Map<String, Json> {
        let places = [("from", &self.from), ("to", &self.to)];
        let places = places.map(|(name, place)| (name.to_owned(), place.object()));
        Map::from_iter(places)
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = |place: &Place| format!("{} {}", place.layout, place.location);
        // Only the tables differ.
        let is_same = seen(&self.from) == seen(&self.to);
        let text = |place: &Place| match is_same {
            true => format!("{} {}", place.journal_table, place.location),
            false => seen(place),
        };
        write!(f, "from {} to {}", text(&self.from), text(&self.to))
    }
}

/// The progress, shown while copying.
struct Progress {
    output: Output,
    bar: ProgressBar,
    all: Mutex<Copied>,
}

impl Progress {
    fn new(output: Output) -> Self {
        Self {
            output,
            bar: progress::counter("events copied or compared"),
            all: Mutex::default(),
        }
    }

    fn add(&self, more: &Copied) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let steps = |all: &Copied| processed(all) / PROGRESS_EVENTS;
        let before = steps(&all);
        *all += *more;
        self.bar.set_position(processed(&all));
        if self.output.is_json() && steps(&all) > before {
            // A printing error is reported with the first outcome.
            let _ = print_line(&json!({"progress": object(&all)}).to_string());
        }
    }

    fn finish(&self, summary: &Summary, route: &Route) -> Result<()> {
        self.bar.finish_and_clear();
        let all = *self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let mut totals = object(&all);
        totals.extend(summary.object());
        totals.extend(route.object());
        let mut ids = format!("{} with events", counted(summary.with_events, "id"));
        if summary.with_snapshots_only > 0 {
            ids.push_str(&format!(
                ", {} with snapshots only",
                summary.with_snapshots_only
            ));
        }
        let mut text = format!(
            "{route}: {ids}; {} copied, {} already there, {} verified; {}, {} copied",
            counted(all.events, "event"),
            all.present,
            all.verified,
            counted(all.snapshots, "snapshot"),
            counted(all.states, "value"),
        );
        for (count, what) in [
            (all.kept, "events kept that the source has deleted"),
            (
                all.snapshots_kept,
                "snapshots kept that the source does not have",
            ),
            (all.ids_kept, "ids kept that the source does not have"),
            (all.snapshots_deleted, "snapshots deleted"),
            (all.ids_purged, "ids purged"),
            (summary.absent, "ids not found"),
            (summary.failed, "ids failed"),
        ] {
            if count > 0 {
                text.push_str(&format!("; {count} {what}"));
            }
        }
        self.output.line(&json!({"copied": totals}), &text)
    }
}

/// The number of processed events of the source.
fn processed(copied: &Copied) -> u64 {
    copied.events + copied.present
}

/// The outcome of all ids so far.
#[derive(Default)]
struct Summary {
    /// Outcomes: an id with events and a value has two.
    ids: u64,
    /// Ids that have, or had, events in the source.
    with_events: u64,
    /// Ids that have only snapshots in the source.
    with_snapshots_only: u64,
    /// Journals in the source's table that are not copied.
    other_journals: Vec<String>,
    absent: u64,
    failed: u64,
    worst: Option<ErrorKind>,
}

impl Summary {
    fn add(&mut self, progress: &Progress, outcome: &Outcome) -> Result<()> {
        let id = outcome.persistence_id.as_str();
        self.ids += 1;
        self.with_events += u64::from(outcome.has_events);
        self.with_snapshots_only += u64::from(outcome.has_snapshots && !outcome.has_events);
        self.absent += u64::from(!outcome.is_found);
        if let Some(failure) = &outcome.failure {
            self.failed += 1;
            self.worst = Some(worse(self.worst, failure.kind()));
            progress.bar.suspend(|| print_error(failure));
        }
        if !progress.output.is_json() {
            return Ok(());
        }
        let mut line = Map::from_iter([("persistence_id".to_owned(), id.into())]);
        line.extend(object(&outcome.copied));
        line.insert("is_done".to_owned(), outcome.failure.is_none().into());
        print_line(&Json::Object(line).to_string())
    }

    fn object(&self) -> Map<String, Json> {
        Map::from_iter([
            ("ids".to_owned(), self.ids.into()),
            ("ids_with_events".to_owned(), self.with_events.into()),
            (
                "ids_with_snapshots_only".to_owned(),
                self.with_snapshots_only.into(),
            ),
            ("absent".to_owned(), self.absent.into()),
            ("failed".to_owned(), self.failed.into()),
            (
                "other_journals".to_owned(),
                self.other_journals.clone().into(),
            ),
        ])
    }

    fn note_other_journals(&self) {
        if !self.other_journals.is_empty() {
            print_note(&format!(
                "annals: the source's table has other journals, too, which are not copied; copy each with --from layout=akka,journal-name=NAME. journals=`{}`",
                self.other_journals.join("`, `")
            ));
        }
    }

    fn exit_code(&self) -> ExitCode {
        match self.worst {
            Some(kind) => exit_code(kind),
            None if self.absent > 0 => ExitCode::from(ABSENT),
            None => ExitCode::SUCCESS,
        }
    }
}

/// The more urgent kind: `Corrupt`, then `Invalid`, then `Conflict`; `Unavailable` may pass by itself.
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
