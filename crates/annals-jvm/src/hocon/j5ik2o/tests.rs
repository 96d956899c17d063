//! Imports of whole files of j5ik2o's plugin.

use std::fmt::Write as _;

use crate::LayoutName;
use crate::settings::{
    PartitionKeyKind, ReplayFilterMode, SortKeyKind, StoredRevision, TableNameKind,
};

use super::super::keys::Kind;
use super::super::tests::{Settings, read, reason, refused, settings};
use super::client_keys::{CLIENT, CLIENTS, V1, V2, V2_ASYNC, V2_SYNC};
use super::keys::{COMMON, Fate, JOURNAL, READ_JOURNAL, Row, SNAPSHOT, STATE};

fn code(text: &str) -> String {
    match text {
        "" => String::new(),
        words if words.contains(' ') => words.to_owned(),
        word => format!("`{word}`"),
    }
}

fn line(row: &Row) -> String {
    let fate = match &row.fate {
        Fate::Works(_) => "works".to_owned(),
        Fate::Becomes(setting, _) => format!("becomes `{setting}`"),
        Fate::Chooses(what) => format!("chooses {what}"),
        Fate::Same => "must equal the journal's; a difference is reported".to_owned(),
        Fate::NotApplicable(why) => format!("not applicable: {why}"),
    };
    format!("| `{}` | {} | {fate} |", row.name, code(row.default)).replace("|  |", "| |")
}

const TABLES: [(&str, &[Row]); 10] = [
    (
        "In `dynamo-db-journal`, `dynamo-db-snapshot` and `dynamo-db-state`",
        COMMON,
    ),
    ("`dynamo-db-journal`", JOURNAL),
    ("`dynamo-db-snapshot`", SNAPSHOT),
    ("`dynamo-db-state`", STATE),
    ("`dynamo-db-client`", CLIENT),
    ("`dynamo-db-client.v2`", V2),
    ("`dynamo-db-client.v2.async`", V2_ASYNC),
    ("`dynamo-db-client.v2.sync`", V2_SYNC),
    ("`dynamo-db-client.v1`", V1),
    ("`dynamo-db-read-journal`, up to v1.6.1", READ_JOURNAL),
];

#[test]
fn the_docs_have_every_row() {
    let docs = include_str!("../../../../../docs/settings.md");
    let mut missing = String::new();
    for (heading, rows) in TABLES {
        let rows: Vec<String> = rows.iter().map(line).collect();
        let want = format!(
            "### {heading}\n\n| Key | Default on the JVM | Here |\n| --- | --- | --- |\n{}\n",
            rows.join("\n")
        );
        if !docs.contains(&want) {
            writeln!(missing, "{want}").unwrap();
        }
    }
    assert!(missing.is_empty(), "the docs should have\n{missing}");
}

#[test]
fn every_working_key_is_a_setting() {
    let all = Settings::all();
    let has = |key: &str| {
        let mut parts = key.split('.');
        let first = all.get(parts.next().unwrap());
        let found = parts.try_fold(first, |table, part| Some(table?.as_table()?.get(part)));
        found.flatten().is_some()
    };
    let sections = [
        ("dynamo-db-journal", JOURNAL),
        ("dynamo-db-snapshot", SNAPSHOT),
        ("dynamo-db-state", STATE),
    ];
    for (section, rows) in sections {
        for row in rows.iter().chain(COMMON) {
            let key = format!("j5ik2o.{section}.{}", row.name);
            let works = matches!(row.fate, Fate::Works(_));
            assert_eq!(has(&key), works, "{key}");
        }
    }
    for row in CLIENTS.iter().flat_map(|rows| rows.iter()) {
        if let Fate::Becomes(setting, _) = row.fate {
            assert!(has(setting), "{setting}");
        }
    }
}

