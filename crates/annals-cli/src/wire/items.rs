//! Wire types of `/v1/items`: the calls of `Items`, and their results, as JSON.
//!
//! Guarantees: a call and a result read back as they were. Items and values are DynamoDB JSON. A
//! failure is not a result: it is a problem, as everywhere in the server.

use annals::items::{
    Billing as TableBilling, Condition as WriteCondition, Consistency, Cost as StoreCost, Cursor,
    Direction, Got, IndexSpec, Item, Key as ItemKey, KeyAttribute, KeyPart, KeySchema, KeyType,
    Page as ItemPage, Projection, Query as ItemQuery, Scan as ItemScan, Scope, Segment, SortRange,
    TableName, TableSpec, Write as ItemWrite, item_from_json, item_to_json, value_from_json,
    value_to_json,
};
use annals::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::changes::{Change, ChangesRead, Moment, Origin};

/// A call of the store.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ItemsCall {
    Get {
        table: ItemsTable,
        keys: Vec<Key>,
    },
    Put {
        table: ItemsTable,
        item: Json,
        condition: Condition,
    },
    Delete {
        table: ItemsTable,
        key: Key,
        condition: Condition,
    },
    Write {
        table: ItemsTable,
        writes: Vec<Write>,
    },
    Query {
        table: ItemsTable,
        query: Query,
    },
    Scan {
        table: ItemsTable,
        scan: Scan,
    },
    /// The number of the store's history, and its last change.
    History {},
    Changes(ChangesRead),
    CreateTable {
        table: ItemsTable,
        billing: Billing,
    },
    DescribeTable {
        name: String,
    },
    DropTable {
        name: String,
    },
}

/// The result of a call.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ItemsResult {
    /// The item of each key.
    Got {
        items: Vec<Option<Json>>,
        cost: Cost,
    },
    Written {
        cost: Cost,
    },
    /// The condition does not hold for the existing item.
    Refused {
        existing: Option<Json>,
        cost: Cost,
    },
    Page {
        items: Vec<Json>,
        next: Option<Json>,
        cost: Cost,
    },
    /// `history`: the number of the history; no number: the store keeps no changes.
    History {
        history: Option<u32>,
        /// The histories that it continues, the oldest first.
        #[serde(default)]
        origins: Vec<Origin>,
        last: Moment,
    },
    Changes {
        changes: Vec<Change>,
        upto: Moment,
        last: Moment,
        cost: Cost,
    },
    Created {},
    Described {
        table: Option<ItemsTable>,
    },
    Dropped {
        existed: bool,
    },
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cost {
    #[schemars(with = "super::Count")]
    requests: u64,
    #[schemars(with = "super::Count")]
    write_units: u64,
    #[schemars(with = "super::Count")]
    read_half_units: u64,
}

impl From<StoreCost> for Cost {
    fn from(cost: StoreCost) -> Self {
        Self {
            requests: cost.requests,
            write_units: cost.write_units,
            read_half_units: cost.read_half_units,
        }
    }
}

impl From<Cost> for StoreCost {
    fn from(cost: Cost) -> Self {
        Self {
            requests: cost.requests,
            write_units: cost.write_units,
            read_half_units: cost.read_half_units,
        }
    }
}

/// The schema of a table.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ItemsTable {
    pub(crate) name: String,
    key: Schema,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    indexes: Vec<Index>,
}

/// Key attributes as name and type.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ItemsKeySchema")]
#[serde(deny_unknown_fields)]
struct Schema {
    partition: (String, Type),
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sort: Option<(String, Type)>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ItemsKeyType")]
enum Type {
    S,
    N,
    B,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ItemsIndex")]
#[serde(deny_unknown_fields)]
struct Index {
    name: String,
    is_global: bool,
    key: Schema,
    projection: Projected,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ItemsProjection")]
#[serde(rename_all = "snake_case")]
enum Projected {
    All,
    KeysOnly,
    Include(Vec<String>),
}

impl ItemsTable {
    pub(crate) fn new(spec: &TableSpec) -> Self {
        let indexes = spec.indexes().iter().map(|index| Index {
            name: index.name.to_string(),
            is_global: index.scope == Scope::Global,
            key: Schema::new(&index.key),
            projection: match &index.projection {
                Projection::All => Projected::All,
                Projection::KeysOnly => Projected::KeysOnly,
                Projection::Include(names) => Projected::Include(names.clone()),
            },
        });
        Self {
            name: spec.name().to_string(),
            key: Schema::new(spec.key()),
            indexes: indexes.collect(),
        }
    }

