//! A running program of `interop/`: one line per request, one per response.
//!
//! One process per plugin serves all tests, one at a time; it ends with its input. Starting it builds it
//! if necessary.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value as Json, json};

/// The plugins with a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plugin {
    Pekko,
    Akka,
    J5ik2o,
}

impl Plugin {
    /// The name of its folder.
    fn name(self) -> &'static str {
        match self {
            Self::Pekko => "pekko",
            Self::Akka => "akka",
            Self::J5ik2o => "j5ik2o",
        }
    }
}

static RUNNING: [Mutex<Option<Jvm>>; 3] = [const { Mutex::new(None) }; 3];

/// A running program.
#[derive(Debug)]
pub(super) struct Jvm {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// Exclusive use of the program of a plugin.
pub(super) struct Session {
    running: MutexGuard<'static, Option<Jvm>>,
    plugin: Plugin,
}

impl Session {
    /// Starts the program if it is not running yet.
    pub(super) fn of(plugin: Plugin, endpoint: &str) -> Self {
        // A failed test has read its responses, so the next one can continue.
        let running = RUNNING[plugin as usize].lock();
        let mut running = running.unwrap_or_else(PoisonError::into_inner);
        running.get_or_insert_with(|| Jvm::start(plugin.name(), endpoint));
        Self { running, plugin }
    }

    pub(super) fn plugin(&self) -> &'static str {
        self.plugin.name()
    }

    /// The response to a request, which must succeed.
    #[track_caller]
    pub(super) fn ask(&mut self, request: Json) -> Json {
        let answer = self.running.as_mut().unwrap().ask(&request);
        assert_eq!(answer["ok"], json!(true), "{request} was answered {answer}");
        answer
    }
}

impl Jvm {
    fn start(plugin: &str, endpoint: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut run = Command::new(root.join("interop").join(plugin).join("run"));
        run.arg(endpoint)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = run.spawn().expect("interop/ has a program for each plugin");
        Self {
            requests: process.stdin.take().unwrap(),
            answers: BufReader::new(process.stdout.take().unwrap()),
            process,
        }
    }

    /// The program responds to every request, if necessary after its own timeout.
    fn ask(&mut self, request: &Json) -> Json {
        let said = writeln!(self.requests, "{request}");
        let mut answer = String::new();
        let heard = said.and_then(|()| self.answers.read_line(&mut answer));
        match heard {
            Ok(bytes) if bytes > 0 => serde_json::from_str(&answer).unwrap(),
            ended => {
                let status = self.process.wait();
                panic!("the JVM is gone, its reason is above: {status:?} {ended:?}")
            }
        }
    }
}
