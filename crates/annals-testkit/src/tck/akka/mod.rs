//! The plugin's own tests, for the `akka` layout. Names begin with the plugin's properties: atomic
//! batches (`pa`), recovery (`rc`), deletion (`dl`), failures (`fr`), formats (`fb`), entities (`il`),
//! queries (`qy`); the others are ours.
//!
//! The failures are in [`failures`], a separate list that every layout runs: where the plugin logs, we
//! return an error with the same facts. Tested elsewhere: `fr3`, the effective settings, in
//! `annals-cli/tests/it/config.rs`; `fr4`, the default settings, in
//! `annals/tests/it/default_settings.rs` and `annals-cli/tests/it/bad_input.rs`; `fr7`, a failed
//! description of a table, in `annals-aws/tests/it/error_context.rs`, which also tests `fr8` to `fr12` with a
//! server that fails.
//!
//! `rc1` is about a queue inside the JVM's journal; here it is concurrent appends. `fb2` and `fb3` are
//! about asynchronous serializers; here they are events of different serializers in one history. `pg`,
//! how numbers are grouped in hundreds, is a unit test of `keys.rs`.
//!
//! Items are put, removed and listed with keys built from the plugin's description, independently of
//! the layout.

mod batches;
mod deletions;
mod entities;
pub(crate) mod failures;
mod formats;
mod queries;
mod stage;

use std::sync::Arc;

use super::{Setup, named, properties};
use annals::layout::TableNames;
use annals_jvm::{AnyLayout, LayoutName};
pub(crate) use batches::*;
pub(crate) use deletions::*;
pub(crate) use entities::*;
pub(crate) use formats::*;
pub(crate) use queries::*;

properties! {
    pa1_a_first_batch_is_complete,
    pa2_a_batch_whose_last_member_begins_a_hundred_is_complete,
    pa3_a_batch_whose_middle_begins_a_hundred_is_complete,
    pa4_a_batch_that_begins_a_hundred_is_complete,
    pa5_a_batch_that_ends_a_hundred_is_complete,
    rc1_concurrent_appends_all_count_for_the_highest,
    rc2_incomplete_batches_are_skipped,
    rc3_the_high_marker_shows_a_missing_event,
    rc4_a_batch_uses_the_number_of_anothers_missing_last_member,
    rc5_a_batch_inside_another_one_hides_it,
    dl1_to_dl6_deletions_raise_the_low_marker_and_leave_no_events,
    fr6_an_oversized_event_is_rejected_and_uses_no_number,
    fb1_events_of_the_first_generation_are_read,
    fb2_fb3_serializers_mix,
    fb4_an_oversized_snapshot_is_rejected,
    both_generations_are_read_in_one_history,
    il1_the_next_instance_recovers_and_continues,
    il2_instances_recover_after_deletions,
    il3_to_il5_batches_are_recovered_completely_and_in_order,
    il6_of_six_singles_one_is_left,
    qy1_ids_are_found_by_scan,
    qy1_ids_are_found_through_the_index_of_numbers,
    qy2_ids_are_found_in_order_through_the_index_of_numbers_and_partitions,
    windows_inside_a_batch_return_their_part_of_it,
}

/// The same tables with other settings.
fn with_settings(setup: &Setup, alter: impl FnOnce(&mut AnyLayout)) -> Setup {
    let tables = setup.layout.tables().expect("tables");
    let names = TableNames::default()
        .journal(tables.journal.name().clone())
        .snapshot(tables.snapshot.name().clone());
    let mut settings = named(LayoutName::Akka, names);
    alter(&mut settings);
    Setup {
        layout: Arc::new(settings),
        ..setup.clone()
    }
}
