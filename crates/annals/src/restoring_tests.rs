//! Restores to points at which there were snapshots that are erased since.

use futures::TryStreamExt;
use tempfile::TempDir;

use crate::embedded::{Embedded, RestorePoint, Restored, backup};
use crate::journal::{Expected, Window};
use crate::layout::AnnalsLayout;
use crate::snapshot::Criteria;
use crate::store::Store;
use crate::{
    Annals, Codec, ErrorKind, NewEvent, Payload, PersistenceId, Random, Result, SequenceNumber,
};

/// A store whose values are erased when a test says so.
struct Folders {
    root: TempDir,
    annals: Annals,
}

impl Folders {
    async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let annals = Annals::embedded(root.path().join("data")).await.unwrap();
        Self { root, annals }
    }

    /// Appends an event; returns the position up to which everything is in a backup.
    async fn append(&self, id: &str) -> u64 {
        let event = NewEvent::new(Codec::Text, "happened");
        let id: PersistenceId = id.parse().unwrap();
        let journal = self.annals.journal();
        journal.append(&id, Expected::Any, event).await.unwrap();
        self.position().await
    }

    async fn save(&self, id: &str, number: u64, state: Payload) -> u64 {
        let at = SequenceNumber::new(number).unwrap();
        let snapshots = self.annals.snapshots();
        snapshots
            .save(&id.parse().unwrap(), at, state)
            .await
            .unwrap();
        self.position().await
    }

    async fn delete_snapshots(&self, id: &str, to: u64) {
        let criteria = Criteria::ALL.up_to(SequenceNumber::new(to).unwrap());
        let snapshots = self.annals.snapshots();
        snapshots
            .delete(&id.parse().unwrap(), criteria)
            .await
            .unwrap();
    }

    async fn position(&self) -> u64 {
        let changes = self.annals.store().changes().unwrap();
        changes.history().await.unwrap().last.position
    }

    /// Erases what was deleted, and takes a backup.
    async fn erase_and_back_up(self) -> BackedUp {
        let Self { root, annals } = self;
        drop(annals);
        let data = root.path().join("data");
        let items = Embedded::open(&data, &Default::default()).unwrap();
        items.erase_now().await.unwrap();
        let report = backup(&data, &root.path().join("copy"), false).unwrap();
        assert!(report.restorable_from > 0, "{report:?}");
        BackedUp { root }
    }
}

struct BackedUp {
    root: TempDir,
}

impl BackedUp {
    async fn restore(&self, name: &str, position: u64) -> Result<Restored> {
        let (copy, to) = (self.root.path().join("copy"), self.root.path().join(name));
        let point = RestorePoint::Position(position);
        Annals::restore(&copy, &to, point, &AnnalsLayout::default()).await
    }

    async fn open(&self, name: &str) -> Annals {
        Annals::embedded(self.root.path().join(name)).await.unwrap()
    }

    async fn refused(&self, position: u64, says: &str) {
        let error = self.restore("refused", position).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.message().contains(says), "{error}");
        assert!(!self.root.path().join("refused").exists());
    }
}

/// How many events of an id there are, and the number of its newest snapshot.
async fn recovered(annals: &Annals, id: &str) -> (usize, Option<u64>) {
    let id = id.parse().unwrap();
    let events = annals.journal().replay(&id, Window::ALL);
    let events: Vec<_> = events.try_collect().await.unwrap();
    let snapshot = annals.snapshots().load(&id, Criteria::ALL).await.unwrap();
    let number = snapshot.map(|snapshot| snapshot.sequence_number.get());
    (events.len(), number)
}

fn small(text: &str) -> Payload {
    Payload::new(Codec::Text, text.to_owned())
}

