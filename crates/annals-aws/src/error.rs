//! What a failure of the SDK means: the one place that knows AWS's error codes.
//!
//! Promises: every failure gets one verdict, whether to try again and otherwise what the caller
//! should do; the cause is kept as the error's source.
//! Never: retries by itself, or lets an error type of the SDK out.

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

/// Which service of AWS is spoken to.
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

    /// What an address is told that answers as this service does not.
    fn is_other(self) -> &'static str {
        match self {
            Self::DynamoDb => {
                "the endpoint does not speak DynamoDB; check its address and the region"
            }
            Self::Kinesis => {
                "the endpoint does not speak Kinesis; check its address, kinesis.endpoint and the region"
            }
        }
    }
}

/// The error of one of the SDK's operations.
pub(crate) trait OperationError:
    ProvideErrorMetadata + StdError + Send + Sync + 'static
{
    /// Whose operation it is.
    const SERVICE: Service = Service::DynamoDb;
    /// Whether the operation makes or drops a table. Then a limit that is exceeded is the
    /// account's, and no pause of ours helps; elsewhere it is another word for throttling.
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

/// What the failure of one attempt means.
#[derive(Debug)]
pub(crate) enum Verdict<E> {
    /// The same request may succeed later.
    Retry(Trouble, Error),
    /// It will not.
    Final(Failure<E>),
}

/// Why a request may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The service asks for fewer requests.
    Throttled,
    /// No connection, or one that broke.
    Unreachable,
    /// No answer in time, half an answer, or a failure on the service's side.
    Unanswered,
}

/// How a request ends for good without success.
#[derive(Debug)]
pub(crate) enum Failure<E> {
    /// The condition did not hold; the operation's error has the item that is there.
    Refused(E),
    /// There is no such table, or stream.
    MissingTable,
    /// There is such a table, or it is being made, changed or dropped.
    TableInUse,
    /// A place in a stream is too old to go on from; it is to be asked for again.
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
            Self::TableInUse => Error::unavailable(format!(
                "table is being made, changed or dropped; try again later. table=`{table}`"
            )),
            Self::Expired => Error::unavailable("a place to go on from is too old; begin again"),
            Self::Refused(_) => Error::conflict("DynamoDB refused a condition that nobody asked"),
        }
    }
}

