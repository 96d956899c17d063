//! The memory of this process, from Linux's `/proc`.
//!
//! Guarantees: if the system does not report the peak, or cannot reset it, it is unknown; nothing
//! fails.

/// The peak memory of this process since its start, or since the last reset.
pub(super) fn peak_kib() -> Option<u64> {
    status_kib("VmHWM")
}

/// The resident memory of this process, in bytes.
pub(super) fn resident_bytes() -> Option<u64> {
    status_kib("VmRSS").map(|kib| kib * 1_024)
}

fn status_kib(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// A period of work, with the memory at its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    began_kib: u64,
}

impl Stretch {
    /// Begins a period: resets the peak, which would hide a smaller one.
    pub(super) fn begin() -> Option<Self> {
        // The kernel resets the peak when 5 is written.
        std::fs::write("/proc/self/clear_refs", "5").ok()?;
        let began_kib = peak_kib()?;
        Some(Self { began_kib })
    }

    /// The peak since then, above the memory at the start.
    pub(super) fn added_kib(self) -> Option<u64> {
        Some(peak_kib()?.saturating_sub(self.began_kib))
    }
}
