//! A server that does as it is told: answers, loses answers, or stands in front of a real one.

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
    /// Answer so.
    Answer(u16, String),
    /// Close the connection instead of answering.
    Lose,
    /// Keep the connection and never answer.
    Silence,
    /// Let the server behind do it.
    Forward,
    /// Let the server behind do it, and close the connection instead of answering.
    ForwardAndLose,
}

/// A request as the server saw it: `PutItem` and the like, and its body.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) operation: String,
    pub(crate) head: String,
    pub(crate) body: Json,
}

/// An answer of success.
pub(crate) fn ok(body: Json) -> Act {
    Act::Answer(200, body.to_string())
}

/// An answer with one of DynamoDB's errors.
pub(crate) fn error(status: u16, code: &str) -> Act {
    let code = format!("com.amazonaws.dynamodb.v20120810#{code}");
    let body = json!({"__type": code, "message": "as scripted"});
    Act::Answer(status, body.to_string())
}

type Decide = Box<dyn FnMut(usize, &Seen) -> Act + Send>;

/// The server; it serves until the test ends.
pub(crate) struct Script {
    pub(crate) endpoint: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
}

impl Script {
    /// Starts a server whose every request is decided upon; requests are counted from zero.
    pub(crate) async fn start(decide: impl FnMut(usize, &Seen) -> Act + Send + 'static) -> Self {
        Self::in_front_of("", decide).await
    }

    /// The same, with a server behind for what is to be forwarded.
    pub(crate) async fn in_front_of(
        behind: &str,
        decide: impl FnMut(usize, &Seen) -> Act + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let decide: Arc<Mutex<Decide>> = Arc::new(Mutex::new(Box::new(decide)));
        let (behind, log) = (behind.replace("http://", ""), seen.clone());
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = connections.clone();
        tokio::spawn(async move {
            while let Ok((peer, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::Relaxed);
                let (log, decide) = (log.clone(), decide.clone());
                tokio::spawn(serve(peer, behind.clone(), move |request| {
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

    /// A client of this server whose clock never waits.
    pub(crate) async fn open(&self) -> (Arc<DynamoDb>, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at_ms(0));
        let store = open_at(&self.endpoint, clock.clone()).await;
        (Arc::new(store), clock)
    }

    /// How many connections were ever opened.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(peer: TcpStream, behind: String, mut decide: impl FnMut(&Seen) -> Act) {
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
            Act::Forward => forward(&behind, &message).await,
            Act::Lose => return,
            Act::Silence => std::future::pending().await,
            Act::ForwardAndLose => {
                forward(&behind, &message).await;
                return;
            }
        };
        if peer.write_all(&answer).await.is_err() {
            return;
        }
    }
}

async fn forward(behind: &str, (head, body): &(String, Vec<u8>)) -> Vec<u8> {
    let mut server = BufReader::new(TcpStream::connect(behind).await.unwrap());
    server.write_all(head.as_bytes()).await.unwrap();
    server.write_all(body).await.unwrap();
    let (head, body) = read_message(&mut server).await.unwrap();
    [head.into_bytes(), body].concat()
}

/// The head and the body of an HTTP message; `None` where the connection ends.
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
