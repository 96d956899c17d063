//! Runs contenders alternately in laps of limited time, and finds the median lap.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;

use super::{Contender, Payload};
use annals::{Clock, Error, Result};

/// How a race is run.
#[derive(Clone, Debug)]
pub(crate) struct Race {
    /// How many laps each contender runs.
    pub(crate) laps: usize,
    /// The time limit of a lap.
    pub(crate) lap_time: Duration,
    /// Times the laps.
    pub(crate) clock: Arc<dyn Clock>,
}

/// The puts per second of each contender in one lap, in the order of the contenders.
pub(crate) type Lap = Vec<f64>;

/// Runs the laps of the contenders alternately. The first lap is a warm-up and does not count.
///
/// # Errors
/// The first put that fails ends the race.
pub(crate) async fn race(
    race: &Race,
    payload: Payload,
    contenders: &[Contender],
) -> Result<Vec<Lap>> {
    let mut laps = Vec::with_capacity(race.laps);
    let mut first = 0;
    for lap in 0..=race.laps {
        let mut rates = Lap::with_capacity(contenders.len());
        // The order alternates: a store slows down as it grows.
        let mut order: Vec<&Contender> = contenders.iter().collect();
        if lap % 2 == 1 {
            order.reverse();
        }
        for contender in order {
            let rate;
            (rate, first) = run_lap(race, payload, contender, first).await?;
            rates.push(rate);
        }
        if lap % 2 == 1 {
            rates.reverse();
        }
        if lap > 0 {
            laps.push(rates);
        }
    }
    Ok(laps)
}

/// Runs one lap, with puts numbered from `first`; numbers are skipped only at its end. Returns the
/// puts per second, and the first number of the next lap.
///
/// Writer `w` of `n` uses the numbers `first + w`, `first + w + n` and so on. So if the id of a put
/// is its number modulo a multiple of `n`, no two writers use an id at the same time.
async fn run_lap(
    race: &Race,
    payload: Payload,
    contender: &Contender,
    first: u64,
) -> Result<(f64, u64)> {
    let clock = &race.clock;
    let start = clock.monotonic();
    let writers = payload.writers as u64;
    let laps = (0..writers).map(|writer| {
        let (put, clock) = (contender.put.clone(), clock.clone());
        let end = start + race.lap_time;
        tokio::spawn(async move {
            let mut done = 0u64;
            // At least one, however busy the machine is: a rate of zero has no ratio.
            loop {
                let number = first + done * writers + writer;
                put(number, payload.of(number)).await?;
                done += 1;
                if clock.monotonic() >= end {
                    return Ok::<u64, Error>(done);
                }
            }
        })
    });
    let done = try_join_all(laps).await;
    let done = done.map_err(|cause| Error::unavailable("a writer was cut off").because(cause))?;
    let done = done.into_iter().collect::<Result<Vec<u64>>>()?;
    let seconds = (clock.monotonic() - start).as_secs_f64();
    let most = done.iter().max().copied().unwrap_or_default();
    let puts: u64 = done.into_iter().sum();
    Ok((puts as f64 / seconds, first + most * writers))
}

/// The ratio of one contender's rate to another's in a lap.
pub(super) fn ratio(lap: &[f64], contender: usize, to: usize) -> f64 {
    rate(lap, contender) / rate(lap, to)
}

/// The rate of a contender in a lap.
pub(super) fn rate(lap: &[f64], contender: usize) -> f64 {
    lap.get(contender).copied().unwrap_or(f64::NAN)
}

/// The lap with the median ratio of one contender's rate to another's. All reported figures are
/// from this lap, so that they are consistent.
pub(super) fn median_lap(mut laps: Vec<Lap>, contender: usize, to: usize) -> Lap {
    laps.sort_by(|a, b| f64::total_cmp(&ratio(a, contender, to), &ratio(b, contender, to)));
    laps.get(laps.len() / 2).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use annals::ManualClock;
    use std::collections::HashSet;
    use std::sync::Mutex;

    #[tokio::test]
    async fn whoever_goes_round_ids_meets_nobody_however_long_a_put_takes() {
        const WRITERS: u64 = 4;
        const IDS: u64 = 2 * WRITERS;
        let clock = Arc::new(ManualClock::at_ms(0));
        let (under_way, seen) = (Arc::<Mutex<HashSet<u64>>>::default(), Arc::default());
        let contender = {
            let (seen, clock) = (Arc::<Mutex<Vec<u64>>>::clone(&seen), clock.clone());
            Contender::new(move |number, _| {
                let (seen, clock, under_way) = (seen.clone(), clock.clone(), under_way.clone());
                async move {
                    let id = number % IDS;
                    assert!(under_way.lock().unwrap().insert(id), "two use id {id}");
                    seen.lock().unwrap().push(number);
                    // The first writer is slower than the others.
                    for _ in 0..if number % WRITERS == 0 { 8 } else { 0 } {
                        tokio::task::yield_now().await;
                    }
                    clock.sleep(Duration::from_millis(1)).await;
                    under_way.lock().unwrap().remove(&id);
                    Ok(())
                }
            })
        };
        let plan = Race {
            laps: 2,
            lap_time: Duration::from_millis(100),
            clock,
        };
        let payload = Payload::new(WRITERS as usize, 200);
        race(&plan, payload, &[contender]).await.unwrap();
        let mut numbers = seen.lock().unwrap().clone();
        let count = numbers.len();
        let firsts = numbers.iter().filter(|number| **number % WRITERS == 0);
        let firsts = firsts.count();
        assert!(firsts < count / 4, "it was slower: {firsts} of {count}");
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count, "no number is used twice");
    }

    #[test]
    fn the_median_lap_is_told_whole() {
        // Medians of each column would be 20 and 30, whose ratio no lap had.
        let laps = vec![vec![10.0, 100.0], vec![20.0, 20.0], vec![90.0, 30.0]];
        let lap = median_lap(laps, 0, 1);
        assert_eq!(lap, [20.0, 20.0]);
        assert_eq!(ratio(&lap, 0, 1), 1.0);
        assert!(rate(&median_lap(Vec::new(), 0, 1), 0).is_nan());
    }
}
