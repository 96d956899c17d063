//! Replay: the hundreds of a window in order, several read at once.
//!
//! Promises: every event of the window that counts, in order, or an error. Batches that lack
//! members are passed over and those that the window cuts are looked up whole. Numbers that are
//! missing otherwise are told, also at the end, where the high mark knows better.
//! Trusts: the low mark to be raised before anything is deleted.

use futures::future::BoxFuture;
use futures::stream::{self, FuturesOrdered, StreamExt, TryStreamExt};

use super::append::EVENTS_MAX;
use super::batches::Batches;
use super::journal::{AkkaJournal, Head};
use super::keys::{PARTITION, by_hundreds, hundred};
use super::lookup::open_end;
use super::marks::Marks;
use super::row::Row;
use crate::settings::Gaps;
use crate::writers::Writers;
use annals::items::{Item, Value};
use annals::journal::{EventStream, Window};
use annals::{Error, Event, PersistenceId, Result, SequenceNumber};

/// Over how many hundreds a batch can reach.
const BATCH_HUNDREDS: usize = EVENTS_MAX / PARTITION as usize + 1;

/// The first events that count behind a number, of one append; `None` where some behind it are
/// deleted, so that nobody can tell whether those found are the first.
pub(super) async fn first_append(
    journal: &AkkaJournal,
    id: &PersistenceId,
    from: SequenceNumber,
) -> Result<Option<Vec<Event>>> {
    let mut reader = Reader::begin(journal.clone(), id.clone(), Window::from(from)).await?;
    let mut found: Vec<Event> = Vec::new();
    while let Some(events) = reader.next().await? {
        for event in events {
            if found
                .first()
                .is_some_and(|first| first.token != event.token)
            {
                return Ok(Some(found).filter(|_| !reader.is_cut));
            }
            found.push(event);
        }
    }
    Ok(Some(found).filter(|_| !reader.is_cut))
}

/// The events of the window. Nothing is read before the first poll.
pub(super) fn start(journal: AkkaJournal, id: PersistenceId, window: Window) -> EventStream {
    let begin = stream::once(Reader::begin(journal, id, window));
    let chunks = begin.map_ok(|reader| {
        stream::try_unfold(reader, |mut reader| async move {
            let chunk = reader.next().await?;
            let chunk = chunk.map(|events| stream::iter(events.into_iter().map(Ok)));
            Ok::<_, Error>(chunk.map(|events| (events, reader)))
        })
        .try_flatten()
    });
    Box::pin(chunks.try_flatten())
}

/// The rows of a hundred, asked for.
type Asked = BoxFuture<'static, Result<(u64, Vec<Item>)>>;

struct Reader {
    journal: AkkaJournal,
    id: PersistenceId,
    window: Window,
    marks: Marks,
    batches: Batches,
    writers: Writers,
    /// Where the events begin that are wanted and not deleted.
    start: u64,
    /// The next number there should be a row of.
    next: u64,
    /// The last row that was met.
    last: Option<Row>,
    /// The last event that counts; 0: none yet.
    last_event: u64,
    /// How many more events may be delivered.
    left: u64,
    has_ended: bool,
    /// Whether events that the window asks for are deleted.
    is_cut: bool,
    /// The next hundred to be asked for.
    ask: u64,
    asked: FuturesOrdered<Asked>,
}

impl Reader {
    async fn begin(journal: AkkaJournal, id: PersistenceId, window: Window) -> Result<Self> {
        let (from, to) = (window.from.get(), window.to.get());
        // Nearly always the events begin where they are wanted: no need to wait for the marks.
        let first = ask(&journal, &id, (from, to));
        let (marks, first) = futures::try_join!(journal.marks(&id), first)?;
        let start = from.max(marks.low).max(1);
        let mut reader = Self {
            batches: Batches::above(marks.low),
            writers: Writers::new(journal.settings.replay_filter),
            start,
            next: start,
            last: None,
            last_event: 0,
            left: window.max,
            has_ended: start > to,
            is_cut: start > from,
            ask: hundred(start),
            asked: FuturesOrdered::new(),
            journal,
            id,
            window,
            marks,
        };
        if hundred(start) == hundred(from) && !reader.has_ended {
            reader.ask += 1;
            let rows = first.1.into_iter();
            let rows = rows.filter(|item| number_in(item) >= start % PARTITION);
            let rows = (first.0, rows.collect());
            reader.asked.push_back(Box::pin(async move { Ok(rows) }));
        }
        Ok(reader)
    }

