//! The feed on the wire: entries as JSON lines.

use annals::PersistenceId;
use annals::feed::{Batch, What};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Number, line, push_line};

/// A deletion, as the feed has it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FeedNotice", deny_unknown_fields)]
pub(crate) struct FeedNotice<'a> {
    persistence_id: &'a str,
    notice: Notice,
    /// `deleted`: the last sequence number that is deleted. `missing`: of an event that was deleted
    /// before it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Number")]
    sequence_number: Option<Number>,
    position: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FeedNoticeKind")]
#[serde(rename_all = "snake_case")]
enum Notice {
    /// The events up to the sequence number were deleted.
    Deleted,
    /// Everything of the id was removed; its numbering restarts at 1.
    Purged,
    /// Events were deleted before they were read.
    Missing,
}

/// A line of the feed, with its end, and the position after it.
pub(crate) struct FeedLine {
    pub(crate) text: Vec<u8>,
    pub(crate) position: String,
}

/// The lines of a batch: an event as `replay` prints it, with its position, or a notice.
pub(crate) fn feed_lines(batch: &Batch) -> Vec<FeedLine> {
    let mut lines = Vec::with_capacity(batch.entries.len());
    let mut events = batch.events();
    for entry in &batch.entries {
        match &entry.what {
            What::Appended(appended) => {
                for (event, position) in events.by_ref().take(appended.len()) {
                    let position = position.to_string();
                    let mut text = Vec::with_capacity(256);
                    push_line(event, &mut text);
                    // In front of the brace and the end of the line.
                    text.truncate(text.len().saturating_sub(2));
                    text.extend_from_slice(format!(",\"position\":\"{position}\"}}\n").as_bytes());
                    lines.push(FeedLine { text, position });
                }
            }
            what => lines.push(notice(
                &entry.id,
                what,
                batch.position_after(entry).to_string(),
            )),
        }
    }
    lines
}

fn notice(id: &PersistenceId, what: &What, position: String) -> FeedLine {
    let (notice, number) = match what {
        What::Deleted(to) => (Notice::Deleted, Some(*to)),
        What::Missing(number) => (Notice::Missing, Some(*number)),
        _ => (Notice::Purged, None),
    };
    let text = line(&FeedNotice {
        persistence_id: id.as_str(),
        notice,
        sequence_number: number.map(Into::into),
        position: position.clone(),
    });
    FeedLine {
        text: (text + "\n").into_bytes(),
        position,
    }
}
