//! The settings of the `j5ik2o` layout: every key is accepted, and invalid settings are refused when the
//! file is read or the tables are used.

use annals::ErrorKind;
use annals::layout::Layout;
use annals_jvm::settings::{PartitionKeyKind, SortKeyKind, StoredRevision, TableNameKind};
use annals_jvm::{AnyLayout, LayoutName};

fn read(text: &str) -> Result<AnyLayout, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

#[track_caller]
fn refused(text: &str, want: &str) {
    let said = match read(text) {
        Err(said) => said,
        Ok(settings) => {
            let settings = AnyLayout {
                layout: LayoutName::J5ik2o,
                ..settings
            };
            let error = settings.tables().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            error.to_string()
        }
    };
    assert!(said.contains(want), "{said}");
}

/// Every key, none at its default.
const EVERY: &str = r#"
layout = "j5ik2o"

[j5ik2o.dynamo-db-journal]
table-name = "events"
get-journal-rows-index-name = "Rows"
tag-separator = "|"
persistence-id-separator = "\\|"
shard-count = 7
partition-key-resolver-class-name = "com.github.j5ik2o.akka.persistence.dynamodb.journal.PartitionKeyResolver$SequenceNumberBased"
sort-key-resolver-class-name = "SortKeyResolver$SeqNr"
soft-delete = false
columns-def = { partition-key-column-name = "a", sort-key-column-name = "b", persistence-id-column-name = "c", sequence-nr-column-name = "d", deleted-column-name = "e", message-column-name = "f", ordering-column-name = "g", tags-column-name = "h" }

[j5ik2o.dynamo-db-snapshot]
table-name = "snapshots"
get-snapshot-rows-index-name = "Snaps"
legacy-table-format = true
persistence-id-separator = "\\|"
shard-count = 8
partition-key-resolver-class-name = "SequenceNumberBased"
sort-key-resolver-class-name = "SeqNr"
columns-def = { partition-key-column-name = "a", sort-key-column-name = "b", persistence-id-column-name = "c", sequence-nr-column-name = "d", snapshot-column-name = "e", created-column-name = "f" }

[j5ik2o.dynamo-db-state]
table-name = "states"
persistence-id-separator = "\\|"
shard-count = 9
partition-key-resolver-class-name = "PersistenceIdBased"
sort-key-resolver-class-name = "PersistenceIdBased"
table-name-resolver-class-name = "TableNameResolver$Prefix"
stored-revision = "v1"
columns-def = { partition-key-column-name = "a", sort-key-column-name = "b", persistence-id-column-name = "c", revision-nr-column-name = "d", payload-column-name = "e", serializer-id-column-name = "f", serializer-manifest-column-name = "g", ordering-column-name = "h", tags-column-name = "i" }
"#;

#[test]
fn accepts_every_key() {
    let settings = read(EVERY).unwrap();
    let j5ik2o = &settings.j5ik2o;
    let journal = &j5ik2o.dynamo_db_journal;
    assert_eq!(
        (
            journal.partition_key_resolver_class_name,
            journal.sort_key_resolver_class_name
        ),
        (PartitionKeyKind::SequenceNumberBased, SortKeyKind::SeqNr)
    );
    assert_eq!((journal.shard_count, journal.soft_delete), (7, false));
    assert!(j5ik2o.dynamo_db_snapshot.legacy_table_format);
    let state = &j5ik2o.dynamo_db_state;
    assert_eq!(state.table_name_resolver_class_name, TableNameKind::Prefix);
    assert_eq!(state.stored_revision, StoredRevision::V1);
    let tables = settings.tables().unwrap();
    let names: Vec<&str> = tables.all().map(|table| table.name().as_str()).collect();
    assert_eq!(names, ["events", "snapshots", "states"]);
    assert_eq!(tables.snapshot.key().partition.name, "c");
    // No key has another name here than in the plugin.
    let written = toml::to_string(&settings).unwrap();
    assert_eq!(read(&written).unwrap(), settings);
}

#[test]
fn refuses_invalid_settings() {
    refused(
        "[j5ik2o.dynamo-db-journal]\nqueue-enable = true",
        "unknown field `queue-enable`",
    );
    refused(
        "[j5ik2o.dynamo-db-query]",
        "unknown field `dynamo-db-query`",
    );
    refused(
        "[j5ik2o.dynamo-db-state.columns-def]\nsequence-nr-column-name = \"x\"",
        "unknown field `sequence-nr-column-name`",
    );
    for class in [
        "Mine",
        "com.acme.Keys$Mine",
        "PartitionKeyResolver$Default",
        "",
    ] {
        let text =
            format!("[j5ik2o.dynamo-db-journal]\npartition-key-resolver-class-name = \"{class}\"");
        refused(
            &text,
            "no such resolver; use PersistenceIdBased or SequenceNumberBased",
        );
    }
    refused(
        "[j5ik2o.dynamo-db-state]\nstored-revision = \"v3\"",
        "unknown variant `v3`",
    );
}

#[test]
fn refuses_clashing_columns() {
    for (section, column, name, want) in [
        (
            "journal",
            "message",
            "tags",
            "two columns have the same name",
        ),
        (
            "snapshot",
            "snapshot",
            "created",
            "two columns have the same name",
        ),
        (
            "state",
            "payload",
            "ordering",
            "two columns have the same name",
        ),
        ("state", "payload", "writer", "an attribute of ours"),
        ("snapshot", "created", "schema", "an attribute of ours"),
        ("journal", "deleted", "", "set a name for every column"),
    ] {
        let text =
            format!("[j5ik2o.dynamo-db-{section}.columns-def]\n{column}-column-name = \"{name}\"");
        refused(&text, want);
    }
    refused(
        "[j5ik2o.dynamo-db-state]\ntable-name = \"Journal\"",
        "two tables have the same name",
    );
}
