//! Runs the binary as a person or a script does.
//!
//! Scenarios run on every store: embedded, and DynamoDB, which is an emulator in this process or the
//! server that `ANNALS_TEST_DYNAMODB` names.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod append_bulk;
mod bad_input;
mod bad_lines;
mod bench;
mod beside_owner;
mod beside_server;
mod book_commands;
#[allow(
    dead_code,
    reason = "only its tests are run here; the example uses the rest"
)]
#[path = "../../examples/shop/cart.rs"]
mod cart;
mod codecs;
mod command_line_page;
mod config;
mod copy;
mod copy_killed;
mod copying;
mod costs;
mod deletions;
mod disk_reserve;
#[path = "../../../annals/tests/it/example_run.rs"]
mod example_run;
mod examples;
mod feed;
mod generated;
mod group;
mod j5ik2o;
mod j5ik2o_settings;
mod journal;
mod log;
mod moving;
#[path = "../../examples/shop/open_carts.rs"]
mod open_carts;
mod piped;
mod projection;
mod projection_programs;
mod reading;
mod run;
mod serve_bulk;
mod serve_cbor;
mod serve_client;
mod serve_crash;
mod serve_document;
mod serve_ids;
mod serve_journal;
mod serve_limits;
mod serve_log;
mod serve_projection;
mod serve_stores;
mod serve_tail;
mod serve_traces;
mod shop_killed;
mod tables;
mod terminal;
mod verify;
