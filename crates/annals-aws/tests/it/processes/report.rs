//! What a writer says on its standard output, a line each, and what comes of all that they say.

use annals_testkit::tck::record::{Outcome, Record};
use serde::{Deserialize, Serialize};

use super::IDS;

/// Tells a writer's lines from those of the test harness around it.
const PREFIX: &str = "said ";

/// Before an attempt what is about to be done, after it how it ended. Ids go by their index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Said {
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
    /// One try of an append ended in `Unavailable`.
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
    /// Events up to here were asked for and not there.
    PassedOver {
        id: usize,
        to: u64,
    },
    Violated(String),
}

impl Said {
    pub(super) fn to_line(&self) -> String {
        format!("{PREFIX}{}\n", serde_json::to_string(self).unwrap())
    }

    /// What a line says; `None` for one of the harness's own, and for the last of a writer that was
    /// killed while it wrote.
    pub(super) fn from_line(line: &str) -> Option<Self> {
        let json = line.strip_suffix('\n')?.strip_prefix(PREFIX)?;
        Some(serde_json::from_str(json).unwrap())
    }
}

/// How often what the test is about has happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Met {
    pub(super) acked: u64,
    pub(super) refused: u64,
    pub(super) unknown: u64,
    pub(super) unanswered: u64,
    pub(super) large: u64,
    pub(super) deleted: u64,
    pub(super) pauses: u64,
    pub(super) kills: u64,
}

impl Met {
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

/// What all writers have said.
pub(super) struct Told {
    pub(super) record: Record,
    pub(super) met: Met,
    /// Up to where each id must have been deleted, since readers did not find it.
    passed_over: [u64; IDS],
}

impl Told {
    pub(super) fn new() -> Self {
        Self {
            record: Record::of(IDS, false),
            met: Met::default(),
            passed_over: [0; IDS],
        }
    }

    pub(super) fn take(&mut self, said: Said) {
        let (record, met) = (&mut self.record, &mut self.met);
        let raise = |to: &mut u64, by: u64| *to = by.max(*to);
        match said {
            Said::Begin {
                attempt,
                id,
                count,
                is_large,
            } => {
                record.begin_as(attempt, id, count);
                met.large += u64::from(is_large);
            }
            Said::Acked {
                attempt,
                first,
                last,
            } => {
                record.acked(attempt, first, last);
                met.acked += 1;
            }
            Said::Refused { attempt } => {
                record.refused(attempt);
                met.refused += 1;
            }
            Said::Unanswered { .. } => met.unanswered += 1,
            Said::Deleting { id, to } => raise(&mut record.deletion_tried[id], to),
            Said::Deleted { id, to } => {
                raise(&mut record.deleted[id], to);
                met.deleted += 1;
            }
            Said::Saw { id, read } => record.saw_labels(id, read),
            Said::PassedOver { id, to } => raise(&mut self.passed_over[id], to),
            Said::Violated(what) => record.violated(what),
        }
    }

    /// What was met so far, while so many appends may be under way.
    pub(super) fn met(&self, under_way: usize) -> Met {
        let outcomes = self.record.attempts.values().map(|begun| begun.outcome);
        let unknown = outcomes.filter(|outcome| *outcome == Outcome::Unknown);
        Met {
            unknown: unknown.count().saturating_sub(under_way) as u64,
            ..self.met
        }
    }

    /// Everybody has said everything: what readers did not find was deleted.
    pub(super) fn check_passed_over(&mut self) {
        for (id, to) in self.passed_over.into_iter().enumerate() {
            if to > self.record.deletion_tried[id] {
                let what = format!("id {id}: a reader did not find {to}, which nobody deleted");
                self.record.violated(what);
            }
        }
    }
}
