//! The kit finds what it is for, says what it found, and points at the test.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

use serde::{Deserialize, Serialize};

use super::given;
use crate::entity::{
    Cx, Effect, Entity, EntityEvent, Handle, Stored, none, persist, persist_all, reply,
};
use crate::{Codec, NewEvent, Result};

#[derive(Debug, Default, Serialize, Deserialize, Stored)]
struct Counter {
    n: u64,
    names: std::collections::HashMap<String, u64>,
    #[serde(skip)]
    n_forgotten: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, EntityEvent)]
enum Counted {
    #[event(tags("plus"))]
    Added {
        n: u64,
    },
    Named(String),
    #[serde(skip_deserializing)]
    Unreadable,
    Forgetful {
        #[serde(skip)]
        n: u64,
    },
    Approximate(Rounded),
    Forgotten,
}

/// Reads back as another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "u64")]
struct Rounded(u64);

impl From<u64> for Rounded {
    fn from(n: u64) -> Self {
        Self(n / 10 * 10)
    }
}

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("refused: {0}")]
struct Refused(&'static str);

impl Entity for Counter {
    const TYPE: &'static str = "Counter";
    type Event = Counted;
    type Error = Refused;

    fn apply(&mut self, event: &Counted) {
        match event {
            Counted::Added { n } | Counted::Forgetful { n } => self.n += n,
            Counted::Named(name) => *self.names.entry(name.clone()).or_default() += 1,
            Counted::Approximate(Rounded(n)) => self.n += n,
            Counted::Unreadable => {}
            Counted::Forgotten => self.n_forgotten += 1,
        }
    }
}

type Decide = dyn Fn(&Counter, &Cx<'_>) -> Result<Effect<Counter, u64>, Refused>;

/// Decides as the test says.
struct Do(Box<Decide>);

impl Handle<Do> for Counter {
    type Reply = u64;

    fn handle(&self, command: &Do, cx: &Cx<'_>) -> Result<Effect<Self, u64>, Refused> {
        (command.0)(self, cx)
    }
}

fn decide(
    decide: impl Fn(&Counter, &Cx<'_>) -> Result<Effect<Counter, u64>, Refused> + 'static,
) -> Do {
    Do(Box::new(decide))
}

fn add(n: u64) -> Do {
    decide(move |_, _| Ok(persist(Counted::Added { n }).reply(|counter: &Counter| counter.n)))
}

fn refuse(why: &'static str) -> Do {
    decide(move |_, _| Err(Refused(why)))
}

fn happen(event: Counted) -> Do {
    decide(move |_, _| Ok(persist(event.clone()).reply(|_| 0)))
}

thread_local! {
    /// Where the last panic of this thread came from, while somebody wants to know.
    static WHENCE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The step panics with all of these words, and says that it was here.
#[track_caller]
fn check_fails(want: &[&str], step: impl FnOnce()) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let is_awaited = WHENCE.with_borrow(Option::is_some);
            match panic.location().filter(|_| is_awaited) {
                Some(at) => WHENCE.set(Some(at.file().to_owned())),
                None => before(panic),
            }
        }));
    });
    WHENCE.set(Some(String::new()));
    let panic = catch_unwind(AssertUnwindSafe(step)).expect_err("it fails");
    let whence = WHENCE.take().unwrap();
    let message = panic.downcast_ref::<String>().expect("a message");
    for want in want {
        assert!(message.contains(want), "{want:?} in {message:?}");
    }
    assert_eq!(whence, file!(), "{message}");
}

#[test]
fn what_is_as_wanted_passes() {
    given::<Counter>([Counted::Added { n: 5 }, Counted::Named("a".into())])
        .then_state(|counter| assert_eq!(counter.n, 5))
        .when(&add(10))
        .then_events([Counted::Added { n: 10 }])
        .then_tags(["plus"])
        .then_reply(15)
        .then_replied(|reply| assert_eq!(*reply, 15))
        .then_state(|counter| assert_eq!(counter.n, 15))
        .when(&refuse("no"))
        .then_rejected(&Refused("no"))
        .then_rejection(|error| assert_eq!(error.0, "no"))
        .then_state(|counter| assert_eq!(counter.n, 15))
        .when(&decide(|_, _| Ok(reply(3))))
        .then_nothing()
        .then_reply(3);
}

#[test]
fn commands_know_what_the_test_says() {
    let know = |id, last, now_ms, command_id: Option<&'static str>| {
        decide(move |_, cx| {
            assert_eq!((cx.id(), cx.sequence_number()), (id, last));
            assert_eq!((cx.now_ms(), cx.command_id()), (now_ms, command_id));
            assert_eq!(cx.is_new(), last == 0);
            Ok(persist(Counted::Added { n: 1 }).reply(|_| 0))
        })
    };
    given::<Counter>([]).when(&know("1", 0, 0, None));
    given::<Counter>([])
        .id("42")
        .at_ms(7)
        .command_id("c")
        .when(&know("42", 0, 7, Some("c")))
        .at_ms(8)
        .when(&know("42", 1, 8, None))
        .command_id("d")
        .when(&know("42", 2, 8, Some("d")));
}

