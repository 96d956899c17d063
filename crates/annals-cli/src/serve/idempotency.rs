//! Appends that are repeated under a key of the caller's, and known again.
//!
//! A key and what it was used for become the append's token: half of it the key's hash, half the
//! content's. So the journal itself knows a repetition again, after a restart and on another
//! server too, also when the events were deleted, and a key that was used for something else shows by
//! the half that is the same.
//!
//! With an expectation that is exact for ever: the place behind what is expected is looked at by the
//! append itself. Before it, the last [`BEFORE`] numbers are looked at for the same key, used for
//! another expectation or content: whoever reloads after a lost answer and sends the same again under
//! its new expectation is told.
//! Without one there is no place to look at, so that the last numbers are looked at first: a
//! repetition is known while fewer than [`LOOK_BACK`] numbers came behind it, and where a layout
//! forgets whose deleted events were, fewer than [`SURE`]. Where it cannot be told, it is refused.

use annals::journal::{Append, AppendError, Appended, Expected, Journal, Signature};
use annals::{Error, Event, PersistenceId, SequenceNumber, Token};
use axum::http::{HeaderMap, HeaderName};
use sha2::{Digest, Sha256};

use super::problem::{Answer, Problem};
use super::request::header;

/// The header that holds the key.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The most bytes of a key.
const KEY_BYTES_MAX: usize = 255;
/// How far back an append without an expectation is looked for.
const LOOK_BACK: u64 = 128;
/// How far back it must be known whose events were, deleted or not.
const SURE: u64 = 32;
/// How far before an expectation a key is looked for that was used before.
const BEFORE: u64 = 16;
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
            if let Expected::Last(last) = self.expected {
                self.check_before(journal, id, last).await?;
            }
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

    /// That the key was not used for something else shortly before.
    async fn check_before(
        self,
        journal: &Journal,
        id: &PersistenceId,
        last: SequenceNumber,
    ) -> Result<(), AppendError> {
        let numbers = (back(last, BEFORE), last);
        let signatures = journal.signatures(id, numbers).await?;
        let mut tokens = signatures.iter().filter_map(|it| it.token);
        // The same content behind what it was used for is no repetition either.
        match tokens.any(|token| token.to_bytes().starts_with(&self.key)) {
            true => Err(misused(id)),
            false => Ok(()),
        }
    }

    fn is_among(self, events: &[Event]) -> bool {
        events.iter().any(|event| self.is_misused(event.token))
    }
}

fn half(hash: &[u8]) -> [u8; 4] {
    hash.first_chunk().copied().unwrap_or_default()
}

/// The first of so many numbers that end with this one.
fn back(last: SequenceNumber, numbers: u64) -> SequenceNumber {
    let first = last.get().saturating_sub(numbers - 1);
    SequenceNumber::new(first).unwrap_or(SequenceNumber::FIRST)
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
    let (mut landed, mut is_unsure) = (None, false);
    let sure = back(highest, SURE);
    let signatures = journal.signatures(id, (back(highest, LOOK_BACK), highest));
    for Signature { last, token } in signatures.await? {
        match token {
            Some(token) if key.is_misused(token) => return Err(misused(id)),
            Some(token) if token == key.token() => landed = Some(last),
            Some(_) => {}
            None => is_unsure |= last >= sure,
        }
    }
    let last = match landed {
        Some(last) => SequenceNumber::new(last.get().saturating_sub(events)),
        None if is_unsure => return Err(forgotten(id)),
        None => Some(highest),
    };
    Ok(last.map_or(Expected::Empty, Expected::Last))
}

fn forgotten(id: &PersistenceId) -> AppendError {
    AppendError::Store(Error::conflict(format!(
        "the last events are deleted together with whose they were, so that nobody can tell whether this append is a repetition; look, and say with it what is expected to be last. id=`{id}`"
    )))
}

fn misused(id: &PersistenceId) -> AppendError {
    AppendError::Store(Error::conflict(format!(
        "this idempotency key was used for another append; take a new one for new events. id=`{id}`"
    )))
}
