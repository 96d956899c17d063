//! Which findings are repaired: those that were seen to stand, and no others.

use super::{Finding, Problem, Verify};
use crate::SequenceNumber;

/// Which findings a layout is to repair, where that is safe. What it meets besides them may be the
/// work of somebody who is writing, and is only told.
///
/// ```
/// use annals::verify::{Problem, Repairs, Verify};
///
/// assert!(!Repairs::from(Verify::Look).wants(Problem::Leftover, (1, 2)));
/// assert!(Repairs::from(Verify::Repair).wants(Problem::Leftover, (1, 2)));
/// ```
#[derive(Clone, Debug)]
pub struct Repairs(Which);

#[derive(Clone, Debug)]
enum Which {
    None,
    All,
    These(Vec<Finding>),
}

impl Repairs {
    /// These, and what shares numbers and problem with one of them.
    pub(crate) fn these(findings: Vec<Finding>) -> Self {
        Self(Which::These(findings))
    }

    /// Whether this is to be repaired.
    pub fn wants(&self, problem: Problem, (from, to): (u64, u64)) -> bool {
        match &self.0 {
            Which::None => false,
            Which::All => true,
            Which::These(findings) => {
                let mut numbers = findings.iter().filter(|one| one.problem == problem);
                numbers.any(|one| one.numbers.is_some_and(|it| overlap(it, (from, to))))
            }
        }
    }
}

impl From<Verify> for Repairs {
    fn from(verify: Verify) -> Self {
        Self(match verify {
            Verify::Look => Which::None,
            Verify::Repair => Which::All,
        })
    }
}

fn overlap((one_from, one_to): (SequenceNumber, SequenceNumber), (from, to): (u64, u64)) -> bool {
    one_from.get() <= to.max(1) && from <= one_to.get()
}

impl Finding {
    /// Whether another look has found the same: the numbers may have grown meanwhile.
    pub(super) fn is_again(&self, other: &Self) -> bool {
        let is_one = (&self.persistence_id, self.of, self.problem)
            == (&other.persistence_id, other.of, other.problem);
        is_one
            && match (self.numbers, other.numbers) {
                (Some(one), Some((from, to))) => overlap(one, (from.get(), to.get())),
                (None, None) => true,
                _ => false,
            }
    }
}
