//! Successive instances of an entity.

use super::stage::{append, append_singles, check, id, number, numbers};
use crate::tck::Setup;

/// IL1.
pub(crate) async fn il1_the_next_instance_recovers_and_continues(setup: Setup) {
    append_singles(&setup.journal().await, 0, 16).await;
    check(&setup, &numbers(&[1..=16]), 16).await;
    append(&setup.journal().await, 16, 1).await;
    check(&setup, &numbers(&[1..=17]), 17).await;
}

/// IL2.
pub(crate) async fn il2_instances_recover_after_deletions(setup: Setup) {
    append_singles(&setup.journal().await, 0, 16).await;
    for to in [3, 7] {
        let deleted = setup.journal().await.delete_to(&id(), number(to)).await;
        deleted.expect("a deletion");
        check(&setup, &numbers(&[to + 1..=16]), 16).await;
    }
}

/// IL3, IL4, IL5.
pub(crate) async fn il3_to_il5_batches_are_recovered_completely_and_in_order(setup: Setup) {
    let mut last = 0;
    for count in [6, 3, 3, 4] {
        last = append(&setup.journal().await, last, count).await;
        check(&setup, &numbers(&[1..=last]), last).await;
    }
}

/// IL6.
pub(crate) async fn il6_of_six_singles_one_is_left(setup: Setup) {
    append_singles(&setup.journal().await, 0, 6).await;
    let deleted = setup.journal().await.delete_to(&id(), number(5)).await;
    deleted.expect("a deletion");
    check(&setup, &[6], 6).await;
}
