//! `#[derive(EntityEvent)]` of enums.
//!
//! Variants are of three kinds: those that serde writes, and names; those that hold one value, which
//! a codec writes; and the one that holds what nobody knows, as it is.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataEnum, DeriveInput, Error, Fields, LitStr, Result, Type, Variant};

use crate::attributes::{Place, Said};
use crate::event::Bodies;
use crate::format::Format;
use crate::serde::Serde;
use crate::shape::Shape;

pub(crate) fn derive(input: &DeriveInput, data: &DataEnum, said: &Said) -> Result<Bodies> {
    let mut parts = Parts::new(input, said)?;
    for variant in &data.variants {
        parts.take(variant)?;
    }
    parts.bodies()
}

/// What derived code is put together from.
struct Parts<'a> {
    said: &'a Said,
    /// Serde gives its variants other names than they have.
    renames_all: bool,
    /// Of `to_event`, all variants.
    writing: TokenStream,
    /// Of `from_event`, those that hold one value, by name.
    reading: TokenStream,
    /// The shapes of all, for what serde has read. Its `from` may make any of them.
    shapes: TokenStream,
    /// Of those that serde reads: what they are recorded as, and how that is read.
    recorded: Vec<(String, TokenStream)>,
    /// The first that serde writes.
    serde: Option<&'a Variant>,
    /// Those that serde must not be asked for.
    apart: Vec<&'a Variant>,
    catch_all: Option<&'a Variant>,
    raw: Option<&'a Variant>,
    names: BTreeSet<String>,
    needs: Vec<TokenStream>,
}

impl<'a> Parts<'a> {
    fn new(input: &DeriveInput, said: &'a Said) -> Result<Self> {
        let serde = Serde::read(&input.attrs);
        serde.check_tagged_outside()?;
        if let Some(name) = said.name.iter().chain(&said.aliases).next() {
            let why = "the variants of an enum have names of their own";
            return Err(Error::new(name.span(), why));
        }
        Ok(Self {
            said,
            renames_all: serde.says("rename_all"),
            writing: TokenStream::new(),
            reading: TokenStream::new(),
            shapes: TokenStream::new(),
            recorded: Vec::new(),
            serde: None,
            apart: Vec::new(),
            catch_all: None,
            raw: None,
            names: BTreeSet::new(),
            needs: Vec::new(),
        })
    }

    fn take(&mut self, variant: &'a Variant) -> Result<()> {
        let own = Said::read(&variant.attrs, Place::Variant)?;
        if own.raw.is_some() {
            return self.take_raw(variant, &own);
        }
        let format = own.format.as_ref().or(self.said.format.as_ref());
        match format.cloned().unwrap_or_default() {
            format if format.is_serde() => self.take_serde(variant, &own, &format),
            format => self.take_value(variant, &own, &format),
        }
    }

