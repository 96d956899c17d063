//! Replay: the I/O around an [`Assembly`].
//!
//! Guarantees: every event of the window that counts, in order, or an error. If the window starts
//! inside a batch, the whole batch is read. Unexplained missing numbers are an error, or a warning if
//! set, also at the end of the window. A history that is deleted while it is read is an error.

use futures::stream::{self, StreamExt, TryStreamExt};

use super::assembly::{Assembly, Need};
use super::format::{Explained, Passed, Progress, RowReader, RowReplay};
use crate::settings::Gaps;
use annals::journal::{EventStream, Window};
use annals::{Error, Event, PersistenceId, Result};

/// How many events are delivered at once.
const CHUNK: usize = 128;

/// A replay of a window.
pub(crate) struct Replay<F: RowReplay> {
    pub(crate) format: F,
    pub(crate) id: PersistenceId,
    pub(crate) window: Window,
    pub(crate) reader: F::Reader,
    pub(crate) assembly: Assembly<F>,
    /// Whether events of the window are deleted.
    pub(crate) is_cut: bool,
    /// How many more events are wanted.
    left: u64,
    has_ended: bool,
}

/// The events of the window. Nothing is read before the first poll.
pub(super) fn start<F: RowReplay>(format: F, id: PersistenceId, window: Window) -> EventStream {
    let begin = stream::once(Replay::open(format, id, window));
    let chunks = begin.map_ok(|replay| {
        stream::try_unfold(replay, |mut replay| async move {
            let chunk = replay.next().await?;
            let chunk = chunk.map(|events| stream::iter(events.into_iter().map(Ok)));
            Ok::<_, Error>(chunk.map(|events| (events, replay)))
        })
        .try_flatten()
    });
    EventStream::new(chunks.try_flatten().fuse())
}

impl<F: RowReplay> Replay<F> {
    pub(crate) async fn open(format: F, id: PersistenceId, window: Window) -> Result<Self> {
        let reader = format.read(&id, &window).await?;
        let markers = reader.markers();
        let (from, to) = (window.from.get(), window.to.get());
        let start = from.max(markers.low);
        let assembly = Assembly::new(format.clone(), id.clone(), start, markers.low);
        let filter = format.base().settings.replay_filter;
        Ok(Self {
            assembly: assembly.filtered(filter),
            left: window.max,
            has_ended: start > to,
            is_cut: start > from,
            format,
            id,
            window,
            reader,
        })
    }

    /// The next events; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Event>>> {
        let mut out = Vec::new();
        while !self.has_ended {
            let is_out_of_rows = self.advance(&mut out).await?;
            if !is_out_of_rows || self.has_ended {
                continue;
            }
            if !out.is_empty() && (out.len() >= CHUNK || !self.reader.is_buffered()) {
                break;
            }
            let progress = Progress {
                left: self.left,
                awaited: self.assembly.awaited(),
            };
            match self.reader.next(progress).await? {
                Some(row) => self.assembly.add(row),
                None => self.end(&mut out).await?,
            }
        }
        Ok((!out.is_empty()).then_some(out))
    }

    /// Assembles the rows, and supplies what that needs; returns whether it needs more rows.
    async fn advance(&mut self, out: &mut Vec<Event>) -> Result<bool> {
        let mut events = Vec::new();
        let need = self.assembly.assemble(&mut events)?;
        match need {
            Need::Rows => {
                self.deliver(events, out);
                return Ok(true);
            }
            Need::Again(from, to) => {
                let rows = self.format.rows(&self.id, (from, to));
                self.assembly.add_again(rows.try_collect().await?);
            }
            Need::Before(number) => {
                let before = self.format.row_before(&self.id, number).await?;
                before.iter().for_each(|row| self.assembly.claim(row));
            }
            Need::Explain(from, to) => self.explain((from, to)).await?,
            Need::Deleted(row) => {
                let format = self.format.clone();
                match format.pass_deleted(self, &row).await? {
                    Passed::Skip => self.assembly.skip_deleted(row, &mut events)?,
                    Passed::Restart => {
                        self.is_cut = true;
                        self.assembly.restart_after(&row);
                    }
                }
            }
        }
        self.deliver(events, out);
        Ok(false)
    }

    /// Fails if numbers are missing without an explanation.
    async fn explain(&mut self, (from, to): (u64, u64)) -> Result<()> {
        let format = self.format.clone();
        let explained = format.explain(self, (from, to)).await?;
        let id = &self.id;
        match (explained, self.format.base().settings.gaps) {
            (Explained::Deleted, _) => Ok(()),
            (Explained::Overtaken, _) => Err(self.overtaken()),
            (Explained::Unknown, Gaps::Skip) => {
                tracing::warn!(%id, from, to, "events are missing from the journal");
                Ok(())
            }
            (Explained::Unknown, Gaps::Fail) => Err(Error::corrupt(
                "events are missing from the journal; run annals verify, or, if an actor's events were rejected there, set gaps to skip",
            )
            .fact("id", id)
            .fact("from", from)
            .fact("to", to)),
        }
    }

    /// All rows of the window were read.
    async fn end(&mut self, out: &mut Vec<Event>) -> Result<()> {
        let (to, is_at_end) = (self.window.to.get(), self.reader.is_at_end());
        let cut = self.assembly.awaited().filter(|end| *end > to);
        if let Some(end) = cut.filter(|_| !is_at_end) {
            let mut rest = self.format.rows(&self.id, (to + 1, end));
            while let Some(row) = rest.try_next().await? {
                self.assembly.add(row);
            }
            while !self.advance(out).await? {}
        }
        self.has_ended = true;
        let is_short = self.assembly.next() <= to && !self.assembly.claims(to);
        if is_at_end || is_short {
            let format = self.format.clone();
            let known = format.known_to(self).await?;
            let next = self.assembly.next();
            if next <= known && !self.assembly.claims(known) {
                self.explain((next, known)).await?;
            }
        }
        if let Some(head) = self.format.head(self).filter(|_| is_at_end) {
            self.format.base().learn(&self.id, head);
        }
        Ok(())
    }

    /// Delivers the events that are in the window, up to the maximum.
    fn deliver(&mut self, mut events: Vec<Event>, out: &mut Vec<Event>) {
        let window = self.window.from..=self.window.to;
        events.retain(|event| window.contains(&event.sequence_number));
        events.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= events.len() as u64;
        self.has_ended |= self.left == 0;
        out.extend(events);
    }

    pub(crate) fn overtaken(&self) -> Error {
        let id = &self.id;
        Error::unavailable("events were deleted while they were read; replay again").fact("id", id)
    }
}
