//! The reports of writers: lines on standard output, and their combined record.

use annals_testkit::tck::record::{Outcome, Record};
use serde::{Deserialize, Serialize};

use super::IDS;

/// Distinguishes the lines of a writer from those of the test harness.
const PREFIX: &str = "said ";

/// A report: before an attempt its intention, afterwards its outcome. Ids are indexes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Report {
    Begin {
        attempt: usize,
        id: usize,
        count: u64,
        is_large: bool,
    },
    Acked {
        attempt: usize,
        first: u64,
        last: u64,
    },
    Refused {
        attempt: usize,
    },
    /// One attempt of an append ended in `Unavailable`.
    Unanswered {
        attempt: usize,
    },
    Deleting {
        id: usize,
        to: u64,
    },
    Deleted {
        id: usize,
        to: u64,
    },
    /// Events that were read, by number and label.
    Saw {
        id: usize,
        read: Vec<(u64, String)>,
    },
    /// A read did not find the events up to here.
    PassedOver {
        id: usize,
        to: u64,
    },
    Violated(String),
}

impl Report {
    pub(super) fn to_line(&self) -> String {
        format!("{PREFIX}{}\n", serde_json::to_string(self).unwrap())
    }

    /// Parses a line; `None` for one of the harness, and for an incomplete line of a killed writer.
    pub(super) fn from_line(line: &str) -> Option<Self> {
        let json = line.strip_suffix('\n')?.strip_prefix(PREFIX)?;
        Some(serde_json::from_str(json).unwrap())
    }
}

/// Counts of what has happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) acked: u64,
    pub(super) refused: u64,
    pub(super) unknown: u64,
    pub(super) unanswered: u64,
    pub(super) large: u64,
    pub(super) deleted: u64,
    pub(super) pauses: u64,
    pub(super) kills: u64,
}

impl Counts {
    pub(super) fn is_enough(&self, least: &Self) -> bool {
        let all = |met: &Self| {
            [
                met.acked,
                met.refused,
                met.unknown,
                met.unanswered,
                met.large,
                met.deleted,
                met.pauses,
                met.kills,
            ]
        };
        all(self).iter().zip(all(least)).all(|(met, n)| *met >= n)
    }
}

/// The reports of all writers.
pub(super) struct Reports {
    pub(super) record: Record,
    pub(super) met: Counts,
    /// Up to where each id must be deleted, because readers did not find it.
    passed_over: [u64; IDS],
}

impl Reports {
    pub(super) fn new() -> Self {
        Self {
            record: Record::of(IDS, false),
            met: Counts::default(),
            passed_over: [0; IDS],
        }
    }

    pub(super) fn take(&mut self, said: Report) {
        let (record, met) = (&mut self.record, &mut self.met);
        let raise = |to: &mut u64, by: u64| *to = by.max(*to);
        match said {
            Report::Begin {
                attempt,
                id,
                count,
                is_large,
            } => {
                record.begin_as(attempt, id, count);
                met.large += u64::from(is_large);
            }
            Report::Acked {
                attempt,
                first,
                last,
            } => {
                record.acked(attempt, first, last);
                met.acked += 1;
            }
            Report::Refused { attempt } => {
                record.refused(attempt);
                met.refused += 1;
            }
            Report::Unanswered { .. } => met.unanswered += 1,
            Report::Deleting { id, to } => raise(&mut record.deletion_tried[id], to),
            Report::Deleted { id, to } => {
                raise(&mut record.deleted[id], to);
                met.deleted += 1;
            }
            Report::Saw { id, read } => record.saw_labels(id, read),
            Report::PassedOver { id, to } => raise(&mut self.passed_over[id], to),
            Report::Violated(what) => record.violated(what),
        }
    }

    /// The counts so far; so many appends may be in flight.
    pub(super) fn met(&self, under_way: usize) -> Counts {
        let outcomes = self.record.attempts.values().map(|begun| begun.outcome);
        let unknown = outcomes.filter(|outcome| *outcome == Outcome::Unknown);
        Counts {
            unknown: unknown.count().saturating_sub(under_way) as u64,
            ..self.met
        }
    }

    /// All reports are in: events that readers did not find were deleted.
    pub(super) fn check_passed_over(&mut self) {
        for (id, to) in self.passed_over.into_iter().enumerate() {
            if to > self.record.deletion_tried[id] {
                let what = format!("id {id}: a reader did not find {to}, which was not deleted");
                self.record.violated(what);
            }
        }
    }
}
