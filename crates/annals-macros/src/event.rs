//! `#[derive(EntityEvent)]`: the impls, and the function bodies for structs.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Fields, Result};

use crate::attributes::Shape;
use crate::attributes::{Attributes, Target};
use crate::serde_attributes::SerdeAttributes;
use crate::stored::{Encoded, refuse_union, with_bounds};
use crate::variants;

/// The bodies of the two functions, and their bounds.
pub(crate) struct Bodies {
    pub(crate) to_event: TokenStream,
    pub(crate) from_event: TokenStream,
    /// Where predicates.
    pub(crate) bounds: Vec<TokenStream>,
}

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    refuse_union(input)?;
    let attributes = Attributes::read(&input.attrs, Target::Event)?;
    let Bodies {
        to_event,
        from_event,
        mut bounds,
    } = match &input.data {
        Data::Enum(data) => variants::derive(input, data, &attributes)?,
        Data::Struct(data) => derive_struct(input, &data.fields, &attributes)?,
        Data::Union(_) => return Ok(TokenStream::new()),
    };
    bounds.push(quote!(Self: ::core::marker::Send + ::core::marker::Sync + 'static));
    let name = &input.ident;
    let event_of = event_of(input, &attributes);
    let generics = with_bounds(&input.generics, bounds);
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

        #event_of
    })
}

/// The impls of `EventOf`: for the entities that are named, or for any.
fn event_of(input: &DeriveInput, attributes: &Attributes) -> TokenStream {
    let name = &input.ident;
    let mut generics = input.generics.clone();
    if !attributes.entities.is_empty() {
        let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
        let entities = &attributes.entities;
        return quote! {
            #(
                #[automatically_derived]
                impl #impl_generics ::annals::entity::EventOf<#entities> for #name #ty_generics
                #where_clause {}
            )*
        };
    }
    let (_, ty_generics, _) = input.generics.split_for_impl();
    generics.params.push(syn::parse_quote! {
        __Entity: ::annals::entity::Entity<Event = #name #ty_generics>
    });
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics ::annals::entity::EventOf<__Entity> for #name #ty_generics
        #where_clause {}
    }
}

fn derive_struct(input: &DeriveInput, fields: &Fields, attributes: &Attributes) -> Result<Bodies> {
    let format = attributes.format.clone().unwrap_or_default();
    let codec = format.codec();
    let shape = Shape {
        of_type: attributes,
        own: &Attributes::default(),
        is_catch_all: false,
    };
    let shape = shape.tokens();
    let serde = SerdeAttributes::read(&input.attrs);
    let ident = || input.ident.to_string();
    if !format.is_serde() {
        let name = attributes
            .name
            .as_ref()
            .map_or_else(ident, syn::LitStr::value);
        let aliases = &attributes.aliases;
        let Encoded {
            ty,
            content,
            rebuild,
        } = Encoded::new(input, fields, &format)?;
        return Ok(Bodies {
            to_event: quote! {
                ::annals::entity::__private::write_value::<#codec, _>(#content, #name, #shape)
            },
            from_event: quote! {
                let names: &[&::core::primitive::str] = &[#name, #(#aliases),*];
                let value = ::annals::entity::__private::read_value::<#codec, _>(event, names, #shape)?;
                ::core::result::Result::Ok(value.map(#rebuild))
            },
            bounds: vec![quote!(#codec: ::annals::entity::codec::ValueCodec<#ty>)],
        });
    }
    attributes.check_unnamed()?;
    let written = serde.renamed("serialize").unwrap_or_else(ident);
    let read = serde.renamed("deserialize").unwrap_or_else(ident);
    let is_converted = ["from", "try_from", "into"]
        .iter()
        .any(|name| serde.has(name));
    let bounds = vec![quote!(Self: ::annals::entity::__private::Serde)];
    if matches!(fields, Fields::Unit) && !is_converted {
        return Ok(Bodies {
            to_event: quote! {
                ::annals::entity::__private::write_unit::<#codec>(#written, #shape)
            },
            from_event: quote! {
                ::annals::entity::__private::read_unit::<#codec, _>(event, &[#read], #shape)
            },
            bounds,
        });
    }
    Ok(Bodies {
        to_event: quote! {
            ::annals::entity::__private::write_value::<#codec, _>(self, #written, #shape)
        },
        from_event: quote! {
            ::annals::entity::__private::read_value::<#codec, _>(event, &[#read], #shape)
        },
        bounds,
    })
}