#[tokio::test]
async fn replaced_snapshots_are_left_out_of_earlier_points_and_every_event_is_there() {
    let folders = Folders::new().await;
    let mut points = Vec::new();
    for n in 1..=20 {
        // Until it is deleted, the snapshot before is there, too.
        let before = u64::from(n > 1);
        let both = before + u64::from(n < 20);
        points.push((folders.append("Cart|1").await, n as usize, before));
        let saved = folders.save("Cart|1", n, small("state")).await;
        points.push((saved, n as usize, both));
        if n > 1 {
            folders.delete_snapshots("Cart|1", n - 1).await;
        }
    }
    folders.append("Cart|2").await;
    let last = folders.position().await;
    let backed_up = folders.erase_and_back_up().await;
    for (at, (position, events, left_out)) in points.iter().enumerate() {
        let name = format!("restored-{at}");
        let restored = backed_up.restore(&name, *position).await.unwrap();
        assert_eq!(restored.position, *position);
        let annals = backed_up.open(&name).await;
        let (found, snapshot) = recovered(&annals, "Cart|1").await;
        assert_eq!(found, *events, "{position}");
        // The last one was never replaced.
        let wanted = (at == points.len() - 1).then_some(20);
        assert_eq!(snapshot, wanted, "{position}");
        assert_eq!(restored.snapshots_left_out, *left_out, "{position}");
        // It goes on, erases and is backed up like any other.
        let id = "Cart|1".parse().unwrap();
        let event = NewEvent::new(Codec::Text, "later");
        annals
            .journal()
            .append(&id, Expected::Any, event)
            .await
            .unwrap();
        drop(annals);
        let data = backed_up.root.path().join(&name);
        let items = Embedded::open(&data, &Default::default()).unwrap();
        items.erase_now().await.unwrap();
        drop(items);
        let reader = Embedded::open_read_only(&data, &Default::default()).unwrap();
        let store = Store::new(reader);
        let annals = Annals::open(store, &AnnalsLayout::default()).await.unwrap();
        assert_eq!(recovered(&annals, "Cart|1").await.0, events + 1);
        backup(
            &data,
            &backed_up.root.path().join(format!("copy-{at}")),
            false,
        )
        .unwrap();
    }
    let whole = backed_up.restore("whole", last).await.unwrap();
    assert_eq!(whole.snapshots_left_out, 0);
}

#[tokio::test]
async fn a_large_snapshot_is_left_out_with_its_chunks() {
    let folders = Folders::new().await;
    folders.append("Cart|1").await;
    let random = Random::seeded(1);
    let bytes: Vec<u8> = (0..900_000).map(|_| random.bits() as u8).collect();
    let state = Payload::new(Codec::Cbor, bytes);
    let point = folders.save("Cart|1", 1, state).await;
    folders.append("Cart|1").await;
    folders.save("Cart|1", 2, small("state")).await;
    folders.delete_snapshots("Cart|1", 1).await;
    let backed_up = folders.erase_and_back_up().await;
    let restored = backed_up.restore("restored", point).await.unwrap();
    assert_eq!(restored.snapshots_left_out, 1);
    let annals = backed_up.open("restored").await;
    assert_eq!(recovered(&annals, "Cart|1").await, (1, None));
    let findings = annals.snapshots().verify(None);
    let findings: Vec<_> = findings.try_collect().await.unwrap();
    assert!(findings.is_empty(), "{findings:?}");
}

#[tokio::test]
async fn erased_events_are_never_left_out() {
    let folders = Folders::new().await;
    let id = "Cart|1".parse().unwrap();
    folders.append("Cart|1").await;
    let point = folders.save("Cart|1", 1, small("state")).await;
    folders.append("Cart|1").await;
    let second = folders.save("Cart|1", 2, small("state")).await;
    folders.delete_snapshots("Cart|1", 1).await;
    let journal = folders.annals.journal();
    journal.delete_to(&id, SequenceNumber::FIRST).await.unwrap();
    folders.append("Cart|1").await;
    let last = folders.position().await;
    let backed_up = folders.erase_and_back_up().await;
    backed_up.refused(point, "are erased from the backup").await;
    backed_up
        .refused(second, "are erased from the backup")
        .await;
    backed_up.restore("whole", last).await.unwrap();
}

#[tokio::test]
async fn a_snapshot_that_stands_for_deleted_events_is_not_left_out() {
    let folders = Folders::new().await;
    let id = "Cart|1".parse().unwrap();
    folders.append("Cart|1").await;
    folders.save("Cart|1", 1, small("state")).await;
    let journal = folders.annals.journal();
    journal.delete_to(&id, SequenceNumber::FIRST).await.unwrap();
    // An id that has only snapshots.
    folders.append("Cart|2").await;
    let point = folders.position().await;
    folders.append("Cart|1").await;
    folders.save("Cart|1", 2, small("state")).await;
    folders.delete_snapshots("Cart|1", 1).await;
    let backed_up = folders.erase_and_back_up().await;
    backed_up
        .refused(point, "an entity had deleted events")
        .await;

    let folders = Folders::new().await;
    folders.append("Cart|2").await;
    let point = folders.save("Only|1", 1, small("state")).await;
    folders.delete_snapshots("Only|1", 1).await;
    let backed_up = folders.erase_and_back_up().await;
    backed_up
        .refused(point, "an entity had deleted events")
        .await;
}
