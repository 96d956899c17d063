//! Maps failures of the SDK to retries and error kinds; the only place that knows AWS error codes.
//!
//! Guarantees: every failure gets one verdict: retry, or what the caller should do. The cause is kept
//! as the error's source. No error type of the SDK leaves this crate.

use std::error::Error as StdError;

use annals::items::{TableName, missing_table};
use annals::{Error, ErrorKind};
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::error::{ConnectorError, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::batch_get_item::BatchGetItemError;
use aws_sdk_dynamodb::operation::batch_write_item::BatchWriteItemError;
use aws_sdk_dynamodb::operation::create_table::CreateTableError;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::delete_table::DeleteTableError;
use aws_sdk_dynamodb::operation::describe_table::DescribeTableError;
use aws_sdk_dynamodb::operation::get_item::GetItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::query::QueryError;
use aws_sdk_dynamodb::operation::scan::ScanError;

use crate::attribute::Attributes;

/// An AWS service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    DynamoDb,
    Kinesis,
}

impl Service {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DynamoDb => "DynamoDB",
            Self::Kinesis => "Kinesis",
        }
    }

    /// The message for an endpoint of another service.
    fn wrong_endpoint(self) -> &'static str {
        match self {
            Self::DynamoDb => "the endpoint is not DynamoDB; check the endpoint and the region",
            Self::Kinesis => "the endpoint is not Kinesis; check kinesis.endpoint and the region",
        }
    }
}

/// The error of an SDK operation.
pub(crate) trait OperationError:
    ProvideErrorMetadata + StdError + Send + Sync + 'static
{
    /// The service of the operation.
    const SERVICE: Service = Service::DynamoDb;
    /// Whether the operation creates or drops a table. Then an exceeded limit is the account's, and a
    /// retry does not help; otherwise it means throttling.
    const CHANGES_TABLES: bool = false;
}

impl OperationError for BatchGetItemError {}
impl OperationError for BatchWriteItemError {}
impl OperationError for DeleteItemError {}
impl OperationError for DescribeTableError {}
impl OperationError for GetItemError {}
impl OperationError for PutItemError {}
impl OperationError for QueryError {}
impl OperationError for ScanError {}

impl OperationError for CreateTableError {
    const CHANGES_TABLES: bool = true;
}

impl OperationError for DeleteTableError {
    const CHANGES_TABLES: bool = true;
}

/// What to do after a failed attempt.
#[derive(Debug)]
pub(crate) enum Verdict<E> {
    /// The same request may succeed later.
    Retry(Trouble, Error),
    /// It will not succeed.
    Final(Failure<E>),
}

/// Why a request may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The service throttles.
    Throttled,
    /// No connection, or a broken one.
    Unreachable,
    /// No response in time, a partial response, or a server error.
    Unanswered,
}

/// The final failure of a request.
#[derive(Debug)]
pub(crate) enum Failure<E> {
    /// The condition does not hold; the operation's error has the existing item.
    Refused(E),
    /// There is no such table or stream.
    MissingTable,
    /// The table exists, or is being created, changed or dropped.
    TableInUse,
    /// A shard iterator has expired and must be requested again.
    Expired,
    /// Everything else.
    Failed(Error),
}

impl<E> Failure<E> {
    /// The error a caller sees.
    pub(crate) fn into_error(self, table: &TableName) -> Error {
        match self {
            Self::Failed(error) => error,
            Self::MissingTable => missing_table(table),
            Self::TableInUse => {
                Error::unavailable("table is being created, changed or dropped; try again later")
                    .fact("table", table)
            }
            Self::Expired => Error::unavailable("a shard iterator has expired; start again"),
            Self::Refused(_) => {
                Error::conflict("DynamoDB refused a condition that the request does not have")
            }
        }
    }
}

/// The error of an operation with a condition.
pub(crate) trait Refusal {
    /// The existing item, if DynamoDB returned it.
    fn existing(self) -> Option<Attributes>;
}

impl Refusal for PutItemError {
    fn existing(self) -> Option<Attributes> {
        match self {
            Self::ConditionalCheckFailedException(refused) => refused.item,
            _ => None,
        }
    }
}

impl Refusal for DeleteItemError {
    fn existing(self) -> Option<Attributes> {
        match self {
            Self::ConditionalCheckFailedException(refused) => refused.item,
            _ => None,
        }
    }
}

