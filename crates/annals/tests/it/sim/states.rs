//! The operations of processes on durable state: read, write, delete; and the checks at the end of a
//! run.

use annals::state::{State, StateError};
use annals::{Error, Random};

use super::IDS;
use super::process::{Process, TRIES, World, id};
use super::state_record::Read;
use super::write;

/// Records a value that was read, which must be as it was written.
fn note(world: &World, read: Read, state: Option<State>) -> Option<u64> {
    let mut record = world.states();
    let Some(state) = state else {
        record.read_nothing(read);
        return None;
    };
    let revision = state.revision;
    let value = state.value.unwrap_or_default();
    let Some((attempt, _)) = write::parse(&value) else {
        record.violated(format!("revision {revision} has a value of nobody"));
        return None;
    };
    record.read_value(read, revision, attempt);
    let is_large = record
        .tries
        .get(attempt)
        .is_some_and(|tried| tried.is_large);
    let noise: &[u8] = if is_large { &world.noise } else { &[] };
    if value != write::payload(attempt, revision, noise) || state.tag != tag(attempt) {
        record.violated(format!("revision {revision} is not as it was written"));
    }
    Some(revision)
}

fn tag(attempt: usize) -> String {
    match attempt % 3 {
        0 => String::new(),
        n => format!("tag-{n}"),
    }
}

impl Process {
    pub(super) async fn get_state(&mut self, index: usize) {
        let read = self.world.states().begin_read(index);
        match self.states.get(&id(index)).await {
            Ok(state) => match note(&self.world, read, state) {
                Some(revision) => self.revisions[index] = revision,
                None => self.read_revision(index).await,
            },
            Err(error) => self.excuse("get of a state", &error),
        }
    }

    async fn read_revision(&mut self, index: usize) {
        let read = self.world.states().begin_read(index);
        match self.states.revision(&id(index)).await {
            Ok(revision) => {
                self.world.states().read_revision(read, revision);
                self.revisions[index] = revision;
            }
            Err(error) => self.excuse("revision", &error),
        }
    }

    /// The revision to write: mostly the next after the believed one.
    fn draw_revision(&self, index: usize) -> u64 {
        let next = self.revisions[index] + 1;
        match self.random.below(12) {
            0 => next + 1,
            1 => next.saturating_sub(1).max(1),
            _ => next,
        }
    }

    pub(super) async fn upsert(&mut self, index: usize) {
        let mut revision = self.draw_revision(index);
        for _ in 0..TRIES {
            let is_large = self.is_large();
            let attempt = self.world.states().begin_upsert(index, revision, is_large);
            let value = write::payload(attempt, revision, self.noise(is_large));
            let value = annals::state::NewState::from(value).tag(tag(attempt));
            let written = self.states.upsert(&id(index), revision, value).await;
            if self.note_write(index, attempt, written) {
                return;
            }
            if self.restart_if_crashed().await || self.random.below(2) == 0 {
                // Was it stored?
                self.get_state(index).await;
                revision = self.draw_revision(index);
            }
        }
    }

    pub(super) async fn delete_state(&mut self, index: usize) {
        let is_named = self.random.below(3) > 0;
        let revision = is_named.then(|| self.draw_revision(index));
        for _ in 0..1 + self.random.below(3) {
            let attempt = self.world.states().begin_deletion(index, revision);
            let deleted = self.states.delete(&id(index), revision).await;
            if self.note_write(index, attempt, deleted.map(|_| ()))
                || self.restart_if_crashed().await
            {
                return;
            }
        }
    }

    /// Records the outcome of a write; returns whether it is known.
    fn note_write(
        &mut self,
        index: usize,
        attempt: usize,
        written: Result<(), StateError>,
    ) -> bool {
        let mut record = self.world.states();
        match written {
            Ok(()) => {
                record.written(attempt);
                let revision = record.tries[attempt].revision;
                self.revisions[index] = revision.unwrap_or(self.revisions[index] + 1);
                true
            }
            Err(StateError::Conflict { found, .. }) => {
                record.refused(attempt, found);
                self.revisions[index] = found;
                true
            }
            Err(error) => {
                record.failed(attempt);
                drop(record);
                self.excuse("write of a state", &Error::from(error));
                false
            }
        }
    }
}

/// Checks durable state in a new process at the end of a run.
pub(super) async fn check(world: &World, random: &Random) {
    let states = world.open_states(world.items.clone(), random);
    for index in 0..IDS {
        let read = world.states().begin_read(index);
        let (value, revision) = (
            states.get(&id(index)).await,
            states.revision(&id(index)).await,
        );
        let (Ok(value), Ok(revision)) = (value, revision) else {
            world.states().violated(format!("id {index}: no answer"));
            continue;
        };
        let found = note(world, read, value);
        let mut record = world.states();
        record.read_revision(read, revision);
        record.check_revisions(index, revision);
        if found.is_some_and(|found| found != revision) {
            record.violated(format!("id {index}: {found:?} is read, and {revision}"));
        }
    }
}
