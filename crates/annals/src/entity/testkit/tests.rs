//! The testkit finds mistakes, shows expected and actual outcomes, and points at the line of the test.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

use serde::{Deserialize, Serialize};

use super::given;
use crate::entity::{
    Cx, Effect, Entity, EntityEvent, EventOf, Handle, Stored, none, persist, persist_all, reply,
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
#[event(entity = Counter)]
enum CounterEvent {
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

/// Reads back as another value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "u64")]
struct Rounded(u64);

impl From<u64> for Rounded {
    fn from(n: u64) -> Self {
        Self(n / 10 * 10)
    }
}

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("rejected: {0}")]
struct Rejected(&'static str);

impl Entity for Counter {
    const TYPE: &'static str = "Counter";
    type Event = CounterEvent;
    type Error = Rejected;

    fn apply(&mut self, event: &CounterEvent) {
        match event {
            CounterEvent::Added { n } | CounterEvent::Forgetful { n } => self.n += n,
            CounterEvent::Named(name) => *self.names.entry(name.clone()).or_default() += 1,
            CounterEvent::Approximate(Rounded(n)) => self.n += n,
            CounterEvent::Unreadable => {}
            CounterEvent::Forgotten => self.n_forgotten += 1,
        }
    }
}

type Decision = Result<Effect<Counter, u64>, Rejected>;
type Decide = dyn Fn(&Counter, &Cx<'_>) -> Decision;

/// A command that decides as the test says.
struct Command(Box<Decide>);

impl Handle<Command> for Counter {
    type Reply = u64;

    fn handle(&self, command: &Command, cx: &Cx<'_>) -> Decision {
        (command.0)(self, cx)
    }
}

fn decide(decide: impl Fn(&Counter, &Cx<'_>) -> Decision + 'static) -> Command {
    Command(Box::new(decide))
}

fn add(n: u64) -> Command {
    decide(move |_, _| Ok(persist(CounterEvent::Added { n }).reply(|counter| counter.n)))
}

fn reject(why: &'static str) -> Command {
    decide(move |_, _| Err(Rejected(why)))
}

fn persist_one(event: CounterEvent) -> Command {
    decide(move |_, _| Ok(persist(event.clone()).reply(|_| 0)))
}

thread_local! {
    /// The file of this thread's last panic, while a test expects one.
    static PANIC_FILE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Check that the step panics with all of these words, at a line of this file.
#[track_caller]
fn check_fails(want: &[&str], step: impl FnOnce()) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let is_expected = PANIC_FILE.with_borrow(Option::is_some);
            match panic.location().filter(|_| is_expected) {
                Some(at) => PANIC_FILE.set(Some(at.file().to_owned())),
                None => before(panic),
            }
        }));
    });
    PANIC_FILE.set(Some(String::new()));
    let panic = catch_unwind(AssertUnwindSafe(step)).expect_err("it fails");
    let file = PANIC_FILE.take().unwrap();
    let message = panic.downcast_ref::<String>().expect("a message");
    for want in want {
        assert!(message.contains(want), "{want:?} in {message:?}");
    }
    assert_eq!(file, file!(), "{message}");
}

#[test]
fn expected_outcomes_pass() {
    given::<Counter>([
        CounterEvent::Added { n: 5 },
        CounterEvent::Named("a".into()),
    ])
    .then_state(|counter| assert_eq!(counter.n, 5))
    .when(&add(10))
    .then_events([CounterEvent::Added { n: 10 }])
    .then_tags(["plus"])
    .then_reply(15)
    .then_replied(|reply| assert_eq!(*reply, 15))
    .then_state(|counter| assert_eq!(counter.n, 15))
    .when(&reject("no"))
    .then_rejected(&Rejected("no"))
    .then_no_events()
    .then_rejection(|error| assert_eq!(error.0, "no"))
    .then_state(|counter| assert_eq!(counter.n, 15))
    .when(&decide(|_, _| Ok(reply(3))))
    .then_no_events()
    .then_reply(3);
}

