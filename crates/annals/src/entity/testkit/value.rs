//! Given, when, then for durable values.

use std::fmt;

use super::checks::{check_same_state, restored};
use crate::PersistenceId;
use crate::entity::Cx;
use crate::entity::durable::{Change, Effect, Entity, Handle};
use crate::entity::effect::Callback;

/// Start a test with a stored value.
///
/// ```
/// use annals::entity::durable::{Effect, Entity, Handle, delete, update};
/// use annals::entity::testkit::{given_no_value, given_value};
/// use annals::entity::{Cx, Stored};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Default, Serialize, Deserialize, Stored)]
/// struct Seats {
///     taken: u64,
/// }
///
/// #[derive(Debug, PartialEq, thiserror::Error)]
/// #[error("no seat is left")]
/// struct Full;
///
/// impl Entity for Seats {
///     const TYPE: &'static str = "Seats";
///     type Error = Full;
/// }
///
/// struct Take(u64);
///
/// impl Handle<Take> for Seats {
///     type Reply = u64;
///
///     fn handle(&self, take: &Take, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
///         let taken = self.taken + take.0;
///         match taken {
///             0 => Ok(delete().reply(|_| 0)),
///             1..=4 => Ok(update(Self { taken }).reply(|seats| 4 - seats.taken)),
///             _ => Err(Full),
///         }
///     }
/// }
///
/// given_no_value::<Seats>().when(&Take(0)).then_deleted();
/// given_value(Seats { taken: 1 })
///     .when(&Take(2))
///     .then_reply(1)
///     .then_value(|seats| assert_eq!(seats.taken, 3))
///     .when(&Take(2))
///     .then_rejected(&Full);
/// ```
#[must_use = "send a command with `when`"]
pub fn given_value<E: Entity>(value: E) -> GivenValue<E> {
    GivenValue {
        value,
        is_stored: true,
        revision: 1,
        id: "1".to_owned(),
        now_ms: 0,
        correlation_id: None,
    }
}

/// Start a test without a stored value. See [`given_value`] for an example.
#[must_use = "send a command with `when`"]
pub fn given_no_value<E: Entity>() -> GivenValue<E> {
    GivenValue {
        is_stored: false,
        revision: 0,
        ..given_value(E::default())
    }
}

/// The value before a command. Made by [`given_value`] and [`given_no_value`]; see the first for an
/// example.
#[derive(Debug)]
pub struct GivenValue<E> {
    value: E,
    is_stored: bool,
    revision: u64,
    id: String,
    now_ms: u64,
    correlation_id: Option<String>,
}

impl<E: Entity> GivenValue<E> {
    /// Set the entity's id without its type; `1` by default.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Set the time, in milliseconds since the Unix epoch; 0 by default.
    #[must_use]
    pub fn at_ms(mut self, now_ms: u64) -> Self {
        self.now_ms = now_ms;
        self
    }

    /// Set the correlation id of the commands, as `with_correlation` does.
    #[must_use]
    pub fn correlation_id(mut self, id: impl Into<String>) -> Self {
        self.correlation_id = Some(id.into());
        self
    }

    /// Send a command. The handler runs three times: twice on the value, and once on the value after
    /// it was written and read.
    #[track_caller]
    pub fn when<C>(mut self, command: &C) -> DecidedValue<E, E::Reply>
    where
        E: Handle<C>,
    {
        let id: PersistenceId = match format!("{}|{}", E::TYPE, self.id).parse() {
            Ok(id) => id,
            Err(error) => panic!("{error}"),
        };
        let cx = Cx {
            id: &id,
            last: self.revision,
            is_new: !self.is_stored,
            now_ms: self.now_ms,
            command_id: None,
            correlation_id: self.correlation_id.as_deref(),
        };
        let decision = self.value.handle(command, &cx);
        let again = self.value.handle(command, &cx);
        check_same(&decision, &again, "deciding twice decides differently");
        let read_back = restored(&self.value).handle(command, &cx);
        let differs = "the value read back leads to another decision";
        check_same(&decision, &read_back, differs);
        let outcome = match decision {
            Ok(effect) => Ok(self.accept(effect)),
            Err(error) => Err(error),
        };
        DecidedValue {
            given: self,
            outcome,
        }
    }

    /// Apply a change. Panics if its value does not read back the same.
    #[track_caller]
    fn accept<R>(&mut self, effect: Effect<E, R>) -> Accepted<E, R> {
        let outcome = match effect.change {
            Change::Keep => Outcome::Kept,
            Change::Delete => {
                self.revision += u64::from(self.is_stored);
                (self.value, self.is_stored) = (E::default(), false);
                Outcome::Deleted
            }
            Change::Update(value) => {
                let _ = restored(&value);
                self.revision += 1;
                (self.value, self.is_stored) = (value, true);
                Outcome::Updated
            }
        };
        let (reply, callbacks) = effect.completion.into_parts(&self.value);
        Accepted {
            outcome,
            reply,
            callbacks,
        }
    }
}

