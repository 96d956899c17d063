//! Replaying: the rows in order, and what counts of them.
//!
//! Promises: every event of the window, in order, or an error; the events of one append together,
//! as far as the window shows them. Numbers that nothing explains are an error, or a warning where
//! the settings say so. A history that is deleted while it is read is an error, not half a history.
//! Never: holds more than a page and a batch.

use futures::stream::{self, StreamExt, TryStreamExt};

use super::batches::{Batches, Pending, Verdict};
use super::journal::{Head, J5ik2oJournal};
use super::row::{Fate, Row};
use super::rows::{Range, Rows, Step};
use crate::settings::Gaps;
use crate::writers::Writers;
use annals::journal::{EventStream, Window};
use annals::{Error, Event, PersistenceId, Result, SequenceNumber};

/// How many events are delivered at once.
const CHUNK: usize = 128;

struct Replay {
    journal: J5ik2oJournal,
    id: PersistenceId,
    window: Window,
    rows: Rows,
    batches: Batches,
    writers: Writers,
    /// How many more events are wanted.
    left: u64,
    /// The number behind the last row.
    next: u64,
    /// The last event that counted.
    last_event: u64,
    has_rows: bool,
    has_ended: bool,
}

pub(super) fn start(journal: J5ik2oJournal, id: PersistenceId, window: Window) -> EventStream {
    let range = Range {
        skips_deleted: true,
        ..Range::between(window.from.get(), window.to.get())
    };
    let replay = Replay {
        rows: Rows::of(&journal, &id, range),
        batches: Batches::default(),
        writers: Writers::new(journal.settings.replay_filter),
        left: window.max,
        next: window.from.get(),
        last_event: 0,
        has_rows: false,
        has_ended: false,
        journal,
        id,
        window,
    };
    let chunks = stream::try_unfold(replay, |mut replay| async move {
        let events = replay.chunk().await?;
        Ok::<_, Error>(events.map(|events| (events, replay)))
    });
    let events = chunks.map_ok(|events| stream::iter(events.into_iter().map(Ok)));
    Box::pin(events.try_flatten().fuse())
}

impl Replay {
    /// The next events; `None` at the end.
    async fn chunk(&mut self) -> Result<Option<Vec<Event>>> {
        let mut out = Vec::new();
        while !self.has_ended && out.len() < CHUNK {
            match self.rows.next().await? {
                Some(Step::Row(row)) => {
                    let events = self.take(row).await?;
                    self.deliver(events, &mut out);
                }
                Some(Step::Missing(from, to, begin)) => {
                    if !self.batches.miss(from, to, begin) {
                        self.miss(from, to).await?;
                    }
                }
                None => {
                    let events = self.end().await?;
                    self.deliver(events, &mut out);
                }
            }
        }
        Ok((!out.is_empty()).then_some(out))
    }

    async fn take(&mut self, row: Row) -> Result<Vec<Event>> {
        self.has_rows = true;
        self.next = row.number + 1;
        match row.fate {
            Fate::Closed => {
                self.batches.pass(&row);
                Ok(Vec::new())
            }
            Fate::Deleted => {
                if row.is_marked_by_us() && row.number >= self.rows.mark().low {
                    self.check_marked(row.number).await?;
                }
                // The plugin marks rows one by one; ours are behind a mark first.
                if self.last_event > 0 || self.batches.pending().is_some() {
                    self.check_overtaken(row.number).await?;
                }
                Ok(Vec::new())
            }
            // Nobody who replays meets it.
            Fate::Damaged => Err(Error::corrupt("an event cannot be read")),
            Fate::Live => {
                // Whoever of us appends behind a batch that lacks its end closes it first.
                let pending = self.batches.pending().map(|pending| pending.end);
                if let Some(end) = pending.filter(|end| *end < row.begin())
                    && row.is_ours(self.journal.columns())
                {
                    self.miss(end, end).await?;
                }
                self.push(row).await
            }
        }
    }

    async fn push(&mut self, row: Row) -> Result<Vec<Event>> {
        match self.batches.push(row) {
            Verdict::Alone(row) => self.events(vec![row]),
            Verdict::Whole(whole) => self.whole(whole).await,
            Verdict::Waits => Ok(Vec::new()),
        }
    }

    /// The events of a batch whose end is there: so all of it is, by now.
    async fn whole(&mut self, mut whole: Pending) -> Result<Vec<Event>> {
        let missing = self.journal.fill(&self.id, &mut whole).await?;
        for number in missing {
            self.miss(number, number).await?;
        }
        for row in whole.rows.iter().filter(|row| !row.is_live()) {
            self.check_overtaken(row.number).await?;
        }
        whole.rows.retain(Row::is_live);
        self.events(whole.rows)
    }

