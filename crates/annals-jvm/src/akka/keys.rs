//! Every key of the `akka` layout, built and parsed. No other file knows their shape.
//!
//! `NAME-P-ID-K` holds the events of the sequence numbers from 100·K on, `NAME-SH-ID-S` and
//! `NAME-SL-ID-S` the high and low marker of an id in shard S. The plugin escapes nothing: the part
//! after the last `-` is the number, and the id may have any characters.
//!
//! Guarantees: exactly the plugin's keys.

use std::sync::Arc;

use crate::rows::FedItem;
use annals::items::{Item, Key, KeyPart, Query, SortRange, Value};
use annals::{Error, PersistenceId, Result, SequenceNumber};

/// How many sequence numbers share a partition. Part of every existing table.
pub(super) const PARTITION: u64 = 100;

/// The keys of one journal, which may share its table with others.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    name: Arc<str>,
    pub(super) shards: u32,
}

/// Which marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    /// How far events go, in full hundreds.
    High,
    /// The first sequence number that is not deleted.
    Low,
}

/// What a partition holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Partition {
    /// Events of a hundred of sequence numbers.
    Events(PersistenceId, u64),
    /// A marker, in a shard.
    Marker(Marker, PersistenceId, u32),
}

/// The hundred of a sequence number.
pub(super) fn hundred(number: u64) -> u64 {
    number / PARTITION
}

impl Keys {
    pub(super) fn new(name: &str, shards: u32) -> Result<Self> {
        if name.is_empty() || shards == 0 {
            return Err(Error::invalid(
                "set journal-name to a name and sequence-shards to 1 or more",
            )
            .fact("journal-name", name)
            .fact("sequence-shards", shards));
        }
        Ok(Self {
            name: name.into(),
            shards,
        })
    }

    /// The length of the journal's name in UTF-16 units, as the JVM counts.
    pub(super) fn name_units(&self) -> usize {
        self.name.encode_utf16().count()
    }

    pub(super) fn event(&self, id: &PersistenceId, number: u64) -> Key {
        Key::new(self.events(id, hundred(number))).sorted(number % PARTITION)
    }

    fn events(&self, id: &PersistenceId, hundred: u64) -> String {
        format!("{}-P-{id}-{hundred}", self.name)
    }

    /// The rows of one hundred between two numbers, both included.
    pub(super) fn between(&self, id: &PersistenceId, from: u64, to: u64) -> Query {
        let hundred = hundred(from);
        let to = to.min(hundred * PARTITION + (PARTITION - 1)) % PARTITION;
        let range = SortRange::Between(KeyPart::from(from % PARTITION), KeyPart::from(to));
        Query::of(self.events(id, hundred)).within(range)
    }

    /// The last row of a hundred.
    pub(super) fn last_of(&self, id: &PersistenceId, hundred: u64) -> Query {
        Query::of(self.events(id, hundred)).descending().limit(1)
    }

    /// The key of the marker of a number.
    pub(super) fn marker(&self, marker: Marker, id: &PersistenceId, number: u64) -> Key {
        self.marker_in(marker, id, self.shard_of(hundred(number)))
    }

    /// The shard of the markers of a hundred.
    pub(super) fn shard_of(&self, hundred: u64) -> u32 {
        u32::try_from(hundred % u64::from(self.shards)).unwrap_or(u32::MAX)
    }

    pub(super) fn marker_in(&self, marker: Marker, id: &PersistenceId, shard: u32) -> Key {
        let kind = match marker {
            Marker::High => "SH",
            Marker::Low => "SL",
        };
        Key::new(format!("{}-{kind}-{id}-{shard}", self.name)).sorted(0u64)
    }

