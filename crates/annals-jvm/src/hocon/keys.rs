//! Every key of akka- and pekko-persistence-dynamodb 1.x, and of the core's persistence, that a
//! configuration may hold: whether it works here, and why not where it does not.
//!
//! A test checks that `docs/settings.md` has exactly these rows.

use Fate::{NotApplicable, Same, Works};

/// A key below its section; `.*` at its end matches every key with that prefix.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// The default on the JVM; empty if there is none.
    pub(super) default: &'static str,
    pub(super) fate: Fate,
}

/// How a key is imported.
#[derive(Debug)]
pub(super) enum Fate {
    /// It is a setting of the same name; the text is a note.
    Works(
        Kind,
        #[cfg_attr(not(test), expect(dead_code, reason = "for the docs, by a test"))] &'static str,
    ),
    /// It must equal the value in the journal's section.
    Same,
    /// It has no meaning outside the JVM, for this reason.
    NotApplicable(&'static str),
}

/// How a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// The name of a table.
    Table,
    /// The address of DynamoDB, which needs no scheme on the JVM.
    Endpoint,
    /// The scheme of an address that has none.
    Protocol,
    /// A lowercase name.
    Choice,
    Count,
    /// Milliseconds; 0 is no limit on the JVM side.
    Millis,
    Bytes,
    /// Yes or no.
    Flag,
    /// One of these classes, with or without the package before it.
    Class(&'static [&'static str]),
}

const fn row(name: &'static str, default: &'static str, fate: Fate) -> Row {
    Row {
        name,
        default,
        fate,
    }
}

const CLASS: Fate = NotApplicable("names a class of the JVM");
const THREADS: Fate = NotApplicable("threads of the JVM");
const CREDENTIALS: Fate = NotApplicable(
    "credentials are never settings; use AWS's own chain, such as AWS_PROFILE, AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, or a role",
);
const TRACING: Fate =
    NotApplicable("requests are counted, for --cost and as metrics, and not logged one by one");
const BATCHES: Fate = NotApplicable("batches always have DynamoDB's maximum size");
const NTLM: Fate = NotApplicable("for NTLM, which the client does not support");
const BREAKER: Fate = NotApplicable(
    "aws-client-config.client-execution-timeout and aws-client-config.max-error-retry limit every operation",
);
const ADAPTERS: Fate = NotApplicable("adapters are classes of the JVM");

/// `dynamodb-journal`, or a section that is a copy of it.
pub(super) const JOURNAL: &[Row] = &[
    row("class", "the plugin's", CLASS),
    row(
        "endpoint",
        "",
        Works(
            Kind::Endpoint,
            "the import adds the scheme and, for an AWS address, `region`",
        ),
    ),
    row(
        "journal-table",
        "akka-persistence or pekko-persistence",
        Works(Kind::Table, "the default is Akka's"),
    ),
    row("journal-name", "journal", Works(Kind::Text, "")),
    row(
        "sequence-shards",
        "10",
        Works(Kind::Count, "may be raised, never lowered"),
    ),
    row("aws-access-key-id", "", CREDENTIALS),
    row("aws-secret-access-key", "", CREDENTIALS),
    row("replay-parallelism", "10", Works(Kind::Count, "")),
    row("replay-dispatcher", "the core's", THREADS),
    row("client-dispatcher", "dynamodb-journal.dispatcher", THREADS),
    row("plugin-dispatcher", "dynamodb-journal.dispatcher", THREADS),
    row("dispatcher.*", "", THREADS),
    row("tracing", "off", TRACING),
    row(
        "log-config",
        "off",
        NotApplicable("annals config show prints the settings in force"),
    ),
    row("aws-api-limits.max-batch-get", "100", BATCHES),
    row("aws-api-limits.max-batch-write", "25", BATCHES),
    row(
        "aws-api-limits.max-item-size",
        "400000",
        Works(Kind::Bytes, ""),
    ),
    row(
        "fixes.high-distrust",
        "false",
        NotApplicable("the highest sequence number is always verified, as with `true`"),
    ),
];

