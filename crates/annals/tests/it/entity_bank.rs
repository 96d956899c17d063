//! A bank account, for tests of what hosts entities.

use annals::entity::{Cx, Effect, Entity, EntityEvent, Handle, Stored, persist, reply};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Stored)]
pub(crate) struct Account {
    pub(crate) balance: i64,
    pub(crate) deposits: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, EntityEvent)]
pub(crate) enum Happened {
    Deposited {
        amount: i64,
    },
    Withdrawn {
        amount: i64,
    },
    /// Not to be taken in.
    Poisoned,
}

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("the balance is {0}")]
pub(crate) struct Overdrawn(pub(crate) i64);

impl Entity for Account {
    const TYPE: &'static str = "Account";
    type Event = Happened;
    type Error = Overdrawn;

    fn apply(&mut self, event: &Happened) {
        match event {
            Happened::Deposited { amount } => {
                self.balance += amount;
                self.deposits += 1;
            }
            Happened::Withdrawn { amount } => self.balance -= amount,
            Happened::Poisoned => panic!("a poisoned event"),
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Deposit(pub(crate) i64);
#[derive(Clone, Copy)]
pub(crate) struct Withdraw(pub(crate) i64);
pub(crate) struct Balance;
pub(crate) struct Panic;
/// Panics while the event is taken in, when it is durable.
pub(crate) struct Poison;
pub(crate) struct Leave;
/// Deposits, and asks for a snapshot.
pub(crate) struct Save(pub(crate) i64);

type Decided<R> = Result<Effect<Account, R>, Overdrawn>;

impl Handle<Deposit> for Account {
    type Reply = i64;

    fn handle(&self, command: &Deposit, _: &Cx<'_>) -> Decided<i64> {
        let amount = command.0;
        Ok(persist(Happened::Deposited { amount }).reply(|account: &Account| account.balance))
    }
}

impl Handle<Withdraw> for Account {
    type Reply = i64;

    fn handle(&self, command: &Withdraw, _: &Cx<'_>) -> Decided<i64> {
        let amount = command.0;
        if amount > self.balance {
            return Err(Overdrawn(self.balance));
        }
        Ok(persist(Happened::Withdrawn { amount }).reply(|account: &Account| account.balance))
    }
}

impl Handle<Balance> for Account {
    type Reply = i64;

    fn handle(&self, _: &Balance, _: &Cx<'_>) -> Decided<i64> {
        Ok(reply(self.balance))
    }
}

impl Handle<Panic> for Account {
    type Reply = ();

    fn handle(&self, _: &Panic, _: &Cx<'_>) -> Decided<()> {
        panic!("a handler that panics")
    }
}

impl Handle<Poison> for Account {
    type Reply = ();

    fn handle(&self, _: &Poison, _: &Cx<'_>) -> Decided<()> {
        Ok(persist(Happened::Poisoned))
    }
}

impl Handle<Save> for Account {
    type Reply = ();

    fn handle(&self, command: &Save, _: &Cx<'_>) -> Decided<()> {
        let amount = command.0;
        Ok(persist(Happened::Deposited { amount }).snapshot())
    }
}

impl Handle<Leave> for Account {
    type Reply = ();

    fn handle(&self, _: &Leave, _: &Cx<'_>) -> Decided<()> {
        Ok(annals::entity::none().passivate())
    }
}
