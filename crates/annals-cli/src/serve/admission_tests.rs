//! Who is let in, the limits of requests in flight, and writes of disconnected clients.

use super::*;
use tokio::sync::oneshot;

fn two_requests_of_ten_bytes() -> InFlight {
    InFlight::new(&Limits {
        requests: 2,
        body_bytes: 10,
        bodies_bytes: 10,
        ..Limits::default()
    })
}

#[test]
fn requests_over_the_limit_are_refused() {
    let all = two_requests_of_ten_bytes();
    let (one, two) = (all.admit(0), all.admit(0));
    assert!(one.is_some() && two.is_some());
    assert!(all.admit(0).is_none());
    assert!(all.admit(0).is_none(), "a refused request takes no permit");
    drop(one);
    assert!(all.admit(0).is_some());
}

#[test]
fn bytes_over_the_limit_are_refused() {
    let all = two_requests_of_ten_bytes();
    let most = all.admit(9);
    assert!(most.is_some());
    assert!(all.admit(2).is_none());
    assert!(all.admit(1).is_some());
    drop(most);
    assert!(all.admit(10).is_some());
}

#[test]
fn one_body_within_its_limit_fits() {
    let limits = Limits {
        body_bytes: 100,
        bodies_bytes: 10,
        ..Limits::default()
    };
    assert!(InFlight::new(&limits).admit(100).is_some());
}

#[test]
fn a_detached_write_is_counted_over_the_limit() {
    let all = two_requests_of_ten_bytes();
    let (one, two) = (all.admit(10), all.admit(0));
    let kept = all.take(10);
    drop((one, two));
    assert!(all.admit(1).is_none(), "its bytes are still there");
    let other = all.admit(0);
    assert!(other.is_some() && all.admit(0).is_none());
    drop(kept);
    assert!(all.admit(10).is_some());
}

#[tokio::test]
async fn the_write_of_a_disconnected_client_is_finished_and_in_flight_until_then() {
    let in_flight = InFlight::new(&Limits {
        requests: 1,
        ..Limits::default()
    });
    let detached = DetachedWrites::new(in_flight.clone());
    let (go, gone) = oneshot::channel::<()>();
    let (done, is_done) = oneshot::channel();
    let write = async move {
        gone.await.unwrap();
        done.send(7).unwrap();
    };
    let permit = in_flight.admit(0).unwrap();
    let mut finishing = Finishing::new(write, &detached);
    assert!(futures::poll!(&mut finishing).is_pending());
    assert!(detached.tasks.is_empty(), "no task while it is connected");
    drop((finishing, permit));
    assert!(in_flight.admit(0).is_none(), "it is still in flight");
    go.send(()).unwrap();
    detached.finish().await;
    assert_eq!(is_done.await.unwrap(), 7);
    assert!(in_flight.admit(0).is_some());
}

#[tokio::test]
async fn a_detached_write_keeps_the_bytes_of_its_body() {
    let in_flight = two_requests_of_ten_bytes();
    let detached = DetachedWrites::new(in_flight.clone());
    let permit = in_flight.admit(10).unwrap();
    let write = std::future::pending::<()>();
    let answering = permit.hold(async { drop(Finishing::new(write, &detached)) });
    answering.await;
    assert!(in_flight.admit(1).is_none());
    assert!(in_flight.admit(0).is_some());
}

#[tokio::test]
async fn a_finished_write_leaves_no_task() {
    let detached = DetachedWrites::new(two_requests_of_ten_bytes());
    assert_eq!(Finishing::new(async { 7 }, &detached).await, 7);
    assert!(detached.tasks.is_empty());
}

const LONG: &str = "0123456789abcdef";

fn with(name: HeaderName, value: &str) -> HeaderMap {
    HeaderMap::from_iter([(name, value.parse().unwrap())])
}

#[test]
fn only_loopback_needs_no_token() {
    let (here, there) = (
        "127.0.0.1:7070".parse().unwrap(),
        "0.0.0.0:7070".parse().unwrap(),
    );
    assert!(matches!(Guard::new(here, None, false), Ok(Guard::Loopback)));
    assert!(Guard::new("[::1]:1".parse().unwrap(), None, false).is_ok());
    let refused = Guard::new(there, None, false).unwrap_err().to_string();
    assert!(refused.contains("--token-file"), "{refused}");
    assert!(matches!(Guard::new(there, None, true), Ok(Guard::Open)));
    assert!(Guard::new(there, Some(LONG), false).is_ok());
    assert!(Guard::new(here, Some("short"), false).is_err());
    assert!(Guard::new(here, Some("   \n"), false).is_err());
}

#[test]
fn a_token_is_the_whole_token() {
    let guard = Guard::new("127.0.0.1:1".parse().unwrap(), Some(LONG), false).unwrap();
    assert!(!format!("{guard:?}").contains(LONG));
    for (value, passes) in [
        ("Bearer 0123456789abcdef", true),
        ("bearer 0123456789abcdef ", true),
        ("Bearer 0123456789abcde", false),
        ("Bearer 0123456789abcdefg", false),
        ("Bearer ", false),
        ("Basic 0123456789abcdef", false),
        ("0123456789abcdef", false),
    ] {
        let headers = with(AUTHORIZATION, value);
        assert_eq!(
            guard.admit(&Method::GET, &headers).is_ok(),
            passes,
            "{value}"
        );
    }
    assert!(guard.admit(&Method::GET, &HeaderMap::new()).is_err());
}

#[test]
fn other_names_of_this_machine_are_refused() {
    for (host, passes) in [
        ("127.0.0.1:7070", true),
        ("localhost", true),
        ("LOCALHOST:1", true),
        ("[::1]:7070", true),
        ("127.9.9.9", true),
        ("evil.example:7070", false),
        ("127.0.0.1.evil.example", false),
        ("localhost.evil.example", false),
        ("", false),
    ] {
        let headers = with(HOST, host);
        assert_eq!(
            Guard::Loopback.admit(&Method::GET, &headers).is_ok(),
            passes,
            "{host}"
        );
    }
    assert!(
        Guard::Loopback
            .admit(&Method::GET, &HeaderMap::new())
            .is_err()
    );
}

#[test]
fn pages_of_other_sites_change_nothing() {
    let own = "localhost:7070";
    for (headers, passes) in [
        (&[][..], true),
        (&[("origin", "http://localhost:7070")], true),
        (&[("origin", "http://LOCALHOST:7070")], true),
        (&[("origin", "http://localhost:8080")], false),
        (&[("origin", "https://evil.example")], false),
        (&[("origin", "null")], false),
        (&[("sec-fetch-site", "same-origin")], true),
        (&[("sec-fetch-site", "none")], true),
        (&[("sec-fetch-site", "same-site")], false),
        (&[("sec-fetch-site", "cross-site")], false),
    ] {
        let mut all = with(HOST, own);
        for (name, value) in headers {
            all.insert(*name, value.parse().unwrap());
        }
        for guard in [Guard::Loopback, Guard::Open] {
            for method in [Method::POST, Method::PUT, Method::DELETE] {
                let admitted = guard.admit(&method, &all);
                assert_eq!(admitted.is_ok(), passes, "{method} {headers:?}");
            }
            assert!(guard.admit(&Method::GET, &all).is_ok(), "{headers:?}");
        }
        let guard = Guard::new("127.0.0.1:1".parse().unwrap(), Some(LONG), false).unwrap();
        let bearer = format!("Bearer {LONG}").parse().unwrap();
        all.insert(AUTHORIZATION, bearer);
        assert!(guard.admit(&Method::POST, &all).is_ok());
    }
}
