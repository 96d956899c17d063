//! `annals snapshot`: save, load, list and delete the states of an id at sequence numbers.

use std::process::ExitCode;

use annals::snapshot::{Criteria, Snapshot as Stored};
use annals::store::Store;
use annals::{Codec, Error, ErrorKind, Payload, PersistenceId, Result, SequenceNumber};
use clap::Subcommand;
use futures::StreamExt;

use super::{Context, Purpose};
use crate::args::Offered;
use crate::columns::Rows;
use crate::output::{ABSENT, Output, print_advice, print_line, print_note};
use crate::{payload, wire};

/// The most snapshots held in memory to align their columns.
const ROWS_AT_ONCE: usize = 100;

/// Save, load, list or delete snapshots.
#[derive(Debug, Subcommand)]
pub(crate) enum Snapshot {
    /// Save a state, replacing one of the same sequence number
    Save {
        /// The persistence id
        persistence_id: PersistenceId,
        /// The state, as --codec says [default: standard input]
        state: Option<String>,
        /// The sequence number of the last event in it
        #[arg(long, value_name = "N")]
        at: SequenceNumber,
        /// The codec of the state: json, a JSON value; text, unchanged; long, int, boolean, a JSON
        /// number or boolean; bytes, cbor, protobuf, akka:N, or other:NAME for a codec of your own,
        /// base64
        #[arg(
            long,
            value_name = "C",
            default_value = "json",
            value_parser = Offered::new(payload::CODECS, wire::parse_codec),
            hide_possible_values = true
        )]
        codec: Codec,
        /// The manifest: the name of its type
        #[arg(long, value_name = "M", default_value = "")]
        manifest: String,
    },
    /// Print the newest snapshot
    Load {
        /// The persistence id
        persistence_id: PersistenceId,
        #[command(flatten)]
        bounds: Bounds,
        /// The one stored with the last append, by `append --snapshot`
        #[arg(long, conflicts_with = "Bounds")]
        riding: bool,
        /// Print a row for people with the state on lines of its own, indented, after the codec (unless
        /// it is json)
        #[arg(long, conflicts_with = "json")]
        pretty: bool,
    },
    /// Print every snapshot, newest first
    List {
        /// The persistence id
        persistence_id: PersistenceId,
        #[command(flatten)]
        bounds: Bounds,
    },
    /// Delete snapshots. Exits with 1 if there is none like that
    Delete {
        /// The persistence id
        persistence_id: PersistenceId,
        /// The one at this sequence number
        #[arg(long, value_name = "N", conflicts_with_all = ["min_seq", "max_seq"])]
        at: Option<SequenceNumber>,
        #[command(flatten)]
        bounds: Bounds,
    },
}

/// Bounds of snapshots.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Bounds {
    /// From this sequence number on
    #[arg(long, value_name = "N")]
    min_seq: Option<SequenceNumber>,
    /// Up to this sequence number
    #[arg(long, value_name = "N")]
    max_seq: Option<SequenceNumber>,
    /// Saved at this time or later: milliseconds since 1970, or like 2026-01-31T12:00:00Z
    #[arg(long, value_name = "T", value_parser = payload::parse_time)]
    min_time: Option<u64>,
    /// Saved at this time or before
    #[arg(long, value_name = "T", value_parser = payload::parse_time)]
    max_time: Option<u64>,
}

impl Bounds {
    fn criteria(&self) -> Criteria {
        let all = Criteria::ALL;
        all.at_least(self.min_seq.unwrap_or(all.min_number))
            .up_to(self.max_seq.unwrap_or(all.max_number))
            .since_ms(self.min_time.unwrap_or(all.min_time_ms))
            .until_ms(self.max_time.unwrap_or(all.max_time_ms))
    }

    fn is_given(&self) -> bool {
        let (numbers, times) = ([self.min_seq, self.max_seq], [self.min_time, self.max_time]);
        numbers.iter().any(Option::is_some) || times.iter().any(Option::is_some)
    }
}

impl Snapshot {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        match self {
            Self::Save {
                persistence_id,
                state,
                at,
                codec,
                manifest,
            } => {
                let state = payload::given_or_piped(state, "the state")?;
                let state = payload::from_typed(&codec, &state, "the state")?;
                let state = Payload::new(codec, state).manifest(manifest);
                save(context, &persistence_id, at, state).await
            }
            Self::Load {
                persistence_id,
                riding: true,
                pretty,
                ..
            } => load_riding(context, &persistence_id, pretty).await,
            Self::Load {
                persistence_id,
                bounds,
                pretty,
                ..
            } => load(context, (&persistence_id, bounds.criteria()), pretty).await,
            Self::List {
                persistence_id,
                bounds,
            } => list(context, &persistence_id, &bounds).await,
            Self::Delete {
                persistence_id,
                at,
                bounds,
            } => {
                if at.is_none() && !bounds.is_given() {
                    return Err(Error::invalid(
                        "choose some: --at N, or bounds like --max-seq N or --max-time T",
                    ));
                }
                let criteria = bounds.criteria();
                let criteria = at.map_or(criteria, |at| criteria.at_least(at).up_to(at));
                delete(context, &persistence_id, criteria).await
            }
        }
    }
}

async fn save(
    context: &Context,
    id: &PersistenceId,
    at: SequenceNumber,
    state: Payload,
) -> Result<ExitCode> {
    let (snapshots, store) = context.snapshots(Purpose::Write).await?;
    match last_event(context, &store, id).await {
        Ok(Some(last)) if last < at => print_note(&format!(
            "annals: this snapshot is beyond the last event; recovery skips events up to it. id=`{id}`, at=`{at}`, last=`{last}`"
        )),
        // Most likely a mistyped id, unless the application uses snapshots alone.
        Ok(None) => print_note(&format!(
            "annals: this id has no events; if it gets some, recovery skips them up to {at}. id=`{id}`"
        )),
        Ok(Some(_)) | Err(_) => {}
    }
    store.take_counts();
    snapshots.save(id, at, state).await?;
    let object = wire::Position::new(id, at);
    context.output.line(&object, &format!("{id} {at}"))?;
    context.print_cost(&store)?;
    Ok(ExitCode::SUCCESS)
}

