//! The Kinesis client: opening, and its requests.
//!
//! Guarantees: nothing is sent before the first request, and a setting that cannot work is refused
//! here. Every page of a list is read. Requests never go to the endpoint of DynamoDB.
//! Relies on: AWS's chain for credentials, as the DynamoDB client does.

use std::fmt;
use std::sync::Arc;

use crate::settings::{AwsClientSettings, AwsSettings};
use annals::log::Time;
use annals::{Clock, Error, Random, Result, SystemClock};
use aws_config::{Region, SdkConfig};
use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::config::retry::RetryConfig;
use aws_sdk_kinesis::config::{Builder, Credentials, StalledStreamProtectionConfig};
use aws_sdk_kinesis::operation::describe_stream_summary::DescribeStreamSummaryError;
use aws_sdk_kinesis::operation::get_records::GetRecordsError;
use aws_sdk_kinesis::operation::get_shard_iterator::GetShardIteratorError;
use aws_sdk_kinesis::operation::list_shards::ListShardsError;
use aws_sdk_kinesis::operation::put_records::PutRecordsError;
use aws_sdk_kinesis::primitives::DateTime;
use aws_sdk_kinesis::types::{PutRecordsRequestEntry, Record, ShardIteratorType};

use super::position::Position;
use super::shards::Shard;
use super::{ShardId, StreamName};
use crate::client::{check, check_location, load, loader};
use crate::error::{Failure, OperationError, Service};
use crate::http::{UserAgent, http_client};
use crate::proxy::Proxy;
use crate::retry::{Call, Sender};

/// How many records one request reads. A shard accepts a thousand records and five reads a second.
const READ_RECORDS_MAX: i32 = 1_000;

impl OperationError for DescribeStreamSummaryError {
    const SERVICE: Service = Service::Kinesis;
}
impl OperationError for ListShardsError {
    const SERVICE: Service = Service::Kinesis;
}
impl OperationError for GetShardIteratorError {
    const SERVICE: Service = Service::Kinesis;
}
impl OperationError for GetRecordsError {
    const SERVICE: Service = Service::Kinesis;
}
impl OperationError for PutRecordsError {
    const SERVICE: Service = Service::Kinesis;
}

/// Streams of Kinesis, or of a compatible server.
///
/// Requests are retried within `client-execution-timeout`. Needs a Tokio runtime with I/O and time.
///
/// ```no_run
/// use annals_aws::AwsSettings;
/// use annals_aws::kinesis::Kinesis;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let mut settings = AwsSettings::default();
/// settings.kinesis.endpoint = Some("http://localhost:4567".to_owned());
/// let kinesis = Kinesis::open(&settings).await?;
/// # Ok(())
/// # }
/// ```
pub struct Kinesis {
    client: Client,
    pub(super) sender: Sender,
    pub(super) poll_ms: u64,
    shared: SdkConfig,
}

impl fmt::Debug for Kinesis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kinesis")
            .field("endpoint", &self.shared.endpoint_url())
            .field("region", &self.shared.region().map(Region::as_ref))
            .field("sender", &self.sender)
            .finish_non_exhaustive()
    }
}

/// The settings for Kinesis, because `endpoint` is DynamoDB's.
fn own(settings: &AwsSettings) -> AwsSettings {
    AwsSettings {
        endpoint: settings.kinesis.endpoint.clone(),
        ..settings.clone()
    }
}

impl Kinesis {
    /// Opens Kinesis with credentials from AWS's own chain.
    ///
    /// # Errors
    /// `Invalid` if there is no region, or a setting cannot work.
    pub async fn open(settings: &AwsSettings) -> Result<Self> {
        let settings = own(settings);
        check(&settings)?;
        let shared = load(loader(&settings)).await;
        let clock = Arc::new(SystemClock::new());
        Self::with_config(shared, &settings, clock, Random::from_machine())
    }

