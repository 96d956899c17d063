//! An entity behind a function that lives for one request: `cargo run -p annals --example lambda`.
//!
//! The handler loads, decides, appends and forgets. A platform that repeats a request, because it did
//! not hear the answer, changes nothing: the request's id is the command's.

use annals::entity::{
    AskError, Cx, Effect, Entity, EntityEvent, EntitySettings, Executor, Handle, Once, Retention,
    Stored, persist,
};
use annals::{Annals, ErrorKind};
use serde::{Deserialize, Serialize};

#[derive(Default, Serialize, Deserialize, Stored)]
struct Seats {
    taken: Vec<String>,
}

#[derive(Serialize, Deserialize, EntityEvent)]
enum Happened {
    Reserved { name: String },
}

#[derive(Debug, thiserror::Error)]
#[error("all {0} seats are taken")]
struct Full(usize);

impl Entity for Seats {
    const TYPE: &'static str = "Seats";
    type Event = Happened;
    type Error = Full;

    fn apply(&mut self, event: &Happened) {
        let Happened::Reserved { name } = event;
        self.taken.push(name.clone());
    }
}

struct Reserve {
    name: String,
}

impl Handle<Reserve> for Seats {
    type Reply = usize;

    fn handle(&self, command: &Reserve, _: &Cx<'_>) -> Result<Effect<Self, usize>, Full> {
        match self.taken.len() {
            2.. => Err(Full(self.taken.len())),
            _ => {
                let name = command.name.clone();
                Ok(persist(Happened::Reserved { name }).reply(|seats: &Self| seats.taken.len()))
            }
        }
    }
}

#[derive(Deserialize)]
struct Request {
    request_id: String,
    event: String,
    name: String,
}

/// What a function keeps between requests: a client of the store, and no entity.
struct Function {
    seats: Executor<Seats>,
}

impl Function {
    fn start(annals: &Annals) -> Self {
        let settings = EntitySettings::new()
            .remember_commands(100)
            .retention(Retention::every(50));
        Self {
            seats: annals.executor(settings),
        }
    }

    /// One request, and its status and answer.
    async fn handle(&self, body: &str) -> (u16, String) {
        let Ok(request) = serde_json::from_str::<Request>(body) else {
            return (400, "no request".to_owned());
        };
        let command = Reserve { name: request.name };
        let asked = self
            .seats
            .ask_once(&request.event, &request.request_id, command);
        match asked.await {
            Ok(Once::Done(seat)) => (200, format!("seat {seat}")),
            Ok(Once::Already(_)) => (200, "done before".to_owned()),
            Err(AskError::Rejected(full)) => (422, full.to_string()),
            Err(AskError::Store(error)) if error.kind() == ErrorKind::Invalid => {
                (400, error.to_string())
            }
            Err(error) => (503, error.to_string()),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let annals = Annals::embedded(folder.path()).await?;
    let requests = [
        r#"{"request_id":"r1","event":"gig","name":"ann"}"#,
        r#"{"request_id":"r1","event":"gig","name":"ann"}"#,
        r#"{"request_id":"r2","event":"gig","name":"bob"}"#,
        r#"{"request_id":"r3","event":"gig","name":"eve"}"#,
        r#"{"request_id":"r4"}"#,
    ];
    let mut answers = Vec::new();
    for request in requests {
        // A new function each time, as after a cold start.
        let (status, answer) = Function::start(&annals).handle(request).await;
        println!("{status} {answer}");
        answers.push(status);
    }
    assert_eq!(answers, [200, 200, 200, 422, 400]);
    let taken = annals.executor::<Seats>(EntitySettings::new());
    let taken = taken.view("gig", |seats| seats.taken.clone()).await?;
    assert_eq!(taken, ["ann", "bob"]);
    Ok(())
}
