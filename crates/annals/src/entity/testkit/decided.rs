//! Then: the outcome of a command.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Given;
use super::checks::{Commit, check_same_state, is_same_event, read, restored, stored};
use super::given::States;
use crate::NewEvent;
use crate::entity::effect::Callback;
use crate::entity::{Cx, Effect, Entity, Handle};

/// The outcome of a command, to be checked. Made by [`Given::when`]. Another command can follow, on the
/// state after this one.
///
/// See [`given`](super::given) for an example.
pub struct Decided<E: Entity, R> {
    given: Given<E>,
    next_command_id: Option<Arc<str>>,
    state: E,
    outcome: Result<Accepted<E, R>, E::Error>,
}

/// What an accepted command does.
struct Accepted<E: Entity, R> {
    events: Vec<E::Event>,
    commit: Commit,
    replies: Replies<R>,
    callbacks: Vec<Callback<E>>,
}

/// The reply from each of the three states.
struct Replies<R> {
    applied: R,
    replayed: R,
    restored: R,
}

/// An effect, and what it appends.
type Decision<E, R> = Result<(Effect<E, R>, Commit), <E as Entity>::Error>;

/// Call the handler once.
#[track_caller]
fn decide<E: Handle<C>, C>(state: &E, command: &C, cx: &Cx<'_>) -> Decision<E, E::Reply> {
    let effect = state.handle(command, cx)?;
    let mut events = Vec::new();
    for labelled in &effect.write.events {
        let _ = stored(&labelled.event);
        match labelled.to_event() {
            Ok(event) => events.push(event),
            Err(error) => panic!("an event cannot be written: {error:?}"),
        }
    }
    let owned = |id: Option<&str>| id.map(str::to_owned);
    let commit = Commit {
        events,
        causation: owned(cx.command_id.or(effect.write.causation.as_deref())),
        correlation: owned(effect.write.correlation.as_deref().or(cx.correlation_id)),
    };
    Ok((effect, commit))
}

/// Check that two decisions are the same.
#[track_caller]
fn check_same<E: Entity, R>(one: &Decision<E, R>, other: &Decision<E, R>, otherwise: &str) {
    let (is_same, one, other) = match (one, other) {
        (Ok((_, one)), Ok((_, other))) => {
            let pairs = || one.events.iter().zip(&other.events);
            let is_same = one.events.len() == other.events.len()
                && pairs().all(|(one, other)| is_same_event(one, other))
                && (&one.causation, &one.correlation) == (&other.causation, &other.correlation);
            (is_same, one.to_string(), other.to_string())
        }
        (Err(one), Err(other)) => {
            let (one, other) = (format!("{one:?}"), format!("{other:?}"));
            (one == other, one, other)
        }
        (Ok((_, commit)), Err(error)) => (false, commit.to_string(), format!("{error:?}")),
        (Err(error), Ok((_, commit))) => (false, format!("{error:?}"), commit.to_string()),
    };
    if !is_same {
        panic!("{otherwise}\n   one: {one}\n other: {other}");
    }
}

/// Apply the events of a decision and compute its reply.
#[track_caller]
fn replied<E: Entity, R>(state: &mut E, decision: Decision<E, R>) -> Option<R> {
    let (effect, commit) = decision.ok()?;
    for event in &commit.events {
        state.apply(&read(event));
    }
    Some(effect.completion.into_parts(state).0)
}

