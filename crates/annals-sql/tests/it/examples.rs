//! Runs the example, which `cargo test` builds with these tests.

use std::process::Command;

/// The binary of an example.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().nth(2).unwrap().join("examples");
    let path = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(
        path.exists(),
        "build it first: cargo build --workspace --examples"
    );
    Command::new(path)
}

pub(crate) fn open_carts_counts_each_event_once() {
    let data = tempfile::tempdir().unwrap();
    for items in 1..=3 {
        let mut example = example("open_carts");
        let output = example.current_dir(data.path()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            printed,
            format!("cart 42: {items} items, {} cents\n", 1250 * items)
        );
    }
}
