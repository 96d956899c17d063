//! Events wait for consumer groups: not acknowledged, in flight, passed over, dead letters.

use annals::entity::{EntitySettings, Retention};
use annals::group::{Delivery, Group, GroupSettings, Settled, Take};
use annals::layout::AnnalsLayout;
use annals::{Annals, PersistenceId};

use super::{deposit, every, executor, id, in_memory, numbers, stores};
use crate::entity_bank::{Account, Deposit};

async fn mailer(annals: &Annals, settings: &GroupSettings) -> Group {
    let mailer = annals.groups().group("mailer").unwrap();
    assert!(mailer.put(settings).await.unwrap());
    mailer
}

async fn take(group: &Group, max: usize) -> Vec<Delivery> {
    group.next(&Take::new().max(max)).await.unwrap().unwrap()
}

async fn ack(group: &Group, delivery: &Delivery) {
    let settled = group.ack(&[delivery.id]).await.unwrap().unwrap();
    assert_eq!(settled, [Settled::Acked]);
}

/// Takes and acknowledges everything.
async fn drain(group: &Group) -> Vec<(PersistenceId, u64)> {
    let mut all = Vec::new();
    loop {
        let deliveries = take(group, 10).await;
        if deliveries.is_empty() {
            return all;
        }
        for delivery in &deliveries {
            let events = delivery.events.iter();
            all.extend(events.map(|e| (e.persistence_id.clone(), e.sequence_number.get())));
            ack(group, delivery).await;
        }
    }
}

#[tokio::test]
async fn a_group_holds_events_back_until_they_are_acknowledged() {
    for store in stores().await {
        let (annals, name) = (&store.annals, &store.name);
        let mailer = mailer(annals, &GroupSettings::new()).await;
        let accounts = executor(annals, every(1).after_group("mailer"));
        deposit(&accounts, "a", 1).await;
        deposit(&accounts, "b", 3).await;
        let taken = take(&mailer, 10).await;
        assert_eq!(taken.len(), 2, "one of each id");
        deposit(&accounts, "b", 1).await;
        assert_eq!(numbers(annals, "b").await, [1, 2, 3, 4], "{name}");

        // What another id has in flight holds nothing back.
        let (of_a, of_b): (Vec<_>, Vec<_>) =
            taken.iter().partition(|it| it.persistence_id == id("a"));
        ack(&mailer, of_b[0]).await;
        for number in 2..=4 {
            let next = take(&mailer, 1).await;
            assert_eq!(next[0].events[0].sequence_number.get(), number);
            deposit(&accounts, "b", 1).await;
            let left = numbers(annals, "b").await;
            assert!(left[0] <= number, "{name}: {number} is in flight");
            assert!(left[0] > 1, "{name}: {left:?}");
            ack(&mailer, &next[0]).await;
        }

        deposit(&accounts, "a", 3).await;
        assert_eq!(numbers(annals, "a").await, [1, 2, 3, 4], "{name}");
        ack(&mailer, of_a[0]).await;
        deposit(&accounts, "a", 1).await;
        let left = numbers(annals, "a").await;
        assert_eq!(left, [2, 3, 4, 5], "{name}: others were passed over");
        let rest = drain(&mailer).await;
        let rest = rest.iter().filter(|(of, _)| *of == id("a"));
        let rest: Vec<u64> = rest.map(|(_, number)| *number).collect();
        assert_eq!(rest, [2, 3, 4, 5], "{name}");
        deposit(&accounts, "a", 1).await;
        drain(&mailer).await;
        deposit(&accounts, "a", 1).await;
        let left = numbers(annals, "a").await;
        assert!(left.iter().all(|number| *number > 5), "{name}: {left:?}");
        let status = mailer.status().await.unwrap().unwrap();
        assert_eq!(status.missed, 0, "{name}");
    }
}

