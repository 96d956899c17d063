//! A serverless function that serves one request: `cargo run -p annals --example lambda`.
//!
//! It loads the entity, executes the command, and keeps nothing in memory. If the platform repeats a
//! request because the response was lost, nothing changes: the request id is the command id.

use annals::Annals;
use annals::entity::{
    Cx, Effect, Entity, EntityEvent, EntitySettings, Executor, Handle, Once, Retention, Stored,
    persist,
};
use serde::{Deserialize, Serialize};

#[derive(Default, Serialize, Deserialize, Stored)]
struct Seats {
    taken: Vec<String>,
}

#[derive(Serialize, Deserialize, EntityEvent)]
#[event(entity = Seats)]
enum SeatsEvent {
    Reserved { name: String },
}

#[derive(Debug, thiserror::Error)]
#[error("all {0} seats are taken")]
struct SoldOut(usize);

impl Entity for Seats {
    const TYPE: &'static str = "Seats";
    type Event = SeatsEvent;
    type Error = SoldOut;

    fn apply(&mut self, event: &SeatsEvent) {
        let SeatsEvent::Reserved { name } = event;
        self.taken.push(name.clone());
    }
}

struct Reserve {
    name: String,
}

impl Handle<Reserve> for Seats {
    type Reply = usize;

    fn handle(&self, command: &Reserve, _: &Cx<'_>) -> Result<Effect<Self, usize>, Self::Error> {
        match self.taken.len() {
            2.. => Err(SoldOut(self.taken.len())),
            _ => {
                let name = command.name.clone();
                Ok(persist(SeatsEvent::Reserved { name }).reply(|seats| seats.taken.len()))
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

/// What the function keeps between requests: a store client, no entities.
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

    /// Handle a request; returns the status and the body.
    async fn handle(&self, body: &str) -> (u16, String) {
        let Ok(request) = serde_json::from_str::<Request>(body) else {
            return (400, "the body is not a request".to_owned());
        };
        let command = Reserve { name: request.name };
        let asked = self
            .seats
            .ask_once(&request.event, &request.request_id, command);
        match asked.await {
            Ok(Once::Done(seat)) => (200, format!("seat {seat}")),
            Ok(Once::Already(_)) => (200, "already reserved".to_owned()),
            Err(error) => (error.http_status(), error.to_string()),
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
    let mut statuses = Vec::new();
    for request in requests {
        // A new function each time, as after a cold start.
        let (status, body) = Function::start(&annals).handle(request).await;
        println!("{status} {body}");
        statuses.push(status);
    }
    assert_eq!(statuses, [200, 200, 200, 422, 400]);
    let taken = annals.executor::<Seats>(EntitySettings::new());
    let taken = taken.view("gig", |seats| seats.taken.clone()).await?;
    assert_eq!(taken, ["ann", "bob"]);
    Ok(())
}
