//! The horizon: the time before which nothing more arrives, but what is told as late.
//!
//! A sweep that began at *s* by its clock, and got through, publishes the earlier of *s* less the
//! allowed lateness and the time of the oldest record that it had to leave in the buffer. It is
//! published by a conditional put and never goes back, unless an operator sets it back.
//!
//! Promises: an event whose time is before a published horizon either was in its slot, and its slot
//! in the index, before that horizon was published, or is told as late by the sweep that stores it.
//! So a follower that reads the horizon first and then what is before it misses none but late ones.
//! Trusts: clocks and networks as far as the allowed lateness says.
//!
//! Why. Let *r* be a record with a time before a horizon *h*, and *X* the sweep that published *h*.
//!
//! - *r* was in the buffer before *X* began. *X*'s scan passed *r*'s key later. Either *r* was still
//!   there: then *X* stored it, or found it stored, before it published; or it could not, and *h*
//!   would not be after *r*. Or *r* was gone: then another sweep had deleted it, which none does
//!   before it knows the event stored. Either way *r* was in its slot first.
//! - *r* came into the buffer after *X* began, at a time of *s* or later. It is older than *s* less
//!   the allowed lateness, so it took longer than is allowed: it is late, if *X* did not meet it.
//!   Some sweep *Y*, perhaps at the same time as *X*, stores it. *Y* reads the horizon after the
//!   store has acknowledged the event and before it deletes the record. Where it reads *h* or later
//!   it tells *r* as late. Where it reads an earlier one, *h* was published after the event was
//!   stored, and whoever reads *h* finds it.
//! - A sweep that dies tells nothing. If it died before it deleted *r*, the next one finds *r* in the
//!   buffer and the event stored. It cannot know when that happened, and counts *r* as
//!   [`repeated_behind`](super::SweepReport::repeated_behind). If it died later it had told *r* as
//!   late in the traces, before the deletion; only its report is lost.
//! - A put of *r* that was under way while the scan passed is a record that came after *X* began.
//!
//! Two sweeps at once may both store *r* and both tell it as late, or one may tell it although the
//! event was in time. Late is never told too rarely, sometimes too often.
//!
//! The index entry of a slot is acknowledged before its first event is stored (`page.rs`), and all
//! reads are strongly consistent, so who finds the event in its slot also finds the slot.

use super::{Log, Time, tables};
use crate::items::{Condition, Item, Value, WriteError};
use crate::{Error, Result};

fn horizon_item(time: Time) -> Item {
    tables::own_item(&tables::horizon_key()).with(tables::HORIZON, time.ms())
}

fn time_of(item: &Item) -> Result<Time> {
    let ms = item.get(tables::HORIZON).and_then(Value::as_u64);
    // The end of time is no event's, but a horizon it can be.
    let time = ms.map(Time::of_clock);
    time.ok_or_else(|| {
        Error::corrupt(
            "the log's horizon does not parse; remove its item and sweep again. partition=`annals#log`, entry=`horizon`",
        )
    })
}

impl Log {
    /// The time before which nothing more arrives, but what is told as late; `None` before the
    /// first sweep.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn horizon(&self) -> Result<Option<Time>> {
        let keys = vec![tables::horizon_key()];
        let got = self.items.get(&self.tables.event, keys).await?;
        let item = got.items.into_iter().next().flatten();
        item.as_ref().map(time_of).transpose()
    }

    /// Sets the horizon back to an earlier time: the way out where a sweeper's clock was far ahead,
    /// and every event since is late. Answers whether it was later than that.
    ///
    /// First set that clock right, or its next sweep puts the horizon ahead again. A follower that had
    /// passed this time waits until the horizon has, too; what was stored behind it meanwhile was told
    /// as late, and is played back from here on by whoever begins here.
    ///
    /// ```
    /// use annals::log::{Log, Time};
    /// use annals::memory::Memory;
    /// use annals::settings::LogSettings;
    /// use annals::ManualClock;
    /// use std::sync::Arc;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> annals::Result<()> {
    /// let ahead = Arc::new(ManualClock::at_ms(4_102_444_800_000)); // the year 2100
    /// let log = Log::create(Arc::new(Memory::new()), &LogSettings::default(), ahead).await?;
    /// log.sweep().await;
    /// let right: Time = "2026-11-15T00:00:00Z".parse()?;
    /// assert!(log.set_back_horizon(right).await?);
    /// assert_eq!(log.horizon().await?, Some(right));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As the store fails.
    pub async fn set_back_horizon(&self, time: Time) -> Result<bool> {
        loop {
            let Some(standing) = self.horizon().await?.filter(|standing| *standing > time) else {
                return Ok(false);
            };
            let condition = Condition::Equals(tables::HORIZON.to_owned(), standing.ms().into());
            let put = self
                .items
                .put(&self.tables.event, horizon_item(time), condition);
            match put.await {
                Ok(_) => return Ok(true),
                Err(WriteError::Failed(error)) => return Err(error),
                // A sweep has published another one meanwhile.
                Err(WriteError::Refused { .. }) => {}
            }
        }
    }

    /// Publishes a horizon, unless a later one is; answers the one that then stands.
    pub(super) async fn publish_horizon(&self, time: Time) -> Result<Time> {
        let mut condition = Condition::Absent;
        loop {
            let put = self
                .items
                .put(&self.tables.event, horizon_item(time), condition);
            match put.await {
                Ok(_) => return Ok(time),
                Err(WriteError::Failed(error)) => return Err(error),
                Err(WriteError::Refused { existing, .. }) => {
                    let standing = existing.as_deref().map(time_of).transpose()?;
                    condition = match standing {
                        Some(standing) if standing >= time => return Ok(standing),
                        Some(standing) => {
                            Condition::Equals(tables::HORIZON.to_owned(), standing.ms().into())
                        }
                        None => Condition::Absent,
                    };
                }
            }
        }
    }
}
