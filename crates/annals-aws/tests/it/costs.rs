//! DynamoDB and the memory store return the same items, cursors and costs.

use std::fmt::Debug;
use std::sync::Arc;

use annals::items::{
    Condition, IndexSpec, Item, Items, Key, KeyAttribute, KeySchema, Projection, Query, Scan,
    SortRange, TableSpec, Value, Write,
};
use annals::memory::Memory;

use crate::server::{self, unique, with_table_at};

/// A table with an index of either scope and every projection.
fn table() -> TableSpec {
    let by = |partition: &str, sort: &str| {
        KeySchema::new(KeyAttribute::text(partition)).sorted(KeyAttribute::number(sort))
    };
    let global = IndexSpec::global("by-tag".parse().unwrap(), by("tag", "n"));
    let local = IndexSpec::local("by-time".parse().unwrap(), by("p", "t"));
    let include = Projection::Include(vec!["x".to_owned()]);
    let keys = IndexSpec::global("keys".parse().unwrap(), by("tag", "t"));
    TableSpec::new(unique("costs"), by("p", "n"))
        .and_then(|table| table.with_index(global))
        .and_then(|table| table.with_index(local.projecting(include)))
        .and_then(|table| table.with_index(keys.projecting(Projection::KeysOnly)))
        .unwrap()
}

fn event(n: u64) -> Item {
    Item::new().with("p", "cart-1").with("n", n)
}

fn sized(n: u64, bytes: usize) -> Item {
    event(n).with("d", vec![7u8; bytes])
}

fn key(n: u64) -> Key {
    Key::new("cart-1").sorted(n)
}

/// Two stores that get the same requests.
struct Twins {
    dynamodb: Arc<dyn Items>,
    memory: Arc<dyn Items>,
    table: Arc<TableSpec>,
}

impl Twins {
    async fn same<T: Debug>(&self, what: &str, ask: impl AsyncFn(&dyn Items, &TableSpec) -> T) {
        let theirs = ask(&*self.dynamodb, &self.table).await;
        let ours = ask(&*self.memory, &self.table).await;
        assert_eq!(format!("{theirs:#?}"), format!("{ours:#?}"), "{what}");
    }

    async fn put(&self, what: &str, item: Item, condition: Condition) {
        let put = async |items: &dyn Items, table: &TableSpec| {
            items.put(table, item.clone(), condition.clone()).await
        };
        self.same(what, put).await;
    }

    async fn delete(&self, what: &str, n: u64, condition: Condition) {
        let delete = async |items: &dyn Items, table: &TableSpec| {
            items.delete(table, key(n), condition.clone()).await
        };
        self.same(what, delete).await;
    }

    async fn query(&self, what: &str, query: Query) {
        let ask =
            async |items: &dyn Items, table: &TableSpec| items.query(table, query.clone()).await;
        self.same(what, ask).await;
    }

    async fn get(&self, what: &str, keys: impl IntoIterator<Item = u64>) {
        let keys: Vec<Key> = keys.into_iter().map(key).collect();
        let get = async |items: &dyn Items, table: &TableSpec| items.get(table, keys.clone()).await;
        self.same(what, get).await;
    }

    async fn write(&self, what: &str, writes: Vec<Write>) {
        let write =
            async |items: &dyn Items, table: &TableSpec| items.write(table, writes.clone()).await;
        self.same(what, write).await;
    }
}

async fn with_twins(test: impl AsyncFnOnce(Twins)) {
    with_twins_at(&server::endpoint().await, test).await;
}

