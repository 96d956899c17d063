//! Which findings are repaired: only those that were confirmed.

use std::ops::RangeInclusive;

use super::{Finding, Problem, Verify};
use crate::SequenceNumber;

/// The findings that a layout should repair, if that is safe. Others may be writes in flight and are
/// only reported.
///
/// See [`Findings`](crate::layout::support::Findings) for an example.
#[derive(Clone, Debug)]
pub struct Repairs(Which);

#[derive(Clone, Debug)]
enum Which {
    None,
    All,
    These(Vec<Finding>),
}

impl Repairs {
    /// Only these: findings of the same problem with overlapping numbers.
    pub(crate) fn only(findings: Vec<Finding>) -> Self {
        Self(Which::These(findings))
    }

    /// Whether to repair a problem of these numbers.
    pub(crate) fn wants(&self, problem: Problem, numbers: &RangeInclusive<u64>) -> bool {
        match &self.0 {
            Which::None => false,
            Which::All => true,
            Which::These(findings) => {
                let mut same = findings.iter().filter(|one| one.problem == problem);
                same.any(|one| one.numbers.is_some_and(|it| overlap(it, numbers)))
            }
        }
    }
}

impl From<Verify> for Repairs {
    fn from(verify: Verify) -> Self {
        Self(match verify {
            Verify::Check => Which::None,
            Verify::Repair => Which::All,
        })
    }
}

fn overlap((from, to): (SequenceNumber, SequenceNumber), other: &RangeInclusive<u64>) -> bool {
    from.get() <= (*other.end()).max(1) && *other.start() <= to.get()
}

impl Finding {
    /// Whether this is the same finding; the numbers may have grown in the meantime.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let is_one = (&self.persistence_id, self.kind, self.problem)
            == (&other.persistence_id, other.kind, other.problem);
        is_one
            && match (self.numbers, other.numbers) {
                (Some(one), Some((from, to))) => overlap(one, &(from.get()..=to.get())),
                (None, None) => true,
                _ => false,
            }
    }
}
