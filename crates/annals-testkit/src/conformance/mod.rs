//! The conformance suite for stores: checks that run against any [`Items`].
//!
//! Guarantees: each check creates its own tables, under unique names, and drops them; a failure is
//! a panic that names the check. Asserts only what DynamoDB does, so that a store that passes can
//! replace it.
//! Relies on: the store may create tables.
//! Never: measures time, or asserts what DynamoDB leaves open. Comments mention these cases.
//!
//! ```
//! use annals_testkit::conformance;
//! use annals::memory::Memory;
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! conformance::run(Arc::new(Memory::new())).await;
//! # }
//! ```
//!
//! To print a line for each check, iterate over [`CHECKS`].
#![allow(
    clippy::indexing_slicing,
    reason = "a test suite: a panic is how a check fails"
)]

mod scratch;

mod concurrency;
mod cost;
mod cost_of_nothing;
mod delete;
mod get;
mod indexes;
mod limits;
mod order;
mod put;
mod query;
mod scan;
mod tables;
mod values;
mod write;

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use annals::items::Items;
use annals::store::Store;

/// One requirement for stores, by name.
///
/// See [`Check::outcome`] for an example.
#[derive(Clone, Copy)]
pub struct Check {
    /// Its subject: the name of its module.
    pub subject: &'static str,
    /// The requirement as a sentence, with underscores.
    pub name: &'static str,
    act: fn(Arc<dyn Items>) -> BoxFuture<'static, ()>,
}

impl Check {
    /// Runs this check.
    ///
    /// ```
    /// use annals_testkit::conformance::CHECKS;
    /// use annals::memory::Memory;
    /// use std::sync::Arc;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// for check in CHECKS.iter().filter(|check| check.subject == "get") {
    ///     println!("{check}");
    ///     check.outcome(Arc::new(Memory::new())).await.unwrap();
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// The name of the check and the message of its panic, if it fails.
    pub async fn outcome(&self, items: Arc<dyn Items>) -> Result<(), String> {
        // Through the handle, which adds context to errors.
        let items = Store::from_items(items).items().clone();
        let ended = AssertUnwindSafe((self.act)(items)).catch_unwind().await;
        ended.map_err(|panic| format!("{self}: {}", message_of(&*panic)))
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.name.replace('_', " "))
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Check({self})")
    }
}

pub(crate) fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("panicked")
}

/// Runs every check, one after another.
///
/// # Panics
/// If any check fails, after all have run, with a line for each failure.
pub async fn run(items: Arc<dyn Items>) {
    run_where(items, |_| true).await;
}

