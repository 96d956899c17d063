//! Every key of akka- and pekko-persistence-dynamodb 1.x, and of the core's persistence, that a
//! configuration may hold: whether it works here, and why not where it does not.
//!
//! Promises: `docs/settings.md` has exactly these rows; a test holds it to them.

use Fate::{NotApplicable, Same, Works};

/// A key below its section; one that ends in `.*` stands for all that begin so.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// What the JVM side takes where nobody sets it; empty: nothing.
    pub(super) default: &'static str,
    pub(super) fate: Fate,
}

/// What becomes of a key.
#[derive(Debug)]
pub(super) enum Fate {
    /// It is a setting of the same name; the text is what else there is to say.
    Works(
        Kind,
        #[cfg_attr(not(test), expect(dead_code, reason = "for the docs, by a test"))] &'static str,
    ),
    /// It has to be what the journal's section has.
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
    /// The address of DynamoDB, which on the JVM side need not have a scheme.
    Endpoint,
    /// The scheme of an address that has none.
    Protocol,
    /// A name in small letters.
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
const THREADS: Fate = NotApplicable("threads of the JVM; there is nothing like them to set");
const CREDENTIALS: Fate = NotApplicable(
    "credentials are never settings; leave them to AWS's own chain, such as AWS_PROFILE, AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, or a role",
);
const TRACING: Fate =
    NotApplicable("requests are counted, for --cost and as metrics, and not logged one by one");
const BATCHES: Fate = NotApplicable("batches are always as large as DynamoDB takes them");
const NTLM: Fate = NotApplicable("for NTLM, which the client does not speak");
const BREAKER: Fate = NotApplicable(
    "aws-client-config.client-execution-timeout and aws-client-config.max-error-retry bound every operation",
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
            "the import adds the scheme and, where the address is AWS's, `region`",
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
        NotApplicable("the highest number is never taken from its marker alone, as with `true`"),
    ),
];

/// `aws-client-config`, in the sections of the journal and of the snapshots. Each is `default`
/// unless it is set, which leaves the client as it is.
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
            "connections have no age; idle ones end after aws-client-config.connection-max-idle-millis",
        ),
    ),
    row(
        "aws-client-config.local-address",
        "",
        NotApplicable("the operating system chooses the address, by its routes"),
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
            "of one request; unset, client-execution-timeout alone ends the retries",
        ),
    ),
    row(
        "aws-client-config.preemptive-basic-proxy-auth",
        "",
        NotApplicable("a proxy's credentials are always sent unasked"),
    ),
    row(
        "aws-client-config.protocol",
        "",
        Works(
            Kind::Protocol,
            "as the scheme of `endpoint`, where that has none; no setting of its own",
        ),
    ),
    row("aws-client-config.proxy-domain", "", NTLM),
    row(
        "aws-client-config.proxy-host",
        "",
        Works(
            Kind::Text,
            "with proxy-port; unset, HTTPS_PROXY and its like are asked",
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
        NotApplicable("a cache of the JVM's SDK, for its diagnosis"),
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
            "until the answer begins, with the time to connect; request-timeout bounds the rest of it",
        ),
    ),
    row(
        "aws-client-config.use-expect-continue",
        "",
        NotApplicable("requests are small, and sent at once"),
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
            "idle connections always end, after aws-client-config.connection-max-idle-millis",
        ),
    ),
    row(
        "aws-client-config.use-tcp-keepalive",
        "",
        NotApplicable(
            "the client cannot; idle connections end after aws-client-config.connection-max-idle-millis",
        ),
    ),
    row(
        "aws-client-config.user-agent",
        "",
        Works(Kind::Text, "stands before the SDK's own words"),
    ),
];

/// What the core reads in a journal's section, and in `journal-plugin-fallback` where it is not.
pub(super) const JOURNAL_CORE: &[Row] = &[
    row(
        "replay-filter.mode",
        "repair-by-discard-old",
        Works(Kind::Choice, ""),
    ),
    row(
        "replay-filter.window-size",
        "100",
        NotApplicable("rows come in order, each number once, so nothing has to be held back"),
    ),
    row(
        "replay-filter.max-old-writers",
        "10",
        Works(Kind::Count, ""),
    ),
    row(
        "replay-filter.debug",
        "off",
        NotApplicable("what is found is reported in any case"),
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
        NotApplicable("a replay is a stream, as fast as it is read"),
    ),
    row(
        "write-response-global-order",
        "on",
        NotApplicable("an append is answered to whoever made it, in no order with others"),
    ),
    row("event-adapters.*", "", ADAPTERS),
    row("event-adapter-bindings.*", "", ADAPTERS),
];

/// `dynamodb-snapshot-store`, or the section that is chosen in its place.
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

/// What the core reads in a snapshot store's section, and in `snapshot-store-plugin-fallback`.
pub(super) const SNAPSHOTS_CORE: &[Row] = &[
    row("circuit-breaker.max-failures", "5", BREAKER),
    row("circuit-breaker.call-timeout", "20s", BREAKER),
    row("circuit-breaker.reset-timeout", "60s", BREAKER),
    row(
        "snapshot-is-optional",
        "false",
        NotApplicable("whoever recovers decides whether to go on without a snapshot"),
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
        NotApplicable("aws-client-config.max-connections bounds what is under way"),
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
            Same => "works, where it is what the journal has; anything else is reported".to_owned(),
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
    fn what_works_is_a_setting_of_that_name() {
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
