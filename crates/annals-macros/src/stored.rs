//! `#[derive(Stored)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Generics, Result};

use crate::attributes::{Place, Said};

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    refuse_union(input)?;
    let said = Said::read(&input.attrs, Place::Stored)?;
    let format = said.format.unwrap_or_default().path();
    let schema = said.schema.unwrap_or_default();
    let name = &input.ident;
    let generics = bounded(&input.generics, quote!(::annals::entity::__private::Serde));
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::annals::entity::Stored for #name #ty_generics #where_clause {
            fn to_payload(&self) -> ::annals::Result<::annals::Payload> {
                ::annals::entity::__private::write_stored(self, #format, #schema)
            }

            fn from_payload(payload: &::annals::Payload) -> ::annals::Result<Self> {
                ::annals::entity::__private::read_stored(payload, #schema)
            }
        }
    })
}

/// Unions have no serde.
pub(crate) fn refuse_union(input: &DeriveInput) -> Result<()> {
    match &input.data {
        Data::Union(data) => Err(syn::Error::new(
            data.union_token.span,
            "serde writes no unions: use an enum or a struct",
        )),
        Data::Enum(_) | Data::Struct(_) => Ok(()),
    }
}

/// The generics with what the whole type must be, where that depends on them.
pub(crate) fn bounded(generics: &Generics, bound: TokenStream) -> Generics {
    let mut generics = generics.clone();
    if !generics.params.is_empty() {
        let predicate = syn::parse_quote!(Self: #bound);
        generics.make_where_clause().predicates.push(predicate);
    }
    generics
}
