//! The shell lines of the README run in order, in one folder, and exit as their comments say.
//!
//! Each line is run by `sh`. A line exits with 0, unless its comment has `exit code N`. Differences from
//! what a reader does:
//!
//! - `annals` and `cargo run --release --` are the binary of this build.
//! - `annals serve` listens on a free port and `kill $!` stops it; calls to the README's port go there.
//! - DynamoDB is the emulator in this process, or the server that `ANNALS_TEST_DYNAMODB` names.
//! - The lines in [`NOT_RUN`] build, test or measure this repository.

use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;

use crate::run::{Annals, Outcome, dynamodb, finish};
use crate::serve_client::Server;
use crate::trial::trial;

const README: &str = include_str!("../../../../README.md");

/// Lines that other tests cover (`crates/annals/tests/it/examples.rs` runs the program), without their
/// comments.
const NOT_RUN: [&str; 8] = [
    "cargo new bank",
    "cd bank",
    "cd ../annals",
    "cargo add annals --path ../annals/crates/annals",
    "cargo add serde thiserror tokio -F serde/derive,tokio/macros,tokio/rt-multi-thread",
    "cargo install --locked --path crates/annals-cli",
    "cargo test --workspace",
    "scripts/figures",
];
const RUN: &str = "cargo run --release -- ";
const ADDRESS: &str = "127.0.0.1:7070";
const ENDPOINT: &str = "http://127.0.0.1:8000";
const ACCESS_KEY: &str = "AWS_ACCESS_KEY_ID=local";

pub(crate) fn tests() -> [Trial; 3] {
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    let missing = (!has_curl).then(|| "curl is not installed".to_owned());
    [
        trial("shell_lines_of_the_readme_run", None, || {
            run_lines(lines().filter(|line| line.kind() != Kind::Curl));
        }),
        trial("curl_lines_of_the_readme_run", missing, || {
            run_lines(lines());
        }),
        trial("the_readme_names_the_oldest_rust", None, check_rust_version),
    ]
}

/// A line of a shell block.
#[derive(Clone, Copy, Debug)]
struct Line(&'static str);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    NotRun,
    /// Sets variables for the lines after it.
    Export,
    /// Starts a server.
    Serve,
    /// Stops it.
    Stop,
    Curl,
    Other,
}

impl Line {
    fn command(self) -> &'static str {
        let (command, _) = self.0.split_once(" # ").unwrap_or((self.0, ""));
        command.trim_end()
    }

    fn exit_code(self) -> i32 {
        let (_, comment) = self.0.split_once(" # ").unwrap_or((self.0, ""));
        let Some((_, code)) = comment.split_once("exit code ") else {
            return 0;
        };
        let digits: String = code.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap()
    }

    fn kind(self) -> Kind {
        let command = self.command();
        if NOT_RUN.contains(&command) {
            return Kind::NotRun;
        }
        match command {
            "annals serve &" => Kind::Serve,
            "kill $!" => Kind::Stop,
            _ if command.starts_with("export ") => Kind::Export,
            _ if command.starts_with("curl ") => Kind::Curl,
            _ => Kind::Other,
        }
    }
}

/// The lines of all shell blocks.
fn lines() -> impl Iterator<Item = Line> {
    let blocks = README.split("```sh\n").skip(1);
    let lines = blocks.flat_map(|rest| rest.split("```").next().unwrap().lines());
    lines.filter(|line| !line.is_empty()).map(Line)
}

/// The folder, the server and the variables that the lines share.
struct Session {
    annals: Annals,
    endpoint: String,
    server: Option<Server>,
    exports: String,
}

fn run_lines(lines: impl Iterator<Item = Line>) {
    let annals = Annals::embedded();
    // For busy machines; no line waits for these limits.
    let patient = "request-timeout = 60000\nclient-execution-timeout = 180000\n";
    annals.write("annals.toml", &format!("[aws-client-config]\n{patient}"));
    let mut session = Session {
        annals,
        endpoint: dynamodb(),
        server: None,
        exports: String::new(),
    };
    let lines: Vec<Line> = lines.collect();
    for line in &lines {
        session.run(*line);
    }
    assert!(session.server.is_none(), "the README stops its server");
    for skipped in NOT_RUN {
        let is_used = lines.iter().any(|line| line.command() == skipped);
        assert!(is_used, "not in the README: {skipped}");
    }
    for used in ["--server", "--dynamodb", "--layout akka", "exit code", RUN] {
        let is_used = lines.iter().any(|line| line.0.contains(used));
        assert!(is_used, "no line has {used}");
    }
}

impl Session {
    fn run(&mut self, line: Line) {
        match line.kind() {
            Kind::NotRun => {}
            Kind::Export => {
                self.exports.push_str(&self.adapt(line.command()));
                self.exports.push('\n');
            }
            Kind::Serve => self.server = Some(Server::start(&self.annals)),
            Kind::Stop => {
                let server = self.server.take().unwrap();
                assert_eq!(server.stop(), Some(0), "{line:?}");
            }
            Kind::Curl => {
                let outcome = self.shell(line);
                assert!(!outcome.out.is_empty(), "{line:?}");
                let is_problem = outcome.out.contains("urn:annals:problem");
                assert!(!is_problem, "{line:?}: {outcome:?}");
            }
            Kind::Other => {
                let outcome = self.shell(line);
                assert!(!outcome.err.contains("panicked"), "{line:?}: {outcome:?}");
            }
        }
    }

    fn shell(&self, line: Line) -> Outcome {
        let script = format!("{}{}", self.exports, self.adapt(line.command()));
        let binary = Path::new(env!("CARGO_BIN_EXE_annals")).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = self.annals.command("sh".as_ref());
        command.env("PATH", format!("{}:{path}", binary.display()));
        command.args(["-e", "-c", &script]);
        let outcome = finish(command, "");
        assert_eq!(
            outcome.code,
            Some(line.exit_code()),
            "{line:?}: {outcome:?}"
        );
        outcome
    }

    /// The command with the addresses and the access key of this test.
    fn adapt(&self, command: &str) -> String {
        let command = match command.strip_prefix(RUN) {
            Some(args) => format!("annals {args}"),
            None => command.to_owned(),
        };
        let key = format!("AWS_ACCESS_KEY_ID={}", self.annals.access_key());
        let command = command.replace(ENDPOINT, &self.endpoint);
        let command = command.replace(ACCESS_KEY, &key);
        match &self.server {
            Some(server) => command.replace(ADDRESS, &server.address),
            None => command,
        }
    }
}

/// The versions in the manifests of the library and of the crate with the AWS SDK.
fn check_rust_version() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for manifest in ["Cargo.toml", "crates/annals-aws/Cargo.toml"] {
        let text = std::fs::read_to_string(root.join(manifest)).unwrap();
        let version = text
            .lines()
            .find_map(|line| line.strip_prefix("rust-version = "));
        let Some(version) = version else {
            continue;
        };
        let named = format!("Rust {}", version.trim_matches('"'));
        assert!(README.contains(&named), "{manifest}: {named}");
    }
}
