//! Creates, describes and drops tables, and waits until the change is complete.
//!
//! Guarantees: a created table can be used, its global indexes included; a dropped table is gone.
//! Both waits are bounded. Never changes an existing table.

use std::time::Duration;

use annals::items::{
    Billing, IndexSpec, KeyAttribute, KeySchema, KeyType, Projection, Scope, TableName, TableSpec,
    table_exists,
};
use annals::{Error, Result};
use aws_sdk_dynamodb::error::{BuildError, SdkError};
use aws_sdk_dynamodb::types::{
    self as sdk, AttributeDefinition, BillingMode, GlobalSecondaryIndex, IndexStatus,
    KeySchemaElement, LocalSecondaryIndex, ProjectionType, ProvisionedThroughput,
    ScalarAttributeType, TableDescription, TableStatus,
};

use crate::client::DynamoDb;
use crate::error::Failure;

/// How long creating or dropping a table may take. With indexes it takes DynamoDB about a minute.
const WAIT_MAX: Duration = Duration::from_secs(5 * 60);
/// The pause between two polls.
const POLL_PAUSE: Duration = Duration::from_millis(500);

impl DynamoDb {
    pub(crate) async fn create(&self, spec: &TableSpec, billing: Billing) -> Result<()> {
        let name = spec.name();
        let mut call = self.sender.call();
        let answer = call.send(|| async {
            let parts = parts(spec, billing).map_err(SdkError::construction_failure)?;
            let request = self.client.create_table().table_name(name.as_str());
            request
                .set_attribute_definitions(Some(parts.attributes))
                .set_key_schema(Some(parts.key))
                .set_local_secondary_indexes(parts.local)
                .set_global_secondary_indexes(parts.global)
                .billing_mode(parts.billing)
                .set_provisioned_throughput(parts.throughput)
                .send()
                .await
        });
        let created = match answer.await {
            Ok(answer) => answer.table_description,
            Err(Failure::TableInUse) => {
                // After a lost response and a retry, the existing table may be the one this call
                // created; it is accepted if it is the same.
                let found = match call.requests() {
                    1 => None,
                    _ => self.describe(name).await?,
                };
                if found.is_none_or(|found| !spec.differences(&found).is_empty()) {
                    return Err(table_exists(name));
                }
                None
            }
            Err(failure) => return Err(failure.into_error(name)),
        };
        if created.is_some_and(|table| is_usable(&table)) {
            return Ok(());
        }
        self.wait_until(name, |table| table.is_some_and(is_usable))
            .await
    }

    pub(crate) async fn describe(&self, name: &TableName) -> Result<Option<TableSpec>> {
        let table = self.description(name).await?;
        table.map(|table| spec_of(name, &table)).transpose()
    }

    pub(crate) async fn drop(&self, name: &TableName) -> Result<bool> {
        let ends = self.sender.clock().monotonic() + WAIT_MAX;
        loop {
            let mut call = self.sender.call();
            let answer = call.send(|| {
                let request = self.client.delete_table().table_name(name.as_str());
                request.send()
            });
            match answer.await {
                Ok(_) => break,
                // An earlier attempt may have dropped it and lost its response.
                Err(Failure::MissingTable) => return Ok(call.requests() > 1),
                // It is being created or changed, and can be dropped afterwards.
                Err(Failure::TableInUse) => self.pause(name, ends).await?,
                Err(failure) => return Err(failure.into_error(name)),
            }
        }
        self.wait_until(name, |table| table.is_none()).await?;
        Ok(true)
    }

    /// Polls the table until `is_done`.
    async fn wait_until(
        &self,
        name: &TableName,
        is_done: impl Fn(Option<&TableDescription>) -> bool + Send,
    ) -> Result<()> {
        let ends = self.sender.clock().monotonic() + WAIT_MAX;
        loop {
            let table = self.description(name).await?;
            if is_done(table.as_ref()) {
                return Ok(());
            }
            self.pause(name, ends).await?;
        }
    }

    async fn pause(&self, name: &TableName, ends: Duration) -> Result<()> {
        let clock = self.sender.clock();
        if clock.monotonic() >= ends {
            return Err(Error::unavailable(format!(
                "table is still changing after {} s; check it again later",
                WAIT_MAX.as_secs()
            ))
            .fact("table", name));
        }
        clock.sleep(POLL_PAUSE).await;
        Ok(())
    }

    async fn description(&self, name: &TableName) -> Result<Option<TableDescription>> {
        let mut call = self.sender.call();
        let answer = call.send(|| {
            let request = self.client.describe_table().table_name(name.as_str());
            request.send()
        });
        match answer.await {
            Ok(answer) => Ok(answer.table),
            Err(Failure::MissingTable) => Ok(None),
            Err(failure) => Err(failure.into_error(name)),
        }
    }
}

