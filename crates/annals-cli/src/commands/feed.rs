//! `annals feed`: print the events of all ids, in the order in which they were committed.

use std::ops::RangeInclusive;
use std::process::ExitCode;

use annals::feed::{Batch, Filter, Position, Reading, SLICES, What};
use annals::items::Cost;
use annals::{Error, Result};
use futures::TryStreamExt;
use indicatif::ProgressBar;

use super::{Context, Purpose};
use crate::args::whole_number;
use crate::columns::Columns;
use crate::following::Following;
use crate::output::{Output, print_advice, print_lines};
use crate::{payload, progress, wire};

/// Print the events of all ids, in the order in which they were committed
///
/// A line is an event, as `annals replay` prints it, with its position, or a notice of a deletion.
/// Resume after a position with --after.
#[derive(Debug, clap::Args)]
pub(crate) struct Feed {
    /// Only what follows this position; without it, from the start
    #[arg(long, value_name = "POSITION")]
    after: Option<Position>,
    /// Only events of this entity type, what is before the | of the id; repeatable
    #[arg(long, value_name = "C")]
    category: Vec<String>,
    /// Only ids that begin so
    #[arg(long, value_name = "P", default_value = "")]
    prefix: String,
    /// Only events with this tag; repeatable
    #[arg(long, value_name = "T")]
    tag: Vec<String>,
    /// Only ids of these slices, of 0 to 1023: N or N-M
    #[arg(long, value_name = "N-M", value_parser = parse_slices)]
    slices: Option<RangeInclusive<u16>>,
    /// At most so many lines
    #[arg(long, value_name = "N", value_parser = |text: &str| whole_number(text, u64::MAX))]
    max: Option<u64>,
    /// Then every new event, until interrupted or --max; also while another process writes
    #[arg(long)]
    follow: bool,
}

/// Slices as `N` or `N-M`.
pub(crate) fn parse_slices(text: &str) -> Result<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<u16>().ok().filter(|it| *it < SLICES);
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        _ => {
            let most = SLICES - 1;
            let error =
                Error::invalid(format!("slices are N or N-M, from 0 to {most}, like 0-511"));
            Err(error.fact("slices", text))
        }
    }
}

impl Feed {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let missing = self.missing();
        let filter = Filter::new().prefix(self.prefix);
        let filter = self.category.into_iter().fold(filter, Filter::category);
        let mut filter = self.tag.into_iter().fold(filter, Filter::tag);
        filter.slices = self.slices;
        let most = self.max.unwrap_or(u64::MAX);
        let mut printing = Printing {
            filter,
            after: self.after,
            printer: Printer::new(context.output),
            left: most,
            bar: progress::counter("events fed"),
            cost: Cost::ZERO,
        };
        match self.follow && context.is_alone() {
            true => printing.follow_beside(context).await?,
            false => printing.read(context, (Purpose::Read, self.follow)).await?,
        }
        printing.bar.finish_and_clear();
        if printing.left == most && most > 0 {
            print_advice(&missing);
        }
        context.output.cost(printing.cost)?;
        Ok(ExitCode::SUCCESS)
    }

    /// What to say if there is nothing to print.
    fn missing(&self) -> String {
        let slices = self.slices.as_ref();
        let slices = slices.map(|it| format!("{}-{}", it.start(), it.end()));
        let prefix = Some(&self.prefix).filter(|prefix| !prefix.is_empty());
        let categories = self.category.iter().map(|it| ("category", it.clone()));
        let facts: Vec<_> = categories
            .chain(prefix.map(|it| ("prefix", it.clone())))
            .chain(self.tag.iter().map(|it| ("tag", it.clone())))
            .chain(slices.map(|it| ("slices", it)))
            .chain(self.after.as_ref().map(|it| ("after", it.to_string())))
            .map(|(name, value)| format!("{name}=`{value}`"))
            .collect();
        match facts.is_empty() {
            true => "there are no events".to_owned(),
            false => format!("no event matches. {}", facts.join(", ")),
        }
    }
}

/// The feed as it is printed.
struct Printing {
    filter: Filter,
    /// Up to where it was printed.
    after: Option<Position>,
    printer: Printer,
    /// How many lines may follow.
    left: u64,
    bar: ProgressBar,
    cost: Cost,
}

impl Printing {
    /// Prints the feed up to its end, and with `follows` what is appended later.
    async fn read(&mut self, context: &Context, (purpose, follows): (Purpose, bool)) -> Result<()> {
        let (journal, store) = context.journal(purpose).await?;
        let reading = Reading::new(&journal).filter(self.filter.clone());
        let reading = reading.after(self.after.clone());
        let mut batches = match follows {
            true => reading.follow(),
            false => reading.batches(),
        };
        while self.left > 0
            && let Some(batch) = batches.try_next().await?
        {
            let (text, lines) = self.printer.lines(&batch, self.left);
            self.bar.inc(lines);
            self.left -= lines;
            self.after = Some(batch.position);
            if lines > 0 {
                self.bar.suspend(|| print_lines(&text))?;
            }
        }
        self.cost += store.counts().total().cost;
        Ok(())
    }

    /// Prints the feed of an embedded store, and what its owner appends later.
    async fn follow_beside(&mut self, context: &Context) -> Result<()> {
        let mut following = Following::new(context.settings.data.clone());
        while self.left > 0 {
            following.wait().await?;
            let outcome = self.read(context, (Purpose::Follow, false)).await;
            following.read(outcome)?;
        }
        Ok(())
    }
}

/// How entries are printed.
enum Printer {
    Json,
    Rows(Columns<5>),
}

impl Printer {
    fn new(output: Output) -> Self {
        if output.is_json() {
            return Self::Json;
        }
        let names = ["POSITION", "PERSISTENCE ID", "NUMBER", "TYPE", "PAYLOAD"];
        Self::Rows(Columns::new(names, output.is_coloured()))
    }

    /// The first lines of a batch, each with its end, and how many they are.
    fn lines(&mut self, batch: &Batch, most: u64) -> (Vec<u8>, u64) {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        match self {
            Self::Json => {
                let mut lines = wire::feed_lines(batch);
                lines.truncate(most);
                let text = lines.iter().flat_map(|line| line.text.iter().copied());
                (text.collect(), lines.len() as u64)
            }
            Self::Rows(columns) => {
                let mut rows = rows(batch);
                rows.truncate(most);
                let mut text = Vec::new();
                for line in columns.lines(&rows) {
                    text.extend_from_slice(line.as_bytes());
                    text.push(b'\n');
                }
                (text, rows.len() as u64)
            }
        }
    }
}

fn rows(batch: &Batch) -> Vec<[String; 5]> {
    let mut rows = Vec::new();
    let mut events = batch.events();
    for entry in &batch.entries {
        let notice = match &entry.what {
            What::Appended(appended) => {
                for (event, position) in events.by_ref().take(appended.len()) {
                    let data = &event.data;
                    rows.push([
                        position.to_string(),
                        entry.id.to_string(),
                        event.sequence_number.to_string(),
                        data.manifest.clone(),
                        payload::to_text(&data.codec, &data.payload),
                    ]);
                }
                continue;
            }
            What::Deleted(to) => format!("(events up to {to} were deleted)"),
            What::Missing(number) => format!("(event {number} was deleted before it was read)"),
            _ => "(everything of this id was purged)".to_owned(),
        };
        let position = batch.position_after(entry).to_string();
        let id = entry.id.to_string();
        rows.push([position, id, String::new(), String::new(), notice]);
    }
    rows
}