/// An operation that can be refused by its condition.
pub(crate) trait Refusal {
    /// The item that is there, where DynamoDB tells.
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

/// What the failure of an attempt means.
pub(crate) fn verdict_of<E: OperationError>(error: SdkError<E>) -> Verdict<E> {
    let (trouble, what) = match error {
        SdkError::ServiceError(answer) => {
            let status = answer.raw().status().as_u16();
            return verdict_of_answer(status, answer.into_err());
        }
        SdkError::DispatchFailure(ref failure) => match failure.as_connector_error() {
            Some(connector) => meaning_of_dispatch(connector, E::SERVICE),
            None => (Some(Trouble::Unreachable), "no connection"),
        },
        SdkError::TimeoutError(_) => (Some(Trouble::Unanswered), "an attempt timed out"),
        SdkError::ResponseError(_) => (Some(Trouble::Unanswered), "the answer broke off"),
        _ => (None, NOT_BUILT),
    };
    // The SDK's own wrappings say nothing ("other") or print whole responses: only what is inside
    // is kept.
    let source = error.into_source().unwrap_or_else(|wrapped| wrapped.into());
    let source = match source.downcast::<ConnectorError>() {
        Ok(connector) => connector.into_source(),
        Err(source) => source,
    };
    match trouble {
        Some(trouble) => Verdict::Retry(trouble, Error::unavailable(what).because(source)),
        None => {
            let problem = Error::invalid(what).because(innermost(&*source));
            Verdict::Final(Failure::Failed(problem))
        }
    }
}

/// The first cause, as text alone. What the SDK wraps around it, when a request cannot be sent,
/// prints that request with all the item's contents.
fn innermost(error: &(dyn StdError + 'static)) -> Said {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    Said(chain.last().map(ToString::to_string).unwrap_or_default())
}

/// What it means that a request was not sent, or got no answer at all.
fn meaning_of_dispatch(
    error: &ConnectorError,
    service: Service,
) -> (Option<Trouble>, &'static str) {
    match find::<CredentialsError>(error) {
        Some(CredentialsError::ProviderTimedOut(_)) => {
            return (Some(Trouble::Unanswered), "AWS credentials took too long");
        }
        Some(_) => return (None, NO_CREDENTIALS),
        None => {}
    }
    if error.is_timeout() && is_silence(error) {
        (Some(Trouble::Unanswered), "no answer within socket-timeout")
    } else if error.is_timeout() {
        (Some(Trouble::Unreachable), "no connection in time")
    } else if error.is_io() || error.as_other().is_some() {
        (Some(Trouble::Unreachable), "no connection")
    } else {
        (None, service.is_other())
    }
}

/// Whether a timeout of the HTTP client is that of reading, and not that of connecting. The type
/// that knows is not public, so its words are asked; a test holds them.
fn is_silence(error: &ConnectorError) -> bool {
    let mut chain = std::iter::successors(Some(error as &dyn StdError), |&error| error.source());
    chain.any(|error| error.to_string().starts_with("HTTP read timeout"))
}

const NO_CREDENTIALS: &str = "no AWS credentials; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and \
    AWS_SECRET_ACCESS_KEY (a local server takes any)";
const NOT_BUILT: &str = "the SDK cannot build this request; check the endpoint and the region";

fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut chain = std::iter::successors(Some(error), |&error| error.source());
    chain.find_map(|error| error.downcast_ref())
}

/// An attempt that had no answer when its time was over.
pub(crate) fn timed_out<E>() -> Verdict<E> {
    let problem = Error::unavailable("an attempt had no answer within request-timeout");
    Verdict::Retry(Trouble::Unanswered, problem)
}

/// What the service said, in its own words: the source of our own message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Said(String);

/// What an answer means that is not a success.
fn verdict_of_answer<E: OperationError>(status: u16, error: E) -> Verdict<E> {
    let Some(code) = error.code().map(str::to_owned) else {
        return verdict_without_code(status, error);
    };
    let failed = |kind, what: &str| {
        let said = error.message().map(|message| Said(message.to_owned()));
        let problem = Error::new(kind, format!("{what}. code=`{code}`"));
        match said {
            Some(said) => problem.because(said),
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
            let asks = format!("{service} asks to try again");
            Verdict::Retry(trouble, failed(ErrorKind::Unavailable, &asks))
        }
        Meaning::TablesBusy | Meaning::LimitExceeded => {
            finally(ErrorKind::Unavailable, TABLES_BUSY)
        }
        Meaning::Invalid(what) => finally(ErrorKind::Invalid, what),
        Meaning::Other => finally(ErrorKind::Invalid, E::SERVICE.is_other()),
        Meaning::Wrong => {
            let refused = format!("{service} refused the request");
            finally(ErrorKind::Invalid, &refused)
        }
    }
}

/// Which limit of the account was met when a table was to be made or dropped: how many there may
/// be, or how many may be under way. Either lasts longer than a request is repeated.
fn meaning_of_limit(message: Option<&str>) -> Meaning {
    match message {
        Some(text) if text.contains("simultaneous") => Meaning::TablesBusy,
        _ => Meaning::Invalid(TABLES_FULL),
    }
}

const TABLES_BUSY: &str =
    "too many tables are being made, changed or dropped; try again when some are done";
const TABLES_FULL: &str =
    "the account has as many tables as it may; delete tables or raise the account's quota";

/// An answer without an error code is not the service's own: a gateway in front of it may be out of
/// order for a while; anything else is some other server.
fn verdict_without_code<E: OperationError>(status: u16, error: E) -> Verdict<E> {
    let message = |what: &str| format!("{what}. status=`{status}`");
    if status >= 500 {
        let problem = Error::unavailable(message("the server failed")).because(error);
        return Verdict::Retry(Trouble::Unanswered, problem);
    }
    let problem = Error::invalid(message(E::SERVICE.is_other())).because(error);
    Verdict::Final(Failure::Failed(problem))
}

enum Meaning {
    Refused,
    MissingTable,
    TableInUse,
    Expired,
    /// What kind of limit depends on the operation.
    LimitExceeded,
    TablesBusy,
    Retry(Trouble),
    Invalid(&'static str),
    /// The server is not of this service.
    Other,
    /// The request is wrong in a way that only the service's words tell.
    Wrong,
}

/// AWS's error codes; servers that speak like DynamoDB leave the suffix out here and there.
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
        "UnknownOperation" => Meaning::Other,
        _ if status == 429 => Meaning::Retry(Trouble::Throttled),
        _ if status >= 500 => Meaning::Retry(Trouble::Unanswered),
        _ => Meaning::Wrong,
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
        let got = match verdict_of_answer(status, error) {
            Verdict::Retry(trouble, error) => format!("{trouble:?}: {error}"),
            Verdict::Final(Failure::Failed(error)) => {
                let said = error.source().map(ToString::to_string);
                assert_eq!(said.as_deref(), Some("as it says"));
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
    fn codes_mean_what_the_caller_should_do() {
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

    /// What DynamoDB says when the account may have no more tables, and when too many are under way.
    const FULL: &str = "Subscriber limit exceeded: There is a limit of 2500 tables per subscriber";
    const BUSY: &str = "Subscriber limit exceeded: Only 500 tables can be created, updated, or \
        deleted simultaneously";

    #[track_caller]
    fn check_limit<E: OperationError>(of: fn(ErrorMetadata) -> E, message: &str, want: &str) {
        let error = ErrorMetadata::builder().code("LimitExceededException");
        let got = match verdict_of_answer(400, of(error.message(message).build())) {
            Verdict::Retry(trouble, _) => format!("{trouble:?}"),
            Verdict::Final(Failure::Failed(error)) => format!("{:?}: {error}", error.kind()),
            Verdict::Final(other) => format!("{other:?}"),
        };
        assert!(got.starts_with(want), "{message}: {got}");
    }

    #[test]
    fn a_limit_on_tables_is_not_throttling() {
        let full = "Invalid: the account has as many tables as it may; delete tables or raise";
        let busy = "Unavailable: too many tables are being made, changed or dropped; try again";
        check_limit(CreateTableError::generic, FULL, full);
        check_limit(CreateTableError::generic, BUSY, busy);
        check_limit(DeleteTableError::generic, BUSY, busy);
        check_limit(PutItemError::generic, FULL, "Throttled");
        check_limit(DescribeTableError::generic, BUSY, "Throttled");
    }

    #[test]
    fn answers_without_a_code_come_from_something_else() {
        let html = || PutItemError::unhandled("expected value");
        for status in [200, 301, 403, 404] {
            let verdict = verdict_of_answer(status, html());
            let Verdict::Final(Failure::Failed(error)) = verdict else {
                panic!("{status}: {verdict:?}");
            };
            assert_eq!(error.kind(), ErrorKind::Invalid);
        }
        let gateway = verdict_of_answer(502, html());
        assert!(matches!(gateway, Verdict::Retry(Trouble::Unanswered, _)));
    }

    #[test]
    fn missing_credentials_are_told_from_a_missing_network() {
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
        assert_eq!(meaning(&garbage), (None, Service::DynamoDb.is_other()));
    }
}
