//! Durable state on the `annals` layout: one item for each id, under `s:ID`.
//!
//! A deleted value leaves its item behind, emptied, with the revision of the deletion. A value in
//! parts has its revision under another name, so that whoever replaces it on the condition of its
//! revision learns of the parts, from the refusal, without reading first.

use std::sync::Arc;

use async_trait::async_trait;

use super::sealed::{self, Sealed, Written, deletes};
use crate::items::{Condition, Item, Items, Key, TableSpec, Value, Write, WriteError};
use crate::state::{Revision, State, StateError, StateLayout};
use crate::{Error, Payload, PersistenceId, Random, Result, Token};

const REVISION: &str = "r";
const REVISION_OF_PARTS: &str = "R";
const TAG: &str = "t";
/// There where the value was deleted.
const DELETED: &str = "d";

/// Durable state of the `annals` layout.
#[derive(Clone, Debug)]
pub struct AnnalsStates {
    items: Arc<dyn Items>,
    table: Arc<TableSpec>,
    random: Random,
}

fn key(id: &PersistenceId) -> Key {
    Key::new(format!("s:{id}"))
}

fn part_key(id: &PersistenceId, token: Token, index: u32) -> Key {
    Key::new(format!("p:{token}:{index}:{id}"))
}

/// The revision in an item, and the name it has there.
fn revision_of(item: &Item) -> Option<(&'static str, Revision)> {
    let mut names = [REVISION, REVISION_OF_PARTS].into_iter();
    names.find_map(|name| Some((name, item.get(name)?.as_u64()?)))
}

impl AnnalsStates {
    pub(crate) fn new(items: Arc<dyn Items>, table: Arc<TableSpec>, random: Random) -> Self {
        Self {
            items,
            table,
            random,
        }
    }

    async fn find(&self, id: &PersistenceId) -> Result<Option<Item>> {
        let found = self.items.get(&self.table, vec![key(id)]).await?.items;
        Ok(found.into_iter().next().flatten())
    }

    /// The state in an item.
    async fn open(&self, id: &PersistenceId, item: &Item) -> Result<State> {
        let revision = revision_of(item);
        let (_, revision) = revision
            .ok_or_else(|| Error::corrupt(format!("durable state has no revision. id=`{id}`")))?;
        let sealed = Sealed::of(&self.table, item)?;
        let time_ms = sealed.time_ms;
        let value = if item.get(DELETED).is_some() {
            None
        } else {
            let part_key = |token, index| part_key(id, token, index);
            Some(sealed.open(&*self.items, &self.table, &part_key).await?)
        };
        let tag = item.get(TAG).and_then(Value::as_str).unwrap_or_default();
        Ok(State {
            persistence_id: id.clone(),
            revision,
            time_ms,
            tag: tag.to_owned(),
            value,
        })
    }

    /// The parts that only `item` speaks for.
    fn parts_of(&self, id: &PersistenceId, item: &Item) -> Vec<Write> {
        let sealed = Sealed::of(&self.table, item);
        let part_key = |token, index| part_key(id, token, index);
        sealed.map_or_else(
            |_| Vec::new(),
            |sealed| deletes(sealed.part_keys(&part_key)),
        )
    }

    fn seal(&self, state: &State, token: Token) -> Result<Written> {
        let id = &state.persistence_id;
        let mut item = self.table.key().item_of(&key(id));
        item.insert(REVISION, state.revision);
        if !state.tag.is_empty() {
            item.insert(TAG, state.tag.as_str());
        }
        if state.value.is_none() {
            item.insert(DELETED, true);
        }
        let empty = Payload::default();
        let payload = state.value.as_ref().unwrap_or(&empty);
        let part_key = |token, index| part_key(id, token, index);
        let what = (payload, state.time_ms, token);
        let mut written = sealed::seal(&self.table, item, what, &part_key)?;
        if !written.parts.is_empty() {
            written.item.remove(REVISION);
            written.item.insert(REVISION_OF_PARTS, state.revision);
        }
        Ok(written)
    }

    async fn write(&self, writes: Vec<Write>) -> Result<()> {
        sealed::write(&*self.items, &self.table, writes).await
    }

    /// Whether an item came with this write.
    fn is_from(&self, item: &Item, token: Token) -> bool {
        Sealed::of(&self.table, item).is_ok_and(|sealed| sealed.token() == token)
    }

    fn conflict(state: &State, found: Option<&Item>) -> StateError {
        StateError::Conflict {
            id: state.persistence_id.clone(),
            revision: state.revision,
            found: found
                .and_then(revision_of)
                .map_or(0, |(_, revision)| revision),
        }
    }
}

#[async_trait]
impl StateLayout for AnnalsStates {
    async fn get(&self, id: &PersistenceId) -> Result<Option<State>> {
        let mut found = self.find(id).await?;
        while let Some(item) = found {
            match self.open(id, &item).await {
                Ok(state) => return Ok(Some(state)),
                Err(lost) => {
                    found = sealed::reread(&*self.items, &self.table, &item, lost).await?;
                }
            }
        }
        Ok(None)
    }

    async fn put(&self, state: State) -> Result<(), StateError> {
        let (id, token) = (&state.persistence_id, Token::draw(&self.random));
        let Written { item, parts } = self.seal(&state, token)?;
        let mine = parts
            .iter()
            .map(|part| self.table.key_of(part).map(Write::Delete));
        let mine = mine.collect::<Result<Vec<_>>>()?;
        self.write(parts.into_iter().map(Write::Put).collect())
            .await?;
        let before = state.revision - 1;
        let mut condition = match before {
            0 => Condition::Absent,
            _ => Condition::Equals(REVISION.to_owned(), before.into()),
        };
        let mut replaced: Option<Box<Item>> = None;
        loop {
            let put = self.items.put(&self.table, item.clone(), condition).await;
            let existing = match put {
                Ok(_) => break,
                Err(WriteError::Failed(error)) => return Err(error.into()),
                Err(WriteError::Refused { existing, .. }) => existing,
            };
            let found = existing.as_deref();
            if found.is_some_and(|found| self.is_from(found, token)) {
                // Our own, whose answer was lost.
                break;
            }
            let is_in_parts = found.and_then(revision_of) == Some((REVISION_OF_PARTS, before));
            if replaced.is_some() || !is_in_parts {
                self.write(mine).await?;
                return Err(Self::conflict(&state, found));
            }
            condition = Condition::Equals(REVISION_OF_PARTS.to_owned(), before.into());
            replaced = existing;
        }
        let parts = replaced.map_or_else(Vec::new, |old| self.parts_of(id, &old));
        Ok(self.write(parts).await?)
    }
}