    /// Opens a server that accepts any credentials. For tests.
    ///
    /// # Errors
    /// `Invalid` without an endpoint, which keeps this away from AWS.
    #[doc(hidden)]
    pub async fn open_local(
        settings: &AwsSettings,
        clock: Arc<dyn Clock>,
        random: Random,
    ) -> Result<Self> {
        let settings = own(settings);
        check(&settings)?;
        if settings.endpoint.is_none() {
            return Err(Error::invalid(
                "a local server needs an endpoint; set kinesis.endpoint",
            ));
        }
        let keys = Credentials::new("local", "local", None, None, "open_local");
        let shared = load(loader(&settings).credentials_provider(keys)).await;
        Self::with_config(shared, &settings, clock, random)
    }

    fn with_config(
        shared: SdkConfig,
        settings: &AwsSettings,
        clock: Arc<dyn Clock>,
        random: Random,
    ) -> Result<Self> {
        check_location(&shared)?;
        if settings.kinesis.poll_ms == 0 {
            return Err(
                Error::invalid("setting must be at least 1").fact("setting", "kinesis.poll-ms")
            );
        }
        let limits = &settings.aws_client_config;
        Ok(Self {
            client: Client::from_conf(client_config(&shared, limits)?.build()),
            sender: Sender::new(Service::Kinesis, limits, clock, random),
            poll_ms: settings.kinesis.poll_ms,
            shared,
        })
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        self.sender.clock()
    }

    /// The identity of a stream.
    pub(super) async fn describe(&self, stream: &StreamName) -> Result<Described> {
        let mut call = self.sender.call();
        let answer = call.send(|| {
            let request = self.client.describe_stream_summary();
            request.stream_name(stream.as_str()).send()
        });
        let answer = answer.await.map_err(|failure| error_of(failure, stream))?;
        let Some(summary) = answer.stream_description_summary else {
            return Err(missing(stream));
        };
        let created = summary.stream_creation_timestamp;
        Ok(Described {
            arn: summary.stream_arn,
            created_s: created.secs(),
        })
    }

    /// Every shard of a stream.
    pub(super) async fn shards(&self, stream: &StreamName) -> Result<Vec<Shard>> {
        let mut shards = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let mut call = self.sender.call();
            let answer = call.send(|| {
                let request = self.client.list_shards();
                match &after {
                    None => request.stream_name(stream.as_str()).send(),
                    Some(token) => request.next_token(token).send(),
                }
            });
            let answer = answer.await.map_err(|failure| error_of(failure, stream))?;
            shards.extend(answer.shards.unwrap_or_default().iter().map(shard_of));
            match answer.next_token {
                Some(token) => after = Some(token),
                None => return Ok(shards),
            }
        }
    }

    /// An iterator at a position; `None` if the stream no longer has the shard.
    pub(super) async fn iterator(
        &self,
        stream: &StreamName,
        shard: &ShardId,
        position: &Position,
    ) -> Result<Option<String>> {
        let (kind, number, time) = match position {
            Position::TrimHorizon => (ShardIteratorType::TrimHorizon, None, None),
            Position::Latest(_) => (ShardIteratorType::Latest, None, None),
            Position::At(time) => (ShardIteratorType::AtTimestamp, None, Some(*time)),
            Position::After(number) => (
                ShardIteratorType::AfterSequenceNumber,
                Some(number.clone()),
                None,
            ),
            Position::End => return Ok(None),
        };
        let mut call = self.sender.call();
        let answer = call.send(|| {
            let request = self.client.get_shard_iterator();
            request
                .stream_name(stream.as_str())
                .shard_id(shard.as_str())
                .shard_iterator_type(kind.clone())
                .set_starting_sequence_number(number.clone())
                .set_timestamp(time.map(date_of))
                .send()
        });
        match answer.await {
            Ok(answer) => Ok(answer.shard_iterator),
            Err(Failure::MissingTable) => Ok(None),
            Err(failure) => Err(error_of(failure, stream)),
        }
    }

    /// Some records, and the next iterator.
    pub(super) async fn read(&self, stream: &StreamName, iterator: &str) -> Result<Read> {
        let mut call = self.sender.call();
        let answer = call.send(|| {
            let request = self.client.get_records();
            request
                .shard_iterator(iterator)
                .limit(READ_RECORDS_MAX)
                .send()
        });
        match answer.await {
            Ok(answer) => Ok(Read::Some {
                records: answer.records,
                next: answer.next_shard_iterator,
                behind_ms: answer.millis_behind_latest.unwrap_or_default().max(0) as u64,
            }),
            Err(Failure::Expired) => Ok(Read::Expired),
            Err(Failure::MissingTable) => Ok(Read::Gone),
            Err(failure) => Err(error_of(failure, stream)),
        }
    }

    /// Puts records. Returns for each, in order, why it was not put.
    pub(super) async fn put(
        &self,
        call: &mut Call<'_>,
        stream: &StreamName,
        entries: &[PutRecordsRequestEntry],
    ) -> Result<Vec<Option<String>>> {
        let answer = call.send(|| {
            let request = self.client.put_records().stream_name(stream.as_str());
            request.set_records(Some(entries.to_vec())).send()
        });
        let answer = answer.await.map_err(|failure| error_of(failure, stream))?;
        if answer.records.len() != entries.len() {
            return Err(Error::unavailable(
                "Kinesis did not return a result for every record; resume the playback after the last position",
            )
            .fact("sent", entries.len())
            .fact("answered", answer.records.len()));
        }
        let problem = |entry: aws_sdk_kinesis::types::PutRecordsResultEntry| {
            let message = entry.error_message.unwrap_or_default();
            entry.error_code.map(|code| format!("{code}: {message}"))
        };
        Ok(answer.records.into_iter().map(problem).collect())
    }
}

