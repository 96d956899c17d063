//! A durable state as an item: the plugin's attributes under the names of the settings, and ours.
//!
//! | attribute | on | meaning |
//! |---|---|---|
//! | `writer` | every item of ours | which write it was |
//! | `revision` | a write that was begun | not a value yet; its revision |
//! | `revision` | a tombstone | the revision of the deletion |
//! | `closed` | a deleted value | its revision is the deletion's |
//!
//! Reads values of both of the plugin's modules. A revision that the other module stored is an error
//! if it can be recognised. Without I/O.

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
/// The suffix of a tombstone's partition key.
const DELETED: &str = "#deleted";
/// The stored revision of a write that was begun. Values have 1 or more, so no write expects it.
const BEGUN: u64 = 0;
/// The number that the plugin's v1 module stores for revision 1. The v2 module stores one more than
/// the revision, so never this.
const FIRST_OF_V1: u64 = 1;
/// The largest `long` of the JVM.
const REVISION_MAX: u64 = i64::MAX as u64 - 1;

/// Encodes and decodes values.
#[derive(Clone, Debug)]
pub(super) struct Values {
    columns: StateColumns,
    stored: StoredRevision,
}

/// The meaning of an item under an id's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// A write that was begun; its writer.
    Begun(Value),
    /// The last write.
    Written {
        revision: Revision,
        is_deleted: bool,
        /// `None` if the plugin wrote it.
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

    /// The condition that this revision is stored.
    pub(super) fn at(&self, revision: Revision) -> Condition {
        let name = self.columns.revision_nr_column_name.clone();
        Condition::Equals(name, self.number_of(revision).into())
    }

    /// A state as an item under a key's attributes.
    ///
    /// # Errors
    /// `Invalid` if the revision is out of range for the plugin, or the item would be too large.
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
                "a revision on this layout is at most {REVISION_MAX}"
            ))
            .fact("id", id)
            .fact("revision", revision));
        }
        let number = self.number_of(revision);
        item.insert(&self.columns.revision_nr_column_name, number);
        item.insert(&self.columns.ordering_column_name, state.time_ms);
        // Including our temporary attributes.
        let with_ours = begun(&signed(item.clone(), Token::from_bytes([0; 8])), revision);
        let bytes = item_size(&with_ours.with(CLOSED, true));
        if bytes > ITEM_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a value on this layout is one item of at most {ITEM_BYTES_MAX} bytes, key and names included; store less"
            ))
            .fact("id", id)
            .fact("bytes", bytes));
        }
        Ok(item)
    }

    /// The deletion of an item's value. The item keeps the value until it is deleted, because the
    /// plugin could not read it without; a value that leaves no room for our attributes is removed.
    pub(super) fn deleted(&self, key: Item, item: Option<Item>, state: &State) -> Result<Item> {
        let bare = self.item_of(key, state)?;
        let full = item.and_then(|item| self.stamped(item, state).ok());
        Ok(full.unwrap_or(bare).with(CLOSED, true))
    }

    /// An item as a write that was begun.
    pub(super) fn begun(&self, item: &Item, revision: Revision) -> Item {
        let name = &self.columns.revision_nr_column_name;
        begun(item, revision).with(name, BEGUN)
    }

    /// The tombstone of a deletion.
    pub(super) fn tombstone(&self, key: Item, (revision, time_ms): (Revision, u64)) -> Item {
        let item = key.with(REVISION, revision);
        let item = item.with(&self.columns.ordering_column_name, time_ms);
        checksum::sealed(item, self.covered())
    }

    /// The revision of a tombstone.
    pub(super) fn deleted_revision(&self, item: &Item) -> Result<Revision> {
        checksum::check(item, self.covered())?;
        self.number(item, REVISION)
    }

    /// The state of a tombstone: deleted.
    pub(super) fn deleted_state(&self, id: &PersistenceId, item: &Item) -> Result<State> {
        let time_ms = self.number(item, &self.columns.ordering_column_name)?;
        Ok(State::new(
            id.clone(),
            self.deleted_revision(item)?,
            time_ms,
        ))
    }

    /// The attributes that the checksum covers: never in another order.
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

    /// An item with the token of its write.
    pub(super) fn signed(&self, item: Item, token: Token) -> Item {
        checksum::sealed(signed(item, token), self.covered())
    }

    fn number(&self, item: &Item, name: &str) -> Result<u64> {
        let number = item.get(name).and_then(Value::as_u64);
        number.ok_or_else(|| improper(name))
    }

    /// The meaning of an item under this id's key.
    ///
    /// # Errors
    /// `Corrupt` where it cannot be read; `Invalid` if its revision was stored by the plugin's v1
    /// module and the settings say v2: taken for revision 0 it would be overwritten by a create.
    pub(super) fn stored(&self, id: &PersistenceId, item: &Item) -> Result<Stored> {
        checksum::check(item, self.covered())?;
        let writer = item.get(WRITER).cloned();
        if item.get(REVISION).is_some() {
            return Ok(Stored::Begun(writer.ok_or_else(|| improper(WRITER))?));
        }
        let columns = &self.columns;
        if text(item, &columns.persistence_id_column_name)? != Some(id.as_str()) {
            return Err(improper(&columns.persistence_id_column_name));
        }
        let number = self.number(item, &columns.revision_nr_column_name)?;
        let revision = match self.stored {
            StoredRevision::V1 => Some(number).filter(|number| *number > BEGUN),
            StoredRevision::V2 if number == FIRST_OF_V1 => return Err(self.stored_by_v1(id)),
            StoredRevision::V2 => number.checked_sub(1),
        };
        Ok(Stored::Written {
            revision: revision.ok_or_else(|| improper(&columns.revision_nr_column_name))?,
            is_deleted: item.get(CLOSED).is_some(),
            writer,
        })
    }

    /// Whether an item has a revision that only the plugin's v1 module stores, and the settings say
    /// v2.
    pub(super) fn is_of_v1(&self, item: &Item) -> bool {
        let number = item.get(&self.columns.revision_nr_column_name);
        self.stored == StoredRevision::V2
            && item.get(REVISION).is_none()
            && number.and_then(Value::as_u64) == Some(FIRST_OF_V1)
    }

    fn stored_by_v1(&self, id: &PersistenceId) -> Error {
        let name = &self.columns.revision_nr_column_name;
        Error::invalid(
            "the plugin's v1 module stored this revision; set stored-revision of j5ik2o.dynamo-db-state to v1",
        )
        .fact("id", id)
        .fact(name.clone(), FIRST_OF_V1)
    }

    /// The id of a value's item, the plugin's or ours.
    pub(super) fn owner(&self, item: &Item) -> Option<PersistenceId> {
        let id = item.get(&self.columns.persistence_id_column_name);
        id.and_then(|id| id.as_str()?.parse().ok())
    }

    /// The revision of an item that may be damaged; 0 for none.
    pub(super) fn revision_in(&self, item: &Item) -> u64 {
        let number = item.get(&self.columns.revision_nr_column_name);
        let number = number.and_then(Value::as_u64).unwrap_or(0);
        match self.stored {
            StoredRevision::V1 => number,
            StoredRevision::V2 => number.saturating_sub(1),
        }
    }

    /// The state in an item.
    pub(super) fn state_in(
        &self,
        id: &PersistenceId,
        item: &Item,
        (revision, is_deleted): (Revision, bool),
    ) -> Result<State> {
        let tag = text(item, &self.columns.tags_column_name)?;
        let time_ms = self.number(item, &self.columns.ordering_column_name)?;
        let mut state = State::new(id.clone(), revision, time_ms);
        if !is_deleted {
            state.tag = tag.unwrap_or_default().to_owned();
            state.value = Some(self.payload_of(item)?);
        }
        Ok(state)
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

/// The attribute that the items of a write have in common.
pub(super) fn signature(token: Token) -> Value {
    token.to_bytes().to_vec().into()
}

/// The condition that this write is stored.
pub(super) fn by(writer: Value) -> Condition {
    Condition::Equals(WRITER.to_owned(), writer)
}

fn begun(item: &Item, revision: Revision) -> Item {
    item.clone().with(REVISION, revision)
}

/// The condition that the tombstone of this revision is stored.
pub(super) fn tombstone_at(revision: Revision) -> Condition {
    Condition::Equals(REVISION.to_owned(), revision.into())
}

/// Whether a key is a tombstone's.
pub(super) fn is_tombstone(key: &Key) -> bool {
    matches!(&key.partition, KeyPart::S(partition) if partition.ends_with(DELETED))
}

/// The key of an id's tombstone, beside its value's.
pub(super) fn tombstone_key(value: &Key) -> Key {
    let partition = match &value.partition {
        KeyPart::S(partition) => format!("{partition}{DELETED}"),
        // Resolvers return strings.
        other => format!("{other}{DELETED}"),
    };
    Key {
        partition: KeyPart::from(partition),
        sort: value.sort.clone(),
    }
}
