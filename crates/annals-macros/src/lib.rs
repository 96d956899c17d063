//! The derive macros of `annals::entity`, documented there with examples.
//!
//! Guarantees: derived code calls only `annals`, so users need no crates but serde or prost. A misuse is
//! an error at the wrong word.
//! Assumes: the crate is called `annals` where the macro is used.
//! Serde's names of variants are not read here: serde supplies them when an event is written. The macro
//! reads only attributes that would hide a name, and the name of a struct.

mod attributes;
mod event;
mod format;
mod serde_attributes;
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
