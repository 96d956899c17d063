//! Every key of j5ik2o's akka-persistence-dynamodb: how it is imported, or why it is not.
//!
//! A test checks that `docs/settings.md` has exactly these rows.

use super::super::keys::Kind;
use Fate::{Chooses, NotApplicable, Same, Works};

/// A key below its section; `*` at its end matches every key with that prefix.
#[derive(Debug)]
pub(in super::super) struct Row {
    pub(in super::super) name: &'static str,
    /// The plugin's default; empty if there is none.
    pub(in super::super) default: &'static str,
    pub(in super::super) fate: Fate,
}

/// How a key is imported.
#[derive(Debug)]
pub(in super::super) enum Fate {
    /// It is a setting of the same name, in the section of the same name.
    Works(Kind),
    /// It is another setting, outside of the sections.
    Becomes(&'static str, Kind),
    /// It changes the meaning of other keys, as the text says.
    Chooses(
        #[cfg_attr(not(test), expect(dead_code, reason = "for the docs, by a test"))] &'static str,
    ),
    /// It must equal the value in the journal's section.
    Same,
    /// It has no meaning here, for this reason.
    NotApplicable(&'static str),
}

pub(super) const fn row(name: &'static str, default: &'static str, fate: Fate) -> Row {
    Row {
        name,
        default,
        fate,
    }
}

pub(super) const CLASS: Fate = NotApplicable("names a class of the JVM");
pub(super) const THREADS: Fate = NotApplicable("threads of the JVM");
const QUEUE: Fate = NotApplicable(
    "there are no queues: an append is sent at once, and aws-client-config.max-connections limits the requests in flight",
);
const BACKOFF: Fate =
    NotApplicable("has no effect in the plugin either; aws-client-config has the retries");
const REPORTERS: Fate = NotApplicable(
    "names a class of the JVM; requests are counted, for --cost and as metrics, and traced by the tracing crate",
);
const CONSISTENT: Fate = NotApplicable(
    "the table is always read strongly consistent; an index never can be, and the plugin's reads of it fail with `true`",
);
const PAGES: Fate = NotApplicable("pages have DynamoDB's size, and all are read");
const QUERY: Fate = NotApplicable("of the query plugin, which was removed in v1.7.0");

const PARTITION: Kind = Kind::Class(&["PersistenceIdBased", "SequenceNumberBased"]);
const SORT: Kind = Kind::Class(&["SeqNr", "PersistenceIdWithSeqNr"]);
const STATE_KEY: Kind = Kind::Class(&["PersistenceIdBased"]);
const TABLE_NAME: Kind = Kind::Class(&["Config", "Prefix"]);

/// In all three sections, and in `dynamo-db-defaults`.
pub(in super::super) const COMMON: &[Row] = &[
    row("class", "the plugin's", CLASS),
    row(
        "plugin-dispatcher",
        "akka.actor.default-dispatcher",
        THREADS,
    ),
    row(
        "legacy-config-format",
        "false",
        Chooses(
            "where the client's keys are: with `true`, those of `v2.async` are directly in `dynamo-db-client`",
        ),
    ),
    row(
        "plug-in-lifecycle-handler-factory-class-name",
        "the plugin's",
        CLASS,
    ),
    row(
        "plug-in-lifecycle-handler-class-name",
        "the plugin's",
        CLASS,
    ),
    row("v1-async-client-factory-class-name", "the plugin's", CLASS),
    row("v1-sync-client-factory-class-name", "the plugin's", CLASS),
    row(
        "v1-dax-async-client-factory-class-name",
        "the plugin's",
        CLASS,
    ),
    row(
        "v1-dax-sync-client-factory-class-name",
        "the plugin's",
        CLASS,
    ),
    row("v2-async-client-factory-class-name", "the plugin's", CLASS),
    row("v2-sync-client-factory-class-name", "the plugin's", CLASS),
    row(
        "v2-dax-async-client-factory-class-name",
        "the plugin's",
        CLASS,
    ),
    row(
        "v2-dax-sync-client-factory-class-name",
        "the plugin's",
        CLASS,
    ),
    row("consistent-read", "false", CONSISTENT),
    row("shard-count", "64", Works(Kind::Count)),
    row("persistence-id-separator", "-", Works(Kind::Text)),
    row(
        "partition-key-resolver-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row(
        "sort-key-resolver-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row(
        "columns-def.partition-key-column-name",
        "pkey",
        Works(Kind::Text),
    ),
    row(
        "columns-def.sort-key-column-name",
        "skey",
        Works(Kind::Text),
    ),
    row(
        "columns-def.persistence-id-column-name",
        "persistence-id",
        Works(Kind::Text),
    ),
    row("write-backoff.*", "", BACKOFF),
    row("read-backoff.*", "", BACKOFF),
    row(
        "metrics-reporter-provider-class-name",
        "the plugin's",
        REPORTERS,
    ),
    row("metrics-reporter-class-name", "none", REPORTERS),
    row(
        "trace-reporter-provider-class-name",
        "the plugin's",
        REPORTERS,
    ),
    row("trace-reporter-class-name", "none", REPORTERS),
];

/// `dynamo-db-journal`.
pub(in super::super) const JOURNAL: &[Row] = &[
    row("table-name", "Journal", Works(Kind::Table)),
    row(
        "partition-key-resolver-class-name",
        "PersistenceIdBased",
        Works(PARTITION),
    ),
    row(
        "sort-key-resolver-class-name",
        "PersistenceIdWithSeqNr",
        Works(SORT),
    ),
    row(
        "columns-def.sequence-nr-column-name",
        "sequence-nr",
        Works(Kind::Text),
    ),
    row(
        "columns-def.deleted-column-name",
        "deleted",
        Works(Kind::Text),
    ),
    row(
        "columns-def.message-column-name",
        "message",
        Works(Kind::Text),
    ),
    row(
        "columns-def.ordering-column-name",
        "ordering",
        Works(Kind::Text),
    ),
    row("columns-def.tags-column-name", "tags", Works(Kind::Text)),
    row(
        "get-journal-rows-index-name",
        "GetJournalRowsIndex",
        Works(Kind::Text),
    ),
    row("tag-separator", ",", Works(Kind::Text)),
    row("soft-delete", "true", Works(Kind::Flag)),
    row(
        "v1-journal-row-write-driver-factory-class-name",
        "the plugin's",
        CLASS,
    ),
    row(
        "v1-dax-journal-row-write-driver-factory-class-name",
        "the plugin's",
        CLASS,
    ),
    row(
        "v2-journal-row-write-driver-factory-class-name",
        "the plugin's",
        CLASS,
    ),
    row(
        "v2-dax-journal-row-write-driver-factory-class-name",
        "the plugin's",
        CLASS,
    ),
    row("journal-row-driver-wrapper-class-name", "", CLASS),
    row("queue-enable", "true", QUEUE),
    row("queue-buffer-size", "512", QUEUE),
    row("queue-overflow-strategy", "fail", QUEUE),
    row("queue-parallelism", "1", QUEUE),
    row("write-parallelism", "16", QUEUE),
    row("query-batch-size", "512", PAGES),
    row("replay-batch-size", "512", PAGES),
    row(
        "replay-batch-refresh-interval",
        "",
        NotApplicable("a replay ends; `annals replay --follow` and `Journal::follow` do not"),
    ),
];

/// `dynamo-db-snapshot`.
pub(in super::super) const SNAPSHOT: &[Row] = &[
    row("table-name", "Snapshot", Works(Kind::Table)),
    row(
        "partition-key-resolver-class-name",
        "PersistenceIdBased",
        Works(PARTITION),
    ),
    row(
        "sort-key-resolver-class-name",
        "PersistenceIdWithSeqNr",
        Works(SORT),
    ),
    row(
        "columns-def.sequence-nr-column-name",
        "sequence-nr",
        Works(Kind::Text),
    ),
    row(
        "columns-def.snapshot-column-name",
        "snapshot",
        Works(Kind::Text),
    ),
    row(
        "columns-def.created-column-name",
        "created",
        Works(Kind::Text),
    ),
    row(
        "columns-def.tags-column-name",
        "tags",
        NotApplicable("snapshots have no tags; the plugin never reads it either"),
    ),
    row(
        "get-snapshot-rows-index-name",
        "GetSnapshotRowsIndex",
        Works(Kind::Text),
    ),
    row("legacy-table-format", "false", Works(Kind::Flag)),
];

/// `dynamo-db-state`.
pub(in super::super) const STATE: &[Row] = &[
    row("table-name", "State", Works(Kind::Table)),
    row(
        "partition-key-resolver-class-name",
        "PersistenceIdBased",
        Works(STATE_KEY),
    ),
    row(
        "sort-key-resolver-class-name",
        "PersistenceIdBased",
        Works(STATE_KEY),
    ),
    row(
        "table-name-resolver-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row(
        "table-name-resolver-class-name",
        "Config",
        Works(TABLE_NAME),
    ),
    row(
        "columns-def.revision-nr-column-name",
        "revision-nr",
        Works(Kind::Text),
    ),
    row(
        "columns-def.deleted-column-name",
        "deleted",
        NotApplicable("the plugin neither writes nor reads it"),
    ),
    row(
        "columns-def.payload-column-name",
        "payload",
        Works(Kind::Text),
    ),
    row(
        "columns-def.serializer-id-column-name",
        "serializer-id",
        Works(Kind::Text),
    ),
    row(
        "columns-def.serializer-manifest-column-name",
        "serializer-manifest",
        Works(Kind::Text),
    ),
    row(
        "columns-def.ordering-column-name",
        "ordering",
        Works(Kind::Text),
    ),
    row("columns-def.tags-column-name", "tags", Works(Kind::Text)),
    row(
        "tag-separator",
        ",",
        NotApplicable("a value has one tag; the plugin does not use it either"),
    ),
];

/// `dynamo-db-read-journal`, up to v1.6.1.
pub(in super::super) const READ_JOURNAL: &[Row] = &[
    row("class", "the plugin's", CLASS),
    row("write-plugin", "j5ik2o.dynamo-db-journal", QUERY),
    row("table-name", "the journal's", Same),
    row("columns-def.*", "the journal's", Same),
    row("get-journal-rows-index-name", "the journal's", Same),
    row("tag-separator", "the journal's", Same),
    row("shard-count", "the journal's", Same),
    row("dynamo-db-client.*", "the journal's", Same),
    row("tags-index-name", "TagsIndex", QUERY),
    row("refresh-interval", "1s", QUERY),
    row("max-buffer-size", "500", QUERY),
    row("query-batch-size", "1024", QUERY),
    row("scan-batch-size", "1024", QUERY),
    row("consistent-read", "false", QUERY),
    row("read-backoff.*", "", BACKOFF),
    row("journal-sequence-retrieval.*", "", QUERY),
    row(
        "metrics-reporter-provider-class-name",
        "the plugin's",
        REPORTERS,
    ),
    row("metrics-reporter-class-name", "none", REPORTERS),
    row(
        "trace-reporter-provider-class-name",
        "the plugin's",
        REPORTERS,
    ),
    row("trace-reporter-class-name", "none", REPORTERS),
];

/// The row of a key in these tables. Tables of longer names go first.
pub(super) fn find(tables: &[&'static [Row]], key: &str) -> Option<&'static Row> {
    let mut rows = tables.iter().flat_map(|table| table.iter());
    rows.find(|row| match row.name.strip_suffix('*') {
        Some(beginning) => key.starts_with(beginning),
        None => key == row.name,
    })
}
