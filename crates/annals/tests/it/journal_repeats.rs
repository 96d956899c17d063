//! Appends that are repeated, under a token or an idempotency key; and pages of persistence ids.

use std::collections::BTreeSet;
use std::sync::Arc;

use annals::items::{Items, Scan};
use annals::journal::{Append, AppendError, Expected, IdempotencyKey, Journal, Window};
use annals::layout::{AnnalsLayout, Layout};
use annals::memory::Memory;
use annals::store::{Store, Verb};
use annals::{Annals, ErrorKind, Event, PersistenceId, Random, Token};
use annals_jvm::{AnyLayout, LayoutName};
use annals_testkit::faulty::Faulty;
use annals_testkit::journals::{after, id, number, text};
use futures::{StreamExt, TryStreamExt};

/// More than the journal keeps individually.
const OTHERS: usize = 100_001;
const LAYOUTS: [LayoutName; 3] = [LayoutName::Annals, LayoutName::Akka, LayoutName::J5ik2o];

async fn open_as(items: impl Into<Store>, layout: LayoutName) -> Journal {
    let layout = AnyLayout {
        layout,
        ..AnyLayout::default()
    };
    let annals = Annals::create(items, &layout).await.unwrap();
    annals.journal().clone()
}

async fn stored(journal: &Journal) -> Vec<Event> {
    let events = journal.replay(&id(), Window::ALL);
    events.try_collect().await.unwrap()
}

fn keyed(key: &str, events: &[&str]) -> Append {
    let events: Vec<_> = events.iter().map(|event| text(*event)).collect();
    Append::of(events).idempotency_key(key.parse().unwrap())
}

#[track_caller]
fn is_misused(outcome: Result<annals::journal::Appended, AppendError>) {
    let error = annals::Error::from(outcome.unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("key was used"), "{error}");
}

#[tokio::test]
async fn an_unknown_append_is_not_stored_twice_however_many_others_are_unknown() {
    let items = Arc::new(Faulty::scripted(Arc::new(Memory::new())));
    let journal = open_as(items.clone(), LayoutName::Annals).await;
    let first = journal.append(&id(), Expected::Empty, text("a")).await;
    first.unwrap();
    let once = Append::from(text("once")).token(journal.token());
    items.lose_next(Verb::Put, 1);
    let lost = journal.append(&id(), Expected::Any, once.clone()).await;
    assert!(matches!(lost, Err(AppendError::Store(_))), "{lost:?}");
    items.fail_next(Verb::Put, OTHERS, ErrorKind::Unavailable);
    let random = Random::seeded(7);
    for n in 0..OTHERS {
        let other: PersistenceId = format!("Other|{n}").parse().unwrap();
        let append = Append::from(text("x")).token(Token::draw(&random));
        let failed = journal.append(&other, Expected::Any, append).await;
        assert!(matches!(failed, Err(AppendError::Store(_))));
    }
    journal
        .append(&id(), Expected::Any, text("b"))
        .await
        .unwrap();
    let again = journal.append(&id(), Expected::Any, once).await.unwrap();
    assert_eq!(again.first, number(2));
    assert_eq!(stored(&journal).await.len(), 3);
}

#[tokio::test]
async fn a_keyed_append_is_stored_once_on_every_layout() {
    for layout in LAYOUTS {
        let items: Arc<dyn Items> = Arc::new(Memory::new());
        let (one, other) = (
            open_as(items.clone(), layout).await,
            open_as(items, layout).await,
        );
        for (expected, append, last) in [
            (Expected::Any, keyed("a", &["1", "2"]), 2),
            (after(2), keyed("b", &["3"]), 3),
            (Expected::Any, keyed("c", &["4"]), 4),
        ] {
            let first = one.append(&id(), expected, append.clone()).await.unwrap();
            assert_eq!(first.last, number(last), "{layout:?}");
            for journal in [&one, &other] {
                let again = journal.append(&id(), expected, append.clone()).await;
                assert_eq!(again.unwrap(), first, "{layout:?}");
            }
        }
        is_misused(other.append(&id(), Expected::Any, keyed("a", &["9"])).await);
        is_misused(other.append(&id(), after(2), keyed("b", &["9"])).await);
        is_misused(other.append(&id(), after(4), keyed("c", &["4"])).await);
        assert_eq!(stored(&one).await.len(), 4, "{layout:?}");
        // After a deletion they are recognised by the tokens in the tombstones.
        one.delete_to(&id(), number(4)).await.unwrap();
        let again = keyed("a", &["1", "2"]);
        let again = other.append(&id(), Expected::Any, again).await;
        assert_eq!(again.unwrap().last, number(2), "{layout:?}");
        is_misused(other.append(&id(), Expected::Any, keyed("a", &["9"])).await);
        let next = other.append(&id(), Expected::Any, keyed("d", &["5"])).await;
        assert_eq!(next.unwrap().last, number(5), "{layout:?}");
    }
}

