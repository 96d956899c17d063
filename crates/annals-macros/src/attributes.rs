//! Our own attributes: `#[event(…)]` and `#[stored(…)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, LitInt, LitStr, Result, Token, parenthesized};

/// What an attribute may say where it stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On a type of events.
    Event,
    /// On a variant of one.
    Variant,
    /// On a type of states.
    Stored,
}

impl Place {
    fn attribute(self) -> &'static str {
        match self {
            Self::Event | Self::Variant => "event",
            Self::Stored => "stored",
        }
    }

    fn knows(self) -> &'static str {
        match self {
            Self::Event => "there are `format`, `schema` and `tags`",
            Self::Variant => "there are `schema` and `tags`; the format is the whole type's",
            Self::Stored => "there are `format` and `schema`",
        }
    }
}

/// A format that serde writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Json,
    Cbor,
}

impl Format {
    fn parse(name: &LitStr) -> Result<Self> {
        match name.value().as_str() {
            "json" => Ok(Self::Json),
            "cbor" => Ok(Self::Cbor),
            _ => Err(syn::Error::new(name.span(), "a format is `json` or `cbor`")),
        }
    }

    /// The format in derived code.
    pub(crate) fn path(self) -> TokenStream {
        match self {
            Self::Json => quote!(::annals::entity::Format::Json),
            Self::Cbor => quote!(::annals::entity::Format::Cbor),
        }
    }
}

/// What the attributes of one place say.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) format: Option<Format>,
    pub(crate) schema: Option<u32>,
    pub(crate) tags: Vec<String>,
}

impl Said {
    pub(crate) fn read(attributes: &[Attribute], place: Place) -> Result<Self> {
        let mut said = Self::default();
        for attribute in attributes {
            if attribute.path().is_ident(place.attribute()) {
                attribute.parse_nested_meta(|meta| said.take(&meta, place))?;
            }
        }
        Ok(said)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>, place: Place) -> Result<()> {
        if meta.path.is_ident("format") && place != Place::Variant {
            let format = Format::parse(&meta.value()?.parse()?)?;
            return once(&mut self.format, format, meta);
        }
        if meta.path.is_ident("schema") {
            let schema: LitInt = meta.value()?.parse()?;
            return once(&mut self.schema, schema.base10_parse()?, meta);
        }
        if meta.path.is_ident("tags") && place != Place::Stored {
            let tags;
            parenthesized!(tags in meta.input);
            let tags = tags.parse_terminated(|tag| tag.parse::<LitStr>(), Token![,])?;
            self.tags.extend(tags.iter().map(LitStr::value));
            return Ok(());
        }
        Err(meta.error(format!("nobody knows this: {}", place.knows())))
    }
}

fn once<T>(place: &mut Option<T>, value: T, meta: &ParseNestedMeta<'_>) -> Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error("this was said already")),
    }
}
