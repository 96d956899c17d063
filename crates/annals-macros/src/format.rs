//! Formats: how derived code encodes a value.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::ParseStream;
use syn::{LitStr, Result, Type};

/// How a value is encoded.
#[derive(Clone, Default)]
pub(crate) enum Format {
    #[default]
    Json,
    Cbor,
    Protobuf,
    Text,
    Bytes,
    /// The application's codec.
    Custom(Box<Type>),
}

impl Format {
    /// Parse a format name in quotes, or the type of a codec.
    pub(crate) fn parse(input: ParseStream<'_>) -> Result<Self> {
        if !input.peek(LitStr) {
            return Ok(Self::Custom(input.parse()?));
        }
        let name: LitStr = input.parse()?;
        match name.value().as_str() {
            "json" => Ok(Self::Json),
            "cbor" => Ok(Self::Cbor),
            "protobuf" => Ok(Self::Protobuf),
            "text" => Ok(Self::Text),
            "bytes" => Ok(Self::Bytes),
            _ => Err(syn::Error::new(
                name.span(),
                "unknown format; use `json`, `cbor`, `protobuf`, `text` or `bytes`, or the type of \
                 your own codec without quotes",
            )),
        }
    }

    /// Whether serde encodes it and supplies the names.
    pub(crate) fn is_serde(&self) -> bool {
        matches!(self, Self::Json | Self::Cbor)
    }

    /// Whether the field of a newtype is encoded, not the newtype.
    pub(crate) fn encodes_field(&self) -> bool {
        matches!(self, Self::Text | Self::Bytes)
    }

    /// The `ValueCodec` in derived code.
    pub(crate) fn codec(&self) -> TokenStream {
        match self {
            Self::Json => quote!(::annals::entity::codec::Json),
            Self::Cbor => quote!(::annals::entity::codec::Cbor),
            Self::Protobuf => quote!(::annals::entity::codec::Protobuf),
            Self::Text => quote!(::annals::entity::codec::Text),
            Self::Bytes => quote!(::annals::entity::codec::Bytes),
            Self::Custom(codec) => quote!(#codec),
        }
    }

    /// The serde format in derived code.
    pub(crate) fn serde(&self) -> TokenStream {
        match self {
            Self::Cbor => quote!(::annals::entity::__private::SerdeFormat::Cbor),
            _ => quote!(::annals::entity::__private::SerdeFormat::Json),
        }
    }
}
