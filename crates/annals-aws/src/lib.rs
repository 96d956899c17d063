//! Annals on AWS: the waist, [`annals::items::Items`], spoken to DynamoDB and to what
//! speaks like it.
//!
//! ```text
//! facade      everything on DynamoDB, opened at once
//! client      opening: settings, region, credentials, timeouts
//! endpoint    addresses and regions, checked as text (pure)
//! http        the HTTP client under the SDK's: pool, timeouts, proxy, user agent
//! proxy       the proxy in front of DynamoDB, checked as text (pure)
//! items       the verbs, a short function each
//! batch       the two verbs that take any number: chunks, unprocessed ones sent again
//! tables      create, describe, drop
//! retry       the only loop that repeats a request, and the only limit on connections
//! error       what a failure of the SDK means; one place
//! capacity    what an answer cost
//! settings    where DynamoDB and Kinesis are, and how their clients behave
//! request     queries, conditions and batches as DynamoDB's expressions (pure)
//! attribute   items as DynamoDB's attributes (pure)
//! kinesis     streams pumped into the log, and the log played back to streams
//! template    tables, streams and functions as a template of CloudFormation (pure)
//! ```
//!
//! Promises: a retry never turns a landed write into a lost one, and nothing is retried for ever.
//! Never: shows a type of AWS in a public signature, or knows what an event is; but for `kinesis`, which knows
//! records of the log.

mod attribute;
mod batch;
mod capacity;
mod client;
mod endpoint;
mod error;
mod facade;
mod http;
mod items;
mod proxy;
mod request;
mod retry;
mod settings;
mod tables;

#[doc(hidden)]
pub mod bench;
pub mod kinesis;
pub mod template;

pub use client::DynamoDb;
pub use facade::{create, open};
pub use settings::{AwsClientSettings, AwsSettings, KinesisSettings};
pub use tables::TableCare;
