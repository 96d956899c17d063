//! Replay on the `j5ik2o` layout: how missing numbers and deleted rows are explained.

use super::format::J5ik2oRows;
use super::reader::{Range, Rows};
use super::row::is_deleted_by_us;
use crate::rows::{
    Explained, Head, Markers, Passed, Progress, Replay, Row, RowAppend, RowReader, RowReplay,
};
use annals::journal::Window;
use annals::{Error, PersistenceId, Result, SequenceNumber};

/// Reads the rows of a window.
pub(crate) struct WindowReader {
    rows: Rows,
    is_at_end: bool,
}

impl RowReader for WindowReader {
    fn markers(&self) -> Markers {
        self.rows.marker
    }

    async fn next(&mut self, _: Progress) -> Result<Option<Row>> {
        self.rows.next().await
    }

    /// Usually: rows come in pages.
    fn is_buffered(&self) -> bool {
        true
    }

    fn is_at_end(&self) -> bool {
        self.is_at_end
    }
}

impl RowReplay for J5ik2oRows {
    type Reader = WindowReader;

    async fn read(&self, id: &PersistenceId, window: &Window) -> Result<WindowReader> {
        let range = Range {
            skips_deleted: true,
            ..Range::between(window.from.get(), window.to.get())
        };
        let mut rows = Rows::new(self, id, range);
        rows.begin().await?;
        let is_at_end = window.to == SequenceNumber::LAST;
        Ok(WindowReader { rows, is_at_end })
    }

    async fn explain(&self, replay: &mut Replay<Self>, (_, to): (u64, u64)) -> Result<Explained> {
        let low = match replay.reader.rows.marker.low {
            low if low > to => low,
            _ => self.marker(&replay.id).await?.low,
        };
        // The plugin's hard deletion removes rows without a trace.
        let may_be_removed = !self.section().soft_delete;
        Ok(match replay.assembly.last_event() {
            0 if low > to || may_be_removed => Explained::Deleted,
            _ if low > to => Explained::Overtaken,
            _ => Explained::Unknown,
        })
    }

    async fn pass_deleted(&self, replay: &mut Replay<Self>, row: &Row) -> Result<Passed> {
        let (id, number) = (&replay.id, row.number);
        // We raise the marker before we flag a row; the plugin flags rows one by one.
        if is_deleted_by_us(row)
            && number >= replay.reader.rows.marker.low
            && self.marker(id).await?.low <= number
        {
            return Err(Error::corrupt(
                "an event is flagged as deleted but was not deleted; run annals verify",
            )
            .fact("id", id)
            .fact("number", number));
        }
        if replay.assembly.has_live_rows() && self.marker(id).await?.low > number {
            return Err(replay.overtaken());
        }
        Ok(Passed::Skip)
    }

    async fn known_to(&self, replay: &mut Replay<Self>) -> Result<u64> {
        if replay.reader.is_at_end {
            return Ok(0);
        }
        let to = replay.window.to.get();
        let tail = self.tail(&replay.id).await?;
        // A batch that is incomplete or being closed is the last one.
        let next = replay.assembly.next();
        let claims = |row: Row| !(row.is_live() && row.is_end()) && row.begin() <= next;
        match tail.highest > to && !tail.last.is_some_and(claims) {
            true => Ok(to),
            false => Ok(0),
        }
    }

    fn head(&self, replay: &Replay<Self>) -> Option<Head> {
        let (assembly, rows) = (&replay.assembly, &replay.reader.rows);
        let from = replay.window.from.get();
        let last = match (assembly.last_row(), assembly.last_event()) {
            // The history ends in a batch that may be in flight.
            _ if assembly.is_torn() => return None,
            // All rows were removed.
            (0, _) if rows.marker.high >= from => return None,
            // Read from the start, and the id has no events.
            (0, _) if from == 1 && !rows.is_anchored => 0,
            // No events after an append that is stored.
            (0, _) => match &rows.before {
                Some(row) if !row.is_closing() && (row.is_end() || !row.is_live()) => row.number,
                _ => return None,
            },
            // All events are deleted.
            (row, 0) => row,
            (_, event) => event,
        };
        let next = assembly.next();
        Some(Head {
            last,
            next,
            high: 0,
        })
    }
}
