//! A durable state as an item: the plugin's attributes under the names of the settings, and ours.
//!
//! | attribute | on | says |
//! |---|---|---|
//! | `writer` | what we wrote | which write it was |
//! | `revision` | what is begun | that it does not count yet, and what it is to be |
//! | `revision` | the mark of a deletion | its revision |
//! | `closed` | what is deleted | that its revision is the deletion's |
//!
//! Promises: what was written reads back the same, also what either of the plugin's modules wrote.
//! Never: reads the store.

use crate::attributes::{self, KEPT, improper, text};
use crate::checksum;
use crate::serialization::{self, Serialized};
use crate::settings::{J5ik2oState, StateColumns, StoredRevision};
use annals::items::limits::ITEM_BYTES_MAX;
use annals::items::{Condition, Item, Key, KeyPart, Value, item_size};
use annals::state::{Revision, State};
use annals::{Error, Payload, PersistenceId, Result, Token};

const WRITER: &str = "writer";
const REVISION: &str = "revision";
const CLOSED: &str = "closed";
/// What the partition of a mark ends in.
const MARKED: &str = "#deleted";
/// What is stored as the revision of what is begun. The plugin stores 1 and more, and so do we:
/// no write waits for it.
const BEGUN: u64 = 0;
/// The JVM's longs end here.
const REVISION_MAX: u64 = i64::MAX as u64 - 1;

/// How values are stored.
#[derive(Clone, Debug)]
pub(super) struct Values {
    columns: StateColumns,
    stored: StoredRevision,
}

/// What an item under an id's key means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// A write that does not count yet, by whom.
    Begun(Value),
    /// The last write.
    Written {
        revision: Revision,
        is_closed: bool,
        /// None where the plugin wrote it.
        writer: Option<Value>,
    },
}

impl Values {
    pub(super) fn new(section: &J5ik2oState) -> Self {
        Self {
            columns: section.columns_def.clone(),
            stored: section.stored_revision,
        }
    }

    /// The number that is stored for a revision.
    fn number_of(&self, revision: Revision) -> u64 {
        match self.stored {
            StoredRevision::V1 => revision,
            StoredRevision::V2 => revision.saturating_add(1),
        }
    }

    /// That this revision is there.
    pub(super) fn at(&self, revision: Revision) -> Condition {
        let name = self.columns.revision_nr_column_name.clone();
        Condition::Equals(name, self.number_of(revision).into())
    }

    /// A state as an item under a key's attributes.
    ///
    /// # Errors
    /// `Invalid` where the plugin has no such revision, or the item would be too large.
    pub(super) fn item_of(&self, mut item: Item, state: &State) -> Result<Item> {
        let columns = &self.columns;
        if let Some(payload) = &state.value {
            let written = serialization::write(payload)?;
            let Serialized {
                id,
                manifest,
                bytes,
            } = written.serialized;
            item.insert(&columns.payload_column_name, bytes);
            item.insert(&columns.serializer_id_column_name, i64::from(id));
            if !manifest.is_empty() {
                item.insert(&columns.serializer_manifest_column_name, manifest);
            }
            if !written.carries {
                attributes::keep_type(&mut item, payload);
            }
        }
        let id = &state.persistence_id;
        item.insert(&columns.persistence_id_column_name, id.as_str());
        if !state.tag.is_empty() {
            item.insert(&columns.tags_column_name, state.tag.as_str());
        }
        self.stamped(item, state)
    }

