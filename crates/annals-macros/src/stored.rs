//! `#[derive(Stored)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Generics, Result};

use crate::attributes::{Place, Said};
use crate::format::Format;

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    refuse_union(input)?;
    let said = Said::read(&input.attrs, Place::Stored)?;
    let format = said.format.clone().unwrap_or_default();
    let (codec, recorded) = (format.codec(), said.recorded());
    let schema = said.schema.unwrap_or_default();
    let names = said.name.iter().chain(&said.aliases);
    let shape = quote! {
        ::annals::entity::__private::StoredShape {
            schema: #schema,
            codec: #recorded,
            names: &[#(#names),*],
        }
    };
    if let (None, Some(alias)) = (&said.name, said.aliases.first()) {
        let why = "an alias is beside a name, and no name is said";
        return Err(Error::new(alias.span(), why));
    }
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(_) | Data::Union(_) => &Fields::Unit,
    };
    let (of, content, made) = newtype(input, fields, &format)?;
    let need = match format.is_serde() {
        true => quote!(Self: ::annals::entity::__private::Serde),
        false => quote!(#codec: ::annals::entity::codec::ValueCodec<#of>),
    };
    let name = &input.ident;
    let generics = bounded(&input.generics, vec![need]);
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::annals::entity::Stored for #name #ty_generics #where_clause {
            fn to_payload(&self) -> ::annals::Result<::annals::Payload> {
                ::annals::entity::__private::write_stored::<#codec, _>(#content, #shape)
            }

            fn from_payload(payload: &::annals::Payload) -> ::annals::Result<Self> {
                let value = ::annals::entity::__private::read_stored::<#codec, _>(payload, #shape);
                value.map(#made)
            }
        }
    })
}

/// What a codec writes of a type, how it is reached from `self`, and how it becomes the type again:
/// the type itself, or the only field of a newtype.
pub(crate) fn newtype(
    input: &DeriveInput,
    fields: &Fields,
    format: &Format,
) -> Result<(TokenStream, TokenStream, TokenStream)> {
    if !format.is_inside() {
        let itself = quote!(::core::convert::identity::<Self>);
        return Ok((quote!(Self), quote!(self), itself));
    }
    match fields {
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
            let of = fields.unnamed.first().map(|field| &field.ty);
            Ok((quote!(#of), quote!(&self.0), quote!(Self)))
        }
        _ => Err(Error::new_spanned(
            &input.ident,
            "a type of this format is a struct of one field without a name",
        )),
    }
}

/// Unions have no serde.
pub(crate) fn refuse_union(input: &DeriveInput) -> Result<()> {
    match &input.data {
        Data::Union(data) => Err(Error::new(
            data.union_token.span,
            "serde writes no unions: use an enum or a struct",
        )),
        Data::Enum(_) | Data::Struct(_) => Ok(()),
    }
}

/// The generics with what must hold, where that depends on them.
pub(crate) fn bounded(generics: &Generics, needs: Vec<TokenStream>) -> Generics {
    let mut generics = generics.clone();
    if !generics.params.is_empty() {
        let needs = needs
            .into_iter()
            .map(|need| -> syn::WherePredicate { syn::parse_quote!(#need) });
        generics.make_where_clause().predicates.extend(needs);
    }
    generics
}
