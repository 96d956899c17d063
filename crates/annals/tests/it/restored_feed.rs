//! Readers of the feed after a backup was restored while the original went on: both stores give the same
//! places to different events, and no reader may take one for the other.

use std::path::{Path, PathBuf};

use annals::embedded::{RestorePoint, backup, restore};
use annals::entity::{EntityEvent, Stored};
use annals::feed::{Filter, Position};
use annals::group::{GroupSettings, Take};
use annals::journal::Expected;
use annals::projection::{Fed, View};
use annals::{Annals, Codec, Error, ErrorKind, Event, NewEvent};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

#[derive(Serialize, Deserialize, EntityEvent)]
enum Noted {
    Said(String),
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize, Stored)]
struct Said(Vec<String>);

/// Every text that was said to an id, in order.
struct AllSaid;

impl View for AllSaid {
    const NAME: &'static str = "all-said";
    type Event = Noted;
    type Row = Said;

    fn source() -> Filter {
        Filter::new().category("Note")
    }

    fn key(event: &Fed<Noted>) -> Option<String> {
        Some(event.entity().to_owned())
    }

    fn apply(row: Option<Said>, event: &Fed<Noted>) -> Option<Said> {
        let Noted::Said(text) = &event.event;
        let mut said = row.unwrap_or_default();
        said.0.push(text.clone());
        Some(said)
    }
}

struct Stage {
    folder: TempDir,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Backs up one store and restores it as another.
    fn fork(&self, from: &str, to: &str, point: RestorePoint) {
        let copy = self.path(&format!("backup-{to}"));
        backup(&self.path(from), &copy, false).unwrap();
        restore(&copy, &self.path(to), point).unwrap();
    }

    async fn open(&self, name: &str) -> Annals {
        open(&self.path(name)).await
    }
}

async fn open(folder: &Path) -> Annals {
    Annals::embedded(folder).await.unwrap()
}

async fn say(annals: &Annals, id: &str, text: &str) {
    let event = Noted::Said(text.to_owned()).to_event().unwrap();
    let id = id.parse().unwrap();
    let appended = annals.journal().append(&id, Expected::Any, event);
    appended.await.unwrap();
}

fn text(event: &Event) -> String {
    let event = NewEvent::new(Codec::Json, event.data.payload.clone());
    event.decode().unwrap()
}

async fn after(annals: &Annals, position: &Position) -> Result<Vec<String>, Error> {
    let events = annals.feed().after(position.clone()).events();
    let events: Vec<Event> = events.try_collect().await?;
    Ok(events.iter().map(text).collect())
}

fn refused<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Error {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    assert!(error.to_string().contains("restored"), "{error:?}");
    error
}

