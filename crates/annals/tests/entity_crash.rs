//! A process with ten thousand entities in memory is killed several times during a million commands.
//! In the end every balance is right.
//!
//! The test runs itself as a child process that sends commands, each with an id, and reports every
//! reply on a pipe. It is killed at moments drawn by seed. The next child sends each entity its commands
//! again, from the first one without a reply: those that were written are recognised, the others are
//! handled now.
//!
//! It is a test target of its own so that a release build is quick: `ANNALS_COMMANDS=1000000 cargo test
//! --release -p annals --test entity_crash`.
//!
//! `ANNALS_COMMANDS=n` sets the number of commands, `ANNALS_SEED=n` the moments of the kills.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use annals::entity::{
    AskError, Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Retention, Stored, persist,
};
use annals::journal::Window;
use annals::{Annals, PersistenceId, Random};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

const ENTITIES: usize = 10_000;
const CALLERS: usize = 500;
const KILLS: u64 = 7;
/// More than an entity has in flight.
const REMEMBERED: u64 = 4;
const FOLDER: &str = "ANNALS_ENTITIES_FOLDER";

#[derive(Clone, Debug, Default, Serialize, Deserialize, Stored)]
struct Account {
    balance: i64,
    deposits: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, EntityEvent)]
#[event(entity = Account)]
enum AccountEvent {
    Deposited { amount: i64 },
}

impl Entity for Account {
    const TYPE: &'static str = "Account";
    type Event = AccountEvent;
    type Error = Infallible;

    fn apply(&mut self, AccountEvent::Deposited { amount }: &AccountEvent) {
        self.balance += amount;
        self.deposits += 1;
    }
}

struct Deposit(i64);

impl Handle<Deposit> for Account {
    type Reply = i64;

    fn handle(
        &self,
        &Deposit(amount): &Deposit,
        _: &Cx<'_>,
    ) -> Result<Effect<Self, i64>, Infallible> {
        Ok(persist(AccountEvent::Deposited { amount }).reply(|account| account.balance))
    }
}

/// Few by default, so that the suite stays short.
fn commands() -> usize {
    let set = std::env::var("ANNALS_COMMANDS").map(|set| set.parse().expect("a number"));
    set.unwrap_or(40_000).max(ENTITIES)
}

fn commands_per_entity() -> u64 {
    (commands() / ENTITIES) as u64
}

/// The amount of an entity's n-th command. Amounts differ, so that a missing or repeated command shows.
fn amount(entity: usize, n: u64) -> i64 {
    1 + (entity as i64 * 31 + n as i64 * 17) % 1_000
}

fn settings() -> EntitySettings<Account> {
    EntitySettings::new()
        .remember_commands(REMEMBERED)
        .retention(Retention::every(25))
}

/// The child process.
#[ignore = "the child process of another test"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_process() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let acknowledged = std::fs::read(Path::new(&folder).join("acknowledged")).unwrap();
    let done: Vec<u64> = serde_json::from_slice(&acknowledged).unwrap();
    let annals = Annals::embedded(Path::new(&folder).join("data")).await;
    let region = annals.unwrap().region(settings());
    let callers = (0..CALLERS).map(|caller| {
        let (region, done) = (region.clone(), done.clone());
        tokio::spawn(async move {
            for n in 1..=commands_per_entity() {
                for entity in (caller..ENTITIES).step_by(CALLERS) {
                    if n > done[entity] {
                        ask(&region, entity, n).await;
                    }
                }
            }
        })
    });
    futures::future::try_join_all(callers).await.unwrap();
    report(&format!("resident {}", region.resident()));
}

async fn ask(region: &annals::entity::Region<Account>, entity: usize, n: u64) {
    let (id, deposit) = (entity.to_string(), Deposit(amount(entity, n)));
    match region.ask_once(&id, &n.to_string(), deposit).await {
        Ok(_) => report(&format!("ack {entity} {n}")),
        Err(AskError::Store(error)) => panic!("{error}"),
        Err(other) => panic!("{other:?}"),
    }
}

fn report(what: &str) {
    // One write of less than a pipe's atomic size: a kill cuts between lines, not inside one.
    let line = format!("\n{what}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

/// Run the child until it ends or has reported `until` replies. Returns the number of entities in
/// memory at its end.
fn run(folder: &Path, done: &mut [u64], until: Option<u64>) -> Option<usize> {
    let acknowledged = serde_json::to_vec(done).unwrap();
    std::fs::write(folder.join("acknowledged"), acknowledged).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child
        .args(["child_process", "--exact", "--ignored"])
        .args(["--nocapture", "--test-threads=1"]);
    let child = child.env(FOLDER, folder).stdout(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    let (mut n_acks, mut resident) = (0, None);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let mut words = line.split(' ');
        match words.next() {
            Some("ack") => {
                let [entity, n] = [(); 2].map(|()| words.next().unwrap().parse::<u64>().unwrap());
                assert_eq!(n, done[entity as usize] + 1, "one by one. entity={entity}");
                done[entity as usize] = n;
                n_acks += 1;
            }
            Some("resident") => resident = Some(words.next().unwrap().parse().unwrap()),
            _ => {}
        }
        if until == Some(n_acks) {
            // Reports from before the kill are still read.
            child.kill().unwrap();
        }
    }
    let ended = child.wait().unwrap();
    assert_eq!(ended.success(), resident.is_some(), "{ended}");
    resident
}

#[tokio::test]
async fn a_million_commands_to_ten_thousand_entities_survive_kills() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let random = Random::seeded(std::env::var("ANNALS_SEED").map_or(1, |s| s.parse().unwrap()));
    let mut done = vec![0; ENTITIES];
    for _ in 0..KILLS {
        let most = commands() as u64 / (KILLS + 1);
        let until = 1 + random.below(most);
        assert_eq!(run(folder, &mut done, Some(until)), None, "it was killed");
    }
    let acknowledged: u64 = done.iter().sum();
    assert!(acknowledged < commands() as u64, "there is more to do");
    assert_eq!(run(folder, &mut done, None), Some(ENTITIES));
    assert!(
        done.iter().all(|n| *n == commands_per_entity()),
        "all are acknowledged"
    );
    check(&Annals::embedded(folder.join("data")).await.unwrap()).await;
}

/// Check that every balance is right and every command is in the journal once.
async fn check(annals: &Annals) {
    let region = annals.region(settings());
    for entity in 0..ENTITIES {
        let wanted: i64 = (1..=commands_per_entity()).map(|n| amount(entity, n)).sum();
        let name = entity.to_string();
        let view = region.view(&name, |account| account.clone());
        let account = view.await.unwrap();
        assert_eq!(
            (account.balance, account.deposits),
            (wanted, commands_per_entity())
        );
        if entity % 97 > 0 {
            continue;
        }
        let id: PersistenceId = format!("Account|{entity}").parse().unwrap();
        let events = annals.journal().replay(&id, Window::ALL);
        let events: Vec<_> = events.try_collect().await.unwrap();
        let command_ids = events
            .iter()
            .map(|event| event.causation.as_deref().unwrap().to_owned());
        let wanted = (1..=commands_per_entity()).map(|n| n.to_string());
        assert!(command_ids.eq(wanted), "each command once. entity={entity}");
    }
}
