//! Wire types of appends, one at a time and in bulk.
//!
//! Promises: both have the same members, with the same meaning and checks.

use annals::journal::{
    Append as NewAppend, Appended as Stored, BulkAppend as NewBulkAppend, Expected,
};
use annals::{Codec, Error, Payload, PersistenceId, Result, SequenceNumber};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::{Count, NewEvent, Number, present, whole_or_none};

/// The members of an append, and those that only one of its types has.
macro_rules! append_body {
    ($(#[$doc:meta])* $name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name<'a> {
            $($(#[$attribute])* $field: $type,)*
            #[serde(borrow)]
            #[schemars(length(min = 1))]
            events: Vec<NewEvent<'a>>,
            /// Fail with 409 unless the last sequence number is this one (0: no events yet)
            #[serde(default, deserialize_with = "whole_or_none")]
            #[schemars(with = "Count")]
            pub(crate) expect: Option<u64>,
            /// The id of what caused the events; at most 1,024 bytes
            #[serde(default, deserialize_with = "present")]
            #[schemars(with = "String")]
            causation: Option<String>,
            /// The id of what the events belong to; at most 1,024 bytes
            #[serde(default, deserialize_with = "present")]
            #[schemars(with = "String")]
            correlation: Option<String>,
            /// The state after the events, stored with them where that costs nothing
            #[serde(borrow, default, deserialize_with = "present")]
            #[schemars(with = "Json")]
            snapshot: Option<&'a RawValue>,
        }

        impl $name<'_> {
            /// The append, without its key.
            pub(crate) fn append(self) -> Result<NewAppend> {
                let events = self.events.into_iter().zip(1..);
                let events = events.map(|(event, place)| event.event(place));
                let state = |json: &str| Payload::new(Codec::Json, json.to_owned());
                let mut append = NewAppend::of(events.collect::<Result<Vec<_>>>()?);
                append.causation = self.causation;
                append.correlation = self.correlation;
                append.snapshot = self.snapshot.map(|it| state(it.get()));
                Ok(append)
            }
        }
    };
}

append_body!(
    /// Events to be appended, all or none.
    Append {}
);
append_body!(
    /// One line of a bulk append: events to be appended, all or none.
    BulkAppend {
        #[schemars(length(min = 1))]
        persistence_id: String,
        /// A key for this append: repeated with the same key, it is stored once
        #[serde(default, deserialize_with = "present")]
        #[schemars(with = "String", regex(pattern = r"^[!-~]{1,255}$"))]
        idempotency_key: Option<String>,
    }
);

impl BulkAppend<'_> {
    /// The append.
    pub(crate) fn bulk_append(mut self) -> Result<NewBulkAppend> {
        let id: PersistenceId = self.persistence_id.parse()?;
        let key = self.idempotency_key.take().map(|key| key.parse());
        let expected = expected(self.expect)?;
        let mut append = self.append()?;
        append.idempotency_key = key.transpose()?;
        Ok(NewBulkAppend::new(id, expected, append))
    }
}

/// The expectation of an append by the last sequence number, 0 for none.
pub(crate) fn expected(last: Option<u64>) -> Result<Expected> {
    match last {
        None => Ok(Expected::Any),
        Some(0) => Ok(Expected::Empty),
        Some(number) => SequenceNumber::new(number)
            .map(Expected::Last)
            .ok_or_else(|| {
                Error::invalid("the expected sequence number is out of range")
                    .fact("expect", number)
            }),
    }
}

/// The sequence numbers and the time of an append.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Appended<'a> {
    persistence_id: &'a str,
    sequence_number: Number,
    first_sequence_number: Number,
    time: Count,
    has_snapshot: bool,
}

impl<'a> Appended<'a> {
    pub(crate) fn new(id: &'a PersistenceId, appended: &Stored) -> Self {
        Self {
            persistence_id: id.as_str(),
            sequence_number: appended.last.into(),
            first_sequence_number: appended.first.into(),
            time: Count(appended.time_ms),
            has_snapshot: appended.has_snapshot,
        }
    }
}

/// The result of a line of a bulk append that was appended. A line that was not has a Problem instead.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct BulkAppended<'a> {
    /// As of a single append
    #[schemars(extend("enum" = [201]))]
    status: u16,
    persistence_id: &'a str,
    sequence_number: Number,
    first_sequence_number: Number,
    time: Count,
    has_snapshot: bool,
}

impl<'a> BulkAppended<'a> {
    pub(crate) fn new(id: &'a PersistenceId, appended: &Stored) -> Self {
        Self {
            status: 201,
            persistence_id: id.as_str(),
            sequence_number: appended.last.into(),
            first_sequence_number: appended.first.into(),
            time: Count(appended.time_ms),
            has_snapshot: appended.has_snapshot,
        }
    }
}