#[tokio::test]
async fn a_reader_resumes_up_to_the_point_of_the_restore_and_not_after_it() {
    let stage = Stage::new();
    let original = stage.open("original").await;
    say(&original, "Note|1", "a").await;
    let before = original.feed().head().await.unwrap();
    say(&original, "Note|1", "b").await;
    let at_end = original.feed().head().await.unwrap();
    stage.fork("original", "restored", RestorePoint::End);
    say(&original, "Note|1", "lost").await;
    let later = original.feed().head().await.unwrap();

    let restored = stage.open("restored").await;
    for n in 0..10 {
        say(&restored, "Note|1", &n.to_string()).await;
    }
    let head = restored.feed().head().await.unwrap();
    assert!(head.lane(0).place > later.lane(0).place);
    let new: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    assert_eq!(after(&restored, &at_end).await.unwrap(), new);
    let with_b: Vec<String> = ["b".to_owned()].into_iter().chain(new).collect();
    assert_eq!(after(&restored, &before).await.unwrap(), with_b);
    refused(after(&restored, &later).await);
    // And the other way round.
    let foreign = after(&original, &head).await.unwrap_err();
    assert_eq!(foreign.kind(), ErrorKind::Invalid);
    assert_eq!(after(&original, &at_end).await.unwrap(), ["lost"]);

    // It does not depend on what the process remembers.
    drop(restored);
    let restored = stage.open("restored").await;
    refused(after(&restored, &later).await);
    assert_eq!(after(&restored, &head).await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn every_restore_begins_a_history_of_its_own() {
    let stage = Stage::new();
    let first = stage.open("first").await;
    say(&first, "Note|1", "a").await;
    let of_first = first.feed().head().await.unwrap();
    stage.fork("first", "second", RestorePoint::End);
    stage.fork("first", "other", RestorePoint::End);

    let second = stage.open("second").await;
    say(&second, "Note|1", "b").await;
    let of_second = second.feed().head().await.unwrap();
    say(&second, "Note|1", "lost").await;
    let lost = second.feed().head().await.unwrap();
    let other = stage.open("other").await;
    say(&other, "Note|1", "c").await;
    assert_eq!(
        other.feed().head().await.unwrap().lanes(),
        of_second.lanes()
    );
    let error = after(&other, &of_second).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");

    // To a position of the feed, also one of an earlier history.
    let point = |position: &Position| RestorePoint::Fed {
        generation: position.generation(),
        place: position.lane(0).place,
    };
    stage.fork("second", "third", point(&of_second));
    let third = stage.open("third").await;
    say(&third, "Note|1", "d").await;
    assert_eq!(after(&third, &of_first).await.unwrap(), ["b", "d"]);
    assert_eq!(after(&third, &of_second).await.unwrap(), ["d"]);
    refused(after(&third, &lost).await);
    stage.fork("second", "fourth", point(&of_first));
    let fourth = stage.open("fourth").await;
    assert_eq!(after(&fourth, &of_first).await.unwrap(), [""; 0]);
    let (copy, fifth) = (stage.path("backup-third"), stage.path("fifth"));
    let of_other = point(&other.feed().head().await.unwrap());
    let error = restore(&copy, &fifth, of_other).unwrap_err();
    assert!(error.to_string().contains("another store"), "{error:?}");
    assert!(!fifth.exists());
}

#[tokio::test]
async fn views_and_groups_of_the_store_continue() {
    let stage = Stage::new();
    let original = stage.open("original").await;
    let settings = GroupSettings::new();
    let group = original.groups().group("workers").unwrap();
    group.put(&settings).await.unwrap();
    say(&original, "Note|1", "a").await;
    let view = original.projections().view::<AllSaid>();
    let view = view.start().await.unwrap();
    view.caught_up().await.unwrap();
    let taken = group.next(&Take::new()).await.unwrap().unwrap();
    let ids: Vec<_> = taken.iter().map(|delivery| delivery.id).collect();
    group.ack(&ids).await.unwrap();
    view.stop().await;
    stage.fork("original", "restored", RestorePoint::End);
    say(&original, "Note|1", "lost").await;

    let restored = stage.open("restored").await;
    let view = restored.projections().view::<AllSaid>();
    let view = view.start().await.unwrap();
    for said in ["b", "c"] {
        say(&restored, "Note|1", said).await;
    }
    view.caught_up().await.unwrap();
    let row = view.get("1").await.unwrap().unwrap();
    assert_eq!(row, Said(["a", "b", "c"].map(str::to_owned).into()));
    view.stop().await;

    let group = restored.groups().group("workers").unwrap();
    let mut said = Vec::new();
    loop {
        let taken = group.next(&Take::new()).await.unwrap().unwrap();
        if taken.is_empty() {
            break;
        }
        for delivery in &taken {
            said.extend(delivery.events.iter().map(text));
            group.ack(&[delivery.id]).await.unwrap();
        }
    }
    assert_eq!(said, ["b", "c"]);
    let status = group.status().await.unwrap().unwrap();
    let head = restored.feed().head().await.unwrap();
    assert_eq!(status.floor.generation(), head.generation());
    assert_eq!(status.lag.events, 0);
}
