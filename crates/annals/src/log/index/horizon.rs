//! The horizon: the time before which no more events arrive, except those reported as late.
//!
//! A sweep that started at *s* by its clock, and completed, publishes the earlier of two times: *s*
//! minus the allowed lateness, and the time of the oldest record that it had to leave in the buffer.
//! It is published by a conditional put and never moves back, unless an operator sets it back.
//!
//! Guarantees: an event with a time before a published horizon either was in its slot, and its slot
//! in the index, before that horizon was published, or the sweep that stores it reports it as late.
//! So a follower that first reads the horizon and then everything before it misses only late events.
//! Relies on: clocks and networks being off by no more than the allowed lateness.
//!
//! Why. Let *r* be a record with a time before a horizon *h*, and *X* the sweep that published *h*.
//!
//! - *r* was in the buffer before *X* started. *X*'s scan reached *r*'s key later. Either *r* was
//!   still there: then *X* stored it, or found it stored, before it published; or it could not, and
//!   *h* would not be later than *r*. Or *r* was gone: then another sweep had deleted it, which no
//!   sweep does before the event is known to be stored. In each case *r* was in its slot first.
//! - *r* entered the buffer after *X* started, at *s* or later. Its time is before *s* minus the
//!   allowed lateness, so it took longer than allowed: it is late, unless *X* happened to find it.
//!   Some sweep *Y*, perhaps at the same time as *X*, stores it. *Y* reads the horizon after the
//!   store has acknowledged the event and before it deletes the record. If it reads *h* or later, it
//!   reports *r* as late. If it reads an earlier horizon, *h* was published after the event was
//!   stored, and every reader of *h* finds the event.
//! - A sweep that dies reports nothing. If it died before it deleted *r*, the next sweep finds *r* in
//!   the buffer and the event stored. It cannot know when the event was stored, and counts *r* as
//!   [`repeated_late`](crate::log::SweepReport::repeated_late). If it died later, it had traced *r*
//!   as late before the deletion, and only its report is lost.
//! - A put of *r* that was in flight while the scan passed is a record that arrived after *X* started.
//!
//! Two concurrent sweeps may both store *r* and both report it as late, or one may report it although
//! the event was in time. Sweeps may over-report late events; they never under-report them.
//!
//! The index entry of a slot is acknowledged before its first event is stored (`sweep/mod.rs`), and
//! all reads are strongly consistent, so a reader that finds the event in its slot finds the slot.

use super::super::shared::{Change, Shared};
use super::super::{Time, tables};
use crate::items::{Item, Value};
use crate::{Error, Result};

fn item(time: Time) -> Item {
    tables::system_item(&tables::horizon_key()).with(tables::HORIZON, time.ms())
}

fn time_of(item: &Item) -> Result<Time> {
    let ms = item.get(tables::HORIZON).and_then(Value::as_u64);
    // A horizon may be at the end of time; an event may not.
    let time = ms.map(Time::from_clock);
    time.ok_or_else(|| {
        Error::corrupt("the log's horizon does not parse; delete its item and sweep again")
            .fact("item", "annals#log/horizon")
    })
}

/// The published horizon; `None` before the first sweep.
pub(crate) async fn read(shared: &Shared) -> Result<Option<Time>> {
    let item = shared.get(tables::horizon_key()).await?;
    item.as_ref().map(time_of).transpose()
}

/// Publishes a horizon unless a later one is published. Returns the one that is published now.
pub(crate) async fn publish(shared: &Shared, time: Time) -> Result<Time> {
    // It is not read first: the refusal of the first attempt returns it.
    let published = shared.update(None, tables::HORIZON, |current| {
        Ok(match current.map(time_of).transpose()? {
            Some(published) if published >= time => Change::Keep(published),
            _ => Change::Replace(item(time), time),
        })
    });
    published.await
}

/// Sets the horizon back to an earlier time. Returns whether it was later.
pub(crate) async fn set_back(shared: &Shared, time: Time) -> Result<bool> {
    let current = shared.get(tables::horizon_key()).await?;
    let changed = shared.update(current, tables::HORIZON, |current| {
        let published = current.map(time_of).transpose()?;
        Ok(match published.is_some_and(|published| published > time) {
            true => Change::Replace(item(time), true),
            false => Change::Keep(false),
        })
    });
    changed.await
}
