//! Consumer groups on the wire: settings as they are sent, groups, deliveries and dead letters.

use std::time::Duration;

use annals::feed::Filter;
use annals::group::{
    DeadLetters, Delivery as Handed, DeliveryId, GroupSettings as Settings, GroupStatus, Settled,
};
use annals::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Count, Number, StoredEvent, Yes, present, whole_or_none};
use crate::commands::feed::parse_slices;

/// The settings of a consumer group. Those that are left out keep their value; a new group gets the
/// default. The filter and the start of an existing group cannot be changed.
#[derive(Default, Deserialize, JsonSchema)]
#[schemars(rename = "NewGroup")]
#[serde(deny_unknown_fields)]
pub(crate) struct NewGroup {
    /// Only events of this entity type, what is before the | of the id
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String", length(max = 1000))]
    category: Option<String>,
    /// Only events of one of these entity types
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Vec<String>")]
    categories: Option<Vec<String>>,
    /// Only ids that begin so
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String", length(max = 1000))]
    prefix: Option<String>,
    /// Only events with one of these tags
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Vec<String>")]
    tags: Option<Vec<String>>,
    /// Only ids of these slices, of 0 to 1023: N or N-M
    #[serde(default, deserialize_with = "present")]
    #[schemars(
        with = "String",
        regex(pattern = r"^([0-9]{1,2}|[0-9]-[1-9][0-9]{1,2})$")
    )]
    slices: Option<String>,
    /// start, the start of the feed; now, its end; or a position of the feed. By default start
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String")]
    start: Option<String>,
    /// The most commits handed out and not acknowledged; by default 100
    #[serde(default, deserialize_with = "whole_or_none")]
    #[schemars(with = "u32", range(min = 1, max = 1000))]
    in_flight: Option<u64>,
    /// After so many milliseconds, what is not acknowledged is handed out again; by default 30,000
    #[serde(default, deserialize_with = "whole_or_none")]
    #[schemars(with = "u32", range(min = 1, max = 86_400_000))]
    ack_ms: Option<u64>,
    /// How often a commit is handed out again before it becomes a dead letter; by default 5
    #[serde(default, deserialize_with = "whole_or_none")]
    #[schemars(with = "u32", range(max = 1000))]
    retries: Option<u64>,
}

impl NewGroup {
    /// The settings; a part of the filter means the whole filter.
    pub(crate) fn settings(self) -> Result<Settings> {
        let has_filter = self.category.is_some()
            || self.categories.is_some()
            || self.prefix.is_some()
            || self.tags.is_some()
            || self.slices.is_some();
        let mut filter = Filter::new().prefix(self.prefix.unwrap_or_default());
        let categories = self.categories.unwrap_or_default();
        filter.categories = categories.into_iter().chain(self.category).collect();
        filter.tags = self.tags.unwrap_or_default();
        filter.slices = self.slices.as_deref().map(parse_slices).transpose()?;
        let mut settings = Settings::new();
        settings.filter = has_filter.then_some(filter);
        settings.start = self.start.as_deref().map(str::parse).transpose()?;
        // Too large for the type is too large for the setting.
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        settings.in_flight = self.in_flight.map(number);
        settings.ack_within = self.ack_ms.map(Duration::from_millis);
        settings.retries = self.retries.map(number);
        Ok(settings)
    }
}

/// Deliveries that are acknowledged.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ack {
    /// As they were handed out
    #[schemars(length(max = 1000))]
    pub(crate) deliveries: Vec<String>,
}

/// Deliveries that are refused.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nack {
    /// As they were handed out
    #[schemars(length(max = 1000))]
    pub(crate) deliveries: Vec<String>,
    /// Why, for the dead letter; the first 200 bytes are kept
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String")]
    pub(crate) reason: Option<String>,
}

/// A consumer group.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Group<'a> {
    group: &'a str,
    settings: GroupSettings,
    /// The position up to which everything is handled
    floor: String,
    /// Events after the floor that are not acknowledged
    lag_events: Count,
    /// How old the oldest of them is, in milliseconds
    lag_ms: Count,
    /// Whether there are more events than were counted
    lag_has_more: bool,
    /// Commits handed out and not acknowledged
    in_flight: Count,
    /// Commits that are dead letters
    dead_letters: Count,
    /// Ids with dead letters
    dead_ids: Count,
    /// Commits whose events were deleted before they were handed out
    missed: Count,
    /// How often an id was purged; commits that were purged before they were handed out may leave no other trace
    purged: Count,
}

/// The settings that a group has.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GroupSettings", deny_unknown_fields)]
struct GroupSettings {
    categories: Vec<String>,
    prefix: String,
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    slices: Option<String>,
    start: String,
    in_flight: Count,
    ack_ms: Count,
    retries: Count,
}

