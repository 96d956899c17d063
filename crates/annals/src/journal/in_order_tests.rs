//! Appends that end when the test says so.

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use tokio::sync::oneshot;

use super::*;
use crate::journal::Expected;
use crate::{Codec, NewEvent};

/// The text of an append that was begun, and how to end it.
type Running = (String, oneshot::Sender<()>);

/// The appends that were begun.
#[derive(Clone, Default)]
struct Begun(Arc<Mutex<Vec<Running>>>);

impl Begun {
    async fn run(self, append: BulkAppend) -> String {
        let payload = append.append.events[0].payload.to_vec();
        let name = String::from_utf8(payload).unwrap();
        let (end, ended) = oneshot::channel();
        self.0.lock().unwrap().push((name.clone(), end));
        ended.await.unwrap();
        name
    }

    fn names(&self) -> Vec<String> {
        let begun = self.0.lock().unwrap();
        begun.iter().map(|(name, _)| name.clone()).collect()
    }

    fn end(&self, name: &str) {
        let mut begun = self.0.lock().unwrap();
        let place = begun.iter().position(|(it, _)| it == name).unwrap();
        begun.remove(place).1.send(()).unwrap();
    }
}

fn append(id: &str, payload: impl Into<String>) -> BulkAppend {
    let event = NewEvent::new(Codec::Text, payload.into());
    BulkAppend::new(id.parse().unwrap(), Expected::Any, event)
}

type Given = Result<BulkAppend, &'static str>;

fn start(
    appends: Vec<Given>,
) -> (
    Begun,
    impl Stream<Item = Result<String, &'static str>> + Unpin,
) {
    let begun = Begun::default();
    let of = begun.clone();
    let results = in_order(stream::iter(appends), move |append| of.clone().run(append));
    (begun, results)
}

#[test]
fn one_id_waits_and_others_do_not() {
    let given = [("a", "a1"), ("b", "b1"), ("a", "a2"), ("a", "a3")];
    let given = given.map(|(id, name)| Ok(append(id, name)));
    let (begun, mut results) = start(given.to_vec());
    assert!(results.next().now_or_never().is_none());
    assert_eq!(begun.names(), ["a1", "b1"]);
    begun.end("a1");
    assert_eq!(results.next().now_or_never(), Some(Some(Ok("a1".into()))));
    assert!(results.next().now_or_never().is_none());
    assert_eq!(begun.names(), ["b1", "a2"], "a3 waits for a2");
}

#[test]
fn results_have_the_order_of_the_appends() {
    let given = ["a", "b", "c"].map(|name| Ok(append(name, name)));
    let mut given = given.to_vec();
    given.insert(1, Err("not an append"));
    let (begun, mut results) = start(given);
    assert!(results.next().now_or_never().is_none());
    begun.end("c");
    begun.end("b");
    assert!(results.next().now_or_never().is_none(), "a is the first");
    begun.end("a");
    let all = results.collect::<Vec<_>>().now_or_never().unwrap();
    let ok = |name: &str| Ok(name.to_owned());
    assert_eq!(all, [ok("a"), Err("not an append"), ok("b"), ok("c")]);
}

#[test]
fn no_more_are_read_than_may_be_open() {
    let given = (0..2 * OPEN_MAX).map(|n| Ok(append(&n.to_string(), n.to_string())));
    let (begun, mut results) = start(given.collect());
    assert!(results.next().now_or_never().is_none());
    assert_eq!(begun.names().len(), OPEN_MAX);
    // One that has ended makes room once its result is taken: results are kept in memory, too.
    begun.end("1");
    assert!(results.next().now_or_never().is_none());
    assert_eq!(begun.names().len(), OPEN_MAX - 1);
    begun.end("0");
    for name in ["0", "1"] {
        assert_eq!(results.next().now_or_never(), Some(Some(Ok(name.into()))));
    }
    assert!(results.next().now_or_never().is_none());
    assert_eq!(begun.names().len(), OPEN_MAX);
}

#[test]
fn large_appends_are_read_while_there_is_memory_for_them() {
    let large = |n: usize| Ok(append(&n.to_string(), "x".repeat(BYTES_MAX / 2)));
    let (begun, mut results) = start((0..10).map(large).collect());
    assert!(results.next().now_or_never().is_none());
    assert_eq!(begun.names().len(), 2);
    begun.end(&"x".repeat(BYTES_MAX / 2));
    assert!(results.next().now_or_never().is_some());
    assert!(results.next().now_or_never().is_none());
    assert_eq!(begun.names().len(), 2);
}
