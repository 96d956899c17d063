//! In which order the rows of an append are put, where each event is a row of its own.
//!
//! Promises: the first one first, so that of two appends to one place one wins; the last one last,
//! when all others are there, so that it tells that they are; those between them at once. Behind a
//! row that somebody else's stands in the way of nothing is put.

use futures::stream::{self, StreamExt, TryStreamExt};

use annals::{Error, Result};

/// How many are put at once.
const AT_ONCE: usize = 25;

/// Puts rows in order; answers what the first one's put did, or what stood in the way of one.
pub(crate) async fn put_in_order<T, A, B, F>(
    rows: Vec<T>,
    put: impl Fn(T) -> F,
) -> Result<Result<A, B>>
where
    F: Future<Output = Result<Result<A, B>>>,
{
    let mut rows = rows.into_iter();
    let Some(first) = rows.next() else {
        return Err(Error::invalid("an append has at least one event"));
    };
    let last = rows.next_back();
    let first = match put(first).await? {
        Ok(first) => first,
        Err(taken) => return Ok(Err(taken)),
    };
    let mut taken = None;
    let mut between = stream::iter(rows).map(&put).buffer_unordered(AT_ONCE);
    while let Some(put) = between.try_next().await? {
        taken = taken.or(put.err());
    }
    if let (None, Some(last)) = (&taken, last) {
        taken = put(last).await?.err();
    }
    Ok(taken.map_or(Ok(first), Err))
}