#[tokio::test]
async fn dead_letters_of_a_group_are_kept_until_they_are_handled_or_discarded() {
    for store in stores().await {
        let (annals, name) = (&store.annals, &store.name);
        let mailer = mailer(annals, &GroupSettings::new().retries(0)).await;
        let accounts = executor(annals, every(1).after_group("mailer"));
        for account in ["a", "b"] {
            deposit(&accounts, account, 2).await;
        }
        for delivery in take(&mailer, 10).await {
            let nacked = mailer.nack(&[delivery.id], "no such customer").await;
            assert_eq!(nacked.unwrap().unwrap(), [Settled::DeadLettered]);
        }
        drain(&mailer).await;
        for account in ["a", "b"] {
            deposit(&accounts, account, 2).await;
            assert_eq!(numbers(annals, account).await, [1, 2, 3, 4], "{name}");
        }
        drain(&mailer).await;
        assert_eq!(mailer.discard(Some(&id("b"))).await.unwrap(), Some(4));
        assert_eq!(mailer.retry(Some(&id("a"))).await.unwrap(), Some(4));
        // Handed out again, and not acknowledged.
        let retried = take(&mailer, 1).await;
        assert_eq!(retried[0].events[0].sequence_number.get(), 1, "{name}");
        for account in ["a", "b"] {
            deposit(&accounts, account, 1).await;
        }
        let left = numbers(annals, "b").await;
        assert!(left.iter().all(|number| *number > 3), "{name}: {left:?}");
        assert_eq!(numbers(annals, "a").await, [1, 2, 3, 4, 5], "{name}");

        ack(&mailer, &retried[0]).await;
        let rest = drain(&mailer).await;
        let of_a = rest.iter().filter(|(of, _)| *of == id("a"));
        assert_eq!(of_a.count(), 4, "{name}: {rest:?}");
        deposit(&accounts, "a", 1).await;
        let left = numbers(annals, "a").await;
        assert!(left.iter().all(|number| *number > 4), "{name}: {left:?}");
        let status = mailer.status().await.unwrap().unwrap();
        assert_eq!(status.missed, 0, "{name}");
    }
}

/// It never has handled everything when a snapshot is saved.
#[tokio::test]
async fn a_group_that_always_lags_a_little_does_not_stop_deletion() {
    const LAG: u64 = 3;
    let annals = in_memory(&AnnalsLayout::default()).await.annals;
    let mailer = mailer(&annals, &GroupSettings::new()).await;
    let retention = || -> Retention<Account> { every(2).after_group("mailer") };
    let executor = executor(&annals, retention());
    let region = annals.region::<Account>(EntitySettings::new().retention(retention()));
    for n in 1..=40 {
        for account in ["executor", "region"] {
            match account {
                "executor" => executor.ask(account, Deposit(1)).await.unwrap(),
                _ => region.ask(account, Deposit(1)).await.unwrap(),
            };
            region.passivate_all().await;
            let left = numbers(&annals, account).await;
            let first = left.first().copied().unwrap_or(n + 1);
            let acked = n.saturating_sub(LAG + 1);
            assert!(first <= acked + 1, "{account}: {first} at {n}");
            assert!(first + 3 * LAG >= n, "{account}: {first} at {n}");
        }
        if n > LAG {
            for delivery in take(&mailer, 2).await {
                ack(&mailer, &delivery).await;
            }
        }
    }
}

/// A commit that waits for an earlier one of its id is not in flight, and not handled.
#[tokio::test]
async fn what_is_passed_over_is_not_handled() {
    let annals = in_memory(&AnnalsLayout::default()).await.annals;
    let mailer = mailer(&annals, &GroupSettings::new()).await;
    let accounts = annals.executor::<Account>(EntitySettings::new());
    deposit(&accounts, "a", 2).await;
    let head = annals.feed().head().await.unwrap();
    let a = id("a");
    let has_handled = async || mailer.has_handled(&head, &a).await.unwrap();
    assert_eq!(has_handled().await, Some(false));
    let first = take(&mailer, 10).await;
    assert_eq!((first.len(), has_handled().await), (1, Some(false)));
    ack(&mailer, &first[0]).await;
    assert_eq!(has_handled().await, Some(false));
    let second = take(&mailer, 10).await;
    assert_eq!((second.len(), has_handled().await), (1, Some(false)));
    ack(&mailer, &second[0]).await;
    assert_eq!(has_handled().await, Some(true));
    let unknown = annals.groups().group("mailers").unwrap();
    assert_eq!(unknown.has_handled(&head, &a).await.unwrap(), None);
}
