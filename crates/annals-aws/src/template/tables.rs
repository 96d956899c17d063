//! Tables as CloudFormation resources. Pure.
//!
//! Guarantees: a table is retained when the stack or the resource is deleted.

use annals::items::{Billing, KeySchema, Projection, Scope, TableSpec};
use serde_json::{Map, Value as Json, json};

const UNITS: &str = "ProvisionedThroughput";

/// Returns the resource of a table, with point-in-time recovery if `is_recoverable`.
pub(super) fn table(spec: &TableSpec, billing: Billing, is_recoverable: bool) -> Json {
    let attributes = spec.key_attributes().into_iter();
    let attributes = attributes.map(|attribute| {
        json!({
            "AttributeName": attribute.name,
            "AttributeType": attribute.key_type.to_string(),
        })
    });
    let attributes: Json = attributes.collect();
    let mut properties = Map::new();
    let mut set = |name: &str, value: Json| properties.insert(name.to_owned(), value);
    set("TableName", json!(spec.name().as_str()));
    set("AttributeDefinitions", attributes);
    set("KeySchema", key(spec.key()));
    let (mode, throughput) = match billing {
        Billing::OnDemand => ("PAY_PER_REQUEST", None),
        Billing::Provisioned {
            read_units,
            write_units,
        } => {
            let units = json!({"ReadCapacityUnits": read_units, "WriteCapacityUnits": write_units});
            ("PROVISIONED", Some(units))
        }
    };
    set("BillingMode", json!(mode));
    for (scope, name) in [
        (Scope::Local, "LocalSecondaryIndexes"),
        (Scope::Global, "GlobalSecondaryIndexes"),
    ] {
        let of_scope = spec.indexes().iter().filter(|index| index.scope == scope);
        let indexes = of_scope.map(|index| {
            let units = throughput.clone().filter(|_| scope == Scope::Global);
            let mut resource = Map::new();
            resource.insert("IndexName".to_owned(), json!(index.name.as_str()));
            resource.insert("KeySchema".to_owned(), key(&index.key));
            resource.insert("Projection".to_owned(), projection(&index.projection));
            resource.extend(units.map(|units| (UNITS.to_owned(), units)));
            Json::Object(resource)
        });
        let indexes: Vec<Json> = indexes.collect();
        if !indexes.is_empty() {
            set(name, json!(indexes));
        }
    }
    if let Some(units) = throughput {
        set(UNITS, units);
    }
    if is_recoverable {
        let recovery = json!({"PointInTimeRecoveryEnabled": true});
        set("PointInTimeRecoverySpecification", recovery);
    }
    json!({
        "Type": "AWS::DynamoDB::Table",
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": properties,
    })
}

fn key(key: &KeySchema) -> Json {
    let attributes = key.attributes().zip(["HASH", "RANGE"]);
    let attributes = attributes
        .map(|(attribute, kind)| json!({"AttributeName": attribute.name, "KeyType": kind}));
    attributes.collect()
}

fn projection(projection: &Projection) -> Json {
    match projection {
        Projection::All => json!({"ProjectionType": "ALL"}),
        Projection::KeysOnly => json!({"ProjectionType": "KEYS_ONLY"}),
        Projection::Include(names) => {
            json!({"ProjectionType": "INCLUDE", "NonKeyAttributes": names})
        }
    }
}
