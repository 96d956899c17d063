//! A serializer that captures a variant's name and writes only its content.

use std::cell::Cell;
use std::fmt::Display;

use serde::Serialize;
use serde::ser::{
    Impossible, SerializeMap, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleVariant, Serializer,
};

/// Puts the variant's name into `name` and its content into `content`.
pub(super) struct VariantSerializer<'a, S> {
    pub(super) name: &'a Cell<Option<&'static str>>,
    pub(super) content: S,
}

/// The fields of a variant.
pub(super) struct Fields<F>(F);

impl<F: SerializeTuple> SerializeTupleVariant for Fields<F> {
    type Ok = F::Ok;
    type Error = F::Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), F::Error> {
        self.0.serialize_element(value)
    }

    fn end(self) -> Result<F::Ok, F::Error> {
        self.0.end()
    }
}

impl<F: SerializeStruct> SerializeStructVariant for Fields<F> {
    type Ok = F::Ok;
    type Error = F::Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), F::Error> {
        self.0.serialize_field(key, value)
    }

    fn skip_field(&mut self, key: &'static str) -> Result<(), F::Error> {
        self.0.skip_field(key)
    }

    fn end(self) -> Result<F::Ok, F::Error> {
        self.0.end()
    }
}

/// Methods for values that are not variants.
macro_rules! not_a_variant {
    ($($method:ident($($value:ty),*) -> $ok:ty;)*) => {$(
        fn $method(self, $(_: $value),*) -> Result<$ok, S::Error> {
            Err(not_a_variant())
        }
    )*};
}

fn not_a_variant<E: serde::ser::Error>() -> E {
    E::custom("the value is not a variant of an externally tagged enum")
}

impl<S: Serializer> Serializer for VariantSerializer<'_, S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Impossible<S::Ok, S::Error>;
    type SerializeTuple = Impossible<S::Ok, S::Error>;
    type SerializeTupleStruct = Impossible<S::Ok, S::Error>;
    type SerializeTupleVariant = Fields<S::SerializeTuple>;
    type SerializeMap = Impossible<S::Ok, S::Error>;
    type SerializeStruct = Impossible<S::Ok, S::Error>;
    type SerializeStructVariant = Fields<S::SerializeStruct>;

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<S::Ok, S::Error> {
        self.name.set(Some(variant));
        self.content.serialize_map(Some(0))?.end()
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        self.name.set(Some(variant));
        value.serialize(self.content)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        self.name.set(Some(variant));
        Ok(Fields(self.content.serialize_tuple(len)?))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        self.name.set(Some(variant));
        Ok(Fields(self.content.serialize_struct(variant, len)?))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<S::Ok, S::Error> {
        Err(not_a_variant())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: &T,
    ) -> Result<S::Ok, S::Error> {
        Err(not_a_variant())
    }

    fn collect_str<T: Display + ?Sized>(self, _: &T) -> Result<S::Ok, S::Error> {
        Err(not_a_variant())
    }

    fn is_human_readable(&self) -> bool {
        self.content.is_human_readable()
    }

    not_a_variant! {
        serialize_bool(bool) -> S::Ok;
        serialize_i8(i8) -> S::Ok;
        serialize_i16(i16) -> S::Ok;
        serialize_i32(i32) -> S::Ok;
        serialize_i64(i64) -> S::Ok;
        serialize_i128(i128) -> S::Ok;
        serialize_u8(u8) -> S::Ok;
        serialize_u16(u16) -> S::Ok;
        serialize_u32(u32) -> S::Ok;
        serialize_u64(u64) -> S::Ok;
        serialize_u128(u128) -> S::Ok;
        serialize_f32(f32) -> S::Ok;
        serialize_f64(f64) -> S::Ok;
        serialize_char(char) -> S::Ok;
        serialize_str(&str) -> S::Ok;
        serialize_bytes(&[u8]) -> S::Ok;
        serialize_none() -> S::Ok;
        serialize_unit() -> S::Ok;
        serialize_unit_struct(&'static str) -> S::Ok;
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_map(Option<usize>) -> Self::SerializeMap;
        serialize_struct(&'static str, usize) -> Self::SerializeStruct;
    }
}
