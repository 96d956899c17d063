//! The account of the README: `cargo run -p annals --example account`.

use annals::entity::{Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Stored, persist};
use serde::{Deserialize, Serialize};

#[derive(Default, Serialize, Deserialize, Stored)]
struct Account {
    balance: i64,
}

#[derive(Serialize, Deserialize, EntityEvent)]
#[event(entity = Account)] // so that `reply` below knows the state
enum AccountEvent {
    Moved { amount: i64 },
}

#[derive(Debug, thiserror::Error)]
#[error("only {0} left")]
struct Overdrawn(i64);

impl Entity for Account {
    const TYPE: &'static str = "Account";
    type Event = AccountEvent;
    type Error = Overdrawn;

    fn apply(&mut self, AccountEvent::Moved { amount }: &AccountEvent) {
        self.balance += amount;
    }
}

struct Move(i64); // a command: its handler reads the state and returns events

impl Handle<Move> for Account {
    type Reply = i64;

    fn handle(&self, &Move(amount): &Move, _: &Cx<'_>) -> Result<Effect<Self, i64>, Overdrawn> {
        if self.balance + amount < 0 {
            return Err(Overdrawn(self.balance));
        }
        Ok(persist(AccountEvent::Moved { amount }).reply(|account| account.balance))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let annals = annals::Annals::embedded("annals-data").await?; // a folder; DynamoDB is one line, too
    let accounts = annals.region::<Account>(EntitySettings::new());
    println!("alice has {}", accounts.ask("alice", Move(10)).await?); // durable before it is acknowledged
    Ok(())
}
