//! A server, and a client that sends exactly what a test says: bytes over a socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value as Json;

use crate::run::Annals;

/// Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Chunks that a tail reads for one event; those without one are heartbeats, every 15 s.
const HEARTBEATS_MAX: usize = 8;

pub(crate) const JSON: (&str, &str) = ("content-type", "application/json");

/// The binary, serving.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(annals: &Annals) -> Self {
        Self::start_with(annals, &[], None)
    }

    /// With these flags, and this token in the environment.
    pub(crate) fn start_with(annals: &Annals, flags: &[&str], token: Option<&str>) -> Self {
        let environment: Vec<_> = token.iter().map(|it| ("ANNALS_TOKEN", *it)).collect();
        Self::start_in(annals, flags, &environment)
    }

    /// With these flags, in this environment.
    pub(crate) fn start_in(annals: &Annals, flags: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::of(command(annals, flags, environment))
    }

    /// With these flags and this token; also returns its standard error after it has ended.
    pub(crate) fn start_logging(
        annals: &Annals,
        flags: &[&str],
        token: &str,
    ) -> (Self, JoinHandle<String>) {
        let mut command = command(annals, flags, &[("ANNALS_TOKEN", token)]);
        command.stderr(Stdio::piped());
        let mut server = Self::of(command);
        let mut told = server.child.stderr.take().unwrap();
        let reading = std::thread::spawn(move || {
            let mut text = String::new();
            told.read_to_string(&mut text).unwrap();
            text
        });
        (server, reading)
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let told: Json = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let address = told["listening"].as_str().unwrap();
        Self {
            child,
            address: address.strip_prefix("http://").unwrap().to_owned(),
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(&self.address)
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.send_body((method, path), headers, b"")
    }

    pub(crate) fn send_body(
        &self,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        let mut stream = self.connect();
        write_request(&mut stream, (method, path), headers, body);
        Reply::read(&mut BufReader::new(stream), method)
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[])
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Reply {
        self.send_body(("POST", path), &[JSON], body.as_bytes())
    }

    pub(crate) fn put(&self, path: &str, body: &str) -> Reply {
        self.send_body(("PUT", path), &[JSON], body.as_bytes())
    }

    pub(crate) fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, &[])
    }

    /// Shuts it down and waits; returns its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.terminate();
        self.child.wait().unwrap().code()
    }

    pub(crate) fn terminate(&self) {
        let pid = rustix::process::Pid::from_raw(self.pid()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Kills it.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn command(annals: &Annals, flags: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut args = vec!["serve", "--listen", "127.0.0.1:0"];
    if !flags.contains(&"--log") {
        args.extend(["--log", "warn"]);
    }
    args.extend(flags);
    let mut command = annals.binary(&args);
    // The environment may have its own collector.
    command.env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
    command.envs(environment.iter().copied());
    command
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

pub(crate) fn write_request(
    stream: &mut TcpStream,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &[u8],
) {
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        head.push_str("host: localhost\r\n");
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    // A server that rejects the request early may close the connection while this is sent.
    let _ = stream.write_all(&bytes);
}

/// A response of the server.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// Reads one response. Panics if the connection closes inside it.
    pub(crate) fn read(stream: &mut impl BufRead, method: &str) -> Self {
        Self::try_read(stream, method).unwrap()
    }

    pub(crate) fn try_read(stream: &mut impl BufRead, method: &str) -> std::io::Result<Self> {
        let mut reply = Self::read_head(stream)?;
        if let Some(length) = reply.header("content-length") {
            let length = if method == "HEAD" {
                0
            } else {
                length.parse().unwrap()
            };
            reply.body = vec![0; length];
            stream.read_exact(&mut reply.body)?;
        } else if reply.header("transfer-encoding").is_some() {
            while let Some(chunk) = read_chunk(stream)? {
                reply.body.extend(chunk);
            }
        }
        Ok(reply)
    }

    pub(crate) fn read_head(stream: &mut impl BufRead) -> std::io::Result<Self> {
        let line = read_line(stream)?;
        let status = line.split(' ').nth(1).and_then(|it| it.parse().ok());
        let mut headers = Vec::new();
        loop {
            let line = read_line(stream)?;
            let Some((name, value)) = line.split_once(": ") else {
                break;
            };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        Ok(Self {
            status: status.unwrap_or_else(|| panic!("no status: {line:?}")),
            headers,
            body: Vec::new(),
        })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(known, _)| known == name);
        header.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The body as JSON, of this status.
    #[track_caller]
    pub(crate) fn json(&self, status: u16) -> Json {
        assert_eq!(self.status, status, "{}", self.text());
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The body as JSON lines, of status 200.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Json> {
        assert_eq!(self.status, 200, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/x-ndjson"));
        let lines = self.text().lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// A problem of this status and kind.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, kind: &str) -> Json {
        let problem = self.json(status);
        let media = self.header("content-type");
        assert_eq!(media, Some("application/problem+json"), "{problem}");
        assert_eq!(problem["kind"], kind, "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        problem
    }
}

fn read_line(stream: &mut impl BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

/// The next chunk of a body; `None` at its regular end.
pub(crate) fn read_chunk(stream: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let size = usize::from_str_radix(&read_line(stream)?, 16).unwrap();
    let mut chunk = vec![0; size + 2];
    stream.read_exact(&mut chunk)?;
    chunk.truncate(size);
    Ok((size > 0).then_some(chunk))
}

/// A live tail.
pub(crate) struct Tail {
    stream: BufReader<TcpStream>,
    pending: String,
}

impl Tail {
    pub(crate) fn begin(server: &Server, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut stream = server.connect();
        let mut all = vec![("accept", "text/event-stream")];
        all.extend(headers);
        write_request(&mut stream, ("GET", path), &all, b"");
        let mut stream = BufReader::new(stream);
        let head = Reply::read_head(&mut stream).unwrap();
        assert_eq!(head.status, 200);
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        Self {
            stream,
            pending: String::new(),
        }
    }

    /// The number that is the id of the next event, and its data; `None` at the regular end of the
    /// stream.
    pub(crate) fn next(&mut self) -> Option<(u64, Json)> {
        let (id, data) = self.next_text()?;
        Some((id.parse().unwrap(), data))
    }

    /// The id and data of the next event.
    pub(crate) fn next_text(&mut self) -> Option<(String, Json)> {
        // Heartbeats keep the connection open: without a limit, a missing event would never fail a test.
        for _ in 0..HEARTBEATS_MAX {
            while let Some((block, rest)) = self.pending.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.pending = rest;
                if let Some((id, data)) = block.split_once('\n') {
                    let id = id.strip_prefix("id: ").unwrap().to_owned();
                    let data = data.strip_prefix("data: ").unwrap();
                    return Some((id, serde_json::from_str(data).unwrap()));
                }
            }
            let chunk = read_chunk(&mut self.stream).unwrap()?;
            self.pending.push_str(std::str::from_utf8(&chunk).unwrap());
        }
        panic!("no event came, only heartbeats or a part of one")
    }

    pub(crate) fn hang_up(self) {
        self.stream.get_ref().shutdown(Shutdown::Both).unwrap();
    }
}

/// What is left to read on a connection, until the server closes it.
pub(crate) fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset ends the connection too.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
