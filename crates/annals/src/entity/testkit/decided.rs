//! What a command led to.

use std::fmt;

use super::Given;
use super::checks::{check_same_state, is_same_event, listed, read, restored, stored};
use super::given::States;
use crate::NewEvent;
use crate::entity::ending::Follow;
use crate::entity::{Cx, Effect, Entity, Handle};

/// What a command led to: made by [`Given::when`], judged step by step.
///
/// A command can follow: it finds what this one left.
///
/// See [`given`](super::given) for an example.
pub struct Decided<E: Entity, R> {
    given: Given<E>,
    next_command_id: Option<String>,
    state: E,
    outcome: Result<Accepted<E, R>, E::Error>,
}

/// What an entity wants to happen.
struct Accepted<E: Entity, R> {
    events: Vec<E::Event>,
    stored: Vec<NewEvent>,
    replies: Replies<R>,
    follows: Vec<Follow<E>>,
}

/// The reply, and what it is where the state was read back.
struct Replies<R> {
    lived: R,
    replayed: R,
    restored: R,
}

/// A decision, and its events as they are stored.
type Decision<E, R> = Result<(Effect<E, R>, Vec<NewEvent>), <E as Entity>::Error>;

/// Decides once.
#[track_caller]
fn decide<E: Handle<C>, C>(state: &E, command: &C, cx: &Cx<'_>) -> Decision<E, E::Reply> {
    let effect = state.handle(command, cx)?;
    let mut events = Vec::new();
    for event in &effect.events {
        let mut event = stored(event);
        event.tags.extend(effect.tags.iter().cloned());
        events.push(event);
    }
    Ok((effect, events))
}

/// Both decided the same.
#[track_caller]
fn check_same<E: Entity, R>(one: &Decision<E, R>, other: &Decision<E, R>, otherwise: &str) {
    let (is_same, one, other) = match (one, other) {
        (Ok((_, one)), Ok((_, other))) => {
            let pairs = || one.iter().zip(other);
            let is_same =
                one.len() == other.len() && pairs().all(|(one, other)| is_same_event(one, other));
            (is_same, listed(one), listed(other))
        }
        (Err(one), Err(other)) => {
            let (one, other) = (format!("{one:?}"), format!("{other:?}"));
            (one == other, one, other)
        }
        (Ok((_, events)), Err(error)) => (false, listed(events), format!("{error:?}")),
        (Err(error), Ok((_, events))) => (false, format!("{error:?}"), listed(events)),
    };
    if !is_same {
        panic!("{otherwise}\n   one: {one}\n other: {other}");
    }
}

/// Applies what was decided and makes the reply of it.
#[track_caller]
fn replied<E: Entity, R>(state: &mut E, decision: Decision<E, R>) -> Option<R> {
    let (effect, events) = decision.ok()?;
    for event in &events {
        state.apply(&read(event));
    }
    Some(effect.ending.taken_apart(state).0)
}

impl<E: Entity, R> Decided<E, R> {
    #[track_caller]
    pub(super) fn of<C>(given: Given<E>, command: &C) -> Self
    where
        E: Handle<C, Reply = R>,
    {
        let States {
            lived: mut state,
            mut replayed,
            restored: mut from_snapshot,
        } = given.states();
        let id = given.persistence_id();
        let cx = given.cx(&id);
        let decision = decide(&state, command, &cx);
        let again = decide(&state, command, &cx);
        check_same(&decision, &again, "deciding twice decides differently");
        let by_replay = decide(&replayed, command, &cx);
        let differs = "events that were read back lead to another decision";
        check_same(&decision, &by_replay, differs);
        let by_snapshot = decide(&from_snapshot, command, &cx);
        let differs = "the state from its snapshot leads to another decision";
        check_same(&decision, &by_snapshot, differs);
        let (effect, stored) = match decision {
            Ok(decision) => decision,
            Err(error) => {
                return Self {
                    given,
                    next_command_id: None,
                    state,
                    outcome: Err(error),
                };
            }
        };
        for event in &effect.events {
            state.apply(event);
        }
        let by_replay = replied(&mut replayed, by_replay);
        let by_snapshot = replied(&mut from_snapshot, by_snapshot);
        let differs = "events that were read back make another state";
        check_same_state(&state, &replayed, differs);
        let differs = "the state from its snapshot goes on to another state";
        check_same_state(&state, &from_snapshot, differs);
        let _ = restored(&state);
        let (lived, follows) = effect.ending.taken_apart(&state);
        let (Some(replayed), Some(restored)) = (by_replay, by_snapshot) else {
            unreachable!("all decided the same");
        };
        let accepted = Accepted {
            events: effect.events,
            stored,
            replies: Replies {
                lived,
                replayed,
                restored,
            },
            follows,
        };
        Self {
            given,
            next_command_id: None,
            state,
            outcome: Ok(accepted),
        }
    }

