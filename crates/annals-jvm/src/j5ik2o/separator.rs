//! Prefix and body of an id: its first two parts, as Java's `String.split` splits it.
//!
//! Guarantees: the same parts as in the plugin, even if the separator is a regular expression with a
//! surprising meaning (`|` splits after every character), and an error if the plugin fails.

use regex_lite::Regex;

use annals::{Error, PersistenceId, Result};

/// The separator of ids.
#[derive(Clone, Debug)]
pub(super) struct Separator {
    text: String,
    pattern: Regex,
    /// The advice in the error for an id without a prefix or body.
    advice: &'static str,
}

impl Separator {
    /// The separator of a journal or of snapshots.
    ///
    /// # Errors
    /// `Invalid` if it is empty, or not a regular expression.
    pub(super) fn new(text: &str) -> Result<Self> {
        let advice = "choose another id, or SequenceNumberBased with SeqNr";
        Self::with_advice(text, advice)
    }

    /// The separator of durable state, which has only one resolver.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(super) fn for_state(text: &str) -> Result<Self> {
        let advice = "choose another id or persistence-id-separator";
        Self::with_advice(text, advice)
    }

    fn with_advice(text: &str, advice: &'static str) -> Result<Self> {
        let pattern = Regex::new(text).map_err(|cause| {
            Error::invalid("persistence-id-separator is not a valid regular expression")
                .fact("separator", text)
                .because(cause)
        })?;
        match text.is_empty() {
            true => Err(Error::invalid(
                "set persistence-id-separator to at least one character",
            )),
            false => Ok(Self {
                text: text.to_owned(),
                pattern,
                advice,
            }),
        }
    }

    /// Whether an id contains the separator: the text, not the expression.
    fn divides(&self, id: &PersistenceId) -> bool {
        id.as_str().contains(&self.text)
    }

    /// The parts of a text, without a leading empty match and without empty parts at the end.
    fn parts<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let mut parts = Vec::new();
        let mut at = 0;
        for found in self.pattern.find_iter(text) {
            if found.end() > 0 {
                parts.extend(text.get(at..found.start()));
                at = found.end();
            }
        }
        parts.extend(text.get(at..));
        let filled = parts.iter().rposition(|part| !part.is_empty());
        parts.truncate(filled.map_or(0, |last| last + 1));
        parts
    }

    fn part<'a>(&self, id: &'a PersistenceId, place: usize) -> Result<Option<&'a str>> {
        if !self.divides(id) {
            return Ok(None);
        }
        let part = self.parts(id.as_str()).get(place).copied();
        part.map(Some).ok_or_else(|| {
            let (text, advice) = (&self.text, self.advice);
            Error::invalid(format!(
                "the separator leaves this id without prefix or body, and the plugin cannot store it either; {advice}"
            ))
            .fact("id", id)
            .fact("separator", text)
        })
    }

    /// The part before the separator; `None` if the id has none.
    pub(super) fn prefix<'a>(&self, id: &'a PersistenceId) -> Result<Option<&'a str>> {
        self.part(id, 0)
    }

    /// The part after the first separator, up to the second; `None` if the id has none.
    pub(super) fn body<'a>(&self, id: &'a PersistenceId) -> Result<Option<&'a str>> {
        self.part(id, 1)
    }
}

#[cfg(test)]
#[path = "separator_tests.rs"]
mod tests;
