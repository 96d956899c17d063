//! Settings of the core: plain data whose default runs.
//!
//! Guarantees: every key is optional, and an unknown key is refused.

mod log;
pub mod optional;

pub use log::LogSettings;

use serde::{Deserialize, Serialize};

/// How the embedded store behaves.
///
/// ```
/// use annals::embedded::Embedded;
/// use annals::settings::EmbeddedSettings;
///
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let folder = folder.path().join("data");
/// let settings = EmbeddedSettings { cache_mib: 16, ..EmbeddedSettings::default() };
/// let items = Embedded::open(&folder, &settings)?;
/// assert_eq!(settings.reserve_mib, 64);
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct EmbeddedSettings {
    /// Writes are refused while the disk has fewer MiB free. Smaller: less room for the engine
    /// to compact and recover in. Larger: disk that stays unused.
    pub reserve_mib: u64,
    /// How much memory the engine may use to keep blocks it has read. Smaller: more reads reach
    /// the disk. Larger: less memory for the application.
    pub cache_mib: u64,
}

impl Default for EmbeddedSettings {
    fn default() -> Self {
        Self {
            reserve_mib: 64,
            cache_mib: 64,
        }
    }
}
