//! [`Items`] on DynamoDB, one short function per operation.
//!
//! Guarantees: arguments are checked before anything is sent, and every response carries its cost,
//! retries included. If a refused condition comes back without the existing item, that is read.

use annals::Result;
use annals::items::{
    BatchError, Billing, Changes, Condition, Consistency, Cost, Cursor, Direction, Got, Item,
    Items, Key, Page, Query, Scan, TableName, TableSpec, Write, WriteError, check_condition,
    check_item, check_key, check_query, check_scan, item_size,
};
use async_trait::async_trait;
use aws_sdk_dynamodb::types::{
    ConsumedCapacity, ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure,
};

use crate::attribute::{Attributes, attributes_of, item_of};
use crate::client::DynamoDb;
use crate::error::{Failure, OperationError, Refusal};
use crate::retry::Call;
use crate::{capacity, request};

/// Every request asks for its consumed capacity, indexes included.
pub(crate) const TOTAL: ReturnConsumedCapacity = ReturnConsumedCapacity::Total;
pub(crate) const ALL_OLD: ReturnValuesOnConditionCheckFailure =
    ReturnValuesOnConditionCheckFailure::AllOld;

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Items for DynamoDb {
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> Result<Got> {
        self.get_batch(table, &keys).await
    }

    async fn put(
        &self,
        table: &TableSpec,
        item: Item,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        self.put_one(table, &item, condition).await
    }

    async fn delete(
        &self,
        table: &TableSpec,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        self.delete_one(table, &key, condition).await
    }

    async fn write(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError> {
        self.write_batch(table, writes).await
    }

    async fn query(&self, table: &TableSpec, query: Query) -> Result<Page> {
        self.query_page(table, &query).await
    }

    async fn scan(&self, table: &TableSpec, scan: Scan) -> Result<Page> {
        self.scan_page(table, scan).await
    }

    async fn create_table(&self, spec: &TableSpec, billing: Billing) -> Result<()> {
        self.create(spec, billing).await
    }

    async fn describe_table(&self, name: &TableName) -> Result<Option<TableSpec>> {
        self.describe(name).await
    }

    async fn drop_table(&self, name: &TableName) -> Result<bool> {
        self.drop(name).await
    }

    fn changes(&self) -> Option<&dyn Changes> {
        None
    }
}

/// The implementation of [`Items`].
impl DynamoDb {
    async fn put_one(
        &self,
        table: &TableSpec,
        item: &Item,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        let checked = check_item(table, item)?;
        check_condition(&condition)?;
        let expression = request::condition(table, &condition);
        let mut call = self.sender.call();
        let answer = call.send(|| {
            let request = self.client.put_item().table_name(table.name().as_str());
            request
                .set_item(Some(attributes_of(item)))
                .set_condition_expression(expression.text.clone())
                .set_expression_attribute_names(expression.names.clone())
                .set_expression_attribute_values(expression.values.clone())
                .return_values_on_condition_check_failure(ALL_OLD)
                .return_consumed_capacity(TOTAL)
                .send()
        });
        let answer = answer.await.map(|answer| answer.consumed_capacity);
        let write = SingleWrite {
            table,
            key: &checked.key,
            new: Some(item),
            condition,
        };
        self.outcome(write, answer, call).await
    }

    async fn delete_one(
        &self,
        table: &TableSpec,
        key: &Key,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        check_key(table, key)?;
        check_condition(&condition)?;
        let expression = request::condition(table, &condition);
        let mut call = self.sender.call();
        let answer = call.send(|| {
            let request = self.client.delete_item().table_name(table.name().as_str());
            request
                .set_key(Some(request::key(table, key)))
                .set_condition_expression(expression.text.clone())
                .set_expression_attribute_names(expression.names.clone())
                .set_expression_attribute_values(expression.values.clone())
                .return_values_on_condition_check_failure(ALL_OLD)
                .return_consumed_capacity(TOTAL)
                .send()
        });
        let answer = answer.await.map(|answer| answer.consumed_capacity);
        let write = SingleWrite {
            table,
            key,
            new: None,
            condition,
        };
        self.outcome(write, answer, call).await
    }

    async fn query_page(&self, table: &TableSpec, query: &Query) -> Result<Page> {
        let checked = check_query(table, query)?;
        let keys = request::key_condition(checked.schema, query);
        let after = query.after.as_ref().map(Cursor::key_attributes);
        let mut call = self.sender.call();
        let answer = call.send(|| {
            let request = self.client.query().table_name(table.name().as_str());
            request
                .set_index_name(query.index.clone())
                .set_key_condition_expression(keys.text.clone())
                .set_expression_attribute_names(keys.names.clone())
                .set_expression_attribute_values(keys.values.clone())
                .scan_index_forward(query.direction == Direction::Ascending)
                .set_limit(request::limit(query.limit))
                .set_exclusive_start_key(after.map(attributes_of))
                .consistent_read(checked.consistency == Consistency::Strong)
                .return_consumed_capacity(TOTAL)
                .send()
        });
        let answer = answer.await.map_err(|f| f.into_error(table.name()))?;
        let response = PageResponse {
            items: answer.items,
            next: answer.last_evaluated_key,
            consumed: answer.consumed_capacity,
        };
        response.into_page(checked.consistency, &call)
    }

    async fn scan_page(&self, table: &TableSpec, scan: Scan) -> Result<Page> {
        check_scan(table, &scan)?;
        let after = scan.after.as_ref().map(Cursor::key_attributes);
        let mut call = self.sender.call();
        let answer = call.send(|| {
            let request = self.client.scan().table_name(table.name().as_str());
            request
                .segment(scan.segment.index.cast_signed())
                .total_segments(scan.segment.of.cast_signed())
                .set_limit(request::limit(scan.limit))
                .set_exclusive_start_key(after.map(attributes_of))
                .consistent_read(scan.consistency == Consistency::Strong)
                .return_consumed_capacity(TOTAL)
                .send()
        });
        let answer = answer.await.map_err(|f| f.into_error(table.name()))?;
        let response = PageResponse {
            items: answer.items,
            next: answer.last_evaluated_key,
            consumed: answer.consumed_capacity,
        };
        response.into_page(scan.consistency, &call)
    }
}

/// A put or a delete with its response.
struct SingleWrite<'a> {
    table: &'a TableSpec,
    key: &'a Key,
    new: Option<&'a Item>,
    condition: Condition,
}

