//! Deletions, and the items they leave.

use super::stage::{Stage, append, append_singles, check, id, number, numbers};
use crate::tck::Setup;
use annals::SequenceNumber;

/// DL1 to DL6, in sequence.
pub(crate) async fn dl1_to_dl6_deletions_raise_the_low_marker_and_leave_no_events(setup: Setup) {
    let stage = Stage::of(&setup);
    let journal = setup.journal().await;
    journal.purge(&id()).await.expect("a purge");
    assert_eq!(stage.list().await, Default::default());
    append_singles(&journal, 0, 149).await;
    let high = [100].into();
    assert_eq!(stage.list().await, ([].into(), high, numbers(&[1..=149])));
    append(&journal, 149, 51).await;
    let listed = |low: &[u64], numbers: Vec<u64>| {
        let low = low.iter().copied().collect();
        (low, [100, 200].into(), numbers)
    };
    assert_eq!(stage.list().await, listed(&[], numbers(&[1..=200])));
    // The second is smaller and changes nothing.
    for to in [5, 3] {
        journal
            .delete_to(&id(), number(to))
            .await
            .expect("a deletion");
        assert_eq!(stage.list().await, listed(&[6], numbers(&[6..=200])));
        check(&setup, &numbers(&[6..=200]), 200).await;
    }
    journal
        .delete_to(&id(), number(210))
        .await
        .expect("a deletion");
    assert_eq!(stage.list().await, listed(&[6, 201], vec![]));
    check(&setup, &[], 200).await;
    journal.purge(&id()).await.expect("a purge");
    assert_eq!(stage.list().await, Default::default());
    let highest = setup.journal().await.highest(&id()).await;
    assert_eq!(highest.expect("highest"), None);
    // Numbering restarts at 1.
    append(&setup.journal().await, 0, 1).await;
    let all = journal.delete_to(&id(), SequenceNumber::LAST).await;
    all.expect("a deletion");
    check(&setup, &[], 1).await;
}
