//! Our own attributes: `#[event(…)]` and `#[stored(…)]`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, LitInt, LitStr, Result, Token, parenthesized};

use crate::format::Format;

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
            Self::Event => "there are `format`, `codec`, `name`, `alias`, `schema` and `tags`",
            Self::Variant => {
                "there are `format`, `codec`, `name`, `alias`, `schema`, `tags` and `raw`"
            }
            Self::Stored => "there are `format`, `codec`, `name`, `alias` and `schema`",
        }
    }
}

/// What the attributes of one place say.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) format: Option<Format>,
    /// What the payload is recorded as, where that is not the format's own.
    pub(crate) codec: Option<String>,
    /// The manifest, where serde does not give it.
    pub(crate) name: Option<LitStr>,
    pub(crate) aliases: Vec<LitStr>,
    pub(crate) schema: Option<u32>,
    pub(crate) tags: Vec<String>,
    /// Where it says that what nobody knows is kept as it is.
    pub(crate) raw: Option<Span>,
    /// The first thing said.
    first: Option<Span>,
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
        let word = meta.path.get_ident().map(ToString::to_string);
        let span = meta.path.get_ident().map(proc_macro2::Ident::span);
        match word.as_deref() {
            Some("format") => {
                let format = Format::parse(meta.value()?)?;
                once(&mut self.format, format, meta)?;
            }
            Some("codec") => {
                let codec: LitStr = meta.value()?.parse()?;
                once(&mut self.codec, codec.value(), meta)?;
            }
            Some("name") => once(&mut self.name, meta.value()?.parse()?, meta)?,
            Some("alias") => self.aliases.push(meta.value()?.parse()?),
            Some("schema") => {
                let schema: LitInt = meta.value()?.parse()?;
                once(&mut self.schema, schema.base10_parse()?, meta)?;
            }
            Some("tags") if place != Place::Stored => {
                let tags;
                parenthesized!(tags in meta.input);
                let tags = tags.parse_terminated(|tag| tag.parse::<LitStr>(), Token![,])?;
                self.tags.extend(tags.iter().map(LitStr::value));
            }
            Some("raw") if place == Place::Variant => self.raw = span,
            _ => return Err(meta.error(format!("nobody knows this: {}", place.knows()))),
        }
        if word.as_deref() != Some("raw") {
            self.first = self.first.or(span);
        }
        Ok(())
    }

    /// Refuses a name where serde gives it.
    pub(crate) fn check_nameless(&self) -> Result<()> {
        match self.name.iter().chain(&self.aliases).next() {
            None => Ok(()),
            Some(name) => Err(Error::new(
                name.span(),
                "serde gives the names here: `#[serde(rename = …)]`, `#[serde(alias = …)]`",
            )),
        }
    }

    /// Refuses everything but `raw`.
    pub(crate) fn check_alone(&self) -> Result<()> {
        match self.first {
            None => Ok(()),
            Some(span) => Err(Error::new(
                span,
                "what is raw is written as it was, whatever is said here",
            )),
        }
    }

    /// The codec that is recorded, in derived code.
    pub(crate) fn recorded(&self) -> TokenStream {
        match &self.codec {
            Some(codec) => quote!(::core::option::Option::Some(#codec)),
            None => quote!(::core::option::Option::None),
        }
    }
}

fn once<T>(place: &mut Option<T>, value: T, meta: &ParseNestedMeta<'_>) -> Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error("this was said already")),
    }
}
