//! Repairs during writes: acknowledged events are replayed, and deleted ones do not come back.

use std::sync::Arc;

use annals::journal::{Append, Expected};
use annals::store::Verb;
use annals::verify::Verify;
use annals_jvm::LayoutName;
use annals_testkit::faulty::Faulty;

use super::Bed;
use annals_testkit::journals::{id, number, text};

/// An append of several events stalls before or after its first put; a repair runs; then the append
/// resumes.
#[tokio::test]
async fn an_append_in_flight_during_a_repair_is_complete_or_an_error() {
    for layout in LayoutName::ALL {
        for answers in [false, true] {
            let bed = Bed::with(layout, &[1, 1]).await;
            let slow = Arc::new(Faulty::scripted(bed.items.clone()));
            let journal = bed.journal_on(slow.clone()).await;
            journal.prepare().await.unwrap();
            match answers {
                true => slow.hold_answers(Verb::Put),
                false => slow.hold(Verb::Put),
            }
            let append = tokio::spawn(async move {
                let events = Append::of(vec![text("3"), text("4"), text("5")]);
                let last = Expected::Last(number(2));
                journal.append(&id(), last, events).await
            });
            slow.until_held(1).await;
            bed.verify(Verify::Repair).await;
            slow.release(Verb::Put);
            let appended = append.await.unwrap();
            let mut want = vec![1, 2];
            if let Ok(appended) = appended {
                want.extend(appended.first.get()..=appended.last.get());
            }
            let case = format!("{layout} {answers}");
            assert_eq!(bed.numbers().await.unwrap(), want, "{case}");
            // The journal continues without findings.
            bed.fill(&id(), &[2]).await;
            let numbers = bed.numbers().await.unwrap();
            assert_eq!(numbers.len(), want.len() + 2, "{case}");
            bed.verify(Verify::Repair).await;
            assert_eq!(bed.numbers().await.unwrap(), numbers, "{case}");
        }
    }
}

/// A repair stalls before it writes; others append and delete; then it resumes.
#[tokio::test]
async fn a_repair_that_stalls_while_others_write_does_no_harm() {
    for layout in LayoutName::ALL {
        let bed = Bed::with(layout, &[1, 1, 3, 1, 1]).await;
        let old = bed.row(2).await;
        bed.delete_to(5).await;
        bed.put(old).await;
        assert_eq!(bed.found().await.len(), 1, "{layout}");

        let slow = Arc::new(Faulty::scripted(bed.items.clone()));
        for verb in [Verb::Put, Verb::Delete, Verb::Write] {
            slow.hold(verb);
        }
        let journal = bed.journal_on(slow.clone()).await;
        let repair = tokio::spawn(async move { journal.verify(&id(), Verify::Repair).await });
        slow.until_held(1).await;
        bed.fill(&id(), &[1, 3]).await;
        bed.delete_to(6).await;
        for verb in [Verb::Put, Verb::Delete, Verb::Write] {
            slow.release(verb);
        }
        repair.await.unwrap().unwrap();
        let want: Vec<u64> = (7..=11).collect();
        assert_eq!(bed.numbers().await.unwrap(), want, "{layout}");
        assert_eq!(bed.found().await, [], "{layout}");
    }
}

/// The high marker is repaired only if it is unchanged.
#[tokio::test]
async fn a_marker_that_others_raise_is_not_lowered() {
    let bed = Bed::with(LayoutName::Akka, &[1; 105]).await;
    let high = bed.get(super::mark("SH", 1)).await.unwrap();
    bed.put(high.clone().with("seq", 1_100u64)).await;
    let slow = Arc::new(Faulty::scripted(bed.items.clone()));
    slow.hold(Verb::Put);
    let journal = bed.journal_on(slow.clone()).await;
    let repair = tokio::spawn(async move { journal.verify(&id(), Verify::Repair).await });
    slow.until_held(1).await;
    bed.put(high.clone()).await;
    slow.release(Verb::Put);
    let found = repair.await.unwrap().unwrap();
    let is_left = matches!(found[0].remedy, annals::verify::Remedy::Left(_));
    assert!(is_left, "{found:?}");
    assert_eq!(bed.get(super::mark("SH", 1)).await, Some(high));
    assert_eq!(bed.found().await, []);
}
