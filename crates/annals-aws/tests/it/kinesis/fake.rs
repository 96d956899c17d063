//! A Kinesis server in this process: shards that split and merge, small pages, and faults on demand. It
//! behaves as AWS documents; `tests/optional/streams` runs the same tests on another server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use crate::script::{Act, Script, Seen, error, ok};

/// The arrival time of the first record; each one is a millisecond later.
pub(crate) const FIRST_MS: u64 = 1_700_000_000_000;
/// Records per page.
const PAGE: usize = 7;

#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) key: String,
    pub(crate) data: Json,
    number: u64,
    ms: u64,
}

#[derive(Debug, Default)]
struct Shard {
    id: String,
    parents: Vec<String>,
    range: (u128, u128),
    is_closed: bool,
    records: Vec<Stored>,
}

#[derive(Debug, Default)]
struct Stream {
    created: u64,
    shards: Vec<Shard>,
}

/// The state of the server.
#[derive(Debug, Default)]
pub(crate) struct State {
    streams: BTreeMap<String, Stream>,
    count: u64,
}

impl State {
    fn shard(&mut self, stream: &str, id: &str) -> Option<&mut Shard> {
        let shards = &mut self.streams.get_mut(stream)?.shards;
        shards.iter_mut().find(|shard| shard.id == id)
    }

    fn open(&mut self, stream: &str, parents: &[&str], range: (u128, u128)) {
        let shards = &mut self.streams.get_mut(stream).unwrap().shards;
        let id = format!("shardId-{:012}", shards.len());
        let parents = parents.iter().map(|id| (*id).to_owned()).collect();
        shards.push(Shard {
            id,
            parents,
            range,
            ..Shard::default()
        });
    }

    fn put(&mut self, stream: &str, record: &Json) -> Json {
        let key = record["PartitionKey"].as_str().unwrap().to_owned();
        let digest = Sha256::digest(key.as_bytes());
        let hash = u128::from_be_bytes(digest[..16].try_into().unwrap());
        self.count += 1;
        let (number, ms) = (1_000_000 + self.count, FIRST_MS + self.count);
        let shards = &mut self.streams.get_mut(stream).unwrap().shards;
        let holds = |s: &&mut Shard| !s.is_closed && (s.range.0..=s.range.1).contains(&hash);
        let shard = shards.iter_mut().find(holds).unwrap();
        shard.records.push(Stored {
            key,
            data: record["Data"].clone(),
            number,
            ms,
        });
        json!({"SequenceNumber": number.to_string(), "ShardId": shard.id})
    }

    /// The records of a stream, shard by shard.
    pub(crate) fn records(&self, stream: &str) -> Vec<Stored> {
        let shards = self.streams[stream].shards.iter();
        shards.flat_map(|shard| shard.records.clone()).collect()
    }

    /// Lets a closed shard expire.
    pub(crate) fn forget(&mut self, stream: &str, id: &str) {
        let shards = &mut self.streams.get_mut(stream).unwrap().shards;
        shards.retain(|shard| shard.id != id);
    }

