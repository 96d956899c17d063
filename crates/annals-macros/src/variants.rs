//! `#[derive(EntityEvent)]` for enums.
//!
//! There are three kinds of variants: those that serde encodes and names; those that hold one value, which
//! a codec encodes; and the raw one, which holds unknown events as they are stored.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataEnum, DeriveInput, Error, Fields, LitStr, Result, Type, Variant};

use crate::attributes::Shape;
use crate::attributes::{Attributes, Target};
use crate::event::Bodies;
use crate::format::Format;
use crate::serde_attributes::SerdeAttributes;

pub(crate) fn derive(
    input: &DeriveInput,
    data: &DataEnum,
    attributes: &Attributes,
) -> Result<Bodies> {
    let mut parts = Parts::new(input, attributes)?;
    for variant in &data.variants {
        parts.add(variant)?;
    }
    parts.bodies()
}

/// The parts of the derived code.
struct Parts<'a> {
    attributes: &'a Attributes,
    /// Serde renames all variants.
    renames_all: bool,
    /// Match arms of `to_event`, for all variants.
    writing: TokenStream,
    /// Statements of `from_event`, for variants that hold one value.
    reading: TokenStream,
    /// Match arms with the shapes of all variants, for a value that serde has read.
    shapes: TokenStream,
    /// Codec names of variants that serde reads, with the format that wrote them.
    renamed: Vec<(String, TokenStream)>,
    /// The first variant that serde encodes.
    serde: Option<&'a Variant>,
    /// Variants that serde must skip.
    not_serde: Vec<&'a Variant>,
    catch_all: Option<&'a Variant>,
    raw: Option<&'a Variant>,
    names: BTreeSet<String>,
    bounds: Vec<TokenStream>,
}

impl<'a> Parts<'a> {
    fn new(input: &DeriveInput, attributes: &'a Attributes) -> Result<Self> {
        let serde = SerdeAttributes::read(&input.attrs);
        serde.check_externally_tagged()?;
        if let Some(name) = attributes.name.iter().chain(&attributes.aliases).next() {
            let why = "the variants of an enum have their own names; name a variant instead";
            return Err(Error::new(name.span(), why));
        }
        Ok(Self {
            attributes,
            renames_all: serde.has("rename_all"),
            writing: TokenStream::new(),
            reading: TokenStream::new(),
            shapes: TokenStream::new(),
            renamed: Vec::new(),
            serde: None,
            not_serde: Vec::new(),
            catch_all: None,
            raw: None,
            names: BTreeSet::new(),
            bounds: Vec::new(),
        })
    }

    fn add(&mut self, variant: &'a Variant) -> Result<()> {
        let own = Attributes::read(&variant.attrs, Target::Variant)?;
        if own.raw.is_some() {
            return self.add_raw(variant, &own);
        }
        let format = own.format.as_ref().or(self.attributes.format.as_ref());
        match format.cloned().unwrap_or_default() {
            format if format.is_serde() => self.add_serde(variant, &own, &format),
            format => self.add_value(variant, &own, &format),
        }
    }

