//! The settings of the `j5ik2o` layout, with the sections and keys of the plugin's configuration.
//!
//! A resolver is named by its class, with or without the package.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use annals::items::TableName;
use annals::settings::optional::empty_is_no_table;
use annals::{Error, Result};

/// The plugin's three sections.
///
/// ```
/// use annals_jvm::AnyLayout;
///
/// let settings: AnyLayout = serde_json::from_str(
///     r#"{"layout":"j5ik2o","j5ik2o":{"dynamo-db-journal":{"shard-count":16}}}"#,
/// )?;
/// assert_eq!(settings.j5ik2o.dynamo_db_journal.shard_count, 16);
/// assert_eq!(settings.j5ik2o.dynamo_db_snapshot.shard_count, 64);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct J5ik2oSettings {
    /// The journal.
    pub dynamo_db_journal: J5ik2oJournal,
    /// The snapshots.
    pub dynamo_db_snapshot: J5ik2oSnapshot,
    /// The durable state.
    pub dynamo_db_state: J5ik2oState,
}

/// `j5ik2o.dynamo-db-journal`.
///
/// ```
/// use annals_jvm::settings::{J5ik2oJournal, J5ik2oSettings, PartitionKeyKind, SortKeyKind};
/// use annals_jvm::AnyLayout;
///
/// let dynamo_db_journal = J5ik2oJournal {
///     partition_key_resolver_class_name: PartitionKeyKind::SequenceNumberBased,
///     sort_key_resolver_class_name: SortKeyKind::SeqNr,
///     ..J5ik2oJournal::default()
/// };
/// let j5ik2o = J5ik2oSettings { dynamo_db_journal, ..J5ik2oSettings::default() };
/// let settings = AnyLayout { j5ik2o, ..AnyLayout::default() };
/// assert!(settings.j5ik2o.dynamo_db_journal.soft_delete);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct J5ik2oJournal {
    /// The table; empty: `Journal`. `journal-table` overrides it.
    #[serde(with = "empty_is_no_table")]
    pub table_name: Option<TableName>,
    /// The names of the attributes.
    pub columns_def: JournalColumns,
    /// The index over id and sequence number.
    pub get_journal_rows_index_name: String,
    /// The separator between the tags of an event.
    pub tag_separator: String,
    /// The separator between the prefix and the body of an id; a regular expression, as in Java.
    pub persistence_id_separator: String,
    /// The number of partitions over which ids, or the numbers of an id, are spread.
    pub shard_count: u32,
    /// The resolver of the partition key.
    pub partition_key_resolver_class_name: PartitionKeyKind,
    /// The resolver of the sort key.
    pub sort_key_resolver_class_name: SortKeyKind,
    /// Whether deleted events stay in the table, flagged. If not, only a key stays that the plugin
    /// does not see.
    pub soft_delete: bool,
}

impl Default for J5ik2oJournal {
    fn default() -> Self {
        Self {
            table_name: None,
            columns_def: JournalColumns::default(),
            get_journal_rows_index_name: "GetJournalRowsIndex".to_owned(),
            tag_separator: ",".to_owned(),
            persistence_id_separator: "-".to_owned(),
            shard_count: 64,
            partition_key_resolver_class_name: PartitionKeyKind::default(),
            sort_key_resolver_class_name: SortKeyKind::default(),
            soft_delete: true,
        }
    }
}

