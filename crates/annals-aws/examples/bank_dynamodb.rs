//! A bank account: `cargo run -p annals --example bank`, on the store of this folder, and with one
//! other line on DynamoDB: `cargo run -p annals-aws --example bank_dynamodb`.

use annals::entity::{
    Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Retention, Stored, persist,
};
use annals::layout::AnnalsLayout;
use serde::{Deserialize, Serialize};

#[derive(Default, Serialize, Deserialize, Stored)]
struct Account {
    balance: u64,
}

#[derive(Serialize, Deserialize, EntityEvent)]
enum Happened {
    Deposited { amount: u64 },
    Withdrawn { amount: u64 },
}

#[derive(Debug, thiserror::Error)]
#[error("there are only {0}")]
struct TooLittle(u64);

impl Entity for Account {
    const TYPE: &'static str = "Account";
    type Event = Happened;
    type Error = TooLittle;

    fn apply(&mut self, event: &Happened) {
        match event {
            Happened::Deposited { amount } => self.balance += amount,
            Happened::Withdrawn { amount } => self.balance -= amount,
        }
    }
}

enum Command {
    Deposit(u64),
    Withdraw(u64),
}

impl Handle<Command> for Account {
    type Reply = u64;

    fn handle(&self, command: &Command, _: &Cx<'_>) -> Result<Effect<Self, u64>, TooLittle> {
        let event = match *command {
            Command::Deposit(amount) => Happened::Deposited { amount },
            Command::Withdraw(amount) if amount > self.balance => {
                return Err(TooLittle(self.balance));
            }
            Command::Withdraw(amount) => Happened::Withdrawn { amount },
        };
        Ok(persist(event).reply(|account: &Self| account.balance))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let annals = annals_aws::create(&Default::default(), &AnnalsLayout::default()).await?;
    let settings = EntitySettings::new().retention(Retention::every(100));
    let accounts = annals.region::<Account>(settings);

    let deposited = accounts.ask("alice", Command::Deposit(10)).await?;
    let left = accounts.ask("alice", Command::Withdraw(4)).await?;
    println!("{deposited}, then {left}");
    if let Err(refused) = accounts.ask("alice", Command::Withdraw(left + 1)).await {
        println!("{refused}");
    }
    let balance = accounts.view("alice", |account| account.balance).await?;
    assert_eq!(balance, deposited - 4);
    Ok(())
}
