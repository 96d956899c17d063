//! Deletions whose responses are lost: the store's client repeats the request, and the caller learns
//! that something was deleted, on every layout.

use std::sync::Arc;

use annals::items::{Cost, Items, WriteError};
use annals::journal::Expected;
use annals::layout::Layout;
use annals::log::{Ingested, Log, Record};
use annals::memory::Memory;
use annals::settings::LogSettings;
use annals::snapshot::Criteria;
use annals::{Annals, Codec, ManualClock, Payload, Random, SequenceNumber};
use annals_jvm::{AnyLayout, LayoutName};
use annals_testkit::hooked::{Answer, Answered, Call, Failure, Hook, Hooked};
use annals_testkit::journals::{id, number, text};
use annals_testkit::store;
use async_trait::async_trait;
use futures::TryStreamExt;

/// Loses the first response to every delete, and sends it again, as a client does.
struct LosesDeletions;

#[async_trait]
impl Hook for LosesDeletions {
    async fn call(&self, inner: &dyn Items, call: Call<'_>) -> Answered {
        let Call::Delete(..) = &call else {
            return call.send(inner).await;
        };
        let mut all = cost_of(call.clone().send(inner).await);
        let again = call.send(inner).await;
        match again {
            Ok(Answer::Written(cost)) => {
                all += cost;
                Ok(all.into())
            }
            Err(Failure::Write(WriteError::Refused { existing, cost })) => {
                all += cost;
                let cost = all;
                Err(WriteError::Refused { existing, cost }.into())
            }
            other => other,
        }
    }
}

fn cost_of(answered: Answered) -> Cost {
    match answered {
        Ok(Answer::Written(cost)) => cost,
        Err(Failure::Write(WriteError::Refused { cost, .. })) => cost,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_deletion_whose_response_is_lost_deleted_something() {
    for layout in LayoutName::ALL {
        let settings = AnyLayout {
            layout,
            ..AnyLayout::default()
        };
        let items = Arc::new(Hooked::over(Arc::new(Memory::new()), LosesDeletions));
        let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
        let store = store(items, clock, Random::seeded(1));
        let annals = Annals::create(store.clone(), &settings).await.unwrap();
        let (journal, snapshots) = (annals.journal(), annals.snapshots());
        let state = || Payload::new(Codec::Text, "a state");

        journal
            .append(&id(), Expected::Empty, text("1"))
            .await
            .unwrap();
        let deleted = journal.delete_to(&id(), SequenceNumber::LAST).await;
        assert_eq!(deleted.unwrap(), Some(number(1)), "{layout}");
        assert!(journal.purge(&id()).await.unwrap(), "{layout}");

        let one = Criteria::at(number(1));
        for criteria in [one, Criteria::ALL, Criteria::ALL.since_ms(1)] {
            snapshots.save(&id(), number(1), state()).await.unwrap();
            let deleted = snapshots.delete(&id(), criteria).await.unwrap();
            assert_eq!(deleted, 1, "{layout} {criteria:?}");
        }

        if settings.tables().unwrap().state.is_some() {
            let states = annals.states().unwrap();
            states.upsert(&id(), 1, state()).await.unwrap();
            assert!(states.delete(&id(), None).await.unwrap(), "{layout}");
        }
    }
}

#[tokio::test]
async fn a_dead_letter_whose_deletion_got_no_response_is_deleted() {
    let items = Arc::new(Hooked::over(Arc::new(Memory::new()), LosesDeletions));
    let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
    let store = store(items, clock, Random::seeded(1));
    let log = Log::create(&store, &LogSettings::default()).await.unwrap();
    for n in [1, 2] {
        let (event_id, time) = ("a".parse().unwrap(), log.now());
        let record = Record::json("test", event_id, time, &serde_json::json!(n));
        let ingested = log.ingest_one(record).await;
        assert!(matches!(ingested, Ingested::Stored), "{ingested:?}");
        let swept = log.sweep().await;
        assert!(swept.failure.is_none(), "{swept:?}");
    }
    let letters: Vec<_> = log.dead_letters().try_collect().await.unwrap();
    assert_eq!(letters.len(), 1);
    assert!(log.delete_dead_letter(&letters[0].name).await.unwrap());
}
