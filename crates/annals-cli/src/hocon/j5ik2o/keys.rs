//! Every key of j5ik2o's akka-persistence-dynamodb: what it becomes here, and why nothing where it
//! becomes nothing.
//!
//! Promises: `docs/settings.md` has exactly these rows; a test holds it to them.

use super::super::keys::Kind;
use Fate::{Becomes, Chooses, NotApplicable, Same, Works};

/// A key below its section; one that ends in `*` stands for all that begin so.
#[derive(Debug)]
pub(in super::super) struct Row {
    pub(in super::super) name: &'static str,
    /// What the plugin takes where nobody sets it; empty: nothing.
    pub(in super::super) default: &'static str,
    pub(in super::super) fate: Fate,
}

/// What becomes of a key.
#[derive(Debug)]
pub(in super::super) enum Fate {
    /// It is a setting of the same name, in the section of the same name.
    Works(Kind),
    /// It is another setting, which stands outside of the sections.
    Becomes(&'static str, Kind),
    /// It decides what other keys mean; the text is what.
    Chooses(&'static str),
    /// It has to be what the journal's section has.
    Same,
    /// It has no meaning here, for this reason.
    NotApplicable(&'static str),
}

const fn row(name: &'static str, default: &'static str, fate: Fate) -> Row {
    Row {
        name,
        default,
        fate,
    }
}

const CLASS: Fate = NotApplicable("names a class of the JVM");
const THREADS: Fate = NotApplicable("threads of the JVM; there is nothing like them to set");
const CREDENTIALS: Fate = NotApplicable(
    "credentials are never settings; leave them to AWS's own chain, such as AWS_PROFILE, AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, or a role",
);
const DAX: Fate = NotApplicable("for DAX, which the plugin cannot start either");
const BATCHES: Fate = NotApplicable("batches are always as large as DynamoDB takes them");
const QUEUE: Fate = NotApplicable(
    "there are no queues: an append is sent at once, and aws-client-config.max-connections bounds what is under way",
);
const BACKOFF: Fate =
    NotApplicable("has no effect in the plugin either; aws-client-config has the retries");
const REPORTERS: Fate = NotApplicable(
    "names a class of the JVM; requests are counted, for --cost and as metrics, and traced by the tracing crate",
);
const CONSISTENT: Fate = NotApplicable(
    "the table is always read strongly consistent; an index never can be, and the plugin's reads of it fail with `true`",
);
const PAGES: Fate = NotApplicable("pages are as large as DynamoDB makes them, and all are read");
const SOCKETS: Fate = NotApplicable("the client has nothing like it to set");
const NTLM: Fate = NotApplicable("for NTLM, which the client does not speak");
const IDLE: Fate = NotApplicable(
    "idle connections always end, after aws-client-config.connection-max-idle-millis",
);
const QUERY: Fate = NotApplicable("of the query plugin, which has been gone since v1.7.0");

const PARTITION: Kind = Kind::Class(&["PersistenceIdBased", "SequenceNumberBased"]);
const SORT: Kind = Kind::Class(&["SeqNr", "PersistenceIdWithSeqNr"]);
const STATE_KEY: Kind = Kind::Class(&["PersistenceIdBased"]);
const TABLE_NAME: Kind = Kind::Class(&["Config", "Prefix"]);

const TIMEOUT: &str = "aws-client-config.connection-timeout";
const CONNECTIONS: &str = "aws-client-config.max-connections";
const SOCKET: &str = "aws-client-config.socket-timeout";
const MAX_IDLE: &str = "aws-client-config.connection-max-idle-millis";
const REQUEST: &str = "aws-client-config.request-timeout";
const OPERATION: &str = "aws-client-config.client-execution-timeout";

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
            "where the client's keys are: with `true`, those of `v2.async` stand right below `dynamo-db-client`",
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

/// `dynamo-db-client`, in all three sections: what every client has.
pub(in super::super) const CLIENT: &[Row] = &[
    row("access-key-id", "", CREDENTIALS),
    row("secret-access-key", "", CREDENTIALS),
    row("endpoint", "", Becomes("endpoint", Kind::Endpoint)),
    row("region", "", Becomes("region", Kind::Text)),
    row(
        "client-version",
        "v2",
        Chooses(
            "whose keys count, `v1` or `v2`; in `dynamo-db-state` also `stored-revision`, since the plugin's modules differ there",
        ),
    ),
    row(
        "client-type",
        "async",
        Chooses("whose keys count of `v2`, `async` or `sync`"),
    ),
    row("batch-get-item-limit", "100", BATCHES),
    row("batch-write-item-limit", "25", BATCHES),
    row("v1-dax.*", "", DAX),
    row("v2-dax.*", "", DAX),
];

/// Below `dynamo-db-client.v2`.
pub(in super::super) const V2: &[Row] = &[
    row("v2.dispatcher-name", "", THREADS),
    row("v2.headers", "", SOCKETS),
    row("v2.retry-policy-provider-class-name", "the plugin's", CLASS),
    row(
        "v2.retry-mode",
        "",
        NotApplicable("has no effect in the plugin either; aws-client-config has the retries"),
    ),
    row(
        "v2.execution-interceptor-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row("v2.execution-interceptor-class-names", "", CLASS),
    row("v2.api-call-timeout", "", Becomes(OPERATION, Kind::Millis)),
    row(
        "v2.api-call-attempt-timeout",
        "",
        Becomes(REQUEST, Kind::Millis),
    ),
    row(
        "v2.metric-publishers-provider-class-names",
        "the plugin's",
        CLASS,
    ),
    row("v2.metric-publisher-class-names", "", CLASS),
    row(
        "v2.aws-credentials-provider-provider-class-name",
        "the plugin's",
        CREDENTIALS,
    ),
    row("v2.aws-credentials-provider-class-name", "", CREDENTIALS),
];

/// Below `dynamo-db-client.v2.async`.
pub(in super::super) const V2_ASYNC: &[Row] = &[
    row(
        "v2.async.max-concurrency",
        "50",
        Becomes(CONNECTIONS, Kind::Count),
    ),
    row("v2.async.max-pending-connection-acquires", "10000", SOCKETS),
    row(
        "v2.async.read-timeout",
        "30s",
        Becomes(SOCKET, Kind::Millis),
    ),
    row("v2.async.write-timeout", "30s", SOCKETS),
    row(
        "v2.async.connection-timeout",
        "2000ms",
        Becomes(TIMEOUT, Kind::Millis),
    ),
    row("v2.async.connection-acquisition-timeout", "10s", SOCKETS),
    row("v2.async.connection-time-to-live", "0s", SOCKETS),
    row(
        "v2.async.max-idle-connection-timeout",
        "60s",
        Becomes(MAX_IDLE, Kind::Millis),
    ),
    row("v2.async.use-connection-reaper", "true", IDLE),
    row("v2.async.threads-of-event-loop-group", "", THREADS),
    row("v2.async.use-http2", "false", SOCKETS),
    row("v2.async.http2-max-streams", "4294967295", SOCKETS),
    row("v2.async.http2-initial-window-size", "1048576", SOCKETS),
    row("v2.async.http2-health-check-ping-period", "", SOCKETS),
];

/// Below `dynamo-db-client.v2.sync`.
pub(in super::super) const V2_SYNC: &[Row] = &[
    row("v2.sync.dispatcher-name", "", THREADS),
    row(
        "v2.sync.socket-timeout",
        "50000ms",
        Becomes(SOCKET, Kind::Millis),
    ),
    row(
        "v2.sync.connection-timeout",
        "2000ms",
        Becomes(TIMEOUT, Kind::Millis),
    ),
    row("v2.sync.connection-acquisition-timeout", "10s", SOCKETS),
    row(
        "v2.sync.max-connections",
        "50",
        Becomes(CONNECTIONS, Kind::Count),
    ),
    row("v2.sync.local-address", "", SOCKETS),
    row("v2.sync.expect-continue-enabled", "", SOCKETS),
    row("v2.sync.connection-time-to-live", "0s", SOCKETS),
    row(
        "v2.sync.max-idle-connection-timeout",
        "60s",
        Becomes(MAX_IDLE, Kind::Millis),
    ),
    row("v2.sync.use-tcp-keep-alive", "false", SOCKETS),
    row("v2.sync.use-connection-reaper", "true", IDLE),
];

/// Below `dynamo-db-client.v1`.
pub(in super::super) const V1: &[Row] = &[
    row("v1.dispatcher-name", "", THREADS),
    row(
        "v1.client-configuration.connection-timeout",
        "2000ms",
        Becomes(TIMEOUT, Kind::Millis),
    ),
    row(
        "v1.client-configuration.max-connections",
        "50",
        Becomes(CONNECTIONS, Kind::Count),
    ),
    row(
        "v1.client-configuration.max-error-retry",
        "",
        Becomes("aws-client-config.max-error-retry", Kind::Count),
    ),
    row("v1.client-configuration.retry-mode", "", SOCKETS),
    row(
        "v1.client-configuration.retry-policy-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row(
        "v1.client-configuration.use-throttle-retries",
        "true",
        SOCKETS,
    ),
    row("v1.client-configuration.local-address", "", SOCKETS),
    row(
        "v1.client-configuration.protocol",
        "",
        Chooses("the scheme of `endpoint`, where that has none"),
    ),
    row(
        "v1.client-configuration.socket-timeout",
        "50000ms",
        Becomes(SOCKET, Kind::Millis),
    ),
    row(
        "v1.client-configuration.request-timeout",
        "60000ms",
        Becomes(REQUEST, Kind::Millis),
    ),
    row(
        "v1.client-configuration.client-execution-timeout",
        "0s",
        Becomes(OPERATION, Kind::Millis),
    ),
    row(
        "v1.client-configuration.user-agent-prefix",
        "",
        Becomes("aws-client-config.user-agent", Kind::Text),
    ),
    row("v1.client-configuration.user-agent-suffix", "", SOCKETS),
    row("v1.client-configuration.use-reaper", "true", IDLE),
    row("v1.client-configuration.use-gzip", "false", SOCKETS),
    row(
        "v1.client-configuration.socket-send-buffer-size-hint",
        "",
        SOCKETS,
    ),
    row(
        "v1.client-configuration.socket-receive-buffer-size-hint",
        "",
        SOCKETS,
    ),
    row(
        "v1.client-configuration.signer-override",
        "",
        NotApplicable("requests are always signed with version 4"),
    ),
    row(
        "v1.client-configuration.response-metadata-cache-size",
        "50",
        SOCKETS,
    ),
    row(
        "v1.client-configuration.dns-resolver-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row("v1.client-configuration.dns-resolver-class-name", "", CLASS),
    row(
        "v1.client-configuration.use-secure-random",
        "false",
        SOCKETS,
    ),
    row(
        "v1.client-configuration.secure-random-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row(
        "v1.client-configuration.use-expect-continue",
        "true",
        SOCKETS,
    ),
    row(
        "v1.client-configuration.cache-response-metadata",
        "true",
        SOCKETS,
    ),
    row("v1.client-configuration.connection-ttl", "", SOCKETS),
    row(
        "v1.client-configuration.connection-max-idle",
        "60000ms",
        Becomes(MAX_IDLE, Kind::Millis),
    ),
    row(
        "v1.client-configuration.validate-after-inactivity",
        "5000ms",
        SOCKETS,
    ),
    row(
        "v1.client-configuration.use-tcp-keep-alive",
        "false",
        SOCKETS,
    ),
    row("v1.client-configuration.headers", "", SOCKETS),
    row(
        "v1.client-configuration.max-consecutive-retries-before-throttling",
        "100",
        SOCKETS,
    ),
    row(
        "v1.client-configuration.disable-host-prefix-injection",
        "",
        SOCKETS,
    ),
    row("v1.client-configuration.proxy-protocol", "", SOCKETS),
    row(
        "v1.client-configuration.proxy-host",
        "",
        Becomes("aws-client-config.proxy-host", Kind::Text),
    ),
    row(
        "v1.client-configuration.proxy-port",
        "",
        Becomes("aws-client-config.proxy-port", Kind::Count),
    ),
    row(
        "v1.client-configuration.proxy-username",
        "",
        Becomes("aws-client-config.proxy-username", Kind::Text),
    ),
    row(
        "v1.client-configuration.proxy-password",
        "",
        NotApplicable("a secret is never a setting; put it into ANNALS_PROXY_PASSWORD"),
    ),
    row("v1.client-configuration.proxy-domain", "", NTLM),
    row("v1.client-configuration.proxy-workstation", "", NTLM),
    row("v1.client-configuration.disable-socket-proxy", "", SOCKETS),
    row("v1.client-configuration.non-proxy-hosts", "", SOCKETS),
    row(
        "v1.client-configuration.proxy-authentication-methods",
        "",
        SOCKETS,
    ),
    row(
        "v1.request-metric-collector-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row("v1.request-metric-collector-class-name", "", CLASS),
    row(
        "v1.monitoring-listener-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row("v1.monitoring-listener-class-name", "", CLASS),
    row(
        "v1.request-handlers-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row("v1.request-handlers-class-name", "", CLASS),
    row("v1.request-handler-class-names", "", CLASS),
    row(
        "v1.csm-configuration-provider-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row("v1.csm-configuration-provider-class-name", "", CLASS),
    row(
        "v1.aws-credentials-provider-provider-class-name",
        "the plugin's",
        CREDENTIALS,
    ),
    row("v1.aws-credentials-provider-class-name", "", CREDENTIALS),
];

/// All that stands below `dynamo-db-client`.
pub(in super::super) const CLIENTS: [&[Row]; 5] = [CLIENT, V2, V2_ASYNC, V2_SYNC, V1];

/// The row of a key in these tables. Tables of longer names go first.
pub(super) fn find(tables: &[&'static [Row]], key: &str) -> Option<&'static Row> {
    let mut rows = tables.iter().flat_map(|table| table.iter());
    rows.find(|row| match row.name.strip_suffix('*') {
        Some(beginning) => key.starts_with(beginning),
        None => key == row.name,
    })
}