async fn with_twins_at(endpoint: &str, test: impl AsyncFnOnce(Twins)) {
    with_table_at(endpoint, table(), async |dynamodb, table| {
        let memory = Arc::new(Memory::new());
        memory
            .create_table(&table, Default::default())
            .await
            .unwrap();
        test(Twins {
            dynamodb,
            memory,
            table,
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn puts_and_deletes_cost_the_same_as_in_memory() {
    with_twins(async |twins| {
        let equals = |value: u64| Condition::Equals("v".to_owned(), value.into());
        twins.put("a new item", event(1), Condition::Absent).await;
        twins
            .put("1 KB is one unit", sized(2, 1024 - 25), Condition::Absent)
            .await;
        twins
            .put("a large item", sized(3, 10_000), Condition::Absent)
            .await;
        twins
            .put("a smaller one over it", sized(3, 10), Condition::Always)
            .await;
        twins
            .put("a larger one over that", sized(3, 5_000), Condition::Always)
            .await;
        twins
            .put("refused by a large one", event(3), Condition::Absent)
            .await;
        twins
            .put("a large one refused", sized(1, 7_000), Condition::Absent)
            .await;
        twins.put("refused by a value", event(1), equals(1)).await;
        twins
            .put("refused by absence", sized(9, 3_000), equals(1))
            .await;
        twins
            .put("with a value", event(1).with("v", 1u64), Condition::Always)
            .await;
        twins
            .put("held by a value", event(1).with("v", 2u64), equals(1))
            .await;

        twins.delete("nothing", 99, Condition::Always).await;
        twins.delete("nothing, absent", 99, Condition::Absent).await;
        twins.delete("nothing, refused", 99, equals(1)).await;
        twins.delete("refused", 3, Condition::Absent).await;
        twins.delete("a large item", 3, Condition::Always).await;
        twins.delete("held by a value", 1, equals(2)).await;
    })
    .await;
}

#[tokio::test]
async fn indexes_cost_the_same_as_in_memory() {
    with_twins(async |twins| {
        let tagged = |tag: &str| event(1).with("tag", tag).with("t", 5u64);
        let put = async |what: &str, item: Item| twins.put(what, item, Condition::Always).await;
        put("into every index", tagged("a")).await;
        put("unchanged", tagged("a")).await;
        put("projected to one", tagged("a").with("d", vec![1u8; 2_000])).await;
        put(
            "projected to two",
            tagged("a").with("x", "y").with("d", vec![1u8; 2_000]),
        )
        .await;
        put(
            "moved",
            tagged("b").with("x", "y").with("d", vec![1u8; 2_000]),
        )
        .await;
        put(
            "out of some",
            event(1).with("t", 6u64).with("d", vec![1u8; 3_000]),
        )
        .await;
        put("out of all", event(1)).await;
        put("into all again", tagged("c")).await;
        twins.delete("from every index", 1, Condition::Always).await;
        put("into all once more", tagged("c")).await;
        let refused = tagged("d").with("d", vec![1u8; 5_000]);
        twins.put("refused", refused, Condition::Absent).await;
    })
    .await;
}

#[tokio::test]
async fn batches_cost_the_same_as_in_memory() {
    with_twins(async |twins| {
        let puts = |bytes: usize| (0..60).map(move |n| Write::Put(sized(n, bytes))).collect();
        twins.write("nothing", vec![]).await;
        twins.write("new items", puts(100)).await;
        twins.write("larger ones over them", puts(1_500)).await;
        let deletes = (0..60).step_by(2).map(|n| Write::Delete(key(n))).collect();
        twins.write("deletes", deletes).await;
        let tagged = (100..130).map(|n| Write::Put(event(n).with("tag", "a").with("t", n)));
        twins.write("into indexes", tagged.collect()).await;

        twins.get("no key", []).await;
        twins.get("a missing key", [0]).await;
        twins.get("one key", [1]).await;
        twins.get("one key twice", [1, 1]).await;
        let odd = |to: u64| (1..to).step_by(2);
        twins.get("some keys, some twice", [1, 3, 1, 5, 3]).await;
        twins
            .get("many keys", odd(60).chain(100..130).chain(odd(10)))
            .await;
    })
    .await;
}

#[tokio::test]
async fn reads_return_and_cost_the_same_as_in_memory() {
    with_twins(async |twins| {
        for n in 1..=30u64 {
            let tag = if n % 3 == 0 { "a" } else { "b" };
            let item = sized(n, 500).with("tag", tag).with("t", 100 - n);
            let item = item.with("x", Value::L(vec![n.into(), "x".into()]));
            twins.put("an item", item, Condition::Absent).await;
        }
        let of = || Query::of("cart-1");
        twins.query("a partition", of()).await;
        twins.query("eventually", of().eventually()).await;
        twins.query("a page", of().limit(7)).await;
        twins
            .query("a page backwards", of().descending().limit(7))
            .await;
        twins.query("exactly all", of().limit(30)).await;
        let range = SortRange::Between(5u64.into(), 8u64.into());
        twins.query("a range", of().within(range)).await;
        twins.query("a local index", of().on("by-time")).await;
        twins
            .query("a page of it", of().on("by-time").limit(3).descending())
            .await;
        twins
            .query("a global index", Query::of("a").on("by-tag"))
            .await;
        twins
            .query("a page of it", Query::of("a").on("by-tag").limit(2))
            .await;
        twins
            .query("of keys only", Query::of("b").on("keys").eventually())
            .await;
        twins
            .same("a scan", async |items: &dyn Items, table: &TableSpec| {
                items.scan(table, Scan::whole()).await
            })
            .await;
        let mut eventually = Scan::whole().limit(4);
        eventually.consistency = annals::items::Consistency::Eventual;
        twins
            .same(
                "a page of a scan",
                async |items: &dyn Items, table: &TableSpec| {
                    items.scan(table, eventually.clone()).await
                },
            )
            .await;
    })
    .await;
}

/// Always on the emulator. DynamoDB Local bills nothing for an empty query and for absent keys of a
/// batch, and two units for some deletes of absent items; its pages end after the item that exceeds
/// 1 MB, not before it.
#[tokio::test]
async fn absent_items_and_full_pages_cost_the_same_as_in_memory() {
    with_twins_at(&server::emulator().await, async |twins| {
        twins.query("nothing", Query::of("nobody")).await;
        let eventually = Query::of("nobody").eventually();
        twins.query("nothing, eventually", eventually).await;
        twins.get("nothing", 0..150).await;
        let deletes = (0..30).map(|n| Write::Delete(key(n))).collect();
        twins.write("deletes of nothing", deletes).await;
        for n in 1..=8u64 {
            let item = sized(n, 300_000);
            twins.put("a large item", item, Condition::Absent).await;
        }
        twins.query("a page of 1 MB", Query::of("cart-1")).await;
        let backwards = Query::of("cart-1").descending();
        twins.query("a page of 1 MB backwards", backwards).await;
    })
    .await;
}