/// A value that is not the key's default.
fn other(row: &Row) -> String {
    let kind = match row.fate {
        Fate::Works(kind) | Fate::Becomes(_, kind) => kind,
        _ => return "other".to_owned(),
    };
    match kind {
        Kind::Count | Kind::Millis | Kind::Bytes => "1234".to_owned(),
        Kind::Endpoint => "\"http://localhost:8000\"".to_owned(),
        Kind::Flag => match row.default {
            "true" => "off".to_owned(),
            _ => "on".to_owned(),
        },
        Kind::Class(classes) => {
            let class = classes.iter().find(|class| **class != row.default);
            let class = class.unwrap_or(&row.default);
            format!("\"com.github.j5ik2o.akka.persistence.dynamodb.Some${class}\"")
        }
        // Column names must differ.
        _ => format!("x{}", row.name.replace('.', "-")),
    }
}

/// Every key of the sections and, of the client's, those that one choice of client reads.
fn every_key(version: &str, kind: &str) -> String {
    let mut text = "akka.persistence.journal.plugin = \"j5ik2o.dynamo-db-journal\"\n\
        akka.persistence.snapshot-store.plugin = \"j5ik2o.dynamo-db-snapshot\"\n\
        akka.persistence.state.plugin = \"j5ik2o.dynamo-db-state\"\n"
        .to_owned();
    let sections = [
        ("dynamo-db-journal", JOURNAL),
        ("dynamo-db-snapshot", SNAPSHOT),
        ("dynamo-db-state", STATE),
    ];
    for (section, rows) in sections {
        for row in rows.iter().chain(COMMON) {
            if matches!(row.fate, Fate::Chooses(_)) {
                continue;
            }
            let name = row.name.replace('*', "some");
            let value = match row.fate {
                Fate::Works(Kind::Table) => format!("my-{section}"),
                _ => other(row),
            };
            writeln!(text, "j5ik2o.{section}.{name} = {value}").unwrap();
        }
    }
    text.push_str("j5ik2o.dynamo-db-defaults.dynamo-db-client {\n");
    writeln!(text, "client-version = {version}\nclient-type = {kind}").unwrap();
    for row in CLIENTS.iter().flat_map(|rows| rows.iter()) {
        if !matches!(row.fate, Fate::Chooses(_)) {
            let name = row.name.replace('*', "some");
            writeln!(text, "{name} = {}", other(row)).unwrap();
        }
    }
    text.push_str("}\n");
    text
}

#[test]
fn every_key_is_imported_or_reported() {
    for (version, kind) in [("v2", "async"), ("v2", "sync"), ("v1", "async")] {
        let imported = read(every_key(version, kind));
        let sections = [
            ("dynamo-db-journal", JOURNAL),
            ("dynamo-db-snapshot", SNAPSHOT),
            ("dynamo-db-state", STATE),
        ];
        for (section, rows) in sections {
            for row in rows.iter().chain(COMMON) {
                let name = row.name.replace('*', "some");
                let found = reason(&imported, &format!("j5ik2o.{section}.{name}"));
                match row.fate {
                    Fate::NotApplicable(why) => {
                        assert_eq!(found, Some(&*format!("not applicable: {why}")), "{name}");
                    }
                    _ => assert_eq!(found, None, "{name}"),
                }
            }
        }
        for row in CLIENTS.iter().flat_map(|rows| rows.iter()) {
            let name = row.name.replace('*', "some");
            let key = format!("j5ik2o.dynamo-db-defaults.dynamo-db-client.{name}");
            let found = reason(&imported, &key);
            match row.fate {
                Fate::NotApplicable(why) => {
                    assert_eq!(found, Some(&*format!("not applicable: {why}")), "{name}");
                }
                _ => assert_eq!(found, None, "{name}"),
            }
        }
        let settings = settings(&imported);
        assert_eq!(
            (&*settings.others.store, settings.layout.layout),
            ("dynamodb", LayoutName::J5ik2o)
        );
        check_sections(&settings, version);
        let client = &settings.others.aws_client_config;
        assert_eq!(
            (client.max_connections, client.connection_timeout),
            (1234, 1234)
        );
        assert_eq!(
            (client.socket_timeout, client.request_timeout),
            (Some(1234), 1234)
        );
        assert_eq!(client.client_execution_timeout, 1234);
        assert_eq!(client.connection_max_idle_millis, 1234);
        assert_eq!(client.proxy_port.is_some(), version == "v1");
        assert_eq!(
            settings.others.endpoint.as_deref(),
            Some("http://localhost:8000")
        );
        assert_eq!(settings.others.region.as_deref(), Some("xregion"));
    }
}

