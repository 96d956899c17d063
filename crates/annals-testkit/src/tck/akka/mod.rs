//! What the plugin's own tests ask of its tables, asked of the `akka` layout. Names begin with the
//! plugin's properties: atomic batches (`pa`), recovery (`rc`), deletion (`dl`), failures (`fr`),
//! formats (`fb`), entities (`il`), queries (`qy`); the others are ours.
//!
//! The failures stand in [`failures`], a list of its own that every layout runs: where the plugin
//! logs, an error is answered here that says the same. Asked elsewhere: `fr3`, the settings in
//! force, in `annals-cli/tests/it/config.rs`; `fr4`, the default settings, in
//! `annals/tests/it/default_settings.rs` and `annals-cli/tests/it/bad_input.rs`; `fr7`, that a table
//! cannot be described, in `annals-aws/tests/it/told.rs`, because that it is missing is no error;
//! there `fr8` to `fr12` are asked again of a server that refuses.
//!
//! `rc1` is about a queue inside the JVM's journal; here it is appends at once. `fb2` and `fb3` are
//! about serializers that answer later; what is left of them is that events of different serializers
//! stand in one history. `pg`, how numbers are grouped in hundreds, is a test beside `keys.rs`.
//!
//! Items are put, removed and listed here by hand, with keys built from the plugin's description
//! and not by the layout, so that a mistake is not made twice.

mod batches;
mod deletions;
mod entities;
pub(crate) mod failures;
mod formats;
mod queries;
mod stage;

use super::properties;
pub(crate) use batches::*;
pub(crate) use deletions::*;
pub(crate) use entities::*;
pub(crate) use formats::*;
pub(crate) use queries::*;

properties! {
    pa1_a_batch_that_comes_first_is_whole,
    pa2_a_batch_whose_last_member_begins_a_hundred_is_whole,
    pa3_a_batch_whose_middle_begins_a_hundred_is_whole,
    pa4_a_batch_that_begins_a_hundred_is_whole,
    pa5_a_batch_that_ends_a_hundred_is_whole,
    rc1_appends_at_once_all_count_for_the_highest,
    rc2_batches_that_lack_members_are_passed_over,
    rc3_the_high_mark_knows_of_an_event_that_is_missing,
    rc4_a_batch_takes_the_place_of_another_ones_missing_end,
    rc5_a_batch_inside_another_one_hides_it,
    dl1_to_dl6_deletions_move_the_low_mark_and_leave_nothing_to_read,
    fr6_too_large_an_event_is_refused_and_takes_no_number,
    fb1_events_of_the_first_generation_are_read,
    fb2_fb3_serializers_mix,
    fb4_too_large_a_snapshot_is_refused,
    both_generations_stand_in_one_history,
    il1_the_next_instance_recovers_and_goes_on,
    il2_instances_see_what_deletions_left,
    il3_to_il5_batches_are_recovered_whole_and_in_order,
    il6_of_six_singles_one_is_left,
    qy1_ids_are_found_by_scan,
    qy1_ids_are_found_through_the_index_of_numbers,
    qy2_ids_are_found_in_order_through_the_index_of_numbers_and_partitions,
    windows_that_cut_a_batch_show_their_part_of_it,
}
