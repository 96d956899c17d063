//! What a page of the buffer turns into: events to store, dead letters, records to leave, late
//! events. Pure; `sweep/mod.rs` does the I/O between these steps.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::super::tables::{self, Fingerprint, KeyHash, SlotFormat};
use super::super::{EventId, Slot, Time};
use super::report::SweepReport;
use crate::items::{Item, Key, TableSpec, Write, check_item};
use crate::{Error, Result};

/// A record and the event that it becomes.
#[derive(Debug)]
pub(super) struct Candidate {
    /// The key in the buffer.
    from: Key,
    record: Item,
    event_id: EventId,
    pub(super) time: Time,
    slot: Slot,
    /// The event, until it is put, and its key.
    event: Item,
    to: Key,
    pub(super) fingerprint: Fingerprint,
}

/// A record that cannot become an event.
#[derive(Debug)]
pub(super) struct Rejected {
    from: Key,
    record: Item,
    reason: Error,
}

/// Builds the events of a page.
pub(super) fn prepare(
    buffer: &TableSpec,
    format: &SlotFormat,
    records: Vec<Item>,
) -> (Vec<Candidate>, Vec<Rejected>, SweepReport) {
    let (mut candidates, mut rejected) = (Vec::with_capacity(records.len()), Vec::new());
    let mut report = SweepReport::default();
    for record in records {
        match buffer.key_of(&record) {
            Err(error) => report.fail(error),
            Ok(from) => match candidate(format, from.clone(), &record) {
                Ok(candidate) => candidates.push(Candidate {
                    record,
                    ..candidate
                }),
                Err(reason) => rejected.push(Rejected {
                    from,
                    record,
                    reason,
                }),
            },
        }
    }
    (candidates, rejected, report)
}

/// The event of a record, still without the record.
fn candidate(format: &SlotFormat, from: Key, record: &Item) -> Result<Candidate> {
    let buffered = tables::buffered_of(record)?;
    let slot = format.slot(buffered.time);
    let partition = tables::partition_of(slot, &buffered.event_id, format.parts);
    let event = format.event(&partition, &buffered)?;
    Ok(Candidate {
        fingerprint: tables::fingerprint(slot, &buffered.event_id, &event),
        to: tables::event_key(partition, &buffered.event_id),
        from,
        record: Item::new(),
        event_id: buffered.event_id,
        time: buffered.time,
        slot,
        event,
    })
}

impl Candidate {
    /// The keys under which the event may be stored, one for each number of parts.
    pub(super) fn keys(&self, parts: &BTreeSet<u32>) -> impl Iterator<Item = Key> {
        let key = |parts: &u32| {
            let partition = tables::partition_of(self.slot, &self.event_id, *parts);
            tables::event_key(partition, &self.event_id)
        };
        parts.iter().map(key)
    }

    fn is_same_event(&self, event: &Item) -> bool {
        let record = tables::buffered_of(&self.record);
        record.is_ok_and(|record| tables::is_same_event(event, &record))
    }

    fn reject(self) -> Rejected {
        let (id, time, slot) = (&self.event_id, self.time, self.slot);
        let reason =
            Error::conflict("an event with this id and other content is in the slot, and stays")
                .fact("event id", id)
                .fact("time", time)
                .fact("slot", slot);
        Rejected {
            from: self.from,
            record: self.record,
            reason,
        }
    }
}

/// What happens to the candidates of a page.
#[derive(Debug, Default)]
pub(super) struct Decision {
    /// To be stored, by key. More than one if the page has the same event several times; the first
    /// one is put.
    store: HashMap<Key, Vec<Candidate>>,
    /// Stored by this sweep.
    pub(super) moved: Vec<Candidate>,
    /// Stored before.
    pub(super) repeated: Vec<Candidate>,
    pub(super) rejected: Vec<Rejected>,
}

/// Decides by what is stored, and by the keys under which other sweeps store different events.
pub(super) fn decide(
    candidates: Vec<Candidate>,
    stored: Vec<Option<Item>>,
    contested: &HashSet<KeyHash>,
    report: &mut SweepReport,
) -> Decision {
    let mut decision = Decision::default();
    for (mut candidate, stored) in candidates.into_iter().zip(stored) {
        let earlier = decision.store.get(&candidate.to);
        let earlier = earlier.and_then(|earlier| earlier.first());
        let other = stored.as_ref().or(earlier.map(|earlier| &earlier.event));
        if other.is_some_and(|other| !candidate.is_same_event(other)) {
            decision.rejected.push(candidate.reject());
        } else if stored.is_some() {
            decision.repeated.push(candidate);
        } else if contested.contains(&candidate.fingerprint.key) {
            report.leave(candidate.time);
        } else {
            // From here on only the event is needed.
            candidate.record = Item::new();
            let same = decision.store.entry(candidate.to.clone()).or_default();
            same.push(candidate);
        }
    }
    decision
}

impl Decision {
    /// The slots of the events to store.
    pub(super) fn slots(&self) -> BTreeSet<Slot> {
        let all = self.store.values().flatten();
        all.map(|candidate| candidate.slot).collect()
    }

    /// The puts of the events to store. The events are moved out.
    pub(super) fn puts(&mut self) -> Vec<Write> {
        let firsts = self.store.values_mut().filter_map(|same| same.first_mut());
        firsts
            .map(|candidate| Write::Put(std::mem::take(&mut candidate.event)))
            .collect()
    }

    /// The keys of the events to store.
    pub(super) fn keys(&self) -> HashSet<Key> {
        self.store.keys().cloned().collect()
    }