/// `j5ik2o.dynamo-db-snapshot`.
///
/// ```
/// use annals::layout::Layout;
/// use annals_jvm::settings::{J5ik2oSettings, J5ik2oSnapshot};
/// use annals_jvm::{AnyLayout, LayoutName};
///
/// // A table that the plugin made before v1.9.0.
/// let dynamo_db_snapshot =
///     J5ik2oSnapshot { legacy_table_format: true, ..J5ik2oSnapshot::default() };
/// let j5ik2o = J5ik2oSettings { dynamo_db_snapshot, ..J5ik2oSettings::default() };
/// let settings = AnyLayout { layout: LayoutName::J5ik2o, j5ik2o, ..AnyLayout::default() };
/// let table = settings.tables()?.snapshot;
/// assert_eq!(table.key().to_string(), "persistence-id S, sequence-nr N");
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct J5ik2oSnapshot {
    /// The table; empty: `Snapshot`. `snapshot-table` overrides it.
    #[serde(with = "empty_is_no_table")]
    pub table_name: Option<TableName>,
    /// The names of the attributes.
    pub columns_def: SnapshotColumns,
    /// The index over id and sequence number.
    pub get_snapshot_rows_index_name: String,
    /// Whether the table has the format before v1.9.0: id and sequence number are its key, and it
    /// has no index.
    pub legacy_table_format: bool,
    /// The separator between the prefix and the body of an id; a regular expression, as in Java.
    pub persistence_id_separator: String,
    /// The number of partitions over which ids, or the numbers of an id, are spread.
    pub shard_count: u32,
    /// The resolver of the partition key.
    pub partition_key_resolver_class_name: PartitionKeyKind,
    /// The resolver of the sort key.
    pub sort_key_resolver_class_name: SortKeyKind,
}

impl Default for J5ik2oSnapshot {
    fn default() -> Self {
        Self {
            table_name: None,
            columns_def: SnapshotColumns::default(),
            get_snapshot_rows_index_name: "GetSnapshotRowsIndex".to_owned(),
            legacy_table_format: false,
            persistence_id_separator: "-".to_owned(),
            shard_count: 64,
            partition_key_resolver_class_name: PartitionKeyKind::default(),
            sort_key_resolver_class_name: SortKeyKind::default(),
        }
    }
}

/// `j5ik2o.dynamo-db-state`.
///
/// ```
/// use annals_jvm::settings::{J5ik2oSettings, J5ik2oState, TableNameKind};
/// use annals_jvm::AnyLayout;
///
/// // `Cart-42` is in the table `Cart`.
/// let dynamo_db_state = J5ik2oState {
///     table_name_resolver_class_name: TableNameKind::Prefix,
///     ..J5ik2oState::default()
/// };
/// let j5ik2o = J5ik2oSettings { dynamo_db_state, ..J5ik2oSettings::default() };
/// let settings = AnyLayout { j5ik2o, ..AnyLayout::default() };
/// assert_eq!(settings.j5ik2o.dynamo_db_state.persistence_id_separator, "-");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct J5ik2oState {
    /// The table; empty: `State`. `state-table` overrides it.
    #[serde(with = "empty_is_no_table")]
    pub table_name: Option<TableName>,
    /// The names of the attributes.
    pub columns_def: StateColumns,
    /// The separator between the prefix and the body of an id; a regular expression, as in Java.
    pub persistence_id_separator: String,
    /// The number of partitions over which ids are spread. Values written with another count are not
    /// found.
    pub shard_count: u32,
    /// The resolver of the partition key.
    pub partition_key_resolver_class_name: StateKeyKind,
    /// The resolver of the sort key.
    pub sort_key_resolver_class_name: StateKeyKind,
    /// Which table an id's value is in.
    pub table_name_resolver_class_name: TableNameKind,
    /// The number that is stored as the revision of a value.
    pub stored_revision: StoredRevision,
}

impl Default for J5ik2oState {
    fn default() -> Self {
        Self {
            table_name: None,
            columns_def: StateColumns::default(),
            persistence_id_separator: "-".to_owned(),
            shard_count: 64,
            partition_key_resolver_class_name: StateKeyKind::default(),
            sort_key_resolver_class_name: StateKeyKind::default(),
            table_name_resolver_class_name: TableNameKind::default(),
            stored_revision: StoredRevision::default(),
        }
    }
}

/// The number that is stored as the revision of a value: the plugin's two modules differ.
///
/// ```
/// use annals_jvm::settings::{J5ik2oState, StoredRevision};
///
/// let in_file: J5ik2oState = serde_json::from_str(r#"{"stored-revision":"v1"}"#)?;
/// assert_eq!(in_file.stored_revision, StoredRevision::V1);
/// assert_eq!(J5ik2oState::default().stored_revision, StoredRevision::V2);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StoredRevision {
    /// The revision itself, as the module for the first AWS SDK stores it.
    V1,
    /// One more, as the module for the second does.
    #[default]
    V2,
}