    fn answer(&mut self, operation: &str, body: &Json) -> Act {
        let stream = body["StreamName"].as_str().unwrap_or_default().to_owned();
        let is_there = self.streams.contains_key(&stream);
        let names_stream = !matches!(operation, "CreateStream" | "GetRecords" | "ListShards");
        if names_stream && !is_there {
            return error(400, "ResourceNotFoundException");
        }
        match operation {
            "CreateStream" => {
                self.create(&stream, body["ShardCount"].as_u64().unwrap());
                ok(json!({}))
            }
            "DeleteStream" => {
                self.streams.remove(&stream);
                ok(json!({}))
            }
            "DescribeStreamSummary" => ok(self.describe(&stream)),
            "ListShards" => self.list(&stream, body),
            "GetShardIterator" => self.iterator(&stream, body),
            "GetRecords" => self.read(body["ShardIterator"].as_str().unwrap()),
            "PutRecords" => {
                let records = body["Records"].as_array().unwrap();
                let put: Vec<Json> = records.iter().map(|r| self.put(&stream, r)).collect();
                ok(json!({"FailedRecordCount": 0, "Records": put}))
            }
            "SplitShard" => {
                let at: u128 = body["NewStartingHashKey"]
                    .as_str()
                    .unwrap()
                    .parse()
                    .unwrap();
                let id = body["ShardToSplit"].as_str().unwrap();
                let shard = self.shard(&stream, id).unwrap();
                shard.is_closed = true;
                let (start, end) = shard.range;
                self.open(&stream, &[id], (start, at - 1));
                self.open(&stream, &[id], (at, end));
                ok(json!({}))
            }
            "MergeShards" => {
                let one = body["ShardToMerge"].as_str().unwrap();
                let two = body["AdjacentShardToMerge"].as_str().unwrap();
                let mut ranges = Vec::new();
                for id in [one, two] {
                    let shard = self.shard(&stream, id).unwrap();
                    shard.is_closed = true;
                    ranges.push(shard.range);
                }
                let start = ranges.iter().map(|range| range.0).min().unwrap();
                let end = ranges.iter().map(|range| range.1).max().unwrap();
                self.open(&stream, &[one, two], (start, end));
                ok(json!({}))
            }
            _ => error(400, "UnknownOperationException"),
        }
    }

    fn create(&mut self, stream: &str, shards: u64) {
        self.count += 1;
        let made = Stream {
            created: self.count,
            shards: Vec::new(),
        };
        self.streams.insert(stream.to_owned(), made);
        let width = u128::MAX / u128::from(shards);
        for n in 0..u128::from(shards) {
            let end = match n + 1 == u128::from(shards) {
                true => u128::MAX,
                false => (n + 1) * width - 1,
            };
            self.open(stream, &[], (n * width, end));
        }
    }

    fn describe(&self, stream: &str) -> Json {
        let created = self.streams[stream].created;
        json!({"StreamDescriptionSummary": {
            "StreamName": stream,
            "StreamARN": format!("arn:aws:kinesis:us-east-1:000000000000:stream/{stream}"),
            "StreamStatus": "ACTIVE",
            "StreamCreationTimestamp": created,
            "RetentionPeriodHours": 24,
            "EnhancedMonitoring": [],
            "OpenShardCount": 1,
        }})
    }

    /// Two shards per page.
    fn list(&self, stream: &str, body: &Json) -> Act {
        let (stream, from) = match body["NextToken"].as_str() {
            None => (stream, 0),
            Some(token) => {
                assert!(body["StreamName"].is_null(), "AWS takes one of them");
                let (stream, from) = token.split_once('/').unwrap();
                (stream, from.parse().unwrap())
            }
        };
        let Some(found) = self.streams.get(stream) else {
            return error(400, "ResourceNotFoundException");
        };
        let shown: Vec<Json> = found.shards.iter().skip(from).take(2).map(shown).collect();
        let mut answer = json!({"Shards": shown});
        if from + 2 < found.shards.len() {
            answer["NextToken"] = json!(format!("{stream}/{}", from + 2));
        }
        ok(answer)
    }

    fn iterator(&mut self, stream: &str, body: &Json) -> Act {
        let id = body["ShardId"].as_str().unwrap();
        let Some(shard) = self.shard(stream, id) else {
            return error(400, "ResourceNotFoundException");
        };
        let first = |is_wanted: &dyn Fn(&Stored) -> bool| {
            let found = shard.records.iter().position(is_wanted);
            found.unwrap_or(shard.records.len())
        };
        let from = match body["ShardIteratorType"].as_str().unwrap() {
            "TRIM_HORIZON" => 0,
            "LATEST" => shard.records.len(),
            "AT_TIMESTAMP" => {
                let ms = (body["Timestamp"].as_f64().unwrap() * 1_000.0).round() as u64;
                first(&|record| record.ms >= ms)
            }
            "AFTER_SEQUENCE_NUMBER" => {
                let number = body["StartingSequenceNumber"].as_str().unwrap();
                let number: u64 = number.parse().unwrap();
                first(&|record| record.number > number)
            }
            other => panic!("{other}"),
        };
        ok(json!({"ShardIterator": format!("{stream}/{id}/{from}")}))
    }

