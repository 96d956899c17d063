//! The way back: a deserializer that takes the variant's name from outside and its content from the
//! payload, and remembers whether a variant has the name.

use std::cell::Cell;
use std::marker::PhantomData;

use serde::de::value::StrDeserializer;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error as _, IgnoredAny,
    IntoDeserializer, VariantAccess, Visitor,
};

/// What was seen of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// Nobody asked for it.
    Unasked,
    /// No variant has it.
    Unknown,
    /// A variant has it.
    Known,
    /// A variant without content has it.
    Bare,
}

/// Reads a variant of this name.
pub(super) struct Reading<'a, T> {
    name: &'a str,
    sight: &'a Cell<Sight>,
    value: PhantomData<T>,
}

impl<'a, T> Reading<'a, T> {
    pub(super) fn new(name: &'a str, sight: &'a Cell<Sight>) -> Self {
        Self {
            name,
            sight,
            value: PhantomData,
        }
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Reading<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, content: D) -> Result<T, D::Error> {
        T::deserialize(Named {
            name: self.name,
            sight: self.sight,
            content,
        })
    }
}

/// Content with a name.
struct Named<'a, D> {
    name: &'a str,
    sight: &'a Cell<Sight>,
    content: D,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Named<'_, D> {
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
            "it is no enum that serde tags from outside",
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

impl<'a, 'de, D: Deserializer<'de>> EnumAccess<'de> for Named<'a, D> {
    type Error = D::Error;
    type Variant = Content<'a, D>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Content<'a, D>), D::Error> {
        self.sight.set(Sight::Unknown);
        let name: StrDeserializer<'_, D::Error> = self.name.into_deserializer();
        let variant = seed.deserialize(name)?;
        self.sight.set(Sight::Known);
        let content = Content {
            sight: self.sight,
            content: self.content,
        };
        Ok((variant, content))
    }
}

/// The content of a variant that is known.
struct Content<'a, D> {
    sight: &'a Cell<Sight>,
    content: D,
}

impl<'de, D: Deserializer<'de>> VariantAccess<'de> for Content<'_, D> {
    type Error = D::Error;

    fn unit_variant(self) -> Result<(), D::Error> {
        self.sight.set(Sight::Bare);
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