/// Runs the checks that match, one after another.
///
/// ```
/// use annals_testkit::conformance;
/// use annals::memory::Memory;
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let items = Arc::new(Memory::new());
/// conformance::run_where(items, |check| check.subject != "cost_of_nothing").await;
/// # }
/// ```
///
/// # Panics
/// If any check fails, after all have run, with a line for each failure.
pub async fn run_where(items: Arc<dyn Items>, is_wanted: impl Fn(&Check) -> bool) {
    let mut failures = Vec::new();
    for check in CHECKS.iter().filter(|check| is_wanted(check)) {
        if let Err(failure) = check.outcome(items.clone()).await {
            failures.push(failure);
        }
    }
    assert!(
        failures.is_empty(),
        "{} checks failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

macro_rules! checks {
    ($($subject:ident { $($name:ident,)+ })+) => {
        &[$($(Check {
            subject: stringify!($subject),
            name: stringify!($name),
            act: |items| Box::pin($subject::$name(items)),
        },)+)+]
    };
}

/// Every check, in the order of [`run`].
pub const CHECKS: &[Check] = checks! {
    tables {
        a_table_is_described_as_it_was_created,
        a_table_of_one_key_attribute_is_described_as_it_was_created,
        a_name_without_a_table_is_described_as_none,
        creating_a_table_twice_is_a_conflict_and_keeps_its_items,
        dropping_answers_whether_there_was_a_table,
        a_table_made_again_is_empty,
        every_verb_on_a_missing_table_is_invalid_and_names_it,
        a_spec_of_another_key_type_is_invalid,
    }
    put {
        a_condition_on_what_no_attribute_can_be_is_invalid,
        a_put_replaces_the_whole_item,
        absent_lets_one_put_through_and_shows_its_item_to_the_next,
        absent_looks_at_the_whole_key,
        equals_holds_for_the_same_value_only,
        equals_compares_values_of_every_type,
        equals_is_refused_where_nothing_is_there,
        a_refused_put_changes_nothing,
        a_refusal_is_a_conflict,
        an_item_without_its_key_is_invalid,
        a_key_attribute_of_another_type_is_invalid,
    }
    delete {
        a_delete_removes_that_item_alone,
        deleting_nothing_is_fine,
        a_conditional_delete_is_refused_with_what_is_there,
        a_conditional_delete_goes_through_where_its_condition_holds,
        a_deleted_item_can_be_created_again,
        a_delete_by_half_a_key_is_invalid,
    }
    values {
        every_type_reads_back_as_written,
        empty_text_and_bytes_are_values,
        numbers_are_exact_and_equal_numbers_are_one,
        numbers_beyond_doubles_are_told_apart,
        keys_of_every_type_name_items,
    }
    order {
        number_keys_order_by_value,
        text_keys_order_by_their_utf8_bytes,
        byte_keys_order_unsigned,
    }
    get {
        no_keys_bring_nothing,
        a_key_brings_its_item_or_nothing,
        many_keys_are_answered_in_their_order,
        a_get_sees_what_was_just_written,
        a_key_that_does_not_fit_is_invalid,
    }
    write {
        nothing_to_write_is_fine,
        one_write_is_written,
        many_writes_are_all_written,
        puts_and_deletes_mix,
        one_key_twice_is_invalid_and_nothing_is_written,
        an_invalid_item_among_valid_ones_keeps_all_from_being_written,
    }
    query {
        a_partition_is_seen_whole_and_alone,
        an_empty_partition_is_empty,
        text_ranges_bring_what_they_say,
        number_ranges_bring_what_they_say,
        byte_ranges_bring_what_they_say,
        a_table_without_sort_key_is_queried_by_its_partition,
        cursors_walk_everything_once_in_both_directions,
        cursors_walk_a_range_once,
        partitions_larger_than_a_page_come_in_pages,
        a_cursor_outlives_its_item,
        a_query_sees_what_was_just_written,
        what_cannot_be_asked_is_invalid,
        a_range_without_sort_key_is_invalid,
        a_cursor_from_elsewhere_is_invalid,
    }
    scan {
        an_empty_table_has_nothing_to_scan,
        segments_divide_the_table,
        limited_pages_bring_everything_once,
        tables_larger_than_a_page_come_in_pages,
        what_cannot_be_scanned_is_invalid,
    }
    indexes {
        an_index_holds_only_items_that_have_its_key,
        projections_carry_what_they_say,
        an_item_moves_within_its_indexes,
        a_deleted_item_leaves_its_indexes,
        a_local_index_is_strongly_consistent,
        a_local_index_orders_by_its_own_key,
        a_global_index_orders_by_its_own_key,
        a_global_index_without_sort_key_groups_items,
        equal_index_keys_are_walked_once_each,
        a_cursor_of_an_index_does_not_fit_the_table,
        a_wrong_index_key_is_invalid_and_nothing_is_written,
        an_index_the_caller_does_not_name_guards_its_key,
    }
    limits {
        the_largest_item_is_taken_and_one_byte_more_is_invalid,
        local_indexes_share_the_limit_of_their_item,
        the_longest_keys_are_taken_and_one_byte_more_is_invalid,
        empty_keys_are_invalid,
        values_nest_32_levels_and_no_deeper,
        empty_sets_and_names_are_invalid,
    }
    cost {
        a_put_costs_the_larger_of_both_items,
        a_delete_costs_the_item_it_removes,
        a_refused_write_costs_the_larger_of_both_items,
        indexes_cost_what_changes_in_them,
        a_local_index_entry_that_moves_costs_twice,
        gets_cost_each_item_by_itself,
        gets_take_a_request_for_every_hundred_keys,
        a_batch_costs_what_its_writes_cost,
        a_query_costs_the_sum_of_its_page,
        a_query_on_an_index_costs_what_the_index_holds,
        a_scan_costs_at_least_what_it_reads,
    }
    cost_of_nothing {
        a_get_of_nothing_costs_a_read,
        an_empty_page_costs_a_read,
        a_batch_delete_of_nothing_costs_a_write,
    }
    concurrency {
        one_of_many_creators_wins_and_the_others_are_shown_it,
        a_counter_loses_no_increment,
    }
};
