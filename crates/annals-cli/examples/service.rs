//! A bank as an HTTP service: `cargo run -p annals-cli --example service`.
//!
//! It listens on a free port, sends a few requests to itself, and ends.

use std::iter::successors;

use annals::entity::{
    AskError, Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Once, Problem, Region,
    Retention, Stored, persist,
};
use annals::{Annals, Error};
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Default, Serialize, Deserialize, Stored)]
struct Account {
    /// None before the first deposit: there is no such account.
    balance: Option<i64>,
}

#[derive(Serialize, Deserialize, EntityEvent)]
#[event(entity = Account)]
enum AccountEvent {
    Booked { amount: i64 },
}

#[derive(Debug, thiserror::Error)]
enum AccountError {
    #[error("there is no such account; deposit first")]
    NotFound,
    #[error("insufficient funds. balance=`{0}`")]
    InsufficientFunds(i64),
}

impl Entity for Account {
    const TYPE: &'static str = "Account";
    type Event = AccountEvent;
    type Error = AccountError;

    fn apply(&mut self, event: &AccountEvent) {
        let AccountEvent::Booked { amount } = event;
        *self.balance.get_or_insert(0) += amount;
    }
}

/// Deposits an amount, or withdraws it if it is negative.
#[derive(Deserialize)]
struct Book {
    amount: i64,
}

impl Handle<Book> for Account {
    type Reply = i64;

    fn handle(&self, command: &Book, _: &Cx<'_>) -> Result<Effect<Self, i64>, AccountError> {
        let amount = command.amount;
        if self.balance.is_none() && amount < 0 {
            return Err(AccountError::NotFound);
        }
        let balance = self.balance.unwrap_or(0);
        match balance.checked_add(amount) {
            Some(after @ 0..) => Ok(persist(AccountEvent::Booked { amount }).reply(move |_| after)),
            _ => Err(AccountError::InsufficientFunds(balance)),
        }
    }
}

type Accounts = Region<Account>;

/// An error as problem details. A rejection has the status 422, or 404.
struct Failure(AskError<AccountError>);

impl<E: Into<AskError<AccountError>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

// ANCHOR: response
impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let problem = match &self.0 {
            AskError::Rejected(AccountError::NotFound) => self.0.problem().with_status(404),
            error => error.problem(),
        };
        // An overload is no error of the service.
        let is_busy = matches!(self.0, AskError::Overloaded { .. } | AskError::Stopped);
        if problem.status >= 500 && !is_busy {
            log(&self.0);
        }
        let status = StatusCode::from_u16(problem.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let media_type = [(CONTENT_TYPE, Problem::MEDIA_TYPE)];
        let retry_after = (status == 503 && problem.retryable).then_some([(RETRY_AFTER, "1")]);
        (status, media_type, retry_after, Json(problem)).into_response()
    }
}
// ANCHOR_END: response

/// Prints an error with its causes, which the client does not get.
fn log(error: &dyn std::error::Error) {
    let errors = successors(Some(error), |&error| error.source());
    let messages: Vec<String> = errors.map(ToString::to_string).collect();
    eprintln!("{}", messages.join(": "));
}

/// `POST /accounts/{id}`. A request with an `Idempotency-Key` is booked once, however often it is
/// sent; its `X-Request-Id` is stored with the event.
async fn book(
    State(mut accounts): State<Accounts>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(command): Json<Book>,
) -> Result<Json<Value>, Failure> {
    let request = headers.get("x-request-id");
    if let Some(request) = request.and_then(|value| value.to_str().ok()) {
        accounts = accounts.with_correlation(request);
    }
    let Some(key) = headers.get("idempotency-key") else {
        let balance = accounts.ask(&id, command).await?;
        return Ok(Json(json!({"balance": balance})));
    };
    let key = key.to_str().ok().filter(|key| !key.is_empty());
    let key = key.ok_or_else(|| Error::invalid("Idempotency-Key is empty or not visible ASCII"))?;
    // With the route: a client may use its key for another route, too.
    let command_id = format!("book/{key}");
    Ok(Json(
        match accounts.ask_once(&id, &command_id, command).await? {
            Once::Done(balance) => json!({"balance": balance}),
            Once::Already(number) => json!({"already": number}),
        },
    ))
}

// ANCHOR: show
/// `GET /accounts/{id}`.
async fn show(
    State(accounts): State<Accounts>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Failure> {
    let balance = accounts.view(&id, |account| account.balance).await?;
    let balance = balance.ok_or(AskError::Rejected(AccountError::NotFound))?;
    Ok(Json(json!({"balance": balance})))
}
// ANCHOR_END: show

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let annals = Annals::embedded(folder.path()).await?;
    let settings = EntitySettings::new().remember_commands(1_000);
    let accounts: Accounts = annals.region(settings.retention(Retention::every(100)));
    let service = Router::new()
        .route("/accounts/{id}", get(show).post(book))
        .with_state(accounts.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/accounts", listener.local_addr()?);
    let server = tokio::spawn(axum::serve(listener, service).into_future());

    let client = reqwest::Client::new();
    let get = |id: &str| client.get(format!("{url}/{id}")).send();
    let post = |id: &str, amount: i64, key: &'static [u8]| {
        let request = client.post(format!("{url}/{id}"));
        let request = request.header("idempotency-key", key);
        request.json(&json!({"amount": amount})).send()
    };
    let responses = [
        post("alice", 10, b"first").await?,
        post("alice", 10, b"first").await?,
        post("alice", -4, b"second").await?,
        post("alice", -7, b"third").await?,
        post("alice", 1, b"caf\xE9").await?,
        post("bob", -1, b"first").await?,
        get("bob").await?,
        get("alice").await?,
    ];
    let problem = |kind: &str, title: &str, status: u16, detail: &str| {
        format!(
            r#"{{"type":"urn:annals:problem:{kind}","title":"{title}","status":{status},"kind":"{kind}","detail":"{detail}","retryable":false}}"#
        )
    };
    let poor = "insufficient funds. balance=`6`";
    let poor = problem("rejected", "Unprocessable Content", 422, poor);
    let not_ascii = "Idempotency-Key is empty or not visible ASCII";
    let not_ascii = problem("invalid", "Bad Request", 400, not_ascii);
    let absent = "there is no such account; deposit first";
    let absent = problem("rejected", "Not Found", 404, absent);
    let want = [
        (200, r#"{"balance":10}"#),
        (200, r#"{"already":1}"#),
        (200, r#"{"balance":6}"#),
        (422, &poor),
        (400, &not_ascii),
        (404, &absent),
        (404, &absent),
        (200, r#"{"balance":6}"#),
    ];
    for (response, want) in responses.into_iter().zip(want) {
        let (status, body) = (response.status().as_u16(), response.text().await?);
        println!("{status} {body}");
        assert_eq!((status, body.as_str()), want);
    }

    server.abort();
    accounts.passivate_all().await;
    Ok(())
}
