//! Prefix and body of an id: its first two parts, as Java's `String.split` cuts them.
//!
//! Promises: the parts that the plugin's resolvers see, also where the separator is a regular
//! expression that says something else than it looks like (`|` cuts behind every character).
//! Never: gives a part where the plugin would fail to.

use regex_lite::Regex;

use annals::{Error, PersistenceId, Result};

/// What divides ids.
#[derive(Clone, Debug)]
pub(super) struct Separator {
    text: String,
    pattern: Regex,
}

impl Separator {
    /// # Errors
    /// `Invalid` where it is empty, or no regular expression.
    pub(super) fn new(text: &str) -> Result<Self> {
        let pattern = Regex::new(text).map_err(|cause| {
            Error::invalid(format!(
                "persistence-id-separator is no regular expression, which the plugin takes it for. separator=`{text}`"
            ))
            .because(cause)
        })?;
        match text.is_empty() {
            true => Err(Error::invalid("persistence-id-separator is not empty")),
            false => Ok(Self {
                text: text.to_owned(),
                pattern,
            }),
        }
    }

    /// Whether an id is divided at all: by the text, not by the expression.
    fn divides(&self, id: &PersistenceId) -> bool {
        id.as_str().contains(&self.text)
    }

    /// The parts of a text: without an empty one that nothing stands for at the beginning, nor any
    /// at the end.
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
            let text = &self.text;
            Error::invalid(format!(
                "the separator leaves this id without prefix or body, and the plugin cannot store it either; choose another id, or SequenceNumberBased with SeqNr. id=`{id}`, separator=`{text}`"
            ))
        })
    }

    /// What stands before the separator; `None` where the id has none.
    pub(super) fn prefix<'a>(&self, id: &'a PersistenceId) -> Result<Option<&'a str>> {
        self.part(id, 0)
    }

    /// What stands behind the first separator, up to the second; `None` where the id has none.
    pub(super) fn body<'a>(&self, id: &'a PersistenceId) -> Result<Option<&'a str>> {
        self.part(id, 1)
    }
}

#[cfg(test)]
#[path = "separator_tests.rs"]
mod tests;
