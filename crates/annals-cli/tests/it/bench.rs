//! An interrupted `annals bench` cleans up.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::run::{Annals, Outcome, dynamodb};

fn start(annals: &Annals, what: &str) -> Child {
    let mut command = annals.binary(&["bench", what]);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Sends the signal once `is_begun`. Returns the outcome of the bench.
fn interrupt(mut bench: Child, signal: &str, is_begun: impl Fn() -> bool) -> Outcome {
    while !is_begun() {
        assert!(bench.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    let mut kill = Command::new("kill");
    kill.args([signal, &bench.id().to_string()]);
    assert!(kill.status().unwrap().success());
    bench.wait_with_output().unwrap().into()
}

#[test]
fn an_interrupted_bench_removes_its_folder() {
    // The store under test is the last that a line of the bench opens.
    for (what, last, signal, code) in [
        ("store", "1-200/ours/FORMAT", "-INT", 130),
        ("store", "1-200/ours/FORMAT", "-TERM", 143),
        ("journal", "1-1/ours/FORMAT", "-INT", 130),
        ("journal", "1-1/ours/FORMAT", "-TERM", 143),
    ] {
        let annals = Annals::embedded();
        let bench = start(&annals, what);
        let folder = annals
            .folder()
            .join(format!("annals-data.bench-{}", bench.id()));
        let last = folder.join(last);
        let outcome = interrupt(bench, signal, || last.exists());
        outcome.fails(code, "interrupted");
        let left: Vec<_> = std::fs::read_dir(annals.folder()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn an_interrupted_bench_drops_its_table() {
    let endpoint = dynamodb();
    let annals = Annals::at(&endpoint);
    let tables = || list_tables(&endpoint, annals.access_key());
    let outcome = interrupt(start(&annals, "store"), "-INT", || {
        tables().contains("annals-bench-")
    });
    outcome.fails(130, "interrupted; dropped the table of the bench");
    let left = tables();
    assert!(!left.contains("annals-bench-"), "{left}");
}

#[test]
fn refuses_to_measure_the_journal_on_dynamodb() {
    let annals = Annals::at("http://127.0.0.1:1");
    annals
        .run(&["bench", "journal"])
        .fails(2, "measures the embedded store");
}

/// Lists the tables of the server, which our client cannot.
fn list_tables(endpoint: &str, access_key: &str) -> String {
    let host = endpoint.strip_prefix("http://").unwrap();
    let mut server = TcpStream::connect(host).unwrap();
    let credential = format!("{access_key}/20260101/eu-west-1/dynamodb/aws4_request");
    write!(
        server,
        "POST / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: 2\r\n\
         content-type: application/x-amz-json-1.0\r\nx-amz-date: 20260101T000000Z\r\n\
         x-amz-target: DynamoDB_20120810.ListTables\r\n\
         authorization: AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0\r\n\
         \r\n{{}}"
    )
    .unwrap();
    let mut answer = String::new();
    server.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("TableNames"), "{answer}");
    answer
}
