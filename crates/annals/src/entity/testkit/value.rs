//! The same for durable values: what was, what is asked, what becomes of the value.

use std::fmt;

use super::checks::{check_same_state, restored};
use crate::PersistenceId;
use crate::entity::Cx;
use crate::entity::durable::{Change, Effect, Entity, Handle};
use crate::entity::ending::Follow;

/// The value before a test asks something of it.
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
/// #[error("it is full")]
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
///     fn handle(&self, take: &Take, _: &Cx<'_>) -> Result<Effect<Self, u64>, Full> {
///         let taken = self.taken + take.0;
///         match taken {
///             0 => Ok(delete().reply(|_| 0)),
///             1..=4 => Ok(update(Self { taken }).reply(|seats: &Self| 4 - seats.taken)),
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
#[must_use = "ask something of it with `when`"]
pub fn given_value<E: Entity>(value: E) -> GivenValue<E> {
    GivenValue {
        value,
        is_there: true,
        revision: 1,
        id: "1".to_owned(),
        now_ms: 0,
    }
}

/// No value yet. See [`given_value`] for an example.
#[must_use = "ask something of it with `when`"]
pub fn given_no_value<E: Entity>() -> GivenValue<E> {
    GivenValue {
        is_there: false,
        revision: 0,
        ..given_value(E::default())
    }
}

/// What was before a command: made by [`given_value`] and [`given_no_value`]. See the first for an
/// example.
#[derive(Debug)]
pub struct GivenValue<E> {
    value: E,
    is_there: bool,
    revision: u64,
    id: String,
    now_ms: u64,
}

impl<E: Entity> GivenValue<E> {
    /// The entity's own id, without its type. It is `1` otherwise.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// The time at which it is asked, in milliseconds since the Unix epoch; 0 otherwise.
    #[must_use]
    pub fn at_ms(mut self, now_ms: u64) -> Self {
        self.now_ms = now_ms;
        self
    }

    /// Asks it to decide, thrice: the value twice, and the value as it reads back.
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
            is_new: !self.is_there,
            now_ms: self.now_ms,
            command_id: None,
        };
        let decision = self.value.handle(command, &cx);
        let again = self.value.handle(command, &cx);
        check_same(&decision, &again, "deciding twice decides differently");
        let read_back = restored(&self.value).handle(command, &cx);
        let differs = "the value as it reads back leads to another decision";
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

    /// Takes a change in, if its value reads back as it is.
    #[track_caller]
    fn accept<R>(&mut self, effect: Effect<E, R>) -> Accepted<E, R> {
        let became = match effect.change {
            Change::Keep => Became::Kept,
            Change::Delete => {
                self.revision += u64::from(self.is_there);
                (self.value, self.is_there) = (E::default(), false);
                Became::Deleted
            }
            Change::Update(value) => {
                let _ = restored(&value);
                self.revision += 1;
                (self.value, self.is_there) = (value, true);
                Became::Updated
            }
        };
        let (reply, follows) = effect.ending.taken_apart(&self.value);
        Accepted {
            became,
            reply,
            follows,
        }
    }
}

/// Both decided the same.
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
        return check_same_state(one, other, otherwise);
    }
    let (one, other) = (shown(one), shown(other));
    if one != other {
        panic!("{otherwise}\n   one: {one}\n other: {other}");
    }
}

/// What became of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Became {
    Kept,
    Updated,
    Deleted,
}

struct Accepted<E, R> {
    became: Became,
    reply: R,
    follows: Vec<Follow<E>>,
}

/// What was decided: made by [`GivenValue::when`]. See [`given_value`] for an example.
pub struct DecidedValue<E: Entity, R> {
    given: GivenValue<E>,
    outcome: Result<Accepted<E, R>, E::Error>,
}

impl<E: Entity, R> DecidedValue<E, R> {
    #[track_caller]
    fn accepted(&self, wanted: impl fmt::Display) -> &Accepted<E, R> {
        match &self.outcome {
            Ok(accepted) => accepted,
            Err(error) => panic!("it was rejected\n wanted: {wanted}\n    got: {error:?}"),
        }
    }

    #[track_caller]
    fn became(self, wanted: Became) -> Self {
        let got = self.accepted(format_args!("{wanted:?}")).became;
        if got != wanted {
            panic!("something else became of it\n wanted: {wanted:?}\n    got: {got:?}");
        }
        self
    }

    /// A new value, which the closure judges.
    #[track_caller]
    pub fn then_value(self, judge: impl FnOnce(&E)) -> Self {
        let decided = self.became(Became::Updated);
        judge(&decided.given.value);
        decided
    }

    /// The value is deleted.
    #[track_caller]
    pub fn then_deleted(self) -> Self {
        self.became(Became::Deleted)
    }

    /// No change, and no rejection.
    #[track_caller]
    pub fn then_nothing(self) -> Self {
        self.became(Became::Kept)
    }

