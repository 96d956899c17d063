//! What serde's attributes say that matters here.
//!
//! Trusts: serde's own derive to refuse those that are wrong.

use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, ExprLit, Lit, Meta, Result, Token};

/// Everything that serde was told at one place.
pub(crate) struct Serde(Vec<Meta>);

impl Serde {
    pub(crate) fn read(attributes: &[Attribute]) -> Self {
        let serde = attributes.iter().filter(|a| a.path().is_ident("serde"));
        let parsed = serde.filter_map(|attribute| {
            let list = Punctuated::<Meta, Token![,]>::parse_terminated;
            attribute.parse_args_with(list).ok()
        });
        Self(parsed.flatten().collect())
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Meta> {
        self.0.iter().find(|meta| meta.path().is_ident(name))
    }

    pub(crate) fn says(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Refuses what hides a variant's name from serde's formats.
    pub(crate) fn check_tagged_outside(&self) -> Result<()> {
        for name in ["tag", "content", "untagged"] {
            if let Some(meta) = self.find(name) {
                let why = "the variant's name is the manifest: leave it to serde's default, which \
                           keeps it outside of the content";
                return Err(Error::new_spanned(meta, why));
            }
        }
        Ok(())
    }

    /// The name that something is given for writing (`serialize`) or reading (`deserialize`).
    pub(crate) fn renamed(&self, way: &str) -> Option<String> {
        match self.find("rename")? {
            Meta::NameValue(rename) => text(&rename.value),
            Meta::List(list) => {
                let pairs = Punctuated::<Meta, Token![,]>::parse_terminated;
                let pairs = list.parse_args_with(pairs).ok()?;
                pairs.iter().find_map(|pair| match pair {
                    Meta::NameValue(pair) if pair.path.is_ident(way) => text(&pair.value),
                    _ => None,
                })
            }
            Meta::Path(_) => None,
        }
    }
}

fn text(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text.value()),
        _ => None,
    }
}
