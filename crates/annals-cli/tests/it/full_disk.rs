//! A full disk: told in a line, exit code 4, nothing acknowledged lost, and it goes on afterwards.

use std::path::Path;

use serde_json::json;

use crate::run::{Annals, finish};

fn items(from: u64, to: u64) -> String {
    let line = |n: u64| {
        let noise = format!("{:016x}", annals::Random::seeded(n).bits()).repeat(60);
        json!({"Item": {"p": {"S": "a"}, "n": {"N": n.to_string()}, "v": {"S": noise}}})
    };
    (from..to).map(|n| format!("{}\n", line(n))).collect()
}

#[test]
fn a_disk_without_the_reserve_refuses_and_goes_on_once_there_is_room() {
    let annals = Annals::embedded();
    annals.run(&["tables", "create"]).ok();
    annals
        .run_with(&["import", "annals-journal"], items(0, 10))
        .ok();
    // More than any disk has free.
    annals.write(
        "full.toml",
        &format!("[embedded]\nreserve-mib = {}\n", u32::MAX),
    );
    let args = ["--config", "full.toml", "import", "annals-journal"];
    let outcome = annals.run_with(&args, items(10, 20));
    outcome.fails(
        4,
        "the disk is full; free space or lower embedded.reserve-mib",
    );
    assert_eq!(
        annals.run(&["export", "annals-journal"]).ok().json().len(),
        10
    );
    annals
        .run_with(&["import", "annals-journal"], items(0, 20))
        .ok();
}

/// A disk of 32 MiB in a mount namespace of its own, filled to the last block.
#[test]
fn a_disk_that_is_really_full_loses_nothing_acknowledged() {
    let annals = Annals::embedded();
    std::fs::create_dir(annals.folder().join("small")).unwrap();
    let inside = |script: &str| {
        let mut command = annals.command(Path::new("unshare"));
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
        finish(command, "")
    };
    let mount = "mount -t tmpfs -o size=32m none small";
    if !cfg!(target_os = "linux") || inside(mount).code != Some(0) {
        println!("skipped: this machine does not let us mount a small disk");
        return;
    }
    annals.write(
        "annals.toml",
        "data = \"small/data\"\n[embedded]\nreserve-mib = 0\n",
    );
    annals.write("many.jsonl", &items(0, 40_000));
    let binary = env!("CARGO_BIN_EXE_annals");
    let script = format!(
        "{mount} && {binary} tables create && {binary} import annals-journal many.jsonl; \
         echo \"{{\\\"exit\\\":$?}}\"; {binary} export annals-journal"
    );
    let outcome = inside(&script);
    let outcome = outcome_lines(&outcome.out, &outcome.err);
    assert_eq!(outcome.exit, 4, "{}", outcome.err);
    // The engine may meet the end of the disk in a commit or behind it, while it compacts.
    let is_told = [
        "the disk is full",
        "see that the disk is well and has space",
    ];
    assert!(
        is_told.iter().any(|told| outcome.err.contains(told)),
        "{}",
        outcome.err
    );
    // The import reads ahead of its answers by 64 items, so what came before those is there.
    assert!(outcome.exported.len() > 1_000, "{}", outcome.exported.len());
    let highest = outcome.exported.iter().max().unwrap();
    let missing = highest + 1 - outcome.exported.len() as u64;
    assert!(
        missing <= 64,
        "{missing} of the items before the last are missing"
    );
}

struct Filled {
    exit: u64,
    exported: Vec<u64>,
    err: String,
}

fn outcome_lines(out: &str, err: &str) -> Filled {
    let lines: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let exit = lines.iter().find_map(|line| line["exit"].as_u64()).unwrap();
    let numbers = lines
        .iter()
        .filter_map(|line| line["Item"]["n"]["N"].as_str());
    Filled {
        exit,
        exported: numbers.map(|n| n.parse().unwrap()).collect(),
        err: err.to_owned(),
    }
}
