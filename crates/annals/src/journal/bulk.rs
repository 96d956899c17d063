//! Bulk appends: many appends in one call.

use std::convert::Infallible;
use std::sync::Arc;

use futures::stream::{Stream, StreamExt};

use super::in_order::in_order;
use super::{Append, AppendError, Appended, Expected, Journal};
use crate::PersistenceId;

/// One append of [`Journal::append_many`].
///
/// See there for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkAppend {
    /// The id to append to.
    pub persistence_id: PersistenceId,
    /// The event that the writer expects to be last.
    pub expected: Expected,
    /// The events, and the key or token of the append.
    pub append: Append,
}

impl BulkAppend {
    /// An append, as [`Journal::append`] takes it.
    pub fn new(
        persistence_id: PersistenceId,
        expected: Expected,
        append: impl Into<Append>,
    ) -> Self {
        Self {
            persistence_id,
            expected,
            append: append.into(),
        }
    }

    /// The bytes of its payloads.
    pub(super) fn payload_bytes(&self) -> usize {
        let events = self.append.events.iter().map(|event| event.payload.len());
        let snapshot = self.append.snapshot.as_ref();
        events.sum::<usize>() + snapshot.map_or(0, |state| state.bytes.len())
    }
}

impl Journal {
    /// Appends many times, many at once; returns a result for each append, in the same order.
    ///
    /// Each append is one [`append`](Self::append): atomic by itself, with its own expectation and
    /// key, and durable when its result is returned. Appends to the same id run in the order given;
    /// those to other ids run at the same time and share syncs of the disk. One that fails stops no
    /// other: an append to the same id that relies on it gets a conflict by its own expectation.
    ///
    /// At most 256 appends are open at once, with about 8 MiB of payloads; the input is read no
    /// further until results are taken. Appends make progress while the stream is polled. Those in
    /// flight when it is dropped may be stored: to find out, repeat them with the same
    /// [`Append::idempotency_key`].
    ///
    /// ```
    /// use annals::journal::{BulkAppend, Expected};
    /// use annals::{Codec, NewEvent};
    /// use futures::{StreamExt, stream};
    ///
    /// # use annals::Annals;
    /// # use annals::memory::Memory;
    /// # use annals::layout::AnnalsLayout;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> annals::Result<()> {
    /// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
    /// # let journal = annals.journal();
    /// let event = |text: &'static str| NewEvent::new(Codec::Text, text);
    /// let appends = [
    ///     BulkAppend::new("Cart|1".parse()?, Expected::Empty, event("opened")),
    ///     BulkAppend::new("Cart|2".parse()?, Expected::Any, event("opened")),
    ///     BulkAppend::new("Cart|1".parse()?, Expected::Empty, event("a conflict")),
    ///     BulkAppend::new("Cart|1".parse()?, Expected::Any, event("paid")),
    /// ];
    /// let mut results = journal.append_many(stream::iter(appends));
    /// let mut last = Vec::new();
    /// while let Some(result) = results.next().await {
    ///     last.push(result.ok().map(|appended| appended.last.get()));
    /// }
    /// assert_eq!(last, [Some(1), Some(1), None, Some(2)]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn append_many<S>(
        &self,
        appends: S,
    ) -> impl Stream<Item = Result<Appended, AppendError>> + Send + Unpin + use<S>
    where
        S: Stream<Item = BulkAppend> + Send + 'static,
    {
        let journal = Arc::new(self.clone());
        let append = move |one: BulkAppend| {
            let journal = journal.clone();
            async move {
                let BulkAppend {
                    persistence_id,
                    expected,
                    append,
                } = one;
                journal.append(&persistence_id, expected, append).await
            }
        };
        let results = in_order(appends.map(Ok::<_, Infallible>), append);
        results.map(|result| match result {
            Ok(result) => result,
            Err(never) => match never {},
        })
    }
}