#[test]
fn what_follows_runs_when_told_and_once() {
    let runs = Arc::new(AtomicU64::new(0));
    let counted = runs.clone();
    let command = decide(move |_, _| {
        let runs = runs.clone();
        let follow = move |counter: &Counter| {
            runs.fetch_add(counter.n, Ordering::Relaxed);
        };
        let effect = persist(Counted::Added { n: 7 }).then(follow);
        Ok(effect.tag("more").reply(|_| 0))
    });
    let decided = given::<Counter>([]).when(&command);
    let decided = decided.then_tags(["more", "plus"]);
    assert_eq!(counted.load(Ordering::Relaxed), 0);
    let decided = decided.then_follow();
    assert_eq!(counted.load(Ordering::Relaxed), 7);
    let again = catch_unwind(AssertUnwindSafe(|| decided.then_follow()));
    assert!(again.is_err(), "nothing follows any more");
    assert_eq!(counted.load(Ordering::Relaxed), 7);
}

#[test]
fn what_is_not_as_wanted_shows_both_sides() {
    let added = || given::<Counter>([]).when(&add(1));
    let refused = || given::<Counter>([]).when(&refuse("so"));
    check_fails(
        &["wanted: [Added { n: 2 }]", "got: [Added { n: 1 }]"],
        || {
            added().then_events([Counted::Added { n: 2 }]);
        },
    );
    check_fails(&["rejected", "wanted: []", "Refused(\"so\")"], || {
        refused().then_events([]);
    });
    check_fails(&["reply", "wanted: 2", "got: 1"], || {
        added().then_reply(2);
    });
    check_fails(&["rejected", "wanted: a reply", "Refused(\"so\")"], || {
        refused().then_replied(|_| ());
    });
    check_fails(&["no events", "Added {\"n\":1} tags=[\"plus\"]"], || {
        added().then_nothing();
    });
    check_fails(&["tags of Added", "wanted: []", "[\"plus\"]"], || {
        added().then_tags([]);
    });
    check_fails(&["accepted", "Refused(\"so\")", "Added {\"n\":1}"], || {
        added().then_rejected(&Refused("so"));
    });
    check_fails(
        &["another reason", "Refused(\"no\")", "Refused(\"so\")"],
        || {
            refused().then_rejected(&Refused("no"));
        },
    );
    check_fails(&["wanted: a rejection", "Added"], || {
        added().then_rejection(|_| ());
    });
}

#[test]
fn decisions_that_differ_are_found() {
    let calls = AtomicU64::new(0);
    let impure = decide(move |_, _| {
        let n = calls.fetch_add(1, Ordering::Relaxed);
        Ok(persist(Counted::Added { n }).reply(|_| 0))
    });
    let want = ["deciding twice", "Added {\"n\":0}", "Added {\"n\":1}"];
    check_fails(&want, || {
        given::<Counter>([]).when(&impure);
    });
    let calls = AtomicU64::new(0);
    let moody = decide(move |_, _| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => Ok(none().reply(|_| 0)),
        _ => Err(Refused("now")),
    });
    check_fails(&["deciding twice", "no events", "Refused(\"now\")"], || {
        given::<Counter>([]).when(&moody);
    });
    let forgetful = decide(|counter, _| {
        let n = counter.n_forgotten;
        Ok(persist_all((0..n).map(|n| Counted::Added { n })).reply(|_| 0))
    });
    check_fails(&["from its snapshot leads to another decision"], || {
        given::<Counter>([Counted::Forgotten]).when(&forgetful);
    });
    let told = decide(|counter, _| Ok(reply(counter.n_forgotten)));
    let decided = given::<Counter>([Counted::Forgotten]).when(&told);
    check_fails(&["from its snapshot", "wanted: 1", "got: 0"], || {
        decided.then_reply(1);
    });
}

#[test]
fn events_that_do_not_read_back_are_found() {
    check_fails(&["not known by its own name: Unreadable {}"], || {
        given::<Counter>([]).when(&happen(Counted::Unreadable));
    });
    let lost = Counted::Forgetful { n: 3 };
    check_fails(
        &["read back make another state", "\"n\":3", "\"n\":0"],
        || {
            given::<Counter>([]).when(&happen(lost.clone()));
        },
    );
    check_fails(&["read back make another state"], || {
        given::<Counter>([lost.clone()]).then_state(|_| ());
    });
    let rounded = Counted::Approximate(Rounded(17));
    check_fails(&["reads back as another", "17", "10"], || {
        given::<Counter>([rounded.clone()]).when(&add(1));
    });
}

#[test]
fn states_that_do_not_read_back_are_found() {
    #[derive(Default)]
    struct Broken(u64);

    impl Stored for Broken {
        fn to_payload(&self) -> Result<crate::Payload> {
            let text = self.0.to_string();
            Ok(crate::Payload::new(Codec::Text, text))
        }

        fn from_payload(_: &crate::Payload) -> Result<Self> {
            Ok(Self(7))
        }
    }

    struct Bump;

    impl EntityEvent for Bump {
        fn to_event(&self) -> Result<NewEvent> {
            Ok(NewEvent::new(Codec::Bytes, ""))
        }

        fn from_event(_: &NewEvent) -> Result<Option<Self>> {
            Ok(Some(Self))
        }
    }

    impl Entity for Broken {
        const TYPE: &'static str = "Broken";
        type Event = Bump;
        type Error = Refused;

        fn apply(&mut self, _: &Bump) {
            self.0 += 1;
        }
    }

    impl Handle<()> for Broken {
        type Reply = ();

        fn handle(&self, _: &(), _: &Cx<'_>) -> Result<Effect<Self, ()>, Refused> {
            Ok(persist(Bump))
        }
    }

    check_fails(
        &["state reads back as another", "one: 1", "other: 7"],
        || {
            given::<Broken>([Bump]).when(&());
        },
    );
}

#[test]
fn maps_without_an_order_are_the_same_in_any() {
    let names = (0..50).map(|n| Counted::Named(n.to_string()));
    given::<Counter>(names).when(&add(1)).then_reply(1);
}
