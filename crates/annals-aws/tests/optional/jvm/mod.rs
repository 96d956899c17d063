//! The real JVM plugins of Pekko, Akka and j5ik2o share tables with us in DynamoDB Local.
//!
//! The tests start the programs in `interop/` and exchange lines of JSON with them; nothing of the
//! plugins is imitated. They run if `ANNALS_TEST_JVM` is set, on the server that
//! `ANNALS_TEST_DYNAMODB` names, in tables of their own.

mod both;
mod copied;
mod deletions;
mod j5ik2o;
mod program;
mod reading;
mod sharing;
mod torn;
mod turns;
mod writing;

use libtest_mimic::Trial;
use serde_json::{Value as Json, json};

use crate::block_on;
use crate::trial::{missing_variable, trial};

pub(crate) fn trials() -> Vec<Trial> {
    let missing = || {
        let missing = missing_variable("ANNALS_TEST_JVM");
        missing.or_else(|| missing_variable("ANNALS_TEST_DYNAMODB"))
    };
    macro_rules! trials {
        ($($($module:ident)::+),* $(,)?) => {
            vec![$(trial(
                &["jvm", $(stringify!($module)),+].join("::"),
                missing(),
                || block_on($($module)::+()),
            )),*]
        };
    }
    trials![
        copied::a_copy_there_and_back_is_identical,
        deletions::both_continue_after_a_deletion_by_either,
        deletions::only_we_deliver_the_rest_of_a_batch_after_a_deletion,
        deletions::numbering_restarts_for_both_after_a_purge,
        deletions::the_jvm_deletes_the_events_after_our_deletion,
        deletions::an_open_journal_notices_a_deletion_by_the_jvm,
        j5ik2o::deletions::both_continue_after_a_deletion_by_either,
        j5ik2o::deletions::numbering_restarts_for_both_after_a_purge,
        j5ik2o::hard::the_jvm_does_not_see_the_events_we_remove,
        j5ik2o::hard::we_accept_the_removals_of_the_jvm,
        j5ik2o::histories::we_replay_the_events_of_the_jvm_and_append,
        j5ik2o::histories::the_jvm_recovers_our_events,
        j5ik2o::histories::tags_are_preserved,
        j5ik2o::keys::a_history_with_two_kinds_of_keys_is_complete,
        j5ik2o::keys::a_history_continues_after_the_keys_changed_back,
        j5ik2o::keys::a_history_with_old_keys_continues,
        j5ik2o::names::tables_and_columns_may_have_any_names,
        j5ik2o::snapshots::both_load_snapshots_of_either,
        j5ik2o::torn::the_jvm_skips_a_torn_batch_that_our_next_append_closes,
        j5ik2o::torn::the_jvm_continues_after_a_torn_batch_until_it_is_repaired,
        reading::we_replay_the_events_of_the_jvm_and_append,
        reading::events_read_from_the_jvm_can_be_written_back,
        reading::we_load_snapshots_of_the_jvm,
        torn::the_jvm_continues_after_our_torn_batch,
        torn::we_continue_after_our_torn_batch,
        turns::both_append_to_one_id_in_turn,
        writing::the_jvm_recovers_our_events,
        writing::the_jvm_decodes_every_codec,
        writing::the_plugin_ignores_our_extra_attributes,
        writing::the_jvm_loads_our_snapshots,
        writing::the_read_journal_lists_and_reads_our_events,
    ]
}

/// A value of every type that both can write.
fn values() -> Vec<(&'static str, Json)> {
    let note = |text: &str, number: i64| json!({"text": text, "number": number});
    vec![
        ("string", json!("")),
        ("string", json!("ünïcödé 😀 \u{0} \n")),
        ("bytes", json!("")),
        ("bytes", json!("AAH/gA==")),
        ("bytestring", json!("AAH/gA==")),
        ("long", json!(i64::MIN)),
        ("long", json!(i64::MAX)),
        ("int", json!(i32::MIN)),
        ("int", json!(i32::MAX)),
        ("boolean", json!(true)),
        ("boolean", json!(false)),
        ("json", note("json ünïcödé 😀", 1)),
        // Large enough for Jackson to compress it.
        ("json", note(&"long ".repeat(8_000), 2)),
        ("cbor", note("cbor ünïcödé 😀", -3)),
        ("versioned", note("versioned", 4)),
        ("custom", json!("custom 😀")),
        ("protobuf", json!("protobuf ünïcödé")),
    ]
}

/// Events that only the JVM can write; we preserve them.
fn opaque() -> Vec<(&'static str, Json)> {
    vec![
        ("java", json!("java")),
        ("optional", json!("optional")),
        (
            "tagged",
            json!({"event": "tagged", "tags": ["blue", "red"]}),
        ),
    ]
}

fn lines(values: &[(&'static str, Json)]) -> Vec<Json> {
    let line = |(kind, value): &(&str, Json)| json!({"type": kind, "value": value});
    values.iter().map(line).collect()
}

/// `count` distinct strings.
fn texts(label: &str, count: usize) -> Vec<Json> {
    let text = |n| json!({"type": "string", "value": format!("{label} {n} of {count}")});
    (1..=count).map(text).collect()
}
