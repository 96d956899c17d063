//! Calls of [`Items`] and their answers as values, so that one method can handle every verb.

use annals::Error;
use annals::items::{
    BatchError, Billing, ChangePage, Condition, Cost, Got, Item, Items, Key, Page, PageBudget,
    Query, Scan, TableName, TableSpec, Write, WriteError,
};
use annals::store::Verb;

/// A call of [`Items`]: a variant for each method, with its arguments. See [`Hook`](super::Hook)
/// for an example.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each is the method of its name")]
#[non_exhaustive]
pub enum Call<'a> {
    Get(&'a TableSpec, Vec<Key>),
    Put(&'a TableSpec, Item, Condition),
    Delete(&'a TableSpec, Key, Condition),
    Write(&'a TableSpec, Vec<Write>),
    Query(&'a TableSpec, Query),
    Scan(&'a TableSpec, Scan),
    ReadChanges(&'a TableSpec, u64, PageBudget),
    CreateTable(&'a TableSpec, Billing),
    DescribeTable(&'a TableName),
    DropTable(&'a TableName),
}

impl Call<'_> {
    /// The verb that [`Store`](annals::store::Store) counts it under.
    pub fn verb(&self) -> Verb {
        match self {
            Self::Get(..) => Verb::Get,
            Self::Put(..) => Verb::Put,
            Self::Delete(..) => Verb::Delete,
            Self::Write(..) => Verb::Write,
            Self::Query(..) => Verb::Query,
            Self::Scan(..) => Verb::Scan,
            Self::ReadChanges(..) => Verb::Changes,
            Self::CreateTable(..) | Self::DescribeTable(_) | Self::DropTable(_) => Verb::Tables,
        }
    }

    /// Makes the call.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn send(self, items: &dyn Items) -> Answered {
        Ok(match self {
            Self::Get(table, keys) => items.get(table, keys).await?.into(),
            Self::Put(table, item, condition) => items.put(table, item, condition).await?.into(),
            Self::Delete(table, key, condition) => {
                items.delete(table, key, condition).await?.into()
            }
            Self::Write(table, writes) => items.write(table, writes).await?.into(),
            Self::Query(table, query) => items.query(table, query).await?.into(),
            Self::Scan(table, scan) => items.scan(table, scan).await?.into(),
            Self::ReadChanges(table, after, budget) => {
                let changes = items.changes().ok_or_else(no_changes)?;
                changes.read_changes(table, after, budget).await?.into()
            }
            Self::CreateTable(spec, billing) => items.create_table(spec, billing).await?.into(),
            Self::DescribeTable(name) => items.describe_table(name).await?.into(),
            Self::DropTable(name) => items.drop_table(name).await?.into(),
        })
    }
}

pub(super) fn no_changes() -> Error {
    Error::invalid("this store does not keep its changes")
}

/// The result of a call.
pub type Answered = Result<Answer, Failure>;

/// What a call returns if it succeeds. Each value converts into its variant.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each is named after its methods")]
#[non_exhaustive]
pub enum Answer {
    Got(Got),
    Written(Cost),
    Page(Page),
    Changes(ChangePage),
    Created(()),
    Described(Option<TableSpec>),
    Dropped(bool),
}

macro_rules! convert {
    ($($kind:ident($value:ty))*) => {$(
        impl From<$value> for Answer {
            fn from(value: $value) -> Self {
                Self::$kind(value)
            }
        }

        impl From<Answer> for $value {
            fn from(answer: Answer) -> Self {
                match answer {
                    Answer::$kind(value) => value,
                    other => panic!("a hook returned the answer of another call: {other:?}"),
                }
            }
        }
    )*};
}

convert!(Got(Got) Written(Cost) Page(Page) Changes(ChangePage) Created(()) Described(Option<TableSpec>) Dropped(bool));

/// The error of a call. The error types of [`Items`] convert into it, and it into them.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The store failed, or refused a conditional write.
    Write(WriteError),
    /// Some writes of a batch remain.
    Batch(BatchError),
}

impl Failure {
    /// As the error of a batch: unless it is one already, all writes remain.
    pub(super) fn of_batch(self, all: Vec<Write>) -> BatchError {
        match self {
            Self::Batch(error) => error,
            Self::Write(error) => BatchError::new(all, Cost::request(), error.into()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Write(error.into())
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl From<BatchError> for Failure {
    fn from(error: BatchError) -> Self {
        Self::Batch(error)
    }
}

impl From<Failure> for WriteError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Write(error) => error,
            Failure::Batch(error) => Self::Failed(error.into()),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        WriteError::from(failure).into()
    }
}
