//! The derive macros of `annals::entity`, which shows them with examples.
//!
//! Promises: derived code calls `annals` alone, so whoever derives needs serde's derives, or prost's,
//! and no more; a misuse is an error at the word that is wrong.
//! Trusts: that the crate is called `annals` where it is derived.
//! Never: reads serde's names of variants. Those come from serde itself when an event is written;
//! what is read here is what makes that impossible, and the name of a struct.

mod attributes;
mod event;
mod format;
mod serde;
mod shape;
mod stored;
#[cfg(test)]
mod tests;
mod variants;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Derives `annals::entity::EntityEvent`.
#[proc_macro_derive(EntityEvent, attributes(event))]
pub fn entity_event(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let derived = event::derive(&input);
    derived.unwrap_or_else(|e| e.into_compile_error()).into()
}

/// Derives `annals::entity::Stored`.
#[proc_macro_derive(Stored, attributes(stored))]
pub fn stored(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let derived = stored::derive(&input);
    derived.unwrap_or_else(|e| e.into_compile_error()).into()
}
