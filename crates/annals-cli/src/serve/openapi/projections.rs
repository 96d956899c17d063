//! The operations of projections.

use serde_json::{Value as Json, json};

use super::{Operation, query};
use crate::wire;

/// The id in the query.
fn id() -> [Json; 1] {
    let text = json!({"type": "string", "minLength": 1});
    [query("id", "Only those of this persistence id", &text)]
}

pub(in crate::serve) fn list() -> Operation {
    Operation::new(
        "list_projections",
        "List the projections, by name. Reads the feed from the position of each share",
    )
    .lines("A line for each (schema Projection)", &[])
}

pub(in crate::serve) fn status() -> Operation {
    Operation::new(
        "projection_status",
        "How a projection is doing: its builds and shares, with positions, lag, and why a share is stopped. Reads the feed from the position of each share",
    )
    .json::<wire::WholeProjection<'_>>("Its status")
    .problems(&["404"])
}

pub(in crate::serve) fn pause() -> Operation {
    Operation::new(
        "pause_projection",
        "Pause a projection everywhere: its programs save their positions and release their shares",
    )
    .json::<wire::ProjectionPaused<'_>>("It is paused, within a few seconds")
    .problems(&["404"])
}

pub(in crate::serve) fn resume() -> Operation {
    Operation::new("resume_projection", "Resume a projection that is paused")
        .json::<wire::ProjectionPaused<'_>>("It is resumed, within a few seconds")
        .problems(&["404"])
}

pub(in crate::serve) fn rebuild() -> Operation {
    Operation::new(
        "rebuild_projection",
        "Build a view again from the start of the feed, beside the live build; the programs that run it do it. 400 if it is not a view or is being rebuilt already",
    )
    .json::<wire::ProjectionBuild<'_>>("The number of the new build")
    .problems(&["404"])
}

pub(in crate::serve) fn switch() -> Operation {
    Operation::new(
        "switch_projection",
        "Make the build that is being made live, in one step. 400 if there is none, or it is more than a second late",
    )
    .json::<wire::ProjectionBuild<'_>>("The number of the build that is live")
    .problems(&["404"])
}

pub(in crate::serve) fn dead_letters() -> Operation {
    Operation::new(
        "projection_dead_letters",
        "The ids whose events are not handled any more, with the reason",
    )
    .lines("A line for each id (schema ProjectionDeadLetter)", &[])
    .problems(&["404"])
    .parameters(id())
}

pub(in crate::serve) fn retry() -> Operation {
    Operation::new(
        "retry_dead_letters",
        "Ask the programs that run the projection to handle dead letters again, in order: those of an id, or all",
    )
    .json::<wire::DeadLettersRequested<'_>>("How many there are; it takes a moment")
    .problems(&["404"])
    .parameters(id())
}

pub(in crate::serve) fn discard() -> Operation {
    Operation::new(
        "discard_dead_letters",
        "Ask the programs that run the projection to give dead letters up: those of an id, or all. Later events of the id are handled again",
    )
    .json::<wire::DeadLettersRequested<'_>>("How many there are; it takes a moment")
    .problems(&["404"])
    .parameters(id())
}
