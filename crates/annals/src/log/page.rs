//! One page of the buffer on its way into slots.
//!
//! The order is what the promises of the sweep rest on: claim what is to be stored, look what is
//! stored, enter the slots into the index, store, read the horizon and tell what is late, delete.

use std::collections::{BTreeSet, HashMap};

use super::claims::Claim;
use super::sweep::Pass;
use super::tables::{self, Mark};
use super::{EventId, Log, Slot, Time};
use crate::items::{Item, Key, Write, check_item};
use crate::{Error, Result};

/// A record of the page, and where its event belongs.
#[derive(Debug)]
struct Moving {
    /// Its key in the buffer.
    from: Key,
    raw: Item,
    event_id: EventId,
    time: Time,
    slot: Slot,
    /// The event, until it is put, and its key.
    event: Item,
    to: Key,
    mark: Mark,
}

/// A record that has an event in its slot now.
#[derive(Debug)]
struct Arrived {
    from: Key,
    event_id: EventId,
    time: Time,
    /// Whether this pass stored it.
    is_moved: bool,
}

/// A record that cannot be moved.
#[derive(Debug)]
struct Unmovable {
    from: Key,
    raw: Item,
    why: Error,
}

/// What is to be done with a page.
#[derive(Debug, Default)]
struct Sorted {
    /// To be stored, by the event's key. More than one where the page has a record twice.
    fresh: HashMap<Key, Vec<Moving>>,
    arrived: Vec<Arrived>,
    unmovable: Vec<Unmovable>,
}

fn other_content(moving: &Moving) -> Error {
    let (id, time, slot) = (&moving.event_id, moving.time, moving.slot);
    Error::conflict(format!(
        "an event with this id and other content is in the slot; it stays. event id=`{id}`, time=`{time}`, slot=`{slot}`"
    ))
}

fn arrived(moving: Moving, is_moved: bool) -> Arrived {
    Arrived {
        from: moving.from,
        event_id: moving.event_id,
        time: moving.time,
        is_moved,
    }
}

/// Whether a record says what an event says.
fn says(raw: &Item, event: &Item) -> bool {
    tables::buffered_of(raw).is_ok_and(|record| tables::is_same_event(event, &record))
}

impl Log {
    /// Moves the records of a page. What goes wrong is told in the report.
    pub(super) async fn move_page(&self, pass: &Pass, items: Vec<Item>) {
        let mut sorted = Sorted::default();
        let mut moving = Vec::with_capacity(items.len());
        for raw in items {
            let from = match self.tables.buffer.key_of(&raw) {
                Ok(from) => from,
                Err(error) => {
                    pass.report().fail(error);
                    continue;
                }
            };
            match self.prepare(from, raw) {
                Ok(prepared) => moving.push(prepared),
                Err(stays) => sorted.unmovable.push(*stays),
            }
        }
        self.move_all(pass, moving, sorted).await;
    }

    /// Moves records in as many rounds as it takes: those whose keys another page holds come later.
    async fn move_all(&self, pass: &Pass, mut moving: Vec<Moving>, mut sorted: Sorted) {
        loop {
            let mut released = std::pin::pin!(pass.holding.released.notified());
            released.as_mut().enable();
            let (held, mine, later) = pass.holding.hold(moving, |moving| moving.mark.key);
            let is_idle = mine.is_empty() && sorted.unmovable.is_empty();
            if !is_idle {
                self.move_held(pass, mine, std::mem::take(&mut sorted))
                    .await;
            }
            drop(held);
            if later.is_empty() {
                return;
            }
            // Whoever waits holds nothing, so nobody waits for ever.
            if is_idle {
                released.await;
            }
            moving = later;
        }
    }

    /// Moves records whose keys this page holds.
    async fn move_held(&self, pass: &Pass, moving: Vec<Moving>, mut sorted: Sorted) {
        let times: Vec<Time> = moving.iter().map(|moving| moving.time).collect();
        let claim = match self.claim_and_look(pass, moving, &mut sorted).await {
            Ok(claim) => claim,
            Err(error) => {
                let mut report = pass.report();
                report.fail(error);
                times.into_iter().for_each(|time| report.leave(time));
                return;
            }
        };
        self.store(pass, claim, &mut sorted).await;
        let mut done = self.judge(pass, sorted.arrived).await;
        done.extend(self.put_aside(pass, sorted.unmovable).await);
        let deletes = done.into_iter().map(Write::Delete).collect();
        let ended = self.write_all(&self.tables.buffer, deletes).await;
        if let Some(error) = ended.failure {
            // Their events are stored: they hold nothing back.
            pass.report().fail(error);
        }
    }

    fn prepare(&self, from: Key, raw: Item) -> std::result::Result<Moving, Box<Unmovable>> {
        let made = tables::buffered_of(&raw).and_then(|record| {
            let slot = Slot::of(record.time, self.unit);
            let parts = self.settings.slot_parts;
            let partition = tables::partition_of(slot, &record.event_id, parts);
            let to = tables::event_key(partition.clone(), &record.event_id);
            let is_decoded = self.settings.decode_payload;
            let event = tables::event_of(&self.tables.event, partition, &record, is_decoded)?;
            let mark = tables::mark_of(slot, &record.event_id, &event);
            Ok((record.event_id, record.time, slot, event, to, mark))
        });
        match made {
            Ok((event_id, time, slot, event, to, mark)) => Ok(Moving {
                mark,
                from,
                raw,
                event_id,
                time,
                slot,
                event,
                to,
            }),
            Err(why) => Err(Box::new(Unmovable { from, raw, why })),
        }
    }