    /// Records whose events were confirmed are moved; the others are left.
    pub(super) fn settle(&mut self, unconfirmed: &HashSet<Key>, report: &mut SweepReport) {
        for (key, same) in self.store.drain() {
            if unconfirmed.contains(&key) {
                same.iter()
                    .for_each(|candidate| report.leave(candidate.time));
                continue;
            }
            let mut same = same.into_iter();
            self.moved.extend(same.next());
            self.repeated.extend(same);
        }
    }

    /// Counts the stored events, reports those that are late by the horizon, and returns the keys to
    /// delete from the buffer.
    pub(super) fn report_late(&self, horizon: Option<Time>, report: &mut SweepReport) -> Vec<Key> {
        let is_late =
            |candidate: &&Candidate| horizon.is_some_and(|horizon| candidate.time < horizon);
        report.moved += self.moved.len() as u64;
        report.repeated += self.repeated.len() as u64;
        for late in self.moved.iter().filter(is_late) {
            let (id, time) = (&late.event_id, late.time);
            tracing::warn!(%id, %time, "an event is late: its time is before the horizon");
            report.late += 1;
            report.list_late(id.clone());
        }
        for late in self.repeated.iter().filter(is_late) {
            report.repeated_late += 1;
            report.list_late(late.event_id.clone());
        }
        let stored = self.moved.iter().chain(&self.repeated);
        stored.map(|candidate| candidate.from.clone()).collect()
    }
}

/// The puts of dead letters, and the keys of their records in the buffer by their own keys. A record
/// that is too large for a dead letter is counted as stuck.
pub(super) fn dead_letters(
    table: &TableSpec,
    rejected: Vec<Rejected>,
    report: &mut SweepReport,
) -> (Vec<Write>, HashMap<Key, Key>) {
    let (mut puts, mut from) = (Vec::new(), HashMap::new());
    for rejected in rejected {
        let letter = tables::dead_letter_item(&rejected.record, &rejected.reason.to_string());
        report.list_problem(rejected.reason);
        match check_item(table, &letter) {
            Ok(checked) => {
                puts.push(Write::Put(letter));
                from.insert(checked.key, rejected.from);
            }
            Err(_) => report.stuck += 1,
        }
    }
    (puts, from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::log::{LogTables, Record, slot::TimeUnit};
    use crate::settings::LogSettings;

    /// The candidates of records `(source, id, content)`, all at one time.
    fn candidates(records: &[(&str, &str, u32)]) -> Vec<Candidate> {
        let tables = LogTables::new(&LogSettings::default()).unwrap();
        let format = SlotFormat {
            table: tables.event.clone(),
            unit: TimeUnit::from_ms(1_000).unwrap(),
            parts: 1,
            decodes: true,
        };
        let item = |(source, id, content): &(&str, &str, u32)| {
            let (id, time) = (id.parse().unwrap(), Time::from_ms(1_500).unwrap());
            tables::buffer_item(Record::json(*source, id, time, &json!(content)))
        };
        let items = records.iter().map(item).collect();
        let (candidates, rejected, report) = prepare(&tables.buffer, &format, items);
        assert!(rejected.is_empty() && report.failure.is_none());
        candidates
    }

    #[test]
    fn a_page_stores_an_event_once_and_rejects_a_different_one() {
        let mut report = SweepReport::default();
        let page = candidates(&[("a", "x", 1), ("b", "x", 1), ("c", "x", 2), ("a", "y", 1)]);
        let stored = vec![None; 4];
        let mut decision = decide(page, stored, &HashSet::new(), &mut report);
        assert_eq!(decision.keys().len(), 2);
        assert_eq!(decision.slots().len(), 1);
        assert_eq!(decision.puts().len(), 2);
        let [rejected] = &decision.rejected[..] else {
            panic!("{decision:?}");
        };
        assert!(rejected.reason.to_string().contains("event id=`x`"));
        decision.settle(&HashSet::new(), &mut report);
        let done = decision.report_late(Time::from_ms(1_500).ok(), &mut report);
        assert_eq!((done.len(), report.left), (3, 0));
        assert_eq!((report.moved, report.repeated, report.late), (2, 1, 0));
    }

    #[test]
    fn a_stored_event_is_kept_and_compared() {
        let mut report = SweepReport::default();
        let stored = candidates(&[("a", "x", 1)]).remove(0).event;
        let page = candidates(&[("a", "x", 1), ("b", "x", 2)]);
        let stored = vec![Some(stored.clone()), Some(stored)];
        let decision = decide(page, stored, &HashSet::new(), &mut report);
        assert!(decision.keys().is_empty());
        assert_eq!((decision.repeated.len(), decision.rejected.len()), (1, 1));
        decision.report_late(Time::from_ms(1_501).ok(), &mut report);
        assert_eq!((report.repeated, report.repeated_late), (1, 1));
        assert_eq!(report.late_events.len(), 1);
    }

    #[test]
    fn contested_and_unconfirmed_records_are_left() {
        let mut report = SweepReport::default();
        let page = candidates(&[("a", "x", 1), ("a", "y", 1)]);
        let contested = HashSet::from([page[0].fingerprint.key]);
        let mut decision = decide(page, vec![None, None], &contested, &mut report);
        assert_eq!((decision.keys().len(), report.left), (1, 1));
        decision.settle(&decision.keys(), &mut report);
        assert!(decision.moved.is_empty() && decision.repeated.is_empty());
        assert_eq!(report.left, 2);
        assert_eq!(report.oldest_left, Time::from_ms(1_500).ok());
    }
}
