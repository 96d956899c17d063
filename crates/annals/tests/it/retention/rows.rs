//! A view's rows equal the fold of all events although retention deletes them all the time: by seed, with
//! appends by a region and an executor, a view that is paused, stopped and started again, and erasure of
//! what is deleted from the files.

use std::collections::BTreeMap;

use annals::entity::{EntitySettings, Executor, Region};
use annals::projection::{Rows, Running};
use annals::{Annals, Random};
use annals_testkit::tck::{AKKA, ANNALS, J5IK2O};
use futures::TryStreamExt;

use super::{
    Balances, Opened, Row, embedded, every, executor, id, in_memory, numbers, start, until_handled,
};
use crate::entity_bank::{Account, Deposit, DepositAll};

const ACCOUNTS: u64 = 5;
const STEPS: u64 = 150;

struct Run {
    opened: Opened,
    random: Random,
    region: Region<Account>,
    executor: Executor<Account>,
    /// `None`: nobody runs it.
    view: Option<Running<Rows<Balances>>>,
    is_paused: bool,
    /// What the rows must be.
    model: BTreeMap<String, Row>,
}

impl Run {
    async fn new(opened: Opened, seed: u64) -> Self {
        let annals = &opened.annals;
        let retention = || every(3).after_projection("balances");
        let settings = EntitySettings::new().retention(retention());
        Self {
            random: Random::seeded(seed),
            region: annals.region(settings),
            executor: executor(annals, retention()),
            view: Some(start(annals).await),
            is_paused: false,
            model: BTreeMap::new(),
            opened,
        }
    }

    fn annals(&self) -> &Annals {
        &self.opened.annals
    }

    async fn step(&mut self) {
        match self.random.below(100) {
            0..70 => self.deposit().await,
            70..78 => self.region.passivate_all().await,
            78..82 => {
                self.is_paused = true;
                self.annals().projections().pause("balances").await.unwrap();
            }
            82..88 => self.resume().await,
            88..92 => match self.view.take() {
                Some(view) => view.stop().await,
                None => self.view = Some(start(self.annals()).await),
            },
            92..97 if self.view.is_some() && !self.is_paused => {
                let account = self.any_account();
                until_handled(self.annals(), "balances", &account).await;
            }
            _ => {
                if let Some((store, _)) = &self.opened.embedded {
                    store.erase_now().await.unwrap();
                }
            }
        }
    }

    async fn resume(&mut self) {
        self.is_paused = false;
        let projections = self.annals().projections();
        assert!(projections.resume("balances").await.unwrap());
    }

    fn any_account(&self) -> String {
        // The resolvers of the layout `j5ik2o` want a number at the end.
        format!("p{0}-{0}", self.random.below(ACCOUNTS))
    }

    async fn deposit(&mut self) {
        let account = self.any_account();
        let amount = self.random.below(100) as i64;
        let row = self.model.entry(account.clone()).or_default();
        match self.random.below(3) {
            0 => {
                self.executor.ask(&account, Deposit(amount)).await.unwrap();
            }
            1 => {
                self.region.ask(&account, Deposit(amount)).await.unwrap();
            }
            _ => {
                let all = DepositAll(vec![1, amount]);
                self.region.ask(&account, all).await.unwrap();
                (row.balance, row.deposits) = (row.balance + 1, row.deposits + 1);
            }
        }
        (row.balance, row.deposits) = (row.balance + amount, row.deposits + 1);
    }

    /// Checks the rows. Returns how many events were deleted.
    async fn check(mut self, name: &str) -> u64 {
        self.resume().await;
        let view = match self.view.take() {
            Some(view) => view,
            None => start(self.annals()).await,
        };
        view.caught_up().await.unwrap();
        let rows: BTreeMap<String, Row> = view.list().all().try_collect().await.unwrap();
        assert_eq!(rows, self.model, "{name}");
        let status = self.annals().projections().status("balances").await;
        assert_eq!(status.unwrap().unwrap().builds[0].missed, 0, "{name}");
        let mut deleted = 0;
        for (account, row) in &self.model {
            let state = self.executor.view(account, Account::clone).await.unwrap();
            assert_eq!((state.balance, state.deposits), (row.balance, row.deposits));
            let left = numbers(self.annals(), account).await;
            let last = self.annals().journal().highest(&id(account)).await.unwrap();
            deleted += last.unwrap().get() - left.len() as u64;
        }
        view.stop().await;
        deleted
    }
}

async fn run(opened: Opened, seed: u64) -> u64 {
    let name = format!("{}, seed {seed}", opened.name);
    println!("{name}");
    let mut run = Run::new(opened, seed).await;
    for _ in 0..STEPS {
        run.step().await;
    }
    run.check(&name).await
}

#[tokio::test]
async fn rows_equal_the_fold_while_retention_deletes() {
    let mut deleted = 0;
    for (variant, seed) in [ANNALS, AKKA, J5IK2O].iter().cycle().zip(0..9) {
        let layout = variant.on_default_tables();
        deleted += run(in_memory(&*layout).await, seed).await;
        deleted += run(embedded(&*layout).await, seed).await;
    }
    // Or it would prove nothing.
    assert!(deleted > 100, "{deleted}");
}
