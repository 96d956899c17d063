//! The consumed capacity of a response, as DynamoDB reports it.
//!
//! Guarantees: includes the units of indexes (`TOTAL` adds them up). A server that reports no units
//! (ScyllaDB Alternator) yields `None`; the caller then computes them by the published rules.

use annals::items::{Consistency, Cost, Item, item_size};
use aws_sdk_dynamodb::types::ConsumedCapacity;

/// The write units of a response, if reported. Counts no request.
pub(crate) fn written<'a>(
    consumed: impl IntoIterator<Item = &'a ConsumedCapacity>,
) -> Option<Cost> {
    let units = units(consumed)?;
    Some(Cost {
        write_units: units.round() as u64,
        ..Cost::ZERO
    })
}

/// The read units of a response, if reported. Counts no request.
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

/// The cost of a page of these items by the published rules.
pub(crate) fn of_page(items: &[Item], consistency: Consistency) -> Cost {
    Cost::of_read(items.iter().map(item_size).sum(), consistency)
}
