//! The pages of the book (`docs`) with Rust samples: each sample is a doc test.
//!
//! Samples in other pages are copies of examples; the test `book` rejects anything else.

#[doc = include_str!("../../../docs/guides/cost.md")]
struct Cost;

#[doc = include_str!("../../../docs/guides/feed.md")]
struct Feed;

#[doc = include_str!("../../../docs/guides/groups.md")]
struct Groups;

#[doc = include_str!("../../../docs/guides/hosts.md")]
struct Hosts;

#[doc = include_str!("../../../docs/guides/http-errors.md")]
struct HttpErrors;

#[doc = include_str!("../../../docs/guides/projections.md")]
struct Projections;

#[doc = include_str!("../../../docs/guides/schema-evolution.md")]
struct SchemaEvolution;

#[doc = include_str!("../../../docs/guides/testing.md")]
struct Testing;
