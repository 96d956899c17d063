//! `rust-version` of each crate is what its dependencies and its own code need, and no more.
//!
//! Clippy (`incompatible_msrv`) checks the functions of the standard library that our code calls.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::Visit;

use super::{Metadata, Package};

type Version = (u32, u32, u32);

const EDITION_2024: Version = (1, 85, 0);
const LET_CHAINS: Version = (1, 88, 0);

fn version(text: &str) -> Version {
    let mut parts = text.split('.').map(|part| part.parse().unwrap());
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

/// The packages that a user of `package` compiles: its normal and build dependencies, and theirs.
fn compiled<'a>(metadata: &'a Metadata, package: &'a Package) -> BTreeSet<&'a str> {
    let nodes = metadata.resolve.nodes.iter();
    let nodes: BTreeMap<_, _> = nodes.map(|node| (node.id.as_str(), node)).collect();
    let mut found = BTreeSet::new();
    let mut pending = vec![package.id.as_str()];
    while let Some(id) = pending.pop() {
        let compiled = nodes[id].deps.iter().filter(|dependency| {
            let mut kinds = dependency.dep_kinds.iter();
            kinds.any(|kind| kind.kind.as_deref() != Some("dev"))
        });
        for dependency in compiled {
            if found.insert(dependency.pkg.as_str()) {
                pending.push(&dependency.pkg);
            }
        }
    }
    found
}

/// The dependency that needs the newest Rust, and which one it needs.
fn newest<'a>(metadata: &'a Metadata, package: &'a Package) -> (Version, &'a str) {
    let ids = compiled(metadata, package);
    let packages = metadata.packages.iter();
    let dependencies = packages.filter(|package| ids.contains(package.id.as_str()));
    let needed = dependencies.filter_map(|dependency| {
        let needs = dependency.rust_version.as_deref()?;
        Some((version(needs), dependency.name.as_str()))
    });
    needed.max().unwrap_or_default()
}

/// Finds conditions such as `if let Some(x) = a && x > 0`.
#[derive(Default)]
struct LetChains {
    found: bool,
}

impl Visit<'_> for LetChains {
    fn visit_expr_binary(&mut self, binary: &syn::ExprBinary) {
        let is_let = |side: &syn::Expr| matches!(side, syn::Expr::Let(_));
        self.found |= is_let(&binary.left) || is_let(&binary.right);
        syn::visit::visit_expr_binary(self, binary);
    }
}

fn has_let_chains(source: &str) -> bool {
    let mut chains = LetChains::default();
    chains.visit_file(&syn::parse_file(source).unwrap());
    chains.found
}

fn folder_has_let_chains(folder: &Path) -> bool {
    let mut entries = std::fs::read_dir(folder).unwrap();
    entries.any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return folder_has_let_chains(&path);
        }
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        is_source && has_let_chains(&std::fs::read_to_string(&path).unwrap())
    })
}

/// What our own code needs, at least. A newer language feature in our code belongs here.
fn own(package: &Package) -> Version {
    let source = package.manifest_path.parent().unwrap().join("src");
    if folder_has_let_chains(&source) {
        LET_CHAINS
    } else {
        EDITION_2024
    }
}

#[test]
fn rust_version_is_what_dependencies_and_code_need() {
    let metadata = Metadata::get();
    for package in metadata.members() {
        let declared = version(package.rust_version.as_deref().expect("a rust-version"));
        let (needed, dependency) = newest(metadata, package);
        // Our sources are parsed only if they could make a difference.
        let needed = match needed < LET_CHAINS {
            true => needed.max(own(package)),
            false => needed,
        };
        assert_eq!(
            declared, needed,
            "rust-version of {}; the dependency that needs the most is `{dependency}`",
            package.name
        );
    }
}

#[test]
fn let_chains_are_detected() {
    for (body, want) in [
        ("if let Some(x) = a && x > 0 {}", true),
        ("while b && let Some(x) = a {}", true),
        ("match a { Some(x) if b && let 1 = x => {} _ => {} }", true),
        ("if let Some(x) = a {}", false),
        ("if a && b {}", false),
        (
            "let Some(x) = (b && c).then_some(1) else { return };",
            false,
        ),
    ] {
        let source = format!("fn f() {{ {body} }}");
        assert_eq!(has_let_chains(&source), want, "{body}");
    }
}

#[test]
fn only_dependencies_that_users_compile_count() {
    let metadata = Metadata::get();
    let macros = metadata.members().find(|p| p.name == "annals-macros");
    let macros = macros.unwrap();
    assert!(newest(metadata, macros).0 < EDITION_2024);
    let core = metadata.members().find(|p| p.name == "annals").unwrap();
    let (needed, dependency) = newest(metadata, core);
    assert!(needed > EDITION_2024, "{dependency}: {needed:?}");
    let ids = compiled(metadata, core);
    assert!(ids.contains(macros.id.as_str()));
    let testkit = metadata.members().find(|p| p.name == "annals-testkit");
    assert!(
        !ids.contains(testkit.unwrap().id.as_str()),
        "only tests use it"
    );
}