    /// The next events; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<Event>>> {
        while !self.has_ended {
            self.read_ahead();
            let out = match self.asked.next().await.transpose()? {
                Some((at, items)) if !items.is_empty() || at <= self.reach() => {
                    self.take_all(items).await?
                }
                // Behind the last hundred, or behind the window.
                _ => self.end().await?,
            };
            let out = self.deliver(out);
            if !out.is_empty() {
                return Ok(Some(out));
            }
        }
        Ok(None)
    }

    /// The last hundred that is known to be worth a look: as the high mark says, or where a batch
    /// ends whose last number somebody may have taken who has not raised the mark yet.
    fn reach(&self) -> u64 {
        let awaited = self.batches.awaited().unwrap_or(0);
        hundred(self.marks.high.max(awaited))
    }

    /// Asks for the hundreds that the high mark promises, and for one behind them.
    fn read_ahead(&mut self) {
        let last = hundred(self.window.to.get());
        let wanted = (self.left / PARTITION).saturating_add(1);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let at_once = wanted.min(self.journal.settings.replay_parallelism.max(1));
        while self.asked.len() < at_once
            && self.ask <= last
            && (self.ask <= hundred(self.marks.high) || self.asked.is_empty())
        {
            let from = (self.ask * PARTITION).max(self.start);
            let asked = ask(&self.journal, &self.id, (from, self.window.to.get()));
            self.asked.push_back(Box::pin(asked));
            self.ask += 1;
        }
    }

    async fn take_all(&mut self, items: Vec<Item>) -> Result<Vec<Event>> {
        let mut out = Vec::new();
        for item in items {
            let row = Row::of(&self.journal.keys, item)?;
            // Read again together with a row before.
            if row.number.get() < self.next {
                continue;
            }
            if self.last.is_none() {
                out.extend(self.before(&row).await?);
            }
            out.extend(self.take(row).await?);
        }
        Ok(out)
    }

    /// The members before the window of a batch that it cuts at its beginning.
    async fn before(&mut self, first: &Row) -> Result<Vec<Event>> {
        let (start, low) = (self.start, self.marks.low.max(1));
        let begin = first.begin().max(low);
        if begin < start {
            self.next = begin;
            return self.fetch(begin, start - 1).await;
        }
        if first.number.get() > start {
            self.look_back().await?;
        }
        Ok(Vec::new())
    }

    /// Where the window begins with missing numbers, a batch before it may claim them; also one of
    /// which all that is left is deleted.
    async fn look_back(&mut self) -> Result<()> {
        let before = self.start - 1;
        let hundreds: Vec<_> = by_hundreds(1, before).collect();
        for (from, to) in hundreds.into_iter().rev().take(BATCH_HUNDREDS) {
            let query = self.journal.keys.between(&self.id, from, to);
            let row = self.journal.row(query.descending().limit(1)).await?;
            if let Some(row) = row {
                self.batches.claim(&row);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes the rows between two numbers that no query of the window brings.
    async fn fetch(&mut self, from: u64, to: u64) -> Result<Vec<Event>> {
        let mut out = Vec::new();
        for (from, to) in by_hundreds(from, to) {
            for item in self.journal.items_between(&self.id, from, to).await? {
                out.extend(self.take(Row::of(&self.journal.keys, item)?).await?);
            }
        }
        Ok(out)
    }

    /// Takes the next row; answers the events that are known to count by it.
    ///
    /// Hundreds, and pages of them, are read at different moments: what was appended between them is
    /// met in part. So wherever rows seem to be missing before this one they are read again, once.
    /// All that counts before a row was there when the row was put.
    async fn take(&mut self, row: Row) -> Result<Vec<Event>> {
        let mut out = Vec::new();
        let is_missing = self.next < row.begin() && !self.batches.claims(row.begin() - 1);
        let missing = is_missing.then(|| (self.next, row.begin() - 1));
        let doubts = match row.is_gone() {
            true => None,
            // Both may be: what is missing reaches from one batch over others into this one.
            false => [self.batches.doubts(&row), missing]
                .into_iter()
                .flatten()
                .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))),
        };
        if let Some((from, to)) = doubts {
            self.batches.restart();
            self.next = from;
            for (from, to) in by_hundreds(from, to) {
                for item in self.journal.items_between(&self.id, from, to).await? {
                    out.extend(self.settle(Row::of(&self.journal.keys, item)?).await?);
                }
            }
        }
        if row.number.get() >= self.next {
            out.extend(self.settle(row).await?);
        }
        Ok(out)
    }

    /// Takes a row before which nothing is to be looked for any more.
    async fn settle(&mut self, row: Row) -> Result<Vec<Event>> {
        let number = row.number.get();
        if row.is_gone() {
            return self.pass_over(&row);
        }
        let begin = row.begin();
        if self.next < begin && !self.batches.claims(begin - 1) {
            self.miss((self.next, begin - 1)).await?;
        } else if let Some(lost) = self.batches.lost(&row) {
            self.miss((lost, lost)).await?;
        }
        self.next = number + 1;
        self.last = Some(row.clone());
        let mut out = Vec::new();
        for row in self.batches.push(row) {
            let Some((event, writer)) = row.event(&self.id)? else {
                continue;
            };
            if let Some(event) = self.writers.push(event, &writer)? {
                self.last_event = row.number.get();
                out.push(event);
            }
        }
        Ok(out)
    }

    /// A row that was emptied by a deletion that began after the marks were read.
    fn pass_over(&mut self, row: &Row) -> Result<Vec<Event>> {
        let number = row.number.get();
        // Rows are emptied in any order: those before this one may have been met whole.
        if self.last_event > 0 {
            return Err(self.overtaken());
        }
        self.is_cut = true;
        self.writers = Writers::new(self.journal.settings.replay_filter);
        self.batches = Batches::above(number + 1);
        self.batches.claim(row);
        self.next = number + 1;
        Ok(Vec::new())
    }

    /// Numbers are missing that nothing explains.
    async fn miss(&mut self, (from, to): (u64, u64)) -> Result<()> {
        let id = &self.id;
        if self.journal.marks(id).await?.low > from {
            return Err(self.overtaken());
        }
        self.journal.check_shards(id).await?;
        match self.journal.settings.gaps {
            Gaps::Skip => {
                tracing::warn!(%id, from, to, "events are missing from the journal");
                Ok(())
            }
            Gaps::Fail => Err(Error::corrupt(format!(
                "events are missing from the journal; an operator must look, or, if an actor's events were rejected there, set gaps to skip. id=`{id}`, from=`{from}`, to=`{to}`"
            ))),
        }
    }

    /// All rows of the window have been met.
    async fn end(&mut self) -> Result<Vec<Event>> {
        self.has_ended = true;
        let to = self.window.to.get();
        if self.ask <= hundred(to) {
            // A hundred behind the last was found empty: this is the end of the history.
            self.check_end(self.marks.high).await?;
            self.check_marks().await?;
            self.learn();
            return Ok(Vec::new());
        }
        let cut = self.batches.awaited().filter(|end| *end > to);
        let out = match cut {
            Some(end) => self.fetch(to + 1, end).await?,
            None => Vec::new(),
        };
        if self.next <= to {
            if self.last.is_none() {
                self.look_back().await?;
            }
            let known = match self.first_behind(to).await? {
                Some(row) => row.begin() - 1,
                None => self.marks.high,
            };
            self.check_end(known.min(to)).await?;
        }
        Ok(out)
    }

    /// Whether the marks fit what was met up to the end of the history.
    async fn check_marks(&mut self) -> Result<()> {
        let last = self.last.as_ref().map(|row| hundred(row.number.get()));
        // A window that begins behind the last event says nothing.
        let is_told = last.is_some() || self.window.from.get() <= self.marks.low.max(1);
        match is_told {
            true => self.journal.check_marks(&self.id, self.marks, last).await,
            false => Ok(()),
        }
    }

    async fn first_behind(&mut self, number: u64) -> Result<Option<Row>> {
        let query = self.journal.keys.between(&self.id, number + 1, u64::MAX);
        self.journal.row(query.limit(1)).await
    }

    /// Whether rows are missing up to a number that is known to have been used.
    async fn check_end(&mut self, known: u64) -> Result<()> {
        match self.next <= known && !self.batches.claims(known) {
            true => self.miss((self.next, known)).await,
            false => Ok(()),
        }
    }

    /// Remembers where the history ends, unless it ends in a batch that may still be under way.
    fn learn(&self) {
        let used = self.marks.used();
        let (last, next) = match &self.last {
            Some(row) if self.last_event > 0 && open_end(row).is_none() => {
                (self.last_event, row.number.get() + 1)
            }
            // Read from the beginning on, and nothing was ever there. Where everything is deleted,
            // the last row may be of a batch that is under way.
            None if self.window.from.get() == 1 && used == 0 && !self.is_cut => (0, 1),
            _ => return,
        };
        let head = Head {
            last,
            next: next.max(used + 1),
            high: self.marks.high,
        };
        self.journal.learn(&self.id, head);
    }

    /// What the window shows of these, as far as more are wanted.
    fn deliver(&mut self, mut events: Vec<Event>) -> Vec<Event> {
        let window = self.window.from..=self.window.to;
        events.retain(|event| window.contains(&event.sequence_number));
        events.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= events.len() as u64;
        self.has_ended |= self.left == 0;
        events
    }

    fn overtaken(&self) -> Error {
        let id = &self.id;
        Error::unavailable(format!(
            "events were deleted while they were read; replay again. id=`{id}`"
        ))
    }
}

fn number_in(item: &Item) -> u64 {
    let number = item.get("num").and_then(Value::as_u64);
    number.unwrap_or(0)
}

/// Asks for the rows of a hundred from a number on.
fn ask(
    journal: &AkkaJournal,
    id: &PersistenceId,
    (from, to): (u64, u64),
) -> impl Future<Output = Result<(u64, Vec<Item>)>> + Send + 'static {
    let (journal, id) = (journal.clone(), id.clone());
    async move {
        let items = journal.items_between(&id, from, to).await?;
        Ok((hundred(from), items))
    }
}