#[track_caller]
fn check_sections(settings: &Settings, version: &str) {
    let j5ik2o = &settings.layout.j5ik2o;
    let journal = &j5ik2o.dynamo_db_journal;
    assert_eq!(
        journal.table_name.as_ref().unwrap().as_str(),
        "my-dynamo-db-journal"
    );
    assert_eq!(
        journal.columns_def.message_column_name,
        "xcolumns-def-message-column-name"
    );
    assert_eq!((journal.shard_count, journal.soft_delete), (1234, false));
    assert_eq!(
        journal.partition_key_resolver_class_name,
        PartitionKeyKind::SequenceNumberBased
    );
    let snapshot = &j5ik2o.dynamo_db_snapshot;
    assert_eq!(snapshot.sort_key_resolver_class_name, SortKeyKind::SeqNr);
    assert!(snapshot.legacy_table_format);
    let state = &j5ik2o.dynamo_db_state;
    assert_eq!(state.table_name_resolver_class_name, TableNameKind::Prefix);
    assert_eq!(state.persistence_id_separator, "xpersistence-id-separator");
    let stored = match version {
        "v1" => StoredRevision::V1,
        _ => StoredRevision::V2,
    };
    assert_eq!(state.stored_revision, stored);
}

#[test]
fn a_minimal_file_sets_nothing_else() {
    for text in [
        "akka.persistence.journal.plugin = \"j5ik2o.dynamo-db-journal\"",
        "akka.persistence.state.plugin = \"j5ik2o.dynamo-db-state\"\nj5ik2o.dynamo-db-state {}",
        "j5ik2o.dynamo-db-journal.soft-delete = true",
    ] {
        let imported = read(text);
        let mut want = Settings::of(LayoutName::J5ik2o);
        want.layout.j5ik2o.dynamo_db_journal.soft_delete = true;
        assert_eq!(settings(&imported), want, "{text}");
        assert_eq!(imported.not_taken, [], "{text}");
    }
}

/// The configuration of a typical application.
const APPLICATION: &str = r#"
stage = prod
akka {
  persistence {
    journal.plugin = "orders.journal"
    snapshot-store.plugin = "j5ik2o.dynamo-db-snapshot"
    journal-plugin-fallback.replay-filter { mode = warn, debug = on }
  }
}
j5ik2o {
  dynamo-db-defaults {
    write-backoff.enabled = true
    dynamo-db-client { region = eu-west-1, v2.async { max-concurrency = 64, use-http2 = true } }
  }
  dynamo-db-journal { table-name = ${stage}-unused, shard-count = 32 }
  dynamo-db-snapshot {
    table-name = ${stage}-snapshots
    dynamo-db-client { region = eu-north-1, access-key-id = x, v2.dispatcher-name = mine }
  }
}
orders.journal = ${j5ik2o.dynamo-db-journal} {
  class = "com.github.j5ik2o.akka.persistence.dynamodb.journal.DynamoDBJournal"
  table-name = ${stage}-orders
  queue-parallelism = 32
  sort-key-resolver-class-name = "com.acme.MySortKeys"
  surprise = 1
}
"#;

