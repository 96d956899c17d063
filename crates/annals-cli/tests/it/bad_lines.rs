//! Invalid lines are reported by number and cause, and the lines before them are imported.

use serde_json::json;

use crate::run::{Annals, Outcome, on_every_own_store, on_every_store};

fn item(n: u64, bytes: usize) -> String {
    let text = "x".repeat(bytes);
    format!(
        "{}\n",
        json!({"Item": {"p": {"S": "a"}, "n": {"N": n.to_string()}, "v": {"S": text}}})
    )
}

/// Imports two good lines, an empty one, the bad one and another good one, both ways.
#[track_caller]
fn check(annals: &Annals, bad: impl AsRef<[u8]>, because: &str) {
    for how in [&[][..], &["--replace"]] {
        for tables in [&["create"][..], &["drop", "--yes"], &["create"]] {
            annals.run(&[&["tables"], tables].concat()).ok();
        }
        let before = format!("{}{}\n", item(1, 10), item(2, 10));
        let input = [
            before.as_bytes(),
            bad.as_ref(),
            b"\n",
            item(3, 10).as_bytes(),
        ]
        .concat();
        let outcome = annals.run_with(&[&["import", "annals-journal"], how].concat(), input);
        check_outcome(outcome, because);
        let there = annals.run(&["export", "annals-journal"]).ok().json();
        assert_eq!(
            there.len(),
            2,
            "the good ones are there, the bad one is not"
        );
    }
}

#[track_caller]
fn check_outcome(outcome: Outcome, because: &str) {
    let outcome = outcome.fails(2, "line=`4`");
    let mut lines = outcome.err.lines();
    assert!(lines.next().unwrap().ends_with("line=`4`"), "{outcome:?}");
    assert!(lines.next().unwrap().contains(because), "{outcome:?}");
    let want = json!({"table": "annals-journal", "imported": 2, "unchanged": 0, "differing": 0});
    assert_eq!(outcome.json(), [want], "the summary is printed");
}

#[test]
fn a_line_that_is_not_an_item() {
    on_every_store(|annals| {
        check(annals, "not json", "line is not JSON");
        check(annals, "{\"item\":{}}", "line has no \"Item\"");
        check(
            annals,
            "{\"Item\":{\"p\":{\"S\":1}}}",
            "attribute is not DynamoDB JSON. attribute=`p`",
        );
    });
}

#[test]
fn an_item_that_does_not_fit_the_table() {
    on_every_store(|annals| {
        check(
            annals,
            item(4, 409_600).trim(),
            "item is larger than the limit of 409600 bytes",
        );
        check(
            annals,
            "{\"Item\":{\"p\":{\"S\":\"a\"}}}",
            "item lacks a key attribute",
        );
        check(
            annals,
            "{\"Item\":{\"p\":{\"S\":\"a\"},\"n\":{\"S\":\"1\"}}}",
            "attribute=`n`",
        );
    });
}

#[test]
fn a_line_that_is_not_utf_8() {
    on_every_store(|annals| {
        check(
            annals,
            b"{\"Item\":{\"p\":{\"S\":\"\xff\"}}}",
            "must be JSON lines in UTF-8",
        );
    });
}

#[test]
fn a_line_that_does_not_end() {
    on_every_store(|annals| {
        check(
            annals,
            "x".repeat(4 * 1024 * 1024 + 1),
            "line is longer than any item is as JSON",
        );
    });
}

/// Zeros have no line end; reading them is bounded.
#[test]
fn an_input_without_end() {
    let annals = Annals::embedded();
    annals.run(&["tables", "create"]).ok();
    let outcome = annals.run(&["import", "annals-journal", "/dev/zero"]);
    let outcome = outcome.fails(2, "line=`1`");
    assert!(outcome.err.contains("longer than any item"), "{outcome:?}");
}

/// Nor have blanks, which are not parsed.
#[test]
fn blanks_without_end() {
    let annals = Annals::embedded();
    annals.run(&["tables", "create"]).ok();
    let blanks = " ".repeat(9 * 1024 * 1024);
    let outcome = annals.run_with(&["import", "annals-journal"], blanks);
    let outcome = outcome.fails(2, "line=`1`");
    assert!(outcome.err.contains("longer than any item"), "{outcome:?}");
}

/// A list of empty strings is the longest JSON for its size.
#[test]
fn accepts_the_longest_line_of_an_item() {
    let annals = Annals::embedded();
    annals.run(&["tables", "create"]).ok();
    let texts = vec![json!({"S": ""}); 409_600 - 10];
    let line = json!({"Item": {"p": {"S": "a"}, "n": {"N": "1"}, "v": {"L": texts}}});
    let line = format!("{line}\n");
    assert!(line.len() > 3_600_000);
    annals.run_with(&["import", "annals-journal"], line).ok();
}

/// Otherwise a table with the wrong key would be left, and in the way of the right one.
#[test]
fn a_key_that_the_first_item_lacks_creates_no_table() {
    on_every_store(|annals| {
        let import = |key| annals.run_with(&["import", "copied", "--key", key], item(1, 10));
        import("x:S").fails(2, "line is not an item for this table");
        annals.run(&["export", "copied"]).fails(2, "");
        import("p:S,n:N").ok();
        assert_eq!(annals.run(&["export", "copied"]).ok().json().len(), 1);
    });
}

#[test]
fn a_key_that_differs_from_the_table() {
    on_every_own_store(|annals| {
        annals.run(&["tables", "create"]).ok();
        let import =
            |key| annals.run_with(&["import", "annals-journal", "--key", key], item(1, 10));
        for key in ["p:S", "p:S,n:S", "n:N,p:S"] {
            let outcome = import(key).fails(2, "table exists with another key");
            assert!(outcome.err.contains("its key=`p S, n N`"), "{outcome:?}");
            assert_eq!(outcome.out, "");
        }
        assert_eq!(annals.run(&["export", "annals-journal"]).ok().out, "");
        import("p:S,n:N").ok();
    });
}