/// How a table is configured on DynamoDB, besides its keys and indexes.
///
/// ```no_run
/// use annals_aws::{AwsSettings, DynamoDb};
///
/// # async fn example() -> annals::Result<()> {
/// let items = DynamoDb::open(&AwsSettings::default()).await?;
/// if let Some(config) = items.table_config(&"annals-journal".parse()?).await? {
///     println!("{:?}, recoverable: {:?}", config.billing, config.is_recoverable);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableConfig {
    /// The billing mode.
    pub billing: Billing,
    /// Whether deletion protection is on.
    pub is_protected: bool,
    /// Whether point-in-time recovery is on; `None` if the role may not read that.
    pub is_recoverable: Option<bool>,
    /// The attribute of DynamoDB's time to live, if that is on; also `None` if the role may not read
    /// that.
    pub expires_by: Option<String>,
}

impl DynamoDb {
    /// Reads how a table is configured; `None` if there is no such table.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn table_config(&self, name: &TableName) -> Result<Option<TableConfig>> {
        let Some(table) = self.description(name).await? else {
            return Ok(None);
        };
        let mode = table.billing_mode_summary();
        let mode = mode.and_then(|summary| summary.billing_mode());
        let units = table.provisioned_throughput();
        let unit = |units: Option<i64>| u32::try_from(units.unwrap_or(0)).unwrap_or(u32::MAX);
        let provisioned = units.map(|units| Billing::Provisioned {
            read_units: unit(units.read_capacity_units()),
            write_units: unit(units.write_capacity_units()),
        });
        let none = Billing::Provisioned {
            read_units: 0,
            write_units: 0,
        };
        let is_on_demand = mode == Some(&BillingMode::PayPerRequest);
        let provisioned = provisioned.filter(|units| !is_on_demand && *units != none);
        let backups = self.client.describe_continuous_backups();
        let backups = backups.table_name(name.as_str()).send().await.ok();
        let backups = backups.and_then(|answer| answer.continuous_backups_description);
        let backups = backups.and_then(|found| found.point_in_time_recovery_description);
        let expiry = self.client.describe_time_to_live();
        let expiry = expiry.table_name(name.as_str()).send().await.ok();
        let expiry = expiry.and_then(|answer| answer.time_to_live_description);
        let is_expiring = |found: &sdk::TimeToLiveDescription| {
            found.time_to_live_status() == Some(&sdk::TimeToLiveStatus::Enabled)
        };
        Ok(Some(TableConfig {
            billing: provisioned.unwrap_or(Billing::OnDemand),
            is_protected: table.deletion_protection_enabled().unwrap_or(false),
            is_recoverable: backups.map(|found| {
                let status = found.point_in_time_recovery_status();
                status == Some(&sdk::PointInTimeRecoveryStatus::Enabled)
            }),
            expires_by: expiry.filter(is_expiring).and_then(|it| it.attribute_name),
        }))
    }
}

fn is_usable(table: &TableDescription) -> bool {
    let indexes = table.global_secondary_indexes();
    let is_ready = |status: Option<&IndexStatus>| status.is_none_or(|s| *s == IndexStatus::Active);
    table.table_status == Some(TableStatus::Active)
        && indexes.iter().all(|index| is_ready(index.index_status()))
}

/// A table spec in the SDK's types.
struct Parts {
    attributes: Vec<AttributeDefinition>,
    key: Vec<KeySchemaElement>,
    local: Option<Vec<LocalSecondaryIndex>>,
    global: Option<Vec<GlobalSecondaryIndex>>,
    billing: BillingMode,
    throughput: Option<ProvisionedThroughput>,
}

fn parts(spec: &TableSpec, billing: Billing) -> Result<Parts, BuildError> {
    let throughput = throughput_of(billing)?;
    let of_scope = |scope| {
        let indexes = spec.indexes().iter();
        indexes.filter(move |index| index.scope == scope)
    };
    let local = of_scope(Scope::Local).map(|index| {
        LocalSecondaryIndex::builder()
            .index_name(index.name.as_str())
            .set_key_schema(Some(key_of(&index.key)?))
            .projection(projection_of(&index.projection))
            .build()
    });
    let global = of_scope(Scope::Global).map(|index| {
        GlobalSecondaryIndex::builder()
            .index_name(index.name.as_str())
            .set_key_schema(Some(key_of(&index.key)?))
            .projection(projection_of(&index.projection))
            .set_provisioned_throughput(throughput.clone())
            .build()
    });
    let attributes = spec.key_attributes().into_iter().map(|attribute| {
        AttributeDefinition::builder()
            .attribute_name(&attribute.name)
            .attribute_type(scalar_of(attribute.key_type))
            .build()
    });
    let local = local.collect::<Result<Vec<_>, _>>()?;
    let global = global.collect::<Result<Vec<_>, _>>()?;
    Ok(Parts {
        attributes: attributes.collect::<Result<_, _>>()?,
        key: key_of(spec.key())?,
        // DynamoDB rejects an empty list of indexes.
        local: Some(local).filter(|indexes| !indexes.is_empty()),
        global: Some(global).filter(|indexes| !indexes.is_empty()),
        billing: match billing {
            Billing::OnDemand => BillingMode::PayPerRequest,
            Billing::Provisioned { .. } => BillingMode::Provisioned,
        },
        throughput,
    })
}

