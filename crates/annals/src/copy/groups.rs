//! Grouping events into appends.
//!
//! An append has one time and one cause, so only events of one append of the source are appended
//! together. On layouts where an append is not atomic, each event is appended alone: an incomplete
//! append would block the sequence numbers that its events must get.
//!
//! Guarantees: groups are limited by count and bytes, so that every layout accepts them; a larger
//! event is a group of its own.

use std::pin::Pin;

use futures::stream::{Peekable, TryStreamExt};
use sha2::{Digest as _, Sha256};

use crate::journal::{Append, EventStream, Stamped};
use crate::{Event, NewEvent, Result, SequenceNumber, Token};

/// Maximum events of a group.
const EVENTS_MAX: usize = 1_000;
/// Maximum bytes of a group of several events.
const BYTES_MAX: usize = 1024 * 1024;

/// A replay of which the next event can be peeked.
pub(super) type Events = Peekable<EventStream>;

/// Events to append together, at least one.
pub(super) struct Group {
    pub(super) events: Vec<Event>,
    pub(super) token: Token,
}

/// Divides the source's events into groups.
pub(super) struct Groups {
    /// Whether appends to the target are atomic.
    pub(super) is_atomic: bool,
    /// The source's token of the previous event.
    pub(super) last_token: Option<Token>,
}

impl Groups {
    /// The next group; `None` at the end.
    pub(super) async fn next(&mut self, source: &mut Events) -> Result<Option<Group>> {
        let Some(first) = source.try_next().await? else {
            return Ok(None);
        };
        let (number, theirs) = (first.sequence_number, first.token);
        let mut bytes = size(&first.data);
        let mut events = vec![first];
        while self.is_atomic && events.len() < EVENTS_MAX {
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
        // One append of the source may become several, and a JVM writer has one token for all its
        // appends: only the first group keeps the token. Without atomic appends none does: those
        // layouts do not accept a writer that returns after another one.
        let is_first = self.last_token.replace(theirs) != Some(theirs);
        let token = match is_first && self.is_atomic {
            true => theirs,
            false => derive_token(theirs, number),
        };
        Ok(Some(Group { events, token }))
    }
}

/// Whether an event may be in the group of the one before it.
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

/// A token for a group that begins with this sequence number: the same in every copy.
fn derive_token(token: Token, number: SequenceNumber) -> Token {
    let mut hash = Sha256::new();
    hash.update(token.to_bytes());
    hash.update(number.get().to_be_bytes());
    let hash: [u8; 32] = hash.finalize().into();
    let mut bytes = [0; Token::BYTES];
    bytes.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
    Token::from_bytes(bytes)
}

impl Group {
    /// The sequence numbers of the first and last event.
    pub(super) fn ends(&self) -> Option<(SequenceNumber, SequenceNumber)> {
        let first = self.events.first()?.sequence_number;
        Some((first, self.events.last()?.sequence_number))
    }

    /// The append of this group.
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
