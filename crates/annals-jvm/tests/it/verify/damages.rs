//! Each damage on each layout: the findings, the repair, and the replay after it.
//!
//! A repair never loses an event and never brings a deleted one back: everything that was replayed
//! before is replayed after it, plus events that the damage had hidden; and all items of events that
//! were not deleted are still stored.

use std::sync::Arc;

use annals::ErrorKind;
use annals::items::{Item, Items};
use annals::store::Verb;
use annals::verify::{Problem, Remedy, Verify};
use annals_jvm::LayoutName;
use annals_testkit::faulty::Faulty;

use super::{Bed, Brief, brief, mark, unsealed};
use annals_testkit::journals::{id, number};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    /// An event, or a commit, is lost.
    Gap,
    /// A middle event of an append is lost.
    IncompleteBatch,
    /// The last event of an append is lost, and others follow.
    BatchWithoutEnd,
    /// The same, and no others follow.
    LastBatchWithoutEnd,
    LostHighMark,
    /// Flipped: its checksum does not match.
    WrongHighMark,
    /// Wrong, and without a checksum, like the plugin's.
    WrongHighMarkOfThePlugins,
    LowMarkTooHigh,
    LowMarkTooHighOfThePlugins,
    LowMarkTooLow,
    LostLowMark,
    /// Only its checksum is damaged.
    LowMarkWithAnotherChecksum,
    Collision,
    /// A row of the plugin with the attributes of another id.
    CollisionOfThePlugins,
    FlippedByte,
    /// A deleted event came back.
    Leftover,
    CutOffDeletion,
}

use Damage::*;

const ALL: [Damage; 17] = [
    Gap,
    IncompleteBatch,
    BatchWithoutEnd,
    LastBatchWithoutEnd,
    LostHighMark,
    WrongHighMark,
    WrongHighMarkOfThePlugins,
    LowMarkTooHigh,
    LowMarkTooHighOfThePlugins,
    LowMarkTooLow,
    LostLowMark,
    LowMarkWithAnotherChecksum,
    Collision,
    CollisionOfThePlugins,
    FlippedByte,
    Leftover,
    CutOffDeletion,
];

/// Why a layout cannot have a damage.
fn cannot_be(layout: LayoutName, damage: Damage) -> Option<&'static str> {
    match (layout, damage) {
        (LayoutName::Annals, IncompleteBatch | BatchWithoutEnd | LastBatchWithoutEnd) => {
            Some("an append is one item; the parts of a large one are told in `a_missing_part`")
        }
        (LayoutName::Annals, LostHighMark | WrongHighMark | WrongHighMarkOfThePlugins) => {
            Some("there is no high mark: the last number is that of the last commit")
        }
        (
            LayoutName::Annals,
            LowMarkTooHigh
            | LowMarkTooHighOfThePlugins
            | LowMarkTooLow
            | LostLowMark
            | LowMarkWithAnotherChecksum,
        ) => Some("the low mark is in the first commit, under its checksum: a flipped byte"),
        (LayoutName::Annals, CollisionOfThePlugins) => Some("no plugin writes here"),
        (LayoutName::Annals, CutOffDeletion) => {
            Some("commits go from the first on, so it is a deletion of fewer")
        }
        (LayoutName::J5ik2o, LostHighMark | WrongHighMark | WrongHighMarkOfThePlugins) => {
            Some("there is no high mark: the last number is that of the last row")
        }
        _ => None,
    }
}

/// The findings, and the numbers that are replayed after a repair.
type Outcome = (Vec<Brief>, Result<Vec<u64>, ErrorKind>);

fn to(last: u64) -> Vec<u64> {
    (1..=last).collect()
}

const CORRUPT: Result<Vec<u64>, ErrorKind> = Err(ErrorKind::Corrupt);

