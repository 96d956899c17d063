//! Which events are appended together.
//!
//! An append has one time and one cause, so only events that share them can come together; those of
//! one append of the source do. Where an append may be torn, each event comes alone: a torn one would
//! keep the numbers taken that its events must get.
//!
//! Promises: bounded by count and bytes, so that every layout takes it; one event alone where it is
//! larger.

use std::pin::Pin;

use futures::stream::{Peekable, TryStreamExt};
use sha2::{Digest as _, Sha256};

use crate::journal::{Append, EventStream, Stamped};
use crate::{Event, NewEvent, Result, SequenceNumber, Token};

/// The most events of one append.
const EVENTS_MAX: usize = 1_000;
/// The most bytes of one append, unless a single event has more.
const BYTES_MAX: usize = 1024 * 1024;

/// Events of the source as they come.
pub(super) type Source = Peekable<EventStream>;

/// Events to be appended together, at least one.
pub(super) struct Group {
    pub(super) events: Vec<Event>,
    pub(super) token: Token,
}

/// Cuts the source into groups.
pub(super) struct Groups {
    /// Whether an append is there whole or not at all.
    pub(super) lands_whole: bool,
    /// The source's token of what comes before.
    pub(super) last: Option<Token>,
}

impl Groups {
    /// The next group; `None` at the end.
    pub(super) async fn next(&mut self, source: &mut Source) -> Result<Option<Group>> {
        let Some(first) = source.try_next().await? else {
            return Ok(None);
        };
        let (number, theirs) = (first.sequence_number, first.token);
        let mut bytes = size(&first.data);
        let mut events = vec![first];
        while self.lands_whole && events.len() < EVENTS_MAX {
            let last = events.last();
            let next = Pin::new(&mut *source).next_if(|next| {
                next.as_ref().is_ok_and(|next| {
                    let is_small = bytes + size(&next.data) <= BYTES_MAX;
                    is_small && last.is_some_and(|last| follows(last, next))
                })
            });
            let Some(next) = next.await.transpose()? else {
                break;
            };
            bytes += size(&next.data);
            events.push(next);
        }
        // One append of the source may become several, and the JVM's writers have one token for
        // all of theirs: only the first of them keeps it. Where each event comes alone none does:
        // on those layouts a writer that comes back behind another one is not believed.
        let is_first = self.last.replace(theirs) != Some(theirs);
        let token = match is_first && self.lands_whole {
            true => theirs,
            false => derived(theirs, number),
        };
        Ok(Some(Group { events, token }))
    }
}

/// Whether an event may come with the one before it.
fn follows(last: &Event, next: &Event) -> bool {
    last.sequence_number.next() == Some(next.sequence_number)
        && last.token == next.token
        && last.time_ms == next.time_ms
        && last.causation == next.causation
        && last.correlation == next.correlation
}

fn size(event: &NewEvent) -> usize {
    let metadata = event.metadata.iter();
    let metadata: usize = metadata.map(|(name, value)| name.len() + value.len()).sum();
    let tags: usize = event.tags.iter().map(String::len).sum();
    event.payload.len() + event.manifest.len() + tags + metadata
}

/// A token of its own for an append that begins with this number: the same whenever it is copied.
fn derived(token: Token, number: SequenceNumber) -> Token {
    let mut hash = Sha256::new();
    hash.update(token.to_bytes());
    hash.update(number.get().to_be_bytes());
    let hash: [u8; 32] = hash.finalize().into();
    let mut bytes = [0; Token::BYTES];
    bytes.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
    Token::from_bytes(bytes)
}

impl Group {
    /// The numbers of its first and last event.
    pub(super) fn ends(&self) -> Option<(SequenceNumber, SequenceNumber)> {
        let first = self.events.first()?.sequence_number;
        Some((first, self.events.last()?.sequence_number))
    }

    /// What is to be appended.
    pub(super) fn into_stamped(self) -> Stamped {
        let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(str::to_owned);
        let first = self.events.first();
        let (causation, correlation) = first.map_or((None, None), |first| {
            (text(&first.causation), text(&first.correlation))
        });
        Stamped {
            token: self.token,
            time_ms: first.map_or(0, |first| first.time_ms),
            append: Append {
                causation,
                correlation,
                ..Append::of(self.events.into_iter().map(|e| e.data).collect::<Vec<_>>())
            },
        }
    }
}
