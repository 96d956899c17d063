//! The only retry loop, and the only limit on requests in flight.
//!
//! Guarantees: a request is retried with full jitter until it succeeds, is refused, reaches its
//! deadline or was retried `max-error-retry` times. If there never was a connection, the endpoint is
//! most likely wrong, and retries end after five seconds. At most `max-connections` requests are in
//! flight. A refusal is never retried. After a lost response a write is sent again, so the writer must
//! recognise its own item. The SDK's own retries are off.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use annals::{Clock, Error, Random, Result, SystemClock};
use aws_sdk_dynamodb::error::SdkError;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::{Failure, OperationError, Service, Trouble, Verdict, timed_out, verdict_of};
use crate::settings::AwsClientSettings;

/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long to try for a first connection.
const FIRST_CONNECTION_MAX: Duration = Duration::from_secs(5);
/// A warning is logged if there is no connection, or no answer to a first request, for as long.
const WARN_AFTER: Duration = Duration::from_secs(1);

impl Trouble {
    /// The longest pause before the second attempt; it doubles with every attempt.
    fn pause(self) -> Duration {
        match self {
            // A throttled table needs time to refill; a broken connection does not.
            Self::Throttled => Duration::from_millis(50),
            Self::Unreachable | Self::Unanswered => Duration::from_millis(25),
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::Unreachable => "unreachable",
            Self::Unanswered => "unanswered",
        }
    }

    /// The advice to the user; `limit` is the setting that ended the retries.
    fn advice(self, limit: &str, service: Service) -> String {
        let name = service.name();
        let more = match service {
            Service::DynamoDb => "raise the table's capacity",
            Service::Kinesis => "give the stream more shards",
        };
        match self {
            Self::Throttled => format!("{name} throttles; send less, {more}, or raise {limit}"),
            Self::Unreachable => {
                format!("cannot reach {name}; check the endpoint and the network")
            }
            Self::Unanswered => format!(
                "{name} did not answer within {limit}; check the endpoint and the network, or raise it"
            ),
        }
    }
}

/// Sends requests within a deadline, on a limited number of connections.
pub(crate) struct Sender {
    service: Service,
    clock: Arc<dyn Clock>,
    random: Random,
    /// One permit per connection: HTTP/1.1 carries one request at a time, and the SDK's pool keeps
    /// every connection for reuse.
    connections: Semaphore,
    attempt_max: Duration,
    deadline: Duration,
    /// Retries per request; `None`: only the deadline limits them.
    retries_max: Option<u32>,
    /// Whether a request ever failed for another reason than the connection, or succeeded.
    has_connected: AtomicBool,
    /// Whether the service ever answered.
    has_answered: AtomicBool,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("connections", &self.connections.available_permits())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl Sender {
    pub(crate) fn new(
        service: Service,
        settings: &AwsClientSettings,
        clock: Arc<dyn Clock>,
        random: Random,
    ) -> Self {
        let connections = settings.max_connections.min(Semaphore::MAX_PERMITS);
        Self {
            service,
            clock,
            random,
            connections: Semaphore::new(connections),
            attempt_max: settings.request_timeout(),
            deadline: settings.client_execution_timeout(),
            retries_max: settings.max_error_retry,
            has_connected: AtomicBool::new(false),
            has_answered: AtomicBool::new(false),
        }
    }

    /// Starts an operation; its deadline runs from now.
    pub(crate) fn call(&self) -> Call<'_> {
        Call {
            sender: self,
            began: self.clock.monotonic(),
            requests: 0,
            pauses: 0,
            has_warned: false,
        }
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }
}

/// One operation: its requests so far and its deadline.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    sender: &'a Sender,
    began: Duration,
    requests: u64,
    pauses: u32,
    /// Whether a warning was logged that there is no connection or no answer.
    has_warned: bool,
}

impl<'a> Call<'a> {
    /// The number of requests sent.
    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    /// Sends a request, and retries it while that may help and time is left.
    pub(crate) async fn send<O, E, F>(&mut self, request: impl Fn() -> F) -> Result<O, Failure<E>>
    where
        E: OperationError,
        F: Future<Output = Result<O, SdkError<E>>>,
    {
        let mut retries = 0;
        loop {
            let verdict = match self.attempt(&request).await {
                Ok(answer) => return Ok(answer),
                Err(verdict) => verdict,
            };
            match verdict {
                Verdict::Final(failure) => return Err(failure),
                Verdict::Retry(trouble, cause) if Some(retries) == self.sender.retries_max => {
                    let gave_up = self.gave_up(trouble, "max-error-retry", cause);
                    return Err(Failure::Failed(gave_up));
                }
                Verdict::Retry(trouble, cause) => {
                    let pause = self.pause(trouble, cause).await;
                    pause.map_err(Failure::Failed)?;
                    retries += 1;
                }
            }
        }
    }

