//! Imports of whole files.

use std::fmt::Write as _;
use std::path::PathBuf;

use annals::layout::Layout;
use annals::{Error, ErrorKind, Result};
use tempfile::TempDir;
use toml::Table;

use super::keys::{AWS_CLIENT, Fate, JOURNAL, JOURNAL_CORE, Kind, SNAPSHOTS};
pub(super) use super::test_settings::Settings;
use super::{Imported, import};
use crate::LayoutName;
use crate::settings::ReplayFilterMode;

/// The files of a test, in a temporary folder.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

fn try_read(text: impl AsRef<[u8]>) -> Result<Imported> {
    import(&Files::new().write("application.conf", text), None, check)
}

#[track_caller]
pub(super) fn read(text: impl AsRef<[u8]>) -> Imported {
    try_read(text).unwrap()
}

fn check(settings: &Table) -> Result<(), String> {
    let settings = Settings::read(settings).map_err(|e| e.to_string())?;
    let tables = settings.layout.tables();
    tables.map(drop).map_err(|e| e.to_string())
}

/// Reads the printed settings back.
#[track_caller]
pub(super) fn settings(imported: &Imported) -> Settings {
    let printed = toml::to_string(&imported.settings).unwrap();
    Settings::read(&printed.parse().unwrap()).unwrap()
}

pub(super) fn reason<'a>(imported: &'a Imported, key: &str) -> Option<&'a str> {
    let mut found = imported.not_taken.iter().filter(|left| left.key == key);
    let reason = found.next().map(|left| left.reason.as_str());
    assert!(found.next().is_none(), "{key} is reported once");
    reason
}

#[track_caller]
pub(super) fn refused(text: impl AsRef<[u8]>, want: &str) -> Error {
    let error = try_read(text).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains(want), "{error}");
    error
}

/// As the plugin's `reference.conf`: every key, with a value that is not its default.
fn every_key() -> String {
    let mut text = "akka.persistence.journal.plugin = \"dynamodb-journal\"\n".to_owned();
    text.push_str("akka.persistence.snapshot-store.plugin = \"dynamodb-snapshot-store\"\n");
    for row in JOURNAL.iter().chain(AWS_CLIENT).chain(JOURNAL_CORE) {
        let value = match row.fate {
            Fate::Works(Kind::Count | Kind::Millis | Kind::Bytes, _) => "1234",
            Fate::Works(Kind::Endpoint, _) => "\"http://localhost:8000\"",
            Fate::Works(Kind::Choice, _) => "warn",
            _ => "other",
        };
        let name = row.name.replace('*', "some");
        writeln!(text, "dynamodb-journal.{name} = {value}").unwrap();
    }
    for row in SNAPSHOTS
        .iter()
        .filter(|row| !matches!(row.fate, Fate::Same))
    {
        writeln!(text, "dynamodb-snapshot-store.{} = other-1", row.name).unwrap();
    }
    text.push_str("dynamodb-read-journal = ${dynamodb-journal}\n");
    text.push_str("dynamodb-read-journal { persistence-ids-index-name = my-idx }\n");
    text
}

#[test]
fn every_key_is_imported_or_reported() {
    let imported = read(every_key());
    for row in JOURNAL.iter().chain(AWS_CLIENT).chain(JOURNAL_CORE) {
        let name = row.name.replace('*', "some");
        let reason = reason(&imported, &format!("dynamodb-journal.{name}"));
        match row.fate {
            Fate::NotApplicable(why) => {
                assert_eq!(reason, Some(&*format!("not applicable: {why}")))
            }
            _ => assert_eq!(reason, None, "{name}"),
        }
    }
    let settings = settings(&imported);
    assert_eq!(
        (&*settings.others.store, settings.layout.layout),
        ("dynamodb", LayoutName::Akka)
    );
    assert_eq!(
        settings.others.endpoint.as_deref(),
        Some("http://localhost:8000")
    );
    assert_eq!(settings.others.region.as_deref(), Some("us-east-1"));
    assert_eq!(settings.layout.journal_table.unwrap().as_str(), "other");
    assert_eq!(settings.layout.snapshot_table.unwrap().as_str(), "other-1");
    assert_eq!(settings.layout.journal_name, "other");
    assert_eq!(
        (
            settings.layout.sequence_shards,
            settings.layout.replay_parallelism
        ),
        (1234, 1234)
    );
    assert_eq!(settings.layout.persistence_ids_index_name, "my-idx");
    assert_eq!(settings.layout.replay_filter.mode, ReplayFilterMode::Warn);
    assert_eq!(settings.layout.replay_filter.max_old_writers, 1234);
    assert_eq!(settings.layout.aws_api_limits.max_item_size, 1234);
    let client = settings.others.aws_client_config;
    assert_eq!(
        (client.max_connections, client.max_error_retry),
        (1234, Some(1234))
    );
    assert_eq!(
        (client.connection_timeout, client.request_timeout),
        (1234, 1234)
    );
    assert_eq!(client.client_execution_timeout, 1234);
    assert_eq!(
        (client.socket_timeout, client.connection_max_idle_millis),
        (Some(1234), 1234)
    );
    assert_eq!(
        (client.proxy_host.as_deref(), client.proxy_port),
        (Some("other"), Some(1234))
    );
    assert_eq!(client.proxy_username.as_deref(), Some("other"));
    assert_eq!(client.user_agent.as_deref(), Some("other"));
}

