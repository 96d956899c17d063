//! The tail: the end of an id's history, and what comes after the event that an append expects.
//!
//! Guarantees: the highest number that was ever used, whatever the plugin failed to mark, as long as
//! no whole hundred of numbers is missing. The next number never becomes smaller, also not by a
//! deletion: two writers that prove the same event to be last at different times want the same
//! number, or the later one a larger one.
//! Trusts: that a writer of ours raises the high marker before it acknowledges; where the highest
//! number is all that is asked for, also [`AkkaRows::is_told`].

use futures::TryStreamExt;

use super::format::AkkaRows;
use super::keys::{Marker, PARTITION, hundred};
use super::row::{is_forgotten, tombstone};
use crate::rows::{After, Head, Markers, Replay, Row, RowAppend, RowCodec, RowTable, Tail, Wanted};
use annals::journal::Window;
use annals::{Event, PersistenceId, Result, SequenceNumber};

/// The last row of a hundred, as it was found.
pub(super) type Seen = (u64, Option<Row>);

fn tail_of(markers: Markers, last: Option<Row>) -> Tail {
    let row = last.as_ref().map_or(0, |row| row.number);
    // After a batch whose last member is missing comes that member's number, so that the batch can
    // never become whole once it is taken. Numbers that the markers name are taken, also where no
    // row has them.
    let next = last.as_ref().and_then(Row::open_end).unwrap_or(row + 1);
    let highest = markers.used().max(row);
    Tail {
        highest,
        next: next.max(markers.used() + 1),
        append_after: highest,
        markers,
        last,
    }
}

/// The last row, if it is of a batch whose last member is missing.
pub(super) fn open_row(tail: &Tail) -> Option<&Row> {
    tail.last.as_ref().filter(|row| row.open_end().is_some())
}

fn head_of(tail: &Tail, last: u64) -> Head {
    Head {
        last,
        next: tail.next,
        high: tail.markers.high,
    }
}

impl RowAppend for AkkaRows {
    /// The next append takes the number of the last member, and the plugin's own filter skips the
    /// others.
    const CLOSES_BATCHES: bool = false;

    /// In two rounds, and always with a look at the hundred after the last. Replays look there too,
    /// and writers must see all that they see, or the two would want different numbers for what
    /// comes after the same event.
    async fn tail(&self, id: &PersistenceId) -> Result<Tail> {
        let markers = self.all_markers(id).await?;
        self.tail_after(id, markers, None).await
    }

    /// The high markers, and the last row where they point. The rest is read where that row does
    /// not prove the highest number.
    async fn highest(&self, id: &PersistenceId) -> Result<u64> {
        let high = self.markers_of(id, &[Marker::High]).await?.high;
        let at = hundred(high);
        let seen = self.first_row(self.keys.last_of(id, at)).await?;
        let closed = |row: &&Row| row.is_live() && row.is_end();
        if let Some(row) = seen.as_ref().filter(closed)
            && let Some(highest) = self.highest_by(id, row).await?
        {
            return Ok(highest);
        }
        let low = self.markers_of(id, &[Marker::Low]).await?;
        let tail = self.tail_if_any(id, Markers { high, ..low }, (at, seen));
        Ok(tail.await?.map_or(0, |tail| tail.highest))
    }

    async fn after(&self, wanted: &Wanted<'_>) -> Result<After> {
        let Wanted { id, last, stamped } = *wanted;
        let tail = self.marked_tail(id).await?;
        if last > tail.highest {
            return Ok(After::Taken(Vec::new()));
        }
        let head = head_of(&tail, last);
        let open = open_row(&tail).cloned().map(Box::new);
        if let Some(open) = open.clone().filter(|open| open.begin() > last)
            && self.token(&open)? == Some(stamped.token)
        {
            return Ok(After::Open(open, head));
        }
        let from = SequenceNumber::new(last + 1).filter(|_| last < tail.highest);
        let is_cut = last + 1 < tail.markers.low;
        let found = match from.filter(|_| !is_cut) {
            Some(from) => self.first_append(id, from).await?,
            None => Some(Vec::new()).filter(|_| !is_cut),
        };
        // Events after the expected one were deleted: they were there.
        let Some(found) = found else {
            return self.after_deleted(wanted, &tail).await;
        };
        Ok(match (found.first().zip(found.last()), open) {
            (Some((first, end)), _) if first.token == stamped.token => After::Landed {
                end: end.sequence_number.get(),
                time_ms: first.time_ms,
                high: tail.markers.high,
            },
            (Some(_), _) => After::Taken(found),
            (None, Some(open)) => After::Open(open, head),
            (None, None) => After::Nothing(head),
        })
    }

