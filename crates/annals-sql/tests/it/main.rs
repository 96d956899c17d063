//! The sink on SQLite, and on the Postgres server of `ANNALS_POSTGRES_URL`, if there is one
//! (`scripts/postgres` starts one). Every test runs on both.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod basics;
mod crashes;
mod databases;
mod examples;
mod fencing;
mod ledger;
mod outages;
mod poison;
mod rebuild;
mod schema;
mod sim;
mod stage;
mod tap;

use std::sync::RwLock;

use libtest_mimic::{Arguments, Completion, Trial};
use tokio::runtime::Builder;

/// Held for writing by a test that stops the server.
static SERVER: RwLock<()> = RwLock::new(());

/// Runs an asynchronous test on a runtime of its own.
fn block_on(test: impl Future<Output = ()>) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}

/// The reason to ignore a test if an environment variable is not set.
fn missing(variable: &str) -> Option<String> {
    let is_missing = std::env::var_os(variable).is_none();
    is_missing.then(|| format!("{variable} is not set; scripts/postgres sets it"))
}

fn trial(name: &str, missing: Option<String>, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::ignorable_test(name, move || match missing {
        Some(reason) => Ok(Completion::ignored_with(reason)),
        None => {
            test();
            Ok(Completion::Completed)
        }
    })
}

macro_rules! on_both {
    ($trials:ident, $($module:ident: $($test:ident),+;)+) => {$($(
        let name = concat!(stringify!($module), "::", stringify!($test));
        $trials.push(trial(&format!("sqlite::{name}"), None, || {
            block_on($module::$test::<sqlx::Sqlite>());
        }));
        let postgres = missing("ANNALS_POSTGRES_URL");
        $trials.push(trial(&format!("postgres::{name}"), postgres, || {
            let _running = SERVER.read().unwrap();
            block_on($module::$test::<sqlx::Postgres>());
        }));
    )+)+};
}

use annals_sql::sqlx;

fn main() {
    let mut trials = Vec::new();
    on_both! { trials,
        basics: rows_follow_the_events, adapters_read_old_events, notices_reach_the_view;
        crashes: nothing_is_lost_or_twice_when_a_call_is_dropped_at_any_await,
            a_commit_that_was_not_heard_of_is_recognised,
            an_abandoned_connection_is_in_no_transaction;
        fencing: a_runner_that_is_paused_at_any_await_changes_nothing_twice,
            a_runner_that_lost_its_share_is_refused,
            a_late_runner_does_not_take_the_share_back,
            rows_of_another_store_are_refused,
            rows_after_the_point_of_a_restore_are_refused;
        poison: a_share_stops_before_the_append_that_fails,
            dead_letters_are_retried_once,
            a_panic_is_the_events_fault,
            a_constraint_that_is_checked_at_the_commit_finds_its_event,
            dead_letters_survive_a_crash_after_the_commit;
        rebuild: a_revision_is_built_beside_the_live_one;
        schema: tables_with_other_columns_are_named,
            a_missing_table_stops_the_share_until_it_is_there;
        sim: rows_equal_the_journal_whatever_fails;
    }
    trials.push(trial(
        "sqlite::outages::a_locked_file_loses_nothing",
        None,
        || {
            block_on(outages::a_locked_file_loses_nothing());
        },
    ));
    let control = missing("ANNALS_POSTGRES_CTL");
    let name = "postgres::outages::a_server_that_restarts_loses_nothing";
    trials.push(trial(name, control, || {
        let _alone = SERVER.write().unwrap();
        block_on(outages::a_server_that_restarts_loses_nothing());
    }));
    trials.push(trial(
        "sqlite::examples::open_carts_counts_each_event_once",
        None,
        || {
            examples::open_carts_counts_each_event_once();
        },
    ));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
