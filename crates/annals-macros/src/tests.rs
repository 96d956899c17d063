//! What the derives expand to, and the errors of wrong attributes.

use proc_macro2::TokenStream;
use syn::{DeriveInput, Result};

use crate::{event, stored};

type Derive = fn(&DeriveInput) -> Result<TokenStream>;

#[track_caller]
fn expanded(derive: Derive, source: &str) -> String {
    let input: DeriveInput = syn::parse_str(source).unwrap();
    derive(&input).unwrap().to_string().replace(' ', "")
}

/// Check that the derive fails at the word `at`, with a message that contains `want`.
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
fn unknown_keys_and_values_are_refused_where_they_are() {
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
    check("#[event(raw)] enum E { A }", "raw", "`schema` and `tags`");
    check("#[event(format = 7)] enum E { A }", "7", "expected");
    check("enum E { #[event(tags(a))] A }", "a", "string");
    check(
        "#[event(schema = 1, schema = 2)] struct E;",
        "schema = 2",
        "duplicate",
    );
    check("enum E { #[event(entity = A)] A }", "entity", "`raw`");
    let check = |source, at, want| check_refused(stored::derive, source, at, want);
    check(
        "#[stored(tags(\"a\"))] struct S;",
        "tags",
        "`alias` and `schema`",
    );
    check(
        "#[stored(format = \"bson\")] struct S;",
        "\"bson\"",
        "`json`",
    );
}

#[test]
fn enums_that_are_not_externally_tagged_are_refused() {
    let check = |source, at| check_refused(event::derive, source, at, "is the manifest");
    check("#[serde(tag = \"type\")] enum E { A }", "tag = \"type\"");
    check(
        "#[serde(rename_all = \"x\", untagged)] enum E { A }",
        "untagged",
    );
    check("enum E { #[serde(untagged)] A(u8) }", "untagged");
}

