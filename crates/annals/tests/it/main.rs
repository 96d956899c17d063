//! The library from outside: stores against the conformance suite, decorators, house rules.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod akka_cost;
mod akka_deletion;
mod akka_fixtures;
mod akka_hazards;
mod akka_highest;
mod akka_jvm_deletes;
mod akka_plugin;
mod akka_snapshot_hazards;
mod bench;
mod conformance;
mod copy;
mod counting;
mod crash;
mod default_settings;
mod embedded;
mod entity_bank;
mod entity_codecs;
mod entity_derive;
mod entity_durable;
mod entity_hosts;
mod entity_recovery;
mod entity_region;
mod example_run;
mod examples;
mod faulty;
mod gate;
mod j5ik2o_chapters;
mod j5ik2o_cost;
mod j5ik2o_fixtures;
mod j5ik2o_golden_items;
mod j5ik2o_golden_stores;
mod j5ik2o_hazards;
mod j5ik2o_plugin;
mod j5ik2o_resolvers;
mod j5ik2o_snapshot_hazards;
mod j5ik2o_snapshot_lag;
mod j5ik2o_state_hazards;
mod j5ik2o_state_schedules;
mod j5ik2o_stores_cost;
mod j5ik2o_stores_plugin;
mod journal_cost;
mod journal_format;
mod journal_model;
mod journal_parts;
mod journal_recovery;
mod journal_signatures;
mod journals;
mod jvm_lines;
mod large_payloads;
mod log_cost;
mod log_fixtures;
mod log_original;
mod log_pump;
mod log_races;
mod log_sim;
mod properties;
mod readme_ja;
mod scripted;
mod sealed_format;
mod sealed_parts;
mod sim;
mod tidy;
mod verify;

use std::sync::Arc;

use annals::items::{Item, Items, Key, KeyAttribute, KeySchema, TableSpec};
use annals::memory::Memory;

/// A store in memory with one table of numbered items.
async fn table() -> (Arc<Memory>, TableSpec) {
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("n"));
    let spec = TableSpec::new("numbered".parse().unwrap(), key).unwrap();
    let memory = Arc::new(Memory::new());
    memory
        .create_table(&spec, Default::default())
        .await
        .unwrap();
    (memory, spec)
}

fn item(n: u64) -> Item {
    Item::new().with("p", "a").with("n", n)
}

fn key(n: u64) -> Key {
    Key::new("a").sorted(n)
}