macro_rules! columns {
    ($(#[$doc:meta])* $name:ident { $($(#[$what:meta])* $column:ident = $default:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub struct $name {
            $($(#[$what])* pub $column: String,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($column: $default.to_owned(),)+ }
            }
        }

        impl $name {
            /// Every name.
            pub fn names(&self) -> impl Iterator<Item = &str> {
                [$(self.$column.as_str(),)+].into_iter()
            }
        }
    };
}

columns! {
    /// The names of an event's attributes.
    ///
    /// ```
    /// use annals::layout::Layout;
    /// use annals_jvm::settings::{J5ik2oJournal, J5ik2oSettings, JournalColumns};
    /// use annals_jvm::{AnyLayout, LayoutName};
    ///
    /// let columns_def =
    ///     JournalColumns { sort_key_column_name: "place".into(), ..JournalColumns::default() };
    /// let dynamo_db_journal = J5ik2oJournal { columns_def, ..J5ik2oJournal::default() };
    /// let j5ik2o = J5ik2oSettings { dynamo_db_journal, ..J5ik2oSettings::default() };
    /// let settings = AnyLayout { layout: LayoutName::J5ik2o, j5ik2o, ..AnyLayout::default() };
    /// let table = settings.tables()?.journal;
    /// assert_eq!(table.key().to_string(), "pkey S, place S");
    /// # Ok::<(), annals::Error>(())
    /// ```
    JournalColumns {
        /// The partition key.
        partition_key_column_name = "pkey",
        /// The sort key. `sequence-nr` for a table of v1.0.22 or before, whose sort key is the
        /// sequence number itself.
        sort_key_column_name = "skey",
        /// The id.
        persistence_id_column_name = "persistence-id",
        /// The sequence number.
        sequence_nr_column_name = "sequence-nr",
        /// Whether it is deleted.
        deleted_column_name = "deleted",
        /// The event.
        message_column_name = "message",
        /// When it was written.
        ordering_column_name = "ordering",
        /// Its tags.
        tags_column_name = "tags",
    }
}

columns! {
    /// The names of a snapshot's attributes.
    ///
    /// ```
    /// use annals_jvm::settings::SnapshotColumns;
    ///
    /// let columns = SnapshotColumns { created_column_name: "time".into(), ..Default::default() };
    /// assert!(columns.names().any(|name| name == "time"));
    /// ```
    SnapshotColumns {
        /// The partition key.
        partition_key_column_name = "pkey",
        /// The sort key.
        sort_key_column_name = "skey",
        /// The id.
        persistence_id_column_name = "persistence-id",
        /// The sequence number.
        sequence_nr_column_name = "sequence-nr",
        /// The snapshot.
        snapshot_column_name = "snapshot",
        /// When it was saved.
        created_column_name = "created",
    }
}

columns! {
    /// The names of a value's attributes.
    ///
    /// ```
    /// use annals_jvm::settings::StateColumns;
    ///
    /// let columns = StateColumns { payload_column_name: "value".into(), ..Default::default() };
    /// assert!(columns.names().any(|name| name == "value"));
    /// ```
    StateColumns {
        /// The partition key.
        partition_key_column_name = "pkey",
        /// The sort key.
        sort_key_column_name = "skey",
        /// The id.
        persistence_id_column_name = "persistence-id",
        /// The revision.
        revision_nr_column_name = "revision-nr",
        /// The value.
        payload_column_name = "payload",
        /// The id of its serializer.
        serializer_id_column_name = "serializer-id",
        /// The manifest of its serializer.
        serializer_manifest_column_name = "serializer-manifest",
        /// When it was written.
        ordering_column_name = "ordering",
        /// Its tag.
        tags_column_name = "tags",
    }
}

/// A class of the plugin that is chosen by name.
trait Class: Sized + Copy + 'static {
    const ALL: &'static [(Self, &'static str)];
}