#[test]
fn a_minimal_file_sets_nothing_else() {
    let imported = read("akka.persistence.journal.plugin = dynamodb-journal");
    let want = Settings::of(LayoutName::Akka);
    assert_eq!(settings(&imported), want);
    assert_eq!(imported.settings.len(), 2);
    assert_eq!(imported.not_taken, []);
}

#[test]
fn pekkos_default_table_names_are_written() {
    for text in [
        "pekko.persistence.journal.plugin = \"dynamodb-journal\"",
        "dynamodb-journal.class = \"org.apache.pekko.persistence.dynamodb.journal.DynamoDBJournal\"",
        "akka.loglevel = INFO\npekko.persistence.journal.plugin = \"dynamodb-journal\"",
    ] {
        let settings = settings(&read(text));
        assert_eq!(
            settings.layout.journal_table.unwrap().as_str(),
            "pekko-persistence"
        );
        assert_eq!(
            settings.layout.snapshot_table.unwrap().as_str(),
            "pekko-persistence-snapshot"
        );
    }
    let unsure = read("dynamodb-journal.journal-name = mine");
    assert!(
        reason(&unsure, "journal-table")
            .unwrap()
            .contains("Akka from Pekko")
    );
    assert_eq!(settings(&unsure).layout.journal_table, None);
}

/// An application with a journal of its own.
const PEKKO: &str = r#"
include "base"          // with its extension left out
include "nowhere.conf"  # not there
pekko {
  actor.provider = cluster
  remote.artery.canonical.hostname = ${somewhere.else}
  persistence {
    journal.plugin = "orders.journal"
    snapshot-store.plugin = "dynamodb-snapshot-store"
    journal-plugin-fallback.replay-filter { mode = OFF, max-old-writers = 5, debug = on }
  }
}
dynamodb-journal { journal-table = ${stage}-unused, journal-name = orders }
orders.journal = ${dynamodb-journal}
orders.journal {
  journal-table = "orders-"${stage}
  endpoint = dynamodb.${region}.amazonaws.com
  sequence-shards = "20"
  replay-filter.max-old-writers = 20
  replay-filter.window-size = 200
  aws-client-config {
    connection-timeout = 3s
    max-connections = default
    use-reaper = default
    request-timeout = 0
  }
  aws-api-limits.max-item-size = 400 kB
  journal-name = ${?ANNALS_TEST_NOT_SET}
}
dynamodb-snapshot-store.endpoint = ${orders.journal.endpoint}
"#;

#[test]
fn a_pekko_application_with_includes_substitutions_and_a_journal_of_its_own() {
    let files = Files::new();
    files.write("base.conf", "stage = prod\nregion = eu-north-1\n");
    let file = files.write("application.conf", PEKKO);
    let imported = import(&file, None, check).unwrap();
    let settings = settings(&imported);
    assert_eq!(
        settings.layout.journal_table.unwrap().as_str(),
        "orders-prod"
    );
    assert_eq!(
        settings.layout.snapshot_table.unwrap().as_str(),
        "pekko-persistence-snapshot"
    );
    assert_eq!(settings.layout.journal_name, "orders");
    let endpoint = "https://dynamodb.eu-north-1.amazonaws.com";
    assert_eq!(settings.others.endpoint.as_deref(), Some(endpoint));
    assert_eq!(settings.others.region.as_deref(), Some("eu-north-1"));
    assert_eq!(settings.layout.sequence_shards, 20);
    assert_eq!(settings.layout.replay_filter.mode, ReplayFilterMode::Off);
    assert_eq!(settings.layout.replay_filter.max_old_writers, 20);
    assert_eq!(settings.layout.aws_api_limits.max_item_size, 400_000);
    let client = settings.others.aws_client_config;
    assert_eq!(
        (client.connection_timeout, client.max_connections),
        (3_000, 50)
    );

    let keys: Vec<&str> = imported.not_taken.iter().map(|left| &*left.key).collect();
    let mut want = [
        "include \"nowhere.conf\"",
        "stage",
        "region",
        "pekko.actor.provider",
        "pekko.remote.artery.canonical.hostname",
        "pekko.persistence.journal-plugin-fallback.replay-filter.max-old-writers",
        "orders.journal.replay-filter.window-size",
        "pekko.persistence.journal-plugin-fallback.replay-filter.debug",
        "dynamodb-journal.journal-table",
        "orders.journal.aws-client-config.request-timeout",
        "dynamodb-snapshot-store.aws-client-config.connection-timeout",
    ]
    .to_vec();
    let mut keys = keys;
    keys.sort_unstable();
    want.sort_unstable();
    assert_eq!(keys, want);
}

