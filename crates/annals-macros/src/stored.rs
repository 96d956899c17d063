//! `#[derive(Stored)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Generics, Result};

use crate::attributes::{Attributes, Target};
use crate::format::Format;

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    refuse_union(input)?;
    let attributes = Attributes::read(&input.attrs, Target::Stored)?;
    let format = attributes.format.clone().unwrap_or_default();
    let (codec, codec_name) = (format.codec(), attributes.codec_name());
    let schema = attributes.schema.unwrap_or_default();
    let names = attributes.name.iter().chain(&attributes.aliases);
    let shape = quote! {
        ::annals::entity::__private::StoredShape {
            schema: #schema,
            codec: #codec_name,
            names: &[#(#names),*],
        }
    };
    if let (None, Some(alias)) = (&attributes.name, attributes.aliases.first()) {
        let why = "an alias needs a name; add `name = …`";
        return Err(Error::new(alias.span(), why));
    }
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(_) | Data::Union(_) => &Fields::Unit,
    };
    let Encoded {
        ty,
        content,
        rebuild,
    } = Encoded::new(input, fields, &format)?;
    let bound = match format.is_serde() {
        true => quote!(Self: ::annals::entity::__private::Serde),
        false => quote!(#codec: ::annals::entity::codec::ValueCodec<#ty>),
    };
    let name = &input.ident;
    let generics = with_bounds(&input.generics, vec![bound]);
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::annals::entity::Stored for #name #ty_generics #where_clause {
            fn to_payload(&self) -> ::annals::Result<::annals::Payload> {
                ::annals::entity::__private::write_stored::<#codec, _>(#content, #shape)
            }

            fn from_payload(payload: &::annals::Payload) -> ::annals::Result<Self> {
                let value = ::annals::entity::__private::read_stored::<#codec, _>(payload, #shape);
                value.map(#rebuild)
            }
        }
    })
}

/// What a codec encodes of a type: the type itself, or the only field of a newtype.
pub(crate) struct Encoded {
    pub(crate) ty: TokenStream,
    /// How to reach it from `self`.
    pub(crate) content: TokenStream,
    /// The function that makes the type of it again.
    pub(crate) rebuild: TokenStream,
}

impl Encoded {
    pub(crate) fn new(input: &DeriveInput, fields: &Fields, format: &Format) -> Result<Self> {
        if !format.encodes_field() {
            return Ok(Self {
                ty: quote!(Self),
                content: quote!(self),
                rebuild: quote!(::core::convert::identity::<Self>),
            });
        }
        match fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                let field = fields.unnamed.first().map(|field| &field.ty);
                Ok(Self {
                    ty: quote!(#field),
                    content: quote!(&self.0),
                    rebuild: quote!(Self),
                })
            }
            _ => Err(Error::new_spanned(
                &input.ident,
                "this format needs a newtype: a struct with one unnamed field",
            )),
        }
    }
}

/// Refuse unions: serde does not support them.
pub(crate) fn refuse_union(input: &DeriveInput) -> Result<()> {
    match &input.data {
        Data::Union(data) => Err(Error::new(
            data.union_token.span,
            "unions cannot be stored; use an enum or a struct",
        )),
        Data::Enum(_) | Data::Struct(_) => Ok(()),
    }
}

/// The generics with bounds, if there are type parameters that these depend on.
pub(crate) fn with_bounds(generics: &Generics, bounds: Vec<TokenStream>) -> Generics {
    let mut generics = generics.clone();
    if !generics.params.is_empty() {
        let bounds = bounds
            .into_iter()
            .map(|bound| -> syn::WherePredicate { syn::parse_quote!(#bound) });
        generics.make_where_clause().predicates.extend(bounds);
    }
    generics
}
