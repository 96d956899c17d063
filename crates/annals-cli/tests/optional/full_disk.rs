//! A full disk: exit code 4, and nothing acknowledged is lost.

use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;
use serde_json::json;

use crate::run::{Annals, Outcome, finish};
use crate::trial::trial;

fn items(from: u64, to: u64) -> String {
    let line = |n: u64| {
        let noise = format!("{:016x}", annals::Random::seeded(n).bits()).repeat(60);
        json!({"Item": {"p": {"S": "a"}, "n": {"N": n.to_string()}, "v": {"S": noise}}})
    };
    (from..to).map(|n| format!("{}\n", line(n))).collect()
}

const MOUNT: &str = "mount -t tmpfs -o size=32m none small";

/// Runs a script in a mount namespace of its own, in a folder with a subfolder `small`.
fn in_namespace(annals: &Annals, script: &str) -> Outcome {
    let _ = std::fs::create_dir(annals.folder().join("small"));
    let mut command = annals.command(Path::new("unshare"));
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    finish(command, "")
}

pub(crate) fn test() -> Trial {
    let can_mount = || {
        let has_unshare = Command::new("unshare").arg("--version").output().is_ok();
        has_unshare && in_namespace(&Annals::embedded(), MOUNT).code == Some(0)
    };
    let missing = (!can_mount()).then(|| "cannot mount a small disk".to_owned());
    trial("a_full_disk_loses_nothing_acknowledged", missing, || {
        a_full_disk_loses_nothing_acknowledged();
    })
}

/// A disk of 32 MiB, filled to the last block.
fn a_full_disk_loses_nothing_acknowledged() {
    let annals = Annals::embedded();
    annals.write(
        "annals.toml",
        "data = \"small/data\"\n[embedded]\nreserve-mib = 0\n",
    );
    annals.write("many.jsonl", &items(0, 40_000));
    let binary = env!("CARGO_BIN_EXE_annals");
    let script = format!(
        "{MOUNT} && {binary} tables create && {binary} import annals-journal many.jsonl; \
         echo \"{{\\\"exit\\\":$?}}\"; {binary} export annals-journal"
    );
    let outcome = in_namespace(&annals, &script);
    let outcome = outcome_lines(&outcome.out, &outcome.err);
    assert_eq!(outcome.exit, 4, "{}", outcome.err);
    // The engine may hit the end of the disk in a commit, or later while it compacts.
    let messages = [
        "the disk is full",
        "see that the disk is well and has space",
    ];
    assert!(
        messages.iter().any(|text| outcome.err.contains(text)),
        "{}",
        outcome.err
    );
    // The import has at most 64 items in flight, so everything before those is stored.
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
