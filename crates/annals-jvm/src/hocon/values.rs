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
        Value::Null | Value::List => Err(wrong(leaf, "is a text or a number")),
    }
}

fn wrong(leaf: &Leaf, what: &str) -> Error {
    Error::invalid(format!("a key {what}; fix it")).fact("key", joined(&leaf.path))
}

/// The value as a setting.
///
/// # Errors
/// `Invalid` if it is not of that kind.
pub(super) fn read(leaf: &Leaf, kind: Kind) -> Result<Toml> {
    let text = text(leaf)?;
    let number = |found: Option<i64>, what| {
        let number = found.filter(|number| *number >= 0).map(Toml::Integer);
        number.ok_or_else(|| wrong(leaf, what))
    };
    // The parser's own reading, which is the JVM's.
    let scalar = HoconValue::Scalar(ScalarValue::string(text.clone()));
    let config = Config::new([("value".to_owned(), scalar)].into_iter().collect());
    match kind {
        Kind::Endpoint if text.contains('@') => {
            Err(wrong(leaf, "is an address without user and password"))
        }
        Kind::Text | Kind::Endpoint | Kind::Protocol | Kind::Class(_) => Ok(text.into()),
        Kind::Flag => {
            let flag = config.get_bool("value").ok().map(Toml::Boolean);
            flag.ok_or_else(|| wrong(leaf, "is true or false"))
        }
        Kind::Choice => {
            let choice = Toml::from(text.to_lowercase());
            match choice.clone().try_into::<ReplayFilterMode>() {
                Ok(_) => Ok(choice),
                Err(_) => Err(wrong(leaf, "is repair-by-discard-old, fail, warn or off")),
            }
        }
        Kind::Table => match text.parse::<TableName>() {
            Ok(_) => Ok(text.into()),
            Err(_) => Err(wrong(leaf, "is the name of a table")),
        },
        Kind::Count => number(config.get_i64("value").ok(), "is a whole number"),
        Kind::Bytes => number(config.get_bytes("value").ok(), "is a size in bytes"),
        Kind::Millis => {
            let found = config.get_duration("value").ok();
            let millis = found.and_then(|found| i64::try_from(found.as_millis()).ok());
            number(millis, "is a time in milliseconds")
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
