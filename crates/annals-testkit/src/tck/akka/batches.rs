//! Atomic batches at the boundaries of hundreds, and incomplete batches.

use super::stage::{
    Stage, after, append, append_singles, check, id, number, numbers, replay, text,
};
use super::with_settings;
use crate::tck::Setup;
use annals::ErrorKind;
use annals::journal::{Expected, Window};
use annals_jvm::settings::Gaps;

/// PA1.
pub(crate) async fn pa1_a_first_batch_is_complete(setup: Setup) {
    let journal = setup.journal().await;
    append(&journal, 0, 10).await;
    check(&setup, &numbers(&[1..=10]), 10).await;
}

/// Pads with one batch, then appends one of `count` that begins with `first`.
async fn check_batch_at(setup: &Setup, first: u64, count: u64) {
    let journal = setup.journal().await;
    let padded = append(&journal, 0, first - 1).await;
    let last = append(&journal, padded, count).await;
    check(setup, &numbers(&[1..=last]), last).await;
    // And a new process appends after it.
    append(&setup.journal().await, last, 1).await;
    check(setup, &numbers(&[1..=last + 1]), last + 1).await;
}

/// PA2.
pub(crate) async fn pa2_a_batch_whose_last_member_begins_a_hundred_is_complete(setup: Setup) {
    check_batch_at(&setup, 98, 3).await;
}

/// PA3.
pub(crate) async fn pa3_a_batch_whose_middle_begins_a_hundred_is_complete(setup: Setup) {
    check_batch_at(&setup, 199, 3).await;
}

/// PA4.
pub(crate) async fn pa4_a_batch_that_begins_a_hundred_is_complete(setup: Setup) {
    check_batch_at(&setup, 100, 3).await;
}

/// PA5.
pub(crate) async fn pa5_a_batch_that_ends_a_hundred_is_complete(setup: Setup) {
    check_batch_at(&setup, 95, 5).await;
}

/// RC1.
pub(crate) async fn rc1_concurrent_appends_all_count_for_the_highest(setup: Setup) {
    for _ in 0..5 {
        let journal = setup.journal().await;
        journal.purge(&id()).await.expect("a purge");
        let id = id();
        let appends = (0..20).map(|n| journal.append(&id, Expected::Any, text(n)));
        let appended = futures::future::try_join_all(appends).await;
        let mut firsts: Vec<u64> = appended
            .expect("all succeed")
            .iter()
            .map(|a| a.first.get())
            .collect();
        firsts.sort_unstable();
        assert_eq!(firsts, numbers(&[1..=20]));
        let highest = setup.journal().await.highest(&id).await;
        assert_eq!(highest.expect("highest"), Some(number(20)));
    }
}

/// 20 singles, five batches of three, a single and another batch, of which members are removed.
async fn with_holes(setup: &Setup) {
    let journal = setup.journal().await;
    let mut last = append_singles(&journal, 0, 20).await;
    for count in [3, 3, 3, 3, 3, 1, 3] {
        last = append(&journal, last, count).await;
    }
    let stage = Stage::of(setup);
    for n in [22, 24, 32, 35, 39] {
        stage.remove(n).await;
    }
}

/// RC2. For batches of the JVM; lost members of one that we acknowledged are an error, unless gaps
/// are skipped.
pub(crate) async fn rc2_incomplete_batches_are_skipped(setup: Setup) {
    with_holes(&setup).await;
    let told = replay(&setup.journal().await, Window::ALL).await;
    assert_eq!(told.expect_err("lost").kind(), ErrorKind::Corrupt);
    check(&skipping(&setup), &numbers(&[1..=20, 27..=29, 36..=36]), 38).await;
}

fn skipping(setup: &Setup) -> Setup {
    with_settings(setup, |settings| settings.gaps = Gaps::Skip)
}

/// RC3. The plugin leaves it out silently; here a missing event is an error, unless gaps are skipped.
pub(crate) async fn rc3_the_high_marker_shows_a_missing_event(setup: Setup) {
    with_holes(&setup).await;
    let journal = setup.journal().await;
    for n in 39..=100 {
        let appended = journal.append(&id(), Expected::Any, text(n)).await;
        assert_eq!(appended.expect("an append").first, number(n));
    }
    let stage = Stage::of(&setup);
    stage.remove(100).await;
    let (low, high, found) = stage.list().await;
    assert_eq!((low.len(), high), (0, [100].into()));
    let left = numbers(&[1..=21, 23..=23, 25..=31, 33..=34, 36..=99]);
    assert_eq!(found, left);
    let journal = setup.journal().await;
    let none = Window::ALL.limit(0);
    assert!(replay(&journal, none).await.expect("nothing").is_empty());
    assert_eq!(
        journal.highest(&id()).await.expect("highest"),
        Some(number(100))
    );
    let told = replay(&journal, Window::ALL).await.expect_err("a gap");
    assert_eq!(told.kind(), ErrorKind::Corrupt);
    let want = numbers(&[1..=20, 27..=29, 36..=36, 39..=99]);
    check(&skipping(&setup), &want, 100).await;
}

/// RC4.
pub(crate) async fn rc4_a_batch_uses_the_number_of_anothers_missing_last_member(setup: Setup) {
    let journal = setup.journal().await;
    append(&journal, 0, 4).await;
    append(&journal, 4, 3).await;
    Stage::of(&setup).remove(7).await;
    let events = vec![text(7), text(8), text(9)];
    let appended = setup.journal().await.append(&id(), after(4), events).await;
    assert_eq!(appended.expect("an append").first, number(7));
    check(&setup, &numbers(&[1..=4, 7..=9]), 9).await;
}

/// RC5, as the plugin leaves it: we use the number of the missing last member.
pub(crate) async fn rc5_a_batch_inside_another_one_hides_it(setup: Setup) {
    let journal = setup.journal().await;
    append(&journal, 0, 4).await;
    append(&journal, 4, 3).await;
    let stage = Stage::of(&setup);
    stage.remove(6).await;
    stage.remove(7).await;
    for index in 0..3 {
        stage.put(Stage::item(6 + index, Some((index, 2)))).await;
    }
    check(&setup, &numbers(&[1..=4, 6..=8]), 8).await;
    append(&setup.journal().await, 8, 1).await;
    check(&setup, &numbers(&[1..=4, 6..=9]), 9).await;
}

/// Also across hundreds, or after a partial deletion.
pub(crate) async fn windows_inside_a_batch_return_their_part_of_it(setup: Setup) {
    let journal = setup.journal().await;
    append(&journal, 0, 97).await;
    append(&journal, 97, 105).await;
    append(&journal, 202, 3).await;
    let check = async |from: u64, to: u64, low: u64| {
        let window = Window::from(number(from)).to(number(to));
        let found = replay(&setup.journal().await, window).await;
        let want: Vec<u64> = (from.max(low)..=to.min(205)).collect();
        assert_eq!(found.expect("a replay"), want, "{from} to {to}, low {low}");
    };
    for low in [1, 120] {
        if low > 1 {
            let deleted = journal.delete_to(&id(), number(low - 1)).await;
            deleted.expect("a deletion");
        }
        for (from, to) in [(1, 97), (1, 98), (97, 98), (98, 98), (99, 101), (100, 199)] {
            check(from, to, low).await;
        }
        for (from, to) in [(150, 160), (199, 200), (150, 203), (202, 203), (203, 900)] {
            check(from, to, low).await;
        }
    }
}
