//! A bank account: `cargo run -p annals --example bank`, on the embedded store in this folder. On
//! DynamoDB one line differs: `cargo run -p annals-aws --example bank_dynamodb`.

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
#[event(entity = Account)]
enum AccountEvent {
    Deposited { amount: u64 },
    Withdrawn { amount: u64 },
}

#[derive(Debug, thiserror::Error)]
#[error("insufficient funds. balance=`{0}`")]
struct InsufficientFunds(u64);

impl Entity for Account {
    const TYPE: &'static str = "Account";
    type Event = AccountEvent;
    type Error = InsufficientFunds;

    fn apply(&mut self, event: &AccountEvent) {
        match event {
            AccountEvent::Deposited { amount } => self.balance += amount,
            AccountEvent::Withdrawn { amount } => self.balance -= amount,
        }
    }
}

enum Command {
    Deposit(u64),
    Withdraw(u64),
}

impl Handle<Command> for Account {
    type Reply = u64;

    fn handle(&self, command: &Command, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
        let event = match *command {
            Command::Deposit(amount) => AccountEvent::Deposited { amount },
            Command::Withdraw(amount) if amount > self.balance => {
                return Err(InsufficientFunds(self.balance));
            }
            Command::Withdraw(amount) => AccountEvent::Withdrawn { amount },
        };
        Ok(persist(event).reply(|account| account.balance))
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
    if let Err(rejected) = accounts.ask("alice", Command::Withdraw(left + 1)).await {
        println!("{rejected}");
    }
    let balance = accounts.view("alice", |account| account.balance).await?;
    assert_eq!(balance, deposited - 4);
    Ok(())
}