/// The identity of a stream.
#[derive(Clone, Debug)]
pub(super) struct Described {
    pub(super) arn: String,
    /// When it was created. A stream that was deleted and created again has the same name.
    pub(super) created_s: i64,
}

/// The result of reading a shard.
#[derive(Debug)]
pub(super) enum Read {
    Some {
        records: Vec<Record>,
        /// `None` at the end of a closed shard.
        next: Option<String>,
        behind_ms: u64,
    },
    /// The iterator had expired.
    Expired,
    /// The stream no longer has the shard.
    Gone,
}

fn date_of(time: Time) -> DateTime {
    DateTime::from_millis(i64::try_from(time.ms()).unwrap_or(i64::MAX))
}

fn shard_of(shard: &aws_sdk_kinesis::types::Shard) -> Shard {
    let parents = [shard.parent_shard_id(), shard.adjacent_parent_shard_id()];
    let range = shard.sequence_number_range.as_ref();
    Shard {
        id: shard.shard_id().into(),
        parents: parents.into_iter().flatten().map(ShardId::from).collect(),
        is_closed: range.is_some_and(|range| range.ending_sequence_number.is_some()),
    }
}

fn missing(stream: &StreamName) -> Error {
    Error::invalid("there is no such stream; check its name, the region and kinesis.endpoint")
        .fact("stream", stream)
}

fn error_of<E>(failure: Failure<E>, stream: &StreamName) -> Error {
    match failure {
        Failure::Failed(error) => error,
        Failure::MissingTable => missing(stream),
        Failure::TableInUse => {
            Error::unavailable("stream is being created, changed or deleted; retry later")
                .fact("stream", stream)
        }
        Failure::Expired => {
            Error::unavailable("a shard iterator has expired; retry").fact("stream", stream)
        }
        Failure::Refused(_) => Error::conflict("Kinesis refused a condition that nobody asked"),
    }
}

/// As for DynamoDB: only [`Sender`] retries, and ends requests that take too long.
fn client_config(shared: &SdkConfig, limits: &AwsClientSettings) -> Result<Builder> {
    let proxy = Proxy::from_settings(limits, || std::env::var(crate::proxy::PASSWORD).ok())?;
    let mut config = Builder::from(shared)
        .http_client(http_client(limits, proxy)?)
        .retry_config(RetryConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    if let Some(text) = &limits.user_agent {
        config = config.interceptor(UserAgent::new(text)?);
    }
    Ok(config)
}