fn class_name<C: Class + PartialEq>(class: C) -> &'static str {
    let found = C::ALL.iter().find(|(one, _)| *one == class);
    found.map_or("", |(_, name)| name)
}

/// The class of a name, without what precedes the last `$` or `.`.
fn class_of<C: Class>(name: &str) -> Result<C> {
    let short = name.rsplit(['$', '.']).next().unwrap_or(name);
    let found = C::ALL.iter().find(|(_, name)| *name == short);
    found.map(|(class, _)| *class).ok_or_else(|| {
        let names: Vec<_> = C::ALL.iter().map(|(_, name)| *name).collect();
        Error::invalid(format!(
            "no such resolver; use {}, or pass your own resolver in code",
            names.join(" or ")
        ))
        .fact("class", name)
    })
}

macro_rules! classes {
    ($(#[$doc:meta])* $name:ident { $($(#[$what:meta])* $class:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name {
            $($(#[$what])* $class,)+
        }

        impl Class for $name {
            const ALL: &'static [(Self, &'static str)] =
                &[$((Self::$class, stringify!($class)),)+];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(class_name(*self))
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(name: &str) -> Result<Self> {
                class_of(name)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                by_name(deserializer)
            }
        }
    };
}

fn by_name<'de, C: Class, D: Deserializer<'de>>(deserializer: D) -> Result<C, D::Error> {
    struct Name<C>(PhantomData<C>);

    impl<C: Class> serde::de::Visitor<'_> for Name<C> {
        type Value = C;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the name of a resolver")
        }

        fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<C, E> {
            class_of(name).map_err(E::custom)
        }
    }

    deserializer.deserialize_str(Name(PhantomData))
}

classes! {
    /// The resolver of an event's or a snapshot's partition key.
    ///
    /// ```
    /// use annals_jvm::settings::PartitionKeyKind;
    ///
    /// let kind: PartitionKeyKind = "PartitionKeyResolver$SequenceNumberBased".parse()?;
    /// assert_eq!(kind, PartitionKeyKind::SequenceNumberBased);
    /// # Ok::<(), annals::Error>(())
    /// ```
    PartitionKeyKind {
        /// The id's prefix and a shard by its hash: one partition per id.
        #[default]
        PersistenceIdBased,
        /// The id and the sequence number modulo the shards: an id is spread over all shards.
        SequenceNumberBased,
    }
}

classes! {
    /// The resolver of an event's or a snapshot's sort key.
    ///
    /// ```
    /// use annals_jvm::settings::SortKeyKind;
    ///
    /// let kind: SortKeyKind = "SortKeyResolver$SeqNr".parse()?;
    /// assert_eq!(kind, SortKeyKind::SeqNr);
    /// # Ok::<(), annals::Error>(())
    /// ```
    SortKeyKind {
        /// The sequence number.
        SeqNr,
        /// The id's body and the sequence number in 19 digits.
        #[default]
        PersistenceIdWithSeqNr,
    }
}

classes! {
    /// The resolver of a durable state's key.
    ///
    /// ```
    /// use annals_jvm::settings::StateKeyKind;
    ///
    /// let kind: StateKeyKind = "PartitionKeyResolver$PersistenceIdBased".parse()?;
    /// assert_eq!(kind, StateKeyKind::PersistenceIdBased);
    /// # Ok::<(), annals::Error>(())
    /// ```
    StateKeyKind {
        /// As partition key, the id's prefix and a shard; as sort key, the id.
        #[default]
        PersistenceIdBased,
    }
}

classes! {
    /// The table of an id's value.
    ///
    /// ```
    /// use annals_jvm::settings::TableNameKind;
    ///
    /// let kind: TableNameKind = "TableNameResolver$Prefix".parse()?;
    /// assert_eq!(kind, TableNameKind::Prefix);
    /// # Ok::<(), annals::Error>(())
    /// ```
    TableNameKind {
        /// One table for all ids.
        #[default]
        Config,
        /// A table named after the id's prefix; the common table if it has none.
        Prefix,
    }
}
