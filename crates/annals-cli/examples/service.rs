//! A bank as an HTTP service: `cargo run -p annals-cli --example service`.
//!
//! It listens on a free port, sends a few requests to itself, and ends.

use annals::Annals;
use annals::entity::{
    AskError, Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Once, Problem, Region,
    Retention, Stored, persist,
};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header::CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Default, Serialize, Deserialize, Stored)]
struct Account {
    balance: i64,
}

#[derive(Serialize, Deserialize, EntityEvent)]
#[event(entity = Account)]
enum AccountEvent {
    Booked { amount: i64 },
}

#[derive(Debug, thiserror::Error)]
#[error("insufficient funds. balance=`{0}`")]
struct InsufficientFunds(i64);

impl Entity for Account {
    const TYPE: &'static str = "Account";
    type Event = AccountEvent;
    type Error = InsufficientFunds;

    fn apply(&mut self, event: &AccountEvent) {
        let AccountEvent::Booked { amount } = event;
        self.balance += amount;
    }
}

/// Deposits an amount, or withdraws it if it is negative.
#[derive(Deserialize)]
struct Book {
    amount: i64,
}

impl Handle<Book> for Account {
    type Reply = i64;

    fn handle(&self, command: &Book, _: &Cx<'_>) -> Result<Effect<Self, i64>, Self::Error> {
        let amount = command.amount;
        match self.balance.checked_add(amount) {
            Some(0..) => Ok(persist(AccountEvent::Booked { amount }).reply(|it| it.balance)),
            _ => Err(InsufficientFunds(self.balance)),
        }
    }
}

type Accounts = Region<Account>;

/// An error as problem details. A rejection has the status 422.
struct Failure(AskError<InsufficientFunds>);

impl<E: Into<AskError<InsufficientFunds>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let problem = self.0.problem();
        let status = StatusCode::from_u16(problem.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let media_type = [(CONTENT_TYPE, Problem::MEDIA_TYPE)];
        (status, media_type, Json(problem)).into_response()
    }
}

/// `POST /accounts/{id}`. A request with an `Idempotency-Key` is booked once, however often it is
/// sent; its `X-Request-Id` is stored with the event.
async fn book(
    State(mut accounts): State<Accounts>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(command): Json<Book>,
) -> Result<Json<Value>, Failure> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(request) = header("x-request-id") {
        accounts = accounts.with_correlation(request);
    }
    Ok(Json(match header("idempotency-key") {
        None => json!({"balance": accounts.ask(&id, command).await?}),
        Some(key) => match accounts.ask_once(&id, key, command).await? {
            Once::Done(balance) => json!({"balance": balance}),
            Once::Already(number) => json!({"already": number}),
        },
    }))
}

/// `GET /accounts/{id}`.
async fn show(
    State(accounts): State<Accounts>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Failure> {
    let balance = accounts.view(&id, |account| account.balance).await?;
    Ok(Json(json!({"balance": balance})))
}

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
    let address = format!("http://{}/accounts/alice", listener.local_addr()?);
    let server = tokio::spawn(axum::serve(listener, service).into_future());

    let client = reqwest::Client::new();
    let post = |amount: i64, key: &'static str| {
        let request = client.post(&address).header("idempotency-key", key);
        request.json(&json!({"amount": amount})).send()
    };
    let responses = [
        post(10, "first").await?,
        post(10, "first").await?,
        post(-4, "second").await?,
        post(-7, "third").await?,
        client.get(&address).send().await?,
    ];
    let problem = r#"{"type":"urn:annals:problem:rejected","title":"Unprocessable Content","status":422,"kind":"rejected","detail":"insufficient funds. balance=`6`","retryable":false}"#;
    let want = [
        (200, r#"{"balance":10}"#),
        (200, r#"{"already":1}"#),
        (200, r#"{"balance":6}"#),
        (422, problem),
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
