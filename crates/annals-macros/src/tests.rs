//! What derives expand to, and what a misuse is told and where.

use proc_macro2::TokenStream;
use syn::{DeriveInput, Result};

use crate::{event, stored};

type Derive = fn(&DeriveInput) -> Result<TokenStream>;

#[track_caller]
fn expanded(derive: Derive, source: &str) -> String {
    let input: DeriveInput = syn::parse_str(source).unwrap();
    derive(&input).unwrap().to_string().replace(' ', "")
}

/// A misuse is told `want`, at the word `at`.
#[track_caller]
fn check_refused(derive: Derive, source: &str, at: &str, want: &str) {
    let input: DeriveInput = syn::parse_str(source).unwrap();
    let error = derive(&input).expect_err(source);
    assert_eq!(error.span().source_text().as_deref(), Some(at), "{source}");
    assert!(error.to_string().contains(want), "{source}: {error}");
}

#[test]
fn unions_are_refused() {
    let source = "union Either { a: u32, b: f32 }";
    check_refused(event::derive, source, "union", "use an enum or a struct");
    check_refused(stored::derive, source, "union", "use an enum or a struct");
}

#[test]
fn what_nobody_knows_is_refused_at_its_word() {
    let check = |source, at, want| check_refused(event::derive, source, at, want);
    check("#[event(shema = 1)] enum E { A }", "shema", "`schema`");
    check(
        "#[event(format = \"xml\")] enum E { A }",
        "\"xml\"",
        "`cbor`",
    );
    check("#[event(schema = -1)] enum E { A }", "-1", "digit");
    check("#[event(schema = \"1\")] enum E { A }", "\"1\"", "integer");
    check(
        "#[event(schema = 4294967296)] enum E { A }",
        "4294967296",
        "too large",
    );
    check(
        "enum E { #[event(format = \"json\")] A }",
        "format",
        "whole type",
    );
    check("enum E { #[event(tags(a))] A }", "a", "string");
    check(
        "#[event(schema = 1, schema = 2)] struct E;",
        "schema = 2",
        "already",
    );
    let check = |source, at, want| check_refused(stored::derive, source, at, want);
    check(
        "#[stored(tags(\"a\"))] struct S;",
        "tags",
        "`format` and `schema`",
    );
    check(
        "#[stored(format = \"bson\")] struct S;",
        "\"bson\"",
        "`json`",
    );
}

#[test]
fn names_inside_of_the_content_are_refused() {
    let check = |source, at| check_refused(event::derive, source, at, "is the manifest");
    check("#[serde(tag = \"type\")] enum E { A }", "tag = \"type\"");
    check(
        "#[serde(rename_all = \"x\", untagged)] enum E { A }",
        "untagged",
    );
    check("enum E { #[serde(untagged)] A(u8) }", "untagged");
}

#[test]
fn what_is_said_of_a_variant_goes_before_what_is_said_of_all() {
    let code = expanded(
        event::derive,
        "#[event(format = \"cbor\", schema = 2, tags(\"all\"))]
         enum E { A, #[event(schema = 3, tags(\"b\", \"c\"))] B(u8), #[serde(other)] C }",
    );
    assert!(code.contains("Format::Cbor"), "{code}");
    for (variant, schema, other, tags) in [
        ("A", 2, false, "\"all\""),
        ("B", 3, false, "\"all\",\"b\",\"c\""),
        ("C", 2, true, "\"all\""),
    ] {
        let want = format!(
            "Self::{variant}{{..}}=>::annals::entity::__private::Shape{{schema:{schema}u32,\
             is_catch_all:{other},tags:&[{tags}],}},"
        );
        assert_eq!(code.matches(&want).count(), 2, "{want} in {code}");
    }
}

#[test]
fn the_name_of_a_struct_is_its_own_or_serdes() {
    let check = |source, written: &str, read: &str| {
        let code = expanded(event::derive, source);
        let (to, from) = (format!("self,\"{written}\""), format!("event,\"{read}\""));
        assert!(code.contains(&to) && code.contains(&from), "{code}");
    };
    check("struct Moved { to: u8 }", "Moved", "Moved");
    check("#[serde(rename = \"m\")] struct Moved(u8);", "m", "m");
    check(
        "#[serde(rename(serialize = \"m\"))] struct Moved(u8);",
        "m",
        "Moved",
    );
    check(
        "#[serde(rename(deserialize = \"m\"))] struct Moved(u8);",
        "Moved",
        "m",
    );
    check(
        "#[serde(from = \"u8\", into = \"u8\")] struct Moved;",
        "Moved",
        "Moved",
    );
}

#[test]
fn types_with_parameters_are_bounded_as_a_whole() {
    let code = expanded(
        stored::derive,
        "struct S<T, const N: usize> where T: Copy { t: [T; N] }",
    );
    let want = "impl<T,constN:usize>::annals::entity::StoredforS<T,N>\
                whereT:Copy,Self:::annals::entity::__private::Serde{";
    assert!(code.contains(want), "{code}");
    let code = expanded(event::derive, "enum E<T> { A(T) }");
    let want = "::core::marker::Send+::core::marker::Sync+'static{";
    assert!(code.contains(want), "{code}");
}
