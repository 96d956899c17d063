//! `aws-client-config`: every setting has its effect on the requests.

use std::sync::Arc;
use std::time::Duration;

use annals::items::{Condition, Item, Items, KeyAttribute, KeySchema, TableSpec};
use annals::{Clock, Error, ErrorKind, ManualClock, Random, SystemClock};
use annals_aws::{AwsClientSettings, AwsSettings, DynamoDb};
use serde_json::json;
use tokio::net::TcpListener;

use crate::script::{Act, Script, error, header, ok};

/// A host that does not resolve, so only a proxy can respond.
const NOWHERE: &str = "http://dynamodb.invalid:8000";

fn settings(endpoint: &str, change: impl FnOnce(&mut AwsClientSettings)) -> AwsSettings {
    let mut settings = crate::server::settings(endpoint);
    change(&mut settings.aws_client_config);
    settings
}

async fn open(settings: &AwsSettings) -> DynamoDb {
    let clock = Arc::new(ManualClock::at_ms(0));
    let opened = DynamoDb::open_local(settings, clock, Random::seeded(1)).await;
    opened.unwrap()
}

/// Puts an item.
async fn put(store: &DynamoDb) -> Result<(), Error> {
    let key = KeySchema::new(KeyAttribute::text("id"));
    let table = TableSpec::new("notes".parse().unwrap(), key).unwrap();
    let item = Item::new().with("id", "a");
    let put = store.put(&table, item, Condition::Always).await;
    put.map(drop).map_err(Error::from)
}

#[tokio::test]
async fn retries_a_silent_server_after_socket_timeout() {
    let script = Script::start(|n, _| match n {
        0 => Act::Silence,
        _ => ok(json!({})),
    })
    .await;
    let minute = 60_000;
    let settings = settings(&script.endpoint, |client| {
        client.socket_timeout = Some(100);
        client.request_timeout = minute;
        client.client_execution_timeout = minute;
    });
    let store = open(&settings).await;
    // Without the setting, the first attempt would take a minute.
    let done = SystemClock::within(Duration::from_secs(30), put(&store)).await;
    done.expect("given up before").unwrap();
    assert_eq!(script.seen().len(), 2);
}

#[tokio::test]
async fn a_handshake_fails_after_connection_timeout() {
    // The operating system accepts the connection, and nobody reads it.
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("https://{}", deaf.local_addr().unwrap());
    let settings = settings(&endpoint, |client| {
        client.connection_timeout = 50;
        client.max_error_retry = Some(0);
    });
    let error = put(&open(&settings).await).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = format!("{error:?}");
    assert!(text.contains("no connection in time"), "{text}");
}

#[tokio::test]
async fn distinguishes_silence_from_a_missing_connection() {
    let script = Script::start(|_, _| Act::Silence).await;
    let settings = settings(&script.endpoint, |client| {
        client.socket_timeout = Some(50);
        client.max_error_retry = Some(0);
    });
    let error = put(&open(&settings).await).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = format!("{error:?}");
    assert!(text.contains("no response within socket-timeout"), "{text}");
}

#[tokio::test]
async fn retries_a_request_max_error_retry_times() {
    for retries in [0, 1, 4] {
        let script = Script::start(|_, _| error(500, "InternalServerError")).await;
        let settings = settings(&script.endpoint, |client| {
            client.max_error_retry = Some(retries);
        });
        let error = put(&open(&settings).await).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let text = error.to_string();
        assert!(text.contains("within max-error-retry"), "{text}");
        assert_eq!(script.seen().len() as u32, retries + 1);
    }
}

#[tokio::test]
async fn closes_idle_connections() {
    let reused = async |idle_max: u64| {
        let script = Script::start(|_, _| ok(json!({}))).await;
        let settings = settings(&script.endpoint, |client| {
            client.connection_max_idle_millis = idle_max;
        });
        let store = open(&settings).await;
        put(&store).await.unwrap();
        SystemClock::new().sleep(Duration::from_millis(60)).await;
        put(&store).await.unwrap();
        assert_eq!(script.seen().len(), 2);
        script.connections() == 1
    };
    assert!(!reused(1).await);
    assert!(reused(600_000).await);
}

#[tokio::test]
async fn the_user_agent_prefixes_that_of_the_sdk() {
    let script = Script::start(|_, _| ok(json!({}))).await;
    let settings = settings(&script.endpoint, |client| {
        client.user_agent = Some("orders/2.1".to_owned());
    });
    put(&open(&settings).await).await.unwrap();
    let [request] = &script.seen()[..] else {
        panic!("{:?}", script.seen());
    };
    let agent = header(&request.head, "user-agent").unwrap();
    assert!(agent.starts_with("orders/2.1, aws-sdk-rust/"), "{agent}");
    // The header changes after signing, so it must not be signed.
    let signed = header(&request.head, "authorization").unwrap();
    assert!(!signed.contains(";user-agent"), "{signed}");
}

/// Settings with the script as the proxy.
fn through(script: &Script, endpoint: &str) -> AwsSettings {
    let address = script.endpoint.strip_prefix("http://").unwrap();
    let (host, port) = address.split_once(':').unwrap();
    settings(endpoint, |client| {
        client.proxy_host = Some(host.to_owned());
        client.proxy_port = Some(port.parse().unwrap());
        client.max_error_retry = Some(0);
    })
}

#[tokio::test]
async fn sends_requests_through_the_proxy() {
    let script = Script::start(|_, _| ok(json!({}))).await;
    put(&open(&through(&script, NOWHERE)).await).await.unwrap();
    let [request] = &script.seen()[..] else {
        panic!("{:?}", script.seen());
    };
    assert!(
        request.head.starts_with(&format!("POST {NOWHERE}/ HTTP")),
        "{}",
        request.head
    );
    assert_eq!(request.operation, "PutItem");
}

#[tokio::test]
async fn tunnels_https_through_the_proxy() {
    let script = Script::start(|_, _| Act::Lose).await;
    let store = open(&through(&script, "https://dynamodb.invalid")).await;
    put(&store).await.unwrap_err();
    let seen = script.seen();
    let tunnel = "CONNECT dynamodb.invalid:443 HTTP";
    assert!(seen[0].head.starts_with(tunnel), "{}", seen[0].head);
}

#[tokio::test]
async fn refuses_invalid_client_settings() {
    let refused = async |change: &dyn Fn(&mut AwsClientSettings)| {
        let settings = settings("http://127.0.0.1:1", change);
        let clock = Arc::new(ManualClock::at_ms(0));
        let opened = DynamoDb::open_local(&settings, clock, Random::seeded(1)).await;
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    };
    let text = refused(&|client| client.socket_timeout = Some(0)).await;
    assert!(
        text.ends_with("`aws-client-config.socket-timeout`"),
        "{text}"
    );
    let text = refused(&|client| client.connection_max_idle_millis = 0).await;
    assert!(
        text.ends_with("`aws-client-config.connection-max-idle-millis`"),
        "{text}"
    );
    let text = refused(&|client| client.proxy_host = Some("proxy".to_owned())).await;
    assert!(text.contains("a host and a port"), "{text}");
    let text = refused(&|client| client.user_agent = Some("a\nb".to_owned())).await;
    assert!(text.ends_with("user-agent=`a\\nb`"), "{text}");
}