    fn events(&mut self, rows: Vec<Row>) -> Result<Vec<Event>> {
        let mut out = Vec::new();
        for row in rows {
            let Some((event, writer)) = row.event(&self.id, self.journal.section())? else {
                continue;
            };
            if let Some(event) = self.writers.push(event, &writer)? {
                self.last_event = row.number;
                out.push(event);
            }
        }
        Ok(out)
    }

    /// Numbers are missing that no batch explains.
    async fn miss(&mut self, from: u64, to: u64) -> Result<()> {
        let id = &self.id;
        let low = match self.rows.mark().low {
            low if low > to => low,
            _ => self.journal.mark(id).await?.low,
        };
        // Only what was removed by the plugin's hard deletion is gone without a trace.
        let may_be_removed = !self.journal.section().soft_delete;
        if self.last_event == 0 && (low > to || may_be_removed) {
            return Ok(());
        }
        if low > to {
            return Err(self.overtaken());
        }
        match self.journal.settings.gaps {
            Gaps::Skip => {
                tracing::warn!(%id, from, to, "events are missing from the journal");
                Ok(())
            }
            Gaps::Fail => Err(Error::corrupt(format!(
                "events are missing from the journal; annals verify says more; if an actor's events were rejected there, set gaps to skip. id=`{id}`, from=`{from}`, to=`{to}`"
            ))),
        }
    }

    /// All rows of the window have been met.
    async fn end(&mut self) -> Result<Vec<Event>> {
        self.has_ended = true;
        let to = self.window.to.get();
        let cut = self.batches.pending().map(|pending| pending.end);
        let out = match cut.filter(|end| *end > to) {
            Some(end) => self.cut(end).await?,
            None => Vec::new(),
        };
        self.batches.give_up();
        if self.window.to == SequenceNumber::LAST {
            self.learn();
        } else if self.next <= to && cut.is_none() {
            self.check_end(to).await?;
        }
        Ok(out)
    }

    /// Whether numbers are missing up to the end of a window that ends before the history does.
    async fn check_end(&mut self, to: u64) -> Result<()> {
        let tail = self.journal.tail(&self.id).await?;
        // A batch that is not whole, or is being closed, is the last that there is.
        let claims = |row: Row| !(row.is_live() && row.is_end()) && row.begin() <= self.next;
        match tail.highest > to && !tail.last.is_some_and(claims) {
            true => self.miss(self.next, to).await,
            false => Ok(()),
        }
    }

    /// What the window shows of a batch that ends behind it, if that is whole.
    async fn cut(&mut self, end: u64) -> Result<Vec<Event>> {
        let last = self.journal.find(&self.id, end).await?;
        let is_whole =
            last.is_some_and(|row| row.batch.is_some() && row.is_end() && !row.is_closed());
        let Some(mut pending) = self.batches.take().filter(|_| is_whole) else {
            return Ok(Vec::new());
        };
        if self.next <= self.window.to.get() {
            pending.holes.push((self.next, self.window.to.get()));
        }
        self.whole(pending).await
    }

    /// Remembers where the history ends, unless it ends in a batch that may still be under way.
    fn learn(&self) {
        if self.batches.is_torn() {
            return;
        }
        let last = match self.has_rows {
            true if self.last_event > 0 => self.last_event,
            // All are deleted.
            true => self.next - 1,
            // Nothing is left of what was there.
            false if self.rows.mark().high >= self.window.from.get() => return,
            // Read from the beginning on, and nothing was ever there.
            false if self.window.from.get() == 1 && !self.rows.is_anchored() => 0,
            // Nothing behind an append that is known to be there.
            false => match self.rows.before() {
                Some(row) if !row.is_closing() && (row.is_end() || !row.is_live()) => row.number,
                _ => return,
            },
        };
        let next = self.next;
        self.journal.learn(&self.id, Head { last, next });
    }

    /// What the window shows of these, as far as more are wanted.
    fn deliver(&mut self, mut events: Vec<Event>, out: &mut Vec<Event>) {
        let window = self.window.from..=self.window.to;
        events.retain(|event| window.contains(&event.sequence_number));
        events.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= events.len() as u64;
        self.has_ended |= self.left == 0;
        out.extend(events);
    }

    /// Fails where a row was deleted since the reading began.
    async fn check_overtaken(&mut self, number: u64) -> Result<()> {
        match self.journal.mark(&self.id).await?.low > number {
            true => Err(self.overtaken()),
            false => Ok(()),
        }
    }

    /// Fails where a row is marked as deleted and nobody deleted it.
    async fn check_marked(&mut self, number: u64) -> Result<()> {
        let id = &self.id;
        match self.journal.mark(id).await?.low > number {
            true => Ok(()),
            false => Err(Error::corrupt(format!(
                "an event is marked as deleted, and was not deleted; an operator must look. id=`{id}`, number=`{number}`"
            ))),
        }
    }

    fn overtaken(&self) -> Error {
        let id = &self.id;
        Error::unavailable(format!(
            "events were deleted while they were read; replay again. id=`{id}`"
        ))
    }
}