    /// Raises the high marker where that is due.
    async fn acknowledge(&self, id: &PersistenceId, mut head: Head) -> Result<Head> {
        if hundred(head.last) * PARTITION > head.high {
            head.high = self.raise_high(id, head.last).await?;
        }
        Ok(head)
    }

    /// A removed row frees its key, so a put alone proves nothing where the JVM deletes. Nearly
    /// always the last event before it is still there.
    async fn is_above_deleted(&self, id: &PersistenceId, head: Head) -> Result<bool> {
        if !self.jvm_deletes() {
            return Ok(true);
        }
        if head.last > 0 {
            let key = self.keys.event(id, head.last);
            let found = self.base.store.get(&self.base.table, vec![key]).await?;
            if let Some(item) = found.items.into_iter().flatten().next()
                && !self.row(item)?.is_deleted()
            {
                return Ok(true);
            }
        }
        Ok(self.all_markers(id).await?.low <= head.next)
    }
}

impl AkkaRows {
    /// The tail, repaired where it misleads others. The high marker is raised to it: a replay that
    /// begins after a batch which died does not know where that was to end, and goes as far as the
    /// marker says.
    async fn marked_tail(&self, id: &PersistenceId) -> Result<Tail> {
        let mut tail = self.tail(id).await?;
        let last = tail.last.as_ref().map_or(0, |row| row.number);
        if hundred(last) * PARTITION > tail.markers.high {
            tail.markers.high = self.raise_high(id, last).await?;
        }
        // Whoever asks for the highest number would believe this row. The JVM removed the last event
        // and failed to remove one of ours before it: a tombstone makes it as our deletion would.
        let is_told = tail.last.as_ref().is_some_and(|row| self.is_told(row));
        if is_told && last + 1 < tail.markers.low {
            let key = self.keys.event(id, tail.markers.low - 1);
            let item = tombstone(self.base.table.key().item_of(&key));
            self.base.put_new(item).await?;
        }
        Ok(tail)
    }

    /// The first events that count from a number on, of one append; `None` where some from there on
    /// are deleted, so that nobody can say whether those found are the first.
    async fn first_append(
        &self,
        id: &PersistenceId,
        from: SequenceNumber,
    ) -> Result<Option<Vec<Event>>> {
        let mut replay = Replay::open(self.clone(), id.clone(), Window::from(from)).await?;
        let mut found: Vec<Event> = Vec::new();
        while let Some(events) = replay.next().await? {
            for event in events {
                let token = found.first().map(|first| first.token);
                if token.is_some_and(|token| token != event.token) {
                    return Ok(Some(found).filter(|_| !replay.is_cut));
                }
                found.push(event);
            }
        }
        Ok(Some(found).filter(|_| !replay.is_cut))
    }

    /// Whether the append is the first one that counts after what it expected, deleted by now in
    /// whole or in part. Where that was forgotten of its first events, its last may still show it.
    async fn after_deleted(&self, wanted: &Wanted<'_>, tail: &Tail) -> Result<After> {
        let Wanted { id, last, stamped } = *wanted;
        let mut has_forgotten = false;
        let expected_end = last + stamped.append.events.len() as u64;
        let mut rows = self.rows(id, (last + 1, tail.highest));
        while let Some(row) = rows.try_next().await? {
            if has_forgotten && row.number > expected_end {
                break;
            }
            if is_forgotten(&row) {
                has_forgotten = true;
            } else if row.is_end() {
                // A last member is put when all others are stored.
                if self.token(&row)? == Some(stamped.token) {
                    return Ok(After::Landed {
                        end: row.number,
                        time_ms: self.time_ms(&row),
                        high: tail.markers.high,
                    });
                }
                break;
            }
        }
        Ok(match has_forgotten {
            true => After::Forgotten,
            false => After::Taken(Vec::new()),
        })
    }

