//! Values as the JVM reads them: numbers in quotes, durations, sizes, and `default`.
//!
//! Errors never contain a value, since it may be a secret.

use crate::settings::ReplayFilterMode;
use annals::items::TableName;
use annals::{Error, Result};
use hocon::{Config, HoconValue, ScalarValue};
use toml::Value as Toml;

use super::document::{Leaf, Value, joined};
use super::keys::{Fate, Kind, Row};

/// Whether a value counts as unset: `null`, an empty credential, or `default` for the client.
pub(super) fn is_unset(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Scalar(text) if key.starts_with("aws-client-config.") => text == "default",
        Value::Scalar(text) => text.is_empty() && key.starts_with("aws-"),
        _ => false,
    }
}

/// The text of a value.
///
/// # Errors
/// `Invalid` if it is a list or an undefined substitution.
pub(super) fn text(leaf: &Leaf) -> Result<String> {
    match &leaf.value {
        Value::Scalar(text) => Ok(text.clone()),
        Value::Unresolved => Err(wrong(leaf, "refers to something that is not defined")),
        Value::Null | Value::List => Err(wrong(leaf, "must be a text or a number")),
    }
}

/// Without the value, which may be a secret.
fn wrong(leaf: &Leaf, what: &str) -> Error {
    Error::invalid(format!("the value of a key {what}; fix it")).fact("key", joined(&leaf.path))
}

/// With the value, of a key that never has a secret.
fn wrong_value(leaf: &Leaf, text: &str, what: &str) -> Error {
    wrong(leaf, what).fact("value", shortened(text))
}

/// A value for a message: on one line, and not longer than a table's name can be.
pub(super) fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 255;
    let start: String = text.chars().take(CHARS_MAX).collect();
    let rest = if start.len() < text.len() { "…" } else { "" };
    format!("{}{rest}", start.escape_debug())
}

/// The value as a setting.
///
/// # Errors
/// `Invalid` if it is not of that kind.
pub(super) fn read(leaf: &Leaf, kind: Kind) -> Result<Toml> {
    let text = text(leaf)?;
    let number = |found: Option<i64>, what| {
        let number = found.filter(|number| *number >= 0).map(Toml::Integer);
        number.ok_or_else(|| wrong_value(leaf, &text, what))
    };
    // The parser's own reading, which is the JVM's.
    let scalar = HoconValue::Scalar(ScalarValue::string(text.clone()));
    let config = Config::new([("value".to_owned(), scalar)].into_iter().collect());
    match kind {
        Kind::Endpoint if text.contains('@') => {
            Err(wrong(leaf, "must be an address without user and password"))
        }
        Kind::Text | Kind::Endpoint | Kind::Protocol | Kind::Class(_) => Ok(text.into()),
        Kind::Flag => {
            let flag = config.get_bool("value").ok().map(Toml::Boolean);
            flag.ok_or_else(|| wrong_value(leaf, &text, "must be true or false"))
        }
        Kind::Choice => {
            let choice = Toml::from(text.to_lowercase());
            match choice.clone().try_into::<ReplayFilterMode>() {
                Ok(_) => Ok(choice),
                Err(_) => Err(wrong_value(
                    leaf,
                    &text,
                    "must be repair-by-discard-old, fail, warn or off",
                )),
            }
        }
        Kind::Table => match text.parse::<TableName>() {
            Ok(_) => Ok(text.into()),
            Err(cause) => {
                let wrong = wrong_value(leaf, &text, "cannot be the name of a table");
                Err(wrong.because(cause))
            }
        },
        Kind::Count => number(
            config.get_i64("value").ok(),
            "must be a whole number, 0 or more",
        ),
        Kind::Bytes => number(
            config.get_bytes("value").ok(),
            "must be a size in bytes, such as 400000 or 4k",
        ),
        Kind::Millis => {
            let found = config.get_duration("value").ok();
            let millis = found.and_then(|found| i64::try_from(found.as_millis()).ok());
            number(millis, "must be a time, such as 500 (milliseconds) or 5s")
        }
    }
}

/// Whether a time means no limit, as on the JVM.
pub(super) fn is_no_limit(kind: Kind, value: &Toml) -> bool {
    kind == Kind::Millis && *value == Toml::Integer(0)
}

/// Whether two sections have the same value for a key; an unset value is the default.
pub(super) fn are_same(row: &Row, a: Option<&Leaf>, b: Option<&Leaf>) -> bool {
    let Fate::Works(kind, _) = row.fate else {
        return true;
    };
    let default = Leaf {
        path: Vec::new(),
        value: Value::Scalar(row.default.to_owned()),
        is_default: true,
    };
    let value = |leaf: Option<&Leaf>| {
        let set = leaf.filter(|leaf| !is_unset(row.name, &leaf.value));
        let read = read(set.unwrap_or(&default), kind).ok();
        read.filter(|value| !is_no_limit(kind, value))
    };
    value(a) == value(b)
}

/// A value for a message about a contradiction, and whether it is the plugin's default. Without an
/// address that has a password.
pub(super) fn shown(row: &Row, leaf: Option<&Leaf>) -> String {
    match leaf.filter(|leaf| !is_unset(row.name, &leaf.value)) {
        Some(leaf) => shown_leaf(leaf),
        None if row.default.is_empty() => "not set".to_owned(),
        None => format!("`{}` (the plugin's default)", row.default),
    }
}

/// As [`shown`], of a value that is set.
pub(super) fn shown_leaf(leaf: &Leaf) -> String {
    let default = match leaf.is_default {
        true => " (the plugin's default)",
        false => "",
    };
    match &leaf.value {
        Value::Scalar(text) if text.is_empty() => "empty".to_owned(),
        Value::Scalar(text) if text.contains('@') => "a value that may have a password".to_owned(),
        Value::Scalar(text) => format!("`{}`{default}", shortened(text)),
        Value::Null => "not set".to_owned(),
        Value::List => "a list".to_owned(),
        Value::Unresolved => "undefined".to_owned(),
    }
}

/// The region in an address of AWS's: the name after `dynamodb`.
pub(super) fn region_in(endpoint: &str) -> Option<&str> {
    let (_, rest) = endpoint.split_once("://")?;
    let host = rest.split(['/', ':']).next()?;
    let is_aws = [".amazonaws.com", ".amazonaws.com.cn", ".api.aws"];
    if !is_aws.iter().any(|end| host.ends_with(end)) {
        return None;
    }
    let mut names = host.split('.');
    names.find(|name| name.starts_with("dynamodb"))?;
    names.next().filter(|name| name.contains('-'))
}
