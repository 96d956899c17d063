//! The original's steps as item requests, for tests that compare or share tables with it: a put per
//! record; a scan of 500, then a put and a delete per record; a query per slot.

use std::sync::Arc;

use annals::items::{Condition, Cursor, Item, Items, Query, Scan, Value, item_to_json};
use annals::log::{LogTables, Span, Time};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value as Json;

/// The page size of the original.
const LIMIT: u32 = 500;

pub(crate) struct Original {
    pub(crate) items: Arc<dyn Items>,
    pub(crate) tables: LogTables,
}

const TIME_UNIT_MS: u64 = 1_000;

/// The slot of a time.
fn slot_of(time: Time) -> Time {
    Time::from_ms(time.ms() - time.ms() % TIME_UNIT_MS).unwrap()
}

impl Original {
    /// Puts every record.
    pub(crate) async fn pump(&self, items: &[Item]) {
        for item in items {
            let put = self
                .items
                .put(&self.tables.buffer, item.clone(), Condition::Always);
            put.await.unwrap();
        }
    }

    /// Moves the buffer, one record at a time.
    pub(crate) async fn scan(&self) {
        let mut after: Option<Cursor> = None;
        loop {
            let mut scan = Scan::whole().limit(LIMIT);
            scan.after = after;
            let page = self.items.scan(&self.tables.buffer, scan).await.unwrap();
            for item in page.items {
                let event = event_of(&item);
                let put = self.items.put(&self.tables.event, event, Condition::Always);
                put.await.unwrap();
                let key = self.tables.buffer.key_of(&item).unwrap();
                let deleted = self
                    .items
                    .delete(&self.tables.buffer, key, Condition::Always);
                deleted.await.unwrap();
            }
            after = page.next;
            if after.is_none() {
                return;
            }
        }
    }

    /// Reads every slot. Returns the number of events.
    pub(crate) async fn playback(&self, span: Span) -> usize {
        let mut slot = slot_of(span.start());
        let mut count = 0;
        while slot < span.end() {
            let mut after = None;
            loop {
                let mut query = Query::of(slot.to_string()).limit(LIMIT).eventually();
                query.after = after;
                let page = self.items.query(&self.tables.event, query).await.unwrap();
                count += page.items.len();
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            slot = Time::from_ms(slot.ms() + TIME_UNIT_MS).unwrap();
        }
        count
    }
}

/// The event that a record becomes in the original.
fn event_of(item: &Item) -> Item {
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap().to_owned();
    let time = item
        .get("event_time_stamp")
        .and_then(Value::as_u64)
        .unwrap();
    let time = Time::from_ms(time).unwrap();
    let mut payload = item.get("record_payload").cloned().unwrap();
    if let Value::M(record) = &mut payload
        && let Some(Value::M(kinesis)) = record.get_mut("kinesis")
        && let Some(data) = kinesis.get_mut("data")
        && let Some(decoded) = data.as_str().and_then(|text| BASE64.decode(text).ok())
        && let Ok(json) = serde_json::from_slice::<Json>(&decoded)
    {
        *data = value_of(&json);
    }
    Item::new()
        .with("event_time_slot", slot_of(time).to_string())
        .with("event_id", text("event_id"))
        .with("event_time_stamp", time.to_string())
        .with("record_payload", payload)
}

fn value_of(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => Value::N(number.to_string().parse().unwrap()),
        Json::String(text) => Value::S(text.clone()),
        Json::Array(list) => Value::L(list.iter().map(value_of).collect()),
        Json::Object(map) => {
            let members = map
                .iter()
                .map(|(name, value)| (name.clone(), value_of(value)));
            Value::M(members.collect())
        }
    }
}

/// An item as text, to compare lists of them.
pub(crate) fn line(item: &Item) -> String {
    item_to_json(item).to_string()
}
