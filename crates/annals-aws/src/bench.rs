//! The bare SDK, for `annals bench store --dynamodb` to compare our client with.
//!
//! Guarantees: sends the same request as a put of [`DynamoDb`] on condition `Absent`, to the same
//! server with the same credentials, but with the SDK's own connection pool, retries and timeouts.
//! Against a bare put that asks for neither the consumed capacity nor the existing item,
//! ours came to 0.72 to 0.95 on DynamoDB Local, which takes longer for such a response; on AWS this
//! was not measured.

use std::collections::HashMap;

use annals::Result;
use annals::items::{KeyAttribute, KeySchema, TableName, TableSpec};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::client::DynamoDb;
use crate::error::{Verdict, verdict_of};
use crate::items::{ALL_OLD, TOTAL};

/// The SDK's own client.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct BareSdk(Client);

impl BareSdk {
    /// The SDK's client for the server of `store`.
    pub fn new(store: &DynamoDb) -> Self {
        Self(Client::new(&store.shared))
    }

    /// The table that [`put`](Self::put) writes to: `p` (S), `n` (N) and a payload `d` (B).
    ///
    /// # Errors
    /// None for a valid name.
    pub fn table(name: TableName) -> Result<TableSpec> {
        let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("n"));
        TableSpec::new(name, key)
    }

    /// Puts an item under a new key.
    ///
    /// # Errors
    /// As the request fails.
    pub async fn put(&self, table: &TableName, number: u64, payload: Vec<u8>) -> Result<()> {
        let item = HashMap::from([
            ("p".to_owned(), AttributeValue::S("bare".to_owned())),
            ("n".to_owned(), AttributeValue::N(number.to_string())),
            ("d".to_owned(), AttributeValue::B(Blob::new(payload))),
        ]);
        let put = self.0.put_item().table_name(table.as_str());
        let put = put
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(#p)")
            .expression_attribute_names("#p", "p")
            .return_values_on_condition_check_failure(ALL_OLD)
            .return_consumed_capacity(TOTAL);
        match put.send().await.map_err(verdict_of) {
            Ok(_) => Ok(()),
            Err(Verdict::Retry(_, error)) => Err(error),
            Err(Verdict::Final(failure)) => Err(failure.into_error(table)),
        }
    }
}
