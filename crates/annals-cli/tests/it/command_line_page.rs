//! `docs/command-line.md` is what `--help` prints.
//!
//! Guarantees: a new, changed or removed command or option fails the test, which says how to accept it.

use std::fmt::Write as _;
use std::path::Path;

use crate::run::Annals;

const BLESS: &str = "ANNALS_BLESS";
const GLOBAL: &str = "Global options";

/// The help of a command, without line breaks inside a paragraph.
fn help(annals: &Annals, path: &[String]) -> String {
    let mut args: Vec<&str> = path.iter().map(String::as_str).collect();
    args.push("--help");
    annals.run(&args).ok().out
}

/// A heading of the help and the lines below it. What precedes the first heading is under `""`.
fn sections(help: &str) -> Vec<(&str, Vec<&str>)> {
    let mut sections = vec![("", Vec::new())];
    for line in help.lines() {
        match line.strip_suffix(':') {
            Some(heading) if !line.starts_with(' ') => sections.push((heading, Vec::new())),
            _ => sections.last_mut().unwrap().1.push(line),
        }
    }
    sections
}

/// The entries of a list: a term, and its description, which may continue on indented lines.
fn entries(lines: &[&str]) -> Vec<(String, String)> {
    let mut entries: Vec<(String, String)> = Vec::new();
    for line in lines.iter().map(|line| line.trim_end()) {
        let indent = line.len() - line.trim_start().len();
        let text = line.trim_start();
        let is_term = indent == 2 || (indent == 6 && text.starts_with("--"));
        if is_term {
            let (term, about) = text.split_once("  ").unwrap_or((text, ""));
            entries.push((term.to_owned(), about.trim_start().to_owned()));
        } else if !text.is_empty() {
            let about = &mut entries.last_mut().unwrap().1;
            let gap = if about.is_empty() { "" } else { " " };
            write!(about, "{gap}{text}").unwrap();
        }
    }
    entries
}

/// Text as Markdown, in a cell of a table.
fn cell(text: &str) -> String {
    let mut cell = String::new();
    // What is in backquotes stays as it is.
    for (n, part) in text.split('`').enumerate() {
        if n > 0 {
            cell.push('`');
        }
        let part = part.replace('|', "\\|");
        cell += &match n % 2 {
            0 => part
                .replace('<', "&lt;")
                .replace('*', "\\*")
                .replace('_', "\\_"),
            _ => part,
        };
    }
    // Without values, which differ by machine.
    cell.replace("=]", "]")
}

fn table(page: &mut String, path: &[String], heading: &str, lines: &[&str]) {
    let generated = ["-h, --help", "-V, --version", "help"];
    let entries = entries(lines).into_iter();
    let entries: Vec<_> = entries
        .filter(|(term, _)| !generated.contains(&term.as_str()))
        .collect();
    if entries.is_empty() {
        return;
    }
    let kind = heading.trim_start_matches("Global ").trim_end_matches('s');
    let kind = format!("{}{}", kind[..1].to_uppercase(), &kind[1..]);
    writeln!(page, "| {kind} | Does |\n| --- | --- |").unwrap();
    for (term, about) in entries {
        let name = format!("`{}`", term.replace('|', "\\|"));
        let name = match heading {
            "Commands" => format!("[{name}](#annals-{})", [path, &[term]].concat().join("-")),
            _ => name,
        };
        writeln!(page, "| {name} | {} |", cell(&about)).unwrap();
    }
    page.push('\n');
}

/// The part of a command and of the commands below it.
fn describe(annals: &Annals, path: &[String], page: &mut String) {
    let help = help(annals, path);
    let level = "#".repeat(1 + path.len().max(1));
    if !path.is_empty() {
        writeln!(page, "{level} annals {}\n", path.join(" ")).unwrap();
    }
    let mut below = Vec::new();
    for (heading, lines) in sections(&help) {
        match heading {
            "" => {
                let usage = lines.iter().position(|line| line.starts_with("Usage: "));
                let (about, usage) = lines.split_at(usage.unwrap());
                if !path.is_empty() {
                    let about = cell(about.join("\n").trim()).replace("\\|", "|");
                    // clap leaves out the end of the summary; what follows it has its own.
                    let about = about.trim_end_matches('.').replacen("\n\n", ".\n\n", 1);
                    writeln!(page, "{about}.\n").unwrap();
                }
                let usage = usage.join("\n").replace("Usage: ", "");
                writeln!(page, "```text\n{}\n```\n", usage.trim_end()).unwrap();
            }
            "Commands" => {
                below = entries(&lines).into_iter().map(|(term, _)| term).collect();
                table(page, path, heading, &lines);
            }
            "Examples" => {
                let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
                let lines = lines.join("\n");
                writeln!(page, "```sh\n{}\n```\n", lines.trim()).unwrap();
            }
            GLOBAL if !path.is_empty() => {}
            // The page begins with them.
            "Exit codes" => {}
            GLOBAL => {
                writeln!(page, "## {GLOBAL}\n\nEvery command takes these.\n").unwrap();
                table(page, path, heading, &lines);
            }
            _ => {
                let is_list = lines
                    .iter()
                    .all(|line| line.is_empty() || line.starts_with("  "));
                assert!(
                    is_list,
                    "{path:?} has an unknown section: {heading}: {lines:?}"
                );
                table(page, path, heading, &lines);
            }
        }
    }
    for name in below.into_iter().filter(|name| name != "help") {
        describe(annals, &[path, &[name]].concat(), page);
    }
}

const BEGINNING: &str = "# Command line

<!-- Written by ANNALS_BLESS=1 cargo test -p annals-cli --test it command_line_page: do not edit. -->

`annals COMMAND --help` prints the same at a terminal, and `annals man` as manual pages. `annals completions SHELL` prints completions for bash, zsh, fish, elvish and PowerShell.

Output is for people at a terminal, and JSON lines when piped or with `--json`. Errors go to standard error.

| Exit code | Means | Do |
| --- | --- | --- |
| 0 | success | |
| 1 | not found | |
| 2 | invalid: the call, a setting or a table is wrong | fix it |
| 3 | conflict: someone wrote first | reload, decide again |
| 4 | unavailable: throttled, unreachable, disk full, or another process has the folder open and the command writes | the same call later |
| 5 | corrupt: stored bytes do not parse | stop; an operator must look |

";

#[test]
fn the_page_is_what_help_prints() {
    let annals = Annals::embedded().with_variable("COLUMNS", "10000");
    let mut page = BEGINNING.to_owned();
    describe(&annals, &[], &mut page);
    let page = format!("{}\n", page.trim_end());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/command-line.md");
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let accepted = std::fs::read_to_string(&file).unwrap_or_default();
    let is_in = |text: &str, line: &str| text.lines().any(|other| other == line);
    let removed = accepted.lines().filter(|line| !is_in(&page, line));
    let added = page.lines().filter(|line| !is_in(&accepted, line));
    let removed = removed.map(|line| format!("- {line}\n"));
    let changes: String = removed
        .chain(added.map(|line| format!("+ {line}\n")))
        .collect();
    assert!(
        accepted == page,
        "docs/command-line.md differs from --help:\n\n{changes}\nRun\n\
         {BLESS}=1 cargo test -p annals-cli --test it command_line_page"
    );
}
