//! The library from outside: stores against the conformance suite, decorators, house rules.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod book;
mod chunk_stage;
mod conformance;
mod counting;
mod crash;
mod default_settings;
mod embedded;
mod embedded_beside;
mod embedded_files;
mod entity_bank;
mod entity_codecs;
mod entity_derive;
mod entity_durable;
mod entity_hosts;
mod entity_metadata;
mod entity_purge;
mod entity_recovery;
mod entity_region;
mod entity_unencodable;
mod envelope_chunks;
mod envelope_format;
mod erasure;
mod example_run;
mod examples;
mod faulty;
mod feed;
mod group_sim;
mod id_view;
mod journal_chunks;
mod journal_cost;
mod journal_format;
mod journal_model;
mod journal_recovery;
mod journal_repeats;
mod journal_signatures;
mod large_payloads;
mod log_cost;
mod log_fixtures;
mod log_original;
mod log_pump;
mod log_races;
mod log_refusals;
mod log_sim;
mod module_graph;
mod noted;
mod packaging;
mod projection;
mod projection_bad_input;
mod projection_sim;
mod properties;
mod public_api;
mod readme_ja;
mod restored_feed;
mod retention;
mod scripted;
mod sim;
mod state_deletion;
mod tidy;

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
