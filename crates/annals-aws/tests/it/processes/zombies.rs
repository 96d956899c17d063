//! Two processes host the same entities. In turn, one is paused at any point while the other continues
//! with the same entities; then it continues too, with old states and requests that may have succeeded.
//! Fenced by the store alone, no command is lost: each is acknowledged in the end, and is in the journal
//! exactly once.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use annals::entity::{
    AskError, Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Region, Stored, persist,
};
use annals::journal::Window;
use annals::layout::{AnnalsLayout, TableNames};
use annals::store::Store;
use annals::{Annals, PersistenceId, Random, SystemClock};
use annals_aws::DynamoDb;
use futures::TryStreamExt;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::writer::end_of_input;
use crate::server;

/// Few, so that both processes use the same ones.
const ACCOUNTS: usize = 3;
/// Concurrent clients of each process, so that commands are in every stage when it is paused.
const ASKERS: usize = 4;
/// How often a process is paused.
const PAUSES: usize = 8;
/// Commands the other process acknowledges before it is resumed, and it acknowledges afterwards.
const MEANWHILE: usize = 25;
const TASK: &str = "ANNALS_ZOMBIES_TASK";

#[derive(Debug, Default, Serialize, Deserialize, Stored)]
struct Account {
    balance: u64,
}

#[derive(Debug, Serialize, Deserialize, EntityEvent)]
#[event(entity = Account)]
struct Deposited {
    amount: u64,
}

struct Deposit(u64);

impl Entity for Account {
    const TYPE: &'static str = "Account";
    type Event = Deposited;
    type Error = std::convert::Infallible;

    fn apply(&mut self, event: &Deposited) {
        self.balance += event.amount;
    }
}

impl Handle<Deposit> for Account {
    type Reply = u64;

    fn handle(&self, deposit: &Deposit, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
        let deposited = Deposited { amount: deposit.0 };
        Ok(persist(deposited).reply(|account| account.balance))
    }
}

/// Short timeouts, so that a pause may cut off a request; long enough for a busy machine.
async fn open(endpoint: &str, prefix: &str) -> Annals {
    let mut settings = server::settings(endpoint);
    let client = &mut settings.aws_client_config;
    client.connection_timeout = 2_000;
    client.request_timeout = 2_000;
    client.client_execution_timeout = 10_000;
    let table = |name: &str| format!("{prefix}-{name}").parse().unwrap();
    let names = TableNames::default()
        .journal(table("journal"))
        .snapshot(table("snapshot"))
        .state(table("state"));
    let layout = AnnalsLayout::new(names);
    let (clock, random) = (Arc::new(SystemClock::new()), Random::from_machine());
    let store = DynamoDb::open_local(&settings, clock, random)
        .await
        .unwrap();
    Annals::create(Store::new(store), &layout).await.unwrap()
}