#[test]
fn an_application_with_defaults_and_a_journal_of_its_own() {
    let imported = read(APPLICATION);
    let settings = settings(&imported);
    let journal = &settings.layout.j5ik2o.dynamo_db_journal;
    assert_eq!(journal.table_name.as_ref().unwrap().as_str(), "prod-orders");
    assert_eq!(journal.shard_count, 32);
    let snapshot = &settings.layout.j5ik2o.dynamo_db_snapshot;
    assert_eq!(
        snapshot.table_name.as_ref().unwrap().as_str(),
        "prod-snapshots"
    );
    assert_eq!(settings.others.region.as_deref(), Some("eu-west-1"));
    assert_eq!(settings.others.aws_client_config.max_connections, 64);
    assert_eq!(settings.layout.replay_filter.mode, ReplayFilterMode::Warn);
    let mut keys: Vec<&str> = imported.not_taken.iter().map(|left| &*left.key).collect();
    keys.sort_unstable();
    let want = [
        "akka.persistence.journal-plugin-fallback.replay-filter.debug",
        "j5ik2o.dynamo-db-defaults.dynamo-db-client.v2.async.use-http2",
        "j5ik2o.dynamo-db-defaults.write-backoff.enabled",
        "j5ik2o.dynamo-db-journal.table-name",
        "j5ik2o.dynamo-db-snapshot.dynamo-db-client.access-key-id",
        "j5ik2o.dynamo-db-snapshot.dynamo-db-client.region",
        "j5ik2o.dynamo-db-snapshot.dynamo-db-client.v2.dispatcher-name",
        "orders.journal.class",
        "orders.journal.queue-parallelism",
        "orders.journal.sort-key-resolver-class-name",
        "orders.journal.surprise",
        "stage",
    ];
    assert_eq!(keys, want);
    let why = reason(&imported, "orders.journal.sort-key-resolver-class-name").unwrap();
    assert!(why.contains("in code"), "{why}");
    let why = reason(
        &imported,
        "j5ik2o.dynamo-db-snapshot.dynamo-db-client.region",
    )
    .unwrap();
    assert!(why.contains("one client for all"), "{why}");
}

#[test]
fn a_client_of_the_journal_alone_is_reported() {
    let imported = read(
        "j5ik2o.dynamo-db-journal.dynamo-db-client.endpoint = \"http://127.0.0.1:8000/\"\n\
         j5ik2o.dynamo-db-snapshot.table-name = Snaps\n",
    );
    assert_eq!(
        settings(&imported).others.endpoint.as_deref(),
        Some("http://127.0.0.1:8000/")
    );
    let key = "j5ik2o.dynamo-db-snapshot.dynamo-db-client, for endpoint";
    assert!(reason(&imported, key).unwrap().contains("one client"));
    assert_eq!(imported.not_taken.len(), 1, "{:?}", imported.not_taken);
}

#[test]
fn unused_client_keys_are_reported() {
    let text = "j5ik2o.dynamo-db-journal.dynamo-db-client {\n\
        client-version = v1\nendpoint = \"localhost:8000\"\n\
        v1.client-configuration { protocol = HTTP, max-connections = 7, proxy-host = p }\n\
        v2.async.max-concurrency = 9\n}";
    let imported = read(text);
    let found = settings(&imported);
    assert_eq!(
        found.others.endpoint.as_deref(),
        Some("http://localhost:8000")
    );
    assert_eq!(found.others.aws_client_config.max_connections, 7);
    // The journal's module does not decide what durable state stores.
    assert_eq!(
        found.layout.j5ik2o.dynamo_db_state.stored_revision,
        StoredRevision::V2
    );
    let client = "j5ik2o.dynamo-db-journal.dynamo-db-client";
    let why = reason(&imported, &format!("{client}.v2.async.max-concurrency")).unwrap();
    assert!(why.contains("choose other keys"), "{why}");
    let half = reason(
        &imported,
        &format!("{client}.v1.client-configuration.proxy-host"),
    );
    assert!(half.unwrap().contains("together"));
    assert_eq!(imported.not_taken.len(), 2, "{:?}", imported.not_taken);
    let dax = read("j5ik2o.dynamo-db-state.dynamo-db-client.client-version = v2-dax");
    let key = "j5ik2o.dynamo-db-state.dynamo-db-client.client-version";
    assert!(reason(&dax, key).unwrap().contains("DAX"));
    refused(
        "j5ik2o.dynamo-db-state.dynamo-db-client.client-version = v3",
        "is v1, v2",
    );
}

/// Without the class, events would get keys that the JVM does not read.
#[test]
fn a_resolver_of_the_applications_own_concerns_most() {
    let text = "j5ik2o.dynamo-db-journal {\nwhat = 1\nbatch = 2\n\
        partition-key-resolver-class-name = com.example.MyResolver\n}";
    let mut left = read(text).not_taken;
    left.sort_by_key(|left| left.concern());
    let first = left.first().unwrap();
    assert!(
        first.key.ends_with("partition-key-resolver-class-name"),
        "{left:?}"
    );
    assert!(first.reason.contains("pass Resolvers in code"), "{left:?}");
}