impl<E: Entity, R> Decided<E, R> {
    #[track_caller]
    pub(super) fn new<C>(given: Given<E>, command: &C) -> Self
    where
        E: Handle<C, Reply = R>,
    {
        let States {
            applied: mut state,
            mut replayed,
            restored: mut from_snapshot,
        } = given.states();
        let id = given.persistence_id();
        let cx = given.cx(&id);
        let decision = decide(&state, command, &cx);
        let again = decide(&state, command, &cx);
        check_same(&decision, &again, "deciding twice decides differently");
        let by_replay = decide(&replayed, command, &cx);
        let differs = "replayed events lead to another decision";
        check_same(&decision, &by_replay, differs);
        let by_snapshot = decide(&from_snapshot, command, &cx);
        let differs = "the state from a snapshot leads to another decision";
        check_same(&decision, &by_snapshot, differs);
        let (effect, commit) = match decision {
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
        for labelled in &effect.write.events {
            state.apply(&labelled.event);
        }
        let by_replay = replied(&mut replayed, by_replay);
        let by_snapshot = replied(&mut from_snapshot, by_snapshot);
        let differs = "replayed events lead to another state";
        check_same_state((&state, &replayed), ["handled", "replayed"], differs);
        let differs = "the state from a snapshot continues to another state";
        let names = ["handled", "from a snapshot"];
        check_same_state((&state, &from_snapshot), names, differs);
        let _ = restored(&state);
        let events = effect
            .write
            .events
            .into_iter()
            .map(|labelled| labelled.event);
        let events = events.collect();
        let (applied, callbacks) = effect.completion.into_parts(&state);
        let (Some(replayed), Some(restored)) = (by_replay, by_snapshot) else {
            unreachable!("all decisions are the same");
        };
        let accepted = Accepted {
            events,
            commit,
            replies: Replies {
                applied,
                replayed,
                restored,
            },
            callbacks,
        };
        Self {
            given,
            next_command_id: None,
            state,
            outcome: Ok(accepted),
        }
    }

    /// The accepted outcome; panics if the command was rejected.
    #[track_caller]
    fn accepted(&self, wanted: impl fmt::Display) -> &Accepted<E, R> {
        match &self.outcome {
            Ok(accepted) => accepted,
            Err(error) => {
                panic!("the command was rejected\n expected: {wanted}\n   actual: {error:?}")
            }
        }
    }

    /// Expect exactly these events, in this order.
    #[track_caller]
    pub fn then_events(self, events: impl IntoIterator<Item = E::Event>) -> Self
    where
        E::Event: PartialEq + fmt::Debug,
    {
        let wanted: Vec<E::Event> = events.into_iter().collect();
        let got = &self.accepted(format_args!("{wanted:?}")).events;
        if *got != wanted {
            panic!("other events\n expected: {wanted:?}\n   actual: {got:?}");
        }
        self
    }

    /// Expect no events. A rejected command has none.
    #[track_caller]
    pub fn then_no_events(self) -> Self {
        if let Ok(accepted) = &self.outcome
            && !accepted.commit.events.is_empty()
        {
            let got = &accepted.commit;
            panic!("unexpected events\n expected: no events\n   actual: {got}");
        }
        self
    }

    /// Expect every event to have these tags, its own and the effect's, in any order.
    #[track_caller]
    pub fn then_tags<'a>(self, tags: impl IntoIterator<Item = &'a str>) -> Self {
        let mut wanted: Vec<&str> = tags.into_iter().collect();
        wanted.sort_unstable();
        for event in self.stored(&wanted) {
            let mut got: Vec<&str> = event.tags.iter().map(String::as_str).collect();
            got.sort_unstable();
            if got != wanted {
                let manifest = &event.manifest;
                panic!("other tags of {manifest}\n expected: {wanted:?}\n   actual: {got:?}");
            }
        }
        self
    }

