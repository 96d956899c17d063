//! The commands in `docs/moving-from-akka.md` work as printed.

use std::path::Path;

use crate::run::{Annals, Outcome, dynamodb, finish};

const PAGE: &str = include_str!("../../../../docs/moving-from-akka.md");

/// A configuration as in the plugin's documentation, with other table names than the defaults.
const CONFIGURATION: &str = "
akka.persistence.journal.plugin = \"my-dynamodb-journal\"
akka.persistence.snapshot-store.plugin = \"my-dynamodb-snapshot-store\"

my-dynamodb-journal = ${dynamodb-journal}
my-dynamodb-journal {
  journal-table = \"old\"
  journal-name = \"journal\"
}

my-dynamodb-snapshot-store = ${dynamodb-snapshot-store}
my-dynamodb-snapshot-store {
  snapshot-table = \"old-snapshot\"
}
";

/// The commands under a heading.
fn commands(heading: &str) -> &'static str {
    let section = PAGE.split("\n## ").find(|it| it.starts_with(heading));
    let section = section.unwrap_or_else(|| panic!("no heading begins with {heading}"));
    let (_, block) = section.split_once("```sh\n").unwrap();
    block.split_once("```").unwrap().0
}

/// Runs them on one store.
fn run(annals: &Annals, script: &str) -> Outcome {
    let at = annals.store_args().join(" ");
    let script = script.replace("--dynamodb", &at);
    let binary = Path::new(env!("CARGO_BIN_EXE_annals")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = annals.command("sh".as_ref());
    command.env("PATH", format!("{}:{path}", binary.display()));
    command.args(["-e", "-c", &script]);
    finish(command, "")
}

#[test]
fn the_commands_of_the_page_work_as_printed() {
    let annals = Annals::at(&dynamodb());
    annals.write("application.conf", CONFIGURATION);
    let imported = run(&annals, commands("1."));
    assert_eq!(imported.code, Some(0), "{imported:?}");
    let settings = std::fs::read_to_string(annals.folder().join("annals.toml")).unwrap();
    assert!(settings.contains("layout = \"akka\""), "{settings}");
    assert!(settings.contains("journal-table = \"old\""), "{settings}");
    // Data of the JVM.
    annals.run(&["tables", "create"]).ok();
    annals.run(&["append", "Account|42", "1", "2"]).ok();
    annals
        .run(&["snapshot", "save", "Account|42", "--at", "2", "3"])
        .ok();

    let looked = run(&annals, commands("2."));
    assert_eq!(looked.code, Some(0), "{looked:?}");
    let moved = run(&annals, commands("6."));
    assert_eq!((moved.code, moved.err.as_str()), (Some(0), ""), "{moved:?}");
    let new = |args: &[&str]| annals.run(&[&["--config", "new.toml"], args].concat());
    let replayed = new(&["replay", "Account|42"]).ok();
    assert_eq!(replayed.json().len(), 2, "{replayed:?}");
    assert_eq!(new(&["snapshot", "list", "Account|42"]).json().len(), 1);
    new(&["verify"]).ok();
    // The old tables are unchanged.
    assert_eq!(annals.run(&["replay", "Account|42"]).ok().json().len(), 2);
}