/// Returns the verdict on a failed attempt.
pub(crate) fn verdict_of<E: OperationError>(error: SdkError<E>) -> Verdict<E> {
    let (trouble, what) = match error {
        SdkError::ServiceError(answer) => {
            let status = answer.raw().status().as_u16();
            return verdict_of_response(status, answer.into_err());
        }
        SdkError::DispatchFailure(ref failure) => match failure.as_connector_error() {
            Some(connector) => meaning_of_dispatch(connector, E::SERVICE),
            None => (Some(Trouble::Unreachable), "no connection"),
        },
        SdkError::TimeoutError(_) => (Some(Trouble::Unanswered), "an attempt timed out"),
        SdkError::ResponseError(_) => (Some(Trouble::Unanswered), "the response was cut off"),
        _ => (None, NOT_BUILT),
    };
    // The SDK's wrappers say nothing ("other") or print whole responses: keep only their source.
    let source = error.into_source().unwrap_or_else(|wrapped| wrapped.into());
    let source = match source.downcast::<ConnectorError>() {
        Ok(connector) => connector.into_source(),
        Err(source) => source,
    };
    match trouble {
        Some(trouble) => Verdict::Retry(trouble, Error::unavailable(what).because(source)),
        None => {
            let problem = Error::invalid(what).because(root_cause(&*source));
            Verdict::Final(Failure::Failed(problem))
        }
    }
}

/// The text of the root cause. The SDK's wrappers of a request that cannot be sent print that request
/// with the contents of the item.
fn root_cause(error: &(dyn StdError + 'static)) -> ServiceMessage {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    ServiceMessage(chain.last().map(ToString::to_string).unwrap_or_default())
}

/// The meaning of a request that was not sent or got no response.
fn meaning_of_dispatch(
    error: &ConnectorError,
    service: Service,
) -> (Option<Trouble>, &'static str) {
    match find::<CredentialsError>(error) {
        Some(CredentialsError::ProviderTimedOut(_)) => {
            return (
                Some(Trouble::Unanswered),
                "loading AWS credentials timed out",
            );
        }
        Some(_) => return (None, NO_CREDENTIALS),
        None => {}
    }
    if error.is_timeout() && is_read_timeout(error) {
        (
            Some(Trouble::Unanswered),
            "no response within socket-timeout",
        )
    } else if error.is_timeout() {
        (Some(Trouble::Unreachable), "no connection in time")
    } else if error.is_io() || error.as_other().is_some() {
        (Some(Trouble::Unreachable), "no connection")
    } else {
        (None, service.wrong_endpoint())
    }
}

/// Whether a timeout of the HTTP client is a read timeout, not a connect timeout. Its type is not
/// public, so its message is compared; a test fails if that changes.
fn is_read_timeout(error: &ConnectorError) -> bool {
    let mut chain = std::iter::successors(Some(error as &dyn StdError), |&error| error.source());
    chain.any(|error| error.to_string().starts_with("HTTP read timeout"))
}

const NO_CREDENTIALS: &str = "no AWS credentials; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and \
    AWS_SECRET_ACCESS_KEY (a local server accepts any)";
const NOT_BUILT: &str = "the SDK cannot build this request; check the endpoint and the region";

fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut chain = std::iter::successors(Some(error), |&error| error.source());
    chain.find_map(|error| error.downcast_ref())
}

/// The verdict on an attempt without a response within its time limit.
pub(crate) fn timed_out<E>() -> Verdict<E> {
    let problem = Error::unavailable("no response within request-timeout");
    Verdict::Retry(Trouble::Unanswered, problem)
}

/// The message of the service: the source of our error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ServiceMessage(String);

/// Returns the verdict on an error response.
fn verdict_of_response<E: OperationError>(status: u16, error: E) -> Verdict<E> {
    let Some(code) = error.code().map(str::to_owned) else {
        return verdict_without_code(status, error);
    };
    let failed = |kind, what: &str| {
        let message = error.message().map(|text| ServiceMessage(text.to_owned()));
        let problem = Error::new(kind, what).fact("code", &code);
        match message {
            Some(message) => problem.because(message),
            None => problem,
        }
    };
    let service = E::SERVICE.name();
    let meaning = match meaning_of_code(&code, status) {
        Meaning::LimitExceeded if E::CHANGES_TABLES => meaning_of_limit(error.message()),
        Meaning::LimitExceeded => Meaning::Retry(Trouble::Throttled),
        meaning => meaning,
    };
    let finally = |kind, what: &str| Verdict::Final(Failure::Failed(failed(kind, what)));
    match meaning {
        Meaning::Refused => Verdict::Final(Failure::Refused(error)),
        Meaning::MissingTable => Verdict::Final(Failure::MissingTable),
        Meaning::TableInUse => Verdict::Final(Failure::TableInUse),
        Meaning::Expired => Verdict::Final(Failure::Expired),
        Meaning::Retry(trouble) => {
            let busy = format!("{service} is busy; try again later");
            Verdict::Retry(trouble, failed(ErrorKind::Unavailable, &busy))
        }
        Meaning::TablesBusy | Meaning::LimitExceeded => {
            finally(ErrorKind::Unavailable, TABLES_BUSY)
        }
        Meaning::Invalid(what) => finally(ErrorKind::Invalid, what),
        Meaning::WrongService => finally(ErrorKind::Invalid, E::SERVICE.wrong_endpoint()),
        Meaning::Rejected => {
            let refused = format!("{service} refused the request");
            finally(ErrorKind::Invalid, &refused)
        }
    }
}

