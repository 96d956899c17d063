//! The plugin of j5ik2o, which has tables and rules of its own. What holds with every plugin is in
//! the files beside this folder.

mod deletions;
mod hard;
mod histories;
mod keys;
mod names;
mod snapshots;
mod torn;

use super::both::{Both, with_each};
use super::sharing;

/// Runs a test with each pair of resolvers.
async fn with_each_keys(test: impl AsyncFn(&mut Both)) {
    with_each(sharing::of_j5ik2o(), test).await;
}