    async fn attempt<O, E, F>(&mut self, request: impl Fn() -> F) -> Result<O, Verdict<E>>
    where
        E: OperationError,
        F: Future<Output = Result<O, SdkError<E>>>,
    {
        let connection = self.connection().await;
        let _connection = connection.map_err(|error| Verdict::Final(Failure::Failed(error)))?;
        self.requests += 1;
        // An attempt waits for a server, so the system clock bounds it even if a test controls the
        // other one.
        let limit = self.remaining().min(self.sender.attempt_max);
        let answer = match self.within(limit, request()).await {
            Some(answer) => answer.map_err(verdict_of),
            None => Err(timed_out()),
        };
        let is_answer = !matches!(
            answer,
            Err(Verdict::Retry(
                Trouble::Unreachable | Trouble::Unanswered,
                _
            ))
        );
        self.sender
            .has_answered
            .fetch_or(is_answer, Ordering::Relaxed);
        if !matches!(answer, Err(Verdict::Retry(Trouble::Unreachable, _))) {
            self.sender.has_connected.store(true, Ordering::Relaxed);
        }
        answer
    }

    /// The answer, if there is one within the limit. Logs a warning if a first answer takes long: then
    /// the endpoint may be wrong, and nobody should wait for the deadline to learn that.
    async fn within<O>(&mut self, limit: Duration, request: impl Future<Output = O>) -> Option<O> {
        let mut request = pin!(request);
        let quiet = WARN_AFTER.saturating_sub(self.elapsed());
        let has_answered = self.sender.has_answered.load(Ordering::Relaxed);
        if self.has_warned || has_answered || limit <= quiet {
            return SystemClock::within(limit, request).await;
        }
        if let Some(answer) = SystemClock::within(quiet, request.as_mut()).await {
            return Some(answer);
        }
        self.has_warned = true;
        let (service, seconds) = (self.sender.service.name(), self.remaining().as_secs());
        tracing::warn!(
            "{service} does not answer; waiting for another {seconds} s, check the endpoint and the network"
        );
        SystemClock::within(limit - quiet, request).await
    }

    async fn connection(&self) -> Result<SemaphorePermit<'a>> {
        let connections = &self.sender.connections;
        if let Ok(permit) = connections.try_acquire() {
            return Ok(permit);
        }
        match SystemClock::within(self.remaining(), connections.acquire()).await {
            Some(Ok(permit)) => Ok(permit),
            _ => Err(Error::unavailable(
                "every connection was busy until the deadline; raise max-connections or send less",
            )),
        }
    }

    fn elapsed(&self) -> Duration {
        let now = self.sender.clock.monotonic();
        now.saturating_sub(self.began)
    }

    fn remaining(&self) -> Duration {
        self.sender.deadline.saturating_sub(self.elapsed())
    }

    /// Waits before another attempt, or before unprocessed entries are sent again.
    ///
    /// # Errors
    /// `Unavailable` if the deadline would pass.
    pub(crate) async fn pause(&mut self, trouble: Trouble, cause: Error) -> Result<()> {
        let doubled = trouble.pause().saturating_mul(1 << self.pauses.min(16));
        let pause = self.sender.random.jitter(doubled.min(PAUSE_MAX));
        let has_connected = self.sender.has_connected.load(Ordering::Relaxed);
        let remaining = match trouble {
            Trouble::Unreachable if !has_connected => {
                let most = FIRST_CONNECTION_MAX.saturating_sub(self.elapsed());
                most.min(self.remaining())
            }
            _ => self.remaining(),
        };
        if pause >= remaining {
            return Err(self.gave_up(trouble, "client-execution-timeout", cause));
        }
        if trouble == Trouble::Unreachable && !self.has_warned && self.elapsed() >= WARN_AFTER {
            self.has_warned = true;
            let (service, seconds) = (self.sender.service.name(), remaining.as_secs());
            tracing::warn!(
                "cannot reach {service}; trying for another {seconds} s, check the endpoint and the network"
            );
        }
        self.pauses += 1;
        let name = match self.sender.service {
            Service::DynamoDb => "annals_dynamodb_retries_total",
            Service::Kinesis => "annals_kinesis_retries_total",
        };
        metrics::counter!(name, "why" => trouble.label()).increment(1);
        self.sender.clock.sleep(pause).await;
        Ok(())
    }

    fn gave_up(&self, trouble: Trouble, limit: &str, cause: Error) -> Error {
        let (advice, requests) = (trouble.advice(limit, self.sender.service), self.requests);
        Error::unavailable(advice)
            .fact("attempts", requests)
            .because(cause)
    }
}