    /// An item as the write of this state's revision and time.
    fn stamped(&self, mut item: Item, state: &State) -> Result<Item> {
        let (id, revision) = (&state.persistence_id, state.revision);
        if revision > REVISION_MAX {
            return Err(Error::invalid(format!(
                "a revision on this layout is at most {REVISION_MAX}. id=`{id}`, revision=`{revision}`"
            )));
        }
        let number = self.number_of(revision);
        item.insert(&self.columns.revision_nr_column_name, number);
        item.insert(&self.columns.ordering_column_name, state.time_ms);
        // With the attributes of ours that it may have for a while.
        let with_ours = begun(&signed(item.clone(), Token::from_bytes([0; 8])), revision);
        let bytes = item_size(&with_ours.with(CLOSED, true));
        if bytes > ITEM_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a value on this layout is one item of at most {ITEM_BYTES_MAX} bytes, key and names included; store less. id=`{id}`, bytes=`{bytes}`"
            )));
        }
        Ok(item)
    }

    /// The deletion of what an item holds. The plugin sees the value until it is gone, which it
    /// could not read without; one that leaves no room for our attributes is left out all the same.
    pub(super) fn closed(&self, key: Item, item: Option<Item>, state: &State) -> Result<Item> {
        let bare = self.item_of(key, state)?;
        let full = item.and_then(|item| self.stamped(item, state).ok());
        Ok(full.unwrap_or(bare).with(CLOSED, true))
    }

    /// An item as the beginning of its write, which does not count yet.
    pub(super) fn begun(&self, item: &Item, revision: Revision) -> Item {
        let name = &self.columns.revision_nr_column_name;
        begun(item, revision).with(name, BEGUN)
    }

    /// The mark of a deletion.
    pub(super) fn mark(&self, key: Item, (revision, time_ms): (Revision, u64)) -> Item {
        let item = key.with(REVISION, revision);
        let item = item.with(&self.columns.ordering_column_name, time_ms);
        checksum::sealed(item, self.covered())
    }

    /// The revision of a mark.
    pub(super) fn marked_revision(&self, item: &Item) -> Result<Revision> {
        checksum::check(item, self.covered())?;
        self.number(item, REVISION)
    }

    /// What a mark says, as a state.
    pub(super) fn marked(&self, id: &PersistenceId, item: &Item) -> Result<State> {
        Ok(State {
            persistence_id: id.clone(),
            revision: self.marked_revision(item)?,
            time_ms: self.number(item, &self.columns.ordering_column_name)?,
            tag: String::new(),
            value: None,
        })
    }

    /// What a value is read from, for its checksum: never in another order.
    fn covered(&self) -> impl Iterator<Item = &str> {
        let columns = &self.columns;
        let theirs = [
            &columns.partition_key_column_name,
            &columns.sort_key_column_name,
            &columns.persistence_id_column_name,
            &columns.revision_nr_column_name,
            &columns.payload_column_name,
            &columns.serializer_id_column_name,
            &columns.serializer_manifest_column_name,
            &columns.ordering_column_name,
            &columns.tags_column_name,
        ];
        let theirs = theirs.into_iter().map(String::as_str);
        theirs.chain([WRITER, REVISION, CLOSED]).chain(KEPT)
    }

    /// An item as this write's.
    pub(super) fn signed(&self, item: Item, token: Token) -> Item {
        checksum::sealed(signed(item, token), self.covered())
    }

    fn number(&self, item: &Item, name: &str) -> Result<u64> {
        let number = item.get(name).and_then(Value::as_u64);
        number.ok_or_else(|| improper(name))
    }

    /// What an item under this id's key means.
    pub(super) fn standing(&self, id: &PersistenceId, item: &Item) -> Result<Standing> {
        checksum::check(item, self.covered())?;
        let writer = item.get(WRITER).cloned();
        if item.get(REVISION).is_some() {
            return Ok(Standing::Begun(writer.ok_or_else(|| improper(WRITER))?));
        }
        let columns = &self.columns;
        if text(item, &columns.persistence_id_column_name)? != Some(id.as_str()) {
            return Err(improper(&columns.persistence_id_column_name));
        }
        let number = self.number(item, &columns.revision_nr_column_name)?;
        let revision = match self.stored {
            StoredRevision::V1 => Some(number).filter(|number| *number > BEGUN),
            StoredRevision::V2 => number.checked_sub(1),
        };
        Ok(Standing::Written {
            revision: revision.ok_or_else(|| improper(&columns.revision_nr_column_name))?,
            is_closed: item.get(CLOSED).is_some(),
            writer,
        })
    }

    /// Whose an item is, where it is a value's; the plugin's and ours both tell.
    pub(super) fn owner(&self, item: &Item) -> Option<PersistenceId> {
        let id = item.get(&self.columns.persistence_id_column_name);
        id.and_then(|id| id.as_str()?.parse().ok())
    }

    /// The number that an item tells, which may be damaged; 0 for none.
    pub(super) fn revision_in(&self, item: &Item) -> u64 {
        let number = item.get(&self.columns.revision_nr_column_name);
        let number = number.and_then(Value::as_u64).unwrap_or(0);
        match self.stored {
            StoredRevision::V1 => number,
            StoredRevision::V2 => number.saturating_sub(1),
        }
    }

    /// The state in an item that counts.
    pub(super) fn state_in(
        &self,
        id: &PersistenceId,
        item: &Item,
        (revision, is_closed): (Revision, bool),
    ) -> Result<State> {
        let tag = text(item, &self.columns.tags_column_name)?;
        Ok(State {
            persistence_id: id.clone(),
            revision,
            time_ms: self.number(item, &self.columns.ordering_column_name)?,
            tag: tag.filter(|_| !is_closed).unwrap_or_default().to_owned(),
            value: match is_closed {
                true => None,
                false => Some(self.payload_of(item)?),
            },
        })
    }

    fn payload_of(&self, item: &Item) -> Result<Payload> {
        let columns = &self.columns;
        let bytes = item.get(&columns.payload_column_name);
        let bytes = bytes.and_then(Value::as_bytes);
        let id = item.get(&columns.serializer_id_column_name);
        let id = id.and_then(Value::as_number);
        let id = id.and_then(|id| id.to_string().parse().ok());
        let manifest = text(item, &columns.serializer_manifest_column_name)?;
        let serialized = Serialized {
            id: id.ok_or_else(|| improper(&columns.serializer_id_column_name))?,
            manifest: manifest.unwrap_or_default().to_owned(),
            bytes: bytes
                .ok_or_else(|| improper(&columns.payload_column_name))?
                .clone(),
        };
        attributes::with_kept_type(item, serialization::read(serialized)?)
    }
}

fn signed(item: Item, token: Token) -> Item {
    item.with(WRITER, signature(token))
}

/// What the items of a write have in common.
pub(super) fn signature(token: Token) -> Value {
    token.to_bytes().to_vec().into()
}

/// That this write is there.
pub(super) fn by(writer: Value) -> Condition {
    Condition::Equals(WRITER.to_owned(), writer)
}

fn begun(item: &Item, revision: Revision) -> Item {
    item.clone().with(REVISION, revision)
}

/// That this mark is there.
pub(super) fn marked_at(revision: Revision) -> Condition {
    Condition::Equals(REVISION.to_owned(), revision.into())
}

/// Whether a key is a mark's.
pub(super) fn is_mark(key: &Key) -> bool {
    matches!(&key.partition, KeyPart::S(partition) if partition.ends_with(MARKED))
}

/// The key of the mark of an id's deletions, beside its value's.
pub(super) fn mark_key(value: &Key) -> Key {
    let partition = match &value.partition {
        KeyPart::S(partition) => format!("{partition}{MARKED}"),
        // Resolvers make texts.
        other => format!("{other}{MARKED}"),
    };
    Key {
        partition: KeyPart::from(partition),
        sort: value.sort.clone(),
    }
}
