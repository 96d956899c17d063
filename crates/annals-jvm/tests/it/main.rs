//! The layouts of the JVM plugins: what the plugins wrote, what they would read, and their hazards.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod akka_cost;
mod akka_deletion;
mod akka_fixtures;
mod akka_hazards;
mod akka_highest;
mod akka_jvm_deletes;
mod akka_plugin;
mod akka_snapshot_hazards;
mod copy;
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
mod jvm_lines;
mod verify;
