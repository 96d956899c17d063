//! The door through which randomness enters.
//!
//! Promises: a [`Random`] made from a seed gives the same numbers for ever, on every machine.
//! Never: is used for secrets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A source of random numbers, from a seed or from the machine. Clones share one sequence.
///
/// ```
/// use annals::Random;
///
/// assert_eq!(Random::seeded(7).below(1_000), Random::seeded(7).below(1_000));
/// ```
#[derive(Clone, Debug)]
pub struct Random(Arc<Mutex<fastrand::Rng>>);

impl Random {
    /// A sequence that the seed alone decides.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    /// A sequence nobody can repeat.
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    pub fn from_machine() -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::new())))
    }

    fn with<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.0.lock().unwrap_or_else(|e| e.into_inner()))
    }

    /// Any 64 bits.
    pub fn bits(&self) -> u64 {
        self.with(|rng| rng.u64(..))
    }

    /// A number below `end`; zero where `end` is zero.
    pub fn below(&self, end: u64) -> u64 {
        if end == 0 {
            return 0;
        }
        self.with(|rng| rng.u64(..end))
    }

    /// Whether something with this chance (in thousandths) happens.
    pub fn happens(&self, per_mille: u32) -> bool {
        self.below(1_000) < u64::from(per_mille)
    }

    /// A time between nothing and `most`, evenly spread ("full jitter").
    pub fn jitter(&self, most: Duration) -> Duration {
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.below(nanos.saturating_add(1)))
    }
}