    pub(crate) fn spec(self) -> Result<TableSpec> {
        let spec = TableSpec::new(self.name.parse()?, self.key.schema())?;
        self.indexes.into_iter().try_fold(spec, |spec, index| {
            let (name, key): (TableName, _) = (index.name.parse()?, index.key.schema());
            let made = match index.is_global {
                true => IndexSpec::global(name, key),
                false => IndexSpec::local(name, key),
            };
            spec.with_index(made.projecting(match index.projection {
                Projected::All => Projection::All,
                Projected::KeysOnly => Projection::KeysOnly,
                Projected::Include(names) => Projection::Include(names),
            }))
        })
    }
}

impl Schema {
    fn new(key: &KeySchema) -> Self {
        let pair = |attribute: &KeyAttribute| {
            let kind = match attribute.key_type {
                KeyType::S => Type::S,
                KeyType::N => Type::N,
                KeyType::B => Type::B,
            };
            (attribute.name.clone(), kind)
        };
        Self {
            partition: pair(&key.partition),
            sort: key.sort.as_ref().map(pair),
        }
    }

    fn schema(self) -> KeySchema {
        let attribute = |(name, kind): (String, Type)| {
            let kind = match kind {
                Type::S => KeyType::S,
                Type::N => KeyType::N,
                Type::B => KeyType::B,
            };
            KeyAttribute::new(name, kind)
        };
        let key = KeySchema::new(attribute(self.partition));
        match self.sort {
            Some(sort) => key.sorted(attribute(sort)),
            None => key,
        }
    }
}

/// The key of an item.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ItemsKey")]
#[serde(deny_unknown_fields)]
pub(crate) struct Key {
    partition: Json,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sort: Option<Json>,
}

impl Key {
    pub(crate) fn new(key: &ItemKey) -> Self {
        Self {
            partition: part_to_json(&key.partition),
            sort: key.sort.as_ref().map(part_to_json),
        }
    }

