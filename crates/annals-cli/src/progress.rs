//! Progress bars for long work, on standard error and only at a terminal.

use std::time::Duration;

use annals::{Clock, SystemClock};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter work shows no bar: it would only flash.
const DELAY: Duration = Duration::from_millis(500);

/// A counter without a known total.
pub(crate) fn counter(what: &'static str) -> ProgressBar {
    let bar = delayed(ProgressBar::new_spinner());
    bar.set_style(style("{spinner} {human_pos} {msg}, {elapsed}"));
    bar.set_message(what);
    bar
}

/// Progress through a known number of bytes.
pub(crate) fn bytes(what: &'static str, total: u64) -> ProgressBar {
    let bar = delayed(ProgressBar::new(total));
    bar.set_style(style("{msg} {wide_bar} {bytes}/{total_bytes}, {eta}"));
    bar.set_message(what);
    bar
}

/// Progress through a time span in milliseconds.
pub(crate) fn span(total_ms: u64) -> ProgressBar {
    let bar = delayed(ProgressBar::new(total_ms));
    bar.set_style(style("{wide_bar} {percent}% of the span, {msg}, {elapsed}"));
    bar
}

/// The same bar, shown after a while unless it is finished by then. One that is dropped is cleared.
fn delayed(bar: ProgressBar) -> ProgressBar {
    bar.set_draw_target(ProgressDrawTarget::hidden());
    let shown = bar.downgrade();
    tokio::spawn(async move {
        SystemClock::new().sleep(DELAY).await;
        if let Some(bar) = shown.upgrade().filter(|bar| !bar.is_finished()) {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    });
    bar
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants; a wrong one would only spoil the looks.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
