//! Optional settings for `#[serde(with = …)]`: TOML has no null, so an empty text is `None`.

/// For texts.
pub mod empty_is_none {
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes the value, or an empty text.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(
        value: &Option<String>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(value.as_deref().unwrap_or(""))
    }

    /// Reads the value; an empty text is `None`.
    ///
    /// # Errors
    /// If it is neither.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<String>, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}

/// For table names.
pub mod empty_is_no_table {
    use serde::{Deserializer, Serializer};

    use super::empty_is_none;
    use crate::items::TableName;

    /// Writes the value, or an empty text.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(
        value: &Option<TableName>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(value.as_ref().map_or("", TableName::as_str))
    }

    /// Reads the value; an empty text is `None`.
    ///
    /// # Errors
    /// If it is neither.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<TableName>, D::Error> {
        let text = empty_is_none::deserialize(deserializer)?;
        let name = text.map(|text| text.parse().map_err(serde::de::Error::custom));
        name.transpose()
    }
}

/// For whole numbers.
pub mod empty_is_no_number {
    use std::fmt;
    use std::marker::PhantomData;

    use serde::de::{Error, Unexpected, Visitor};
    use serde::{Deserializer, Serialize, Serializer};

    /// Writes the value, or an empty text.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<T: Serialize, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(number) => number.serialize(serializer),
            None => serializer.serialize_str(""),
        }
    }

    /// Reads the value; an empty text is `None`.
    ///
    /// # Errors
    /// If it is neither.
    pub fn deserialize<'de, T: TryFrom<u64>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        deserializer.deserialize_any(NumberOrEmpty(PhantomData))
    }

    struct NumberOrEmpty<T>(PhantomData<T>);

    impl<T: TryFrom<u64>> Visitor<'_> for NumberOrEmpty<T> {
        type Value = Option<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number in range, or an empty text")
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
            let found = T::try_from(number);
            let wrong = |_| E::invalid_value(Unexpected::Unsigned(number), &self);
            found.map(Some).map_err(wrong)
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
            match u64::try_from(number) {
                Ok(number) => self.visit_u64(number),
                Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
            }
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            match text {
                "" => Ok(None),
                _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
            }
        }
    }
}
