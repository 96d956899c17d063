//! The contenders: a raw log, the bare engine with and without group commit, and the store.
//!
//! The first three are only baselines; they guarantee nothing except the sync.

use std::fs::OpenOptions;
use std::future::Future;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use fjall::{Database, KeyspaceCreateOptions, PersistMode, Slice};
use tokio::sync::{mpsc, oneshot};

use super::engine_call::off_thread;
use annals::embedded::Embedded;
use annals::items::{Condition, Item, Items, KeyAttribute, KeySchema, TableSpec};
use annals::settings::EmbeddedSettings;
use annals::{Error, Random, Result};

type Putting = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Something that puts a numbered payload and returns when it is durable.
#[derive(Clone)]
pub(crate) struct Contender {
    pub(super) put: Arc<dyn Fn(u64, Vec<u8>) -> Putting + Send + Sync>,
}

impl Contender {
    /// A contender from its put function.
    pub(crate) fn new<F>(put: impl Fn(u64, Vec<u8>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        Self {
            put: Arc::new(move |number, payload| Box::pin(put(number, payload))),
        }
    }
}

impl std::fmt::Debug for Contender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contender").finish_non_exhaustive()
    }
}

/// The size of payloads, and the number of writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    /// The number of concurrent writers.
    pub(crate) writers: usize,
    /// The size of each payload.
    pub(crate) bytes: usize,
}

impl Payload {
    /// Payloads of this many bytes from this many writers.
    pub(crate) fn new(writers: usize, bytes: usize) -> Self {
        Self { writers, bytes }
    }

    /// The payload of a put: incompressible bytes, seeded with its number.
    pub(super) fn of(self, number: u64) -> Vec<u8> {
        let random = Random::seeded(number);
        let words = std::iter::repeat_with(|| random.bits()).flat_map(u64::to_le_bytes);
        words.take(self.bytes).collect()
    }
}

/// The maximum size of a group of the baselines: more than there are writers.
const GROUP_MAX: usize = 1024;

/// Group commit: a thread takes all queued puts, makes them durable with one call, and replies.
///
/// `prepare` runs in the writers' tasks, as encoding does in the store.
fn grouped<T: Send + 'static>(
    prepare: impl Fn(u64, Vec<u8>) -> T + Send + Sync + 'static,
    mut commit: impl FnMut(Vec<T>) -> std::result::Result<(), String> + Send + 'static,
) -> Contender {
    type Outcome = std::result::Result<(), String>;
    let (jobs, mut queue) = mpsc::channel::<(T, oneshot::Sender<Outcome>)>(GROUP_MAX);
    std::thread::spawn(move || {
        let mut waiting = Vec::new();
        while queue.blocking_recv_many(&mut waiting, GROUP_MAX) > 0 {
            let (puts, answers): (Vec<_>, Vec<_>) = waiting.drain(..).unzip();
            let done = commit(puts);
            for answer in answers {
                let _ = answer.send(done.clone());
            }
        }
    });
    Contender::new(move |number, payload| {
        let (jobs, put) = (jobs.clone(), prepare(number, payload));
        async move {
            let (answer, outcome) = oneshot::channel();
            let stopped = || Error::unavailable("the contender has stopped");
            jobs.send((put, answer)).await.map_err(|_| stopped())?;
            outcome
                .await
                .map_err(|_| stopped())?
                .map_err(Error::unavailable)
        }
    })
}

/// Bytes of the raw log. It begins again when it is full.
const RAW_BYTES: u64 = 128 * 1024 * 1024;

/// A raw log: a file that was filled with zeros first, one write and one sync for each group. The limit
/// of what the disk can do.
pub(super) fn raw(path: &Path) -> Result<Contender> {
    let failed = |cause| {
        Error::invalid("cannot write a file")
            .fact("path", path.display())
            .because(cause)
    };
    let create = || {
        let file = OpenOptions::new().create_new(true).write(true).open(path)?;
        let zeros = vec![0; 1024 * 1024];
        for at in (0..RAW_BYTES).step_by(zeros.len()) {
            file.write_all_at(&zeros, at)?;
        }
        file.sync_all()?;
        std::io::Result::Ok(file)
    };
    let (file, mut end) = (create().map_err(failed)?, 0);
    let prepare = |number: u64, payload: Vec<u8>| [&number.to_be_bytes(), &*payload].concat();
    Ok(grouped(prepare, move |puts| {
        let group = puts.concat();
        let start = match end + group.len() as u64 {
            full if full > RAW_BYTES => 0,
            _ => end,
        };
        end = start + group.len() as u64;
        let done = file.write_all_at(&group, start);
        let done = done.and_then(|()| file.sync_data());
        done.map_err(|e| e.to_string())
    }))
}

fn engine_keyspace(path: &Path) -> Result<(Database, fjall::Keyspace)> {
    let open = || {
        let db = Database::builder(path).open()?;
        let keyspace = db.keyspace("items", KeyspaceCreateOptions::default)?;
        fjall::Result::Ok((db, keyspace))
    };
    open().map_err(|cause| Error::invalid("cannot open the bare engine").because(cause))
}

/// The bare engine with group commit: one batch, one sync.
pub(super) fn engine(path: &Path) -> Result<Contender> {
    let (db, keyspace) = engine_keyspace(path)?;
    let prepare =
        |number: u64, payload: Vec<u8>| (Slice::from(number.to_be_bytes()), Slice::from(payload));
    Ok(grouped(prepare, move |puts| {
        let mut batch = db.batch().durability(Some(PersistMode::SyncData));
        for (key, value) in puts {
            batch.insert(&keyspace, key, value);
        }
        batch.commit().map_err(|e| e.to_string())
    }))
}

/// The bare engine, each put with its own sync.
pub(super) fn engine_ungrouped(path: &Path) -> Result<Contender> {
    let (db, keyspace) = engine_keyspace(path)?;
    Ok(Contender::new(move |number, payload| {
        let (db, keyspace) = (db.clone(), keyspace.clone());
        let put = move || {
            let mut batch = db.batch().durability(Some(PersistMode::SyncData));
            batch.insert(&keyspace, number.to_be_bytes(), payload.as_slice());
            batch.commit()
        };
        off_thread(put)
    }))
}

/// The embedded store: conditional puts of new items.
pub(super) async fn ours(path: &Path, settings: &EmbeddedSettings) -> Result<Contender> {
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("n"));
    let table = Arc::new(TableSpec::new("bench".parse()?, key)?);
    let items: Arc<dyn Items> = Arc::new(Embedded::open(path, settings)?);
    items.create_table(&table, Default::default()).await?;
    Ok(Contender::new(move |number, payload| {
        let (items, table) = (items.clone(), table.clone());
        async move {
            let item = Item::new()
                .with("p", "bench")
                .with("n", number)
                .with("e", payload);
            items.put(&table, item, Condition::Absent).await?;
            Ok(())
        }
    }))
}
