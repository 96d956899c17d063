//! The book (`docs`): every page is in its summary, links stay inside it, and every Rust sample is
//! compiled. `scripts/book` builds it and checks anchors.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The pages with samples that are doc tests.
const TESTED: &str = include_str!("../../src/book.rs");

fn docs() -> PathBuf {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    docs.canonicalize().unwrap()
}

/// The pages below a folder, with their paths inside the book.
fn pages(folder: &Path) -> Vec<(String, String)> {
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages.append(&mut self::pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = std::fs::read_to_string(&path).unwrap();
            let path = path.strip_prefix(docs()).unwrap();
            pages.push((path.display().to_string(), text));
        }
    }
    pages
}

/// The targets of the links in a page, outside of code.
fn links(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    let prose = prose.flat_map(|part| part.split('`').step_by(2).collect::<Vec<_>>());
    // A link with code in its text begins in one part and ends in the next.
    let targets = prose.flat_map(|part| part.split("](").skip(1).collect::<Vec<_>>());
    targets.filter_map(|rest| rest.split(')').next()).collect()
}

/// A code block of a page.
#[derive(Debug)]
struct Block<'a> {
    /// The file in a comment before the block, `<!-- FILE:ANCHOR -->`, if it is a copy of one.
    source: Option<&'a str>,
    language: &'a str,
    code: &'a str,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let parts: Vec<&str> = text.split("\n```").collect();
    let blocks = parts.chunks_exact(2).filter_map(|pair| {
        let [before, block] = pair else { return None };
        let comment = before.lines().next_back().unwrap_or_default();
        let comment = comment.strip_prefix("<!-- ");
        let (language, code) = block.split_once('\n').unwrap_or((block, ""));
        Some(Block {
            source: comment.and_then(|rest| rest.strip_suffix(" -->")),
            language,
            code,
        })
    });
    blocks.collect()
}

/// Why a sample is not compiled, if it is not. `rs` is a copy of an example, `rust` a doc test.
/// (rustdoc does not know `rs`, and the book and GitHub highlight both.)
fn problem_of(page: &str, tested: &str, block: &Block<'_>) -> Option<&'static str> {
    if let Some(source) = block.source {
        let is_example = source.contains("/examples/");
        return match source_of(source) {
            None => Some("the file or the anchor is missing"),
            Some(_) if block.language == "rust" => Some("a copy is not a doc test; write `rs`"),
            Some(_) if block.language == "rs" && !is_example => {
                Some("copy an example, which cargo builds")
            }
            Some(code) if code != block.code => {
                Some("the copy differs; run ANNALS_BLESS=1 cargo test -p annals --test it book")
            }
            Some(_) => None,
        };
    }
    let mut attributes = block.language.split(',').map(str::trim);
    match attributes.next().unwrap_or_default() {
        "" => Some("a code block without a language"),
        "rs" => Some("`rs` is for copies of examples, with a comment before; write `rust`"),
        "rust" => {
            let is_tested = tested.contains(&format!("include_str!(\"../../../docs/{page}\")"));
            if attributes.any(|it| ["ignore", "compile_fail"].contains(&it)) {
                return Some("a sample that does not compile");
            }
            (!is_tested).then_some("add the page to crates/annals/src/book.rs")
        }
        _ => None,
    }
}

/// The text of a file of the repository, or of a part of it: `FILE` or `FILE:ANCHOR`.
fn source_of(source: &str) -> Option<String> {
    let (file, anchor) = match source.split_once(':') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (source, None),
    };
    let text = std::fs::read_to_string(docs().join("..").join(file)).ok()?;
    let mark = |mark: &str| anchor.map(|anchor| format!("// {mark}: {anchor}"));
    let (begin, end) = (mark("ANCHOR"), mark("ANCHOR_END"));
    let is = |line: &&str, mark: &Option<String>| mark.as_deref() == Some(line.trim());
    let lines: Vec<&str> = match anchor {
        None => text.lines().collect(),
        Some(_) => {
            let mut lines = text.lines().skip_while(|line| !is(line, &begin)).skip(1);
            let part = { &mut lines }.take_while(|line| !is(line, &end)).collect();
            // Without its end, the anchor would take the rest of the file.
            text.lines().find(|line| is(line, &end))?;
            part
        }
    };
    let lines = lines
        .into_iter()
        .filter(|it| !it.trim().starts_with("// ANCHOR"));
    let lines: Vec<&str> = lines.collect();
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let code = lines.iter().filter(|line| !line.trim().is_empty());
    let indent = code.map(indent).min()?;
    let lines = lines
        .iter()
        .map(|line| line.get(indent..).unwrap_or_default());
    Some(lines.collect::<Vec<_>>().join("\n").trim_end().to_owned())
}

