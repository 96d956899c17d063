//! A deserializer that takes the variant's name from the manifest and its content from the payload, and
//! records whether a variant has the name.

use std::cell::Cell;
use std::marker::PhantomData;

use serde::de::value::StrDeserializer;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error as _, IgnoredAny,
    IntoDeserializer, VariantAccess, Visitor,
};

/// Whether a variant has the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameMatch {
    /// Not checked yet.
    Unchecked,
    /// No variant has the name.
    Unknown,
    /// A variant with content has the name.
    Known,
    /// A variant without content has the name.
    Unit,
}

/// Decodes the variant with this name.
pub(super) struct VariantSeed<'a, T> {
    name: &'a str,
    name_match: &'a Cell<NameMatch>,
    value: PhantomData<T>,
}

impl<'a, T> VariantSeed<'a, T> {
    pub(super) fn new(name: &'a str, name_match: &'a Cell<NameMatch>) -> Self {
        Self {
            name,
            name_match,
            value: PhantomData,
        }
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for VariantSeed<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, content: D) -> Result<T, D::Error> {
        T::deserialize(NamedContent {
            name: self.name,
            name_match: self.name_match,
            content,
        })
    }
}

/// A variant: its name and its content.
struct NamedContent<'a, D> {
    name: &'a str,
    name_match: &'a Cell<NameMatch>,
    content: D,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for NamedContent<'_, D> {
    type Error = D::Error;

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        visitor.visit_enum(self)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, D::Error> {
        Err(D::Error::custom(
            "the type is not an externally tagged enum",
        ))
    }

    fn is_human_readable(&self) -> bool {
        self.content.is_human_readable()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'a, 'de, D: Deserializer<'de>> EnumAccess<'de> for NamedContent<'a, D> {
    type Error = D::Error;
    type Variant = Content<'a, D>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Content<'a, D>), D::Error> {
        self.name_match.set(NameMatch::Unknown);
        let name: StrDeserializer<'_, D::Error> = self.name.into_deserializer();
        let variant = seed.deserialize(name)?;
        self.name_match.set(NameMatch::Known);
        let content = Content {
            name_match: self.name_match,
            content: self.content,
        };
        Ok((variant, content))
    }
}

/// The content of a variant whose name matched.
struct Content<'a, D> {
    name_match: &'a Cell<NameMatch>,
    content: D,
}

impl<'de, D: Deserializer<'de>> VariantAccess<'de> for Content<'_, D> {
    type Error = D::Error;

    fn unit_variant(self) -> Result<(), D::Error> {
        self.name_match.set(NameMatch::Unit);
        IgnoredAny::deserialize(self.content).map(drop)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, D::Error> {
        seed.deserialize(self.content)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.content.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.content.deserialize_struct("", fields, visitor)
    }
}
