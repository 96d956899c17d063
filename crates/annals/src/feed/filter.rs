//! Which events a reader of the feed wants.

use std::ops::RangeInclusive;

use crate::{Error, Event, PersistenceId, Result};

/// Which events a reader wants: those that fit every part that is set. The default is all events.
///
/// ```
/// use annals::feed::Filter;
///
/// let filter = Filter::new().category("Cart").tag("vip");
/// assert!(filter.accepts_id(&"Cart|42".parse()?));
/// assert!(!filter.accepts_id(&"Order|7".parse()?));
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filter {
    /// Entity types: what is before the `|` of a persistence id. Any of them; empty: all.
    pub categories: Vec<String>,
    /// How the persistence id begins.
    pub prefix: String,
    /// Tags of the event. Any of them; empty: all.
    pub tags: Vec<String>,
    /// Slices of the persistence id ([`slice_of`]).
    pub slices: Option<RangeInclusive<u16>>,
}

impl Filter {
    /// All events.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only this entity type, or one of several.
    #[must_use]
    pub fn category(mut self, category: impl Into<String>) -> Self {
        self.categories.push(category.into());
        self
    }

    /// Only persistence ids that begin so.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Only events with this tag, or one of several.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Only persistence ids of these slices.
    #[must_use]
    pub fn slices(mut self, slices: RangeInclusive<u16>) -> Self {
        self.slices = Some(slices);
        self
    }

    /// Refuses filters that accept nothing, for readers that would wait in vain.
    ///
    /// # Errors
    /// `Invalid` if a category has a `|`, or the slices are none or out of range.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(category) = self.categories.iter().find(|it| it.contains('|')) {
            return Err(Error::invalid(
                "a category is what is before the first `|` of a persistence id; select more of it by prefix",
            )
            .fact("category", category));
        }
        match &self.slices {
            Some(slices) if slices.is_empty() || *slices.end() >= SLICES => {
                let error = Error::invalid(format!("slices are 0 to {}, in order", SLICES - 1));
                Err(error.fact("slices", format!("{slices:?}")))
            }
            _ => Ok(()),
        }
    }

    /// Whether events of this id are wanted, if their tags are.
    pub fn accepts_id(&self, id: &PersistenceId) -> bool {
        let has_category = self.categories.is_empty() || {
            let category = category_of(id);
            self.categories
                .iter()
                .any(|wanted| category == Some(wanted))
        };
        has_category
            && id.as_str().starts_with(&self.prefix)
            && self
                .slices
                .as_ref()
                .is_none_or(|wanted| wanted.contains(&slice_of(id)))
    }

    /// Whether an event with these tags is wanted, if its id is.
    pub fn accepts_tags(&self, tags: &[String]) -> bool {
        self.tags.is_empty() || tags.iter().any(|tag| self.tags.contains(tag))
    }

    /// Whether an event is wanted.
    pub fn accepts(&self, event: &Event) -> bool {
        self.accepts_id(&event.persistence_id) && self.accepts_tags(&event.data.tags)
    }
}

/// The entity type of an id: what is before its first `|`; `None` without one.
///
/// ```
/// assert_eq!(annals::feed::category_of(&"Cart|42".parse()?), Some("Cart"));
/// # Ok::<(), annals::Error>(())
/// ```
pub fn category_of(id: &PersistenceId) -> Option<&str> {
    id.as_str().split_once('|').map(|(category, _)| category)
}

/// The number of slices.
pub const SLICES: u16 = 1024;

/// The slice of an id, from 0 to 1,023. As Akka and Pekko compute it, so that services that share a
/// table divide its ids alike.
///
/// ```
/// assert_eq!(annals::feed::slice_of(&"Cart|42".parse()?), 838);
/// # Ok::<(), annals::Error>(())
/// ```
pub fn slice_of(id: &PersistenceId) -> u16 {
    // Java's `String.hashCode`, and the absolute value of its remainder.
    let units = id.as_str().encode_utf16();
    let hash = units.fold(0i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(unit.into())
    });
    (hash % i32::from(SLICES)).unsigned_abs() as u16
}
