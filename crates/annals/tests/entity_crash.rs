//! A process with ten thousand entities in memory is killed again and again amid a million commands;
//! in the end every balance is right, to the last command.
//!
//! The test starts itself again as a child that asks the entities, every command with an id, and
//! reports each acknowledgement on a pipe. It is killed at moments drawn by seed. The next child asks
//! every entity again from its first command that was not acknowledged: what had landed is known
//! again, what had not is handled now.
//!
//! A target of its own, so that a release build of it takes little: `ANNALS_COMMANDS=1000000 cargo test
//! --release -p annals --test entity_crash`.
//!
//! `ANNALS_COMMANDS=n` asks so many; `ANNALS_SEED=n` kills at other moments.
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
const ASKERS: usize = 500;
const KILLS: u64 = 7;
/// More than an entity has under way at once.
const REMEMBERED: u64 = 4;
const FOLDER: &str = "ANNALS_ENTITIES_FOLDER";

#[derive(Clone, Debug, Default, Serialize, Deserialize, Stored)]
struct Account {
    balance: i64,
    deposits: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, EntityEvent)]
enum Happened {
    Deposited { amount: i64 },
}

impl Entity for Account {
    const TYPE: &'static str = "Account";
    type Event = Happened;
    type Error = Infallible;

    fn apply(&mut self, Happened::Deposited { amount }: &Happened) {
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
        Ok(persist(Happened::Deposited { amount }).reply(|account: &Self| account.balance))
    }
}

/// Debug builds ask fewer, so that the suite stays short; `.ci/run` asks all.
fn commands() -> usize {
    let set = std::env::var("ANNALS_COMMANDS").map(|set| set.parse().expect("a number"));
    set.unwrap_or(40_000).max(ENTITIES)
}

fn each() -> u64 {
    (commands() / ENTITIES) as u64
}

/// What the n-th command of an entity deposits: another sum for each, so that one that is missing
/// or doubled shows.
fn amount(entity: usize, n: u64) -> i64 {
    1 + (entity as i64 * 31 + n as i64 * 17) % 1_000
}

fn settings() -> EntitySettings<Account> {
    EntitySettings::new()
        .remember_commands(REMEMBERED)
        .retention(Retention::every(25))
}

/// The child. Does nothing when the suite runs it as a test of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entities_that_are_killed() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let acknowledged = std::fs::read(Path::new(&folder).join("acknowledged")).unwrap();
    let done: Vec<u64> = serde_json::from_slice(&acknowledged).unwrap();
    let annals = Annals::embedded(Path::new(&folder).join("data")).await;
    let region = annals.unwrap().region(settings());
    let askers = (0..ASKERS).map(|asker| {
        let (region, done) = (region.clone(), done.clone());
        tokio::spawn(async move {
            for n in 1..=each() {
                for entity in (asker..ENTITIES).step_by(ASKERS) {
                    if n > done[entity] {
                        ask(&region, entity, n).await;
                    }
                }
            }
        })
    });
    futures::future::try_join_all(askers).await.unwrap();
    tell(&format!("resident {}", region.resident()));
}

async fn ask(region: &annals::entity::Region<Account>, entity: usize, n: u64) {
    let (id, deposit) = (entity.to_string(), Deposit(amount(entity, n)));
    match region.ask_once(&id, &n.to_string(), deposit).await {
        Ok(_) => tell(&format!("ack {entity} {n}")),
        Err(AskError::Store(error)) => panic!("{error}"),
        Err(other) => panic!("{other:?}"),
    }
}

fn tell(what: &str) {
    // One write of less than a pipe's atomic size: a kill cuts between lines, not inside one.
    let line = format!("\n{what}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

/// Runs the child until it ends, or until it has acknowledged so many more; answers how many
/// entities it had in memory at its end.
fn run(folder: &Path, done: &mut [u64], until: Option<u64>) -> Option<usize> {
    let acknowledged = serde_json::to_vec(done).unwrap();
    std::fs::write(folder.join("acknowledged"), acknowledged).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child
        .args(["entities_that_are_killed", "--exact"])
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
            // What it had told before it died is read below as well.
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
    assert!(done.iter().all(|n| *n == each()), "all are acknowledged");
    check(&Annals::embedded(folder.join("data")).await.unwrap()).await;
}

/// Every balance is right, and every command in the journal once.
async fn check(annals: &Annals) {
    let region = annals.region(settings());
    for entity in 0..ENTITIES {
        let wanted: i64 = (1..=each()).map(|n| amount(entity, n)).sum();
        let name = entity.to_string();
        let view = region.view(&name, |account| account.clone());
        let account = view.await.unwrap();
        assert_eq!((account.balance, account.deposits), (wanted, each()));
        if entity % 97 > 0 {
            continue;
        }
        let id: PersistenceId = format!("Account|{entity}").parse().unwrap();
        let events = annals.journal().replay(&id, Window::ALL);
        let events: Vec<_> = events.try_collect().await.unwrap();
        let causes = events
            .iter()
            .map(|event| event.causation.as_deref().unwrap().to_owned());
        let wanted = (1..=each()).map(|n| n.to_string());
        assert!(causes.eq(wanted), "each command once. entity={entity}");
    }
}