#[test]
fn an_environment_variable_is_substituted() {
    let path = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let imported = read("akka {}\ndynamodb-journal.journal-name = ${?CARGO_MANIFEST_DIR}");
    assert_eq!(settings(&imported).layout.journal_name, path);
}

#[test]
fn credentials_are_reported_and_never_shown() {
    let secret = "Tops+ecret/1";
    let text = format!(
        "akka.x = 1\ndynamodb-journal {{ aws-access-key-id = AKIAX, aws-secret-access-key = \"{secret}\"\n\
         aws-client-config {{ proxy-password = \"{secret}\" }} }}\n\
         dynamodb-snapshot-store.aws-secret-access-key = \"{secret}\""
    );
    let imported = read(&text);
    let shown = format!("{imported:?}");
    assert!(
        !shown.contains("Tops") && !shown.contains("AKIAX"),
        "{shown}"
    );
    let why = reason(&imported, "dynamodb-journal.aws-secret-access-key").unwrap();
    assert!(why.contains("AWS's own chain"), "{why}");
    let why = reason(
        &imported,
        "dynamodb-journal.aws-client-config.proxy-password",
    )
    .unwrap();
    assert!(why.contains("ANNALS_PROXY_PASSWORD"), "{why}");
    // Without quotes it is not HOCON, and the parser's own message would contain it.
    let bare = text.replace('"', "");
    let error = refused(&bare, "line=`2`");
    assert!(!format!("{error:?}").contains("Tops"), "{error:?}");
    let text = "akka {}\ndynamodb-journal.endpoint = \"http://me:Tops@host\"";
    let error = refused(text, "without user and password");
    assert!(!format!("{error:?}").contains("Tops"), "{error:?}");
    // Empty credentials are not reported.
    let imported = read("akka {}\ndynamodb-journal.aws-access-key-id = \"\"");
    assert_eq!(imported.not_taken, []);
}

#[test]
fn sections_that_contradict_each_other_are_reported() {
    let imported = read(
        "akka {}\ndynamodb-journal { endpoint = \"http://a:1\", journal-name = a }\n\
         dynamodb-snapshot-store { endpoint = \"http://b:1\", journal-name = a }\n\
         dynamodb-read-journal = ${dynamodb-journal} { journal-table = other }\n",
    );
    let why = reason(&imported, "dynamodb-snapshot-store.endpoint").unwrap();
    assert!(
        why.starts_with("contradicts dynamodb-journal.endpoint"),
        "{why}"
    );
    assert!(reason(&imported, "dynamodb-read-journal.journal-table").is_some());
    assert_eq!(imported.not_taken.len(), 2, "{:?}", imported.not_taken);
    assert_eq!(
        settings(&imported).others.endpoint.as_deref(),
        Some("http://a:1")
    );
}

#[test]
fn the_section_can_be_chosen() {
    let files = Files::new();
    let text = "pekko.persistence.journal.plugin = dynamodb-journal\n\
        dynamodb-journal.journal-name = a\nother = ${dynamodb-journal} { journal-name = b }\n";
    let file = files.write("application.conf", text);
    let imported = import(&file, Some("other"), check).unwrap();
    assert_eq!(settings(&imported).layout.journal_name, "b");
    assert!(
        reason(&imported, "dynamodb-journal.journal-name")
            .unwrap()
            .contains("--section")
    );
    let why = reason(&imported, "pekko.persistence.journal.plugin").unwrap();
    assert!(why.starts_with("contradicts the imported"), "{why}");
    let imported = import(&file, None, check).unwrap();
    assert_eq!(settings(&imported).layout.journal_name, "a");
    let why = reason(&imported, "other.journal-name").unwrap();
    assert!(why.contains("other is another section"), "{why}");
    let error = import(&file, Some("nobody"), check).unwrap_err();
    assert!(error.to_string().contains("section=`nobody`"), "{error}");
}

