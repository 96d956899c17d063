//! `#[derive(EntityEvent)]`: what is around the two functions, and structs.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Fields, Result};

use crate::attributes::{Place, Said};
use crate::serde::Serde;
use crate::shape::Shape;
use crate::stored::{bounded, newtype, refuse_union};
use crate::variants;

/// The bodies of the two functions, and what must hold for them.
pub(crate) struct Bodies {
    pub(crate) to_event: TokenStream,
    pub(crate) from_event: TokenStream,
    /// Predicates of a `where`.
    pub(crate) needs: Vec<TokenStream>,
}

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    refuse_union(input)?;
    let said = Said::read(&input.attrs, Place::Event)?;
    let Bodies {
        to_event,
        from_event,
        mut needs,
    } = match &input.data {
        Data::Enum(data) => variants::derive(input, data, &said)?,
        Data::Struct(data) => of_struct(input, &data.fields, &said)?,
        Data::Union(_) => return Ok(TokenStream::new()),
    };
    needs.push(quote!(Self: ::core::marker::Send + ::core::marker::Sync + 'static));
    let name = &input.ident;
    let generics = bounded(&input.generics, needs);
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

fn of_struct(input: &DeriveInput, fields: &Fields, said: &Said) -> Result<Bodies> {
    let format = said.format.clone().unwrap_or_default();
    let codec = format.codec();
    let shape = Shape {
        of_all: said,
        own: &Said::default(),
        is_catch_all: false,
    };
    let shape = shape.tokens();
    let serde = Serde::read(&input.attrs);
    let own = || input.ident.to_string();
    if !format.is_serde() {
        let name = said.name.as_ref().map_or_else(own, syn::LitStr::value);
        let aliases = &said.aliases;
        let (of, content, made) = newtype(input, fields, &format)?;
        return Ok(Bodies {
            to_event: quote! {
                ::annals::entity::__private::write_value::<#codec, _>(#content, #name, #shape)
            },
            from_event: quote! {
                let names: &[&::core::primitive::str] = &[#name, #(#aliases),*];
                let value = ::annals::entity::__private::read_value::<#codec, _>(event, names, #shape)?;
                ::core::result::Result::Ok(value.map(#made))
            },
            needs: vec![quote!(#codec: ::annals::entity::codec::ValueCodec<#of>)],
        });
    }
    said.check_nameless()?;
    let written = serde.renamed("serialize").unwrap_or_else(own);
    let read = serde.renamed("deserialize").unwrap_or_else(own);
    let is_another = ["from", "try_from", "into"]
        .iter()
        .any(|name| serde.says(name));
    let needs = vec![quote!(Self: ::annals::entity::__private::Serde)];
    if matches!(fields, Fields::Unit) && !is_another {
        return Ok(Bodies {
            to_event: quote! {
                ::annals::entity::__private::write_unit::<#codec>(#written, #shape)
            },
            from_event: quote! {
                ::annals::entity::__private::read_unit::<#codec, _>(event, &[#read], #shape)
            },
            needs,
        });
    }
    Ok(Bodies {
        to_event: quote! {
            ::annals::entity::__private::write_value::<#codec, _>(self, #written, #shape)
        },
        from_event: quote! {
            ::annals::entity::__private::read_value::<#codec, _>(event, &[#read], #shape)
        },
        needs,
    })
}
