//! The serde attributes that matter to the derives. Serde's own derive checks them.

use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, ExprLit, Lit, Meta, Result, Token};

/// The serde attributes of a type or a variant.
pub(crate) struct SerdeAttributes(Vec<Meta>);

impl SerdeAttributes {
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

    pub(crate) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Refuse an enum that is not externally tagged.
    pub(crate) fn check_externally_tagged(&self) -> Result<()> {
        for name in ["tag", "content", "untagged"] {
            if let Some(meta) = self.find(name) {
                let why = "the variant's name is the manifest, so the enum must be externally \
                           tagged; remove this attribute";
                return Err(Error::new_spanned(meta, why));
            }
        }
        Ok(())
    }

    /// The name for writing (`serialize`) or reading (`deserialize`).
    pub(crate) fn renamed(&self, direction: &str) -> Option<String> {
        match self.find("rename")? {
            Meta::NameValue(rename) => text(&rename.value),
            Meta::List(list) => {
                let pairs = Punctuated::<Meta, Token![,]>::parse_terminated;
                let pairs = list.parse_args_with(pairs).ok()?;
                pairs.iter().find_map(|pair| match pair {
                    Meta::NameValue(pair) if pair.path.is_ident(direction) => text(&pair.value),
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
