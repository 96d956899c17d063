//! Signatures: which append used which numbers, on every layout, even after a deletion.

use std::sync::Arc;

use annals::items::Items;
use annals::journal::{Append, Expected, Journal, Window};
use annals::memory::Memory;
use annals::{Annals, Token};
use annals_jvm::AnyLayout;
use annals_jvm::LayoutName;
use futures::TryStreamExt;

use annals_testkit::gate::{Gate, Hold, turns};
use annals_testkit::journals::{id, number, text};

fn token(n: u8) -> Token {
    Token::from_bytes([n; 8])
}

async fn append(journal: &Journal, n: u8, events: usize) {
    let append = Append::of(vec![text("x"); events]).token(token(n));
    journal.append(&id(), Expected::Any, append).await.unwrap();
}

/// The last number and the index of each append; 0 for an unknown one.
async fn signatures(journal: &Journal, from: u64, to: u64) -> Vec<(u64, u8)> {
    let numbers = number(from)..=number(to);
    let found = journal.signatures(&id(), numbers).await.unwrap();
    let told = |token: Option<Token>| token.map_or(0, |token| token.to_bytes()[0]);
    found
        .into_iter()
        .map(|it| (it.last.get(), told(it.token)))
        .collect()
}

async fn with_layout(layout: LayoutName) -> Annals {
    let settings = AnyLayout {
        layout,
        ..AnyLayout::default()
    };
    let annals = Annals::create(Arc::new(Memory::new()), &settings).await;
    annals.unwrap()
}

#[tokio::test]
async fn every_layout_has_signatures() {
    for layout in [LayoutName::Annals, LayoutName::Akka, LayoutName::J5ik2o] {
        let annals = with_layout(layout).await;
        let journal = annals.journal();
        assert_eq!(signatures(journal, 1, 3).await, [(3, 0)], "{layout:?}");
        for (n, events) in [(1, 1), (2, 3), (3, 40), (4, 1)] {
            append(journal, n, events).await;
        }
        let all = [(1, 1), (4, 2), (44, 3), (45, 4)];
        assert_eq!(signatures(journal, 1, 45).await, all, "{layout:?}");
        // Also if the window starts inside an append.
        assert_eq!(signatures(journal, 20, 45).await, all[2..], "{layout:?}");
        assert_eq!(signatures(journal, 45, 45).await, all[3..], "{layout:?}");
        assert_eq!(signatures(journal, 2, 1).await, [], "{layout:?}");
        // A partly deleted append keeps its signature.
        journal.delete_to(&id(), number(3)).await.unwrap();
        assert_eq!(signatures(journal, 1, 45).await, all, "{layout:?}");
        journal.delete_to(&id(), number(45)).await.unwrap();
        let left = signatures(journal, 1, 45).await;
        match layout {
            // Only the last 32 numbers keep their signatures.
            LayoutName::Akka => {
                assert_eq!(left[left.len() - 2..], all[2..]);
                let others = &left[..left.len() - 2];
                assert!(others.iter().all(|it| it.0 < 14), "{left:?}");
            }
            _ => assert_eq!(left, all, "{layout:?}"),
        }
    }
}

/// A commit that is longer than the buckets in the window.
#[tokio::test]
async fn a_very_long_append_is_found_by_its_end() {
    let annals = with_layout(LayoutName::Annals).await;
    append(annals.journal(), 1, 5_000).await;
    assert_eq!(
        signatures(annals.journal(), 4_990, 5_000).await,
        [(5_000, 1)]
    );
}

/// A replay in flight during a purge does not restore the cached end: the next append would leave a
/// gap.
#[tokio::test]
async fn a_replay_across_a_purge_does_not_update_the_cache() {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let gate = Gate::new(&items);
    let annals = Annals::create(gate.clone(), &AnyLayout::default()).await;
    let annals = annals.unwrap();
    let journal = annals.journal();
    append(journal, 1, 3).await;
    gate.hold(Hold::Everything);
    let events = journal.replay(&id(), Window::from(number(4)));
    let replaying = tokio::spawn(events.try_collect::<Vec<_>>());
    turns().await;
    // Waiting calls stay blocked.
    gate.hold(Hold::Nothing);
    journal.purge(&id()).await.unwrap();
    assert_eq!(gate.lift(), 1, "the replay was in flight");
    assert_eq!(replaying.await.unwrap().unwrap(), []);
    append(journal, 2, 1).await;
    append(journal, 3, 1).await;
    let events: Vec<_> = journal
        .replay(&id(), Window::ALL)
        .try_collect()
        .await
        .unwrap();
    assert_eq!(events.len(), 2);
}
