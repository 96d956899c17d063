//! A stored row of a view: its value, or a tombstone, and how far it reflects each share.
//!
//! | attribute | |
//! | --- | --- |
//! | `w` | version: 16 hex digits, drawn anew for every write |
//! | `a` | for each share the position up to which its events are in the row: `0.0:912,3.0:877` (share, lane, place) |
//! | `x` | for each share the dead letter that was last handled again in this row: share, number, token, length of the id, id |
//! | `v` `d` `m` `s` | the value: bytes, codec, manifest, schema number; a tombstone has none |
//! | `q` `k` | for the index `by-key` |
//! | `u` `o` | for the index `by-order`, if the view declares an order |
//!
//! Guarantees: a row is written only over the version that was read. A tombstone is never removed while
//! its build exists: a runner that lost its share and wakes up late could otherwise create the row anew.

use std::collections::BTreeMap;

use super::table::{self, BuildKey};
use crate::feed::{Lane, LanePosition};
use crate::items::{Condition, Item};
use crate::{Error, Event, Payload, PersistenceId, Random, Result};

/// A share, and a lane of the feed.
type ShareLane = (u16, Lane);

/// A stored row or tombstone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StoredRow {
    /// The version to replace; empty: there is no item.
    version: String,
    reflected: BTreeMap<ShareLane, LanePosition>,
    retried: BTreeMap<u16, Retried>,
    /// `None`: it was deleted, or never there.
    pub(super) value: Option<Payload>,
}

/// A dead letter that was handled again: the number, the token of its append, and the id. After a purge
/// the number may be used again, but not the token.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Retried {
    number: u64,
    token: String,
    id: PersistenceId,
}

impl Retried {
    fn of(event: &Event) -> Self {
        Self {
            number: event.sequence_number.get(),
            token: event.token.to_string(),
            id: event.persistence_id.clone(),
        }
    }
}

/// A row to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowKey<'a> {
    pub(super) build: &'a BuildKey,
    pub(super) key: &'a str,
    /// The place in the declared order.
    pub(super) order: Option<&'a str>,
}

impl StoredRow {
    pub(super) fn from_item(item: &Item) -> Result<Self> {
        let parse = || {
            let payload = match item.bytes("v") {
                None => None,
                Some(bytes) => {
                    let codec = item.text("d")?.parse().ok()?;
                    let payload = Payload::new(codec, bytes).manifest(item.text("m").unwrap_or(""));
                    Some(payload.schema(u32::try_from(item.u64("s").unwrap_or(0)).ok()?))
                }
            };
            Some(Self {
                version: item.text("w")?.to_owned(),
                reflected: parse_reflected(item.text("a")?)?,
                retried: parse_retried(item.text("x").unwrap_or(""))?,
                value: payload,
            })
        };
        parse().ok_or_else(|| {
            Error::corrupt("a row does not parse; rebuild the projection")
                .fact("row", item.text("p").unwrap_or_default())
        })
    }

    /// Whether there is no item yet.
    pub(super) fn is_absent(&self) -> bool {
        self.version.is_empty()
    }

    /// Whether the row has what a share delivered up to a position.
    pub(super) fn reflects(&self, share: u16, lane: Lane, at: LanePosition) -> bool {
        let reflected = self.reflected.get(&(share, lane));
        reflected.is_some_and(|reflected| *reflected >= at)
    }

    pub(super) fn set_reflected(&mut self, share: u16, lane: Lane, at: LanePosition) {
        self.reflected.insert((share, lane), at);
    }

    /// Whether the row has this dead letter. Each is saved before the next is tried, so only the last
    /// one can be in doubt.
    pub(super) fn has_retried(&self, share: u16, letter: &Event) -> bool {
        self.retried.get(&share) == Some(&Retried::of(letter))
    }

    pub(super) fn set_retried(&mut self, share: u16, letter: &Event) {
        self.retried.insert(share, Retried::of(letter));
    }

    /// The condition of a write over this version.
    pub(super) fn unchanged(&self) -> Condition {
        match self.is_absent() {
            true => Condition::Absent,
            false => Condition::Equals("w".into(), self.version.as_str().into()),
        }
    }

    /// Gives the row a new version.
    pub(super) fn renew(&mut self, random: &Random) {
        self.version = format!("{:016x}", random.bits());
    }

    /// Whether an item is this version of the row.
    pub(super) fn is_version_of(&self, item: &Item) -> bool {
        item.text("w") == Some(self.version.as_str())
    }

