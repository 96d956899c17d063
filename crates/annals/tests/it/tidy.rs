//! Checks the house rules in every Rust file of the workspace.

use std::path::{Path, PathBuf};

const LINES_MAX: usize = 600;
const BANNED_NAMES: [&str; 4] = ["utils.rs", "helpers.rs", "common.rs", "misc.rs"];

/// Written so that this file does not contain what it bans.
const BANNED_CALLS: [&str; 3] = [
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
];
const BANNED_HOSTS: [&str; 6] = [
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("repo1.maven", ".org"),
    concat!("registry.npmjs", ".org"),
    concat!("pypi", ".org"),
    concat!("art", "ifactory"),
];

/// Path prefixes that only one crate may use, and that crate.
const FENCED: [(&str, &str); 5] = [
    (concat!("aws", "_"), "annals-aws"),
    (concat!("cl", "ap"), "annals-cli"),
    (concat!("ax", "um"), "annals-cli"),
    (concat!("ho", "con"), "annals-jvm"),
    (concat!("sql", "x"), "annals-sql"),
];

/// Crates in which every public type needs an example.
const SHOWN: [&str; 4] = [
    "annals/src",
    "annals-aws/src",
    "annals-jvm/src",
    "annals-sql/src",
];
const TYPES: [&str; 4] = ["pub struct ", "pub enum ", "pub trait ", "pub type "];

/// The violations in a file, a line each. `path` is relative to `crates`.
fn problems(path: &Path, source: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut report = |problem: String| problems.push(format!("{}: {problem}", path.display()));
    let name = path.file_name().unwrap().to_str().unwrap();
    if BANNED_NAMES.contains(&name) {
        report("name a file after what it holds".to_owned());
    }
    let lines = source.lines().count();
    // A placeholder of one line is empty.
    if lines > 1 && !source.starts_with("//! ") {
        report("a file begins with `//!` and what it holds".to_owned());
    }
    if lines > LINES_MAX {
        report(format!("{lines} lines; {LINES_MAX} are the most"));
    }
    let home = path.iter().next().unwrap().to_str().unwrap();
    for (n, line) in (1..).zip(source.lines()) {
        for call in BANNED_CALLS.iter().filter(|call| line.contains(**call)) {
            report(format!("line {n}: `{call}` is not for keeps"));
        }
        for host in BANNED_HOSTS.iter().filter(|host| line.contains(**host)) {
            report(format!("line {n}: names the package registry `{host}`"));
        }
        for (prefix, only) in FENCED.iter().filter(|(_, only)| *only != home) {
            if names_crate(line, prefix) {
                report(format!("line {n}: `{prefix}` belongs in {only}"));
            }
        }
    }
    for n in facts_in_messages(source) {
        report(format!(
            "line {n}: add facts with `.fact`, not in the message"
        ));
    }
    if SHOWN.iter().any(|folder| path.starts_with(folder)) {
        for (n, line) in types_without_example(source) {
            report(format!("line {n}: shows no example: `{line}`"));
        }
    }
    problems
}

/// The lines of errors with facts in the text of their message.
fn facts_in_messages(source: &str) -> Vec<usize> {
    let kinds = ["conflict", "unavailable", "invalid", "corrupt"];
    let calls = kinds.map(|kind| format!("Error::{kind}("));
    let starts = calls
        .iter()
        .flat_map(|call| source.match_indices(call))
        .map(|(at, call)| at + call.len());
    let with_facts = starts.filter(|at| {
        let argument = source[*at..].trim_start();
        let text = argument.strip_prefix("format!(").unwrap_or(argument);
        let text = text.trim_start().strip_prefix('"').unwrap_or_default();
        let end = text
            .match_indices('"')
            .map(|(end, _)| end)
            .find(|end| !text[..*end].ends_with('\\'));
        text[..end.unwrap_or(0)].contains("=`")
    });
    with_facts
        .map(|at| 1 + source[..at].matches('\n').count())
        .collect()
}

/// The public types whose documentation has neither an example nor a reference to one. Types that are
/// hidden from the documentation need none. Types that a macro makes are not checked.
fn types_without_example(source: &str) -> Vec<(usize, &str)> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_type = |line: &str| {
        let name = TYPES.iter().find_map(|begin| line.strip_prefix(begin));
        name.is_some_and(|name| !name.starts_with('$'))
    };
    // Documentation and attributes, which may have several lines.
    let is_above = |line: &str| {
        line.starts_with("//") || !(line.is_empty() || line.ends_with([';', '{', '}']))
    };
    let types = (0..lines.len()).filter(|at| is_type(lines[*at]));
    let bare = types.filter(|at| {
        let start = lines[..*at].iter().rposition(|line| !is_above(line));
        let above = &lines[start.map_or(0, |start| start + 1)..*at];
        let words = above.iter().filter_map(|line| line.strip_prefix("///"));
        let text: Vec<&str> = words.map(str::trim).collect();
        let has_example = text.iter().any(|line| line.starts_with("```"))
            || text.join(" ").contains("for an example");
        !has_example && !above.contains(&"#[doc(hidden)]")
    });
    bare.map(|at| (at + 1, lines[at])).collect()
}

