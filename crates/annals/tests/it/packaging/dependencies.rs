//! Dependencies have the licences and sources that `deny.toml` allows, and none that it bans.

use serde::Deserialize;

use super::{Metadata, Package, read};

/// The part of `deny.toml` that needs no database of advisories.
#[derive(Deserialize)]
struct Deny {
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

impl Deny {
    fn read() -> Self {
        toml::from_str(&read("deny.toml")).unwrap()
    }

    /// The violations of a package, a line each.
    fn problems(&self, package: &Package) -> Vec<String> {
        let name = &package.name;
        let mut problems = Vec::new();
        let license = package.license.as_deref().unwrap_or_default();
        if !is_allowed(license, &self.licenses.allow) {
            problems.push(format!("{name}: licence not allowed: {license:?}"));
        }
        for ban in self.bans.deny.iter().filter(|ban| ban.name == *name) {
            problems.push(format!("{name}: banned: {}", ban.reason));
        }
        // Path dependencies have no source.
        if let Some(source) = &package.source {
            let registry = source.strip_prefix("registry+").unwrap_or_default();
            if !self.sources.allow_registry.iter().any(|r| r == registry) {
                problems.push(format!("{name}: source not allowed: {source}"));
            }
        }
        problems
    }
}

/// Whether an SPDX expression can be satisfied with the allowed licences. `/` is an old form of `OR`.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ");
    let spaced = spaced.replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any_of(&mut words, allowed) && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

/// Alternatives: `AND` binds tighter than `OR`.
fn any_of(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut is_allowed = all_of(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        is_allowed |= all_of(words, allowed);
    }
    is_allowed
}

fn all_of(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut is_allowed = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        is_allowed &= one(words, allowed);
    }
    is_allowed
}

fn one(words: &mut Words<'_>, allowed: &[String]) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let is_allowed = any_of(words, allowed);
        return words.next() == Some(")") && is_allowed;
    }
    let mut license = words.next().unwrap_or_default().to_owned();
    if words.next_if_eq(&"WITH").is_some() {
        license += &format!(" WITH {}", words.next().unwrap_or_default());
    }
    allowed.contains(&license)
}

#[test]
fn dependencies_keep_the_rules_of_deny_toml() {
    let deny = Deny::read();
    let metadata = Metadata::get();
    assert!(metadata.packages.len() > 100, "dependencies are listed");
    let problems = metadata.packages.iter().flat_map(|p| deny.problems(p));
    let problems: Vec<String> = problems.collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_allowed_licence_is_needed() {
    let deny = Deny::read();
    let metadata = Metadata::get();
    for license in &deny.licenses.allow {
        let mut others = deny.licenses.allow.clone();
        others.retain(|other| other != license);
        let expressions = metadata.packages.iter().filter_map(|p| p.license.as_ref());
        let mut refused = expressions.filter(|expression| !is_allowed(expression, &others));
        assert!(refused.next().is_some(), "no dependency needs {license}");
    }
}

#[test]
fn each_rule_of_deny_toml_detects_its_violation() {
    let deny = Deny::read();
    let metadata = Metadata::get();
    let package = metadata.packages.iter().find(|p| p.name == "tokio");
    let package = package.unwrap().clone();
    assert!(deny.problems(&package).is_empty());
    let check = |changed: Package, want: &str| {
        let problems = deny.problems(&changed).join("\n");
        assert!(problems.contains(want), "{want}: {problems:?}");
    };
    for license in [
        Some("GPL-3.0-only"),
        Some("MIT AND SSPL-1.0"),
        Some(""),
        None,
    ] {
        let license = license.map(str::to_owned);
        check(
            Package {
                license,
                ..package.clone()
            },
            "licence not allowed",
        );
    }
    for ban in &deny.bans.deny {
        let name = ban.name.clone();
        check(
            Package {
                name,
                ..package.clone()
            },
            "banned",
        );
    }
    for source in [
        "git+https://example.com/x",
        "registry+https://example.com/x",
    ] {
        let source = Some(source.to_owned());
        check(
            Package {
                source,
                ..package.clone()
            },
            "source not allowed",
        );
    }
}

#[test]
fn licence_expressions_are_read_as_spdx_defines_them() {
    let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
    for (expression, want) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("ISC AND MIT", true),
        ("GPL-3.0 AND ISC OR MIT", true),
        ("GPL-3.0 AND (ISC OR MIT)", false),
        ("(GPL-3.0 OR ISC) AND MIT", true),
        ("Apache-2.0", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("MIT WITH LLVM-exception", false),
        ("", false),
        ("(MIT", false),
        ("MIT MIT", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), want, "{expression}");
    }
}