fn expected(layout: LayoutName, damage: Damage) -> Outcome {
    let left = |problem, from, to| vec![(problem, from, to, false)];
    let repaired = |problem, from, to| vec![(problem, from, to, true)];
    let each = |problem, is_repaired, numbers: &[u64]| {
        let all = numbers.iter().map(|n| (problem, *n, *n, is_repaired));
        all.collect::<Vec<Brief>>()
    };
    match (damage, layout) {
        (Gap, _) => (left(Problem::Gap, 2, 2), CORRUPT),
        (IncompleteBatch, LayoutName::J5ik2o) => (left(Problem::Gap, 4, 4), CORRUPT),
        (IncompleteBatch | BatchWithoutEnd, _) => (left(Problem::IncompleteBatch, 3, 5), CORRUPT),
        (LastBatchWithoutEnd, LayoutName::J5ik2o) => {
            (repaired(Problem::IncompleteBatch, 3, 5), Ok(to(2)))
        }
        (LastBatchWithoutEnd, _) => (left(Problem::IncompleteBatch, 3, 5), Ok(to(2))),
        (LostHighMark, _) => (repaired(Problem::HighMark, 100, 105), Ok(to(105))),
        (WrongHighMark, _) => (repaired(Problem::HighMark, 100, 1_100), Ok(to(105))),
        (WrongHighMarkOfThePlugins, _) => (left(Problem::Gap, 106, 1_100), CORRUPT),
        (LowMarkTooHigh, _) => (left(Problem::LowMark, 6, 6), CORRUPT),
        (LowMarkTooHighOfThePlugins, _) => (left(Problem::LowMark, 1, 2), Ok((3..=7).collect())),
        (LowMarkTooLow, LayoutName::J5ik2o) => (each(Problem::LowMark, false, &[3, 4, 5]), CORRUPT),
        (LowMarkTooLow, _) => (each(Problem::LowMark, true, &[3, 4, 5]), Ok(vec![6, 7])),
        (LostLowMark, LayoutName::J5ik2o) => (each(Problem::LowMark, false, &[1, 2]), CORRUPT),
        (LostLowMark, _) => {
            let found = each(Problem::LowMark, true, &[1, 2]);
            (found, Ok((3..=7).collect()))
        }
        (LowMarkWithAnotherChecksum, _) => {
            (repaired(Problem::LowMark, 3, 3), Ok((3..=7).collect()))
        }
        (Collision, LayoutName::Annals) => (left(Problem::Collision, 4, 4), CORRUPT),
        (Collision | CollisionOfThePlugins, _) => (left(Problem::Collision, 2, 2), CORRUPT),
        (FlippedByte, _) => (left(Problem::Unreadable, 2, 2), CORRUPT),
        (Leftover, LayoutName::Annals) => (repaired(Problem::Leftover, 2, 5), Ok(vec![6, 7])),
        (Leftover, _) => (repaired(Problem::Leftover, 2, 2), Ok(vec![6, 7])),
        (CutOffDeletion, _) => (repaired(Problem::Leftover, 1, 5), Ok(vec![6, 7])),
    }
}

/// A journal of the numbers 1, 2, 3 to 5, 6 and 7, damaged.
async fn damaged(layout: LayoutName, damage: Damage) -> Bed {
    let appends: &[u64] = match damage {
        LostHighMark | WrongHighMark | WrongHighMarkOfThePlugins => &[1; 105],
        LastBatchWithoutEnd => &[1, 1, 3],
        _ => &[1, 1, 3, 1, 1],
    };
    let bed = Bed::with(layout, appends).await;
    match damage {
        Gap => bed.remove(&bed.row(2).await).await,
        IncompleteBatch => bed.remove(&bed.row(4).await).await,
        BatchWithoutEnd | LastBatchWithoutEnd => bed.remove(&bed.row(5).await).await,
        LostHighMark => bed.remove_at(mark("SH", 1)).await,
        WrongHighMark => {
            let high = bed.get(mark("SH", 1)).await.unwrap();
            bed.put(high.with("seq", 1_100u64)).await;
        }
        WrongHighMarkOfThePlugins => {
            let high = unsealed(bed.get(mark("SH", 1)).await.unwrap());
            bed.put(high.with("seq", 1_100u64)).await;
        }
        LowMarkTooHigh
        | LowMarkTooHighOfThePlugins
        | LowMarkTooLow
        | LostLowMark
        | LowMarkWithAnotherChecksum => harm_low_mark(&bed, damage).await,
        Collision | CollisionOfThePlugins => collide(&bed, damage).await,
        FlippedByte => flip(&bed).await,
        Leftover => {
            let old = bed.row(2).await;
            bed.delete_to(5).await;
            bed.put(old).await;
        }
        CutOffDeletion => {
            let cut = Arc::new(Faulty::scripted(bed.items.clone()));
            cut.fail_next(Verb::Write, 1, ErrorKind::Unavailable);
            let journal = bed.journal_on(cut).await;
            let deleted = journal.delete_to(&id(), number(5)).await;
            assert_eq!(deleted.unwrap_err().kind(), ErrorKind::Unavailable);
        }
    }
    bed
}