/// `aws-client-config`, in the sections of the journal and of the snapshots. `default` means the
/// client's default.
pub(super) const AWS_CLIENT: &[Row] = &[
    row(
        "aws-client-config.client-execution-timeout",
        "",
        Works(Kind::Millis, "there is always a limit"),
    ),
    row(
        "aws-client-config.connection-max-idle-millis",
        "",
        Works(Kind::Millis, ""),
    ),
    row(
        "aws-client-config.connection-timeout",
        "",
        Works(Kind::Millis, "there is always a limit"),
    ),
    row(
        "aws-client-config.connection-ttl",
        "",
        NotApplicable(
            "connections have no maximum age; idle ones are closed after aws-client-config.connection-max-idle-millis",
        ),
    ),
    row(
        "aws-client-config.local-address",
        "",
        NotApplicable("the operating system chooses the address"),
    ),
    row(
        "aws-client-config.max-connections",
        "",
        Works(Kind::Count, ""),
    ),
    row(
        "aws-client-config.max-error-retry",
        "",
        Works(
            Kind::Count,
            "for one request; unset, only client-execution-timeout limits the retries",
        ),
    ),
    row(
        "aws-client-config.preemptive-basic-proxy-auth",
        "",
        NotApplicable("proxy credentials are always sent preemptively"),
    ),
    row(
        "aws-client-config.protocol",
        "",
        Works(Kind::Protocol, "as the scheme of an `endpoint` without one"),
    ),
    row("aws-client-config.proxy-domain", "", NTLM),
    row(
        "aws-client-config.proxy-host",
        "",
        Works(
            Kind::Text,
            "with proxy-port; unset, HTTPS_PROXY and similar variables are used",
        ),
    ),
    row(
        "aws-client-config.proxy-password",
        "",
        NotApplicable("a secret is never a setting; put it into ANNALS_PROXY_PASSWORD"),
    ),
    row("aws-client-config.proxy-port", "", Works(Kind::Count, "")),
    row(
        "aws-client-config.proxy-username",
        "",
        Works(Kind::Text, "the password is in ANNALS_PROXY_PASSWORD"),
    ),
    row("aws-client-config.proxy-workstation", "", NTLM),
    row(
        "aws-client-config.request-timeout",
        "",
        Works(Kind::Millis, "there is always a limit"),
    ),
    row(
        "aws-client-config.response-metadata-cache-size",
        "",
        NotApplicable("a diagnostic cache of the JVM's SDK"),
    ),
    row(
        "aws-client-config.signer-override",
        "",
        NotApplicable("requests are always signed with version 4"),
    ),
    row(
        "aws-client-config.socket-buffer-size-hints",
        "",
        NotApplicable("the operating system chooses the sizes"),
    ),
    row(
        "aws-client-config.socket-timeout",
        "",
        Works(
            Kind::Millis,
            "until the response starts, including the time to connect; request-timeout limits the rest",
        ),
    ),
    row(
        "aws-client-config.use-expect-continue",
        "",
        NotApplicable("requests are small"),
    ),
    row(
        "aws-client-config.use-gzip",
        "",
        NotApplicable("the plugin never sets it either: it sets use-expect-continue instead"),
    ),
    row(
        "aws-client-config.use-reaper",
        "",
        NotApplicable(
            "idle connections are always closed, after aws-client-config.connection-max-idle-millis",
        ),
    ),
    row(
        "aws-client-config.use-tcp-keepalive",
        "",
        NotApplicable(
            "not supported by the client; idle connections are closed after aws-client-config.connection-max-idle-millis",
        ),
    ),
    row(
        "aws-client-config.user-agent",
        "",
        Works(Kind::Text, "precedes the SDK's own user agent"),
    ),
];

/// The core's keys in a journal's section, or else in `journal-plugin-fallback`.
pub(super) const JOURNAL_CORE: &[Row] = &[
    row(
        "replay-filter.mode",
        "repair-by-discard-old",
        Works(Kind::Choice, ""),
    ),
    row(
        "replay-filter.window-size",
        "100",
        NotApplicable("rows come in order, each number once, so nothing is buffered"),
    ),
    row(
        "replay-filter.max-old-writers",
        "10",
        Works(Kind::Count, ""),
    ),
    row(
        "replay-filter.debug",
        "off",
        NotApplicable("findings are always reported"),
    ),
    row("circuit-breaker.max-failures", "10", BREAKER),
    row("circuit-breaker.call-timeout", "10s", BREAKER),
    row("circuit-breaker.reset-timeout", "30s", BREAKER),
    row(
        "recovery-event-timeout",
        "30s",
        NotApplicable("every request of a replay has its own deadline"),
    ),
    row(
        "replay-batch-size",
        "1000",
        NotApplicable("a replay is a stream with backpressure"),
    ),
    row(
        "write-response-global-order",
        "on",
        NotApplicable("each append has its own response, in no order with others"),
    ),
    row("event-adapters.*", "", ADAPTERS),
    row("event-adapter-bindings.*", "", ADAPTERS),
];