/// Which limit of the account was exceeded: the number of tables, or of tables being changed. Either
/// lasts longer than the retries.
fn meaning_of_limit(message: Option<&str>) -> Meaning {
    match message {
        Some(text) if text.contains("simultaneous") => Meaning::TablesBusy,
        _ => Meaning::Invalid(TABLES_FULL),
    }
}

const TABLES_BUSY: &str = "too many tables are being created, changed or dropped; try again later";
const TABLES_FULL: &str =
    "the account has reached its limit of tables; delete tables or raise the quota";

/// A response without an error code does not come from the service: a status of 500 or more may be a
/// gateway with a temporary failure; anything else is another server.
fn verdict_without_code<E: OperationError>(status: u16, error: E) -> Verdict<E> {
    if status >= 500 {
        let problem = Error::unavailable("the server failed").fact("status", status);
        return Verdict::Retry(Trouble::Unanswered, problem.because(error));
    }
    let problem = Error::invalid(E::SERVICE.wrong_endpoint());
    let problem = problem.fact("status", status).because(error);
    Verdict::Final(Failure::Failed(problem))
}

enum Meaning {
    Refused,
    MissingTable,
    TableInUse,
    Expired,
    /// Which limit depends on the operation.
    LimitExceeded,
    TablesBusy,
    Retry(Trouble),
    Invalid(&'static str),
    /// The server is not this service.
    WrongService,
    /// The request is invalid; the message of the service says why.
    Rejected,
}

/// Maps AWS error codes. Some compatible servers omit the suffix `Exception`.
fn meaning_of_code(code: &str, status: u16) -> Meaning {
    match code.strip_suffix("Exception").unwrap_or(code) {
        "ConditionalCheckFailed" => Meaning::Refused,
        "ResourceNotFound" => Meaning::MissingTable,
        "ResourceInUse" => Meaning::TableInUse,
        "ExpiredIterator" => Meaning::Expired,
        "LimitExceeded" => Meaning::LimitExceeded,
        "ProvisionedThroughputExceeded"
        | "RequestLimitExceeded"
        | "Throttling"
        | "Throttled"
        | "RequestThrottled"
        | "KMSThrottling"
        | "TooManyRequests"
        | "SlowDown" => Meaning::Retry(Trouble::Throttled),
        "TransactionConflict"
        | "TransactionInProgress"
        | "ReplicatedWriteConflict"
        | "RequestTimeout" => Meaning::Retry(Trouble::Unanswered),
        "UnrecognizedClient"
        | "InvalidSignature"
        | "SignatureDoesNotMatch"
        | "AccessDenied"
        | "ExpiredToken"
        | "RequestExpired"
        | "MissingAuthenticationToken"
        | "IncompleteSignature"
        | "InvalidClientTokenId"
        | "NotAuthorized"
        | "OptInRequired" => Meaning::Invalid(
            "AWS refused the credentials; check AWS_PROFILE, AWS_ACCESS_KEY_ID, the role's policy and this machine's clock",
        ),
        "UnknownOperation" => Meaning::WrongService,
        _ if status == 429 => Meaning::Retry(Trouble::Throttled),
        _ if status >= 500 => Meaning::Retry(Trouble::Unanswered),
        _ => Meaning::Rejected,
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::error::ErrorMetadata;

    use super::*;

    #[track_caller]
    fn check(code: &str, status: u16, want: &str) {
        let error = PutItemError::generic(
            ErrorMetadata::builder()
                .code(code)
                .message("as it says")
                .build(),
        );
        let got = match verdict_of_response(status, error) {
            Verdict::Retry(trouble, error) => format!("{trouble:?}: {error}"),
            Verdict::Final(Failure::Failed(error)) => {
                let source = error.source().map(ToString::to_string);
                assert_eq!(source.as_deref(), Some("as it says"));
                format!("{:?}: {error}", error.kind())
            }
            Verdict::Final(Failure::Refused(_)) => "refused".to_owned(),
            Verdict::Final(Failure::MissingTable) => "missing".to_owned(),
            Verdict::Final(Failure::TableInUse) => "in use".to_owned(),
            Verdict::Final(Failure::Expired) => "expired".to_owned(),
        };
        assert!(got.starts_with(want), "{code} {status}: {got}");
    }

    #[test]
    fn every_code_has_a_verdict() {
        check("ConditionalCheckFailedException", 400, "refused");
        check("ResourceNotFoundException", 400, "missing");
        check("ResourceInUseException", 400, "in use");
        check("ExpiredIteratorException", 400, "expired");
        check("ProvisionedThroughputExceededException", 400, "Throttled: ");
        check("ThrottlingException", 400, "Throttled: ");
        check("RequestLimitExceeded", 400, "Throttled: ");
        check("Whatever", 429, "Throttled: ");
        check("InternalServerError", 500, "Unanswered: ");
        check("ServiceUnavailable", 503, "Unanswered: ");
        check("TransactionConflictException", 400, "Unanswered: ");
        for code in [
            "UnrecognizedClientException",
            "InvalidSignatureException",
            "AccessDeniedException",
            "ExpiredTokenException",
            "MissingAuthenticationToken",
            "IncompleteSignature",
        ] {
            check(code, 400, "Invalid: AWS refused the credentials; check");
        }
        check("UnknownOperationException", 400, "Invalid: the endpoint");
        check(
            "ValidationException",
            400,
            "Invalid: DynamoDB refused the request. code=`ValidationException`",
        );
    }

    /// The messages of DynamoDB at the limit of tables, and of tables being changed.
    const FULL: &str = "Subscriber limit exceeded: There is a limit of 2500 tables per subscriber";
    const BUSY: &str = "Subscriber limit exceeded: Only 500 tables can be created, updated, or \
        deleted simultaneously";

    #[track_caller]
    fn check_limit<E: OperationError>(of: fn(ErrorMetadata) -> E, message: &str, want: &str) {
        let error = ErrorMetadata::builder().code("LimitExceededException");
        let got = match verdict_of_response(400, of(error.message(message).build())) {
            Verdict::Retry(trouble, _) => format!("{trouble:?}"),
            Verdict::Final(Failure::Failed(error)) => format!("{:?}: {error}", error.kind()),
            Verdict::Final(other) => format!("{other:?}"),
        };
        assert!(got.starts_with(want), "{message}: {got}");
    }

    #[test]
    fn a_limit_on_tables_is_not_throttling() {
        let full = "Invalid: the account has reached its limit of tables; delete tables or raise";
        let busy = "Unavailable: too many tables are being created, changed or dropped; try again";
        check_limit(CreateTableError::generic, FULL, full);
        check_limit(CreateTableError::generic, BUSY, busy);
        check_limit(DeleteTableError::generic, BUSY, busy);
        check_limit(PutItemError::generic, FULL, "Throttled");
        check_limit(DescribeTableError::generic, BUSY, "Throttled");
    }

    #[test]
    fn a_response_without_a_code_comes_from_another_server() {
        let html = || PutItemError::unhandled("expected value");
        for status in [200, 301, 403, 404] {
            let verdict = verdict_of_response(status, html());
            let Verdict::Final(Failure::Failed(error)) = verdict else {
                panic!("{status}: {verdict:?}");
            };
            assert_eq!(error.kind(), ErrorKind::Invalid);
        }
        let gateway = verdict_of_response(502, html());
        assert!(matches!(gateway, Verdict::Retry(Trouble::Unanswered, _)));
    }

    #[test]
    fn distinguishes_missing_credentials_from_a_missing_network() {
        let meaning = |error: &_| meaning_of_dispatch(error, Service::DynamoDb);
        let credentials =
            ConnectorError::other(CredentialsError::not_loaded("none found").into(), None);
        assert_eq!(meaning(&credentials), (None, NO_CREDENTIALS));
        let slow = CredentialsError::provider_timed_out(std::time::Duration::from_secs(5));
        let slow = ConnectorError::other(slow.into(), None);
        assert_eq!(meaning(&slow).0, Some(Trouble::Unanswered));
        let network = ConnectorError::io("refused".into());
        assert_eq!(meaning(&network).0, Some(Trouble::Unreachable));
        let garbage = ConnectorError::other("not HTTP".into(), None);
        assert_eq!(
            meaning(&garbage),
            (None, Service::DynamoDb.wrong_endpoint())
        );
    }
}
