//! `#[derive(EntityEvent)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DataEnum, DeriveInput, Fields, Result};

use crate::attributes::{Place, Said};
use crate::serde::Serde;
use crate::stored::{bounded, refuse_union};

/// The bodies of the two functions.
struct Bodies {
    to_event: TokenStream,
    from_event: TokenStream,
}

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    refuse_union(input)?;
    let said = Said::read(&input.attrs, Place::Event)?;
    let Bodies {
        to_event,
        from_event,
    } = match &input.data {
        Data::Enum(data) => of_enum(input, data, &said)?,
        Data::Struct(data) => of_struct(input, &data.fields, &said),
        Data::Union(_) => return Ok(TokenStream::new()),
    };
    let name = &input.ident;
    let bound = quote! {
        ::annals::entity::__private::Serde
            + ::core::marker::Send + ::core::marker::Sync + 'static
    };
    let generics = bounded(&input.generics, bound);
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        #[allow(deprecated, unreachable_code)]
        impl #impl_generics ::annals::entity::EntityEvent for #name #ty_generics #where_clause {
            fn to_event(&self) -> ::annals::Result<::annals::NewEvent> {
                #to_event
            }

            fn from_event(
                event: &::annals::NewEvent,
            ) -> ::annals::Result<::core::option::Option<Self>> {
                #from_event
            }
        }
    })
}

fn of_enum(input: &DeriveInput, data: &DataEnum, said: &Said) -> Result<Bodies> {
    Serde::read(&input.attrs).check_tagged_outside()?;
    let mut arms = TokenStream::new();
    for variant in &data.variants {
        let serde = Serde::read(&variant.attrs);
        serde.check_tagged_outside()?;
        let own = Said::read(&variant.attrs, Place::Variant)?;
        let tags = said.tags.iter().chain(&own.tags);
        let schema = own.schema.or(said.schema).unwrap_or_default();
        let shape = shape(schema, tags, serde.says("other"));
        let name = &variant.ident;
        arms.extend(quote!(Self::#name { .. } => #shape,));
    }
    let format = said.format.unwrap_or_default().path();
    Ok(Bodies {
        to_event: quote! {
            let shape = match *self { #arms };
            ::annals::entity::__private::write_variant(self, #format, shape)
        },
        from_event: quote! {
            ::annals::entity::__private::read_variant(event, |value: &Self| match *value { #arms })
        },
    })
}

fn of_struct(input: &DeriveInput, fields: &Fields, said: &Said) -> Bodies {
    let serde = Serde::read(&input.attrs);
    let own = || input.ident.to_string();
    let written = serde.renamed("serialize").unwrap_or_else(own);
    let read = serde.renamed("deserialize").unwrap_or_else(own);
    let format = said.format.unwrap_or_default().path();
    let shape = shape(said.schema.unwrap_or_default(), said.tags.iter(), false);
    let is_another = ["from", "try_from", "into"]
        .iter()
        .any(|name| serde.says(name));
    if matches!(fields, Fields::Unit) && !is_another {
        return Bodies {
            to_event: quote! {
                ::annals::entity::__private::write_unit(#written, #format, #shape)
            },
            from_event: quote!(::annals::entity::__private::read_unit(event, #read, #shape)),
        };
    }
    Bodies {
        to_event: quote! {
            ::annals::entity::__private::write_struct(self, #written, #format, #shape)
        },
        from_event: quote!(::annals::entity::__private::read_struct(event, #read, #shape)),
    }
}

/// What derived code says of an event besides its content.
fn shape<'a>(
    schema: u32,
    tags: impl Iterator<Item = &'a String>,
    is_catch_all: bool,
) -> TokenStream {
    quote! {
        ::annals::entity::__private::Shape {
            schema: #schema,
            is_catch_all: #is_catch_all,
            tags: &[#(#tags),*],
        }
    }
}
