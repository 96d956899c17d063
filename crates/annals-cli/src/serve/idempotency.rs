//! Appends that are repeated under a key of the caller's, and known again.
//!
//! A key and what it was used for become the append's token: half of it the key's hash, half the
//! content's. So the journal itself knows a repetition again, after a restart and on another
//! server too, and a key that was used for something else shows by the half that is the same.
//! With an expectation that is exact for ever and costs nothing. Without one there is no place to
//! look at, so the last events are read first: a repetition is known while fewer than
//! [`LOOK_BACK`] events came behind it.

use annals::journal::{Append, AppendError, Appended, Expected, Journal, Window};
use annals::{Error, Event, PersistenceId, SequenceNumber, Token};
use axum::http::{HeaderMap, HeaderName};
use futures::TryStreamExt;
use sha2::{Digest, Sha256};

use super::problem::{Answer, Problem};
use super::request::header;

/// The header that holds the key.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The most bytes of a key.
const KEY_BYTES_MAX: usize = 255;
/// How far back an append without an expectation is looked for.
const LOOK_BACK: u64 = 128;
/// How often such an append is tried while others keep being quicker.
const TRIES_MAX: usize = 32;

/// A key, and the hash of what it is used for, behind what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    key: [u8; 4],
    content: [u8; 4],
    expected: Expected,
}

impl Key {
    /// The key of a request, if it has one, for this id, expectation and body.
    pub(super) fn of(
        headers: &HeaderMap,
        id: &PersistenceId,
        expected: Expected,
        body: &[u8],
    ) -> Answer<Option<Self>> {
        let Some(key) = header(headers, &IDEMPOTENCY_KEY)? else {
            return Ok(None);
        };
        let is_plain = key.bytes().all(|byte| byte.is_ascii_graphic());
        if key.is_empty() || key.len() > KEY_BYTES_MAX || !is_plain {
            return Err(Problem::invalid(format!(
                "an idempotency key has 1 to {KEY_BYTES_MAX} visible characters of ASCII"
            )));
        }
        let content = format!("{expected}\n{}\n{id}\n", id.as_str().len());
        let content = Sha256::new_with_prefix(content).chain_update(body);
        Ok(Some(Self {
            key: half(&Sha256::digest(key)),
            content: half(&content.finalize()),
            expected,
        }))
    }

    pub(super) fn token(self) -> Token {
        let ([a, b, c, d], [e, f, g, h]) = (self.key, self.content);
        Token::from_bytes([a, b, c, d, e, f, g, h])
    }

    /// Whether an append with this token was made under the same key, for something else.
    fn is_misused(self, token: Token) -> bool {
        token != self.token() && token.to_bytes().starts_with(&self.key)
    }

    /// Appends under the key, once, however often it is called.
    pub(super) async fn append(
        self,
        journal: &Journal,
        id: &PersistenceId,
        append: Append,
    ) -> Result<Appended, AppendError> {
        let append = append.token(self.token());
        if self.expected != Expected::Any {
            let appended = journal.append(id, self.expected, append).await;
            return appended.map_err(|error| match error {
                AppendError::Conflict(conflict) if self.is_among(&conflict.found) => misused(id),
                other => other,
            });
        }
        let events = append.events.len() as u64;
        let mut tries = 1;
        loop {
            let expected = behind(journal, id, events, self).await?;
            match journal.append(id, expected, append.clone()).await {
                Err(AppendError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
                ended => return ended,
            }
        }
    }

    fn is_among(self, events: &[Event]) -> bool {
        events.iter().any(|event| self.is_misused(event.token))
    }
}

fn half(hash: &[u8]) -> [u8; 4] {
    hash.first_chunk().copied().unwrap_or_default()
}

/// Behind what to append: where the same was appended already, behind what that was.
async fn behind(
    journal: &Journal,
    id: &PersistenceId,
    events: u64,
    key: Key,
) -> Result<Expected, AppendError> {
    let Some(highest) = journal.highest(id).await? else {
        return Ok(Expected::Empty);
    };
    let from = highest.get().saturating_sub(LOOK_BACK - 1);
    let window = Window {
        from: SequenceNumber::new(from).unwrap_or(SequenceNumber::FIRST),
        to: highest,
        ..Window::ALL
    };
    let mut recent = journal.replay(id, window);
    let mut landed = None;
    while let Some(event) = recent.try_next().await? {
        if key.is_misused(event.token) {
            return Err(misused(id));
        }
        if event.token == key.token() {
            landed = Some(event.sequence_number);
        }
    }
    let last = match landed {
        Some(last) => SequenceNumber::new(last.get().saturating_sub(events)),
        None => Some(highest),
    };
    Ok(last.map_or(Expected::Empty, Expected::Last))
}

fn misused(id: &PersistenceId) -> AppendError {
    AppendError::Store(Error::conflict(format!(
        "this idempotency key was used for another append; take a new one for new events. id=`{id}`"
    )))
}
