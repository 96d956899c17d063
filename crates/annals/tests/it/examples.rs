//! Runs the examples and checks what they print.

use std::path::Path;

use crate::example_run::{example, printed};

#[test]
fn the_bank_continues_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let run = || {
        let mut bank = example("bank");
        bank.current_dir(folder.path());
        printed(bank)
    };
    assert_eq!(run(), "10, then 6\ninsufficient funds. balance=`6`\n");
    assert_eq!(run(), "16, then 12\ninsufficient funds. balance=`12`\n");
    let source = include_str!("../../examples/bank.rs");
    assert!(source.lines().count() <= 75);
}

#[test]
fn the_account_of_the_readme_continues_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let run = || {
        let mut account = example("account");
        account.current_dir(folder.path());
        printed(account)
    };
    assert_eq!(run(), "alice has 10\n");
    assert_eq!(run(), "alice has 20\n");
    let source = include_str!("../../examples/account.rs");
    let (_, shown) = source.split_once("\n\n").unwrap();
    assert!(include_str!("../../../../README.md").contains(shown));
}

#[test]
fn a_cart_is_filled_and_checked_out() {
    let want = "1 item\n2 items\nbought: a book, a lamp\nthe cart is empty\n";
    assert_eq!(printed(example("durable_state")), want);
}

#[test]
fn events_of_earlier_releases_are_read() {
    let history = printed(example("evolution"));
    assert!(history.starts_with("sent to Oslo\nweighs 2000 g\n"));
    assert!(history.ends_with("sent to Kiel, express\nCustomsNoted, as text\n"));
}

#[test]
fn a_custom_codec_compresses() {
    let printed = printed(example("custom_codec"));
    assert!(printed.starts_with("json: 15 bytes\njson+deflate: "));
}

#[test]
fn a_repeated_request_reserves_once() {
    let want = "200 seat 1\n200 already reserved\n200 seat 2\n422 all 2 seats are taken\n\
                400 the body is not a request\n";
    assert_eq!(printed(example("lambda")), want);
}

/// An example that no test runs would break unnoticed.
#[test]
fn every_example_is_run() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut missing = Vec::new();
    for package in std::fs::read_dir(crates).unwrap() {
        let package = package.unwrap().path();
        let tests = package.join("tests/it/examples.rs");
        let tests = std::fs::read_to_string(tests).unwrap_or_default();
        for file in std::fs::read_dir(package.join("examples"))
            .into_iter()
            .flatten()
        {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            // An example of several files is a folder.
            let main = match path.is_dir() {
                true => path.join("main.rs"),
                false => path.clone(),
            };
            let source = std::fs::read_to_string(main).unwrap();
            let package = package.file_name().unwrap().to_str().unwrap();
            let has_command = source.contains(&format!("cargo run -p {package} "))
                && source.contains(&format!("--example {name}`"));
            if !tests.contains(&format!("example(\"{name}\")")) || !has_command {
                missing.push(path.display().to_string());
            }
        }
    }
    assert!(
        missing.is_empty(),
        "no test runs these, or they do not say how to: {missing:?}"
    );
}