/// The low marker is altered or lost.
async fn harm_low_mark(bed: &Bed, damage: Damage) {
    let (layout, low) = (bed.settings.layout, bed.low_mark());
    match damage {
        LowMarkTooHigh => {
            bed.delete_to(2).await;
            let low = bed.get(low).await.unwrap();
            bed.put(with_low(layout, low, 6)).await;
        }
        LowMarkTooHighOfThePlugins => {
            bed.delete_to(2).await;
            let item = unsealed(bed.get(low).await.unwrap());
            let whole = Bed::with(layout, &[1, 1, 3, 1, 1]).await;
            bed.put(item).await;
            for n in [1, 2] {
                bed.put(whole.row(n).await).await;
            }
        }
        LowMarkTooLow => {
            bed.delete_to(5).await;
            let item = unsealed(bed.get(low).await.unwrap());
            bed.put(with_low(layout, item, 3).with("done", 2u64)).await;
        }
        LostLowMark => {
            bed.delete_to(2).await;
            bed.remove_at(low).await;
        }
        LowMarkWithAnotherChecksum => {
            bed.delete_to(2).await;
            let item = bed.get(low).await.unwrap();
            bed.put(item.with("crc", vec![1u8, 2, 3, 4])).await;
        }
        other => panic!("{other:?} is not a damage of low markers"),
    }
}

/// A bit in the middle of an event.
async fn flip(bed: &Bed) {
    let item = bed.row(2).await;
    let names = ["c", "event", "message"].into_iter();
    let name = names.into_iter().find(|name| item.get(name).is_some());
    let name = name.unwrap();
    let mut bytes = item.get(name).unwrap().as_bytes().unwrap().to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    bed.put(item.with(name, bytes)).await;
}

fn with_low(layout: LayoutName, item: Item, low: u64) -> Item {
    match layout {
        LayoutName::J5ik2o => item.with("low", low),
        _ => item.with("seq", low),
    }
}

/// An item of another key replaces an event.
async fn collide(bed: &Bed, damage: Damage) {
    let layout = bed.settings.layout;
    if layout == LayoutName::Annals {
        // A commit of another history of the same id, inside one with several numbers.
        let other = Bed::with(layout, &[1, 1, 1, 1]).await;
        return bed.put(other.row(4).await).await;
    }
    let row = bed.row(2).await;
    let other = "Cart|another".parse().unwrap();
    let moved = match (damage, layout) {
        (Collision, _) => {
            let beside = Bed::new(layout).await;
            beside.fill(&other, &[1, 1]).await;
            let mut moved = beside.row(2).await;
            for name in ["par", "num", "pkey", "skey"] {
                if let Some(value) = row.get(name) {
                    moved.insert(name, value.clone());
                }
            }
            moved
        }
        (_, LayoutName::Akka) => unsealed(row).with("persistence_id", other.as_str()),
        _ => unsealed(row).with("persistence-id", other.as_str()),
    };
    bed.put(moved).await;
}