impl DynamoDb {
    /// The outcome of a put or a delete: a cost, a refusal, or an error.
    async fn outcome<E: OperationError + Refusal>(
        &self,
        write: SingleWrite<'_>,
        answer: Result<Option<ConsumedCapacity>, Failure<E>>,
        mut call: Call<'_>,
    ) -> Result<Cost, WriteError> {
        let (table, new) = (write.table, write.new);
        let refused = match answer {
            Ok(consumed) => {
                let unbilled = || Cost::of_write(table, None, new);
                let cost = capacity::written(&consumed).unwrap_or_else(unbilled);
                return Ok(cost.in_requests(call.requests()));
            }
            Err(Failure::Refused(refused)) => refused,
            Err(failure) => return Err(failure.into_error(table.name()).into()),
        };
        let existing = match (refused.existing(), write.condition) {
            (None, Condition::Absent) => self.read_existing(table, write.key, &mut call).await?,
            (existing, _) => existing,
        };
        let existing = existing.map(item_of).transpose()?;
        // DynamoDB bills a refused write by the larger of the two items, and does not report it.
        let cost = Cost::of_sizes(existing.as_ref().map(item_size), new.map(item_size));
        Err(WriteError::Refused {
            existing: existing.map(Box::new),
            cost: cost.in_requests(call.requests()),
        })
    }

    /// Reads the existing item after a refused write, for old servers that do not return it. It may
    /// have changed since.
    async fn read_existing(
        &self,
        table: &TableSpec,
        key: &Key,
        call: &mut Call<'_>,
    ) -> Result<Option<Attributes>> {
        let answer = call.send(|| {
            let request = self.client.get_item().table_name(table.name().as_str());
            request
                .set_key(Some(request::key(table, key)))
                .consistent_read(true)
                .send()
        });
        let answer = answer.await.map_err(|f| f.into_error(table.name()))?;
        Ok(answer.item)
    }
}

/// The response of a query or a scan.
struct PageResponse {
    items: Option<Vec<Attributes>>,
    next: Option<Attributes>,
    consumed: Option<ConsumedCapacity>,
}

impl PageResponse {
    fn into_page(self, consistency: Consistency, call: &Call<'_>) -> Result<Page> {
        let items = self.items.unwrap_or_default().into_iter().map(item_of);
        let items = items.collect::<Result<Vec<_>>>()?;
        let unbilled = || capacity::of_page(&items, consistency);
        let cost = capacity::read(&self.consumed).unwrap_or_else(unbilled);
        // Some servers return an empty key instead of none after the last page.
        let next = self.next.filter(|key| !key.is_empty()).map(item_of);
        let next = next.transpose()?.map(Cursor::new);
        Ok(Page::new(items, next, cost.in_requests(call.requests())))
    }
}