    /// Claims what is to be stored, and then looks what is stored already, under every number of parts
    /// there ever was.
    async fn claim_and_look(
        &self,
        pass: &Pass,
        moving: Vec<Moving>,
        sorted: &mut Sorted,
    ) -> Result<Option<Claim>> {
        if moving.is_empty() {
            return Ok(None);
        }
        let marks = moving.iter().map(|moving| moving.mark);
        let claim = self.claim(pass, marks).await?;
        let keys = moving.iter().flat_map(|moving| {
            let id = &moving.event_id;
            let at = |parts: &u32| tables::partition_of(moving.slot, id, *parts);
            pass.parts
                .iter()
                .map(move |parts| tables::event_key(at(parts), id))
        });
        let found = self.get_all(&self.tables.event, keys.collect()).await?;
        let found = found.chunks(pass.parts.len().max(1));
        for (moving, found) in moving.into_iter().zip(found) {
            let stored = found.iter().flatten().next();
            let told_before = sorted.fresh.get(&moving.to).and_then(|fresh| fresh.first());
            let other = stored.or(told_before.map(|first| &first.event));
            match other {
                Some(other) if !says(&moving.raw, other) => {
                    let why = other_content(&moving);
                    let Moving { from, raw, .. } = moving;
                    sorted.unmovable.push(Unmovable { from, raw, why });
                }
                _ if stored.is_some() => sorted.arrived.push(arrived(moving, false)),
                _ if claim.is_contested(moving.mark) => pass.report().leave(moving.time),
                _ => {
                    let (key, mut moving) = (moving.to.clone(), moving);
                    // What is to be stored is in the event.
                    moving.raw = Item::new();
                    sorted.fresh.entry(key).or_default().push(moving);
                }
            }
        }
        Ok(Some(claim))
    }

    /// Enters the slots and stores the events; those that are known to be stored have arrived. Where
    /// one is not, its put may still land: the claim stays.
    async fn store(&self, pass: &Pass, claim: Option<Claim>, sorted: &mut Sorted) {
        let mut fresh = std::mem::take(&mut sorted.fresh);
        let firsts = fresh.values().filter_map(|fresh| fresh.first());
        let slots: BTreeSet<_> = firsts
            .map(|moving| (moving.slot, self.settings.slot_parts))
            .collect();
        let entered = self.enter(&pass.entered, slots).await;
        let entered = entered.and_then(|()| match &claim {
            Some(claim) if !self.is_alive(claim) => Err(Error::unavailable(
                "the sweep was held up for longer than its claim lasts; sweep again",
            )),
            _ => Ok(()),
        });
        let ended = match entered {
            Ok(()) => {
                let firsts = fresh.values_mut().filter_map(|fresh| fresh.first_mut());
                let puts = firsts.map(|moving| Write::Put(std::mem::take(&mut moving.event)));
                self.write_all(&self.tables.event, puts.collect()).await
            }
            Err(error) => super::batch::Batch {
                remaining: fresh.keys().cloned().collect(),
                failure: Some(error),
            },
        };
        if let (Some(claim), None) = (claim, &ended.failure)
            && let Err(error) = self.release(claim).await
        {
            pass.report().fail(error);
        }
        let mut report = pass.report();
        if let Some(error) = ended.failure {
            report.fail(error);
        }
        for (key, fresh) in fresh {
            let is_stored = !ended.remaining.contains(&key);
            for (n, moving) in fresh.into_iter().enumerate() {
                match is_stored {
                    true => sorted.arrived.push(arrived(moving, n == 0)),
                    false => report.leave(moving.time),
                }
            }
        }
    }

    /// Tells what is late, now that the events are stored. Answers what may be deleted.
    async fn judge(&self, pass: &Pass, arrived: Vec<Arrived>) -> Vec<Key> {
        if arrived.is_empty() {
            return Vec::new();
        }
        let horizon = self.horizon().await;
        let mut report = pass.report();
        let horizon = match horizon {
            Ok(horizon) => horizon,
            Err(error) => {
                // Nobody can tell whether they are late: the next sweep does.
                report.fail(error);
                arrived
                    .iter()
                    .for_each(|arrived| report.leave(arrived.time));
                return Vec::new();
            }
        };
        for arrived in &arrived {
            let is_behind = horizon.is_some_and(|horizon| arrived.time < horizon);
            match arrived.is_moved {
                true => report.moved += 1,
                false => report.repeated += 1,
            }
            if !is_behind {
                continue;
            }
            let (id, time) = (&arrived.event_id, arrived.time);
            report.name_late(id);
            match arrived.is_moved {
                true => {
                    report.late += 1;
                    tracing::warn!(%id, %time, "an event is late: it was stored behind the horizon");
                }
                false => report.repeated_behind += 1,
            }
        }
        arrived.into_iter().map(|arrived| arrived.from).collect()
    }

    /// Sets records aside. Answers what may be deleted.
    async fn put_aside(&self, pass: &Pass, unmovable: Vec<Unmovable>) -> Vec<Key> {
        let mut kept: HashMap<Key, Key> = HashMap::new();
        let mut puts = Vec::new();
        for Unmovable { from, raw, why } in unmovable {
            let item = tables::aside_item(&raw, &why.to_string());
            let mut report = pass.report();
            report.explain(why);
            let checked = check_item(&self.tables.event, &item);
            match checked {
                Ok(checked) => {
                    kept.insert(checked.key, from);
                    puts.push(Write::Put(item));
                }
                Err(_) => report.stuck += 1,
            }
        }
        let ended = self.write_all(&self.tables.event, puts).await;
        kept.retain(|key, _| !ended.remaining.contains(key));
        let mut report = pass.report();
        report.set_aside += kept.len() as u64;
        if let Some(error) = ended.failure {
            report.fail(error);
        }
        kept.into_values().collect()
    }
}