/// Check that two decisions are the same.
#[track_caller]
fn check_same<E: Entity, R>(
    one: &Result<Effect<E, R>, E::Error>,
    other: &Result<Effect<E, R>, E::Error>,
    otherwise: &str,
) {
    let shown = |decision: &Result<Effect<E, R>, E::Error>| match decision {
        Ok(effect) => match effect.change {
            Change::Keep => "no change".to_owned(),
            Change::Delete => "a deletion".to_owned(),
            Change::Update(_) => "a new value".to_owned(),
        },
        Err(error) => format!("{error:?}"),
    };
    if let (Ok(one), Ok(other)) = (one, other)
        && let (Change::Update(one), Change::Update(other)) = (&one.change, &other.change)
    {
        return check_same_state((one, other), ["one", "other"], otherwise);
    }
    let (one, other) = (shown(one), shown(other));
    if one != other {
        panic!("{otherwise}\n   one: {one}\n other: {other}");
    }
}

/// What happened to the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Kept,
    Updated,
    Deleted,
}

struct Accepted<E, R> {
    outcome: Outcome,
    reply: R,
    callbacks: Vec<Callback<E>>,
}

/// The outcome of a command, to be checked. Made by [`GivenValue::when`]; see [`given_value`] for an example.
pub struct DecidedValue<E: Entity, R> {
    given: GivenValue<E>,
    outcome: Result<Accepted<E, R>, E::Error>,
}

impl<E: Entity, R> DecidedValue<E, R> {
    #[track_caller]
    fn accepted(&self, wanted: impl fmt::Display) -> &Accepted<E, R> {
        match &self.outcome {
            Ok(accepted) => accepted,
            Err(error) => {
                panic!("the command was rejected\n expected: {wanted}\n   actual: {error:?}")
            }
        }
    }

    #[track_caller]
    fn expect(self, wanted: Outcome) -> Self {
        let got = self.accepted(format_args!("{wanted:?}")).outcome;
        if got != wanted {
            panic!("another outcome\n expected: {wanted:?}\n   actual: {got:?}");
        }
        self
    }

    /// Expect an update, and check the new value.
    #[track_caller]
    pub fn then_value(self, check: impl FnOnce(&E)) -> Self {
        let decided = self.expect(Outcome::Updated);
        check(&decided.given.value);
        decided
    }

    /// Expect a deletion.
    #[track_caller]
    pub fn then_deleted(self) -> Self {
        self.expect(Outcome::Deleted)
    }

    /// Expect no change and no rejection.
    #[track_caller]
    pub fn then_unchanged(self) -> Self {
        self.expect(Outcome::Kept)
    }

    /// Expect this reply.
    #[track_caller]
    pub fn then_reply(self, wanted: R) -> Self
    where
        R: PartialEq + fmt::Debug,
    {
        let got = &self.accepted(format_args!("{wanted:?}")).reply;
        if *got != wanted {
            panic!("another reply\n expected: {wanted:?}\n   actual: {got:?}");
        }
        self
    }

    /// Expect a rejection with this error.
    #[track_caller]
    pub fn then_rejected(self, wanted: &E::Error) -> Self
    where
        E::Error: PartialEq,
    {
        match &self.outcome {
            Err(got) if got == wanted => self,
            Err(got) => {
                panic!("another rejection\n expected: {wanted:?}\n   actual: {got:?}")
            }
            Ok(accepted) => {
                let got = accepted.outcome;
                panic!("the command was accepted\n expected: {wanted:?}\n   actual: {got:?}");
            }
        }
    }

    /// Run the callbacks of the effect, as a host does after the write. There must be one.
    #[track_caller]
    pub fn then_run_callbacks(mut self) -> Self {
        let _ = self.accepted("callbacks");
        let callbacks = self
            .outcome
            .as_mut()
            .map(|a| std::mem::take(&mut a.callbacks));
        let callbacks = callbacks.unwrap_or_default();
        if callbacks.is_empty() {
            panic!("the effect has no callbacks");
        }
        for callback in callbacks {
            callback(&self.given.value);
        }
        self
    }

    /// Send another command.
    #[track_caller]
    pub fn when<C>(self, command: &C) -> DecidedValue<E, E::Reply>
    where
        E: Handle<C>,
    {
        self.given.when(command)
    }
}

impl<E: Entity, R> fmt::Debug for DecidedValue<E, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = self.outcome.as_ref().map(|accepted| accepted.outcome);
        f.debug_struct("DecidedValue")
            .field("outcome", &outcome)
            .finish_non_exhaustive()
    }
}
