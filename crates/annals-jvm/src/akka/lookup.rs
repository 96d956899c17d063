//! Finding the end of an id's history: the marks, then the last row, and a look behind it.
//!
//! Promises: the highest number that was ever used, whatever the plugin failed to mark, as long as
//! no whole hundred of numbers is missing. The next number never becomes smaller, also not by a
//! deletion: two writers that prove the same event last at different times want the same number, or
//! the later one a larger one.
//! Trusts: that a writer of ours raises the high mark before it acknowledges; where the highest
//! number is all that is asked for, also what `is_told` says.

use super::journal::AkkaJournal;
use super::keys::{Mark, PARTITION, hundred};
use super::marks::Marks;
use super::row::Row;
use annals::items::Query;
use annals::journal::Signature;
use annals::layout::support::Signatures;
use annals::{PersistenceId, Result, SequenceNumber};

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

/// The last row of a hundred, as it was found.
type Seen = (u64, Option<Row>);

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
    /// Which appends took the numbers from one to another. Emptied rows tell as long as they remember;
    /// what was removed, always from the first on, tells nothing.
    pub(super) async fn find_signatures(
        &self,
        id: &PersistenceId,
        (from, to): (SequenceNumber, SequenceNumber),
    ) -> Result<Vec<Signature>> {
        let mut signatures = Signatures::from(from);
        for item in self.items_in(id, from.get(), to.get()).await? {
            let row = Row::of(&self.keys, item)?;
            if signatures.has_met_none() {
                signatures.forget_before(row.number.get());
            }
            // A last member is put when all others are there.
            let is_end = row.number.get() == row.end();
            match row.token()? {
                None => signatures.meet(row.number, None),
                Some(token) if is_end => signatures.meet(row.number, Some(token)),
                Some(_) => signatures.pass(row.number.get()),
            }
        }
        Ok(signatures.until(to))
    }

    /// The end of an id's history as the store has it, for those who write behind it: in two rounds,
    /// and always with a look at the hundred behind the last. Replays look there too, and whoever
    /// writes must see all that they see, or the two would want different numbers for what comes
    /// behind the same event.
    pub(super) async fn tail(&self, id: &PersistenceId) -> Result<Tail> {
        let marks = self.marks(id).await?;
        self.tail_behind(id, marks, None).await
    }

    /// The highest number that was ever used, 0 for none, for those who only want to know: the high
    /// marks, and the last row where they point. The rest is read where that row does not tell.
    pub(super) async fn find_highest(&self, id: &PersistenceId) -> Result<u64> {
        let high = self.marks_of(id, &[Mark::High]).await?.high;
        let at = hundred(high);
        let seen = self.row(self.keys.last_of(id, at)).await?;
        let closed = |row: &&Row| !row.is_gone() && open_end(row).is_none();
        if let Some(row) = seen.as_ref().filter(closed)
            && let Some(highest) = self.highest_by(id, row).await?
        {
            return Ok(highest);
        }
        let marks = self.marks_of(id, &[Mark::Low]).await?;
        let tail = self.tail_if_any(id, Marks { high, ..marks }, (at, seen));
        Ok(tail.await?.map_or(0, |tail| tail.highest))
    }

    /// The highest number where the last row of the high mark's hundred and what stands next to it
    /// tell it; `None` where more must be read.
    async fn highest_by(&self, id: &PersistenceId, row: &Row) -> Result<Option<u64>> {
        let number = row.number.get();
        let at = hundred(number);
        let behind = self.row(self.keys.last_of(id, at + 1));
        if self.is_told(row) {
            let is_full = number % PARTITION == PARTITION - 1;
            let is_last = !is_full || behind.await?.is_none();
            return Ok(is_last.then_some(number));
        }
        // A row that somebody failed to delete stands before a low mark, which is at most one number
        // behind the last: in this hundred, or where the next one begins.
        let (behind, low) = futures::try_join!(behind, self.low_near(id, at))?;
        let is_near = behind.is_none() && low <= (at + 1) * PARTITION;
        Ok(is_near.then(|| number.max(low.saturating_sub(1))))
    }

    /// The last number that anything of an id may stand at; 0 where there is nothing of it.
    pub(super) async fn extent(&self, id: &PersistenceId) -> Result<u64> {
        let marks = self.marks(id).await?;
        let at = hundred(marks.used());
        let seen = self.row(self.keys.last_of(id, at)).await?;
        let tail = self.tail_if_any(id, marks, (at, seen)).await?;
        Ok(tail.map_or(0, |tail| tail.highest.max(tail.next.saturating_sub(1))))
    }

    /// Whether the last row of the high mark's hundred tells the highest number, unless it is the
    /// last of the hundred, without the low marks and without a look behind that hundred.
    ///
    /// - Behind a row of ours there is none in the next hundred. When it was put there was none, or
    ///   its number would have been behind that one. What we put later comes one after the other: in
    ///   the next hundred only behind the last number of this one, or as the end of a batch that
    ///   this row shows to be open, or marked before anybody is told of it.
    /// - A row of ours does not stand below the low mark without those behind it: our deletions put
    ///   an emptied item for each. Where others remove items (`jvm-deletes`) that does not hold.
    ///
    /// Of a row that the JVM wrote neither holds: it rejects events and goes on behind them without a
    /// mark, and forgets items that it failed to delete. Of ours it would fail to hold where the JVM
    /// went on with the id and stored nothing more in its hundred nor marked the next: then this
    /// answers too little, and an append behind that answer is refused with what is there.
    pub(super) fn is_told(&self, row: &Row) -> bool {
        row.is_ours() && !row.is_gone() && open_end(row).is_none() && !self.settings.jvm_deletes
    }

    /// The end, unless there is nothing of an id: no mark, and no row in the first hundred. All that
    /// ever counted began there, and what is taken from there leaves a low mark. What may stand
    /// behind it are members of a first batch that nobody was told of; a writer meets them (`tail`).
    async fn tail_if_any(
        &self,
        id: &PersistenceId,
        marks: Marks,
        seen: Seen,
    ) -> Result<Option<Tail>> {
        if marks.used() == 0 && seen.1.is_none() {
            self.check_unknown(id).await?;
            return Ok(None);
        }
        self.tail_behind(id, marks, Some(seen)).await.map(Some)
    }

    /// The end that these marks lead to. What was seen of a hundred is not read again.
    pub(super) async fn tail_behind(
        &self,
        id: &PersistenceId,
        mut marks: Marks,
        seen: Option<Seen>,
    ) -> Result<Tail> {
        let mut at = hundred(marks.used());
        let look = |hundred| self.row(self.keys.last_of(id, hundred));
        let (mut last, mut behind) = match seen.filter(|(hundred, _)| *hundred == at) {
            Some((_, row)) => (row, look(at + 1).await?),
            None => futures::try_join!(look(at), look(at + 1))?,
        };
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
        let page = self.store.query(&self.table, query).await?;
        let item = page.items.into_iter().next();
        item.map(|item| Row::of(&self.keys, item)).transpose()
    }
}
