//! Records into the buffer, for the pump and for the function that Lambda calls.
//!
//! Promises: what is counted as in is in the buffer. One record that cannot be an event does not
//! keep the others out: it is stored without its data where that is what makes it too large, and
//! told either way.
//! Never: says that records landed of which the store does not.

use annals::Error;
use annals::log::{Ingested, Log, Record};

use super::record::without_data;

/// What became of some records.
#[derive(Clone, Debug, Default)]
pub struct Landing {
    /// Stored now.
    pub stored: u64,
    /// There already.
    pub present: u64,
    /// Of those two, how many are without their data.
    pub without_data: u64,
    /// What cannot be an event, or not with its data, and why.
    pub problems: Vec<Error>,
    /// The first record of which is not known whether it is stored, by its place, and why.
    pub unknown: Option<(usize, Error)>,
}

impl Landing {
    /// Brings records into the buffer.
    pub async fn of(log: &Log, records: Vec<Record>) -> Self {
        let mut landing = Self::default();
        // Most records fit, and are not kept twice for the sake of those that do not.
        let slim: Vec<Option<Record>> = records.iter().map(slimmed).collect();
        let report = log.ingest(records).await;
        for (place, (outcome, slim)) in report.outcomes.into_iter().zip(slim).enumerate() {
            let outcome = match (outcome, slim) {
                (Ingested::Rejected(error), Some(slim)) => {
                    landing.problems.push(error);
                    let outcome = log.ingest_one(slim).await;
                    landing.without_data += u64::from(outcome.is_in());
                    outcome
                }
                (outcome, _) => outcome,
            };
            landing.count(place, outcome);
        }
        landing
    }

    fn count(&mut self, place: usize, outcome: Ingested) {
        match outcome {
            Ingested::Stored => self.stored += 1,
            Ingested::Present => self.present += 1,
            Ingested::Conflict(error) | Ingested::Rejected(error) => self.problems.push(error),
            Ingested::Unknown(error) => {
                self.unknown.get_or_insert((place, error));
            }
        }
    }
}

/// The record without its data, where with it it may be too large.
fn slimmed(record: &Record) -> Option<Record> {
    /// Below this the data, in base64, fits into an item whatever stands around it.
    const FITS_BYTES: usize = 128 * 1024;
    let data = super::record::data_bytes(&record.payload);
    (data > FITS_BYTES).then(|| without_data(record)).flatten()
}
