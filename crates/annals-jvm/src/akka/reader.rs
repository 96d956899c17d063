//! The rows of a window: its hundreds in order, several read at once.
//!
//! Trusts: that the low marker is raised before anything is deleted.

use std::collections::VecDeque;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;

use super::format::AkkaRows;
use super::keys::{PARTITION, by_hundreds, hundred};
use crate::rows::{
    EVENTS_MAX, Explained, Head, Markers, Passed, Progress, Replay, Row, RowReader, RowReplay,
    RowTable,
};
use annals::items::{Item, Value};
use annals::journal::Window;
use annals::{PersistenceId, Result};

/// Over how many hundreds a batch can reach.
const BATCH_HUNDREDS: usize = EVENTS_MAX / PARTITION as usize + 1;

/// A request for the rows of a hundred.
type Request = BoxFuture<'static, Result<(u64, Vec<Item>)>>;

/// Reads hundreds ahead.
pub(crate) struct HundredsReader {
    format: AkkaRows,
    id: PersistenceId,
    markers: Markers,
    /// The first wanted number that is not deleted.
    start: u64,
    to: u64,
    /// The next hundred to be requested.
    next: u64,
    requests: FuturesOrdered<Request>,
    rows: VecDeque<Row>,
    is_at_end: bool,
}

impl HundredsReader {
    async fn open(format: &AkkaRows, id: &PersistenceId, window: &Window) -> Result<Self> {
        let (from, to) = (window.from.get(), window.to.get());
        // Usually nothing of the window is deleted: do not wait for the markers.
        let first = request(format, id, (from, to));
        let (markers, first) = futures::try_join!(format.all_markers(id), first)?;
        let start = from.max(markers.low).max(1);
        let mut reader = Self {
            format: format.clone(),
            id: id.clone(),
            markers,
            start,
            to,
            next: hundred(start),
            requests: FuturesOrdered::new(),
            rows: VecDeque::new(),
            is_at_end: false,
        };
        if hundred(start) == hundred(from) && start <= to {
            reader.next += 1;
            let first = async move { Ok(first) };
            reader.requests.push_back(Box::pin(first));
        }
        Ok(reader)
    }

    /// Requests the hundreds up to the high marker, and one after them.
    fn read_ahead(&mut self, left: u64) {
        let wanted = (left / PARTITION).saturating_add(1);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let at_once = self.format.base.settings.replay_parallelism.max(1);
        while self.requests.len() < wanted.min(at_once)
            && self.next <= hundred(self.to)
            && (self.next <= hundred(self.markers.high) || self.requests.is_empty())
        {
            let from = (self.next * PARTITION).max(self.start);
            let request = request(&self.format, &self.id, (from, self.to));
            self.requests.push_back(Box::pin(request));
            self.next += 1;
        }
    }
}

impl RowReader for HundredsReader {
    fn markers(&self) -> Markers {
        self.markers
    }

    async fn next(&mut self, progress: Progress) -> Result<Option<Row>> {
        // The last hundred that may have rows: that of the high marker, or of the end of a batch
        // whose last number may be used by a writer that has not raised the marker yet.
        let reach = hundred(self.markers.high.max(progress.awaited.unwrap_or(0)));
        loop {
            if let Some(row) = self.rows.pop_front() {
                return Ok(Some(row));
            }
            self.read_ahead(progress.left);
            match self.requests.next().await.transpose()? {
                Some((at, items)) if !items.is_empty() || at <= reach => {
                    // The first hundred was read before the markers: leave out deleted rows.
                    let skipped = self.start.saturating_sub(at * PARTITION);
                    for item in items.into_iter().filter(|item| position(item) >= skipped) {
                        self.rows.push_back(self.format.row(item)?);
                    }
                }
                // After the last hundred, or after the window.
                _ => {
                    self.is_at_end = self.next <= hundred(self.to);
                    return Ok(None);
                }
            }
        }
    }

