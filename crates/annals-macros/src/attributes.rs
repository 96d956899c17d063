//! The attributes `#[event(…)]` and `#[stored(…)]`, and what they become in derived code.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, LitInt, LitStr, Result, Token, Type, parenthesized};

use crate::format::Format;

/// What an attribute is attached to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// An event type.
    Event,
    /// A variant of an event type.
    Variant,
    /// A state type.
    Stored,
}

impl Target {
    fn attribute(self) -> &'static str {
        match self {
            Self::Event | Self::Variant => "event",
            Self::Stored => "stored",
        }
    }

    fn known_keys(self) -> &'static str {
        match self {
            Self::Event => {
                "the keys are `entity`, `format`, `codec`, `name`, `alias`, `schema` and `tags`"
            }
            Self::Variant => {
                "the keys are `format`, `codec`, `name`, `alias`, `schema`, `tags` and `raw`"
            }
            Self::Stored => "the keys are `format`, `codec`, `name`, `alias` and `schema`",
        }
    }
}

/// The parsed attributes of a type or a variant.
#[derive(Default)]
pub(crate) struct Attributes {
    /// The entities whose events these are; none: any.
    pub(crate) entities: Vec<Type>,
    pub(crate) format: Option<Format>,
    /// The codec name to store, if it is not the format's own.
    pub(crate) codec: Option<String>,
    /// The manifest, if serde does not supply it.
    pub(crate) name: Option<LitStr>,
    pub(crate) aliases: Vec<LitStr>,
    pub(crate) schema: Option<u32>,
    pub(crate) tags: Vec<String>,
    /// The variant holds unknown events as they are stored.
    pub(crate) raw: Option<Span>,
    /// The first key besides `raw`.
    first: Option<Span>,
}

impl Attributes {
    pub(crate) fn read(attributes: &[Attribute], target: Target) -> Result<Self> {
        let mut read = Self::default();
        for attribute in attributes {
            if attribute.path().is_ident(target.attribute()) {
                attribute.parse_nested_meta(|meta| read.add(&meta, target))?;
            }
        }
        Ok(read)
    }

    fn add(&mut self, meta: &ParseNestedMeta<'_>, target: Target) -> Result<()> {
        let key = meta.path.get_ident().map(ToString::to_string);
        let span = meta.path.get_ident().map(proc_macro2::Ident::span);
        match key.as_deref() {
            Some("entity") if target == Target::Event => self.entities.push(meta.value()?.parse()?),
            Some("format") => {
                let format = Format::parse(meta.value()?)?;
                set_once(&mut self.format, format, meta)?;
            }
            Some("codec") => {
                let codec: LitStr = meta.value()?.parse()?;
                set_once(&mut self.codec, codec.value(), meta)?;
            }
            Some("name") => set_once(&mut self.name, meta.value()?.parse()?, meta)?,
            Some("alias") => self.aliases.push(meta.value()?.parse()?),
            Some("schema") => {
                let schema: LitInt = meta.value()?.parse()?;
                set_once(&mut self.schema, schema.base10_parse()?, meta)?;
            }
            Some("tags") if target != Target::Stored => {
                let tags;
                parenthesized!(tags in meta.input);
                let tags = tags.parse_terminated(|tag| tag.parse::<LitStr>(), Token![,])?;
                self.tags.extend(tags.iter().map(LitStr::value));
            }
            Some("raw") if target == Target::Variant => self.raw = span,
            _ => return Err(meta.error(format!("unknown key; {}", target.known_keys()))),
        }
        if key.as_deref() != Some("raw") {
            self.first = self.first.or(span);
        }
        Ok(())
    }

    /// Refuse a name if serde supplies it.
    pub(crate) fn check_unnamed(&self) -> Result<()> {
        match self.name.iter().chain(&self.aliases).next() {
            None => Ok(()),
            Some(name) => Err(Error::new(
                name.span(),
                "serde supplies the names here; use `#[serde(rename = …)]` or `#[serde(alias = …)]`",
            )),
        }
    }

    /// Refuse every key but `raw`.
    pub(crate) fn check_only_raw(&self) -> Result<()> {
        match self.first {
            None => Ok(()),
            Some(span) => Err(Error::new(
                span,
                "a raw variant is written as it was stored; remove the other keys",
            )),
        }
    }

    /// The stored codec name, in derived code.
    pub(crate) fn codec_name(&self) -> TokenStream {
        match &self.codec {
            Some(codec) => quote!(::core::option::Option::Some(#codec)),
            None => quote!(::core::option::Option::None),
        }
    }
}

fn set_once<T>(slot: &mut Option<T>, value: T, meta: &ParseNestedMeta<'_>) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error("duplicate key")),
    }
}

/// The attributes of an event in derived code: those of a variant override those of the type.
pub(crate) struct Shape<'a> {
    pub(crate) of_type: &'a Attributes,
    pub(crate) own: &'a Attributes,
    pub(crate) is_catch_all: bool,
}

impl Shape<'_> {
    /// Which attributes name the codec. A variant with its own format does not inherit the type's
    /// codec name.
    pub(crate) fn codec_source(&self) -> &Attributes {
        match self.own.format.is_some() || self.own.codec.is_some() {
            true => self.own,
            false => self.of_type,
        }
    }

    pub(crate) fn tokens(&self) -> TokenStream {
        let schema = self.own.schema.or(self.of_type.schema).unwrap_or_default();
        let is_catch_all = self.is_catch_all;
        let codec = self.codec_source().codec_name();
        let tags = self.of_type.tags.iter().chain(&self.own.tags);
        quote! {
            ::annals::entity::__private::Shape {
                schema: #schema,
                is_catch_all: #is_catch_all,
                codec: #codec,
                tags: &[#(#tags),*],
            }
        }
    }
}