    /// What was accepted; a rejection is not what is wanted.
    #[track_caller]
    fn accepted(&self, wanted: impl fmt::Display) -> &Accepted<E, R> {
        match &self.outcome {
            Ok(accepted) => accepted,
            Err(error) => panic!("it was rejected\n wanted: {wanted}\n    got: {error:?}"),
        }
    }

    /// These events, in this order, and no others.
    #[track_caller]
    pub fn then_events(self, events: impl IntoIterator<Item = E::Event>) -> Self
    where
        E::Event: PartialEq + fmt::Debug,
    {
        let wanted: Vec<E::Event> = events.into_iter().collect();
        let got = &self.accepted(format_args!("{wanted:?}")).events;
        if *got != wanted {
            panic!("the events are others\n wanted: {wanted:?}\n    got: {got:?}");
        }
        self
    }

    /// No events, and no rejection.
    #[track_caller]
    pub fn then_nothing(self) -> Self {
        let got = &self.accepted("no events").stored;
        if !got.is_empty() {
            panic!(
                "something happened\n wanted: no events\n    got: {}",
                listed(got)
            );
        }
        self
    }

    /// Every event is stored with these tags, its own and the effect's, in any order.
    #[track_caller]
    pub fn then_tags<'a>(self, tags: impl IntoIterator<Item = &'a str>) -> Self {
        let mut wanted: Vec<&str> = tags.into_iter().collect();
        wanted.sort_unstable();
        let stored = &self.accepted(format_args!("{wanted:?}")).stored;
        if stored.is_empty() {
            panic!("nothing is tagged\n wanted: {wanted:?}\n    got: no events");
        }
        for event in stored {
            let mut got: Vec<&str> = event.tags.iter().map(String::as_str).collect();
            got.sort_unstable();
            if got != wanted {
                let manifest = &event.manifest;
                panic!("the tags of {manifest} are others\n wanted: {wanted:?}\n    got: {got:?}");
            }
        }
        self
    }

    /// This reply, also where the state was read back.
    #[track_caller]
    pub fn then_reply(self, wanted: R) -> Self
    where
        R: PartialEq + fmt::Debug,
    {
        let replies = &self.accepted(format_args!("{wanted:?}")).replies;
        for (got, whence) in [
            (&replies.lived, ""),
            (&replies.replayed, " where events were read back"),
            (&replies.restored, " where the state is from its snapshot"),
        ] {
            if *got != wanted {
                panic!("the reply is another{whence}\n wanted: {wanted:?}\n    got: {got:?}");
            }
        }
        self
    }

    /// The reply, which the closure judges: for replies that cannot be compared.
    #[track_caller]
    pub fn then_replied(self, judge: impl FnOnce(&R)) -> Self {
        judge(&self.accepted("a reply").replies.lived);
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
                let got = listed(&accepted.stored);
                panic!("it was accepted\n wanted: {wanted:?}\n    got: {got}");
            }
        }
    }

    /// A rejection, which the closure judges: for errors that cannot be compared.
    #[track_caller]
    pub fn then_rejection(self, judge: impl FnOnce(&E::Error)) -> Self {
        match &self.outcome {
            Err(error) => judge(error),
            Ok(accepted) => {
                let got = listed(&accepted.stored);
                panic!("it was accepted\n wanted: a rejection\n    got: {got}");
            }
        }
        self
    }

    /// The state behind the events, which the closure judges.
    #[track_caller]
    pub fn then_state(self, judge: impl FnOnce(&E)) -> Self {
        judge(&self.state);
        self
    }

    /// Runs what the effect lets follow, once, as a host does when the events are durable. There is
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
            follow(&self.state);
        }
        self
    }

    /// From now on this is the time, in milliseconds since the Unix epoch.
    pub fn at_ms(mut self, now_ms: u64) -> Self {
        self.given = self.given.at_ms(now_ms);
        self
    }

    /// The id of the command that follows. It has none otherwise.
    pub fn command_id(mut self, id: impl Into<String>) -> Self {
        self.next_command_id = Some(id.into());
        self
    }

    /// Asks again, behind what happened.
    #[track_caller]
    pub fn when<C>(self, command: &C) -> Decided<E, E::Reply>
    where
        E: Handle<C>,
    {
        let mut given = self.given;
        given.command_id = self.next_command_id;
        if let Ok(accepted) = self.outcome {
            given.events.extend(accepted.events);
        }
        Decided::of(given, command)
    }
}

impl<E: Entity, R> fmt::Debug for Decided<E, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = self.outcome.as_ref().map(|accepted| &accepted.stored);
        f.debug_struct("Decided")
            .field("given", &self.given)
            .field("outcome", &outcome)
            .finish_non_exhaustive()
    }
}