async fn check(layout: LayoutName, damage: Damage) {
    let (found, replayed) = expected(layout, damage);
    let bed = damaged(layout, damage).await;
    let case = format!("{layout} {damage:?}");
    let (before, stored) = (bed.numbers().await, bed.items().await);
    assert_eq!(bed.found().await, found, "{case}");
    assert_eq!(bed.items().await, stored, "{case}: a check changes nothing");

    let repaired = bed.verify(Verify::Repair).await;
    assert_eq!(brief(&repaired, &Remedy::Repaired), found, "{case}");
    assert_eq!(bed.numbers().await, replayed, "{case}");
    let left: Vec<Brief> = found.into_iter().filter(|brief| !brief.3).collect();
    assert_eq!(bed.found().await, left, "{case}: after the repair");
    // Everything that was replayed before is replayed, and nothing else.
    if let Ok(before) = before {
        let after = bed.numbers().await.unwrap();
        assert!(before.iter().all(|n| after.contains(n)), "{case}");
    }
    if !left.is_empty() {
        assert_eq!(
            bed.items().await,
            stored,
            "{case}: what is left is not touched"
        );
    } else {
        // The journal continues.
        let journal = bed.journal().await;
        let last = journal.highest(&id()).await.unwrap().map_or(0, |n| n.get());
        bed.fill(&id(), &[1]).await;
        let numbers = bed.numbers().await.unwrap();
        assert!(numbers.last().is_some_and(|n| *n > last), "{case}");
        assert_eq!(bed.found().await, [], "{case}: after an append");
    }
}

#[tokio::test]
async fn every_damage_is_found_on_the_annals_layout() {
    each(LayoutName::Annals).await;
}

#[tokio::test]
async fn every_damage_is_found_on_the_akka_layout() {
    each(LayoutName::Akka).await;
}

#[tokio::test]
async fn every_damage_is_found_on_the_j5ik2o_layout() {
    each(LayoutName::J5ik2o).await;
}

async fn each(layout: LayoutName) {
    for damage in ALL {
        if cannot_be(layout, damage).is_none() {
            check(layout, damage).await;
        }
    }
}

#[tokio::test]
async fn intact_journals_have_no_findings() {
    for layout in LayoutName::ALL {
        let bed = Bed::with(layout, &[1, 1, 3, 99, 1, 250, 2]).await;
        assert_eq!(bed.found().await, [], "{layout}");
        for to in [2, 4, 150, 357] {
            bed.delete_to(to).await;
            assert_eq!(bed.found().await, [], "{layout} deleted to {to}");
        }
        let nobody: annals::PersistenceId = "nobody".parse().unwrap();
        let found = bed.journal().await.verify(&nobody, Verify::Check).await;
        assert_eq!(found.unwrap(), []);
    }
}

#[tokio::test]
async fn a_missing_chunk_is_found() {
    let bed = Bed::new(LayoutName::Annals).await;
    let random = annals::Random::seeded(1);
    let words = (0..70_000).flat_map(|_| random.bits().to_le_bytes());
    let large = annals::NewEvent::new(annals::Codec::Bytes, words.collect::<Vec<_>>());
    let journal = bed.journal().await;
    let appended = journal
        .append(&id(), annals::journal::Expected::Any, large)
        .await;
    appended.unwrap();
    let mut parts = bed.items().await.into_iter();
    let part = parts.rfind(|item| item.get("b").is_some());
    bed.remove(&part.unwrap()).await;
    assert_eq!(bed.found().await, [(Problem::Unreadable, 1, 1, false)]);
    assert_eq!(bed.numbers().await, CORRUPT);
}

/// Events after an unreadable one are checked too.
#[tokio::test]
async fn all_damages_are_found_at_once() {
    for layout in LayoutName::ALL {
        let bed = Bed::with(layout, &[1; 9]).await;
        for n in [3, 7] {
            let item = bed.row(n).await;
            let name = ["c", "crc"].into_iter();
            let name = name.into_iter().find(|name| item.get(name).is_some());
            bed.put(item.with(name.unwrap(), vec![0u8; 4])).await;
        }
        bed.remove(&bed.row(5).await).await;
        let want = [
            (Problem::Unreadable, 3, 3, false),
            (Problem::Gap, 5, 5, false),
            (Problem::Unreadable, 7, 7, false),
        ];
        assert_eq!(bed.found().await, want, "{layout}");
    }
}