    fn is_buffered(&self) -> bool {
        !self.rows.is_empty()
    }

    fn is_at_end(&self) -> bool {
        self.is_at_end
    }
}

/// The position of an item in its hundred.
fn position(item: &Item) -> u64 {
    let position = item.get("num").and_then(Value::as_u64);
    position.unwrap_or(0)
}

/// Requests the rows of a hundred from a number on.
fn request(
    format: &AkkaRows,
    id: &PersistenceId,
    (from, to): (u64, u64),
) -> impl Future<Output = Result<(u64, Vec<Item>)>> + Send + 'static {
    let (format, id) = (format.clone(), id.clone());
    async move {
        let items = format.items_between(&id, from, to).await?;
        Ok((hundred(from), items))
    }
}

impl RowReplay for AkkaRows {
    type Reader = HundredsReader;

    async fn read(&self, id: &PersistenceId, window: &Window) -> Result<HundredsReader> {
        HundredsReader::open(self, id, window).await
    }

    /// Also an emptied row.
    async fn row_before(&self, id: &PersistenceId, number: u64) -> Result<Option<Row>> {
        let hundreds: Vec<_> = by_hundreds(1, number - 1).collect();
        for (from, to) in hundreds.into_iter().rev().take(BATCH_HUNDREDS) {
            let query = self.keys.between(id, from, to).descending().limit(1);
            if let Some(row) = self.first_row(query).await? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    async fn explain(&self, replay: &mut Replay<Self>, (from, _): (u64, u64)) -> Result<Explained> {
        if self.all_markers(&replay.id).await?.low > from {
            return Ok(Explained::Overtaken);
        }
        self.check_shards(&replay.id).await?;
        Ok(Explained::Unknown)
    }

    /// A row emptied by a deletion that began after the markers were read. Rows are emptied in any
    /// order, so those before this one may have been delivered.
    async fn pass_deleted(&self, replay: &mut Replay<Self>, _row: &Row) -> Result<Passed> {
        match replay.assembly.last_event() {
            0 => Ok(Passed::Restart),
            _ => Err(replay.overtaken()),
        }
    }

    async fn known_to(&self, replay: &mut Replay<Self>) -> Result<u64> {
        let (id, markers) = (replay.id.clone(), replay.reader.markers);
        let last = Some(replay.assembly.last_row()).filter(|last| *last > 0);
        if replay.reader.is_at_end {
            // A window that begins after the last event proves nothing.
            let is_proven = last.is_some() || replay.window.from.get() <= markers.low.max(1);
            if is_proven {
                self.check_markers(&id, markers, last.map(hundred)).await?;
            }
            return Ok(markers.high);
        }
        if last.is_none() {
            let before = self.row_before(&id, replay.reader.start).await?;
            before.iter().for_each(|row| replay.assembly.claim(row));
        }
        let to = replay.window.to.get();
        let after = self.keys.between(&id, to + 1, u64::MAX).limit(1);
        let known = match self.first_row(after).await? {
            Some(row) => row.begin() - 1,
            None => markers.high,
        };
        Ok(known.min(to))
    }

    fn head(&self, replay: &Replay<Self>) -> Option<Head> {
        let (assembly, high) = (&replay.assembly, replay.reader.markers.high);
        let used = replay.reader.markers.used();
        let (last, next) = match (assembly.last_row(), assembly.last_event()) {
            // Read from the start, and the id has no events. If all events are deleted, the last
            // row may belong to a batch in flight.
            (0, _) if replay.window.from.get() == 1 && used == 0 && !replay.is_cut => (0, 1),
            (0, _) | (_, 0) => return None,
            // Not if the history ends in a batch that may be in flight.
            (row, event) if assembly.awaited().is_none() => (event, row + 1),
            _ => return None,
        };
        let next = next.max(used + 1);
        Some(Head { last, next, high })
    }
}