    /// The highest number where the last row of the high marker's hundred and what is next to it
    /// prove it; `None` where more must be read.
    async fn highest_by(&self, id: &PersistenceId, row: &Row) -> Result<Option<u64>> {
        let at = hundred(row.number);
        let after = self.first_row(self.keys.last_of(id, at + 1));
        if self.is_told(row) {
            let is_full = row.number % PARTITION == PARTITION - 1;
            let is_last = !is_full || after.await?.is_none();
            return Ok(is_last.then_some(row.number));
        }
        // A row that somebody failed to delete is before a low marker, which is at most one number
        // after the last: in this hundred, or where the next one begins.
        let (after, low) = futures::try_join!(after, self.low_near(id, at))?;
        let is_near = after.is_none() && low <= (at + 1) * PARTITION;
        Ok(is_near.then(|| row.number.max(low.saturating_sub(1))))
    }

    /// The last number that anything of an id may be stored at; 0 where there is nothing of it.
    pub(super) async fn extent(&self, id: &PersistenceId) -> Result<u64> {
        let markers = self.all_markers(id).await?;
        let at = hundred(markers.used());
        let seen = self.first_row(self.keys.last_of(id, at)).await?;
        let tail = self.tail_if_any(id, markers, (at, seen)).await?;
        Ok(tail.map_or(0, |tail| tail.highest.max(tail.next.saturating_sub(1))))
    }

    /// Whether the last row of the high marker's hundred proves the highest number, unless it is the
    /// last of the hundred, without the low markers and without a look after that hundred.
    ///
    /// - After a row of ours there is none in the next hundred. When it was put there was none, or
    ///   its number would have been after that one. What we put later comes one after the other: in
    ///   the next hundred only after the last number of this one, or as the end of a batch that
    ///   this row shows to be open, or marked before it is acknowledged.
    /// - A row of ours is not below the low marker without those after it: our deletions put an
    ///   emptied item for each. Where others remove items (`jvm-deletes`) that does not hold.
    ///
    /// Of a row that the JVM wrote neither holds: it rejects events and goes on after them without a
    /// marker, and forgets items that it failed to delete. Of ours it would fail to hold where the
    /// JVM went on with the id and stored nothing more in its hundred nor marked the next: then this
    /// returns too little, and an append after it is refused with the events that are there.
    pub(super) fn is_told(&self, row: &Row) -> bool {
        self.is_ours(row) && row.is_live() && row.is_end() && !self.jvm_deletes()
    }

    /// The end, unless there is nothing of an id: no marker, and no row in the first hundred. All
    /// that ever counted began there, and what is deleted from there leaves a low marker. After it
    /// there may be members of a first batch that was never acknowledged; a writer meets them.
    async fn tail_if_any(
        &self,
        id: &PersistenceId,
        markers: Markers,
        seen: Seen,
    ) -> Result<Option<Tail>> {
        if markers.used() == 0 && seen.1.is_none() {
            self.check_unknown(id).await?;
            return Ok(None);
        }
        self.tail_after(id, markers, Some(seen)).await.map(Some)
    }

    /// The end that these markers lead to. What was seen of a hundred is not read again.
    pub(super) async fn tail_after(
        &self,
        id: &PersistenceId,
        mut markers: Markers,
        seen: Option<Seen>,
    ) -> Result<Tail> {
        let mut at = hundred(markers.used());
        let look = |hundred| self.first_row(self.keys.last_of(id, hundred));
        let (mut last, mut after) = match seen.filter(|(hundred, _)| *hundred == at) {
            Some((_, row)) => (row, look(at + 1).await?),
            None => futures::try_join!(look(at), look(at + 1))?,
        };
        loop {
            while let Some(row) = after {
                at += 1;
                last = Some(row);
                after = look(at + 1).await?;
            }
            // A writer that took the number of a long batch's last member may not have marked it.
            let far = last.as_ref().and_then(Row::open_end).map(hundred);
            let Some(far) = far.filter(|far| *far > at + 1) else {
                break;
            };
            after = look(far).await?;
            if after.is_none() {
                break;
            }
            at = far - 1;
            // Replays do not look that far: it must not be reported before they do.
            markers.high = self.raise_high(id, far * PARTITION).await?;
        }
        let at = last.is_some().then_some(at);
        self.check_markers(id, markers, at).await?;
        Ok(tail_of(markers, last))
    }
}
