//! The splitting rule, by the table of the plugin's description.

use super::*;

/// Prefix and body; `Err` if the plugin fails.
fn split(id: &str, separator: &str) -> (Result<Option<String>>, Result<Option<String>>) {
    let separator = Separator::new(separator).unwrap();
    let id: PersistenceId = id.parse().unwrap();
    let owned = |part: Result<Option<&str>>| part.map(|part| part.map(str::to_owned));
    (owned(separator.prefix(&id)), owned(separator.body(&id)))
}

#[test]
fn ids_split_as_in_java() {
    let uuid = "550e8400-e29b-41d4-a716-446655440000";
    for (id, separator, prefix, body) in [
        (
            "counter-875e6ce0425e4d2b8203f3b44b9b531a".to_owned(),
            "-",
            "counter",
            "875e6ce0425e4d2b8203f3b44b9b531a",
        ),
        ("order-2021-0001".to_owned(), "-", "order", "2021"),
        (format!("counter-{uuid}"), "-", "counter", "550e8400"),
        (format!("Counter|{uuid}"), "-", "Counter|550e8400", "e29b"),
        ("a--b".to_owned(), "-", "a", ""),
        ("-x".to_owned(), "-", "", "x"),
        ("Counter|abc".to_owned(), "|", "C", "o"),
        ("日本-1".to_owned(), "-", "日本", "1"),
        ("x-😀".to_owned(), "-", "x", "😀"),
        ("a#b".to_owned(), "#", "a", "b"),
    ] {
        let (found_prefix, found_body) = split(&id, separator);
        assert_eq!(
            found_prefix.unwrap().as_deref(),
            Some(prefix),
            "prefix of {id}"
        );
        assert_eq!(found_body.unwrap().as_deref(), Some(body), "body of {id}");
    }
}

#[test]
fn an_id_without_the_separator_has_no_prefix_or_body() {
    for (id, separator) in [("Counter|42", "-"), ("a-b", "#"), ("a", "|")] {
        let (prefix, body) = split(id, separator);
        assert_eq!((prefix.unwrap(), body.unwrap()), (None, None), "{id}");
    }
}

#[test]
fn ids_that_fail_in_the_plugin_are_invalid() {
    let invalid = |part: Result<Option<String>>| part.unwrap_err().kind();
    let (prefix, body) = split("counter-", "-");
    assert_eq!(prefix.unwrap().as_deref(), Some("counter"));
    assert_eq!(invalid(body), annals::ErrorKind::Invalid);
    for (id, separator) in [("-", "-"), ("--", "-"), ("a.b", ".")] {
        let (prefix, body) = split(id, separator);
        assert_eq!(invalid(prefix), annals::ErrorKind::Invalid, "{id}");
        assert_eq!(invalid(body), annals::ErrorKind::Invalid, "{id}");
    }
}

#[test]
fn invalid_separators_are_rejected() {
    for separator in ["", "(", "*"] {
        let refused = Separator::new(separator).unwrap_err();
        assert_eq!(refused.kind(), annals::ErrorKind::Invalid, "{separator}");
    }
}
