//! A bank account, for tests of regions and executors.

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
#[event(entity = Account)]
pub(crate) enum AccountEvent {
    Deposited {
        amount: i64,
    },
    Withdrawn {
        amount: i64,
    },
    /// Panics when it is applied.
    Poisoned,
}

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("insufficient funds. balance=`{0}`")]
pub(crate) struct InsufficientFunds(pub(crate) i64);

impl Entity for Account {
    const TYPE: &'static str = "Account";
    type Event = AccountEvent;
    type Error = InsufficientFunds;

    fn apply(&mut self, event: &AccountEvent) {
        match event {
            AccountEvent::Deposited { amount } => {
                self.balance += amount;
                self.deposits += 1;
            }
            AccountEvent::Withdrawn { amount } => self.balance -= amount,
            AccountEvent::Poisoned => panic!("a poisoned event"),
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Deposit(pub(crate) i64);
#[derive(Clone, Copy)]
pub(crate) struct Withdraw(pub(crate) i64);
pub(crate) struct Balance;
pub(crate) struct Panic;
/// Persists an event that panics when it is applied.
pub(crate) struct Poison;
pub(crate) struct Passivate;
/// Deposits, and asks for a snapshot.
pub(crate) struct Save(pub(crate) i64);

type Decided<R> = Result<Effect<Account, R>, InsufficientFunds>;

impl Handle<Deposit> for Account {
    type Reply = i64;

    fn handle(&self, command: &Deposit, _: &Cx<'_>) -> Decided<i64> {
        let amount = command.0;
        Ok(persist(AccountEvent::Deposited { amount }).reply(|account| account.balance))
    }
}

impl Handle<Withdraw> for Account {
    type Reply = i64;

    fn handle(&self, command: &Withdraw, _: &Cx<'_>) -> Decided<i64> {
        let amount = command.0;
        if amount > self.balance {
            return Err(InsufficientFunds(self.balance));
        }
        Ok(persist(AccountEvent::Withdrawn { amount }).reply(|account| account.balance))
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
        Ok(persist(AccountEvent::Poisoned))
    }
}

impl Handle<Save> for Account {
    type Reply = ();

    fn handle(&self, command: &Save, _: &Cx<'_>) -> Decided<()> {
        let amount = command.0;
        Ok(persist(AccountEvent::Deposited { amount }).snapshot())
    }
}

impl Handle<Passivate> for Account {
    type Reply = ();

    fn handle(&self, _: &Passivate, _: &Cx<'_>) -> Decided<()> {
        Ok(none().passivate())
    }
}

/// Deposits all amounts in one append.
pub(crate) struct DepositAll(pub(crate) Vec<i64>);
/// Deposits 0 and stops the entity.
pub(crate) struct Stop;
/// Deposits, and counts callbacks.
pub(crate) struct DepositWithCallback(pub(crate) i64, pub(crate) Arc<AtomicU64>);
/// Panics when it is dropped.
pub(crate) struct PanicsOnDrop;

impl Handle<DepositAll> for Account {
    type Reply = i64;

    fn handle(&self, command: &DepositAll, _: &Cx<'_>) -> Decided<i64> {
        let deposited = |amount: &i64| AccountEvent::Deposited { amount: *amount };
        let all = persist_all(command.0.iter().map(deposited));
        Ok(all.reply(|account| account.balance))
    }
}

impl Handle<Stop> for Account {
    type Reply = ();

    fn handle(&self, _: &Stop, _: &Cx<'_>) -> Decided<()> {
        Ok(persist(AccountEvent::Deposited { amount: 0 }).stop())
    }
}

impl Handle<DepositWithCallback> for Account {
    type Reply = i64;

    fn handle(&self, command: &DepositWithCallback, _: &Cx<'_>) -> Decided<i64> {
        let (amount, callbacks) = (command.0, command.1.clone());
        let deposited = persist(AccountEvent::Deposited { amount });
        let deposited = deposited.then(move |_| {
            callbacks.fetch_add(1, Ordering::Relaxed);
        });
        Ok(deposited.reply(|account| account.balance))
    }
}

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a command that panics when it is dropped");
        }
    }
}

impl Handle<PanicsOnDrop> for Account {
    type Reply = ();

    fn handle(&self, _: &PanicsOnDrop, _: &Cx<'_>) -> Decided<()> {
        Ok(none())
    }
}
