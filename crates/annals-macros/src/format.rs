//! Formats: how derived code writes a value.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::ParseStream;
use syn::{LitStr, Result, Type};

/// How a value is written.
#[derive(Clone, Default)]
pub(crate) enum Format {
    #[default]
    Json,
    Cbor,
    Protobuf,
    Text,
    Bytes,
    /// A codec of the application's own.
    Own(Box<Type>),
}

impl Format {
    /// A name in quotes, or the type of a codec.
    pub(crate) fn parse(input: ParseStream<'_>) -> Result<Self> {
        if !input.peek(LitStr) {
            return Ok(Self::Own(input.parse()?));
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
                "a format is `json`, `cbor`, `protobuf`, `text` or `bytes`, or the type of a codec \
                 of your own, without quotes",
            )),
        }
    }

    /// Whether serde writes it, and so gives the names.
    pub(crate) fn is_serde(&self) -> bool {
        matches!(self, Self::Json | Self::Cbor)
    }

    /// Whether it is what a newtype holds that is written, and not the newtype.
    pub(crate) fn is_inside(&self) -> bool {
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
            Self::Own(codec) => quote!(#codec),
        }
    }

    /// The format of serde in derived code.
    pub(crate) fn serde(&self) -> TokenStream {
        match self {
            Self::Cbor => quote!(::annals::entity::Format::Cbor),
            _ => quote!(::annals::entity::Format::Json),
        }
    }
}
