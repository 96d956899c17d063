//! Batches: the events of one append, which are replayed together or not at all.
//!
//! Each member tells its place and the last place. The first is put first and the last one last:
//! where that is there, all are. The plugin knows nothing of batches; rows of one that was cut off
//! are marked as deleted for it before anything is appended behind them (`closing.rs`).
//!
//! Never: holds more than one batch.

use super::journal::J5ik2oJournal;
use super::row::Row;
use annals::{PersistenceId, Result};

/// The rows of one batch, while its end has not been met.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) rows: Vec<Row>,
    /// Numbers that were not there when they were looked for.
    pub(super) holes: Vec<(u64, u64)>,
}

/// What a row says about the batches met so far.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The row counts, on its own.
    Alone(Row),
    /// Its batch has not ended.
    Waits,
    /// It ends its batch, which is whole.
    Whole(Pending),
}

/// Lets whole batches pass.
#[derive(Debug, Default)]
pub(super) struct Batches {
    pending: Option<Pending>,
    /// Numbers that were missing before the first member that was met of a batch.
    early: Option<(u64, u64)>,
    /// Every number up to here belongs to a batch that was met.
    claimed: u64,
    /// Whether a batch was met that is not whole.
    is_torn: bool,
}

impl Batches {
    pub(super) fn push(&mut self, row: Row) -> Verdict {
        let (begin, end) = (row.begin(), row.end());
        if row.batch.is_none() {
            self.give_up();
            return Verdict::Alone(row);
        }
        let is_end = row.is_end();
        self.claimed = self.claimed.max(end);
        match &mut self.pending {
            Some(pending) if (pending.begin, pending.end) == (begin, end) => pending.rows.push(row),
            _ => {
                self.give_up();
                self.pending = Some(Pending {
                    begin,
                    end,
                    rows: vec![row],
                    holes: self.early.take().into_iter().collect(),
                });
            }
        }
        match self.pending.take_if(|_| is_end) {
            Some(whole) => Verdict::Whole(whole),
            None => Verdict::Waits,
        }
    }

    /// Notes numbers that are missing, before a row of an append that begins somewhere; answers
    /// whether a batch explains them.
    pub(super) fn miss(&mut self, from: u64, to: u64, begin: u64) -> bool {
        match &mut self.pending {
            Some(pending) if to < pending.end => pending.holes.push((from, to)),
            _ if begin <= from => self.early = Some((from, to)),
            _ => return to <= self.claimed,
        }
        true
    }

    /// Notes a row of a batch that was given up.
    pub(super) fn pass(&mut self, row: &Row) {
        self.early = None;
        self.claimed = self.claimed.max(row.end());
        self.is_torn |= row.is_closing();
        if self
            .pending
            .as_ref()
            .is_some_and(|pending| row.number <= pending.end)
        {
            self.give_up();
        }
    }

    /// The batch whose end has not been met.
    pub(super) fn pending(&self) -> Option<&Pending> {
        self.pending.as_ref()
    }

    /// Takes the batch whose end is known to be there.
    pub(super) fn take(&mut self) -> Option<Pending> {
        self.pending.take()
    }

    /// The batch whose end has not been met never becomes whole, or has not yet.
    pub(super) fn give_up(&mut self) {
        self.is_torn |= self.pending.take().is_some();
    }

    /// Whether a batch was met that is not whole.
    pub(super) fn is_torn(&self) -> bool {
        self.is_torn
    }
}

impl J5ik2oJournal {
    /// Reads what was not there yet of a batch whose end is there; answers what still is not.
    pub(super) async fn fill(&self, id: &PersistenceId, whole: &mut Pending) -> Result<Vec<u64>> {
        let mut missing = Vec::new();
        for (from, to) in std::mem::take(&mut whole.holes) {
            let rows = self.rows_at(id, from..=to).await?;
            for (row, number) in rows.into_iter().zip(from..) {
                match row {
                    Some(row) => whole.rows.push(row),
                    None => missing.push(number),
                }
            }
        }
        whole.rows.sort_by_key(|row| row.number);
        Ok(missing)
    }
}
