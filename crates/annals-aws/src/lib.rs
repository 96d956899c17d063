//! Annals on AWS: DynamoDB as a store ([`annals::items::Items`]), Kinesis for the time-ordered log,
//! and CloudFormation templates.
//!
//! ```text
//! facade      opens everything on DynamoDB with one call
//! client      opens the client: settings, region, credentials, timeouts
//! settings    where DynamoDB and Kinesis are, and how their clients behave
//! endpoint    checks endpoints and regions as text (pure)
//! proxy       checks the proxy as text (pure)
//! http        the HTTP client: pool, timeouts, proxy, user agent
//! items       the store operations, one short function each
//! batch       batch get and batch write: chunking, resending unprocessed entries
//! tables      create, describe and drop tables
//! retry       the only retry loop, and the only limit on connections
//! error       maps SDK failures to error kinds; the only place that knows AWS error codes
//! capacity    consumed capacity of a response
//! request     queries, conditions and batches as DynamoDB expressions (pure)
//! attribute   items as DynamoDB attributes, and back (pure)
//! kinesis     pumps streams into the log, and plays the log back to streams
//! template    CloudFormation templates (pure)
//! bench       the bare SDK, for comparison
//! ```
//!
//! Guarantees: a retry never loses a successful write, and every retry ends. No public signature
//! names an AWS type. Only `kinesis` knows about records of the log; nothing here knows about events.
//!
//! By hand on purpose: the retry loop (the SDK's own hides attempts from the cost, and a test clock
//! cannot drive it) and the mapping of numbers (38 digits, which no Rust number type has).

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
pub use tables::TableConfig;

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
