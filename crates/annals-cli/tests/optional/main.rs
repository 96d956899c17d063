//! Tests with special requirements. They are ignored, with the reason, without:
//!
//! - `ANNALS_TEST_KINESIS`: a Kinesis server.
//! - `ANNALS_TEST_CFN_LINT`: AWS's linter of CloudFormation templates.
//! - `ANNALS_TEST_DYNAMODB`: a DynamoDB server that checks credentials.
//! - curl, and the right to mount a small disk.
//!
//! `scripts/conformance` sets the variables.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod full_disk;
mod readme;
#[path = "../it/run.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod run;
#[path = "../it/serve_client.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod serve_client;
mod streams;
#[path = "../../../annals-aws/tests/optional/trial.rs"]
mod trial;

use libtest_mimic::Arguments;

use self::run::{Annals, dynamodb};
use self::trial::{missing_variable, trial};

const CFN_LINT: &str = "ANNALS_TEST_CFN_LINT";

fn main() {
    let lint = missing_variable(CFN_LINT);
    let server = missing_variable("ANNALS_TEST_DYNAMODB");
    let mut trials = vec![
        trial("templates_pass_cfn_lint", lint, templates_pass_cfn_lint),
        trial(
            "reports_refused_credentials",
            server,
            reports_refused_credentials,
        ),
        full_disk::test(),
    ];
    trials.extend(readme::tests());
    trials.extend(streams::trials());
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn templates_pass_cfn_lint() {
    let linter = std::env::var(CFN_LINT).unwrap();
    let annals = Annals::embedded();
    let provisioned = ["--read-units", "5", "--write-units", "5"];
    for layout in ["annals", "akka", "j5ik2o"] {
        for (n, more) in [
            &[][..],
            &["--without-log"],
            &["--format", "yaml"],
            &provisioned,
        ]
        .iter()
        .enumerate()
        {
            let args = [&["tables", "template", "--layout", layout], *more].concat();
            let name = format!("{layout}-{n}.template");
            annals.write(&name, &annals.run(&args).ok().out);
            let path = annals.folder().join(&name);
            let linted = std::process::Command::new(&linter)
                .arg(&path)
                .output()
                .unwrap();
            let output = String::from_utf8_lossy(&linted.stdout);
            assert!(linted.status.success(), "{args:?}: {output}");
        }
    }
}

/// DynamoDB Local accepts only letters and digits in an access key; the emulator accepts anything.
fn reports_refused_credentials() {
    let annals = Annals::at(&dynamodb()).with_access_key("bad-key!");
    annals
        .run(&["tables", "check"])
        .fails(2, "AWS refused the credentials");
}
