//! What an answer cost, as DynamoDB itself says.
//!
//! Promises: the units of the answer, with those of its indexes (`TOTAL` adds them up).
//! Trusts: a server that answers no units at all (ScyllaDB's Alternator) to be one without a bill;
//! then the figures are computed from what is visible.

use annals::items::{Consistency, Cost, Item, item_size};
use aws_sdk_dynamodb::types::ConsumedCapacity;

/// The write units an answer names; `None` where it names none. No request counted.
pub(crate) fn written<'a>(
    consumed: impl IntoIterator<Item = &'a ConsumedCapacity>,
) -> Option<Cost> {
    let units = units(consumed)?;
    Some(Cost {
        write_units: units.round() as u64,
        ..Cost::ZERO
    })
}

/// The read units an answer names; `None` where it names none. No request counted.
pub(crate) fn read<'a>(consumed: impl IntoIterator<Item = &'a ConsumedCapacity>) -> Option<Cost> {
    let units = units(consumed)?;
    Some(Cost {
        read_half_units: (units * 2.0).round() as u64,
        ..Cost::ZERO
    })
}

fn units<'a>(consumed: impl IntoIterator<Item = &'a ConsumedCapacity>) -> Option<f64> {
    let each = consumed.into_iter().filter_map(|c| c.capacity_units);
    each.fold(None, |sum, units| Some(sum.unwrap_or(0.0) + units))
}

/// What a page of these items costs by the published rules.
pub(crate) fn of_page(items: &[Item], consistency: Consistency) -> Cost {
    Cost::of_read(items.iter().map(item_size).sum(), consistency)
}
