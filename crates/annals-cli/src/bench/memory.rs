//! The memory of this process at its highest, as Linux tells it.
//!
//! Promises: where the system does not tell, or does not let the peak be forgotten, it is unknown,
//! and nothing fails.

/// The most memory this process had since it began, or since the peak was forgotten.
pub(super) fn peak_kib() -> Option<u64> {
    status_kib("VmHWM")
}

/// The memory this process has now, in bytes.
pub(super) fn resident_bytes() -> Option<u64> {
    status_kib("VmRSS").map(|kib| kib * 1_024)
}

fn status_kib(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// A stretch of work, and the memory that the process had when it began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    began_kib: u64,
}

impl Stretch {
    /// Begins one: the peak so far is forgotten, so that it does not hide a smaller one.
    pub(super) fn begin() -> Option<Self> {
        // 5 is what the kernel forgets the peak for.
        std::fs::write("/proc/self/clear_refs", "5").ok()?;
        let began_kib = peak_kib()?;
        Some(Self { began_kib })
    }

    /// How much more the process has had since, at its highest.
    pub(super) fn added_kib(self) -> Option<u64> {
        Some(peak_kib()?.saturating_sub(self.began_kib))
    }
}