/// A whole line in one write: the harness may have started a line.
fn say(what: &str) {
    let line = format!("\n{what}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

/// The child process.
#[ignore = "the child process of another test"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_hosts_entities() {
    let Ok(task) = std::env::var(TASK) else {
        return;
    };
    let (endpoint, prefix, name): (String, String, String) = serde_json::from_str(&task).unwrap();
    let annals = open(&endpoint, &prefix).await;
    let of_all = EntitySettings::new().remember_commands(100_000);
    let region = annals.region::<Account>(of_all);
    let is_over = end_of_input();
    let askers = (0..ASKERS).map(|asker| {
        let (region, is_over, name) = (region.clone(), is_over.clone(), name.clone());
        tokio::spawn(async move { ask_on(&region, &is_over, &format!("{name}-{asker}")).await })
    });
    futures::future::try_join_all(askers).await.unwrap();
}

/// Sends one command after the other, each until it is acknowledged.
async fn ask_on(region: &Region<Account>, is_over: &AtomicBool, name: &str) {
    for n in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let (command, account) = (format!("{name}-{n}"), (n % ACCOUNTS).to_string());
        say(&format!("asks {account} {command}"));
        loop {
            let asked = region.ask_once(&account, &command, Deposit(1 + n as u64));
            match asked.await {
                Ok(_) => break,
                // The command has an id: sending it again is safe.
                Err(AskError::InDoubt(_)) => {}
                Err(error) if error.is_retryable() => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        say(&format!("acknowledged {account} {command}"));
    }
}

struct Host {
    process: Child,
    said: Receiver<String>,
    /// Commands by account: sent, and acknowledged.
    asked: BTreeSet<(String, String)>,
    acknowledged: BTreeSet<(String, String)>,
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Host {
    fn start(task: &(String, String, String)) -> Self {
        let child = "processes::zombies::child_that_hosts_entities";
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", child, "--ignored", "--nocapture"])
            .env(TASK, serde_json::to_string(task).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (out, said) = (process.stdout.take().unwrap(), channel());
        let say: Sender<String> = said.0;
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let _ = say.send(line);
            }
        });
        Self {
            process,
            said: said.1,
            asked: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let told = match words.as_slice() {
            ["asks", ..] => &mut self.asked,
            ["acknowledged", ..] => &mut self.acknowledged,
            _ => return,
        };
        let [_, account, command] = words.as_slice() else {
            panic!("{line}");
        };
        told.insert(((*account).to_owned(), (*command).to_owned()));
    }

    /// Reads its output until it has acknowledged so many more.
    fn hear_acknowledged(&mut self, more: usize) {
        let wanted = self.acknowledged.len() + more;
        while self.acknowledged.len() < wanted {
            // Even on a slow machine, so much silence means that it hangs.
            let line = self.said.recv_timeout(Duration::from_secs(60));
            let line = line.expect("a host that goes on");
            self.hear(&line);
        }
    }

    /// Lets it finish its commands.
    fn stop(&mut self) {
        drop(self.process.stdin.take());
        while let Ok(line) = self.said.recv_timeout(Duration::from_secs(60)) {
            self.hear(&line);
        }
        assert!(self.process.wait().unwrap().success());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zombie_loses_no_command() {
    let endpoint = server::endpoint().await;
    let prefix = server::unique("zombies").to_string();
    let annals = open(&endpoint, &prefix).await;
    let task = |name: &str| (endpoint.clone(), prefix.clone(), name.to_owned());
    let mut hosts = [Host::start(&task("a")), Host::start(&task("b"))];
    // The server may run in this process: nothing here may block it.
    let hosts = tokio::task::spawn_blocking(move || {
        hosts
            .iter_mut()
            .for_each(|host| host.hear_acknowledged(MEANWHILE));
        for pause in 0..PAUSES {
            let [one, other] = &mut hosts;
            let (zombie, twin) = match pause % 2 {
                0 => (one, other),
                _ => (other, one),
            };
            zombie.signal(Signal::STOP);
            // Output read meanwhile was written before.
            while let Ok(line) = zombie.said.try_recv() {
                zombie.hear(&line);
            }
            twin.hear_acknowledged(MEANWHILE);
            zombie.signal(Signal::CONT);
            zombie.hear_acknowledged(MEANWHILE);
        }
        hosts.iter_mut().for_each(Host::stop);
        hosts
    });
    let hosts = hosts.await.unwrap();
    let mut wanted: BTreeSet<(String, String)> = BTreeSet::new();
    for host in &hosts {
        assert_eq!(host.asked, host.acknowledged, "none is lost");
        wanted.extend(host.acknowledged.iter().cloned());
    }
    let found = check(&annals).await;
    println!("{} commands, {PAUSES} pauses", wanted.len());
    let twice: Vec<_> = found.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "in the journal more than once: {twice:?}");
    let found: BTreeSet<_> = found.into_keys().collect();
    assert_eq!(found, wanted, "every acknowledged command, and no other");
}

/// Counts each command in the journal, and checks the balances against the events.
async fn check(annals: &Annals) -> BTreeMap<(String, String), usize> {
    let mut found = BTreeMap::new();
    let executor = annals.executor::<Account>(EntitySettings::new());
    for account in 0..ACCOUNTS {
        let id: PersistenceId = format!("Account|{account}").parse().unwrap();
        let events = annals.journal().replay(&id, Window::ALL);
        let events: Vec<_> = events.try_collect().await.unwrap();
        let mut balance = 0;
        for event in &events {
            let command = event.causation.as_deref().unwrap().to_owned();
            *found.entry((account.to_string(), command)).or_default() += 1;
            balance += Deposited::from_event(&event.data).unwrap().unwrap().amount;
        }
        let name = account.to_string();
        let view = executor.view(&name, |account| account.balance);
        assert_eq!(view.await.unwrap(), balance);
    }
    found
}