#[test]
fn every_rust_sample_is_compiled() {
    let is_blessing = std::env::var_os("ANNALS_BLESS").is_some();
    let mut found = Vec::new();
    for (page, mut text) in pages(&docs()) {
        if is_blessing {
            text = blessed(&text);
            std::fs::write(docs().join(&page), &text).unwrap();
        }
        for block in blocks(&text) {
            if let Some(problem) = problem_of(&page, TESTED, &block) {
                found.push(format!("{page}: {problem}:\n{block:?}"));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The page with its copies as the files are now.
fn blessed(text: &str) -> String {
    let mut blessed = text.to_owned();
    for block in blocks(text) {
        if let Some((source, code)) = block.source.and_then(|it| Some((it, source_of(it)?))) {
            let head = format!("<!-- {source} -->\n```{}\n", block.language);
            let end = if block.code.is_empty() { "\n" } else { "" };
            let before = format!("{head}{}", block.code);
            blessed = blessed.replace(&before, &format!("{head}{code}{end}"));
        }
    }
    blessed
}

#[test]
fn each_rule_about_samples_detects_its_violation() {
    let tested = "include_str!(\"../../../docs/tested.md\")";
    let check = |page: &str, text: &str, want: &str| {
        let text = format!("prose\n\n{text}\n```\n");
        let all = blocks(&text);
        assert_eq!(all.len(), 1, "{text}");
        let found = problem_of(page, tested, &all[0]).unwrap_or_default();
        assert_eq!(found.is_empty(), want.is_empty(), "{text}: {found}");
        assert!(found.contains(want), "{text}: {found}");
    };
    check("tested.md", "```rust\nlet x = 1;", "");
    check("tested.md", "```rust,no_run\nlet x = 1;", "");
    check(
        "tested.md",
        "```rust,ignore\nlet x = 1;",
        "does not compile",
    );
    check("tested.md", "```rs\nlet x = 1;", "write `rust`");
    check("other.md", "```rust\nlet x = 1;", "add the page");
    check("other.md", "```text\nlet x = 1;", "");
    check("other.md", "```\nlet x = 1;", "without a language");
    let open = "crates/annals-cli/examples/shop_dynamodb/main.rs:open";
    let code = source_of(open).unwrap();
    let copy = |source: &str, language: &str| format!("<!-- {source} -->\n```{language}\n{code}");
    check("other.md", &copy(open, "rs"), "");
    let empty = format!("<!-- {open} -->\n```rs");
    check("other.md", &empty, "the copy differs");
    let filled = format!("{}\n```\n", copy(open, "rs"));
    assert_eq!(blessed(&format!("{empty}\n```\n")), filled);
    check(
        "other.md",
        &format!("{}\n// more", copy(open, "rs")),
        "the copy differs",
    );
    check("other.md", &copy(open, "rust"), "write `rs`");
    check("other.md", &copy("crates/none.rs", "rs"), "is missing");
    check("other.md", &copy(&format!("{open}s"), "rs"), "is missing");
    check("other.md", &copy("Cargo.toml", "rs"), "copy an example");
}

#[test]
fn every_page_is_in_the_summary() {
    let pages: BTreeSet<String> = pages(&docs()).into_iter().map(|(page, _)| page).collect();
    let summary = std::fs::read_to_string(docs().join("SUMMARY.md")).unwrap();
    let listed: Vec<&str> = summary.split("](").skip(1).collect();
    let listed = listed
        .iter()
        .map(|rest| rest.split(')').next().unwrap().to_owned());
    let listed: BTreeSet<String> = listed.chain(["SUMMARY.md".to_owned()]).collect();
    assert_eq!(pages, listed);
}

/// The book has only the pages in `docs`. Name other files of the repository in code font.
#[test]
fn links_lead_to_pages_of_the_book() {
    let mut found = Vec::new();
    for (page, text) in pages(&docs()) {
        for to in links(&text) {
            if to.starts_with("https://") || to.starts_with('#') {
                continue;
            }
            let file = to.split('#').next().unwrap();
            let path = docs().join(&page).parent().unwrap().join(file);
            let is_page = path
                .canonicalize()
                .is_ok_and(|path| path.starts_with(docs()));
            if !is_page || !file.ends_with(".md") {
                found.push(format!("{page}: {to}"));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
