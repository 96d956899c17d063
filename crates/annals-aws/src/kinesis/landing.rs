//! Ingests the records of a stream, for the pump and for the Lambda function.
//!
//! Guarantees: every record that is counted is in the buffer. A record that cannot become an event is
//! reported and does not affect the others. A record that is too large is stored without its data.

use annals::Error;
use annals::log::{Ingested, Log, Record};

use super::record::without_data;

/// The outcomes of some records. See [`Pump`](super::Pump) for an example of what brings them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[must_use = "it may hold an error"]
pub struct Landing {
    /// Records that were stored.
    pub stored: u64,
    /// Records that were in the buffer already.
    pub present: u64,
    /// Of those two, how many lack their data.
    pub without_data: u64,
    /// Why records cannot become events, or not with their data.
    pub problems: Vec<Error>,
    /// The index of the first record that may not be stored, and why.
    pub unknown: Option<(usize, Error)>,
}

impl Landing {
    /// Stores records in the buffer.
    pub async fn ingest(log: &Log, records: Vec<Record>) -> Self {
        let mut landing = Self::default();
        // Only records that may not fit are copied.
        let slim: Vec<Option<Record>> = records.iter().map(slimmed).collect();
        let report = log.ingest(records).await;
        for (index, (outcome, slim)) in report.outcomes.into_iter().zip(slim).enumerate() {
            let outcome = match (outcome, slim) {
                (Ingested::Rejected(error), Some(slim)) => {
                    landing.problems.push(error);
                    let outcome = log.ingest_one(slim).await;
                    landing.without_data += u64::from(outcome.is_buffered());
                    outcome
                }
                (outcome, _) => outcome,
            };
            landing.count(index, outcome);
        }
        landing
    }

    fn count(&mut self, index: usize, outcome: Ingested) {
        match outcome {
            Ingested::Stored => self.stored += 1,
            Ingested::Present => self.present += 1,
            Ingested::Conflict(error) | Ingested::Rejected(error) => self.problems.push(error),
            Ingested::Unknown(error) => {
                self.unknown.get_or_insert((index, error));
            }
        }
    }
}

/// The record without its data, if it may be too large with it.
fn slimmed(record: &Record) -> Option<Record> {
    /// Data of this length in base64 fits into an item, whatever else the record has.
    const FITS_BYTES: usize = 128 * 1024;
    let data = super::record::data_bytes(&record.payload);
    (data > FITS_BYTES).then(|| without_data(record)).flatten()
}
