//! Random numbers, from a seed or from the machine. Not for secrets.
//!
//! Guarantees: a seed always gives the same numbers, on every machine. No other code in the workspace
//! draws random numbers.

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
    /// A sequence determined by the seed.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    /// A sequence seeded by the machine.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that seeds from the machine"
    )]
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

    /// A number below `end`; zero if `end` is zero.
    pub fn below(&self, end: u64) -> u64 {
        if end == 0 {
            return 0;
        }
        self.with(|rng| rng.u64(..end))
    }

    /// True with a probability of `per_mille` thousandths.
    pub fn happens(&self, per_mille: u32) -> bool {
        self.below(1_000) < u64::from(per_mille)
    }

    /// A random duration of up to `most` ("full jitter").
    pub fn jitter(&self, most: Duration) -> Duration {
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.below(nanos.saturating_add(1)))
    }
}