    fn take_raw(&mut self, variant: &'a Variant, own: &Said) -> Result<()> {
        own.check_alone()?;
        if self.raw.replace(variant).is_some() {
            return Err(Error::new_spanned(&variant.ident, "another is raw already"));
        }
        if held(variant).is_none() {
            let why = "what is raw holds one `NewEvent`, without a name";
            return Err(Error::new_spanned(&variant.ident, why));
        }
        self.apart.push(variant);
        let (name, shape) = (&variant.ident, self.shape(own, true));
        self.shapes.extend(quote!(Self::#name { .. } => #shape,));
        self.writing.extend(quote! {
            Self::#name(ref event) => ::core::result::Result::Ok(::annals::NewEvent::clone(event)),
        });
        Ok(())
    }

    fn shape(&self, own: &Said, is_catch_all: bool) -> TokenStream {
        let shape = Shape {
            of_all: self.said,
            own,
            is_catch_all,
        };
        shape.tokens()
    }

    fn take_serde(&mut self, variant: &'a Variant, own: &Said, format: &Format) -> Result<()> {
        own.check_nameless()?;
        let serde = Serde::read(&variant.attrs);
        serde.check_tagged_outside()?;
        let shape = Shape {
            of_all: self.said,
            own,
            is_catch_all: serde.says("other"),
        };
        if shape.is_catch_all {
            self.catch_all = Some(variant);
        }
        self.serde.get_or_insert(variant);
        let path = format.serde();
        if let Some(codec) = &shape.coded().codec {
            self.record(codec, &path, variant)?;
        }
        let shape = shape.tokens();
        let name = &variant.ident;
        self.shapes.extend(quote!(Self::#name { .. } => #shape,));
        self.writing.extend(quote! {
            Self::#name { .. } => ::annals::entity::__private::write_variant(self, #path, #shape),
        });
        Ok(())
    }

    /// Serde's names are not known here, so a codec says of all its variants how they are read.
    fn record(&mut self, codec: &str, path: &TokenStream, variant: &Variant) -> Result<()> {
        let known = self.recorded.iter().find(|(known, _)| known == codec);
        match known {
            Some((_, other)) if other.to_string() == path.to_string() => Ok(()),
            Some(_) => Err(Error::new_spanned(
                &variant.ident,
                "another variant is recorded as the same codec in another format",
            )),
            None => {
                self.recorded.push((codec.to_owned(), path.clone()));
                Ok(())
            }
        }
    }

    fn take_value(&mut self, variant: &'a Variant, own: &Said, format: &Format) -> Result<()> {
        let names = self.names_of(variant, own)?;
        let (ty, binds, content) = match (&variant.fields, held(variant)) {
            (_, Some(ty)) => (quote!(#ty), quote!((ref value)), quote!((value))),
            (Fields::Unit, _) if !format.is_inside() => (quote!(()), quote!(), quote!()),
            _ => {
                let why = "a variant of this format holds one value, without a name";
                return Err(Error::new_spanned(&variant.ident, why));
            }
        };
        self.apart.push(variant);
        let (shape, codec, name) = (self.shape(own, false), format.codec(), &variant.ident);
        self.shapes.extend(quote!(Self::#name { .. } => #shape,));
        let (written, value) = match content.is_empty() {
            true => (quote!(&()), quote!(_)),
            false => (quote!(value), quote!(value)),
        };
        let first = names.first();
        self.needs
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

    /// The names of a variant that serde does not name: what it is written under first.
    fn names_of(&mut self, variant: &Variant, own: &Said) -> Result<Vec<String>> {
        let serde = Serde::read(&variant.attrs);
        if let Some(meta) = serde.find("rename").or_else(|| serde.find("alias")) {
            let why = "serde does not write this variant: say `#[event(name = …)]` or `alias`";
            return Err(Error::new_spanned(meta, why));
        }
        if self.renames_all && own.name.is_none() {
            let why = "serde's `rename_all` does not reach this variant: say `#[event(name = …)]`";
            return Err(Error::new_spanned(&variant.ident, why));
        }
        let ident = || variant.ident.to_string();
        let name = own.name.as_ref().map_or_else(ident, LitStr::value);
        let names = std::iter::once(name).chain(own.aliases.iter().map(LitStr::value));
        let names: Vec<String> = names.collect();
        for name in &names {
            if !self.names.insert(name.clone()) {
                let why = format!("another variant is called so already. name=`{name}`");
                return Err(Error::new_spanned(&variant.ident, why));
            }
        }
        Ok(names)
    }

    fn check(&self) -> Result<()> {
        if let (Some(raw), Some(_)) = (self.raw, self.catch_all) {
            let why = "another variant stands for what nobody knows already, by `#[serde(other)]`";
            return Err(Error::new_spanned(&raw.ident, why));
        }
        let asked = self.apart.iter().find(|variant| {
            let is_skipped = Serde::read(&variant.attrs).says("skip");
            self.serde.is_some() && !is_skipped
        });
        match asked {
            None => Ok(()),
            Some(variant) => Err(Error::new_spanned(
                &variant.ident,
                "serde writes others of this enum, and not this one: say `#[serde(skip)]` as well",
            )),
        }
    }

    fn bodies(mut self) -> Result<Bodies> {
        self.check()?;
        if self.serde.is_some() {
            self.needs
                .push(quote!(Self: ::annals::entity::__private::Serde));
        }
        let Self {
            writing,
            reading,
            shapes,
            ..
        } = self;
        let recorded = self.recorded.iter();
        let recorded = recorded.map(|(codec, path)| quote!((#codec, #path)));
        let known = self.serde.map(|_| {
            quote! {
                ::annals::entity::__private::read_variant(
                    event,
                    &[#(#recorded),*],
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
            needs: self.needs,
        })
    }
}

/// What a variant holds, if that is one value without a name.
fn held(variant: &Variant) -> Option<&Type> {
    match &variant.fields {
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
            fields.unnamed.first().map(|field| &field.ty)
        }
        _ => None,
    }
}
