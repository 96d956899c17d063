//! Runs the examples' binaries, which `cargo test` builds with these tests.

use std::path::PathBuf;
use std::process::Command;

/// The binary of an example, ready to run.
pub(crate) fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let folder: PathBuf = test.ancestors().nth(2).unwrap().join("examples");
    let path = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(
        path.exists(),
        "build it first: cargo build --workspace --examples. example=`{name}`"
    );
    Command::new(path)
}

/// The output of an example, which must succeed.
pub(crate) fn printed(mut example: Command) -> String {
    let output = example.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}
