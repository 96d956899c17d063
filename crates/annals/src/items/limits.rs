//! DynamoDB's limits, which every store keeps so that what works on one works on all.

/// The most bytes an item may have, by DynamoDB's own way of sizing it.
pub const ITEM_BYTES_MAX: usize = 400 * 1024;
/// The most bytes of items that one page of a query or scan holds.
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;
/// The most puts and deletes in one request of a batch.
pub const WRITE_BATCH_MAX: usize = 25;
/// The most keys in one request of a batch.
pub const GET_BATCH_MAX: usize = 100;
/// The most bytes of a partition key's value.
pub const PARTITION_BYTES_MAX: usize = 2048;
/// The most bytes of a sort key's value.
pub const SORT_BYTES_MAX: usize = 1024;
/// How deep lists and maps may nest, counting the value of the attribute and the innermost one.
pub const NESTING_MAX: usize = 32;
/// The most bytes of an attribute's name.
pub const NAME_BYTES_MAX: usize = 65_535;
/// The most bytes of the name of an attribute that is part of a key.
pub const KEY_NAME_BYTES_MAX: usize = 255;
/// The most segments a scan may be divided into.
pub const SEGMENTS_MAX: u32 = 1_000_000;
/// The most indexes of either scope (five local, twenty global).
pub const LOCAL_INDEXES_MAX: usize = 5;
/// See [`LOCAL_INDEXES_MAX`].
pub const GLOBAL_INDEXES_MAX: usize = 20;
