//! What the table of routes and the wire types do not say of the operations of consumer groups.

use serde_json::{Value as Json, json};

use super::{Operation, query};
use crate::wire;

pub(in crate::serve) fn list() -> Operation {
    Operation::new("list_groups", "The consumer groups, by name")
        .lines("A line for each (schema Group)", &[])
}

pub(in crate::serve) fn put() -> Operation {
    Operation::new(
        "put_group",
        "Create a consumer group, or change its settings. 400 if the filter or the start of an existing group would change",
    )
    .json::<wire::Group<'_>>("The group")
    .body::<wire::NewGroup>()
    .problems(&["409"])
}

pub(in crate::serve) fn status() -> Operation {
    Operation::new(
        "group_status",
        "The settings of a group, and how far it has come. What is left is counted up to a limit",
    )
    .json::<wire::Group<'_>>("The group")
    .problems(&["404"])
}

pub(in crate::serve) fn delete() -> Operation {
    Operation::new(
        "delete_group",
        "Delete a group, with its position and its dead letters",
    )
    .json::<wire::DeletedGroup<'_>>("It is deleted")
    .problems(&["404"])
}

pub(in crate::serve) fn next() -> Operation {
    let max = json!({"type": "integer", "minimum": 1, "maximum": 1000});
    let wait = json!({"type": "integer", "minimum": 0, "maximum": 300_000});
    let member = json!({"type": "string", "maxLength": 16});
    Operation::new(
        "next_deliveries",
        "Take the next commits: failed ones first, then dead letters that are retried, then new ones. At most one commit of an id is in flight. 400 if too many ids have dead letters",
    )
    .lines(
        "A line for each (schema Delivery), as soon as there is one; nothing if there is none when the wait is over, or the server stops. What is handed out and not received comes again after its deadline",
        &[],
    )
    .problems(&["404", "409"])
    .parameters([
        query("max", "At most so many; by default 10", &max),
        query("wait", "Wait so many milliseconds if there is none; by default 0", &wait),
        query("member", "The name of the member, at most 64 bytes, for the reasons of dead letters", &member),
    ])
}

pub(in crate::serve) fn ack() -> Operation {
    Operation::new(
        "ack_deliveries",
        "Acknowledge deliveries: their commits are handled. Repeatable",
    )
    .json::<wire::Outcomes>("What became of each; one that is refused stops no other")
    .body::<wire::Ack>()
    .problems(&["404", "409"])
}

pub(in crate::serve) fn nack() -> Operation {
    Operation::new(
        "nack_deliveries",
        "Refuse deliveries: their commits are handed out again, before later ones of their ids, or become dead letters",
    )
    .json::<wire::Outcomes>("What became of each; one that is refused stops no other")
    .body::<wire::Nack>()
    .problems(&["404", "409"])
}

pub(in crate::serve) fn dead_letters() -> Operation {
    Operation::new("group_dead_letters", "The dead letters of a group")
        .lines(
            "A line for each id that has some (schema GroupDeadLetters)",
            &[],
        )
        .problems(&["404"])
}

fn one_id() -> [Json; 1] {
    let text = json!({"type": "string", "minLength": 1});
    [query(
        "persistence_id",
        "Only those of this id; without it, all",
        &text,
    )]
}

pub(in crate::serve) fn retry() -> Operation {
    Operation::new(
        "retry_group_dead_letters",
        "Hand dead letters out again, each id's in order",
    )
    .json::<wire::Retried<'_>>("How many commits")
    .problems(&["404", "409"])
    .parameters(one_id())
}

pub(in crate::serve) fn discard() -> Operation {
    Operation::new(
        "discard_group_dead_letters",
        "Forget dead letters: they are never handed out again",
    )
    .json::<wire::Discarded<'_>>("How many commits")
    .problems(&["404", "409"])
    .parameters(one_id())
}
