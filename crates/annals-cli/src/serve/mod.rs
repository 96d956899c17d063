//! The HTTP server: everything the command line does to events, for programs in any language.
//!
//! Promises: an acknowledged write is durable, and the write of a disconnected client is finished; an
//! error says what to do, as `application/problem+json`; safe by default (see `admission`).
//! Trusts: the library with every rule about events.
//! Never: keeps anything that a restart would lose.

mod admission;
mod app;
mod bulk;
mod connections;
mod feed;
mod group_lag;
mod groups;
mod health;
mod http;
mod id_view;
mod ingest;
mod items;
mod journal;
mod log;
mod metrics;
mod openapi;
mod otlp;
mod problem;
mod projection_metrics;
mod projections;
mod router;
mod snapshots;
mod sse;
mod state;
mod sweeper;
mod tables;
mod tail;
mod verify;

pub(crate) use admission::{Guard, Limits};
pub(crate) use app::App;
pub(crate) use connections::run;
pub(crate) use otlp::Otlp;
pub(crate) use problem::Problem;
