//! Finding the end of an id's history: the marks, then the last row, and always one look behind it.
//!
//! Promises: the highest number that was ever used, whatever the plugin failed to mark, as long as
//! no whole hundred of numbers is missing; three requests, in two rounds. The next number never
//! becomes smaller, also not by a deletion: two writers that prove the same event last at different
//! times want the same number, or the later one a larger one.
//! Trusts: that a writer of ours raises the high mark before it acknowledges.

use super::journal::AkkaJournal;
use super::keys::{PARTITION, hundred};
use super::marks::Marks;
use super::row::Row;
use crate::items::Query;
use crate::{PersistenceId, Result};

/// The end of a history.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) marks: Marks,
    /// The last row, if it is in the last hundred.
    pub(super) last: Option<Row>,
    /// The last number that was ever used; 0: none.
    pub(super) highest: u64,
    /// The number that the next event gets.
    pub(super) next: u64,
}

/// Where the batch ends that a row is part of, if its last member must still come. Deleted rows
/// count: whoever found the batch open before wants its last member's number.
pub(super) fn open_end(row: &Row) -> Option<u64> {
    let is_open = row.batch.is_some_and(|place| place.index < place.last);
    is_open.then(|| row.end())
}

impl Tail {
    fn of(marks: Marks, last: Option<Row>) -> Self {
        let row = last.as_ref().map_or(0, |row| row.number.get());
        // Behind a batch whose last member is missing comes that member's number, so that the
        // batch can never become whole behind the back of whoever takes it. Numbers that the marks
        // tell of are taken, also where no row has them.
        let next = last.as_ref().and_then(open_end).unwrap_or(row + 1);
        Self {
            highest: marks.used().max(row),
            next: next.max(marks.used() + 1),
            marks,
            last,
        }
    }

    /// The last row, if it is of a batch whose last member is missing.
    pub(super) fn open(&self) -> Option<&Row> {
        self.last.as_ref().filter(|row| open_end(row).is_some())
    }
}

impl AkkaJournal {
    /// The end of an id's history as the store has it.
    pub(super) async fn tail(&self, id: &PersistenceId) -> Result<Tail> {
        let marks = self.marks(id).await?;
        self.tail_behind(id, marks).await
    }

    async fn tail_behind(&self, id: &PersistenceId, mut marks: Marks) -> Result<Tail> {
        let mut at = hundred(marks.used());
        let look = |hundred| self.row(self.keys.last_of(id, hundred));
        let (mut last, mut behind) = futures::try_join!(look(at), look(at + 1))?;
        loop {
            while let Some(row) = behind {
                at += 1;
                last = Some(row);
                behind = look(at + 1).await?;
            }
            // Whoever took the number of a long batch's last member may not have marked it yet.
            let far = last.as_ref().and_then(open_end).map(hundred);
            let Some(far) = far.filter(|far| *far > at + 1) else {
                break;
            };
            behind = look(far).await?;
            if behind.is_none() {
                break;
            }
            at = far - 1;
            // Replays do not look that far: nobody is to be told of it before they do.
            marks.high = self.raise_high(id, far * PARTITION).await?;
        }
        self.check_marks(id, marks, last.is_some().then_some(at))
            .await?;
        Ok(Tail::of(marks, last))
    }

    /// Looks for marks in shards that these settings do not know where some seem to be missing:
    /// behind the marks rows go on, or where the marks point there is nothing. `at` is the hundred
    /// of the last row.
    pub(super) async fn check_marks(
        &self,
        id: &PersistenceId,
        marks: Marks,
        at: Option<u64>,
    ) -> Result<()> {
        let shards = u64::from(self.keys.shards);
        let used = hundred(marks.used());
        let is_doubtful = match at {
            Some(at) => at > hundred(marks.high) && at >= shards,
            None if marks.used() == 0 => return self.check_unknown(id).await,
            None => marks.low <= marks.high || used + 1 >= shards,
        };
        match is_doubtful {
            true => self.check_shards(id).await,
            false => Ok(()),
        }
    }

    /// The first row that a query brings.
    pub(super) async fn row(&self, query: Query) -> Result<Option<Row>> {
        let page = self.items.query(&self.table, query).await?;
        let item = page.items.into_iter().next();
        item.map(|item| Row::of(&self.keys, item)).transpose()
    }
}
