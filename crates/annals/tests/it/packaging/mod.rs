//! What is shipped: the metadata of the crates, their dependencies, the image and the service.
//!
//! Relies on: `cargo metadata` for this platform, without the network; dependencies of other platforms
//! are not checked.

mod dependencies;
mod rust_versions;
mod service;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde::Deserialize;

/// The part of `cargo metadata` that the tests need.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    resolve: Resolve,
}

#[derive(Clone, Deserialize)]
struct Package {
    id: String,
    name: String,
    description: Option<String>,
    documentation: Option<String>,
    repository: Option<String>,
    readme: Option<String>,
    license: Option<String>,
    rust_version: Option<String>,
    source: Option<String>,
    keywords: Vec<String>,
    categories: Vec<String>,
    features: BTreeMap<String, Vec<String>>,
    metadata: Option<serde_json::Value>,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Clone, Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    /// `None` for normal dependencies.
    kind: Option<String>,
}

impl Metadata {
    /// Read once for all tests.
    fn get() -> &'static Self {
        static METADATA: LazyLock<Metadata> = LazyLock::new(Metadata::read);
        &METADATA
    }

    fn read() -> Self {
        let version = cargo(&["-vV"]);
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.expect("cargo prints its host");
        let text = cargo(&[
            "metadata",
            "--locked",
            "--offline",
            "--format-version=1",
            "--filter-platform",
            host,
        ]);
        serde_json::from_str(&text).unwrap()
    }

    fn members(&self) -> impl Iterator<Item = &Package> {
        let is_member = |package: &&Package| self.workspace_members.contains(&package.id);
        self.packages.iter().filter(is_member)
    }
}

fn cargo(arguments: &[&str]) -> String {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(root()).output();
    let output = output.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The folder of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The slugs of crates.io that our crates use.
const CATEGORIES: [&str; 8] = [
    "asynchronous",
    "command-line-utilities",
    "database",
    "database-implementations",
    "development-tools::procedural-macro-helpers",
    "development-tools::testing",
    "encoding",
    "web-programming::http-server",
];

#[test]
fn every_crate_has_the_metadata_of_a_published_crate() {
    let metadata = Metadata::get();
    let license = read("LICENSE");
    assert!(metadata.members().count() >= 7);
    for package in metadata.members() {
        let name = &package.name;
        let description = package.description.as_deref().unwrap_or_default();
        assert!(description.len() > 20, "{name}: {description:?}");
        let repository = package.repository.as_deref();
        assert_eq!(repository, Some("https://github.com/annals-rs/annals"));
        let documentation = format!("https://docs.rs/{name}");
        assert_eq!(package.documentation.as_ref(), Some(&documentation));
        assert_eq!(package.license.as_deref(), Some("Apache-2.0"), "{name}");
        assert!((1..=5).contains(&package.keywords.len()), "{name}");
        for keyword in &package.keywords {
            let is_plain = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(
                keyword.len() <= 20 && keyword.chars().all(is_plain),
                "{name}: {keyword}"
            );
        }
        assert!((1..=5).contains(&package.categories.len()), "{name}");
        for category in &package.categories {
            assert!(
                CATEGORIES.contains(&category.as_str()),
                "{name}: {category}"
            );
        }

        let folder = package.manifest_path.parent().unwrap();
        assert_eq!(package.readme.as_deref(), Some("README.md"), "{name}");
        let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
        assert!(
            readme.starts_with(&format!("# {name}\n")),
            "{name}: {readme}"
        );
        let shipped = std::fs::read_to_string(folder.join("LICENSE"));
        assert!(shipped.is_ok_and(|text| text == license), "{name}: LICENSE");
    }
}

#[test]
fn documentation_shows_all_features() {
    let metadata = Metadata::get();
    for package in metadata.members().filter(|p| !p.features.is_empty()) {
        let settings = package.metadata.as_ref().map(|all| &all["docs"]["rs"]);
        let shows_all = settings.map(|settings| settings["all-features"] == true);
        assert_eq!(shows_all, Some(true), "{}", package.name);
    }
}
