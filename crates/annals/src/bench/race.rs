//! Contenders taking turns: laps of bounded time, and the medians of what they did.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::try_join_all;

use super::{Contender, Payload};
use crate::{Clock, Error, Result};

/// How a race is run.
#[derive(Clone, Debug)]
pub struct Race {
    /// How many laps each contender runs.
    pub laps: usize,
    /// How long a lap lasts at the most.
    pub lap_time: Duration,
    /// What laps are timed by.
    pub clock: Arc<dyn Clock>,
}

/// What each contender did in one lap, in puts a second, in the order of the contenders.
pub type Lap = Vec<f64>;

/// Lets the contenders run their laps in turn. The first lap warms up and does not count.
///
/// # Errors
/// The first put that fails ends the race.
pub async fn race(race: &Race, payload: Payload, contenders: &[Contender]) -> Result<Vec<Lap>> {
    let mut laps = Vec::with_capacity(race.laps);
    let numbers = Arc::new(AtomicU64::new(0));
    for lap in 0..=race.laps {
        let mut rates = Lap::with_capacity(contenders.len());
        for contender in contenders {
            rates.push(run_lap(race, payload, contender, &numbers).await?);
        }
        if lap > 0 {
            laps.push(rates);
        }
    }
    Ok(laps)
}

async fn run_lap(
    race: &Race,
    payload: Payload,
    contender: &Contender,
    numbers: &Arc<AtomicU64>,
) -> Result<f64> {
    let clock = &race.clock;
    let start = clock.monotonic();
    let writers = (0..payload.writers).map(|_| {
        let (put, clock, numbers) = (contender.put.clone(), clock.clone(), numbers.clone());
        let end = start + race.lap_time;
        tokio::spawn(async move {
            let mut done = 0u64;
            while clock.monotonic() < end {
                let number = numbers.fetch_add(1, Ordering::Relaxed);
                put(number, payload.of(number)).await?;
                done += 1;
            }
            Ok::<u64, Error>(done)
        })
    });
    let done = try_join_all(writers).await;
    let done = done.map_err(|cause| Error::unavailable("a writer was cut off").because(cause))?;
    let puts = done.into_iter().sum::<Result<u64>>()?;
    Ok(puts as f64 / (clock.monotonic() - start).as_secs_f64())
}

/// The median of one contender's laps.
pub(super) fn median_rate(laps: &[Lap], contender: usize) -> f64 {
    median(laps.iter().filter_map(|lap| lap.get(contender).copied()))
}

/// The median, over the laps, of one contender's rate against another's in the same lap.
pub(super) fn median_ratio(laps: &[Lap], contender: usize, to: usize) -> f64 {
    median(
        laps.iter()
            .filter_map(|lap| Some(lap.get(contender)? / lap.get(to)?)),
    )
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
