//! Idempotency keys: a caller's name for one append, recognised when the append is repeated.
//!
//! The token of a keyed append has 40 bits of the key's digest and 24 of the content's, and stays in
//! the tombstone when the events are deleted. The last event has 128 bits of each in its metadata
//! ([`MARK`]). The token finds a repeated append and the metadata confirms it, so that an unrelated
//! append with a similar token is never mistaken for it.
//!
//! With an expected sequence number a key is recognised for ever, since the append itself checks
//! that position; the [`BEFORE`] sequence numbers before it are checked for other uses of the key.
//! Without one, the last [`LOOK_BACK`] sequence numbers are checked. An append is a conflict if its
//! key was used for something else there, or if tokens of the last [`SURE`] numbers were deleted.

use std::fmt;
use std::str::FromStr;

use futures::TryStreamExt;
use sha2::{Digest, Sha256};

use super::repeat::back;
use super::{
    Append, AppendError, Appended, Conflict, Expected, Journal, Signature, Stamped, Window,
};
use crate::{Error, Event, PersistenceId, Result, SequenceNumber, Token};

/// The maximum length of a key.
const KEY_BYTES_MAX: usize = 255;
/// How many sequence numbers are checked for an append without an expectation.
const LOOK_BACK: u64 = 128;
/// How many of them must have a known token, deleted or not.
const SURE: u64 = 32;
/// How many sequence numbers before an expectation are checked for another use of the key.
const BEFORE: u64 = 16;
/// The number of attempts without an expectation while other writers are faster.
const TRIES_MAX: usize = 32;
/// The metadata of the last event of a keyed append: 32 hexadecimal digits of the key's digest, and
/// 32 of the content's.
pub(super) const MARK: &str = "annals-idempotency";

/// A caller's name for one append: 1 to 255 visible ASCII characters.
///
/// ```
/// use annals::journal::{Append, Expected, IdempotencyKey};
/// use annals::{Codec, NewEvent};
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// # let journal = annals.journal();
/// let id = "Cart|42".parse()?;
/// let key: IdempotencyKey = "request-7".parse()?;
/// let append = Append::from(NewEvent::new(Codec::Text, "paid")).idempotency_key(key);
/// let first = journal.append(&id, Expected::Any, append.clone()).await?;
///
/// // Repeated, by any process: acknowledged, and not appended again.
/// assert_eq!(journal.append(&id, Expected::Any, append).await?, first);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for IdempotencyKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if text.is_empty() || text.len() > KEY_BYTES_MAX || !is_visible {
            return Err(Error::invalid(format!(
                "an idempotency key has 1 to {KEY_BYTES_MAX} visible ASCII characters"
            )));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdempotencyKey({})", self.0)
    }
}

/// The digests of a key and of the content of its append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyUse {
    key: [u8; 16],
    content: [u8; 16],
}

/// How a stored append relates to a use of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Match {
    /// Another append.
    Other,
    /// The same append.
    Same,
    /// Another append under the same key.
    Misused,
}

impl KeyUse {
    pub(super) fn new(
        (id, key): (&PersistenceId, &IdempotencyKey),
        expected: Expected,
        append: &Append,
    ) -> Self {
        let mut digest = Sha256::new();
        field(&mut digest, id.as_str());
        field(&mut digest, key.as_str());
        let key = half(digest);
        let mut digest = Sha256::new();
        field(&mut digest, id.as_str());
        field(&mut digest, expected.to_string());
        for text in [&append.causation, &append.correlation] {
            optional(&mut digest, text.as_deref());
        }
        optional(&mut digest, append.snapshot.as_ref().map(|it| &it.bytes));
        if let Some(state) = &append.snapshot {
            field(&mut digest, state.codec.to_string());
            field(&mut digest, &state.manifest);
            field(&mut digest, state.schema.to_be_bytes());
        }
        for event in &append.events {
            field(&mut digest, &event.payload);
            field(&mut digest, event.codec.to_string());
            field(&mut digest, &event.manifest);
            field(&mut digest, event.schema.to_be_bytes());
            field(&mut digest, event.tags.len().to_be_bytes());
            event.tags.iter().for_each(|tag| field(&mut digest, tag));
            field(&mut digest, event.metadata.len().to_be_bytes());
            for (name, value) in &event.metadata {
                field(&mut digest, name);
                field(&mut digest, value);
            }
        }
        let content = half(digest);
        Self { key, content }
    }