#[test]
fn other_plugins_are_left_alone() {
    refused("akka.loglevel = INFO", "no journal of akka- or pekko-");
    refused("", "no journal of akka- or pekko-");
    let files = Files::new();
    let text = "akka.persistence.journal.plugin = j5ik2o.dynamo-db-journal\n\
        j5ik2o.dynamo-db-journal { class = \"com.github.j5ik2o.akka.persistence.dynamodb.X\", table-name = J }\n\
        dynamodb-journal.journal-name = a\n";
    let file = files.write("application.conf", text);
    let imported = import(&file, Some("dynamodb-journal"), check).unwrap();
    assert_eq!(settings(&imported).layout.journal_name, "a");
    let why = reason(&imported, "j5ik2o.dynamo-db-journal.table-name").unwrap();
    assert!(why.contains("j5ik2o's plugin"), "{why}");
    assert!(reason(&imported, "akka.persistence.journal.plugin").is_some());
}

#[test]
fn a_syntax_error_is_reported_with_its_line() {
    refused("akka {}\ndynamodb-journal { a = [1, 2\n", "line=`3`");
    refused("akka {}\nb = \"open\nc = 1", "line=`2`");
    refused(
        "a = 1 }\ndynamodb-journal.journal-name = x",
        "unmatched closing bracket. line=`1`",
    );
    refused("[1, 2]", "not understood");
    refused("a = ${b}\nb = ${a}\n", "circular");
    refused(
        "x = 1\ninclude classpath(\"x.conf\")\n",
        "class path, a URL or a package",
    );
    refused("x = 1\ninclude required(\"x.conf\")\n", "line=`2`");
    refused(b"a = \xff\xfe\n", "UTF-8");
    refused("include \"application.conf\"", "circle");
    let gone = import("no-such-folder/application.conf".as_ref(), None, check).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Invalid);
}

#[test]
fn an_included_file_that_is_not_hocon_is_named() {
    let files = Files::new();
    files.write("inner.conf", "a = 1\n\nb = [");
    let file = files.write("application.conf", "include \"inner.conf\"");
    let error = import(&file, None, check).unwrap_err().to_string();
    assert!(
        error.contains("inner.conf") && error.contains("line=`3`"),
        "{error}"
    );
}

#[test]
fn a_value_of_the_wrong_type_is_reported_with_its_key() {
    let set = |key: &str, value: &str| format!("akka {{}}\ndynamodb-journal.{key} = {value}");
    for (key, value, want) in [
        ("sequence-shards", "ten", "must be a whole number"),
        ("sequence-shards", "-1", "must be a whole number"),
        ("sequence-shards", "[1]", "must be a text or a number"),
        ("sequence-shards", "99999999999", "cannot be set"),
        ("aws-client-config.max-error-retry", "99999999999", "retry"),
        ("aws-client-config.request-timeout", "soon", "value=`soon`"),
        (
            "aws-api-limits.max-item-size",
            "\"4 apples\"",
            "value=`4 apples`",
        ),
        (
            "journal-table",
            "\"no spaces\"",
            "cannot be the name of a table",
        ),
        ("journal-table", "ab", "value=`ab`"),
        ("journal-name", "${not-there}", "is not defined"),
        (
            "replay-filter.mode",
            "sometimes",
            "discard-old, fail, warn or off",
        ),
    ] {
        let error = refused(set(key, value), want);
        let last = key.rsplit('.').next().unwrap();
        assert!(error.to_string().contains(last), "{error}");
    }
}

#[test]
fn a_repeated_section_is_merged() {
    let imported = read(
        "akka {}\ndynamodb-journal { journal-name = a, sequence-shards = 20 }\n\
         dynamodb-journal { journal-name = b }\ndynamodb-journal.oops = 1\n",
    );
    let settings = settings(&imported);
    assert_eq!(
        (
            &*settings.layout.journal_name,
            settings.layout.sequence_shards
        ),
        ("b", 20)
    );
    assert_eq!(reason(&imported, "dynamodb-journal.oops"), Some("unknown"));
}

#[test]
fn a_byte_order_mark_and_crlf_are_accepted() {
    let text = "\u{feff}akka {}\r\ndynamodb-journal {\r\n  journal-name = a b # c\r\n}\r\n";
    let imported = read(text);
    assert_eq!(settings(&imported).layout.journal_name, "a b");
    assert_eq!(imported.not_taken, []);
}

