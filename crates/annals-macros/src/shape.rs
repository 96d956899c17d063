//! What derived code says of a value besides its content.

use proc_macro2::TokenStream;
use quote::quote;

use crate::attributes::Said;

/// What is said of an event: of the whole type, and of its variant before that.
pub(crate) struct Shape<'a> {
    pub(crate) of_all: &'a Said,
    pub(crate) own: &'a Said,
    pub(crate) is_catch_all: bool,
}

impl Shape<'_> {
    /// Whose word the codec is. A format of one's own is not the one that all the others are
    /// recorded as.
    pub(crate) fn coded(&self) -> &Said {
        match self.own.format.is_some() || self.own.codec.is_some() {
            true => self.own,
            false => self.of_all,
        }
    }

    pub(crate) fn tokens(&self) -> TokenStream {
        let schema = self.own.schema.or(self.of_all.schema).unwrap_or_default();
        let is_catch_all = self.is_catch_all;
        let codec = self.coded().recorded();
        let tags = self.of_all.tags.iter().chain(&self.own.tags);
        quote! {
            ::annals::entity::__private::Shape {
                schema: #schema,
                is_catch_all: #is_catch_all,
                codec: #codec,
                tags: &[#(#tags),*],
            }
        }
    }
}