/// The last event, for a warning: a snapshot is saved even if the journal is damaged, elsewhere, or
/// not permitted to this user.
async fn last_event(
    context: &Context,
    store: &Store,
    id: &PersistenceId,
) -> Result<Option<SequenceNumber>> {
    context.journal_in(store).await?.highest(id).await
}

/// One that does not decode is reported, and the next older one loaded.
async fn load(
    context: &Context,
    (id, criteria): (&PersistenceId, Criteria),
    is_pretty: bool,
) -> Result<ExitCode> {
    let (snapshots, store) = context.snapshots(Purpose::Read).await?;
    let mut all = snapshots.find(id, criteria);
    let found = loop {
        match all.next().await.transpose() {
            Ok(found) => break found,
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                eprintln!("annals: a snapshot does not decode and is left out: {error}");
            }
            Err(error) => return Err(error),
        }
    };
    let code = print_found(context.output, id, (found, is_pretty))?;
    context.print_cost(&store)?;
    Ok(code)
}

async fn load_riding(context: &Context, id: &PersistenceId, is_pretty: bool) -> Result<ExitCode> {
    let (journal, store) = context.journal(Purpose::Read).await?;
    let found = journal.last_snapshot(id).await?;
    let code = print_found(context.output, id, (found, is_pretty))?;
    context.print_cost(&store)?;
    Ok(code)
}

fn print_found(
    output: Output,
    id: &PersistenceId,
    (found, is_pretty): (Option<Stored>, bool),
) -> Result<ExitCode> {
    let Some(found) = found else {
        eprintln!("annals: there is no such snapshot. id=`{id}`");
        return Ok(ExitCode::from(ABSENT));
    };
    match is_pretty {
        true => print_pretty(output, &found)?,
        false => print(&mut rows(output), &[found])?,
    }
    Ok(ExitCode::SUCCESS)
}

/// One that does not decode is reported and left out; the others are useful without it.
async fn list(context: &Context, id: &PersistenceId, bounds: &Bounds) -> Result<ExitCode> {
    let (snapshots, store) = context.snapshots(Purpose::Read).await?;
    let at_once = match context.output.is_json() {
        true => 1,
        false => ROWS_AT_ONCE,
    };
    let mut chunks = snapshots.find(id, bounds.criteria()).chunks(at_once);
    let (mut rows, mut damaged, mut printed) = (rows(context.output), None, 0);
    while let Some(chunk) = chunks.next().await {
        let (mut found, mut failure) = (Vec::with_capacity(chunk.len()), None);
        for snapshot in chunk {
            match snapshot {
                Ok(snapshot) => found.push(snapshot),
                Err(error) if error.kind() == ErrorKind::Corrupt => damaged = Some(error),
                Err(error) => failure = Some(error),
            }
        }
        print(&mut rows, &found)?;
        printed += found.len();
        if let Some(failure) = failure {
            return Err(failure);
        }
    }
    if printed == 0 && damaged.is_none() {
        let note = match bounds.is_given() {
            true => "there are no snapshots within these bounds",
            false => "there are no snapshots",
        };
        print_advice(&format!("{note}. id=`{id}`"));
    }
    context.print_cost(&store)?;
    damaged.map_or(Ok(ExitCode::SUCCESS), Err)
}

async fn delete(context: &Context, id: &PersistenceId, criteria: Criteria) -> Result<ExitCode> {
    let (snapshots, store) = context.snapshots(Purpose::Change).await?;
    let text = match snapshots.delete(id, criteria).await? {
        0 => {
            eprintln!("annals: there is no such snapshot to delete. id=`{id}`");
            context.print_cost(&store)?;
            return Ok(ExitCode::from(ABSENT));
        }
        1 => format!("1 snapshot of {id} is deleted"),
        count => format!("{count} snapshots of {id} are deleted"),
    };
    context.output.line(&wire::Deleted::new(id), &text)?;
    context.print_cost(&store)?;
    Ok(ExitCode::SUCCESS)
}

/// A row, then the state on lines of its own.
fn print_pretty(output: Output, snapshot: &Stored) -> Result<()> {
    let stored = &snapshot.payload;
    let mut rows = Rows::new(output.for_people(), ["NUMBER", "TIME", "TYPE", ""]);
    let cells = |it: &Stored| {
        let (number, time) = (it.sequence_number.to_string(), it.time_ms);
        let time = payload::time_text(time);
        [number, time, stored.manifest.clone(), String::new()]
    };
    rows.print(std::slice::from_ref(snapshot), |_| String::new(), cells)?;
    print_line(&payload::to_pretty_text(&stored.codec, &stored.bytes))
}

fn rows(output: Output) -> Rows<4> {
    Rows::new(output, ["NUMBER", "TIME", "TYPE", "STATE"])
}

fn print(rows: &mut Rows<4>, snapshots: &[Stored]) -> Result<()> {
    let json = |it: &Stored| wire::line(&wire::Snapshot::new(it));
    rows.print(snapshots, json, |it| {
        let stored = &it.payload;
        let time = payload::time_text(it.time_ms);
        let text = payload::to_text(&stored.codec, &stored.bytes);
        let number = it.sequence_number.to_string();
        [number, time, stored.manifest.clone(), text]
    })
}