fn throughput_of(billing: Billing) -> Result<Option<ProvisionedThroughput>, BuildError> {
    let Billing::Provisioned {
        read_units,
        write_units,
    } = billing
    else {
        return Ok(None);
    };
    let throughput = ProvisionedThroughput::builder()
        .read_capacity_units(read_units.into())
        .write_capacity_units(write_units.into());
    throughput.build().map(Some)
}

fn key_of(key: &KeySchema) -> Result<Vec<KeySchemaElement>, BuildError> {
    let kinds = [sdk::KeyType::Hash, sdk::KeyType::Range];
    let elements = key.attributes().zip(kinds).map(|(attribute, kind)| {
        KeySchemaElement::builder()
            .attribute_name(&attribute.name)
            .key_type(kind)
            .build()
    });
    elements.collect()
}

fn scalar_of(key_type: KeyType) -> ScalarAttributeType {
    match key_type {
        KeyType::S => ScalarAttributeType::S,
        KeyType::N => ScalarAttributeType::N,
        KeyType::B => ScalarAttributeType::B,
    }
}

fn projection_of(projection: &Projection) -> sdk::Projection {
    let (kind, names) = match projection {
        Projection::All => (ProjectionType::All, None),
        Projection::KeysOnly => (ProjectionType::KeysOnly, None),
        Projection::Include(names) => (ProjectionType::Include, Some(names.clone())),
    };
    sdk::Projection::builder()
        .projection_type(kind)
        .set_non_key_attributes(names)
        .build()
}

/// The table spec for a description of DynamoDB.
fn spec_of(name: &TableName, table: &TableDescription) -> Result<TableSpec> {
    let types = table.attribute_definitions();
    let key = schema_of(types, table.key_schema()).ok_or_else(|| {
        Error::invalid("the key of the table is not a partition and an optional sort attribute")
            .fact("table", name)
    })?;
    let local = table.local_secondary_indexes().iter().map(|index| {
        let key = schema_of(types, index.key_schema())?;
        let index_name = index.index_name()?.parse().ok()?;
        Some(IndexSpec::local(index_name, key).projecting(projected(index.projection()?)?))
    });
    let global = table.global_secondary_indexes().iter().map(|index| {
        let key = schema_of(types, index.key_schema())?;
        let index_name = index.index_name()?.parse().ok()?;
        Some(IndexSpec::global(index_name, key).projecting(projected(index.projection()?)?))
    });
    // An index that a spec cannot express (a key of several attributes) is unused here: leave it out.
    let mut indexes = local.chain(global).flatten();
    let spec = TableSpec::new(name.clone(), key)?;
    indexes.try_fold(spec, TableSpec::with_index)
}

fn schema_of(types: &[AttributeDefinition], key: &[KeySchemaElement]) -> Option<KeySchema> {
    let attribute = |element: &KeySchemaElement| {
        let name = element.attribute_name();
        let definition = types.iter().find(|d| d.attribute_name() == name)?;
        let key_type = match definition.attribute_type() {
            ScalarAttributeType::S => KeyType::S,
            ScalarAttributeType::N => KeyType::N,
            ScalarAttributeType::B => KeyType::B,
            _ => return None,
        };
        Some(KeyAttribute::new(name, key_type))
    };
    match key {
        [one] if *one.key_type() == sdk::KeyType::Hash => Some(KeySchema::new(attribute(one)?)),
        [one, two]
            if (one.key_type(), two.key_type()) == (&sdk::KeyType::Hash, &sdk::KeyType::Range) =>
        {
            Some(KeySchema::new(attribute(one)?).sorted(attribute(two)?))
        }
        _ => None,
    }
}

fn projected(projection: &sdk::Projection) -> Option<Projection> {
    match projection.projection_type()? {
        ProjectionType::All => Some(Projection::All),
        ProjectionType::KeysOnly => Some(Projection::KeysOnly),
        ProjectionType::Include => {
            let names = projection.non_key_attributes().to_vec();
            Some(Projection::Include(names))
        }
        _ => None,
    }
}