    fn add_raw(&mut self, variant: &'a Variant, own: &Attributes) -> Result<()> {
        own.check_only_raw()?;
        if self.raw.replace(variant).is_some() {
            return Err(Error::new_spanned(
                &variant.ident,
                "another variant is raw already",
            ));
        }
        if only_field(variant).is_none() {
            let why = "a raw variant holds one unnamed `NewEvent`";
            return Err(Error::new_spanned(&variant.ident, why));
        }
        self.not_serde.push(variant);
        let (name, shape) = (&variant.ident, self.shape(own, true));
        self.shapes.extend(quote!(Self::#name { .. } => #shape,));
        self.writing.extend(quote! {
            Self::#name(ref event) => ::core::result::Result::Ok(::annals::NewEvent::clone(event)),
        });
        Ok(())
    }

    fn shape(&self, own: &Attributes, is_catch_all: bool) -> TokenStream {
        let shape = Shape {
            of_type: self.attributes,
            own,
            is_catch_all,
        };
        shape.tokens()
    }

    fn add_serde(&mut self, variant: &'a Variant, own: &Attributes, format: &Format) -> Result<()> {
        own.check_unnamed()?;
        let serde = SerdeAttributes::read(&variant.attrs);
        serde.check_externally_tagged()?;
        let shape = Shape {
            of_type: self.attributes,
            own,
            is_catch_all: serde.has("other"),
        };
        if shape.is_catch_all {
            self.catch_all = Some(variant);
        }
        self.serde.get_or_insert(variant);
        let path = format.serde();
        if let Some(codec) = &shape.codec_source().codec {
            self.add_renamed(codec, &path, variant)?;
        }
        let shape = shape.tokens();
        let name = &variant.ident;
        self.shapes.extend(quote!(Self::#name { .. } => #shape,));
        self.writing.extend(quote! {
            Self::#name { .. } => ::annals::entity::__private::write_variant(self, #path, #shape),
        });
        Ok(())
    }

    /// Serde's names are not known here, so a codec name stands for one format in all variants.
    fn add_renamed(&mut self, codec: &str, path: &TokenStream, variant: &Variant) -> Result<()> {
        let known = self.renamed.iter().find(|(known, _)| known == codec);
        match known {
            Some((_, other)) if other.to_string() == path.to_string() => Ok(()),
            Some(_) => Err(Error::new_spanned(
                &variant.ident,
                "another variant uses this codec name with another format",
            )),
            None => {
                self.renamed.push((codec.to_owned(), path.clone()));
                Ok(())
            }
        }
    }

    fn add_value(&mut self, variant: &'a Variant, own: &Attributes, format: &Format) -> Result<()> {
        let names = self.names_of(variant, own)?;
        let (ty, binds, content) = match (&variant.fields, only_field(variant)) {
            (_, Some(ty)) => (quote!(#ty), quote!((ref value)), quote!((value))),
            (Fields::Unit, _) if !format.encodes_field() => (quote!(()), quote!(), quote!()),
            _ => {
                let why = "a variant of this format holds one unnamed value";
                return Err(Error::new_spanned(&variant.ident, why));
            }
        };
        self.not_serde.push(variant);
        let (shape, codec, name) = (self.shape(own, false), format.codec(), &variant.ident);
        self.shapes.extend(quote!(Self::#name { .. } => #shape,));
        let (written, value) = match content.is_empty() {
            true => (quote!(&()), quote!(_)),
            false => (quote!(value), quote!(value)),
        };
        let first = names.first();
        self.bounds
            .push(quote!(#codec: ::annals::entity::codec::ValueCodec<#ty>));
        self.writing.extend(quote! {
            Self::#name #binds => {
                ::annals::entity::__private::write_value::<#codec, #ty>(#written, #first, #shape)
            }
        });
        self.reading.extend(quote! {
            if let ::core::option::Option::Some(#value) =
                ::annals::entity::__private::read_value::<#codec, #ty>(event, &[#(#names),*], #shape)?
            {
                return ::core::result::Result::Ok(::core::option::Option::Some(Self::#name #content));
            }
        });
        Ok(())
    }

    /// The manifests of a variant that serde does not name; the first one is written.
    fn names_of(&mut self, variant: &Variant, own: &Attributes) -> Result<Vec<String>> {
        let serde = SerdeAttributes::read(&variant.attrs);
        if let Some(meta) = serde.find("rename").or_else(|| serde.find("alias")) {
            let why = "serde does not encode this variant; use `#[event(name = …)]` or `alias`";
            return Err(Error::new_spanned(meta, why));
        }
        if self.renames_all && own.name.is_none() {
            let why =
                "serde's `rename_all` does not apply to this variant; use `#[event(name = …)]`";
            return Err(Error::new_spanned(&variant.ident, why));
        }
        let ident = || variant.ident.to_string();
        let name = own.name.as_ref().map_or_else(ident, LitStr::value);
        let names = std::iter::once(name).chain(own.aliases.iter().map(LitStr::value));
        let names: Vec<String> = names.collect();
        for name in &names {
            if !self.names.insert(name.clone()) {
                let why = format!("another variant has this name; choose another. name=`{name}`");
                return Err(Error::new_spanned(&variant.ident, why));
            }
        }
        Ok(names)
    }

    fn check(&self) -> Result<()> {
        if let (Some(raw), Some(_)) = (self.raw, self.catch_all) {
            let why = "another variant accepts unknown events already, by `#[serde(other)]`";
            return Err(Error::new_spanned(&raw.ident, why));
        }
        let unskipped = self.not_serde.iter().find(|variant| {
            let is_skipped = SerdeAttributes::read(&variant.attrs).has("skip");
            self.serde.is_some() && !is_skipped
        });
        match unskipped {
            None => Ok(()),
            Some(variant) => Err(Error::new_spanned(
                &variant.ident,
                "serde encodes other variants of this enum but not this one; add `#[serde(skip)]`",
            )),
        }
    }

    fn bodies(mut self) -> Result<Bodies> {
        self.check()?;
        if self.serde.is_some() {
            self.bounds
                .push(quote!(Self: ::annals::entity::__private::Serde));
        }
        let Self {
            writing,
            reading,
            shapes,
            ..
        } = self;
        let renamed = self.renamed.iter();
        let renamed = renamed.map(|(codec, path)| quote!((#codec, #path)));
        let known = self.serde.map(|_| {
            quote! {
                ::annals::entity::__private::read_variant(
                    event,
                    &[#(#renamed),*],
                    |value: &Self| match *value { #shapes },
                )
            }
        });
        let other = self.raw.map(|variant| {
            let name = &variant.ident;
            quote!(Self::#name(::core::convert::From::from(::core::clone::Clone::clone(event))))
        });
        let read = match (known, other) {
            (None, None) => quote!(::core::result::Result::Ok(::core::option::Option::None)),
            (Some(known), None) => known,
            (None, Some(other)) => quote! {
                ::core::result::Result::Ok(::core::option::Option::Some(#other))
            },
            (Some(known), Some(other)) => quote! {
                let known: ::core::option::Option<Self> = #known?;
                ::core::result::Result::Ok(::core::option::Option::Some(
                    known.unwrap_or_else(|| #other),
                ))
            },
        };
        Ok(Bodies {
            to_event: quote!(match *self { #writing }),
            from_event: quote! {
                #reading
                #read
            },
            bounds: self.bounds,
        })
    }
}

/// The type of a variant's only field, if it has one unnamed field.
fn only_field(variant: &Variant) -> Option<&Type> {
    match &variant.fields {
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
            fields.unnamed.first().map(|field| &field.ty)
        }
        _ => None,
    }
}
