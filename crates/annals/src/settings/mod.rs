//! Settings of the core: plain data with working defaults.
//!
//! Guarantees: every key is optional, unknown keys are rejected.

mod log;
// For the settings of our other crates.
#[doc(hidden)]
pub mod optional;

pub use log::LogSettings;

use serde::{Deserialize, Serialize};

/// Settings of the embedded store.
///
/// ```
/// use annals::embedded::Embedded;
/// use annals::settings::EmbeddedSettings;
///
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let folder = folder.path().join("data");
/// let settings = EmbeddedSettings::default().cache_mib(16);
/// let items = Embedded::open(&folder, &settings)?;
/// assert_eq!(settings.reserve_mib, 64);
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct EmbeddedSettings {
    /// Writes are refused while the disk has fewer MiB free. Smaller: less space for compaction and
    /// recovery. Larger: more unused disk space.
    pub reserve_mib: u64,
    /// The engine's block cache. Smaller: more reads go to the disk. Larger: less memory for the
    /// application.
    pub cache_mib: u64,
    /// Reads all files in the background, so many MiB a second, and again a day later; damage is logged
    /// and counted. 0: off. Larger: damage is found sooner, and takes more of the disk.
    pub scrub_mib_per_second: u64,
}

impl EmbeddedSettings {
    /// Sets [`reserve_mib`](Self#structfield.reserve_mib).
    #[must_use]
    pub fn reserve_mib(mut self, mib: u64) -> Self {
        self.reserve_mib = mib;
        self
    }

    /// Sets [`cache_mib`](Self#structfield.cache_mib).
    #[must_use]
    pub fn cache_mib(mut self, mib: u64) -> Self {
        self.cache_mib = mib;
        self
    }

    /// Sets [`scrub_mib_per_second`](Self#structfield.scrub_mib_per_second).
    #[must_use]
    pub fn scrub_mib_per_second(mut self, mib: u64) -> Self {
        self.scrub_mib_per_second = mib;
        self
    }
}

impl Default for EmbeddedSettings {
    fn default() -> Self {
        Self {
            reserve_mib: 64,
            cache_mib: 64,
            scrub_mib_per_second: 0,
        }
    }
}
