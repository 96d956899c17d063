//! The lines of the README that call the server do what they say.

use std::process::Command;

use crate::run::Annals;
use crate::serve_client::Server;

const README: &str = include_str!("../../../../README.md");
/// What curl answers where the time it was given is over, as it is for a tail.
const TIME_IS_OVER: i32 = 28;

#[test]
fn the_calls_of_the_readme_work_as_printed() {
    let has_curl = Command::new("curl").arg("--version").output();
    if !has_curl.is_ok_and(|output| output.status.success()) {
        println!("skipped: this machine has no curl");
        return;
    }
    let annals = Annals::embedded();
    let server = Server::start(&annals);
    let calls: Vec<&str> = README
        .lines()
        .filter(|it| it.starts_with("curl "))
        .collect();
    assert!(calls.len() >= 5, "{calls:?}");
    for call in calls {
        let call = call.replace("127.0.0.1:7070", &server.address);
        let output = Command::new("sh").args(["-c", &call]).output().unwrap();
        let wanted = if call.contains(" -m ") {
            TIME_IS_OVER
        } else {
            0
        };
        assert_eq!(output.status.code(), Some(wanted), "{call}: {output:?}");
        let out = String::from_utf8(output.stdout).unwrap();
        assert!(!out.is_empty(), "{call}");
        assert!(!out.contains("urn:annals:problem"), "{call}: {out}");
    }
}
