//! The results of Akka's replay filter, by mode.

use super::*;
use annals::{NewEvent, SequenceNumber, Token};

fn event(number: u64) -> Event {
    let number = SequenceNumber::new(number).unwrap();
    let token = Token::from_bytes([0; 8]);
    Event::new("a".parse().unwrap(), number, token, NewEvent::default())
}

fn passed(settings: ReplayFilterSettings, events: &[(u64, &str)]) -> Result<Vec<u64>> {
    let mut writers = Writers::new(settings);
    let mut out = Vec::new();
    for (number, writer) in events {
        out.extend(writers.push(event(*number), writer)?);
    }
    Ok(out.iter().map(|e| e.sequence_number.get()).collect())
}

fn mode(mode: ReplayFilterMode) -> ReplayFilterSettings {
    ReplayFilterSettings {
        mode,
        ..Default::default()
    }
}

/// A zombie writer continued after its successor started.
const ZOMBIE: [(u64, &str); 6] = [(1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "b"), (6, "a")];

#[test]
fn an_older_writers_events_are_dropped_an_error_or_a_warning() {
    use ReplayFilterMode::{Fail, Off, RepairByDiscardOld, Warn};
    assert_eq!(
        passed(mode(RepairByDiscardOld), &ZOMBIE).unwrap(),
        [1, 2, 3, 5]
    );
    assert_eq!(passed(mode(Warn), &ZOMBIE).unwrap(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(passed(mode(Off), &ZOMBIE).unwrap(), [1, 2, 3, 4, 5, 6]);
    let error = passed(mode(Fail), &ZOMBIE).unwrap_err();
    assert!(error.to_string().contains("number=`4`"), "{error}");
}

#[test]
fn the_number_of_remembered_writers_is_limited() {
    let settings = ReplayFilterSettings {
        max_old_writers: 2,
        ..Default::default()
    };
    let events = [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "a"), (6, "c")];
    assert_eq!(passed(settings, &events).unwrap(), [1, 2, 3, 4, 5]);
}

#[test]
fn a_writer_per_append_passes_the_filter() {
    let names: Vec<String> = (0..500).map(|n| format!("w{n}")).collect();
    let events: Vec<_> = names
        .iter()
        .zip(1..)
        .map(|(w, n)| (n, w.as_str()))
        .collect();
    let all = passed(ReplayFilterSettings::default(), &events).unwrap();
    assert_eq!(all, (1..=500).collect::<Vec<_>>());
}
