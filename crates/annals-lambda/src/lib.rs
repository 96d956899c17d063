//! The steps of the time-ordered log as AWS Lambda functions. The binary is `annals-lambda`.
//!
//! ```text
//! pump       stores the records of a Kinesis stream in the buffer
//! sweep      moves the buffer into slots, on a schedule
//! playback   writes a time span to a Kinesis stream
//! ```
//!
//! Guarantees: a function stops before its timeout and reports whether there is more to do; the next
//! invocation continues. A batch with a record that may not be stored is redelivered from that record
//! on. Keeps nothing between invocations except connections. Relies on being invoked again after an
//! error.

mod playback;
mod pump;
mod sweep;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use annals::log::Log;
use annals::settings::LogSettings;
use annals::store::Store;
use annals::{Clock, Error, Result};
use annals_aws::kinesis::{Kinesis, StreamName};
use annals_aws::{AwsClientSettings, AwsSettings, DynamoDb, KinesisSettings};
use serde::Deserialize;
use serde_json::Value as Json;

/// The step a function runs; set by `ANNALS_STEP`.
///
/// ```
/// use annals_lambda::Step;
///
/// assert_eq!("sweep".parse::<Step>()?, Step::Sweep);
/// assert!("sleep".parse::<Step>().is_err());
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Stores the records of a stream in the buffer. Invoke it by an event source mapping with
    /// `ReportBatchItemFailures`.
    Pump,
    /// Moves the buffer into slots. Invoke it every minute.
    Sweep,
    /// Writes a time span to a stream. Invoke it with `{"start":…,"end":…}`, and again with its own
    /// response while that says `"more":true`.
    Playback,
}

impl Step {
    /// All steps.
    pub const ALL: [Self; 3] = [Self::Pump, Self::Sweep, Self::Playback];

    /// The name of the step.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pump => "pump",
            Self::Sweep => "sweep",
            Self::Playback => "playback",
        }
    }
}

impl FromStr for Step {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let step = Self::ALL.into_iter().find(|step| step.as_str() == text);
        step.ok_or_else(|| {
            Error::invalid("a step is pump, sweep or playback; set ANNALS_STEP")
                .fact("step", text.escape_debug())
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The settings of a function, under the names of `annals.toml`. Without a region or endpoint, those
/// of Lambda apply; credentials always come from Lambda.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct LambdaSettings {
    /// The time-ordered log.
    pub log: LogSettings,
    /// The endpoint of DynamoDB.
    pub endpoint: Option<String>,
    /// The AWS region.
    pub region: Option<String>,
    /// Kinesis.
    pub kinesis: KinesisSettings,
    /// The clients.
    pub aws_client_config: AwsClientSettings,
}

impl LambdaSettings {
    fn aws(&self) -> AwsSettings {
        let mut aws = AwsSettings::default();
        aws.endpoint.clone_from(&self.endpoint);
        aws.region.clone_from(&self.region);
        aws.kinesis = self.kinesis.clone();
        aws.aws_client_config = self.aws_client_config.clone();
        aws
    }
}

/// The environment of a function.
///
/// See [`read`](Self::read) for an example.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Environment {
    /// `ANNALS_STEP`: the step to run.
    pub step: Step,
    /// `ANNALS_SETTINGS`: the settings, as JSON.
    pub settings: LambdaSettings,
    /// `ANNALS_PLAYBACK_STREAM`: the stream the playback writes to.
    pub playback_stream: Option<StreamName>,
}

impl Environment {
    /// Reads the environment through `variable`.
    ///
    /// ```
    /// use annals_lambda::{Environment, Step};
    ///
    /// let environment = Environment::read(|name| match name {
    ///     "ANNALS_STEP" => Some("sweep".to_owned()),
    ///     "ANNALS_SETTINGS" => Some(r#"{"log":{"event-table":"events"}}"#.to_owned()),
    ///     _ => None,
    /// })?;
    /// assert_eq!(environment.step, Step::Sweep);
    /// # Ok::<(), annals::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` if a variable is missing or malformed.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let variable = |name: &str| variable(name).filter(|text| !text.is_empty());
        let step: Step = variable("ANNALS_STEP").unwrap_or_default().parse()?;
        let settings = match variable("ANNALS_SETTINGS") {
            None => LambdaSettings::default(),
            Some(text) => serde_json::from_str(&text).map_err(|cause| {
                Error::invalid("ANNALS_SETTINGS does not parse; fix it").because(cause)
            })?,
        };
        let stream = variable("ANNALS_PLAYBACK_STREAM");
        let playback_stream = stream.map(|name| name.parse()).transpose()?;
        if step == Step::Playback && playback_stream.is_none() {
            return Err(Error::invalid(
                "a playback needs a target stream; set ANNALS_PLAYBACK_STREAM",
            ));
        }
        Ok(Self {
            step,
            settings,
            playback_stream,
        })
    }
}

