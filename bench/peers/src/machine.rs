//! CPU time, memory and disk use, from Linux's `/proc`.

use std::path::Path;

use crate::Result;

/// The CPU time of this process so far, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    // Clock ticks are hundredths of a second on Linux.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let fields = fields.split_whitespace().skip(11).take(2);
    fields
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}

/// Bytes that this process has sent to the disk so far.
pub(crate) fn bytes_written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|bytes| bytes.parse().ok())
        .unwrap_or_default()
}

/// Resident memory in MiB.
pub(crate) fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}

/// Bytes of the files below a folder.
pub(crate) fn disk_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => disk_bytes(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}

/// The number in the middle; of two, the higher one.
pub(crate) fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The median with the lowest and the highest, to two digits.
pub(crate) fn spread(numbers: &[f64]) -> serde_json::Value {
    let round = |number: f64| (number * 100.0).round() / 100.0;
    let lowest = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = numbers.iter().copied().fold(0.0, f64::max);
    serde_json::json!([round(median(numbers)), round(lowest), round(highest)])
}
