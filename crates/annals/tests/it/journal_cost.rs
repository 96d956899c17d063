//! The exact cost of the journal on the `annals` layout, in requests and units.
//!
//! Events of 200 B, as in a web shop: the id `Cart|0123456789abcdef` (21 B), the manifest
//! `ItemAdded`, schema 1, a JSON payload of 200 B. Opening the journal is not part of an operation.

use std::sync::Arc;

use annals::items::{Cost, Items};
use annals::journal::{Expected, Window};
use annals::memory::Memory;
use annals::store::Store;
use annals::{Codec, NewEvent, Random};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use annals_testkit::journals::{append, create, id, number, open, replay, window};

const PAYLOAD_BYTES: usize = 200;

/// An event with an incompressible base64 payload.
fn plain(random: &Random) -> NewEvent {
    let noise: Vec<u8> = (0..24).flat_map(|_| random.bits().to_le_bytes()).collect();
    event(&BASE64.encode(noise))
}

/// An event of random bytes.
fn noise(random: &Random) -> NewEvent {
    let noise: Vec<u8> = (0..25).flat_map(|_| random.bits().to_le_bytes()).collect();
    assert_eq!(noise.len(), PAYLOAD_BYTES);
    NewEvent::new(Codec::Bytes, noise)
        .manifest("ItemAdded")
        .schema(1)
}

/// An event that equals the next one except for a number.
fn alike(n: u64) -> NewEvent {
    event(&format!(
        "{n:08}{}",
        "article of the catalogue, ".repeat(10)
    ))
}