    pub(super) fn token(self) -> Token {
        let ([a, b, c, d, e, ..], [f, g, h, ..]) = (self.key, self.content);
        Token::from_bytes([a, b, c, d, e, f, g, h])
    }

    /// Adds the digests to the metadata of the last event.
    pub(super) fn mark(self, append: &mut Append) {
        if let Some(last) = append.events.last_mut() {
            last.metadata.insert(MARK.to_owned(), self.to_string());
        }
    }

    /// Whether a token has the bits of this key.
    fn is_alike(self, token: Token) -> bool {
        let ([a, b, c, d, e, ..], [f, g, h, i, j, ..]) =
            (self.token().to_bytes(), token.to_bytes());
        [a, b, c, d, e] == [f, g, h, i, j]
    }

    /// Compares with the metadata of the last event of an append.
    fn compare(self, event: &Event) -> Match {
        let Some(mark) = event.data.metadata.get(MARK) else {
            return Match::Other;
        };
        let ours = self.to_string();
        match (*mark == ours, ours.split_at_checked(32)) {
            (true, _) => Match::Same,
            (false, Some((key, _))) if mark.starts_with(key) => Match::Misused,
            _ => Match::Other,
        }
    }
}

impl fmt::Display for KeyUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, content) = (
            u128::from_be_bytes(self.key),
            u128::from_be_bytes(self.content),
        );
        write!(f, "{key:032x}{content:032x}")
    }
}

fn half(digest: Sha256) -> [u8; 16] {
    digest.finalize().first_chunk().copied().unwrap_or_default()
}

/// A field with its length, so that no two lists of fields have the same bytes.
fn field(digest: &mut Sha256, bytes: impl AsRef<[u8]>) {
    digest.update((bytes.as_ref().len() as u64).to_be_bytes());
    digest.update(bytes);
}

fn optional(digest: &mut Sha256, bytes: Option<impl AsRef<[u8]>>) {
    digest.update([u8::from(bytes.is_some())]);
    if let Some(bytes) = bytes {
        field(digest, bytes);
    }
}

impl Journal {
    /// Appends with a key: once, however often it is repeated.
    pub(super) async fn append_keyed(
        &self,
        id: &PersistenceId,
        expected: Expected,
        (stamped, used): (Stamped, KeyUse),
    ) -> Result<Appended, AppendError> {
        if expected == Expected::Any {
            return self.append_keyed_anywhere(id, stamped, used).await;
        }
        if let Expected::Last(last) = expected {
            let signatures = self.signatures(id, back(last, BEFORE)..=last).await?;
            for signature in signatures {
                // The same content with another expectation is misuse too.
                if self.compare(id, signature, used).await? != Match::Other {
                    return Err(misused(id));
                }
            }
        }
        let time_ms = stamped.time_ms;
        match self.append_stamped(id, expected, stamped).await {
            Ok(appended) if appended.time_ms != time_ms => self.confirm(id, appended, used).await,
            Err(AppendError::Conflict(conflict)) if is_misused(&conflict, used) => Err(misused(id)),
            ended => ended,
        }
    }

    async fn append_keyed_anywhere(
        &self,
        id: &PersistenceId,
        stamped: Stamped,
        used: KeyUse,
    ) -> Result<Appended, AppendError> {
        let events = stamped.append.events.len() as u64;
        let mut tries = 1;
        loop {
            let expected = self.expected_for(id, used, events).await?;
            match self.append_stamped(id, expected, stamped.clone()).await {
                Err(AppendError::Conflict(mut conflict)) if tries >= TRIES_MAX => {
                    (conflict.expected, conflict.found) = (Expected::Any, Vec::new());
                    return Err(AppendError::Conflict(conflict));
                }
                Err(AppendError::Conflict(_)) => tries += 1,
                ended => return ended,
            }
        }
    }

