//! Runs the binary in a folder of its own, on one store, without the settings of this machine.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use annals::Random;
use serde_json::Value as Json;
use tempfile::TempDir;

use crate::serve_client::Server;

const ENDPOINT: &str = "ANNALS_TEST_DYNAMODB";

/// The output and exit code of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Outcome {
    /// Standard output as JSON lines.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<Json> {
        let lines = self.out.lines().map(serde_json::from_str);
        lines
            .collect::<Result<_, _>>()
            .unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Asserts success without output on standard error.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        assert_eq!(self.errors().next(), None, "{self:?}");
        self
    }

    /// Standard error, without the notice that a busy machine causes: a slow answer.
    fn errors(&self) -> impl Iterator<Item = &str> {
        let lines = self.err.lines();
        lines.filter(|line| !line.contains("WARN DynamoDB does not answer"))
    }

    /// Asserts success with this text in the first line on standard error.
    #[track_caller]
    pub(crate) fn warns(self, says: &str) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        let first = self.errors().next().unwrap_or_default();
        assert!(first.contains(says), "{self:?}");
        self
    }

    /// Asserts failure with this code and this text in the first line of the error.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, says: &str) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        let first = self.errors().next().unwrap_or_default();
        assert!(first.contains(says), "{self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        self
    }
}

/// A JSON value of 700 KB: too large for an argument, and for an item even compressed.
pub(crate) fn large_json() -> String {
    let (random, letters) = (
        Random::seeded(1),
        ('0'..='9').chain('A'..='Z').chain('a'..='z'),
    );
    let letters: Vec<char> = letters.collect();
    let letter = |_| letters[random.below(letters.len() as u64) as usize];
    format!("\"{}\"", (0..700_000).map(letter).collect::<String>())
}

/// The binary on one store.
pub(crate) struct Annals {
    folder: TempDir,
    store: Vec<String>,
    access_key: String,
    variables: Vec<(&'static str, &'static str)>,
    server: Option<Server>,
}

impl Annals {
    /// On the embedded store, in a folder of its own.
    pub(crate) fn embedded() -> Self {
        Self::with(Vec::new())
    }

    /// On the embedded store of a running server, with these flags in every run.
    pub(crate) fn served(flags: &[&str]) -> Self {
        let mut annals = Self::embedded().with_flags(flags);
        let server = Server::start_with(&annals, &["--no-sweep"], None);
        let address = format!("http://{}", server.address);
        annals.store.extend(["--server".to_owned(), address]);
        annals.server = Some(server);
        annals
    }

    /// The server that every run uses, if there is one.
    pub(crate) fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// On DynamoDB at this endpoint.
    pub(crate) fn at(endpoint: &str) -> Self {
        let store = [
            "--dynamodb",
            "--endpoint",
            endpoint,
            "--region",
            "eu-west-1",
        ];
        let annals = Self::with(store.map(str::to_owned).to_vec());
        // For busy machines; no test waits for these limits.
        let patient = "request-timeout = 60000\nclient-execution-timeout = 180000\n";
        annals.write("annals.toml", &format!("[aws-client-config]\n{patient}"));
        annals
    }

    pub(crate) fn is_dynamodb(&self) -> bool {
        self.store.iter().any(|flag| flag == "--dynamodb")
    }

    fn with(store: Vec<String>) -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            store,
            // DynamoDB Local has a database per access key, so tests do not interfere.
            access_key: format!("key{:016x}", Random::from_machine().bits()),
            variables: Vec::new(),
            server: None,
        }
    }

    /// Adds flags to every run.
    pub(crate) fn with_flags(mut self, flags: &[&str]) -> Self {
        self.store
            .extend(flags.iter().map(|flag| (*flag).to_owned()));
        self
    }

    /// Sets a variable for every run.
    pub(crate) fn with_variable(mut self, name: &'static str, value: &'static str) -> Self {
        self.variables.push((name, value));
        self
    }

    pub(crate) fn with_access_key(mut self, key: &str) -> Self {
        self.access_key = key.to_owned();
        self
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into the folder the binary runs in.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// The flags of every run.
    pub(crate) fn store_args(&self) -> &[String] {
        &self.store
    }

    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        self.run_with(args, "")
    }

    pub(crate) fn run_with(&self, args: &[&str], input: impl AsRef<[u8]>) -> Outcome {
        finish(self.binary(args), input)
    }

    /// The command of the binary on the store.
    pub(crate) fn binary(&self, args: &[&str]) -> Command {
        let mut command = self.command(Path::new(env!("CARGO_BIN_EXE_annals")));
        command.args(&self.store).args(args);
        command
    }

    /// Runs the binary at a terminal, which shows both outputs and the input. Needs the `script` of
    /// util-linux: tests that call this are ignored elsewhere.
    pub(crate) fn run_at_terminal(&self, args: &[&str], typed: &str) -> Outcome {
        let mut line = vec![env!("CARGO_BIN_EXE_annals").to_owned()];
        line.extend(self.store.iter().cloned());
        line.extend(args.iter().map(|arg| (*arg).to_owned()));
        let mut command = self.command(Path::new("script"));
        command.env("TERM", "xterm");
        command.args(["--quiet", "--return", "--command", &line.join(" ")]);
        command.arg("/dev/null");
        finish(command, typed)
    }

    /// The access key; DynamoDB Local has a database per access key.
    pub(crate) fn access_key(&self) -> &str {
        &self.access_key
    }

    /// The command of a program, in the folder and environment of the binary.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars() {
            if name.starts_with("AWS_") || name.starts_with("ANNALS_") {
                command.env_remove(name);
            }
        }
        command
            .current_dir(self.folder.path())
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_CONFIG_FILE", "/dev/null")
            .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
            .env_remove("NO_COLOR")
            .envs(self.variables.iter().copied());
        if !self.access_key.is_empty() {
            command.env("AWS_ACCESS_KEY_ID", &self.access_key);
            command.env("AWS_SECRET_ACCESS_KEY", "secret");
        }
        command
    }
}

/// Runs the command to its end, feeding it the input.
pub(crate) fn finish(mut command: Command, input: impl AsRef<[u8]>) -> Outcome {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.as_ref().to_owned();
    // From a thread, for a child that prints before it has read everything; one that ends early may
    // close the pipe.
    let feeding = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    output.into()
}

impl From<std::process::Output> for Outcome {
    fn from(output: std::process::Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The endpoint of the DynamoDB server that was named, or of an emulator in this process.
pub(crate) fn dynamodb() -> String {
    if let Ok(endpoint) = std::env::var(ENDPOINT) {
        return endpoint;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let database = dynoxide::Database::memory().unwrap();
            dynoxide::server::serve_on(listener, database).await;
        });
    });
    format!("http://{address}")
}

/// Runs a scenario on every store, and through a server.
pub(crate) fn on_every_store(scenario: impl Fn(&Annals)) {
    on_every_store_with(&[], scenario);
}

/// Runs a scenario on every store and through a server, with these flags in every run.
pub(crate) fn on_every_store_with(flags: &[&str], scenario: impl Fn(&Annals)) {
    on_every_own_store_with(flags, &scenario);
    scenario(&Annals::served(flags));
}

/// Runs a scenario on every store, without a server, which would create missing tables.
pub(crate) fn on_every_own_store(scenario: impl Fn(&Annals)) {
    on_every_own_store_with(&[], scenario);
}

pub(crate) fn on_every_own_store_with(flags: &[&str], scenario: impl Fn(&Annals)) {
    scenario(&Annals::embedded().with_flags(flags));
    scenario(&Annals::at(&dynamodb()).with_flags(flags));
}
