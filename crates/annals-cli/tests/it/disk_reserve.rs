//! The disk reserve: an import fails with exit code 4 below it, and continues once there is room.

use serde_json::json;

use crate::run::Annals;

fn items(from: u64, to: u64) -> String {
    let line = |n: u64| json!({"Item": {"p": {"S": "a"}, "n": {"N": n.to_string()}}});
    (from..to).map(|n| format!("{}\n", line(n))).collect()
}

#[test]
fn an_import_fails_below_the_disk_reserve_and_continues_with_room() {
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