/// `dynamodb-snapshot-store`, or the section chosen instead.
pub(super) const SNAPSHOTS: &[Row] = &[
    row("class", "the plugin's", CLASS),
    row("endpoint", "the journal's", Same),
    row("client-dispatcher", "the journal's", THREADS),
    row("plugin-dispatcher", "the core's", THREADS),
    row(
        "snapshot-table",
        "akka-persistence-snapshot or pekko-persistence-snapshot",
        Works(Kind::Table, "the default is Akka's"),
    ),
    row("journal-name", "the journal's", Same),
    row("aws-access-key-id", "the journal's", CREDENTIALS),
    row("aws-secret-access-key", "the journal's", CREDENTIALS),
    row("tracing", "the journal's", TRACING),
    row("aws-client-config.*", "the journal's", Same),
    row("aws-api-limits.*", "the journal's", Same),
];

/// The core's keys in a snapshot store's section, or else in `snapshot-store-plugin-fallback`.
pub(super) const SNAPSHOTS_CORE: &[Row] = &[
    row("circuit-breaker.max-failures", "5", BREAKER),
    row("circuit-breaker.call-timeout", "20s", BREAKER),
    row("circuit-breaker.reset-timeout", "60s", BREAKER),
    row(
        "snapshot-is-optional",
        "false",
        NotApplicable("the caller of a recovery decides whether to continue without a snapshot"),
    ),
];

/// `dynamodb-read-journal`.
pub(super) const READ_JOURNAL: &[Row] = &[
    row("class", "the plugin's", CLASS),
    row(
        "persistence-ids-index-name",
        "persistence-ids-idx",
        Works(Kind::Text, ""),
    ),
    row("*", "the journal's", Same),
];

/// `akka.persistence` and `pekko.persistence`.
pub(super) const CORE: &[Row] = &[
    row(
        "max-concurrent-recoveries",
        "50",
        NotApplicable("aws-client-config.max-connections limits the requests in flight"),
    ),
    row(
        "journal.auto-start-journals",
        "",
        NotApplicable("a journal is opened when it is used"),
    ),
    row(
        "snapshot-store.auto-start-snapshot-stores",
        "",
        NotApplicable("snapshots are opened when they are used"),
    ),
];

impl Row {
    fn is_of(&self, key: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(beginning) => key.starts_with(beginning),
            None => key == self.name,
        }
    }
}

/// The row of a key in these tables.
pub(super) fn find(tables: &[&'static [Row]], key: &str) -> Option<&'static Row> {
    let mut rows = tables.iter().flat_map(|table| table.iter());
    rows.find(|row| row.is_of(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        match text {
            "" => String::new(),
            words if words.contains(' ') => words.to_owned(),
            word => format!("`{word}`"),
        }
    }

    fn line(row: &Row) -> String {
        let fate = match &row.fate {
            Works(_, "") => "works".to_owned(),
            Works(_, note) => format!("works; {note}"),
            Same => "must equal the journal's; a difference is reported".to_owned(),
            NotApplicable(why) => format!("not applicable: {why}"),
        };
        format!("| `{}` | {} | {fate} |", row.name, code(row.default)).replace("|  |", "| |")
    }

    #[test]
    fn the_docs_have_every_row() {
        let docs = include_str!("../../../../docs/settings.md");
        let tables = [
            ("`dynamodb-journal`", JOURNAL),
            ("`aws-client-config`", AWS_CLIENT),
            ("The core, in a journal's section", JOURNAL_CORE),
            ("`dynamodb-snapshot-store`", SNAPSHOTS),
            ("The core, in a snapshot store's section", SNAPSHOTS_CORE),
            ("`dynamodb-read-journal`", READ_JOURNAL),
            ("`akka.persistence` and `pekko.persistence`", CORE),
        ];
        for (heading, rows) in tables {
            let rows: Vec<String> = rows.iter().map(line).collect();
            let want = format!("| --- | --- | --- |\n{}\n", rows.join("\n"));
            let (_, section) = docs.split_once(&format!("## {heading}\n")).unwrap();
            let section = section.split("\n## ").next().unwrap();
            assert!(section.contains(&want), "{heading} should have\n{want}");
        }
    }

    #[test]
    fn every_working_key_is_a_setting() {
        let settings = super::super::tests::Settings::all();
        let rows = [JOURNAL, AWS_CLIENT, JOURNAL_CORE, SNAPSHOTS, READ_JOURNAL];
        for row in rows.into_iter().flatten() {
            let mut parts = row.name.split('.');
            let first = settings.get(parts.next().unwrap());
            let found = parts.try_fold(first, |table, part| Some(table?.as_table()?.get(part)));
            let is_setting = found.flatten().is_some();
            match row.fate {
                Works(Kind::Protocol, _) => assert!(!is_setting, "{}", row.name),
                Works(..) => assert!(is_setting, "{}", row.name),
                NotApplicable(_) => assert!(!is_setting, "{}", row.name),
                Same => {}
            }
        }
    }
}
