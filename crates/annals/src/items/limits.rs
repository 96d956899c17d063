//! DynamoDB's limits. Every store enforces them, so that what works on one works on all.

/// Maximum size of an item, as [`item_size`](super::item_size) computes it.
pub const ITEM_BYTES_MAX: usize = 400 * 1024;
/// Maximum bytes of items in one page of a query or scan.
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;
/// Maximum puts and deletes in one request.
pub const WRITE_BATCH_MAX: usize = 25;
/// Maximum keys in one request.
pub const GET_BATCH_MAX: usize = 100;
/// Maximum bytes of a partition key.
pub const PARTITION_BYTES_MAX: usize = 2048;
/// Maximum bytes of a sort key.
pub const SORT_BYTES_MAX: usize = 1024;
/// Maximum nesting of lists and maps, counting the attribute's value and the innermost one.
pub const NESTING_MAX: usize = 32;
/// Maximum bytes of an attribute name.
pub const NAME_BYTES_MAX: usize = 65_535;
/// Maximum bytes of the name of a key attribute.
pub const KEY_NAME_BYTES_MAX: usize = 255;
/// Maximum segments of a scan.
pub const SEGMENTS_MAX: u32 = 1_000_000;
/// Maximum local indexes of a table.
pub const LOCAL_INDEXES_MAX: usize = 5;
/// Maximum global indexes of a table.
pub const GLOBAL_INDEXES_MAX: usize = 20;
