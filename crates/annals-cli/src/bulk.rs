//! Bulk appends as lines of JSON: what the server takes and answers at `/v1/append`, and what
//! `annals append --bulk` reads and prints.
//!
//! Promises: a line has the members of a single append, and its id and key; a result has what a single
//! append answers, and an error the number of its line. A line that is not an append is refused by
//! itself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals::journal::{AppendError, Appended, BulkAppend, Expected};
use annals::{Error, ErrorKind, PersistenceId, Result};
use serde::{Serialize, Serializer};
use serde_json::value::to_raw_value;

use crate::serve::Problem;
use crate::wire;

/// The append in a line.
pub(crate) fn parse(line: &[u8]) -> Result<BulkAppend> {
    let sent: wire::BulkAppend<'_> = serde_json::from_slice(line).map_err(|cause| {
        Error::invalid(
            "line is not an append, {\"persistence_id\":…,\"events\":[…]}; nothing of it was written",
        )
        .because(cause)
    })?;
    sent.bulk_append()
}

/// The numbers of the lines that were read and have no result yet: results have the order of lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineNumbers(Arc<Mutex<VecDeque<u64>>>);

impl LineNumbers {
    /// Adds the line that is read next.
    pub(crate) fn push(&self, number: u64) {
        self.lock().push_back(number);
    }

    /// The line of the next result.
    pub(crate) fn pop(&self) -> Option<u64> {
        self.lock().pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of a line.
#[derive(Debug)]
pub(crate) enum Outcome {
    Appended(PersistenceId, Appended),
    Refused(Problem),
}

impl Outcome {
    /// Adds the result to the lines before it.
    pub(crate) fn write_line(&self, lines: &mut Vec<u8>) {
        // Text and numbers always become JSON, and memory takes all of it.
        let _ = serde_json::to_writer(&mut *lines, self);
        lines.push(b'\n');
    }

    /// The result for people.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Appended(id, appended) if appended.first == appended.last => {
                format!("{id} {}", appended.last)
            }
            Self::Appended(id, appended) => format!("{id} {}-{}", appended.first, appended.last),
            Self::Refused(problem) => format!("{}: {}", problem.wire().kind, problem.wire().detail),
        }
    }

    /// Adds the number of the line to its error, if there is one.
    pub(crate) fn at_line(self, number: Option<u64>) -> Self {
        match (self, number) {
            (Self::Refused(problem), Some(number)) => Self::Refused(problem.fact("line", number)),
            (outcome, _) => outcome,
        }
    }

    /// The kind of its error, if there is one.
    pub(crate) fn error_kind(&self) -> Option<ErrorKind> {
        match self {
            Self::Appended(..) => None,
            Self::Refused(problem) => Some(problem.error_kind()),
        }
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Appended(id, appended) => {
                wire::BulkAppended::new(id, appended).serialize(serializer)
            }
            Self::Refused(problem) => problem.wire().serialize(serializer),
        }
    }
}

/// The problem of an append that failed. A conflict has the events appended since, as far as they are
/// known.
pub(crate) fn problem(error: AppendError, expected: Expected) -> Problem {
    match error {
        // Without an expectation nothing is wrong: other writers were faster.
        AppendError::Conflict(conflict) if expected == Expected::Any => {
            Problem::unavailable(format!(
                "other writers keep being faster; nothing was appended, try again. id=`{}`",
                conflict.id
            ))
        }
        AppendError::Conflict(conflict) => {
            let found = conflict.found.iter().map(wire::StoredEvent::new);
            let found = found
                .filter_map(|event| to_raw_value(&event).ok())
                .collect();
            let error = Error::from(AppendError::Conflict(conflict));
            Problem::from(error).with(|it| it.found = Some(found))
        }
        other => Problem::from(Error::from(other)),
    }
}
