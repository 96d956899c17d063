//! What is reported with `tracing`, for tests of reports.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Notes events as text.
#[derive(Clone, Default)]
pub(crate) struct Noted(Arc<Mutex<String>>);

impl Noted {
    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl Subscriber for Noted {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Visit for Noted {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = self.0.lock().unwrap();
        let _ = writeln!(text, "{field}={value:?}");
    }
}