    /// The expectation to append with: that of the same append if it is stored already, or else the
    /// last event.
    async fn expected_for(
        &self,
        id: &PersistenceId,
        used: KeyUse,
        events: u64,
    ) -> Result<Expected, AppendError> {
        let Some(highest) = self.highest(id).await? else {
            return Ok(Expected::Empty);
        };
        let (mut stored, mut is_unsure) = (None, false);
        let sure = back(highest, SURE);
        let signatures = self.signatures(id, back(highest, LOOK_BACK)..=highest);
        for signature in signatures.await? {
            is_unsure |= signature.token.is_none() && signature.last >= sure;
            match self.compare(id, signature, used).await? {
                Match::Misused => return Err(misused(id)),
                Match::Same => stored = Some(signature.last),
                Match::Other => {}
            }
        }
        let last = match stored {
            Some(last) => SequenceNumber::new(last.get().saturating_sub(events)),
            None if is_unsure => return Err(unknown_token(id)),
            None => Some(highest),
        };
        Ok(last.map_or(Expected::Empty, Expected::Last))
    }

    /// Compares a stored append with a use of a key: by its metadata, or, if its events are deleted,
    /// by the token in its tombstone.
    async fn compare(
        &self,
        id: &PersistenceId,
        Signature { last, token }: Signature,
        used: KeyUse,
    ) -> Result<Match> {
        let Some(token) = token.filter(|token| used.is_alike(*token)) else {
            return Ok(Match::Other);
        };
        let window = Window {
            to: last,
            ..Window::from(last)
        };
        Ok(match self.replay(id, window).try_next().await? {
            Some(event) => used.compare(&event),
            None if token == used.token() => Match::Same,
            None => Match::Misused,
        })
    }

    /// Checks that an acknowledged append, which has the same token, is the same append.
    async fn confirm(
        &self,
        id: &PersistenceId,
        appended: Appended,
        used: KeyUse,
    ) -> Result<Appended, AppendError> {
        let signature = Signature {
            last: appended.last,
            token: Some(used.token()),
        };
        match self.compare(id, signature, used).await? {
            Match::Same => Ok(appended),
            Match::Other | Match::Misused => Err(misused(id)),
        }
    }
}

fn is_misused(conflict: &Conflict, used: KeyUse) -> bool {
    let mut found = conflict.found.iter();
    found.any(|event| used.compare(event) == Match::Misused)
}

fn unknown_token(id: &PersistenceId) -> AppendError {
    AppendError::Store(Error::conflict(
        "the last events and their tokens are deleted, so a repeated append cannot be recognised; check whether it is stored, and append with an expected sequence number",
    )
    .fact("id", id))
}

fn misused(id: &PersistenceId) -> AppendError {
    AppendError::Store(
        Error::conflict(
            "this idempotency key was used for another append; use a new key for new events",
        )
        .fact("id", id),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, NewEvent, Payload};

    fn used(key: &str, expected: Expected, append: &Append) -> KeyUse {
        let id = "Cart|1".parse().unwrap();
        KeyUse::new((&id, &key.parse().unwrap()), expected, append)
    }

    #[test]
    fn every_part_of_an_append_is_in_its_digest() {
        let event = || NewEvent::new(Codec::Text, "a");
        let one = Append::from(event());
        let with = |change: fn(&mut Append)| {
            let mut append = one.clone();
            change(&mut append);
            append
        };
        let others = [
            Append::of([event(), event()]),
            with(|it| it.causation = Some("c".into())),
            with(|it| it.correlation = Some("c".into())),
            with(|it| it.snapshot = Some(Payload::new(Codec::Text, "s"))),
            with(|it| it.events[0].payload = "b".into()),
            with(|it| it.events[0].codec = Codec::Json),
            with(|it| it.events[0].manifest = "m".into()),
            with(|it| it.events[0].schema = 1),
            with(|it| it.events[0].tags = vec!["t".into()]),
            with(|it| it.events[0].metadata = [("a".into(), "b".into())].into()),
        ];
        let first = used("k", Expected::Any, &one);
        assert_eq!(first, used("k", Expected::Any, &one.clone()));
        for (n, other) in others.iter().enumerate() {
            let other = used("k", Expected::Any, other);
            assert_ne!(first.content, other.content, "{n}");
            assert!(first.is_alike(other.token()), "{n}");
        }
        assert_ne!(first.content, used("k", Expected::Empty, &one).content);
        let other = used("l", Expected::Any, &one);
        assert_eq!(first.content, other.content);
        assert!(!first.is_alike(other.token()));
    }

    #[test]
    fn keys_are_visible_ascii() {
        for bad in ["", "with space", "ü", "a\n", &"k".repeat(256)] {
            assert!(bad.parse::<IdempotencyKey>().is_err(), "{bad:?}");
        }
        assert!("k".repeat(255).parse::<IdempotencyKey>().is_ok());
    }
}
