//! A stream and a log for one test: on the server in this process, or on the one that
//! `ANNALS_TEST_KINESIS` names.

use std::sync::Arc;

use annals::items::Items;
use annals::log::{Data, Log, LogEvent, Span};
use annals::memory::Memory;
use annals::settings::LogSettings;
use annals::store::Store;
use annals::{Clock, ManualClock, Random, SystemClock};
use annals_aws::AwsSettings;
use annals_aws::kinesis::{Begin, Kinesis, Pump, PumpStep, StreamName};
use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::{PutRecordsRequestEntry, Shard, StreamStatus};
use futures::TryStreamExt;
use serde_json::{Value as Json, json};

use super::fake::{FIRST_MS, Fake};

/// Names a Kinesis server outside this process.
pub(crate) const ENDPOINT: &str = "ANNALS_TEST_KINESIS";

/// A stream and a log.
pub(crate) struct Place {
    pub(crate) fake: Option<Fake>,
    pub(crate) kinesis: Arc<Kinesis>,
    pub(crate) client: Client,
    pub(crate) stream: StreamName,
    pub(crate) items: Arc<dyn Items>,
    pub(crate) clock: Arc<dyn Clock>,
}

fn settings(endpoint: &str) -> AwsSettings {
    let mut settings = AwsSettings::default();
    settings.kinesis.endpoint = Some(endpoint.to_owned());
    settings.kinesis.poll_ms = 20;
    settings
}

impl Place {
    pub(crate) async fn here() -> Self {
        let fake = Fake::start().await;
        let endpoint = fake.script.endpoint.clone();
        Self::at(&endpoint, Some(fake)).await
    }

    /// On the server that [`ENDPOINT`] names.
    pub(crate) async fn on_server() -> Self {
        let endpoint = std::env::var(ENDPOINT).unwrap();
        Self::at(&endpoint, None).await
    }

    async fn at(endpoint: &str, fake: Option<Fake>) -> Self {
        // In this process the clock is manual, and no test waits.
        let clock: Arc<dyn Clock> = match fake {
            Some(_) => Arc::new(ManualClock::at_ms(FIRST_MS)),
            None => Arc::new(SystemClock::new()),
        };
        let random = Random::seeded(1);
        let kinesis = Kinesis::open_local(&settings(endpoint), clock.clone(), random).await;
        let config = aws_sdk_kinesis::Config::builder()
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .endpoint_url(endpoint)
            .credentials_provider(Credentials::new("local", "local", None, None, "test"));
        let run = Random::from_machine().bits();
        Self {
            fake,
            kinesis: Arc::new(kinesis.unwrap()),
            client: Client::from_conf(config.build()),
            stream: format!("annals-test-{run:016x}").parse().unwrap(),
            items: Arc::new(Memory::new()),
            clock,
        }
    }

    /// The server in this process.
    pub(crate) fn fake(&self) -> &Fake {
        self.fake.as_ref().unwrap()
    }

    pub(crate) async fn create(&self, shards: i32) {
        self.create_named(&self.stream, shards).await;
    }

    pub(crate) async fn create_named(&self, stream: &StreamName, shards: i32) {
        let request = self.client.create_stream().stream_name(stream.as_str());
        request.shard_count(shards).send().await.unwrap();
        self.settled(stream).await;
    }

