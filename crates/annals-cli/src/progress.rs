//! Progress bars on long work: drawn on standard error, and only where that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A count that grows towards nobody knows what.
pub(crate) fn counter(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.set_style(style("{spinner} {human_pos} {msg}, {per_sec}, {elapsed}"));
    bar.set_message(what);
    bar
}

/// A share of a known number of bytes.
pub(crate) fn bytes(what: &'static str, total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    bar.set_style(style("{msg} {wide_bar} {bytes}/{total_bytes}, {eta}"));
    bar.set_message(what);
    bar
}

/// How far into a span of time, of so many milliseconds.
pub(crate) fn span(total_ms: u64) -> ProgressBar {
    let bar = ProgressBar::new(total_ms);
    bar.set_style(style("{wide_bar} {percent}% of the span, {msg}, {elapsed}"));
    bar
}

fn style(template: &str) -> ProgressStyle {
    // A template is a constant of ours; a wrong one would cost the looks, not the work.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
