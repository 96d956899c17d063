//! A settings file for tests: the layout's settings and others.

use annals::settings::optional::empty_is_none;
use annals_aws::AwsClientSettings;
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::{AnyLayout, LayoutName};

/// Settings beside the layout's.
#[derive(Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Others {
    pub(super) store: String,
    #[serde(with = "empty_is_none")]
    pub(super) endpoint: Option<String>,
    #[serde(with = "empty_is_none")]
    pub(super) region: Option<String>,
    pub(super) aws_client_config: AwsClientSettings,
}

/// A settings file, read by those who use it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Settings {
    pub(super) layout: AnyLayout,
    pub(super) others: Others,
}

impl Settings {
    pub(super) fn of(layout: LayoutName) -> Self {
        Self {
            layout: AnyLayout {
                layout,
                ..AnyLayout::default()
            },
            others: Others {
                store: "dynamodb".to_owned(),
                ..Others::default()
            },
        }
    }

    pub(super) fn read(table: &Table) -> Result<Self, toml::de::Error> {
        let known = Table::try_from(AnyLayout::default()).unwrap();
        let table = table.clone().into_iter();
        let (layout, others): (Table, Table) = table.partition(|(key, _)| known.contains_key(key));
        Ok(Self {
            layout: layout.try_into()?,
            others: others.try_into()?,
        })
    }

    /// Every setting with its default.
    pub(super) fn all() -> Table {
        let mut all = Table::try_from(AnyLayout::default()).unwrap();
        all.extend(Table::try_from(Others::default()).unwrap());
        all
    }
}
