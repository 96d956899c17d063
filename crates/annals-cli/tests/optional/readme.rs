//! The curl commands in the README work.

use std::process::Command;

use libtest_mimic::Trial;

use crate::run::Annals;
use crate::serve_client::Server;
use crate::trial::trial;

const README: &str = include_str!("../../../../README.md");
/// The exit code of curl after its time limit, as for a tail.
const TIMEOUT: i32 = 28;

pub(crate) fn test() -> Trial {
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    let missing = (!has_curl).then(|| "curl is not installed".to_owned());
    trial("curl_commands_of_the_readme_work", missing, || {
        curl_commands_of_the_readme_work();
    })
}

fn curl_commands_of_the_readme_work() {
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
        let wanted = if call.contains(" -m ") { TIMEOUT } else { 0 };
        assert_eq!(output.status.code(), Some(wanted), "{call}: {output:?}");
        let out = String::from_utf8(output.stdout).unwrap();
        assert!(!out.is_empty(), "{call}");
        assert!(!out.contains("urn:annals:problem"), "{call}: {out}");
    }
}
