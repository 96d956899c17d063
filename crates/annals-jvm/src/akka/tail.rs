//! The tail: the end of an id's history, and the rows after the event that an append expects.
//!
//! Guarantees: finds the highest number ever used, even if the plugin did not raise the high marker,
//! unless a whole hundred of numbers is missing. The next number never decreases, not even by a
//! deletion: of two writers that find the same event to be last, the later one gets the same number
//! or a larger one.
//! Relies on our writers to raise the high marker before they acknowledge; `highest` also relies on
//! [`AkkaRows::proves_highest`].

use futures::TryStreamExt;

use super::format::AkkaRows;
use super::keys::{Marker, PARTITION, hundred};
use super::row::{has_lost_token, tombstone};
use crate::rows::{After, Head, Markers, Replay, Row, RowAppend, RowCodec, RowTable, Tail, Wanted};
use annals::journal::Window;
use annals::{Event, PersistenceId, Result, SequenceNumber};

/// The last row of a hundred, as it was found.
pub(super) type Seen = (u64, Option<Row>);

fn tail_of(markers: Markers, last: Option<Row>) -> Tail {
    let row = last.as_ref().map_or(0, |row| row.number);
    // After a batch without its last member, the next number is that member's, so that the batch can
    // never be completed. Numbers up to the markers are used, even without a row.
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

    /// In two rounds, and always including the hundred after the last. Replays read it too, and
    /// writers must see the same rows, or they would disagree on the number after an event.
    async fn tail(&self, id: &PersistenceId) -> Result<Tail> {
        let markers = self.all_markers(id).await?;
        self.tail_after(id, markers, None).await
    }

    /// Reads the high markers, and the last row where they point; more only if that row does not
    /// prove the highest number.
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
        // Events after the expected one existed and are deleted.
        let Some(found) = found else {
            return self.after_deleted(wanted, &tail).await;
        };
        Ok(match (found.first().zip(found.last()), open) {
            (Some((first, end)), _) if first.token == stamped.token => After::Stored {
                end: end.sequence_number.get(),
                time_ms: first.time_ms,
                high: tail.markers.high,
            },
            (Some(_), _) => After::Taken(found),
            (None, Some(open)) => After::Open(open, head),
            (None, None) => After::Nothing(head),
        })
    }

    /// Raises the high marker if needed.
    async fn acknowledge(&self, id: &PersistenceId, mut head: Head) -> Result<Head> {
        if hundred(head.last) * PARTITION > head.high {
            head.high = self.raise_high(id, head.last).await?;
        }
        Ok(head)
    }

    /// If the JVM deletes, a removed row frees its key, so a put alone proves nothing. Usually the
    /// event before it is still stored.
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
    /// The tail, repaired if it would mislead others. Raises the high marker to it: a replay that
    /// begins after an interrupted batch does not know its end, and reads up to the marker.
    async fn marked_tail(&self, id: &PersistenceId) -> Result<Tail> {
        let mut tail = self.tail(id).await?;
        let last = tail.last.as_ref().map_or(0, |row| row.number);
        if hundred(last) * PARTITION > tail.markers.high {
            tail.markers.high = self.raise_high(id, last).await?;
        }
        // This row would prove a wrong highest number: the JVM removed the last event, but not one
        // of ours before it. Put a tombstone, as our deletion would.
        let proves_highest = tail
            .last
            .as_ref()
            .is_some_and(|row| self.proves_highest(row));
        if proves_highest && last + 1 < tail.markers.low {
            let key = self.keys.event(id, tail.markers.low - 1);
            let item = tombstone(self.base.table.key().item_of(&key));
            self.base.put_new(item).await?;
        }
        Ok(tail)
    }

    /// The events of the first append from a number on; `None` if some events from there on are
    /// deleted, so that it may not be the first.
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

    /// Whether the append is the first one after its expected event, even if partly or fully deleted
    /// since. If its first events have lost their token, its last may still have it.
    async fn after_deleted(&self, wanted: &Wanted<'_>, tail: &Tail) -> Result<After> {
        let Wanted { id, last, stamped } = *wanted;
        let mut is_token_lost = false;
        let expected_end = last + stamped.append.events.len() as u64;
        let mut rows = self.rows(id, (last + 1, tail.highest));
        while let Some(row) = rows.try_next().await? {
            if is_token_lost && row.number > expected_end {
                break;
            }
            if has_lost_token(&row) {
                is_token_lost = true;
            } else if row.is_end() {
                // The last member is put after all others.
                if self.token(&row)? == Some(stamped.token) {
                    return Ok(After::Stored {
                        end: row.number,
                        time_ms: self.time_ms(&row),
                        high: tail.markers.high,
                    });
                }
                break;
            }
        }
        Ok(match is_token_lost {
            true => After::Forgotten,
            false => After::Taken(Vec::new()),
        })
    }

    /// The highest number, if the last row of the high marker's hundred and its neighbours prove it;
    /// `None` if more must be read.
    async fn highest_by(&self, id: &PersistenceId, row: &Row) -> Result<Option<u64>> {
        let at = hundred(row.number);
        let after = self.first_row(self.keys.last_of(id, at + 1));
        if self.proves_highest(row) {
            let is_full = row.number % PARTITION == PARTITION - 1;
            let is_last = !is_full || after.await?.is_none();
            return Ok(is_last.then_some(row.number));
        }
        // A row that the JVM failed to delete is below a low marker, which is at most one after the
        // last number: in this hundred, or at the start of the next.
        let (after, low) = futures::try_join!(after, self.low_near(id, at))?;
        let is_near = after.is_none() && low <= (at + 1) * PARTITION;
        Ok(is_near.then(|| row.number.max(low.saturating_sub(1))))
    }

    /// The last number that may have a row; 0 if the id has none.
    pub(super) async fn extent(&self, id: &PersistenceId) -> Result<u64> {
        let markers = self.all_markers(id).await?;
        let at = hundred(markers.used());
        let seen = self.first_row(self.keys.last_of(id, at)).await?;
        let tail = self.tail_if_any(id, markers, (at, seen)).await?;
        Ok(tail.map_or(0, |tail| tail.highest.max(tail.next.saturating_sub(1))))
    }

    /// Whether the last row of the high marker's hundred proves the highest number (unless it is the
    /// last of its hundred) without reading the low markers or the next hundred.
    ///
    /// - After a row of ours the next hundred has none. It had none when the row was put, or the row
    ///   would have got a later number. Later puts are in order: the next hundred is used only after
    ///   the last number of this one, or for the end of a batch that this row shows to be open, or
    ///   after the marker is raised.
    /// - If a row of ours is below the low marker, so are those after it: our deletions empty each
    ///   item. This does not hold if the JVM removes items (`jvm-deletes`).
    ///
    /// Neither holds for a row of the JVM: it skips the numbers of rejected events without raising
    /// the marker, and does not retry failed deletions. For a row of ours this fails only if the JVM
    /// continued the id, stored nothing more in this hundred and did not mark the next: then the
    /// result is too low, and an append after it gets a conflict with the events that are stored.
    pub(super) fn proves_highest(&self, row: &Row) -> bool {
        self.is_ours(row) && row.is_live() && row.is_end() && !self.jvm_deletes()
    }

    /// The end; `None` for an id with no marker and no row in the first hundred. Every history begins
    /// there, and its deletion leaves a low marker. There may be later members of a first batch that
    /// was never acknowledged; a writer gets a conflict with them.
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

    /// The end according to these markers. A hundred that was read is not read again.
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
            // A writer that used the last number of a long batch may not have raised the marker.
            let far = last.as_ref().and_then(Row::open_end).map(hundred);
            let Some(far) = far.filter(|far| *far > at + 1) else {
                break;
            };
            after = look(far).await?;
            if after.is_none() {
                break;
            }
            at = far - 1;
            // Replays do not read that far, so it must not be reported yet.
            markers.high = self.raise_high(id, far * PARTITION).await?;
        }
        let at = last.is_some().then_some(at);
        self.check_markers(id, markers, at).await?;
        Ok(tail_of(markers, last))
    }
}