/// The position in a damaged item must not be trusted, nor cause a panic.
#[tokio::test]
async fn impossible_positions_and_markers_are_found() {
    for (index, last) in [
        (5, 9),
        (0, u64::MAX),
        (2, u64::MAX - 1),
        (u64::MAX, u64::MAX),
    ] {
        for layout in [LayoutName::Akka, LayoutName::J5ik2o] {
            let bed = Bed::with(layout, &[1, 1, 1]).await;
            let item = unsealed(bed.row(2).await);
            bed.put(item.with("idx", index).with("cnt", last)).await;
            assert_eq!(bed.found().await, [(Problem::Unreadable, 2, 2, false)]);
            assert_eq!(bed.numbers().await, CORRUPT);
        }
    }
    for (kind, problem) in [("SH", Problem::HighMark), ("SL", Problem::LowMark)] {
        let bed = Bed::with(LayoutName::Akka, &[1, 1, 1]).await;
        let key = bed.table.key().item_of(&mark(kind, 0));
        bed.put(key.with("seq", u64::MAX)).await;
        let journal = bed.journal().await;
        // The highest does not need the low markers if a row of ours proves it.
        let highest = journal.highest(&id()).await;
        assert_eq!(highest.is_err(), kind == "SH");
        assert_eq!(bed.numbers().await, CORRUPT);
        let appended = journal
            .append(
                &id(),
                annals::journal::Expected::Any,
                annals_testkit::journals::text("4"),
            )
            .await;
        let told = annals::Error::from(appended.unwrap_err());
        assert_eq!(told.kind(), ErrorKind::Corrupt);
        let found = bed.verify(Verify::Check).await;
        let found: Vec<Problem> = found.iter().map(|finding| finding.problem).collect();
        assert_eq!(found, [problem]);
    }
}

/// If the JVM deletes too, an emptied item would mislead it: leftovers are removed.
#[tokio::test]
async fn leftovers_are_removed_if_the_jvm_deletes_too() {
    let mut bed = Bed::new(LayoutName::Akka).await;
    bed.settings.jvm_deletes = true;
    bed.fill(&id(), &[1, 1, 1, 1]).await;
    let left = bed.row(2).await;
    bed.delete_to(3).await;
    bed.put(left.clone()).await;
    assert_eq!(bed.found().await, [(Problem::Leftover, 2, 2, true)]);
    bed.verify(Verify::Repair).await;
    assert_eq!(bed.found().await, []);
    assert_eq!(bed.numbers().await.unwrap(), [4]);
    assert_eq!(bed.get(bed.table.key_of(&left).unwrap()).await, None);
}

/// The plugin failed to delete an event: deleted events after it prove that it should be deleted.
#[tokio::test]
async fn events_that_the_plugin_failed_to_delete_are_deleted() {
    let bed = Bed::with(LayoutName::Akka, &[1, 1, 1, 1]).await;
    for n in [1, 3] {
        bed.remove(&bed.row(n).await).await;
    }
    let low = bed.table.key().item_of(&bed.low_mark()).with("seq", 4u64);
    bed.put(low).await;
    assert_eq!(bed.found().await, [(Problem::Leftover, 2, 2, true)]);
    bed.verify(Verify::Repair).await;
    assert_eq!(bed.found().await, []);
    assert_eq!(bed.numbers().await.unwrap(), [4]);
}

/// The error names the table.
#[tokio::test]
async fn verifying_a_missing_table_is_an_error() {
    let items: Arc<dyn Items> = Arc::new(annals::memory::Memory::new());
    let bed = Bed::with(LayoutName::J5ik2o, &[1]).await;
    let journal = bed.journal_on(items).await;
    let told = journal.verify(&id(), Verify::Check).await.unwrap_err();
    assert_eq!(told.kind(), ErrorKind::Invalid);
}