#[test]
fn json_is_hocon_and_odd_keys_are_reported_on_one_line() {
    let imported =
        read(r#"{"akka": {"a.b": {"c\nd": 1}}, "dynamodb-journal": {"journal-name": "j", "": 1}}"#);
    assert_eq!(settings(&imported).layout.journal_name, "j");
    assert!(reason(&imported, r#"akka."a.b"."c\nd""#).is_some());
    assert!(reason(&imported, r#"dynamodb-journal."""#).is_some());
}

#[test]
fn half_a_proxy_is_left_out() {
    let client = |body: &str| {
        let imported = read(format!(
            "akka {{}}\ndynamodb-journal.aws-client-config {{ {body} }}"
        ));
        (
            settings(&imported).others.aws_client_config,
            imported.not_taken.len(),
        )
    };
    let (found, left) = client("proxy-host = p, proxy-username = me");
    assert_eq!(
        (found.proxy_host, found.proxy_username, left),
        (None, None, 2)
    );
    let (found, left) = client("proxy-host = p, proxy-port = 1, proxy-username = me");
    assert_eq!(
        (found.proxy_port, found.proxy_username, left),
        (Some(1), None, 1)
    );
}

#[test]
fn the_region_is_the_one_in_the_address() {
    let region = |endpoint: &str| {
        let text = format!("akka {{}}\ndynamodb-journal.endpoint = \"{endpoint}\"");
        settings(&read(text)).others.region
    };
    for (endpoint, want) in [
        ("https://dynamodb.eu-west-1.amazonaws.com", "eu-west-1"),
        ("dynamodb.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        (
            "dynamodb-fips.us-gov-west-1.amazonaws.com:443",
            "us-gov-west-1",
        ),
        (
            "https://vpce-1.dynamodb.eu-west-1.vpce.amazonaws.com/",
            "eu-west-1",
        ),
        ("https://dynamodb.amazonaws.com", "us-east-1"),
        ("http://localhost:8000", "us-east-1"),
    ] {
        assert_eq!(region(endpoint).as_deref(), Some(want), "{endpoint}");
    }
    assert_eq!(region(""), None);
}

#[test]
fn a_scheme_is_added_as_the_plugin_would() {
    let text = "akka {}\ndynamodb-journal { endpoint = \"localhost:8000\"\n\
        aws-client-config.protocol = HTTP }";
    let imported = read(text);
    assert_eq!(
        settings(&imported).others.endpoint.as_deref(),
        Some("http://localhost:8000")
    );
    assert_eq!(imported.not_taken, []);
    let imported = read("akka {}\ndynamodb-journal.endpoint = \"localhost:8000\"");
    assert_eq!(
        settings(&imported).others.endpoint.as_deref(),
        Some("https://localhost:8000")
    );
}

#[test]
fn a_large_file_is_imported() {
    let mut text = "akka {}\ndynamodb-journal.journal-name = large\n".to_owned();
    let mut n = 0;
    while text.len() < 1 << 20 {
        n += 1;
        writeln!(text, "service-{n} {{ name = \"{}\" }}", "x".repeat(200)).unwrap();
    }
    let imported = read(text);
    assert_eq!(settings(&imported).layout.journal_name, "large");
    assert_eq!(imported.not_taken.len(), n);
}

#[test]
fn files_that_would_overflow_the_stack_are_rejected() {
    let deep = 100_000;
    refused("a{".repeat(deep), "deeper than 64 levels. line=`1`");
    refused(format!("a={}", "[".repeat(deep)), "deeper than 64 levels");
    refused(format!("{}b=1", "a.".repeat(deep)), "deeper than 64 levels");
    refused(
        format!("a=${{{}b}}", "a.".repeat(deep)),
        "deeper than 64 levels",
    );
    let mixed = format!("{}{{", "a.".repeat(40)).repeat(2);
    refused(mixed, "deeper than 64 levels");
    let mut chain = String::new();
    for n in 0..deep {
        writeln!(chain, "k{n} = ${{k{}}}", n + 1).unwrap();
    }
    refused(chain, "more than 2000 substitutions");
    refused(
        format!("p = []\n{}", "p += 1\n".repeat(deep)),
        "more than 2000 substitutions",
    );
}

#[test]
fn files_at_the_limits_are_imported() {
    let mut text = "akka {}\ndynamodb-journal.journal-name = deep\n".to_owned();
    writeln!(text, "{}c=1{}", "a.b{".repeat(31), "}".repeat(31)).unwrap();
    for n in 0..1_999 {
        writeln!(text, "k{n} = ${{k{}}}", n + 1).unwrap();
    }
    text.push_str("k1999 = 1\n");
    assert_eq!(settings(&read(text)).layout.journal_name, "deep");
}
