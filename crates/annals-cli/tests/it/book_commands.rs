//! The `annals` commands in the shell blocks of the book (`docs`) are valid.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::run::Annals;

/// The commands of a line of shell, as words. Redirections are left out, and comments.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut parts, mut quote) = (vec![String::new()], None);
    let mut before = ' ';
    for c in line.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c == '#' && before.is_whitespace() => break,
            None if matches!(c, ';' | '|' | '&') => {
                parts.push(String::new());
                before = c;
                continue;
            }
            _ => {}
        }
        parts.last_mut().unwrap().push(c);
        before = c;
    }
    let split = |part: &String| {
        let mut words = shlex::split(part)
            .unwrap_or_else(|| panic!("{line}"))
            .into_iter();
        let mut kept = Vec::new();
        while let Some(word) = words.next() {
            match word.as_str() {
                "<" | ">" | ">>" => drop(words.next()),
                redirection if redirection.starts_with(['<', '>']) => {}
                _ => kept.push(word),
            }
        }
        kept
    };
    parts
        .iter()
        .map(split)
        .filter(|words| !words.is_empty())
        .collect()
}

#[test]
fn shell_lines_are_split_as_the_shell_does() {
    let words = |line: &str| {
        commands(line)
            .iter()
            .map(|it| it.join(" "))
            .collect::<Vec<_>>()
    };
    let line = "annals replay 'Cart|1' --json > out.txt | tail -1 # a; comment";
    assert_eq!(words(line), ["annals replay Cart|1 --json", "tail -1"]);
    let line = r#"annals append a '{"n":1}' <in; annals ids && annals log stats >>out"#;
    let want = [
        r#"annals append a {"n":1}"#,
        "annals ids",
        "annals log stats",
    ];
    assert_eq!(words(line), want);
    assert!(words("# only a comment").is_empty());
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Each command is run with `--help`: that checks its name, options and values, and does nothing.
#[test]
fn commands_in_the_book_are_valid() {
    let annals = Annals::embedded();
    let mut files = Vec::new();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    pages(&docs, &mut files);
    let (mut checked, mut failures) = (0, String::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let blocks = text.split("```sh\n").skip(1);
        let blocks = blocks.map(|rest| rest.split("\n```").next().unwrap());
        for line in blocks.flat_map(|block| {
            let joined = block.replace("\\\n", " ");
            joined.lines().map(str::to_owned).collect::<Vec<_>>()
        }) {
            for words in commands(&line) {
                let Some(("annals", words)) = words
                    .split_first()
                    .map(|(name, rest)| (name.as_str(), rest))
                else {
                    continue;
                };
                let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
                args.push("--help");
                let outcome = annals.run(&args);
                checked += 1;
                if outcome.code != Some(0) {
                    let name = file.file_name().unwrap().display();
                    writeln!(failures, "{name}: {line}\n  {}", outcome.err).unwrap();
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(checked > 50, "the commands are found: {checked}");
}