/// An unrelated append with the token of a key.
#[tokio::test]
async fn an_unrelated_append_with_the_same_token_is_not_the_keyed_one() {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let sample = open_as(items, LayoutName::Annals).await;
    let append = keyed("a", &["1"]);
    sample.append(&id(), Expected::Any, append).await.unwrap();
    let token = stored(&sample).await[0].token;

    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let journal = open_as(items, LayoutName::Annals).await;
    let unrelated = Append::from(text("unrelated")).token(token);
    journal
        .append(&id(), Expected::Any, unrelated)
        .await
        .unwrap();
    let appended = keyed("a", &["1"]);
    let appended = journal.append(&id(), Expected::Any, appended).await;
    assert_eq!(appended.unwrap().last, number(2));
    assert_eq!(stored(&journal).await.len(), 2);
}

#[tokio::test]
async fn callers_cannot_set_the_metadata_of_keys() {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let journal = open_as(items, LayoutName::Annals).await;
    let marked = text("x").metadata("annals-idempotency", "forged");
    let both = keyed("a", &["1"]).token(journal.token());
    for append in [Append::from(marked), both] {
        let refused = journal.append(&id(), Expected::Any, append).await;
        let refused = annals::Error::from(refused.unwrap_err());
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    }
    assert!("".parse::<IdempotencyKey>().is_err());
    // An append without a key has no such metadata.
    let plain = journal.append(&id(), Expected::Any, text("plain")).await;
    plain.unwrap();
    assert!(stored(&journal).await[0].data.metadata.is_empty());
}

/// Ids with several appends each, so that most items of the table list none.
async fn filled(ids: usize) -> (Store, Journal) {
    let store = Store::new(Memory::new());
    let journal = open_as(store.clone(), LayoutName::Annals).await;
    for n in 0..ids {
        let id = format!("Cart|{n}").parse().unwrap();
        for _ in 0..3 {
            journal.append(&id, Expected::Any, text("x")).await.unwrap();
        }
    }
    (store, journal)
}

#[tokio::test]
async fn a_page_of_ids_costs_a_page() {
    let (store, journal) = filled(2_000).await;
    store.take_counts();
    let table = Arc::new(AnnalsLayout::default().tables().unwrap().journal);
    let whole = store.scan_all(&table, Scan::whole());
    let whole: Vec<_> = whole.try_collect().await.unwrap();
    assert!(whole.len() > 6_000);
    let all = store.take_counts().total().cost.read_units();
    let page = |after: Option<PersistenceId>| {
        let ids = journal.persistence_ids_after(after.as_ref()).take(10);
        ids.try_collect::<Vec<PersistenceId>>()
    };
    let first = page(None).await.unwrap();
    store.take_counts();
    let second = page(first.last().cloned()).await.unwrap();
    assert_eq!((first.len(), second.len()), (10, 10));
    let cost = store.take_counts().total().cost;
    assert_eq!(cost.requests, 1, "{cost:?}");
    assert!(cost.read_units() * 10.0 < all, "{cost:?} of {all}");
}

#[tokio::test]
async fn pages_of_ids_have_each_id_once() {
    let (_, journal) = filled(700).await;
    let (mut seen, mut last) = (BTreeSet::new(), None::<PersistenceId>);
    loop {
        let page = journal.persistence_ids_after(last.as_ref()).take(33);
        let page: Vec<PersistenceId> = page.try_collect().await.unwrap();
        let Some(end) = page.last() else { break };
        last = Some(end.clone());
        for id in page {
            assert!(seen.insert(id.clone()), "{id} twice");
        }
    }
    assert_eq!(seen.len(), 700);
}