    async fn settled(&self, stream: &StreamName) {
        loop {
            let request = self.client.describe_stream_summary();
            let answer = request.stream_name(stream.as_str()).send().await.unwrap();
            let summary = answer.stream_description_summary.unwrap();
            if summary.stream_status == StreamStatus::Active {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Puts records in order: key and data.
    pub(crate) async fn put(&self, records: impl IntoIterator<Item = (String, String)>) {
        let entries: Vec<_> = records
            .into_iter()
            .map(|(key, text)| {
                let entry = PutRecordsRequestEntry::builder().partition_key(key);
                entry.data(Blob::new(text)).build().unwrap()
            })
            .collect();
        for entries in entries.chunks(100) {
            let request = self.client.put_records().stream_name(self.stream.as_str());
            let put = request.set_records(Some(entries.to_vec())).send().await;
            assert_eq!(put.unwrap().failed_record_count, Some(0));
        }
    }

    pub(crate) async fn shards(&self) -> Vec<Shard> {
        let (mut shards, mut after) = (Vec::new(), None);
        loop {
            let request = self.client.list_shards().set_next_token(after.clone());
            let name = after.is_none().then(|| self.stream.to_string());
            let answer = request.set_stream_name(name).send().await.unwrap();
            shards.extend(answer.shards.unwrap());
            after = answer.next_token;
            if after.is_none() {
                return shards;
            }
        }
    }

    /// The open shards, in the order of their hash keys.
    async fn open_shards(&self) -> Vec<(u128, u128, String)> {
        let shards = self.shards().await;
        let open = shards.iter().filter(|shard| {
            let range = shard.sequence_number_range.as_ref().unwrap();
            range.ending_sequence_number.is_none()
        });
        let mut open: Vec<_> = open
            .map(|shard| {
                let range = shard.hash_key_range.as_ref().unwrap();
                let start = range.starting_hash_key.parse().unwrap();
                let end = range.ending_hash_key.parse().unwrap();
                (start, end, shard.shard_id.clone())
            })
            .collect();
        open.sort();
        open
    }

    /// Splits the first open shard.
    pub(crate) async fn split(&self) {
        let (start, end, id) = self.open_shards().await.remove(0);
        let middle = start + (end - start) / 2;
        let request = self.client.split_shard().stream_name(self.stream.as_str());
        let request = request.shard_to_split(id);
        let split = request.new_starting_hash_key(middle.to_string()).send();
        split.await.unwrap();
        self.settled(&self.stream).await;
    }

    /// Merges the first two open shards.
    pub(crate) async fn merge(&self) {
        let open = self.open_shards().await;
        let request = self.client.merge_shards().stream_name(self.stream.as_str());
        let request = request.shard_to_merge(&open[0].2);
        let merged = request.adjacent_shard_to_merge(&open[1].2).send();
        merged.await.unwrap();
        self.settled(&self.stream).await;
    }

    pub(crate) async fn log(&self) -> Log {
        self.log_on(self.items.clone()).await
    }

    pub(crate) async fn log_on(&self, items: Arc<dyn Items>) -> Log {
        let log = Log::create(
            Store::from(items).with_clock(self.clock.clone()),
            &LogSettings::default(),
        )
        .await;
        log.unwrap()
    }

    pub(crate) async fn pump(&self, begin: Begin) -> Pump {
        let log = self.log().await;
        let pump = Pump::open(self.kinesis.clone(), self.stream.clone(), log, begin);
        pump.await.unwrap()
    }

    /// Every event of the log, swept and played back.
    pub(crate) async fn events(&self) -> Vec<LogEvent> {
        let log = self.log().await;
        let report = log.sweep().await;
        assert!(report.failure.is_none(), "{report:?}");
        assert_eq!((report.dead_letters, report.stuck), (0, 0), "{report:?}");
        log.playback(Span::ALL).try_collect().await.unwrap()
    }

    /// The texts of the log, sorted.
    pub(crate) async fn texts(&self) -> Vec<String> {
        let events = self.events().await;
        let mut texts: Vec<String> = events.iter().map(text_of).collect();
        texts.sort();
        texts
    }
}

/// Steps until everything is read. Returns the sum of the steps.
pub(crate) async fn drain(pump: &mut Pump) -> PumpStep {
    let mut all = PumpStep::default();
    loop {
        let step = pump.step().await;
        assert!(step.failure.is_none(), "{step:?}");
        all.records += step.records;
        all.stored += step.stored;
        all.present += step.present;
        all.without_data += step.without_data;
        all.finished += step.finished;
        all.dropped.extend(step.dropped);
        all.problems.extend(step.problems);
        if step.is_caught_up {
            return all;
        }
    }
}

/// `count` records with five keys: `<label>-<key>-<n>`.
pub(crate) fn numbered(label: &str, count: usize) -> Vec<(String, String)> {
    let one = |n: usize| {
        let key = format!("key-{}", n % 5);
        let text = json!({"text": format!("{label}-{key}-{n:04}")});
        (key, text.to_string())
    };
    (0..count).map(one).collect()
}

pub(crate) fn text_of(event: &LogEvent) -> String {
    match event.data() {
        Data::Json(json) => json["text"].as_str().unwrap().to_owned(),
        Data::Bytes(bytes) => panic!("{bytes:?}"),
    }
}

/// The texts of some records, sorted.
pub(crate) fn texts_of(records: &[(String, String)]) -> Vec<String> {
    let text = |(_, data): &(String, String)| {
        let json: Json = serde_json::from_str(data).unwrap();
        json["text"].as_str().unwrap().to_owned()
    };
    let mut texts: Vec<String> = records.iter().map(text).collect();
    texts.sort();
    texts
}
