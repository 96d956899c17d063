//! Tests that are reported as ignored, with the reason, if this machine lacks what they need.

use libtest_mimic::{Completion, Trial};

/// A test that runs if nothing is missing.
pub(crate) fn trial(
    name: &str,
    missing: Option<String>,
    test: impl FnOnce() + Send + 'static,
) -> Trial {
    Trial::ignorable_test(name, move || match missing {
        Some(reason) => Ok(Completion::ignored_with(reason)),
        None => {
            test();
            Ok(Completion::Completed)
        }
    })
}

/// The reason to ignore a test if an environment variable is not set.
pub(crate) fn missing_variable(name: &str) -> Option<String> {
    std::env::var_os(name)
        .is_none()
        .then(|| format!("{name} is not set; scripts/conformance sets it"))
}
