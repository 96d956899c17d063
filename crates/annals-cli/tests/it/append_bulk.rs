//! `annals append --bulk`.

use serde_json::{Value as Json, json};

use crate::run::{Annals, on_every_store_with};

const LINES: &str = r#"{"persistence_id":"Cart|1","expect":0,"events":[{"payload":1},{"payload":2}]}
{"persistence_id":"Cart|2","events":[{"payload":"x","manifest":"M"}],"idempotency_key":"k"}

{"persistence_id":"Cart|1","expect":2,"events":[{"payload":3}]}
{"persistence_id":"Cart|2","events":[{"payload":"x","manifest":"M"}],"idempotency_key":"k"}
"#;
const CONFLICT: &str = r#"{"persistence_id":"Cart|1","expect":0,"events":[{"payload":9}]}"#;

fn numbers(lines: &[Json]) -> Vec<u64> {
    let number = |line: &Json| line["sequence_number"].as_u64().unwrap();
    lines.iter().map(number).collect()
}

#[test]
fn lines_are_appended_on_every_store_and_layout() {
    for layout in ["annals", "akka", "j5ik2o"] {
        on_every_store_with(&["--layout", layout], |annals| {
            annals.run(&["tables", "create"]).ok();
            let results = annals.run_with(&["append", "--bulk"], LINES).ok().json();
            assert_eq!(numbers(&results), [2, 1, 3, 1], "{layout}");
            assert_eq!(results[0]["first_sequence_number"], 1);
            assert_eq!(results[1]["persistence_id"], "Cart|2");
            assert!(results.iter().all(|line| line["status"] == 201));
            let stored = annals.run(&["replay", "Cart|1"]).ok().json();
            let payloads: Vec<_> = stored.iter().map(|it| &it["payload"]).collect();
            assert_eq!(payloads, [&json!(1), &json!(2), &json!(3)]);
            assert_eq!(annals.run(&["replay", "Cart|2"]).ok().json().len(), 1);
        });
    }
}

#[test]
fn the_exit_code_is_that_of_the_worst_line() {
    let annals = Annals::embedded();
    let run = |lines: &[&str]| {
        let outcome = annals.run_with(&["append", "--bulk", "-"], lines.join("\n"));
        let results = outcome.json();
        assert_eq!(results.len(), lines.len(), "{outcome:?}");
        let statuses: Vec<_> = results.iter().map(|it| it["status"].clone()).collect();
        (outcome.code, json!(statuses))
    };
    let good = r#"{"persistence_id":"Cart|1","events":[{"payload":9}]}"#;
    assert_eq!(run(&[good]), (Some(0), json!([201])));
    assert_eq!(run(&[CONFLICT, good]), (Some(3), json!([409, 201])));
    let worst = run(&[CONFLICT, "no JSON", good, CONFLICT]);
    assert_eq!(worst, (Some(2), json!([409, 400, 201, 409])));
    assert_eq!(
        annals.run(&["highest", "Cart|1"]).ok().json()[0]["sequence_number"],
        3
    );
}

#[test]
fn errors_name_their_line() {
    let good = r#"{"persistence_id":"Cart|1","events":[{"payload":9}]}"#;
    let text = [good, "", "no JSON", good, CONFLICT, good].join("\n");
    on_every_store_with(&[], |annals| {
        annals.run(&["tables", "create"]).ok();
        let results = annals.run_with(&["append", "--bulk"], &text).json();
        assert_eq!(results.len(), 5, "one for each line that is not empty");
        let lines: Vec<_> = results.iter().map(|it| &it["facts"]["line"]).collect();
        let none = &Json::Null;
        assert_eq!(lines, [none, &json!("3"), none, &json!("5"), none]);
        let detail = |at: usize| results[at]["detail"].as_str().unwrap().to_owned();
        assert!(detail(1).ends_with(". line=`3`"), "{}", detail(1));
        assert!(detail(3).ends_with(", line=`5`"), "{}", detail(3));
    });
}

#[test]
fn files_are_read_in_order() {
    let annals = Annals::embedded();
    let line = |n: u64| {
        format!("{{\"persistence_id\":\"a\",\"expect\":{n},\"events\":[{{\"payload\":1}}]}}")
    };
    annals.write("one", &line(0));
    annals.write("three", &line(2));
    let args = ["append", "--cost", "--bulk", "one", "-", "three"];
    let results = annals.run_with(&args, line(1)).ok().json();
    assert_eq!(numbers(&results[..3]), [1, 2, 3]);
    assert!(results[3]["cost"]["requests"].as_u64().unwrap() >= 3);
    // Nothing is written where a file is missing.
    let missing = annals.run(&["append", "--bulk", "one", "none"]);
    missing.fails(2, "cannot read the file of appends");
    assert_eq!(
        annals.run(&["highest", "a"]).ok().json()[0]["sequence_number"],
        3
    );
}

#[test]
fn a_line_that_is_too_long_ends_the_input_after_the_lines_before_it() {
    let annals = Annals::embedded();
    let good = r#"{"persistence_id":"a","events":[{"payload":1}]}"#;
    let long = format!("{good}\n{}\n{good}", "x".repeat(9 * 1024 * 1024));
    let outcome = annals.run_with(&["append", "--bulk"], long);
    assert_eq!(numbers(&outcome.json()), [1]);
    outcome.fails(2, "line is too long");
}

#[test]
fn a_bulk_names_its_ids_in_its_lines() {
    let annals = Annals::embedded();
    for wrong in [
        &["append", "Cart|1", "--bulk"][..],
        &["append", "--bulk", "-", "--expect", "1"],
        &["append", "--bulk", "-", "--manifest", "M"],
        &["append"],
    ] {
        let outcome = annals.run_with(wrong, LINES);
        assert_eq!(outcome.code, Some(2), "{wrong:?}: {outcome:?}");
        assert_eq!(outcome.out, "", "{wrong:?}");
    }
    assert!(!annals.folder().join("annals-data").exists());
}