/// A function, opened once and invoked many times.
///
/// ```no_run
/// use annals_lambda::{Environment, Function};
///
/// # async fn example() -> annals::Result<()> {
/// let environment = Environment::read(|name| std::env::var(name).ok())?;
/// let function = Function::open(environment).await?;
/// # let _ = function;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Function {
    step: Step,
    log: Log,
    /// The target of a playback.
    target: Option<Target>,
    clock: Arc<dyn Clock>,
}

/// A stream to play back to.
#[derive(Debug)]
struct Target {
    kinesis: Arc<Kinesis>,
    stream: StreamName,
}

impl Function {
    /// Opens it on DynamoDB and Kinesis, with credentials from the AWS credential chain.
    ///
    /// # Errors
    /// `Invalid` if a table is missing or a setting is invalid.
    pub async fn open(environment: Environment) -> Result<Self> {
        let aws = environment.settings.aws();
        let store = Store::new(DynamoDb::open(&aws).await?);
        let kinesis = match environment.step {
            Step::Playback => Some(Arc::new(Kinesis::open(&aws).await?)),
            Step::Pump | Step::Sweep => None,
        };
        Self::on(environment, &store, kinesis).await
    }

    /// Opens it on a given store and Kinesis client.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub async fn on(
        environment: Environment,
        store: &Store,
        kinesis: Option<Arc<Kinesis>>,
    ) -> Result<Self> {
        Ok(Self {
            step: environment.step,
            log: Log::open(store, &environment.settings.log).await?,
            target: kinesis
                .zip(environment.playback_stream)
                .map(|(kinesis, stream)| Target { kinesis, stream }),
            clock: store.clock().clone(),
        })
    }

    /// Handles an invocation within the remaining time.
    ///
    /// # Errors
    /// `Invalid` if the event is not one for this step; otherwise as the store or the stream fails.
    pub async fn handle(&self, event: Json, remaining: Duration) -> Result<Json> {
        match self.step {
            Step::Pump => Box::pin(pump::handle(&self.log, event)).await,
            Step::Sweep => Box::pin(sweep::handle(&self.log, work_time(remaining))).await,
            Step::Playback => {
                let (clock, limit) = (self.clock.clone(), work_time(remaining));
                let stop = async move { clock.passes(limit).await };
                Box::pin(playback::handle(self, event, stop)).await
            }
        }
    }

    /// As [`handle`](Self::handle), with Lambda's deadline in milliseconds since 1970.
    ///
    /// # Errors
    /// As [`handle`](Self::handle).
    pub async fn handle_until(&self, event: Json, deadline_ms: u64) -> Result<Json> {
        let remaining = deadline_ms.saturating_sub(self.clock.now_ms());
        self.handle(event, Duration::from_millis(remaining)).await
    }
}

/// The time to work in; the rest is for requests in flight and for the response.
fn work_time(remaining: Duration) -> Duration {
    const RESERVE: Duration = Duration::from_secs(20);
    remaining.saturating_sub(RESERVE).max(remaining / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserves_time_for_the_response() {
        let seconds = Duration::from_secs;
        assert_eq!(work_time(seconds(300)), seconds(280));
        assert_eq!(work_time(seconds(30)), seconds(15));
        assert_eq!(work_time(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn refuses_an_invalid_environment() {
        let read = |set: &[(&str, &str)]| {
            let found = |name: &str| set.iter().find(|(n, _)| *n == name);
            Environment::read(|name| found(name).map(|(_, text)| (*text).to_owned()))
        };
        assert!(read(&[("ANNALS_STEP", "pump")]).is_ok());
        assert!(read(&[("ANNALS_STEP", "playback"), ("ANNALS_PLAYBACK_STREAM", "s")]).is_ok());
        for (set, want) in [
            (vec![], "set ANNALS_STEP"),
            (vec![("ANNALS_STEP", "scan")], "step=`scan`"),
            (vec![("ANNALS_STEP", "playback")], "ANNALS_PLAYBACK_STREAM"),
            (
                vec![("ANNALS_STEP", "sweep"), ("ANNALS_SETTINGS", "{\"x\":1}")],
                "ANNALS_SETTINGS does not parse",
            ),
            (
                vec![("ANNALS_STEP", "pump"), ("ANNALS_PLAYBACK_STREAM", "a b")],
                "a stream name",
            ),
        ] {
            let error = read(&set).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