    /// This reply.
    #[track_caller]
    pub fn then_reply(self, wanted: R) -> Self
    where
        R: PartialEq + fmt::Debug,
    {
        let got = &self.accepted(format_args!("{wanted:?}")).reply;
        if *got != wanted {
            panic!("the reply is another\n wanted: {wanted:?}\n    got: {got:?}");
        }
        self
    }

    /// A rejection with this error.
    #[track_caller]
    pub fn then_rejected(self, wanted: &E::Error) -> Self
    where
        E::Error: PartialEq,
    {
        match &self.outcome {
            Err(got) if got == wanted => self,
            Err(got) => {
                panic!("it was rejected for another reason\n wanted: {wanted:?}\n    got: {got:?}")
            }
            Ok(accepted) => {
                let got = accepted.became;
                panic!("it was accepted\n wanted: {wanted:?}\n    got: {got:?}");
            }
        }
    }

    /// Runs what the effect lets follow, once, as a host does when the change is durable. There is
    /// something.
    #[track_caller]
    pub fn then_follow(mut self) -> Self {
        let _ = self.accepted("something that follows");
        let follows = self
            .outcome
            .as_mut()
            .map(|a| std::mem::take(&mut a.follows));
        let follows = follows.unwrap_or_default();
        if follows.is_empty() {
            panic!("nothing follows");
        }
        for follow in follows {
            follow(&self.given.value);
        }
        self
    }

    /// Asks again, behind what became of it.
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
        let outcome = self.outcome.as_ref().map(|accepted| accepted.became);
        f.debug_struct("DecidedValue")
            .field("outcome", &outcome)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde::{Deserialize, Serialize};

    use super::{given_no_value, given_value};
    use crate::entity::durable::{Effect, Entity, Handle, delete, none, update};
    use crate::entity::{Cx, Stored};

    #[derive(Default, Serialize, Deserialize, Stored)]
    struct Light {
        is_on: bool,
        #[serde(skip)]
        forgotten: u32,
    }

    impl Entity for Light {
        const TYPE: &'static str = "Light";
        type Error = std::fmt::Error;
    }

    enum Do {
        Switch,
        Remove,
        Nothing,
        Fail,
        Forgetful,
        Whimsical(Cell<bool>),
    }

    impl Handle<Do> for Light {
        type Reply = bool;

        fn handle(&self, command: &Do, cx: &Cx<'_>) -> Result<Effect<Self, bool>, std::fmt::Error> {
            let is_on = !self.is_on;
            let turned = Self {
                is_on,
                forgotten: self.forgotten,
            };
            Ok(match command {
                Do::Switch => update(turned).reply(|light: &Self| light.is_on),
                Do::Remove => delete().reply(|light: &Self| light.is_on),
                Do::Nothing => {
                    let is_new = cx.is_new();
                    none().reply(move |_| is_new)
                }
                Do::Fail => return Err(std::fmt::Error),
                Do::Forgetful if self.forgotten > 0 => delete().reply(|_| true),
                Do::Forgetful => none().reply(|_| true),
                Do::Whimsical(flag) if flag.replace(!flag.get()) => delete().reply(|_| true),
                Do::Whimsical(_) => none().reply(|_| true),
            })
        }
    }

    #[test]
    fn values_follow_one_another() {
        given_no_value::<Light>()
            .when(&Do::Nothing)
            .then_nothing()
            .then_reply(true)
            .when(&Do::Switch)
            .then_value(|light| assert!(light.is_on))
            .then_reply(true)
            .when(&Do::Nothing)
            .then_reply(false)
            .when(&Do::Remove)
            .then_deleted()
            .then_reply(false)
            .when(&Do::Nothing)
            .then_reply(true)
            .when(&Do::Fail)
            .then_rejected(&std::fmt::Error);
    }

    #[test]
    #[should_panic(expected = "something else became of it")]
    fn another_outcome_is_told() {
        given_no_value::<Light>().when(&Do::Switch).then_deleted();
    }

    #[test]
    #[should_panic(expected = "the reply is another")]
    fn another_reply_is_told() {
        given_no_value::<Light>()
            .when(&Do::Switch)
            .then_reply(false);
    }

    #[test]
    #[should_panic(expected = "it was accepted")]
    fn an_acceptance_is_told() {
        let decided = given_no_value::<Light>().when(&Do::Switch);
        decided.then_rejected(&std::fmt::Error);
    }

    #[test]
    #[should_panic(expected = "deciding twice decides differently")]
    fn whims_are_found() {
        let _ = given_no_value::<Light>().when(&Do::Whimsical(Cell::new(true)));
    }

    #[test]
    #[should_panic(expected = "the value as it reads back leads to another decision")]
    fn what_is_not_stored_must_not_decide() {
        let light = Light {
            is_on: true,
            forgotten: 1,
        };
        let _ = given_value(light).when(&Do::Forgetful);
    }
}
