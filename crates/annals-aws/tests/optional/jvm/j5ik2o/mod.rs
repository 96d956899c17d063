//! Tests for the j5ik2o plugin alone. Tests for every plugin are in the parent module.

pub(crate) mod deletions;
pub(crate) mod hard;
pub(crate) mod histories;
pub(crate) mod keys;
pub(crate) mod names;
pub(crate) mod snapshots;
pub(crate) mod torn;

use super::both::{Both, with_each};
use super::sharing;

/// Runs a test with each pair of resolvers.
async fn with_each_keys(test: impl AsyncFn(&mut Both)) {
    with_each(sharing::of_j5ik2o(), test).await;
}