impl<'a> Group<'a> {
    pub(crate) fn new(status: &'a GroupStatus) -> Self {
        let filter = status.filter.clone();
        let slices = filter.slices;
        let ack_ms = status.ack_within.as_millis();
        Self {
            group: &status.name,
            settings: GroupSettings {
                categories: filter.categories,
                prefix: filter.prefix,
                tags: filter.tags,
                slices: slices.map(|slices| format!("{}-{}", slices.start(), slices.end())),
                start: status.start.to_string(),
                in_flight: Count(status.in_flight_max.into()),
                ack_ms: Count(u64::try_from(ack_ms).unwrap_or(u64::MAX)),
                retries: Count(status.retries.into()),
            },
            floor: status.floor.to_string(),
            lag_events: Count(status.lag.events),
            lag_ms: Count(status.lag.ms),
            lag_has_more: status.lag.has_more,
            in_flight: Count(status.in_flight),
            dead_letters: Count(status.dead_letters),
            dead_ids: Count(status.dead_ids),
            missed: Count(status.missed),
            purged: Count(status.purged),
        }
    }
}

/// A commit that is handed out.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Delivery<'a> {
    /// Acknowledge it with this
    delivery: String,
    persistence_id: &'a str,
    /// The position in the feed after the commit
    position: String,
    /// 1 for the first time
    attempt: Count,
    /// When it is handed out again, in milliseconds since 1970
    deadline: Count,
    #[schemars(length(min = 1))]
    events: Vec<StoredEvent<'a>>,
}

impl<'a> Delivery<'a> {
    pub(crate) fn new(handed: &'a Handed) -> Self {
        Self {
            delivery: handed.id.to_string(),
            persistence_id: handed.persistence_id.as_str(),
            position: handed.position.to_string(),
            attempt: Count(handed.attempt.into()),
            deadline: Count(handed.deadline_ms),
            events: handed.events.iter().map(StoredEvent::new).collect(),
        }
    }
}

/// What became of a delivery.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Outcome", deny_unknown_fields)]
pub(crate) struct Outcome {
    pub(crate) delivery: String,
    /// acked: it is handled; already: it was before; requeued: it is handed out again; dead_lettered: that
    /// was the last attempt; expired: it was handed out again or became a dead letter meanwhile; unknown:
    /// the group has not handed it out
    #[schemars(extend("enum" = ["acked", "already", "requeued", "dead_lettered", "expired", "unknown"]))]
    pub(crate) outcome: &'static str,
}

/// What became of each.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Outcomes {
    /// In the order in which they were sent
    pub(crate) deliveries: Vec<Outcome>,
}

/// Deliveries by their text; those that no group can have handed out are unknown.
pub(crate) struct DeliveryIds(Vec<(String, Option<DeliveryId>)>);

/// The most deliveries that are acknowledged at once.
const DELIVERIES_MAX: usize = 1_000;

impl DeliveryIds {
    /// # Errors
    /// `Invalid` if there are too many.
    pub(crate) fn new(texts: Vec<String>) -> Result<Self> {
        if texts.len() > DELIVERIES_MAX {
            let error = Error::invalid(format!("send at most {DELIVERIES_MAX} deliveries at once"));
            return Err(error.fact("deliveries", texts.len()));
        }
        let ids = texts.into_iter().map(|text| {
            let id = text.parse().ok();
            (text, id)
        });
        Ok(Self(ids.collect()))
    }

    /// Those that parse.
    pub(crate) fn ids(&self) -> Vec<DeliveryId> {
        self.0.iter().filter_map(|(_, id)| *id).collect()
    }

    /// The outcomes of all, from those of the ones that parse.
    pub(crate) fn outcomes(self, settled: Vec<Settled>) -> Vec<Outcome> {
        let mut settled = settled.into_iter();
        let outcomes = self.0.into_iter().map(|(delivery, id)| {
            let settled = id.and_then(|_| settled.next());
            let outcome = settled.unwrap_or(Settled::Unknown).name();
            Outcome { delivery, outcome }
        });
        outcomes.collect()
    }
}

/// The dead letters of an id.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GroupDeadLetters", deny_unknown_fields)]
pub(crate) struct GroupDeadLetters<'a> {
    persistence_id: &'a str,
    /// Of the first event, or one before it while they are retried
    sequence_number: Number,
    /// The position before the first commit: `annals feed --after` prints it
    after: String,
    reason: &'a str,
    /// How many commits: the one that failed, and those after it
    commits: Count,
    /// Whether they are handed out again
    retried: bool,
}

impl<'a> GroupDeadLetters<'a> {
    pub(crate) fn new(dead: &'a DeadLetters) -> Self {
        Self {
            persistence_id: dead.persistence_id.as_str(),
            sequence_number: dead.first.into(),
            after: dead.after.to_string(),
            reason: &dead.reason,
            commits: Count(dead.commits),
            retried: dead.is_retried,
        }
    }
}

/// Dead letters are handed out again.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Retried<'a> {
    pub(crate) group: &'a str,
    /// How many commits
    pub(crate) retried: Count,
}

/// Dead letters are forgotten.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Discarded<'a> {
    pub(crate) group: &'a str,
    /// How many commits
    pub(crate) discarded: Count,
}

/// A group is deleted.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct DeletedGroup<'a> {
    group: &'a str,
    deleted: Yes,
}

impl<'a> DeletedGroup<'a> {
    pub(crate) fn new(group: &'a str) -> Self {
        let deleted = Yes(true);
        Self { group, deleted }
    }
}
