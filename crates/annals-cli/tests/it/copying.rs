//! `annals export` and `annals import`.

use serde_json::json;

use crate::run::{Annals, dynamodb, on_every_own_store, on_every_store};

/// Lines of items with every type of value.
fn lines(from: u64, to: u64) -> String {
    let line = |n: u64| {
        json!({"Item": {
            "p": {"S": "cart-1"},
            "n": {"N": n.to_string()},
            "text": {"S": "é \"quoted\"\n"},
            "bytes": {"B": "AAH/"},
            "flag": {"BOOL": n.is_multiple_of(2)},
            "nothing": {"NULL": true},
            "list": {"L": [{"N": "-1.5"}, {"M": {"deep": {"S": ""}}}]},
            "texts": {"SS": ["a", "b"]},
            "numbers": {"NS": ["1", "2.5"]},
            "blobs": {"BS": ["AA==", "AQ=="]},
        }})
    };
    (from..to).map(|n| format!("{}\n", line(n))).collect()
}

fn sorted(text: &str) -> Vec<serde_json::Value> {
    let mut lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    lines.sort_by_key(|line| {
        line["Item"]["n"]["N"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    });
    lines
}

#[track_caller]
fn check_import(annals: &Annals, args: &[&str], input: &str, want: [u64; 3]) {
    let outcome = annals.run_with(&[&["import", "annals-journal"], args].concat(), input);
    let [imported, unchanged, differing] = want;
    let want = json!({
        "table": "annals-journal",
        "imported": imported,
        "unchanged": unchanged,
        "differing": differing,
    });
    assert_eq!(outcome.json(), [want], "{outcome:?}");
    assert_eq!(
        outcome.code,
        Some(if differing == 0 { 0 } else { 3 }),
        "{outcome:?}"
    );
}

#[test]
fn an_export_equals_the_import() {
    on_every_own_store(|annals| {
        annals.run(&["tables", "create"]).ok();
        check_import(annals, &[], &lines(0, 60), [60, 0, 0]);
        for segments in ["1", "4", "9"] {
            let outcome = annals
                .run(&["export", "annals-journal", "--segments", segments])
                .ok();
            assert_eq!(sorted(&outcome.out), sorted(&lines(0, 60)));
        }
    });
}

#[test]
fn an_export_of_many_pages_is_complete() {
    on_every_own_store(|annals| {
        annals.run(&["tables", "create"]).ok();
        let large = "x".repeat(300_000);
        let line = |n: u64| json!({"Item": {"p": {"S": "cart-1"}, "n": {"N": n.to_string()}, "v": {"S": large}}});
        let input: String = (0..12).map(|n| format!("{}\n", line(n))).collect();
        annals.write("large.jsonl", &input);
        check_import(annals, &["large.jsonl"], "", [12, 0, 0]);
        let outcome = annals.run(&["export", "annals-journal"]).ok();
        assert_eq!(sorted(&outcome.out), sorted(&input));
    });
}

#[test]
fn an_import_overwrites_nothing_without_replace() {
    on_every_own_store(|annals| {
        annals.run(&["tables", "create"]).ok();
        let one = |note: &str| {
            format!(
                "{}\n",
                json!({"Item": {"p": {"S": "a"}, "n": {"N": "1"}, "note": {"S": note}}})
            )
        };
        check_import(annals, &[], &one("first"), [1, 0, 0]);
        check_import(annals, &[], &one("first"), [0, 1, 0]);
        check_import(annals, &[], &one("second"), [0, 0, 1]);
        let outcome = annals.run_with(&["import", "annals-journal"], one("second"));
        let outcome = outcome.fails(3, "use --replace to overwrite them");
        assert!(outcome.err.contains("`a, 1`"), "{outcome:?}");
        assert_eq!(
            annals.run(&["export", "annals-journal"]).ok().out,
            one_sorted(&one("first"))
        );
        check_import(annals, &["--replace"], &one("second"), [1, 0, 0]);
        // Of two lines for one key the later one stays.
        let both = one("third") + &one("fourth");
        check_import(annals, &["--replace"], &both, [2, 0, 0]);
        assert_eq!(
            annals.run(&["export", "annals-journal"]).ok().out,
            one_sorted(&one("fourth"))
        );
    });
}

/// The line with its attributes in name order, as an export prints them.
fn one_sorted(line: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(line).unwrap();
    let item = &json["Item"];
    let item = json!({"n": item["n"], "note": item["note"], "p": item["p"]});
    format!("{}\n", json!({"Item": item}))
}

#[test]
fn moves_a_table_from_dynamodb_to_a_folder_and_back() {
    let (here, there) = (Annals::embedded(), Annals::at(&dynamodb()));
    there.run(&["tables", "create", "--layout", "akka"]).ok();
    let row =
        json!({"Item": {"par": {"S": "journal-P-a-0"}, "num": {"N": "1"}, "event": {"B": "AQ=="}}});
    let row = format!("{row}\n");
    there.run_with(&["import", "akka-persistence"], &row).ok();
    let exported = there.run(&["export", "akka-persistence"]).ok().out;
    let args = ["import", "akka-persistence", "--key", "par:S,num:N"];
    here.run_with(&args, &exported).ok();
    let back = here.run(&["export", "akka-persistence"]).ok().out;
    assert_eq!(back, exported);
    here.run(&[
        "tables",
        "check",
        "--layout",
        "akka",
        "--snapshot-table",
        "akka-persistence",
    ])
    .fails(2, "two tables have the same name");
}

#[test]
fn costs_are_the_same_on_every_store() {
    on_every_store(|annals| {
        annals.run(&["tables", "create"]).ok();
        let outcome = annals
            .run_with(&["import", "annals-journal", "--cost"], lines(0, 10))
            .ok();
        // One request to learn the table's key, then one for each item.
        let want = json!({"cost": {"requests": 11, "write_units": 10, "read_units": 0}});
        assert_eq!(outcome.json().last(), Some(&want));
        let args = ["export", "annals-journal", "--segments", "1", "--cost"];
        let outcome = annals.run(&args).ok();
        let want = json!({"cost": {"requests": 2, "write_units": 0, "read_units": 1}});
        assert_eq!(outcome.json().last(), Some(&want));
    });
}

#[test]
fn a_closed_pipe_ends_an_export_quietly() {
    let annals = Annals::embedded();
    annals.run(&["tables", "create"]).ok();
    check_import(&annals, &[], &lines(0, 2_000), [2_000, 0, 0]);
    let mut command = annals.command("sh".as_ref());
    let script = format!(
        "{} export annals-journal | head -1",
        env!("CARGO_BIN_EXE_annals")
    );
    command.args(["-c", &script]);
    let outcome = crate::run::finish(command, "").ok();
    assert_eq!(outcome.out.lines().count(), 1);
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn a_short_export_at_a_terminal_shows_no_progress() {
    let annals = Annals::embedded();
    annals.run(&["tables", "create"]).ok();
    check_import(&annals, &[], &lines(0, 500), [500, 0, 0]);
    let outcome = annals.run_at_terminal(&["export", "annals-journal"], "");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let parts: Vec<_> = outcome.out.split("{\"Item\"").collect();
    assert_eq!(parts.len(), 501);
    for before in parts.iter().rev().skip(1) {
        assert!(before.is_empty() || before.ends_with('\n'), "{before:?}");
    }
    // It takes milliseconds, so there is no progress to show.
    assert!(!outcome.out.contains("items exported"), "{outcome:?}");
}

#[test]
fn an_export_with_its_cost_can_be_imported() {
    let (from, to) = (Annals::embedded(), Annals::embedded());
    from.run(&["append", "a", "1"]).ok();
    let items = from.run(&["export", "annals-journal", "--cost"]).ok().out;
    assert!(
        items.lines().last().unwrap().starts_with("{\"cost\""),
        "{items}"
    );
    to.run(&["tables", "create"]).ok();
    to.run_with(&["import", "annals-journal"], items).ok();
    assert_eq!(to.run(&["replay", "a"]).ok().json().len(), 1);
}
