//! Both append to one id in turn, and each reads the events of the other.

use annals::journal::Expected;

use super::both::{after, events, id, number, we_append, with_every_layout};
use super::texts;

/// The size of each batch: one of ours crosses 100, and one of theirs crosses 200.
const COUNTS: [usize; 5] = [2, 9, 12, 1, 12];
const ROUNDS: usize = 30;

pub(crate) async fn both_append_to_one_id_in_turn() {
    with_every_layout(async |both| {
        // The same journal for all turns: its cache is out of date each time.
        let (id, journal) = (id("Cart|turns"), both.journal().await);
        let mut ends = vec![0u64];
        for round in 0..ROUNDS {
            let last = *ends.last().unwrap();
            let lines = texts(&format!("round {round}"), COUNTS[round % COUNTS.len()]);
            let end = match round % 2 {
                0 => {
                    let expected = match round % 4 {
                        0 => Expected::Any,
                        _ => after(last),
                    };
                    let appended = we_append(&journal, &id, expected, events(&lines)).await;
                    appended.last.get()
                }
                _ => both.they_append(&id, &lines, lines.len() > 1),
            };
            assert_eq!(end, last + lines.len() as u64, "round {round}");
            ends.push(end);
            assert_eq!(both.agree(&id, &[]).await, end, "round {round}");
            // Up to the end of an append some rounds ago, by each side.
            let to = match round {
                12 => ends[7],
                21 => ends[18],
                25 => ends[22],
                _ => continue,
            };
            match round {
                21 => both.they_delete(&id, to),
                _ => {
                    let deleted = journal.delete_to(&id, number(to)).await.unwrap();
                    assert_eq!(deleted, Some(number(to)));
                }
            }
            assert_eq!(both.agree(&id, &[]).await, end, "deletion in round {round}");
        }
        assert_eq!(ends[ROUNDS], 216);
        assert_eq!(both.they_see(&id).0.len() as u64, ends[ROUNDS] - ends[22]);
    })
    .await;
}
