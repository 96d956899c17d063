//! A scripted HTTP server: it responds, loses responses, or forwards to a real server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use annals::ManualClock;
use annals_aws::DynamoDb;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::server::open_at;

/// What to do with a request.
pub(crate) enum Act {
    /// Send this response.
    Answer(u16, String),
    /// Close the connection without a response.
    Lose,
    /// Keep the connection open and never respond.
    Silence,
    /// Forward to the real server.
    Forward,
    /// Forward to the real server, and close the connection without a response.
    ForwardAndLose,
}

/// A received request: `PutItem` and the like, and its body.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) operation: String,
    pub(crate) head: String,
    pub(crate) body: Json,
}

/// A successful response.
pub(crate) fn ok(body: Json) -> Act {
    Act::Answer(200, body.to_string())
}

/// A response with a DynamoDB error.
pub(crate) fn error(status: u16, code: &str) -> Act {
    let code = format!("com.amazonaws.dynamodb.v20120810#{code}");
    let body = json!({"__type": code, "message": "as scripted"});
    Act::Answer(status, body.to_string())
}

type Decide = Box<dyn FnMut(usize, &Seen) -> Act + Send>;

/// The server; it runs until the test ends.
pub(crate) struct Script {
    pub(crate) endpoint: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
}

impl Script {
    /// Starts a server that decides on every request; requests are numbered from zero.
    pub(crate) async fn start(decide: impl FnMut(usize, &Seen) -> Act + Send + 'static) -> Self {
        Self::in_front_of("", decide).await
    }

    /// The same, with a real server to forward to.
    pub(crate) async fn in_front_of(
        upstream: &str,
        decide: impl FnMut(usize, &Seen) -> Act + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let decide: Arc<Mutex<Decide>> = Arc::new(Mutex::new(Box::new(decide)));
        let (upstream, log) = (upstream.replace("http://", ""), seen.clone());
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = connections.clone();
        tokio::spawn(async move {
            while let Ok((peer, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::Relaxed);
                let (log, decide) = (log.clone(), decide.clone());
                tokio::spawn(serve(peer, upstream.clone(), move |request| {
                    let mut log = log.lock().unwrap();
                    log.push(request.clone());
                    decide.lock().unwrap()(log.len() - 1, request)
                }));
            }
        });
        Self {
            endpoint,
            seen,
            connections,
        }
    }

    /// A client of this server with a manual clock.
    pub(crate) async fn open(&self) -> (Arc<DynamoDb>, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at_ms(0));
        let store = open_at(&self.endpoint, clock.clone()).await;
        (Arc::new(store), clock)
    }

    /// The number of connections opened so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(peer: TcpStream, upstream: String, mut decide: impl FnMut(&Seen) -> Act) {
    let mut peer = BufReader::new(peer);
    while let Some(message) = read_message(&mut peer).await {
        let (head, body) = &message;
        let target = header(head, "x-amz-target").unwrap_or_default();
        let seen = Seen {
            operation: target.rsplit('.').next().unwrap().to_owned(),
            head: head.clone(),
            body: serde_json::from_slice(body).unwrap_or(Json::Null),
        };
        let answer = match decide(&seen) {
            Act::Answer(status, body) => {
                let length = body.len();
                format!("HTTP/1.1 {status} As Scripted\r\ncontent-length: {length}\r\n\r\n{body}")
                    .into_bytes()
            }
            Act::Forward => forward(&upstream, &message).await,
            Act::Lose => return,
            Act::Silence => std::future::pending().await,
            Act::ForwardAndLose => {
                forward(&upstream, &message).await;
                return;
            }
        };
        if peer.write_all(&answer).await.is_err() {
            return;
        }
    }
}

async fn forward(upstream: &str, (head, body): &(String, Vec<u8>)) -> Vec<u8> {
    let mut server = BufReader::new(TcpStream::connect(upstream).await.unwrap());
    server.write_all(head.as_bytes()).await.unwrap();
    server.write_all(body).await.unwrap();
    let (head, body) = read_message(&mut server).await.unwrap();
    [head.into_bytes(), body].concat()
}

/// The head and the body of an HTTP message; `None` at the end of the connection.
async fn read_message(peer: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if peer.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let length = header(&head, "content-length").map_or(0, |n| n.parse().unwrap());
    let mut body = vec![0; length];
    peer.read_exact(&mut body).await.ok()?;
    Some((head, body))
}

/// A header's value.
pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    headers
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}
