//! The HTTP server: everything the command line does to events, for programs in any language.
//!
//! Promises: a write that was answered is durable, and one whose caller went away is finished; an
//! error says what to do, as `application/problem+json`; safe by default (see `auth` and
//! `limits`).
//! Trusts: the library with every rule about events.
//! Never: keeps anything that a restart would lose.

mod app;
mod auth;
mod connections;
mod entrance;
mod finishing;
mod health;
mod idempotency;
mod ingest;
mod journal;
mod limits;
mod lines;
mod log;
mod metrics;
mod openapi;
mod otlp;
mod problem;
mod request;
mod response;
mod router;
mod snapshots;
mod sse;
mod state;
mod sweeper;
mod tables;
mod tail;
mod turns;
mod under_way;
mod verify;

pub(crate) use app::App;
pub(crate) use auth::Guard;
pub(crate) use connections::run;
pub(crate) use limits::Limits;
pub(crate) use otlp::Otlp;
