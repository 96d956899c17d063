//! `annals feed`: print the events of all ids, in the order in which they were committed.

use std::ops::RangeInclusive;
use std::process::ExitCode;

use annals::feed::{Batch, Filter, Position, Reading, SLICES, What};
use annals::{Error, Result};
use futures::TryStreamExt;

use super::Context;
use crate::args::whole_number;
use crate::columns::Columns;
use crate::output::{Output, print_lines};
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
    /// Then every new event, until interrupted or --max. With --server: nobody else can append to an
    /// embedded store that this command has open
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
        let purpose = context.purpose_of_reading(self.follow);
        let (journal, store) = context.journal(purpose).await?;
        let filter = Filter::new().prefix(self.prefix);
        let filter = self.category.into_iter().fold(filter, Filter::category);
        let mut filter = self.tag.into_iter().fold(filter, Filter::tag);
        filter.slices = self.slices;
        let reading = Reading::of(&journal).filter(filter).after(self.after);
        let mut batches = match self.follow {
            true => reading.follow(),
            false => reading.batches(),
        };
        let mut printer = Printer::new(context.output);
        let mut left = self.max.unwrap_or(u64::MAX);
        let bar = progress::counter("events fed");
        while left > 0
            && let Some(batch) = batches.try_next().await?
        {
            let (text, lines) = printer.lines(&batch, left);
            bar.inc(lines);
            left -= lines;
            if lines > 0 {
                bar.suspend(|| print_lines(&text))?;
            }
        }
        bar.finish_and_clear();
        context.print_cost(&store)?;
        Ok(ExitCode::SUCCESS)
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