    fn read(&mut self, iterator: &str) -> Act {
        let parts: Vec<&str> = iterator.split('/').collect();
        let from: usize = parts[2].parse().unwrap();
        let Some(shard) = self.shard(parts[0], parts[1]) else {
            return error(400, "ResourceNotFoundException");
        };
        let records = shard.records.iter().skip(from).take(PAGE);
        let shown: Vec<Json> = records
            .map(|record| {
                json!({
                    "SequenceNumber": record.number.to_string(),
                    "PartitionKey": record.key,
                    "Data": record.data,
                    "ApproximateArrivalTimestamp": record.ms as f64 / 1_000.0,
                })
            })
            .collect();
        let next = from + shown.len();
        let is_at_end = next == shard.records.len();
        let mut answer = json!({
            "Records": shown,
            "MillisBehindLatest": if is_at_end { 0 } else { 1_000 },
        });
        if !(is_at_end && shard.is_closed) {
            answer["NextShardIterator"] = json!(format!("{}/{}/{next}", parts[0], parts[1]));
        }
        ok(answer)
    }
}

fn shown(shard: &Shard) -> Json {
    let mut shown = json!({
        "ShardId": shard.id,
        "HashKeyRange": {
            "StartingHashKey": shard.range.0.to_string(),
            "EndingHashKey": shard.range.1.to_string(),
        },
        "SequenceNumberRange": {"StartingSequenceNumber": "1"},
    });
    if shard.is_closed {
        shown["SequenceNumberRange"]["EndingSequenceNumber"] = json!("9");
    }
    let names = ["ParentShardId", "AdjacentParentShardId"];
    for (name, parent) in names.iter().zip(&shard.parents) {
        shown[*name] = json!(parent);
    }
    shown
}

/// A fault, instead of a response.
pub(crate) type Fault = Box<dyn FnMut(&Seen, &mut State) -> Option<Act> + Send>;

/// The server; it runs until the test ends.
pub(crate) struct Fake {
    pub(crate) script: Script,
    state: Arc<Mutex<State>>,
    fault: Arc<Mutex<Option<Fault>>>,
}

impl Fake {
    pub(crate) async fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let fault: Arc<Mutex<Option<Fault>>> = Arc::default();
        let (serving, faulting) = (state.clone(), fault.clone());
        let script = Script::start(move |_, seen| {
            let mut state = serving.lock().unwrap();
            if let Some(fault) = &mut *faulting.lock().unwrap()
                && let Some(act) = fault(seen, &mut state)
            {
                return act;
            }
            state.answer(&seen.operation, &seen.body)
        })
        .await;
        Self {
            script,
            state,
            fault,
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Applies this fault from now on.
    pub(crate) fn fault(
        &self,
        fault: impl FnMut(&Seen, &mut State) -> Option<Act> + Send + 'static,
    ) {
        *self.fault.lock().unwrap() = Some(Box::new(fault));
    }

    pub(crate) fn heal(&self) {
        *self.fault.lock().unwrap() = None;
    }
}

impl State {
    /// Puts the records of a request, except those that are refused, by their index.
    pub(crate) fn put_some(&mut self, body: &Json, is_refused: impl Fn(usize) -> bool) -> Act {
        let stream = body["StreamName"].as_str().unwrap();
        let records = body["Records"].as_array().unwrap().iter().enumerate();
        let put = records.map(|(n, record)| match is_refused(n) {
            true => json!({
                "ErrorCode": "ProvisionedThroughputExceededException",
                "ErrorMessage": "as scripted",
            }),
            false => self.put(stream, record),
        });
        let put: Vec<Json> = put.collect();
        let failed = put.iter().filter(|put| !put["ErrorCode"].is_null()).count();
        ok(json!({"FailedRecordCount": failed, "Records": put}))
    }
}