#[test]
fn attributes_of_a_variant_override_those_of_the_type() {
    let code = expanded(
        event::derive,
        "#[event(format = \"cbor\", schema = 2, tags(\"all\"))]
         enum E { A, #[event(schema = 3, tags(\"b\", \"c\"))] B(u8), #[serde(other)] C }",
    );
    assert_eq!(
        code.matches("(self,::annals::entity::__private::SerdeFormat::Cbor")
            .count(),
        3
    );
    for (variant, schema, other, tags) in [
        ("A", 2, false, "\"all\""),
        ("B", 3, false, "\"all\",\"b\",\"c\""),
        ("C", 2, true, "\"all\""),
    ] {
        let want = format!(
            "::annals::entity::__private::Shape{{schema:{schema}u32,is_catch_all:{other},\
             codec:::core::option::Option::None,tags:&[{tags}],}}"
        );
        let read = format!("Self::{variant}{{..}}=>{want},");
        assert_eq!(code.matches(&read).count(), 1, "{read} in {code}");
        assert_eq!(code.matches(&want).count(), 2, "{want} in {code}");
    }
}

#[test]
fn a_struct_has_its_own_name_or_serdes() {
    let check = |source, written: &str, read: &str| {
        let code = expanded(event::derive, source);
        let (to, from) = (format!("\"{written}\""), format!("event,&[\"{read}\""));
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
fn generic_types_have_bounds() {
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

#[test]
fn a_variant_of_a_codec_holds_one_value() {
    let check = |source, at, want| check_refused(event::derive, source, at, want);
    let one = "holds one unnamed value";
    check(
        "#[event(format = \"bytes\")] enum E { A(u8, u8) }",
        "A",
        one,
    );
    check("#[event(format = \"bytes\")] enum E { A }", "A", one);
    check(
        "#[event(format = \"protobuf\")] enum E { A { n: u8 } }",
        "A",
        one,
    );
    check(
        "#[event(format = \"text\")] struct E { n: u8 }",
        "E",
        "a struct with one unnamed field",
    );
    let code = expanded(event::derive, "#[event(format = my::Own<u8>)] enum E { A }");
    assert!(code.contains("write_value::<my::Own<u8>,()>(&(),\"A\""));
    let check = |source| {
        check_refused(
            stored::derive,
            source,
            "S",
            "a struct with one unnamed field",
        )
    };
    check("#[stored(format = \"bytes\")] enum S { A(Vec<u8>) }");
    check("#[stored(format = \"bytes\")] struct S;");
}

#[test]
fn names_come_from_serde_or_from_our_attributes_but_not_both() {
    let check = |source, at, want| check_refused(event::derive, source, at, want);
    let ours = "use `#[event(name = …)]`";
    check(
        "enum E { #[event(name = \"a\")] A }",
        "\"a\"",
        "serde supplies",
    );
    check(
        "#[event(alias = \"a\")] struct E;",
        "\"a\"",
        "serde supplies",
    );
    check(
        "#[event(format = \"text\")] enum E { #[serde(rename = \"a\")] A(String) }",
        "rename = \"a\"",
        ours,
    );
    check(
        "#[serde(rename_all = \"kebab-case\")] enum E { #[event(format = \"text\")] A(String) }",
        "A",
        ours,
    );
    check(
        "#[event(format = \"text\")] enum E { A(String), #[event(alias = \"A\")] B(String) }",
        "B",
        "has this name; choose another. name=`A`",
    );
    check(
        "#[event(format = \"text\", name = \"a\")] enum E { A(String) }",
        "\"a\"",
        "their own names",
    );
    check_refused(
        stored::derive,
        "#[stored(alias = \"a\")] struct S;",
        "\"a\"",
        "an alias needs a name",
    );
}

#[test]
fn a_raw_variant_has_no_other_attributes() {
    let check = |source, at, want| check_refused(event::derive, source, at, want);
    let whole = "holds one unnamed `NewEvent`";
    check("enum E { #[event(raw)] A }", "A", whole);
    check(
        "enum E { #[event(raw)] A(NewEvent), #[event(raw)] B(NewEvent) }",
        "B",
        "already",
    );
    check(
        "enum E { #[event(schema = 1, raw)] A(NewEvent) }",
        "schema",
        "as it was stored",
    );
    check(
        "enum E { #[serde(other)] A, #[serde(skip)] #[event(raw)] B(NewEvent) }",
        "B",
        "`#[serde(other)]`",
    );
    let skip = "add `#[serde(skip)]`";
    check("enum E { A, #[event(raw)] B(NewEvent) }", "B", skip);
    check(
        "enum E { #[event(format = \"text\")] A(String), B }",
        "A",
        skip,
    );
    expanded(event::derive, "enum E { #[event(raw)] A(NewEvent) }");
}

#[test]
fn a_codec_name_stands_for_one_format() {
    let source = "#[event(codec = \"akka:7\")]
        enum E { A, #[event(format = \"cbor\")] B, #[event(codec = \"akka:8\")] C }";
    let code = expanded(event::derive, source);
    let want = "&[(\"akka:7\",::annals::entity::__private::SerdeFormat::Json),\
                (\"akka:8\",::annals::entity::__private::SerdeFormat::Json)]";
    assert!(code.contains(want), "{code}");
    check_refused(
        event::derive,
        "#[event(codec = \"akka:7\")]
         enum E { A, #[event(format = \"cbor\", codec = \"akka:7\")] B }",
        "B",
        "with another format",
    );
}

#[test]
fn events_belong_to_the_named_entities_or_to_any() {
    let code = expanded(
        event::derive,
        "#[event(entity = bank::Account)] enum E { A }",
    );
    let want = "impl::annals::entity::EventOf<bank::Account>forE{}";
    assert!(code.contains(want), "{code}");
    let code = expanded(
        event::derive,
        "#[event(entity = A, entity = B)] enum E { A }",
    );
    assert_eq!(
        code.matches("::annals::entity::EventOf<").count(),
        2,
        "{code}"
    );
    let code = expanded(event::derive, "enum E<T> { A(T) }");
    let want = "impl<T,__Entity:::annals::entity::Entity<Event=E<T>>>\
                ::annals::entity::EventOf<__Entity>forE<T>{}";
    assert!(code.contains(want), "{code}");
}
