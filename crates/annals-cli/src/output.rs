//! Output: text at a terminal, JSON lines otherwise.
//!
//! Promises: standard output has results only; errors go to standard error, one cause a line; a
//! closed pipe ends the command quietly.

use std::error::Error as _;
use std::fmt::Display;
use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use annals::items::Cost;
use annals::{Error, ErrorKind, Result};
use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::args::Global;
use crate::wire;

/// How results are printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
    json_asked: bool,
    cost: bool,
}

impl Output {
    pub(crate) fn new(global: &Global) -> Self {
        Self {
            json: global.json || !io::stdout().is_terminal(),
            json_asked: global.json,
            cost: global.cost,
        }
    }

    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// The same for people, also in a pipe.
    pub(crate) fn for_people(self) -> Self {
        Self {
            json: false,
            ..self
        }
    }

    /// Whether text has colours: at a terminal, unless `NO_COLOR` is set.
    pub(crate) fn is_coloured(self) -> bool {
        is_coloured(&io::stdout())
    }

    /// Whether `--json` was given, for output that is not a stream of results.
    pub(crate) fn is_json_asked(self) -> bool {
        self.json_asked
    }

    /// One result: the object as a JSON line, or the text for people.
    pub(crate) fn line(self, object: &impl Serialize, text: &str) -> Result<()> {
        if self.json {
            print_line(&wire::line(object))
        } else {
            print_line(text)
        }
    }

    /// A summary for people, beside the results.
    pub(crate) fn note(self, text: &str) {
        if !self.json {
            eprintln!("{text}");
        }
    }

    /// The cost, with `--cost`.
    pub(crate) fn cost(self, cost: Cost) -> Result<()> {
        if !self.cost {
            return Ok(());
        }
        let (requests, write, read) = (cost.requests, cost.write_units, cost.read_units());
        let object = json!({"cost": {
            "requests": requests,
            "write_units": write,
            "read_units": whole_or_half(cost),
        }});
        let counts = [
            counted(requests, "request"),
            counted(write, "write unit"),
            counted(read, "read unit"),
        ];
        self.line(&object, &format!("cost: {}", counts.join(", ")))
    }
}

/// A number with its noun, in the plural unless it is one.
pub(crate) fn counted(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    match count.as_str() {
        "1" => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// Read units come in halves; a whole number of them is printed as one.
fn whole_or_half(cost: Cost) -> Json {
    if cost.read_half_units.is_multiple_of(2) {
        json!(cost.read_half_units / 2)
    } else {
        json!(cost.read_units())
    }
}

/// Whether an output shows colours: at a terminal, unless `NO_COLOR` is set.
pub(crate) fn is_coloured(output: &impl RawStream) -> bool {
    AutoStream::choice(output) != ColorChoice::Never
}

/// Prints a line; exits quietly where the pipe is closed.
pub(crate) fn print_line(line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    printed(writeln!(out, "{line}"))
}

/// Prints lines, each with its end; exits quietly where the pipe is closed.
pub(crate) fn print_lines(lines: &[u8]) -> Result<()> {
    printed(io::stdout().lock().write_all(lines))
}

fn printed(written: io::Result<()>) -> Result<()> {
    written.or_else(|cause| match cause.kind() {
        io::ErrorKind::BrokenPipe => std::process::exit(0),
        io::ErrorKind::StorageFull => Err(Error::unavailable(
            "the disk the output goes to is full; free space",
        )
        .because(cause)),
        _ => Err(Error::invalid("cannot write the output").because(cause)),
    })
}

/// Whether there is a person to ask.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a person, who must type yes.
pub(crate) fn ask(question: &str) -> Result<bool> {
    let failed = |cause| Error::invalid("cannot ask at the terminal; use --yes").because(cause);
    let mut err = io::stderr().lock();
    write!(err, "{question} [y/N] ").map_err(failed)?;
    err.flush().map_err(failed)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// A note, on standard error.
pub(crate) fn print_note(note: &str) {
    // Nowhere is left to report that standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{note}");
}

/// Prints advice for a person; scripts get none.
pub(crate) fn print_advice(advice: &str) {
    if io::stderr().is_terminal() {
        print_note(&format!("annals: {advice}"));
    }
}

/// The error on one line, its causes on one each.
pub(crate) fn print_error(error: &Error) {
    let mut err = io::stderr().lock();
    // Nowhere is left to report that standard error is closed.
    let _ = writeln!(err, "annals: {error}");
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string().replace('\n', " ");
        let _ = writeln!(err, "  because: {text}");
        cause = inner.source();
    }
}

/// The exit codes, for the manual and the help.
pub(crate) const EXIT_CODES: [(&str, &str); 8] = [
    ("0", "Success."),
    (
        "1",
        "Not found: such as an id, a snapshot, a value or a table.",
    ),
    (
        "2",
        "Invalid: the call, a setting or a table is wrong. Nothing was written.",
    ),
    ("3", "Conflict: another writer was first."),
    (
        "4",
        "Unavailable: the store cannot be reached, is busy, or another process has it open and the command writes. Try again later; a write may have succeeded.",
    ),
    ("5", "Corrupt: stored data is damaged."),
    ("130", "Interrupted (SIGINT)."),
    ("143", "Terminated (SIGTERM)."),
];

/// The exit code for an error of this kind.
pub(crate) fn exit_code(kind: ErrorKind) -> ExitCode {
    ExitCode::from(match kind {
        ErrorKind::Invalid => 2,
        ErrorKind::Conflict => 3,
        ErrorKind::Unavailable => 4,
        // A kind that is new to this binary is treated like the worst.
        _ => 5,
    })
}

/// The exit code where something is absent.
pub(crate) const ABSENT: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_not_plural() {
        assert_eq!(counted(1, "event"), "1 event");
        assert_eq!(counted(1.0, "read unit"), "1 read unit");
        assert_eq!(counted(0, "id"), "0 ids");
        assert_eq!(counted(0.5, "read unit"), "0.5 read units");
        assert_eq!(counted(21, "dead letter"), "21 dead letters");
    }
}
