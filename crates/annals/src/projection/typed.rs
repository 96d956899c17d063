//! The feed with the events of an entity type.

use std::fmt;
use std::marker::PhantomData;

use futures::stream::{self, TryStreamExt};

use super::fed::{self, Fed};
use crate::entity::{Entity, EntitySettings, EventReader};
use crate::feed::{Batch, BatchStream, Position, Reading};
use crate::{Result, ResultStream};

/// The events of an entity type, each with the position after it: resume there with
/// [`Reading::after`].
///
/// ```
/// use futures::TryStreamExt;
/// # use annals::entity::{Entity, EntityEvent, Stored};
/// # use annals::journal::Expected;
/// # use annals::layout::AnnalsLayout;
/// # use annals::{Annals, memory::Memory};
/// # #[derive(Default, serde::Serialize, serde::Deserialize, Stored)]
/// # struct Cart;
/// # #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, EntityEvent)]
/// # enum CartEvent { Opened }
/// # impl Entity for Cart {
/// #     const TYPE: &'static str = "Cart";
/// #     type Event = CartEvent;
/// #     type Error = std::convert::Infallible;
/// #     fn apply(&mut self, _: &CartEvent) {}
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// # let opened = CartEvent::Opened.to_event()?;
/// # annals.journal().append(&"Cart|42".parse()?, Expected::Empty, opened).await?;
/// let mut events = annals.feed().of::<Cart>().events();
/// while let Some((event, position)) = events.try_next().await? {
///     assert_eq!((event.entity(), &event.event), ("42", &CartEvent::Opened));
///     println!("{position}");
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is read before `events` or `follow` is called"]
pub struct TypedReading<E> {
    reading: Reading,
    reader: EventReader,
    entity: PhantomData<fn() -> E>,
}

impl Reading {
    /// Only events of this entity type, decoded. See [`TypedReading`] for an example.
    pub fn of<E: Entity>(self) -> TypedReading<E> {
        TypedReading {
            reading: self.category(E::TYPE),
            reader: EventReader::default(),
            entity: PhantomData,
        }
    }
}

impl<E> fmt::Debug for TypedReading<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedReading").field(&self.reading).finish()
    }
}

type Typed<E> = (Fed<<E as Entity>::Event>, Position);

impl<E: Entity> TypedReading<E> {
    /// Read events with the entity's adapters.
    pub fn adapters_of(mut self, settings: &EntitySettings<E>) -> Self {
        self.reader = settings.event_reader().clone();
        self
    }

    /// The events up to the end of the feed as it is now.
    pub fn events(self) -> ResultStream<Typed<E>> {
        let Self {
            reading, reader, ..
        } = self;
        typed::<E>(reading.batches(), reader)
    }

    /// The events up to the end of the feed, and then new ones as they are committed. The stream does
    /// not end; drop it to stop.
    pub fn follow(self) -> ResultStream<Typed<E>> {
        let Self {
            reading, reader, ..
        } = self;
        typed::<E>(reading.follow(), reader)
    }
}

fn typed<E: Entity>(batches: BatchStream, reader: EventReader) -> ResultStream<Typed<E>> {
    let events = batches.and_then(move |batch| {
        let events = typed_batch::<E>(&batch, &reader);
        async move { events }
    });
    let events = events.map_ok(|events| stream::iter(events.into_iter().map(Ok)));
    ResultStream::new(events.try_flatten())
}

fn typed_batch<E: Entity>(batch: &Batch, reader: &EventReader) -> Result<Vec<Typed<E>>> {
    let mut all = Vec::new();
    let mut before = batch.start().clone();
    for (event, after) in batch.events() {
        let typed = fed::read::<E::Event>(reader, event)?;
        let count = typed.len();
        for (index, typed) in typed.into_iter().enumerate() {
            // Adapters made several of one: only the last has the position after it.
            let is_last = index + 1 == count;
            all.push((
                typed,
                if is_last {
                    after.clone()
                } else {
                    before.clone()
                },
            ));
        }
        before = after;
    }
    Ok(all)
}