/// Whether a line of code names a crate with this prefix, in a `use` or before `::`. A field like
/// `settings.aws_client` does not count, nor does a comment.
fn names_crate(line: &str, prefix: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(prefix).any(|(at, _)| {
        let before = &code[..at];
        let rest = &code[at..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let is_whole = prefix.ends_with('_') || rest[..end] == *prefix;
        let begins_word = !before.ends_with(is_word);
        let is_path = rest[end..].starts_with("::") || before.trim_end().ends_with("use");
        is_whole && begins_word && is_path
    })
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                rust_files(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_file_keeps_the_house_rules() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    rust_files(crates, &mut files);
    assert!(files.len() > 20, "the files are found: {files:?}");
    let all = files.iter().flat_map(|file| {
        let source = std::fs::read_to_string(file).unwrap();
        problems(file.strip_prefix(crates).unwrap(), &source)
    });
    let all: Vec<String> = all.collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[track_caller]
fn check(path: &str, body: &str, want: &str) {
    let source = format!("//! A file.\n\n{body}\n");
    let found = problems(Path::new(path), &source).join("\n");
    if want.is_empty() {
        assert_eq!(found, "", "{body}");
    } else {
        assert!(found.contains(want), "{body}: {found:?}");
    }
}

#[test]
fn each_rule_detects_its_violation() {
    let file = "annals/src/some.rs";
    check(file, "fn some() {}", "");
    for name in BANNED_NAMES {
        check(&format!("annals/src/{name}"), "", "after what it holds");
    }
    check(file, &"// line\n".repeat(LINES_MAX), "600 are the most");
    for call in BANNED_CALLS {
        check(file, &format!("    {call});"), "not for keeps");
    }
    for host in BANNED_HOSTS {
        check(
            file,
            &format!("// see https://{host}/x"),
            "package registry",
        );
    }
    for message in [
        "\"no such index. index=`x`\"",
        "format!(\"say \\\"a\\\". index=`{x}`\")",
    ] {
        check(
            file,
            &format!("    Err({}::invalid(\n{message}))", "Error"),
            "with `.fact`",
        );
    }
    let bare = problems(Path::new(file), "\nfn some() {}\n").join("\n");
    assert!(bare.contains("begins with `//!`"), "{bare}");
}

#[test]
fn restricted_crates_are_named_only_in_their_crate() {
    for (prefix, home) in FENCED {
        let name = match prefix {
            "aws_" => "aws_sdk_dynamodb",
            whole => whole,
        };
        for code in [
            format!("use {name}::Client;"),
            format!("    use {name};"),
            format!("let client = {name}::Client::new();"),
            format!("fn f(x: &{name}::X) {{}}"),
        ] {
            check("annals/src/some.rs", &code, "belongs in");
            check(&format!("{home}/src/some.rs"), &code, "");
        }
        for code in [
            format!("let x = settings.{prefix}config;"),
            format!("// {name}::Client is not named here"),
            format!("let my_{name} = my_{name}::x();"),
        ] {
            check("annals/src/some.rs", &code, "");
        }
    }
}

#[test]
fn public_types_come_with_an_example() {
    let shown = "/// Some.\n///\n/// ```\n/// assert!(true);\n/// ```\n";
    for kind in TYPES {
        for (above, want) in [
            ("", "shows no example"),
            ("/// Some.\n", "shows no example"),
            ("/// Some.\n#[derive(Debug)]\n", "shows no example"),
            ("// ```\n", "shows no example"),
            (
                &format!("{shown}pub struct Other;\n/// Some.\n"),
                "shows no example",
            ),
            (&format!("{shown}\n/// Some.\n"), "shows no example"),
            (shown, ""),
            (
                &format!("{shown}#[error(\n    \"wrong\"\n)]\n#[derive(Debug)]\n"),
                "",
            ),
            ("/// Some. See [`Other`] for an example.\n", ""),
            ("/// Some. See [`Other`] for an\n/// example.\n", ""),
            ("/// Some.\n#[doc(hidden)]\n", ""),
        ] {
            let body = format!("{above}{kind}Some;");
            check("annals/src/some.rs", &body, want);
            check("annals-aws/src/deep/some.rs", &body, want);
            check("annals-cli/src/some.rs", &body, "");
            check("annals/tests/it/some.rs", &body, "");
        }
        let private = kind.replace("pub ", "pub(crate) ");
        check("annals/src/some.rs", &format!("{private}Some;"), "");
        check("annals/src/some.rs", &format!("{kind}$name;"), "");
    }
}
