//! The Japanese README matches the English one: the same commands, sections, tables and links.

use std::collections::BTreeSet;

const ENGLISH: &str = include_str!("../../../../README.md");
const JAPANESE: &str = include_str!("../../../../README.ja.md");

/// The fenced blocks, in order.
fn blocks(text: &str) -> Vec<&str> {
    text.split("```").skip(1).step_by(2).collect()
}

fn headings(text: &str) -> Vec<usize> {
    let lines = text.split("```").step_by(2).flat_map(str::lines);
    let headings = lines.filter(|line| line.starts_with('#'));
    headings
        .map(|line| line.bytes().take_while(|byte| *byte == b'#').count())
        .collect()
}

/// The targets of links, except for those between the two.
fn links(text: &str) -> BTreeSet<&str> {
    let links = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    links.filter(|to| !to.starts_with("README")).collect()
}

/// The numbers in each row of the tables, in any order: a translation may move them.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().filter(|line| line.starts_with('|'));
    let numbers = rows.map(|row| {
        let words = row.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
        let words = words.map(|word| word.trim_matches(['.', ',']));
        let mut numbers: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        numbers.sort_unstable();
        numbers
    });
    numbers.collect()
}

fn bullets(text: &str) -> usize {
    text.lines().filter(|line| line.starts_with("- ")).count()
}

#[test]
fn the_japanese_readme_matches() {
    assert_eq!(blocks(ENGLISH), blocks(JAPANESE), "commands and code");
    assert_eq!(headings(ENGLISH), headings(JAPANESE), "parts");
    assert_eq!(links(ENGLISH), links(JAPANESE), "links");
    assert_eq!(rows(ENGLISH), rows(JAPANESE), "numbers in tables");
    assert_eq!(bullets(ENGLISH), bullets(JAPANESE), "items of lists");
}

#[test]
fn link_targets_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for to in links(ENGLISH).into_iter().filter(|to| !to.contains("://")) {
        assert!(root.join(to).exists(), "{to}");
    }
}
