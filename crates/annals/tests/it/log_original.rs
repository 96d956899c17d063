//! The original's steps as requests on the waist, for tests that compare or share tables with it:
//! one put a record; a scan of 500, then a put and a delete each; a query a slot.

use std::sync::Arc;

use annals::items::{Condition, Cursor, Item, Items, Query, Scan, Value, item_to_json};
use annals::log::{LogTables, Slot, Span, Time, TimeUnit};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value as Json;

/// How many items the original asks for at once.
const LIMIT: u32 = 500;

pub(crate) struct Original {
    pub(crate) items: Arc<dyn Items>,
    pub(crate) tables: LogTables,
}

fn unit() -> TimeUnit {
    TimeUnit::from_ms(1_000).unwrap()
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

    /// Moves what the buffer has, one record after the other.
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

    /// Asks every slot; answers how many events there were.
    pub(crate) async fn playback(&self, span: Span) -> usize {
        let mut slot = Slot::of(span.start(), unit());
        let mut count = 0;
        while slot.start() < span.end() {
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
            slot = slot.next(unit());
        }
        count
    }
}

/// The event that the original makes of a record.
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
        .with("event_time_slot", Slot::of(time, unit()).to_string())
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

/// An item in words, for comparing lists of them.
pub(crate) fn line(item: &Item) -> String {
    item_to_json(item).to_string()
}