    pub(super) fn to_item(&self, of: RowKey<'_>) -> Item {
        let mut item = table::item_of(&of.build.row(of.key))
            .with("w", self.version.as_str())
            .with("a", self.reflected_text())
            .with("k", of.key);
        if !self.retried.is_empty() {
            item.insert("x", self.retried_text());
        }
        let Some(value) = &self.value else {
            return item.with("q", of.build.tombstones());
        };
        item.insert("q", of.build.rows());
        item.insert("v", value.bytes.clone());
        item.insert("d", value.codec.to_string());
        if !value.manifest.is_empty() {
            item.insert("m", value.manifest.as_str());
        }
        if value.schema > 0 {
            item.insert("s", u64::from(value.schema));
        }
        match of.order {
            None => item,
            Some(order) => item
                .with("u", of.build.rows())
                .with("o", table::ordered(order, of.key)),
        }
    }

    fn reflected_text(&self) -> String {
        let all = self.reflected.iter().map(|((share, lane), at)| {
            let within = match at.number {
                0 => String::new(),
                number => format!("+{number}"),
            };
            format!("{share}.{}:{}{within}", lane.0, at.place)
        });
        all.collect::<Vec<_>>().join(",")
    }

    fn retried_text(&self) -> String {
        let all = self.retried.iter().map(|(share, retried)| {
            let Retried { number, token, id } = retried;
            // Ids may have any character, so each has its length before it.
            format!("{share}:{number}:{token}:{}:{id}", id.as_str().len())
        });
        all.collect()
    }
}

fn parse_reflected(text: &str) -> Option<BTreeMap<ShareLane, LanePosition>> {
    let all = text.split(',').filter(|text| !text.is_empty());
    let all = all.map(|text| {
        let (share, rest) = text.split_once('.')?;
        let (lane, at) = rest.split_once(':')?;
        let (place, number) = at.split_once('+').unwrap_or((at, "0"));
        let mut position = LanePosition::after(place.parse().ok()?);
        position.number = number.parse().ok()?;
        Some(((share.parse().ok()?, Lane(lane.parse().ok()?)), position))
    });
    all.collect()
}

fn parse_retried(mut text: &str) -> Option<BTreeMap<u16, Retried>> {
    let mut all = BTreeMap::new();
    while !text.is_empty() {
        let mut fields = text.splitn(5, ':');
        let share = fields.next()?.parse().ok()?;
        let number = fields.next()?.parse().ok()?;
        let token = fields.next()?.to_owned();
        let bytes: usize = fields.next()?.parse().ok()?;
        let rest = fields.next()?;
        let (id, after) = (rest.get(..bytes)?, rest.get(bytes..)?);
        let id = id.parse().ok()?;
        all.insert(share, Retried { number, token, id });
        text = after;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, NewEvent, SequenceNumber, Token};

    fn event(id: &str, token: u8) -> Event {
        let (id, token) = (id.parse().unwrap(), Token::from_bytes([token; 8]));
        Event::new(id, SequenceNumber::FIRST, token, NewEvent::default())
    }

    fn row() -> StoredRow {
        let mut row = StoredRow::default();
        row.renew(&Random::seeded(7));
        row.set_reflected(0, Lane(0), LanePosition::after(912));
        row.set_reflected(3, Lane(1), LanePosition::within(878, SequenceNumber::FIRST));
        row.set_retried(3, &event("a:b,c|ä", 1));
        row.set_retried(10, &event("3:1:1:x", 2));
        row
    }

    #[test]
    fn rows_and_tombstones_read_back() {
        let build = BuildKey::new("carts", 2);
        let of = |order| RowKey {
            build: &build,
            key: "42",
            order,
        };
        let tombstone = row();
        assert_eq!(
            StoredRow::from_item(&tombstone.to_item(of(None))).unwrap(),
            tombstone
        );
        let mut row = row();
        row.value = Some(Payload::new(Codec::Json, "{}").manifest("Cart").schema(3));
        let item = row.to_item(of(Some("7")));
        assert_eq!(StoredRow::from_item(&item).unwrap(), row);
        assert!(row.is_version_of(&item));
        assert_ne!(tombstone.to_item(of(None)).text("q"), item.text("q"));
    }

    #[test]
    fn what_is_reflected_grows() {
        let row = row();
        assert!(row.reflects(0, Lane(0), LanePosition::after(912)));
        assert!(!row.reflects(0, Lane(0), LanePosition::after(913)));
        assert!(!row.reflects(0, Lane(0), LanePosition::within(913, SequenceNumber::FIRST)));
        assert!(!row.reflects(1, Lane(0), LanePosition::after(1)));
        assert!(row.has_retried(3, &event("a:b,c|ä", 1)));
        // The same number after a purge.
        assert!(!row.has_retried(3, &event("a:b,c|ä", 2)));
        assert!(!row.has_retried(0, &event("a:b,c|ä", 1)));
    }
}