#[test]
fn the_older_format_has_the_clients_keys_in_one_place() {
    let text = "j5ik2o.dynamo-db-journal {\nlegacy-config-format = true\n\
        dynamo-db-client { max-concurrency = 9, read-timeout = 3s, region = r, use-http2 = true\n\
        v2.async.max-concurrency = 8 }\n}";
    let imported = read(text);
    let found = settings(&imported).others.aws_client_config;
    assert_eq!(
        (found.max_connections, found.socket_timeout),
        (9, Some(3_000))
    );
    let client = "j5ik2o.dynamo-db-journal.dynamo-db-client";
    assert!(reason(&imported, &format!("{client}.use-http2")).is_some());
    assert!(reason(&imported, &format!("{client}.v2.async.max-concurrency")).is_some());
    let text = text.replace("= true", "= false");
    let why = read(text);
    let why = reason(&why, &format!("{client}.max-concurrency")).unwrap();
    assert_eq!(why, "unknown");
}

#[test]
fn credentials_are_never_shown() {
    let text = "j5ik2o.dynamo-db-defaults.dynamo-db-client { access-key-id = AKIAX\n\
        secret-access-key = \"Tops+ecret\"\nv1.client-configuration.proxy-password = \"Tops\" }";
    let imported = read(text);
    let shown = format!("{imported:?}");
    assert!(
        !shown.contains("Tops") && !shown.contains("AKIAX"),
        "{shown}"
    );
    assert_eq!(imported.not_taken.len(), 3, "{:?}", imported.not_taken);
    let key = "j5ik2o.dynamo-db-defaults.dynamo-db-client.secret-access-key";
    assert!(reason(&imported, key).unwrap().contains("AWS's own chain"));
}

#[test]
fn invalid_values_are_rejected() {
    let journal = |rest: &str| format!("j5ik2o.dynamo-db-journal {{ {rest} }}");
    refused(journal("shard-count = many"), "must be a whole number");
    refused(journal("soft-delete = perhaps"), "must be true or false");
    refused(journal("table-name = \"a b\""), "value=`a b`");
    refused(
        journal("columns-def.message-column-name = tags"),
        "two columns have the same name",
    );
    refused(journal("columns-def.message-column-name = type"), "of ours");
}

#[test]
fn the_query_plugins_section_is_compared() {
    let imported = read(
        "j5ik2o.dynamo-db-journal.table-name = Events\n\
         j5ik2o.dynamo-db-read-journal { table-name = Other, shard-count = 64, refresh-interval = 10ms }",
    );
    let of = |key: &str| reason(&imported, &format!("j5ik2o.dynamo-db-read-journal.{key}"));
    let name = of("table-name").unwrap();
    let want = "contradicts j5ik2o.dynamo-db-journal.table-name: `Other` here, `Events` there";
    assert!(name.starts_with(want), "{name}");
    assert_eq!(of("shard-count"), None);
    assert!(of("refresh-interval").unwrap().contains("v1.7.0"));
}

#[test]
fn either_plugin_is_imported_from_a_file_with_both() {
    let both = "dynamodb-journal.journal-name = a\nj5ik2o.dynamo-db-journal.table-name = Events\n";
    let chosen = format!("akka.persistence.journal.plugin = j5ik2o.dynamo-db-journal\n{both}");
    let imported = read(&chosen);
    assert_eq!(settings(&imported).layout.layout, LayoutName::J5ik2o);
    let why = reason(&imported, "dynamodb-journal.journal-name").unwrap();
    assert!(why.contains("--section"), "{why}");
    let imported = read(format!("akka {{}}\n{both}"));
    assert_eq!(settings(&imported).layout.layout, LayoutName::Akka);
    let why = reason(&imported, "j5ik2o.dynamo-db-journal.table-name").unwrap();
    assert!(why.contains("j5ik2o's plugin"), "{why}");
}