#[test]
fn handlers_see_the_context_that_the_test_sets() {
    let know = |id, last, now_ms, command_id: Option<&'static str>| {
        decide(move |_, cx| {
            assert_eq!((cx.id(), cx.sequence_number()), (id, last));
            assert_eq!((cx.now_ms(), cx.command_id()), (now_ms, command_id));
            assert_eq!(cx.is_new(), last == 0);
            Ok(persist(CounterEvent::Added { n: 1 }).reply(|_| 0))
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
fn callbacks_run_once_when_asked_to() {
    let runs = Arc::new(AtomicU64::new(0));
    let counted = runs.clone();
    let command = decide(move |_, _| {
        let runs = runs.clone();
        let callback = move |counter: &Counter| {
            runs.fetch_add(counter.n, Ordering::Relaxed);
        };
        let effect = persist(CounterEvent::Added { n: 7 }).then(callback);
        Ok(effect.tag("more").reply(|_| 0))
    });
    let decided = given::<Counter>([])
        .when(&command)
        .then_tags(["more", "plus"]);
    assert_eq!(counted.load(Ordering::Relaxed), 0);
    let decided = decided.then_run_callbacks();
    assert_eq!(counted.load(Ordering::Relaxed), 7);
    let again = catch_unwind(AssertUnwindSafe(|| decided.then_run_callbacks()));
    assert!(again.is_err(), "no callback is left");
    assert_eq!(counted.load(Ordering::Relaxed), 7);
}

#[test]
fn failures_show_expected_and_actual_outcomes() {
    let added = || given::<Counter>([]).when(&add(1));
    let rejected = || given::<Counter>([]).when(&reject("so"));
    check_fails(
        &["expected: [Added { n: 2 }]", "actual: [Added { n: 1 }]"],
        || {
            added().then_events([CounterEvent::Added { n: 2 }]);
        },
    );
    check_fails(&["rejected", "expected: []", "Rejected(\"so\")"], || {
        rejected().then_events([]);
    });
    check_fails(&["reply", "expected: 2", "actual: 1"], || {
        added().then_reply(2);
    });
    check_fails(
        &["rejected", "expected: a reply", "Rejected(\"so\")"],
        || {
            rejected().then_replied(|_| ());
        },
    );
    check_fails(&["no events", "Added {\"n\":1} tags=[\"plus\"]"], || {
        added().then_no_events();
    });
    check_fails(&["tags of Added", "expected: []", "[\"plus\"]"], || {
        added().then_tags([]);
    });
    check_fails(&["accepted", "Rejected(\"so\")", "Added {\"n\":1}"], || {
        added().then_rejected(&Rejected("so"));
    });
    check_fails(
        &["another rejection", "Rejected(\"no\")", "Rejected(\"so\")"],
        || {
            rejected().then_rejected(&Rejected("no"));
        },
    );
    check_fails(&["expected: a rejection", "Added"], || {
        added().then_rejection(|_| ());
    });
}

#[test]
fn impure_handlers_are_found() {
    let calls = AtomicU64::new(0);
    let impure = decide(move |_, _| {
        let n = calls.fetch_add(1, Ordering::Relaxed);
        Ok(persist(CounterEvent::Added { n }).reply(|_| 0))
    });
    let want = ["deciding twice", "Added {\"n\":0}", "Added {\"n\":1}"];
    check_fails(&want, || {
        given::<Counter>([]).when(&impure);
    });
    let calls = AtomicU64::new(0);
    let changing = decide(move |_, _| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => Ok(none().reply(|_| 0)),
        _ => Err(Rejected("now")),
    });
    check_fails(
        &["deciding twice", "no events", "Rejected(\"now\")"],
        || {
            given::<Counter>([]).when(&changing);
        },
    );
    let forgetful = decide(|counter, _| {
        let n = counter.n_forgotten;
        Ok(persist_all((0..n).map(|n| CounterEvent::Added { n })).reply(|_| 0))
    });
    check_fails(&["from a snapshot leads to another decision"], || {
        given::<Counter>([CounterEvent::Forgotten]).when(&forgetful);
    });
    let command = decide(|counter, _| Ok(reply(counter.n_forgotten)));
    let decided = given::<Counter>([CounterEvent::Forgotten]).when(&command);
    check_fails(&["from a snapshot", "expected: 1", "actual: 0"], || {
        decided.then_reply(1);
    });
}

#[test]
fn events_that_do_not_read_back_are_found() {
    check_fails(&["does not know its own manifest: Unreadable {}"], || {
        given::<Counter>([]).when(&persist_one(CounterEvent::Unreadable));
    });
    let lost = CounterEvent::Forgetful { n: 3 };
    check_fails(
        &[
            "replayed events lead to another state",
            "\"n\":3",
            "\"n\":0",
        ],
        || {
            given::<Counter>([]).when(&persist_one(lost.clone()));
        },
    );
    check_fails(&["replayed events lead to another state"], || {
        given::<Counter>([lost.clone()]).then_state(|_| ());
    });
    let rounded = CounterEvent::Approximate(Rounded(17));
    check_fails(&["reads back as another one", "17", "10"], || {
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

    impl EventOf<Broken> for Bump {}

    impl Entity for Broken {
        const TYPE: &'static str = "Broken";
        type Event = Bump;
        type Error = Rejected;

        fn apply(&mut self, _: &Bump) {
            self.0 += 1;
        }
    }

    impl Handle<()> for Broken {
        type Reply = ();

        fn handle(&self, _: &(), _: &Cx<'_>) -> Result<Effect<Self, ()>, Rejected> {
            Ok(persist(Bump))
        }
    }

    check_fails(
        &[
            "state reads back as another one; if it depends on a field that serde skips",
            "written: 1",
            "read back: 7",
        ],
        || {
            given::<Broken>([Bump]).when(&());
        },
    );
}

#[test]
fn the_order_of_a_hash_map_does_not_matter() {
    let names = (0..50).map(|n| CounterEvent::Named(n.to_string()));
    given::<Counter>(names).when(&add(1)).then_reply(1);
}

#[test]
fn metadata_and_ids_are_checked() {
    let labelled = || {
        decide(|_, cx| {
            let first = persist(CounterEvent::Added { n: 1 }).metadata("by", "ann");
            let second = persist(CounterEvent::Added { n: 2 }).metadata("by", "bob");
            assert_eq!(cx.correlation_id(), Some("request-7"));
            Ok(first
                .and(second)
                .metadata("why", "test")
                .reply(|counter| counter.n))
        })
    };
    let decided = given::<Counter>([])
        .correlation_id("request-7")
        .command_id("order-1")
        .when(&labelled())
        .then_correlation("request-7")
        .then_causation("order-1")
        .then_stored(|events| {
            let by = events.iter().map(|event| event.metadata["by"].as_str());
            assert_eq!(by.collect::<Vec<_>>(), ["ann", "bob"]);
        })
        .then_reply(3);
    let want = ["metadata of Added", "expected: {}", "\"by\": \"ann\""];
    check_fails(&want, || {
        decided.then_metadata([]);
    });
    let named = decide(|_, _| {
        let effect = persist(CounterEvent::Added { n: 1 }).metadata("by", "ann");
        Ok(effect.correlation("own").causation("timer").reply(|_| 0))
    });
    let decided = || given::<Counter>([]).correlation_id("outer").when(&named);
    decided()
        .then_metadata([("by", "ann")])
        .then_correlation("own")
        .then_causation("timer");
    check_fails(&["correlation", "\"outer\"", "Some(\"own\")"], || {
        decided().then_correlation("outer");
    });
    check_fails(&["causation", "\"order-1\"", "Some(\"timer\")"], || {
        decided().then_causation("order-1");
    });
}