fn event(text: &str) -> NewEvent {
    let mut payload = format!(r#"{{"t":"{text}"#);
    payload.truncate(PAYLOAD_BYTES - 2);
    payload.push_str(r#""}"#);
    assert_eq!(payload.len(), PAYLOAD_BYTES);
    NewEvent::new(Codec::Json, payload)
        .manifest("ItemAdded")
        .schema(1)
}

struct Bed {
    counting: Store,
    items: Arc<dyn Items>,
    random: Random,
}

impl Bed {
    async fn new() -> Self {
        let counting = Store::from(Arc::new(Memory::new()));
        let items: Arc<dyn Items> = counting.items().clone();
        create(&*items).await;
        Self {
            counting,
            items,
            random: Random::seeded(1),
        }
    }

    /// A journal with this many events, one per append.
    async fn with(events: u64) -> Self {
        let bed = Self::new().await;
        let journal = open(&bed.items).await;
        for n in 0..events {
            append(&journal, n, vec![plain(&bed.random)]).await;
        }
        bed
    }

    fn spent(&self) -> (u64, u64, u64) {
        let Cost {
            requests,
            write_units,
            read_half_units,
        } = self.counting.take_counts().total().cost;
        assert_eq!(read_half_units % 2, 0, "all reads are consistent");
        (requests, write_units, read_half_units / 2)
    }

    async fn recovered(&self, events: usize) -> (u64, u64, u64) {
        let journal = open(&self.items).await;
        self.counting.take_counts();
        let found = replay(&journal, Window::ALL).await.unwrap();
        assert_eq!(found.len(), events);
        self.spent()
    }
}

#[tokio::test]
async fn appending_one_costs_one_request_and_one_unit() {
    let bed = Bed::with(5).await;
    let journal = open(&bed.items).await;
    replay(&journal, Window::ALL).await.unwrap();
    bed.counting.take_counts();
    for n in 5..8 {
        append(&journal, n, vec![plain(&bed.random)]).await;
        assert_eq!(bed.spent(), (1, 1, 0));
    }
}

#[tokio::test]
async fn the_first_append_of_a_process_reads_the_end() {
    let bed = Bed::with(5).await;
    let journal = open(&bed.items).await;
    bed.counting.take_counts();
    append(&journal, 5, vec![plain(&bed.random)]).await;
    assert_eq!(bed.spent(), (2, 1, 1));
}

#[tokio::test]
async fn appending_ten_costs_one_request_and_three_units_or_one() {
    let bed = Bed::new().await;
    let journal = open(&bed.items).await;
    bed.counting.take_counts();
    append(&journal, 0, (0..10).map(|_| plain(&bed.random)).collect()).await;
    assert_eq!(bed.spent(), (1, 2, 0), "base64 packs to three quarters");
    append(&journal, 10, (0..10).map(alike).collect()).await;
    assert_eq!(bed.spent(), (1, 1, 0));
    append(&journal, 20, (0..10).map(|_| noise(&bed.random)).collect()).await;
    assert_eq!(bed.spent(), (1, 3, 0), "bytes that do not pack at all");
}

#[tokio::test]
async fn a_lag_of_one_append_is_repaired_without_a_read() {
    let bed = Bed::with(5).await;
    let (lagging, quick) = (open(&bed.items).await, open(&bed.items).await);
    replay(&lagging, Window::ALL).await.unwrap();
    append(&quick, 5, vec![plain(&bed.random)]).await;
    bed.counting.take_counts();
    let event = plain(&bed.random);
    let outcome = lagging
        .append(&id(), annals_testkit::journals::after(5), event)
        .await;
    outcome.expect_err("a conflict");
    append(&lagging, 6, vec![plain(&bed.random)]).await;
    assert_eq!(bed.spent(), (2, 2, 0));
}

#[tokio::test]
async fn an_append_without_expectation_reads_the_end_after_two_conflicts() {
    let bed = Bed::with(5).await;
    let (lagging, quick) = (open(&bed.items).await, open(&bed.items).await);
    replay(&lagging, Window::ALL).await.unwrap();
    for n in 5..500 {
        append(&quick, n, vec![plain(&bed.random)]).await;
    }
    bed.counting.take_counts();
    let appended = lagging
        .append(&id(), Expected::Any, plain(&bed.random))
        .await;
    assert_eq!(appended.unwrap().first, number(501));
    // Two conflicts, a search of the highest, and the third succeeds.
    assert_eq!(bed.spent(), (4, 3, 1));
}

#[tokio::test]
async fn recovering_costs_what_it_reads() {
    assert_eq!(Bed::with(1).await.recovered(1).await, (1, 0, 1));
    assert_eq!(Bed::with(100).await.recovered(100).await, (1, 0, 7));
    assert_eq!(Bed::with(1_000).await.recovered(1_000).await, (2, 0, 67));
    assert_eq!(
        Bed::with(10_000).await.recovered(10_000).await,
        (11, 0, 661)
    );
}

#[tokio::test]
async fn a_few_events_of_many_cost_one_request() {
    let bed = Bed::with(100).await;
    for (from, count) in [(1, 1), (1, 30), (50, 1), (50, 2)] {
        let journal = open(&bed.items).await;
        bed.counting.take_counts();
        let found = replay(&journal, window(from..=u64::MAX, count)).await;
        assert_eq!(found.unwrap().len() as u64, count);
        // A replay reads 25 commits of some 270 B each before it delivers the first event.
        assert_eq!(bed.spent(), (1, 0, 2));
    }
}

#[tokio::test]
async fn recovering_packed_batches_costs_what_they_pack_to() {
    let bed = Bed::new().await;
    let journal = open(&bed.items).await;
    for n in 0..1_000 {
        append(
            &journal,
            10 * n,
            (0..10).map(|m| alike(10 * n + m)).collect(),
        )
        .await;
    }
    assert_eq!(bed.recovered(10_000).await, (11, 0, 51));
}

#[tokio::test]
async fn the_events_after_a_snapshot_cost_one_request() {
    let bed = Bed::with(50).await;
    let journal = open(&bed.items).await;
    bed.counting.take_counts();
    let tail = replay(&journal, window(41..=u64::MAX, u64::MAX)).await;
    assert_eq!(tail.unwrap().len(), 10);
    assert_eq!(bed.spent(), (1, 0, 1));
}

#[tokio::test]
async fn the_highest_number_costs_one_request_with_a_hint() {
    let bed = Bed::with(1_500).await;
    let journal = open(&bed.items).await;
    replay(&journal, Window::ALL).await.unwrap();
    bed.counting.take_counts();
    assert_eq!(journal.highest(&id()).await.unwrap(), Some(number(1_500)));
    assert_eq!(bed.spent(), (1, 0, 1));
}
