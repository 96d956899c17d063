//! The `Dockerfile` and the systemd unit name files, options, profiles and ports that exist.

use std::collections::BTreeSet;

use super::{Metadata, read, root};

/// The instructions of the Dockerfile: name and arguments.
fn instructions(dockerfile: &str) -> Vec<(&str, &str)> {
    let lines = dockerfile.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').unwrap()).collect()
}

#[test]
fn the_image_copies_what_exists() {
    let dockerfile = read("Dockerfile");
    let ignored = read(".dockerignore");
    let kept: BTreeSet<&str> = ignored
        .lines()
        .filter_map(|l| l.strip_prefix('!'))
        .collect();
    let mut copied = BTreeSet::new();
    for (_, arguments) in instructions(&dockerfile).iter().filter(|i| i.0 == "COPY") {
        if arguments.contains("--from=") {
            continue;
        }
        let mut words: Vec<&str> = arguments.split(' ').collect();
        words.pop(); // the target
        for source in words {
            assert!(root().join(source).exists(), "{source}");
            copied.insert(source);
        }
    }
    assert_eq!(
        copied, kept,
        "the sources of COPY, and what .dockerignore keeps"
    );
    for needed in ["Cargo.toml", "Cargo.lock", "crates"] {
        assert!(copied.contains(needed), "{needed}");
    }
}

#[test]
fn the_image_builds_and_runs_the_binary_as_an_unprivileged_user() {
    let dockerfile = read("Dockerfile");
    let instructions = instructions(&dockerfile);
    let arguments = |name: &str| -> Vec<&str> {
        let named = instructions.iter().filter(|i| i.0 == name);
        named.map(|i| i.1).collect()
    };
    let cargo: toml::Table = toml::from_str(&read("Cargo.toml")).unwrap();
    let metadata = Metadata::get();
    let package = metadata.members().find(|p| p.name == "annals-cli").unwrap();

    let build = arguments("RUN")[0];
    let option = |name: &str| {
        let mut words = build.split(' ').skip_while(|word| *word != name);
        words.nth(1).unwrap_or_default()
    };
    let profile = option("--profile");
    assert!(cargo["profile"].get(profile).is_some(), "{profile}");
    assert_eq!(option("--package"), package.name);
    let mut targets = package.targets.iter();
    let binary = targets.find(|target| target.kind == ["bin"]).unwrap();
    let built = format!("/build/target/{profile}/{} ", binary.name);
    assert!(
        arguments("COPY").iter().any(|copy| copy.contains(&built)),
        "{built}"
    );

    let image = arguments("FROM")[0];
    let rust = image.strip_prefix("rust:").unwrap().split('-').next();
    let minor = |version: &str| -> u32 { version.split('.').nth(1).unwrap().parse().unwrap() };
    let needed = package.rust_version.as_deref().unwrap();
    assert!(minor(rust.unwrap()) >= minor(needed), "{image}: {needed}");

    assert_eq!(arguments("EXPOSE"), ["7070"]);
    assert_eq!(arguments("VOLUME"), ["/data"]);
    let user = arguments("USER")[0];
    assert!(!user.starts_with("0") && user != "root", "{user}");
    let command = arguments("CMD")[0];
    assert!(command.contains("\"0.0.0.0:7070\""), "{command}");
}

#[test]
fn the_unit_stops_cleanly_and_restarts_only_where_that_helps() {
    let unit = read("packaging/annals.service");
    let value = |key: &str| {
        let mut lines = unit.lines().filter(|line| !line.starts_with('#'));
        let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("{key} is not set"))
    };
    assert_eq!(value("DynamicUser"), "yes");
    assert_eq!(value("StateDirectory"), "annals");
    assert_eq!(value("Restart"), "on-failure");
    assert_eq!(value("RestartPreventExitStatus"), "2 5");
    assert_eq!(value("KillSignal"), "SIGTERM");
    let start = value("ExecStart");
    assert!(start.contains(" serve --data %S/annals "), "{start}");
    assert!(start.contains("127.0.0.1:7070"), "without a token: {start}");
    // Longer than the default of --grace.
    let stop = value("TimeoutStopSec").trim_end_matches('s');
    assert!(stop.parse::<u32>().unwrap() > 30, "{stop}");
}
