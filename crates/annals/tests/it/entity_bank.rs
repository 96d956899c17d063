//! A bank account, for tests of what hosts entities.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use annals::entity::{
    Cx, Effect, Entity, EntityEvent, Handle, Stored, none, persist, persist_all, reply,
};
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

/// Deposits so many times at once.
pub(crate) struct DepositAll(pub(crate) Vec<i64>);
/// Deposits nothing, and stops the entity.
pub(crate) struct Stop;
/// Deposits, and adds to this when that is durable.
pub(crate) struct Noted(pub(crate) i64, pub(crate) Arc<AtomicU64>);
/// What panics when it is dropped.
pub(crate) struct Bomb;

impl Handle<DepositAll> for Account {
    type Reply = i64;

    fn handle(&self, command: &DepositAll, _: &Cx<'_>) -> Decided<i64> {
        let deposited = |amount: &i64| Happened::Deposited { amount: *amount };
        let all = persist_all(command.0.iter().map(deposited));
        Ok(all.reply(|account: &Account| account.balance))
    }
}

impl Handle<Stop> for Account {
    type Reply = ();

    fn handle(&self, _: &Stop, _: &Cx<'_>) -> Decided<()> {
        Ok(persist(Happened::Deposited { amount: 0 }).stop())
    }
}

impl Handle<Noted> for Account {
    type Reply = i64;

    fn handle(&self, command: &Noted, _: &Cx<'_>) -> Decided<i64> {
        let (amount, noted) = (command.0, command.1.clone());
        let deposited = persist(Happened::Deposited { amount });
        let deposited = deposited.then(move |_| {
            noted.fetch_add(1, Ordering::Relaxed);
        });
        Ok(deposited.reply(|account: &Account| account.balance))
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a command that panics when it is dropped");
        }
    }
}

impl Handle<Bomb> for Account {
    type Reply = ();

    fn handle(&self, _: &Bomb, _: &Cx<'_>) -> Decided<()> {
        Ok(none())
    }
}
