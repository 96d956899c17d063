//! The public API of each library crate is the one in its `api.txt`.
//!
//! Guarantees: adding, changing or removing a public item, field, variant, method or trait impl fails
//! the test, which prints the changed lines and how to accept them.
//! Relies on: the source alone, read with `syn`, so neither nightly nor another build is needed. Names
//! in signatures are printed as written; auto traits are not listed. Items that a macro makes are listed
//! as the macro's call and definition. `#[doc(hidden)]` items are not part of the API.

mod listing;
mod print;
mod source;

use std::collections::BTreeSet;
use std::path::Path;

use listing::Listing;
use source::Crate;

const CRATES: [&str; 7] = [
    "annals",
    "annals-aws",
    "annals-jvm",
    "annals-lambda",
    "annals-macros",
    "annals-sql",
    "annals-testkit",
];
const BLESS: &str = "ANNALS_BLESS";

/// The lines of a listing, each after the item it is about.
fn entries(listing: &str) -> BTreeSet<String> {
    let mut item = "";
    let lines = listing.lines().filter(|line| !line.starts_with('#'));
    let entries = lines.map(|line| match line.strip_prefix("    ") {
        Some(member) => format!("{item}: {member}"),
        None => {
            item = line.split(['<', ' ']).nth(1).unwrap_or(line);
            line.to_owned()
        }
    });
    entries.collect()
}

fn changes(accepted: &str, current: &str) -> String {
    let (old, new) = (entries(accepted), entries(current));
    let removed = old.difference(&new).map(|line| format!("- {line}\n"));
    let added = new.difference(&old).map(|line| format!("+ {line}\n"));
    removed.chain(added).collect()
}

#[test]
fn public_api_is_the_accepted_one() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut failures = String::new();
    for name in CRATES {
        let file = crates.join(name).join("api.txt");
        let source = Crate::read(name, &crates.join(name).join("src/lib.rs"));
        let current = Listing::new(&source).to_text();
        if std::env::var_os(BLESS).is_some() {
            std::fs::write(&file, &current).unwrap();
        }
        let accepted = std::fs::read_to_string(&file).unwrap_or_default();
        if accepted != current {
            failures += &format!("{name}:\n{}\n", changes(&accepted, &current));
        }
    }
    assert!(
        failures.is_empty(),
        "the public API has changed:\n\n{failures}If that is intended, note it in CHANGELOG.md and run\n\
         {BLESS}=1 cargo test -p annals --test it public_api"
    );
}

/// A crate of two modules, of which one is private.
const SAMPLE: &str = r#"
    mod private;
    pub mod open {
        pub use crate::private::Page;
        pub use std::fmt::Debug;
        pub(crate) struct Own;
        impl Clone for Own {}
    }
    pub use open::Page as Leaf;
    pub type Named = private::Generic<u8>;
    pub fn first<T: Clone>(mut a: &T, (b, c): (u8, u8)) -> Result<(), Box<dyn Debug>> {}
    #[cfg(test)]
    pub fn tested() {}
    #[doc(hidden)]
    pub fn hidden() {}
    #[cfg(feature = "more")]
    pub trait Read<'a>: Sized {
        type Out: 'a;
        fn read(&'a self) -> Self::Out;
        fn twice(&self) -> u8 { 2 }
    }
"#;
const PRIVATE: &str = r#"
    use crate::open::Own;
    /// Words.
    #[derive(Clone)]
    #[must_use = "or it is lost"]
    #[non_exhaustive]
    pub struct Page { pub n: Vec<u8>, secret: u8 }
    pub enum Unreachable { A }
    pub struct Generic<T>(T);
    impl<T> Copy for Generic<T> {}
    impl Page { pub fn of(self: &Self) -> impl Iterator<Item = &u8> + '_ {} fn own() {} }
    impl From<Own> for Page {}
    impl<T: Copy> std::convert::From<T> for Page {}
"#;

fn sample(root: &str, private: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lib.rs"), root).unwrap();
    std::fs::write(folder.path().join("private.rs"), private).unwrap();
    let source = Crate::read("sample", &folder.path().join("lib.rs"));
    Listing::new(&source).to_text()
}

#[test]
fn public_api_lists_what_can_be_reached_once() {
    let expected = r#"# sample: 3 public types (1 structs, 0 enums, 1 traits, 1 aliases)
struct sample::Leaf { .. } #[must_use] #[non_exhaustive]
    fn of(self: &Self) -> impl Iterator<Item = &u8> + '_
    impl Clone
    impl<T: Copy> From<T>
    pub n: Vec<u8>
type sample::Named = private::Generic<u8>
    impl<T> Copy for Generic<T>
trait sample::Read<'a>: Sized #[cfg(feature = "more")]
    fn read(&'a self) -> Self::Out
    fn twice(&self) -> u8 { .. }
    type Out: 'a
fn sample::first<T: Clone>(a: &T, _: (u8, u8)) -> Result<(), Box<dyn Debug>>
use sample::open::Debug = std::fmt::Debug
use sample::open::Page = sample::Leaf
"#;
    assert_eq!(sample(SAMPLE, PRIVATE), expected);
}

#[test]
fn public_api_changes_are_noticed() {
    let before = sample(SAMPLE, PRIVATE);
    for (from, to, expected) in [
        (
            "impl Page {",
            "impl Page { pub fn more() {} ",
            "+ sample::Leaf: fn more()\n",
        ),
        (
            "pub n: Vec<u8>",
            "pub n: Vec<u8>, pub m: u8",
            "+ sample::Leaf: pub m: u8\n",
        ),
        ("#[derive(Clone)]", "", "- sample::Leaf: impl Clone\n"),
        (
            "#[non_exhaustive]",
            "",
            "+ struct sample::Leaf { .. } #[must_use]\n",
        ),
        (
            "self: &Self",
            "&mut self",
            "+ sample::Leaf: fn of(&mut self)",
        ),
    ] {
        let after = sample(SAMPLE, &PRIVATE.replace(from, to));
        let found = changes(&before, &after);
        assert!(found.contains(expected), "{to}: {found}");
    }
    let words = PRIVATE
        .replace("Words", "Other words")
        .replace("secret", "other");
    assert_eq!(sample(SAMPLE, &words), before);
}
