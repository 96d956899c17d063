//! A target that loses data: reading back detects it.

use std::sync::Arc;

use annals::IdStream;
use annals::copy::{Copier, CopyEndpoint};
use annals::journal::{
    AppendError, Appended, EventStream, Expected, Journal, JournalLayout, Skip, Stamped, Window,
};
use annals::memory::Memory;
use annals::store::Store;
use annals::verify::{Finding, Repairs};
use annals::{Annals, ErrorKind, PersistenceId, Result, SequenceNumber};
use annals_jvm::LayoutName;
use annals_jvm::j5ik2o::J5ik2oJournal;

use super::stage::{Stage, failure, settings};
use annals_testkit::journals::text;

/// Loses the metadata of the event with a number.
#[derive(Debug)]
struct Forgetful(J5ik2oJournal, u64);

#[async_trait::async_trait]
impl JournalLayout for Forgetful {
    async fn prepare(&self) -> Result<()> {
        self.0.prepare().await
    }

    async fn append(
        &self,
        id: &PersistenceId,
        expected: Expected,
        mut stamped: Stamped,
    ) -> Result<Appended, AppendError> {
        if expected == annals_testkit::journals::after(self.1 - 1) {
            stamped.append.events[0].metadata.clear();
        }
        self.0.append(id, expected, stamped).await
    }

    fn replay(&self, id: &PersistenceId, window: Window) -> EventStream {
        self.0.replay(id, window)
    }

    async fn highest(&self, id: &PersistenceId) -> Result<Option<SequenceNumber>> {
        self.0.highest(id).await
    }

    async fn delete_to(
        &self,
        id: &PersistenceId,
        to: SequenceNumber,
    ) -> Result<Option<SequenceNumber>> {
        self.0.delete_to(id, to).await
    }

    async fn skip(&self, id: &PersistenceId, skip: Skip) -> Result<()> {
        self.0.skip(id, skip).await
    }

    async fn purge(&self, id: &PersistenceId) -> Result<bool> {
        self.0.purge(id).await
    }

    async fn verify(&self, id: &PersistenceId, repairs: &Repairs) -> Result<Vec<Finding>> {
        self.0.verify(id, repairs).await
    }

    fn persistence_ids(&self, prefix: &str) -> IdStream {
        self.0.persistence_ids(prefix)
    }
}

#[tokio::test]
async fn events_that_read_back_differently_are_reported() {
    let source = Stage::new(LayoutName::Annals).await;
    for _ in 0..7 {
        source
            .append("Cart-1", text("x").metadata("by", "alice"))
            .await;
    }
    let items = Arc::new(Memory::new());
    let settings = settings(LayoutName::J5ik2o);
    Annals::create(items.clone(), &settings).await.unwrap();
    let store = Store::from(items);
    let layout = J5ik2oJournal::open(&store, &settings).unwrap();
    let journal = Journal::new(Arc::new(Forgetful(layout, 5)), &store);
    let target = CopyEndpoint::new(journal);
    let (kind, message) = failure(&Copier::new(CopyEndpoint::from(&source.annals), target)).await;
    assert_eq!(kind, ErrorKind::Corrupt);
    assert!(message.contains("reads back differently"), "{message}");
    assert!(
        message.contains("number=`5`, differs=`metadata`"),
        "{message}"
    );
}