    /// What a partition of this journal holds; `None` if it belongs to another journal.
    pub(super) fn parse(&self, partition: &str) -> Option<Partition> {
        let rest = partition.strip_prefix(&*self.name)?.strip_prefix('-')?;
        let (kind, rest) = rest.split_once('-')?;
        let (id, number) = rest.rsplit_once('-')?;
        let id = id.parse().ok()?;
        match kind {
            "P" => Some(Partition::Events(id, number.parse().ok()?)),
            "SH" => Some(Partition::Marker(Marker::High, id, number.parse().ok()?)),
            "SL" => Some(Partition::Marker(Marker::Low, id, number.parse().ok()?)),
            _ => None,
        }
    }

    /// The id and the number of an event's key, or the id of a low marker's; `None` if it is another
    /// key.
    pub(super) fn parse_key(&self, key: &Key) -> Option<(PersistenceId, FedItem)> {
        let KeyPart::S(partition) = &key.partition else {
            return None;
        };
        let position = match &key.sort {
            Some(KeyPart::N(position)) => position.to_u64()?,
            _ => return None,
        };
        match self.parse(partition)? {
            Partition::Events(id, hundred) if position < PARTITION => {
                let number = hundred.checked_mul(PARTITION)?.checked_add(position)?;
                SequenceNumber::new(number).map(|_| (id, FedItem::Row(Some(number))))
            }
            Partition::Marker(Marker::Low, id, _) if position == 0 => {
                Some((id, FedItem::LowMarker))
            }
            _ => None,
        }
    }

    /// Whether a partition belongs to any journal.
    pub(super) fn is_journals(partition: &str) -> bool {
        let ends_in_number = || {
            let number = partition.rsplit_once('-').map(|(_, number)| number);
            number.is_some_and(|number| number.parse::<u64>().is_ok())
        };
        let is_inside = |kind: &str| partition.find(kind).is_some_and(|at| at > 0);
        partition.ends_with("-annals")
            || (["-P-", "-SH-", "-SL-"].into_iter().any(is_inside) && ends_in_number())
    }

    /// The name of the other journal that a partition belongs to. Nothing in a key is escaped, so a
    /// name that contains `-P-` is cut there.
    pub(super) fn other_journal<'a>(&self, partition: &'a str) -> Option<&'a str> {
        if !Self::is_journals(partition) || self.parse(partition).is_some() {
            return None;
        }
        let ends = ["-P-", "-SH-", "-SL-"]
            .into_iter()
            .filter_map(|kind| partition.find(kind));
        let name = match ends.min() {
            Some(end) => &partition[..end],
            None => partition.strip_suffix("-annals")?,
        };
        Some(name).filter(|name| !name.is_empty() && *name != &*self.name)
    }

    /// The sequence number of an event, from its item's key.
    pub(super) fn number_of(&self, item: &Item) -> Result<SequenceNumber> {
        let partition = item.get("par").and_then(Value::as_str);
        let position = item.get("num").and_then(Value::as_u64);
        let hundred = match partition.and_then(|partition| self.parse(partition)) {
            Some(Partition::Events(_, hundred)) => Some(hundred),
            _ => None,
        };
        let number =
            hundred.and_then(|hundred| hundred.checked_mul(PARTITION)?.checked_add(position?));
        number.and_then(SequenceNumber::new).ok_or_else(|| {
            let partition = partition.unwrap_or_default();
            Error::corrupt("an item in the journal has no sequence number")
                .fact("partition", partition)
        })
    }

    pub(super) fn is_record(&self, partition: &str) -> bool {
        self.record().partition == KeyPart::from(partition)
    }

    /// The key of the journal's own record. The plugin never reads it.
    pub(super) fn record(&self) -> Key {
        Key::new(format!("{}-annals", self.name)).sorted(0u64)
    }
}

/// The numbers of a range by hundreds: one query each.
pub(super) fn by_hundreds(from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> {
    (hundred(from)..=hundred(to))
        .take_while(move |_| from <= to)
        .map(move |hundred| {
            let first = hundred * PARTITION;
            (from.max(first), to.min(first + (PARTITION - 1)))
        })
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