    /// Expect every event to have exactly this metadata, its own and the effect's.
    #[track_caller]
    pub fn then_metadata<'a>(self, metadata: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let wanted: BTreeMap<&str, &str> = metadata.into_iter().collect();
        for event in self.stored(&wanted) {
            let got = event.metadata.iter();
            let got: BTreeMap<&str, &str> = got.map(|(n, v)| (n.as_str(), v.as_str())).collect();
            if got != wanted {
                let manifest = &event.manifest;
                panic!("other metadata of {manifest}\n expected: {wanted:?}\n   actual: {got:?}");
            }
        }
        self
    }

    /// Check the events as they are stored, for example the metadata of each.
    #[track_caller]
    pub fn then_stored(self, check: impl FnOnce(&[NewEvent])) -> Self {
        check(self.stored(&"stored events"));
        self
    }

    /// Expect this causation id with the events: the command's id, or the effect's.
    #[track_caller]
    pub fn then_causation(self, wanted: &str) -> Self {
        let got = &self.accepted(wanted).commit.causation;
        if got.as_deref() != Some(wanted) {
            panic!("another causation id\n expected: {wanted:?}\n   actual: {got:?}");
        }
        self
    }

    /// Expect this correlation id with the events: the effect's, or the command's.
    #[track_caller]
    pub fn then_correlation(self, wanted: &str) -> Self {
        let got = &self.accepted(wanted).commit.correlation;
        if got.as_deref() != Some(wanted) {
            panic!("another correlation id\n expected: {wanted:?}\n   actual: {got:?}");
        }
        self
    }

    /// The stored events, at least one.
    #[track_caller]
    fn stored(&self, wanted: &dyn fmt::Debug) -> &[NewEvent] {
        let stored = &self.accepted(format_args!("{wanted:?}")).commit.events;
        if stored.is_empty() {
            panic!("no events\n expected: {wanted:?}\n   actual: no events");
        }
        stored
    }

    /// Expect this reply, from each of the three states.
    #[track_caller]
    pub fn then_reply(self, wanted: R) -> Self
    where
        R: PartialEq + fmt::Debug,
    {
        let replies = &self.accepted(format_args!("{wanted:?}")).replies;
        for (got, source) in [
            (&replies.applied, ""),
            (&replies.replayed, " after a replay"),
            (&replies.restored, " from a snapshot"),
        ] {
            if *got != wanted {
                panic!("another reply{source}\n expected: {wanted:?}\n   actual: {got:?}");
            }
        }
        self
    }

    /// Check the reply, for replies that cannot be compared.
    #[track_caller]
    pub fn then_replied(self, check: impl FnOnce(&R)) -> Self {
        check(&self.accepted("a reply").replies.applied);
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
                let got = &accepted.commit;
                panic!("the command was accepted\n expected: {wanted:?}\n   actual: {got}");
            }
        }
    }

    /// Check the rejection, for errors that cannot be compared.
    #[track_caller]
    pub fn then_rejection(self, check: impl FnOnce(&E::Error)) -> Self {
        match &self.outcome {
            Err(error) => check(error),
            Ok(accepted) => {
                let got = &accepted.commit;
                panic!("the command was accepted\n expected: a rejection\n   actual: {got}");
            }
        }
        self
    }

    /// Check the state after the events.
    #[track_caller]
    pub fn then_state(self, check: impl FnOnce(&E)) -> Self {
        check(&self.state);
        self
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
            callback(&self.state);
        }
        self
    }

    /// Set the time of the next commands, in milliseconds since the Unix epoch.
    pub fn at_ms(mut self, now_ms: u64) -> Self {
        self.given = self.given.at_ms(now_ms);
        self
    }

    /// Set the id of the next command.
    pub fn command_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.next_command_id = Some(id.into());
        self
    }

    /// Send another command.
    #[track_caller]
    pub fn when<C>(self, command: &C) -> Decided<E, E::Reply>
    where
        E: Handle<C>,
    {
        let mut given = self.given;
        given.ids.command = self.next_command_id;
        if let Ok(accepted) = self.outcome {
            given.events.extend(accepted.events);
        }
        Decided::new(given, command)
    }
}

impl<E: Entity, R> fmt::Debug for Decided<E, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = self.outcome.as_ref().map(|accepted| &accepted.commit);
        f.debug_struct("Decided")
            .field("given", &self.given)
            .field("outcome", &outcome)
            .finish_non_exhaustive()
    }
}