    pub(crate) fn key(&self) -> Result<ItemKey> {
        let key = ItemKey::new(part_from_json(&self.partition)?);
        Ok(match &self.sort {
            Some(sort) => key.sorted(part_from_json(sort)?),
            None => key,
        })
    }
}

fn part_to_json(part: &KeyPart) -> Json {
    value_to_json(&part.clone().into())
}

fn part_from_json(json: &Json) -> Result<KeyPart> {
    KeyPart::from_value(&value_from_json(json)?)
        .ok_or_else(|| Error::invalid("a key attribute is text, a number or bytes"))
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ItemsCondition")]
#[serde(rename_all = "snake_case")]
pub(crate) enum Condition {
    Always,
    Absent,
    /// The attribute of this name has this value.
    Equals(String, Json),
}

impl Condition {
    pub(crate) fn new(condition: &WriteCondition) -> Self {
        match condition {
            WriteCondition::Always => Self::Always,
            WriteCondition::Absent => Self::Absent,
            WriteCondition::Equals(name, value) => Self::Equals(name.clone(), value_to_json(value)),
        }
    }

    pub(crate) fn condition(self) -> Result<WriteCondition> {
        Ok(match self {
            Self::Always => WriteCondition::Always,
            Self::Absent => WriteCondition::Absent,
            Self::Equals(name, value) => WriteCondition::Equals(name, value_from_json(&value)?),
        })
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ItemsWrite")]
#[serde(rename_all = "snake_case")]
pub(crate) enum Write {
    Put(Json),
    Delete(Key),
}

impl Write {
    pub(crate) fn new(write: &ItemWrite) -> Self {
        match write {
            ItemWrite::Put(item) => Self::Put(item_to_json(item)),
            ItemWrite::Delete(key) => Self::Delete(Key::new(key)),
        }
    }

    pub(crate) fn write(&self) -> Result<ItemWrite> {
        Ok(match self {
            Self::Put(item) => ItemWrite::Put(item_from_json(item)?),
            Self::Delete(key) => ItemWrite::Delete(key.key()?),
        })
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ItemsRange")]
#[serde(rename_all = "snake_case")]
enum Range {
    All,
    Equal(Json),
    AtLeast(Json),
    Above(Json),
    AtMost(Json),
    Below(Json),
    Between(Json, Json),
    BeginsWith(Json),
}

impl Range {
    fn new(range: &SortRange) -> Self {
        match range {
            SortRange::All => Self::All,
            SortRange::Equal(part) => Self::Equal(part_to_json(part)),
            SortRange::AtLeast(part) => Self::AtLeast(part_to_json(part)),
            SortRange::Above(part) => Self::Above(part_to_json(part)),
            SortRange::AtMost(part) => Self::AtMost(part_to_json(part)),
            SortRange::Below(part) => Self::Below(part_to_json(part)),
            SortRange::Between(low, high) => Self::Between(part_to_json(low), part_to_json(high)),
            SortRange::BeginsWith(part) => Self::BeginsWith(part_to_json(part)),
        }
    }

    fn range(&self) -> Result<SortRange> {
        Ok(match self {
            Self::All => SortRange::All,
            Self::Equal(part) => SortRange::Equal(part_from_json(part)?),
            Self::AtLeast(part) => SortRange::AtLeast(part_from_json(part)?),
            Self::Above(part) => SortRange::Above(part_from_json(part)?),
            Self::AtMost(part) => SortRange::AtMost(part_from_json(part)?),
            Self::Below(part) => SortRange::Below(part_from_json(part)?),
            Self::Between(low, high) => {
                SortRange::Between(part_from_json(low)?, part_from_json(high)?)
            }
            Self::BeginsWith(part) => SortRange::BeginsWith(part_from_json(part)?),
        })
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ItemsQuery")]
#[serde(deny_unknown_fields)]
pub(crate) struct Query {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    index: Option<String>,
    partition: Json,
    range: Range,
    is_descending: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<Json>,
    is_eventual: bool,
}

impl Query {
    pub(crate) fn new(query: &ItemQuery) -> Self {
        Self {
            index: query.index.clone(),
            partition: part_to_json(&query.partition),
            range: Range::new(&query.range),
            is_descending: query.direction == Direction::Descending,
            limit: query.limit,
            after: query.after.as_ref().map(cursor_to_json),
            is_eventual: query.consistency == Consistency::Eventual,
        }
    }

    pub(crate) fn query(self) -> Result<ItemQuery> {
        let mut query = ItemQuery::of(part_from_json(&self.partition)?);
        query.index = self.index;
        query.range = self.range.range()?;
        query.limit = self.limit;
        query.after = self.after.as_ref().map(cursor_from_json).transpose()?;
        if self.is_descending {
            query.direction = Direction::Descending;
        }
        query.consistency = consistency(self.is_eventual);
        Ok(query)
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ItemsScan")]
#[serde(deny_unknown_fields)]
pub(crate) struct Scan {
    /// The segment, from 0, and the number of segments.
    segment: (u32, u32),
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<Json>,
    is_eventual: bool,
}

impl Scan {
    pub(crate) fn new(scan: &ItemScan) -> Self {
        Self {
            segment: (scan.segment.index, scan.segment.of),
            limit: scan.limit,
            after: scan.after.as_ref().map(cursor_to_json),
            is_eventual: scan.consistency == Consistency::Eventual,
        }
    }

    pub(crate) fn scan(self) -> Result<ItemScan> {
        let (index, of) = self.segment;
        let mut scan = ItemScan::segment(Segment { index, of });
        scan.limit = self.limit;
        scan.after = self.after.as_ref().map(cursor_from_json).transpose()?;
        scan.consistency = consistency(self.is_eventual);
        Ok(scan)
    }
}

fn consistency(is_eventual: bool) -> Consistency {
    match is_eventual {
        true => Consistency::Eventual,
        false => Consistency::Strong,
    }
}

fn cursor_to_json(cursor: &Cursor) -> Json {
    item_to_json(cursor.key_attributes())
}

fn cursor_from_json(json: &Json) -> Result<Cursor> {
    item_from_json(json).map(Cursor::new)
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ItemsBilling")]
#[serde(rename_all = "snake_case")]
pub(crate) enum Billing {
    OnDemand,
    /// Read and write units a second.
    Provisioned(u32, u32),
}

impl From<TableBilling> for Billing {
    fn from(billing: TableBilling) -> Self {
        match billing {
            TableBilling::OnDemand => Self::OnDemand,
            TableBilling::Provisioned {
                read_units,
                write_units,
            } => Self::Provisioned(read_units, write_units),
        }
    }
}

impl From<Billing> for TableBilling {
    fn from(billing: Billing) -> Self {
        match billing {
            Billing::OnDemand => Self::OnDemand,
            Billing::Provisioned(read_units, write_units) => Self::Provisioned {
                read_units,
                write_units,
            },
        }
    }
}

impl ItemsResult {
    pub(crate) fn got(got: &Got) -> Self {
        Self::Got {
            items: got
                .items
                .iter()
                .map(|it| it.as_ref().map(item_to_json))
                .collect(),
            cost: got.cost.into(),
        }
    }

    pub(crate) fn page(page: &ItemPage) -> Self {
        Self::Page {
            items: page.items.iter().map(item_to_json).collect(),
            next: page.next.as_ref().map(cursor_to_json),
            cost: page.cost.into(),
        }
    }

    /// The page, if this is one.
    pub(crate) fn into_page(self) -> Result<Option<ItemPage>> {
        let Self::Page { items, next, cost } = self else {
            return Ok(None);
        };
        let items: Vec<Item> = items.iter().map(item_from_json).collect::<Result<_>>()?;
        let next = next.as_ref().map(cursor_from_json).transpose()?;
        Ok(Some(ItemPage::new(items, next, cost.into())))
    }
}
