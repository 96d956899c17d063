//! The steps of the time-ordered log as AWS Lambda functions: thin shells over the library. The
//! binary is `annals-lambda`.
//!
//! ```text
//! pump       records that Lambda reads out of a stream, into the buffer
//! sweep      the buffer into slots, by the clock
//! playback   a span of time to a stream
//! ```
//!
//! Promises: a function stops before its time is over, and its answer says whether there is more to
//! do. Called again, it goes on. A batch of which a record may not be stored is handed over again
//! from that record on.
//! Trusts: what invokes it to do so again after an error.
//! Never: keeps anything between two calls but its connections.

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
use serde_json::Value as Json;

use annals_aws::kinesis::{Kinesis, StreamName};
use annals_aws::{AwsClientSettings, AwsSettings, DynamoDb, KinesisSettings};
use serde::Deserialize;

/// Which step a function does; set as `ANNALS_STEP`.
///
/// ```
/// use annals_lambda::Step;
///
/// assert_eq!("sweep".parse::<Step>()?, Step::Sweep);
/// assert!("sleep".parse::<Step>().is_err());
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Records of a stream into the buffer. To be invoked by an event source mapping that reports
    /// failures of items.
    Pump,
    /// The buffer into slots. To be invoked every minute.
    Sweep,
    /// A span of time to a stream. To be invoked with `{"start":…,"end":…}`, and again with its own
    /// answer while that says `"more":true`.
    Playback,
}

impl Step {
    /// Every step there is.
    pub const ALL: [Self; 3] = [Self::Pump, Self::Sweep, Self::Playback];

    /// As it is set.
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
            Error::invalid(format!(
                "a step is pump, sweep or playback; set ANNALS_STEP. step=`{}`",
                text.escape_debug()
            ))
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The settings of a function, under the names of `annals.toml`: the log's, and those of the clients.
/// Where there is no region or address, they come from Lambda, as the credentials do.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct LambdaSettings {
    /// The time-ordered log.
    pub log: LogSettings,
    /// The address of DynamoDB.
    pub endpoint: Option<String>,
    /// The AWS region.
    pub region: Option<String>,
    /// Streams of Kinesis.
    pub kinesis: KinesisSettings,
    /// The clients.
    pub aws_client_config: AwsClientSettings,
}

impl LambdaSettings {
    fn aws(&self) -> AwsSettings {
        AwsSettings {
            endpoint: self.endpoint.clone(),
            region: self.region.clone(),
            profile: None,
            kinesis: self.kinesis.clone(),
            aws_client_config: self.aws_client_config.clone(),
        }
    }
}

/// What a function reads from its environment.
///
/// See [`read`](Self::read) for an example.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Which step it does: `ANNALS_STEP`.
    pub step: Step,
    /// The settings, as JSON with the names of `annals.toml`: `ANNALS_SETTINGS`.
    pub settings: LambdaSettings,
    /// The stream that is played back to: `ANNALS_PLAYBACK_STREAM`.
    pub playback_stream: Option<StreamName>,
}

impl Environment {
    /// Reads it.
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
    /// `Invalid` where something is missing or not understood.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let variable = |name: &str| variable(name).filter(|text| !text.is_empty());
        let step: Step = variable("ANNALS_STEP").unwrap_or_default().parse()?;
        let settings = match variable("ANNALS_SETTINGS") {
            None => LambdaSettings::default(),
            Some(text) => serde_json::from_str(&text).map_err(|cause| {
                Error::invalid("ANNALS_SETTINGS is not understood; fix it").because(cause)
            })?,
        };
        let stream = variable("ANNALS_PLAYBACK_STREAM");
        let playback_stream = stream.map(|name| name.parse()).transpose()?;
        if step == Step::Playback && playback_stream.is_none() {
            return Err(Error::invalid(
                "a playback has a stream to go to; set ANNALS_PLAYBACK_STREAM",
            ));
        }
        Ok(Self {
            step,
            settings,
            playback_stream,
        })
    }
}

/// One function, opened once and called many times.
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
    /// Where a playback goes.
    sink: Option<(Arc<Kinesis>, StreamName)>,
    clock: Arc<dyn Clock>,
}

impl Function {
    /// Opens it on DynamoDB and Kinesis, with credentials from AWS's own chain.
    ///
    /// # Errors
    /// `Invalid` where a table is missing or a setting cannot work.
    pub async fn open(environment: Environment) -> Result<Self> {
        let aws = environment.settings.aws();
        let store = Store::new(DynamoDb::open(&aws).await?);
        let kinesis = match environment.step {
            Step::Playback => Some(Arc::new(Kinesis::open(&aws).await?)),
            Step::Pump | Step::Sweep => None,
        };
        Self::on(environment, &store, kinesis).await
    }

    /// On a store and streams of one's own.
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
            sink: kinesis.zip(environment.playback_stream),
            clock: store.clock().clone(),
        })
    }

    /// Does its step with what it was invoked with, within the time that is left.
    ///
    /// # Errors
    /// `Invalid` where the event is not one for this step. Otherwise as the store or the stream
    /// fails: whoever invokes it does so again.
    pub async fn handle(&self, event: Json, left: Duration) -> Result<Json> {
        match self.step {
            Step::Pump => Box::pin(pump::handle(&self.log, event)).await,
            Step::Sweep => Box::pin(sweep::handle(&self.log, working(left))).await,
            Step::Playback => {
                let (clock, limit) = (self.clock.clone(), working(left));
                let stop = async move { clock.passes(limit).await };
                Box::pin(playback::handle(self, event, stop)).await
            }
        }
    }

    /// As [`handle`](Self::handle), until a deadline in milliseconds since 1970, which is how Lambda
    /// tells it.
    ///
    /// # Errors
    /// As [`handle`](Self::handle).
    pub async fn handle_until(&self, event: Json, deadline_ms: u64) -> Result<Json> {
        let left = deadline_ms.saturating_sub(self.clock.now_ms());
        self.handle(event, Duration::from_millis(left)).await
    }
}

/// The time to work in: enough is left over for what is under way to end, and for the answer.
fn working(left: Duration) -> Duration {
    const ENDING: Duration = Duration::from_secs(20);
    left.saturating_sub(ENDING).max(left / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_time_is_left_over() {
        let seconds = Duration::from_secs;
        assert_eq!(working(seconds(300)), seconds(280));
        assert_eq!(working(seconds(30)), seconds(15));
        assert_eq!(working(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn an_environment_that_cannot_work_is_refused() {
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
                "ANNALS_SETTINGS is not understood",
            ),
            (
                vec![("ANNALS_STEP", "pump"), ("ANNALS_PLAYBACK_STREAM", "a b")],
                "a stream's name",
            ),
        ] {
            let error = read(&set).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
