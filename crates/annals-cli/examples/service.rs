//! A bank as a service over HTTP: `cargo run -p annals-cli --example service`.
//!
//! It listens on a free port of this machine, makes some requests to itself, and ends.

use annals::entity::{
    AskError, Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Once, Region, Retention,
    Stored, persist,
};
use annals::{Annals, ErrorKind};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Default, Serialize, Deserialize, Stored)]
struct Account {
    balance: i64,
}

#[derive(Serialize, Deserialize, EntityEvent)]
enum Happened {
    Booked { amount: i64 },
}

#[derive(Debug, thiserror::Error)]
#[error("there are only {0}")]
struct TooLittle(i64);

impl Entity for Account {
    const TYPE: &'static str = "Account";
    type Event = Happened;
    type Error = TooLittle;

    fn apply(&mut self, event: &Happened) {
        let Happened::Booked { amount } = event;
        self.balance += amount;
    }
}

/// Books an amount; below zero it is taken away.
#[derive(Deserialize)]
struct Book {
    amount: i64,
}

impl Handle<Book> for Account {
    type Reply = i64;

    fn handle(&self, command: &Book, _: &Cx<'_>) -> Result<Effect<Self, i64>, TooLittle> {
        let amount = command.amount;
        match self.balance.checked_add(amount) {
            Some(0..) => Ok(persist(Happened::Booked { amount }).reply(|it: &Self| it.balance)),
            _ => Err(TooLittle(self.balance)),
        }
    }
}

type Accounts = Region<Account>;
type Answer = (StatusCode, Json<Value>);

/// `POST /accounts/{id}`; with an `Idempotency-Key` it is booked once, however often it is asked.
async fn book(
    State(accounts): State<Accounts>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(command): Json<Book>,
) -> Answer {
    let key = headers.get("idempotency-key").map(|key| key.to_str());
    let asked = match key {
        Some(Ok(key)) => accounts.ask_once(&id, key, command).await,
        Some(Err(_)) => {
            return (
                StatusCode::BAD_REQUEST,
                Json(json!({"error": "no such key"})),
            );
        }
        None => accounts.ask(&id, command).await.map(Once::Done),
    };
    match asked {
        Ok(Once::Done(balance)) => (StatusCode::OK, Json(json!({"balance": balance}))),
        Ok(Once::Already(number)) => (StatusCode::OK, Json(json!({"already": number}))),
        Err(error) => refusal(&error),
    }
}

/// `GET /accounts/{id}`.
async fn show(State(accounts): State<Accounts>, Path(id): Path<String>) -> Answer {
    match accounts.view(&id, |account| account.balance).await {
        Ok(balance) => (StatusCode::OK, Json(json!({"balance": balance}))),
        Err(error) => refusal(&error.into()),
    }
}

fn refusal(error: &AskError<TooLittle>) -> Answer {
    let status = match error {
        AskError::Rejected(_) => StatusCode::UNPROCESSABLE_ENTITY,
        AskError::Conflict => StatusCode::CONFLICT,
        AskError::Overloaded => StatusCode::TOO_MANY_REQUESTS,
        AskError::Store(error) if error.kind() == ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        AskError::Store(error) if error.kind() == ErrorKind::Unavailable => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, Json(json!({"error": error.to_string()})))
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
    let answers = [
        post(10, "first").await?,
        post(10, "first").await?,
        post(-4, "second").await?,
        post(-7, "third").await?,
        client.get(&address).send().await?,
    ];
    let mut seen = Vec::new();
    for answer in answers {
        seen.push(format!(
            "{} {}",
            answer.status().as_u16(),
            answer.text().await?
        ));
    }
    println!("{}", seen.join("\n"));
    let want = [
        r#"200 {"balance":10}"#,
        r#"200 {"already":1}"#,
        r#"200 {"balance":6}"#,
        r#"422 {"error":"there are only 6"}"#,
        r#"200 {"balance":6}"#,
    ];
    assert_eq!(seen, want);

    server.abort();
    accounts.passivate_all().await;
    Ok(())
}
