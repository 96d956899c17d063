//! Creating and describing tables, on a server.

use annals::ErrorKind;
use annals::items::{
    Billing, Condition, IndexSpec, Item, Items, KeyAttribute, KeySchema, KeyType, Projection,
    TableSpec,
};

use crate::server::{open, unique};

fn spec() -> TableSpec {
    let bytes = KeyAttribute::new("b", KeyType::B);
    let own = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("n"));
    let local = KeySchema::new(KeyAttribute::text("p")).sorted(bytes.clone());
    let alone = IndexSpec::global("alone".parse().unwrap(), KeySchema::new(bytes));
    let some = IndexSpec::local("some".parse().unwrap(), local.clone());
    let all = IndexSpec::local("all".parse().unwrap(), local);
    TableSpec::new(unique("tables"), own)
        .and_then(|table| table.with_index(all))
        .and_then(|table| {
            table.with_index(some.projecting(Projection::Include(vec!["x".to_owned()])))
        })
        .and_then(|table| table.with_index(alone.projecting(Projection::KeysOnly)))
        .unwrap()
}

async fn check_round_trip(billing: Billing) {
    let (store, spec) = (open().await, spec());
    let name = spec.name();
    assert_eq!(store.describe_table(name).await.unwrap(), None);
    assert!(!store.drop_table(name).await.unwrap());

    store.create_table(&spec, billing).await.unwrap();
    let again = store.create_table(&spec, billing).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
    let found = store.describe_table(name).await.unwrap().unwrap();
    assert_eq!(spec.differences(&found), [""; 0]);
    assert_eq!(found.differences(&spec), [""; 0]);
    let item = Item::new().with("p", "a").with("n", 1u64);
    store.put(&spec, item, Condition::Absent).await.unwrap();

    assert!(store.drop_table(name).await.unwrap());
    assert_eq!(store.describe_table(name).await.unwrap(), None);
}

#[tokio::test]
async fn describes_a_table_as_it_was_created() {
    check_round_trip(Billing::OnDemand).await;
}

#[tokio::test]
async fn provisioned_capacity_covers_the_indexes() {
    let billing = Billing::Provisioned {
        read_units: 5,
        write_units: 6,
    };
    check_round_trip(billing).await;
}
