//! Values of every type, read back exactly as they were written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::scratch::{Scratch, item, sorted, unsorted};
use annals::items::{Item, Items, Key, KeyAttribute, KeyPart, KeySchema, KeyType, Number, Value};

fn number(text: &str) -> Number {
    text.parse().expect("a number")
}

fn every_type() -> Item {
    let nested = Value::M(BTreeMap::from([
        ("empty list".to_owned(), Value::L(vec![])),
        ("empty map".to_owned(), Value::M(BTreeMap::new())),
        (
            "mixed".to_owned(),
            Value::L(vec![
                "text".into(),
                1u64.into(),
                Value::Null,
                Value::L(vec![Value::B(Bytes::from_static(&[1, 2]))]),
                Value::M(BTreeMap::from([("k".to_owned(), false.into())])),
            ]),
        ),
    ]));
    let texts = BTreeSet::from(["b".to_owned(), "a".to_owned(), "é".to_owned()]);
    let numbers = BTreeSet::from([number("-1.5"), number("0"), number("1e20")]);
    let bytes = BTreeSet::from([Bytes::from_static(&[0]), Bytes::from_static(&[255, 0])]);
    Item::new()
        .with("s", "text, é, 日本, 𐐷, \u{0}\n\"\\/ and more")
        .with("n", number("-12.5"))
        .with("b", (0..=255u8).collect::<Vec<u8>>())
        .with("true", true)
        .with("false", false)
        .with("null", Value::Null)
        .with("list", Value::L(vec![nested.clone(), nested.clone()]))
        .with("map", nested)
        .with("texts", Value::Ss(texts))
        .with("numbers", Value::Ns(numbers))
        .with("bytes", Value::Bs(bytes))
        .with("name with spaces, é and 日本", 1u64)
        .with("select", "a word of the query language")
}

/// All ten, nested, with unusual names and texts; by get, query and scan.
pub(crate) async fn every_type_reads_back_as_written(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    let written = every_type().with("p", "a");
    table.put(written.clone()).await;
    assert_eq!(table.get(Key::new("a")).await, Some(written.clone()));
    let queried = table.all(annals::items::Query::of("a")).await;
    assert_eq!(queried, vec![written.clone()]);
    assert_eq!(table.contents().await, vec![written]);
    table.drop().await;
}

/// If they are not keys.
pub(crate) async fn empty_text_and_bytes_are_values(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    let inside = Value::L(vec!["".into(), Value::B(Bytes::new())]);
    let written = Item::new()
        .with("p", "a")
        .with("text", "")
        .with("bytes", Bytes::new())
        .with("inside", inside);
    table.put(written.clone()).await;
    assert_eq!(table.get(Key::new("a")).await, Some(written));
    table.drop().await;
}

/// Up to 38 digits, tiny and huge, in any notation.
pub(crate) async fn numbers_are_exact_and_equal_numbers_are_one(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    let numbers = [
        ("0", "0"),
        ("-0.0", "0"),
        ("007", "7"),
        ("1.500", "1.5"),
        ("1e3", "1000"),
        ("-42", "-42"),
        ("0.000001", "1e-6"),
        ("12345678901234567890123456789012345678", ""),
        ("-0.12345678901234567890123456789012345678", ""),
        ("1234567890123456789.0123456789012345678", ""),
        ("1E-130", ""),
        ("-1E-130", ""),
        ("9.9999999999999999999999999999999999999E+125", ""),
        ("-9.9999999999999999999999999999999999999E+125", ""),
    ];
    let mut written = Item::new().with("p", "a");
    let mut want = written.clone();
    for (i, (text, same)) in numbers.into_iter().enumerate() {
        let same = if same.is_empty() { text } else { same };
        written.insert(format!("n{i}"), number(text));
        want.insert(format!("n{i}"), number(same));
    }
    table.put(written).await;
    assert_eq!(table.get(Key::new("a")).await, Some(want));
    table.drop().await;
}

/// 2^53 and 2^53 + 1 are the same double but different numbers, as values and as keys.
pub(crate) async fn numbers_beyond_doubles_are_told_apart(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::N)).await;
    let close = [(1u64 << 53), (1 << 53) + 1, u64::MAX - 1, u64::MAX];
    for n in close {
        table.put(item("a", n).with("v", n)).await;
    }
    for n in close {
        let got = table.get(Key::new("a").sorted(n)).await;
        assert_eq!(got, Some(item("a", n).with("v", n)));
    }
    table.drop().await;
}

/// As partition and as sort key; a number in any notation.
pub(crate) async fn keys_of_every_type_name_items(items: Arc<dyn Items>) {
    let bytes = |b: &'static [u8]| KeyPart::B(Bytes::from_static(b));
    let cases: [(KeyType, KeyPart, KeyPart, KeyPart); 3] = [
        (KeyType::S, "é".into(), "日本".into(), "x".into()),
        (
            KeyType::N,
            number("1.50").into(),
            number("-0.001").into(),
            number("1").into(),
        ),
        (
            KeyType::B,
            bytes(&[0, 255, 128]),
            bytes(&[0]),
            bytes(&[255]),
        ),
    ];
    for (key_type, partition, sort, other) in cases {
        let schema = KeySchema::new(KeyAttribute::new("p", key_type));
        let schema = schema.sorted(KeyAttribute::new("s", key_type));
        let table = Scratch::new(&items, schema).await;
        let written = Item::new()
            .with("p", partition.clone())
            .with("s", sort.clone());
        table.put(written.clone()).await;
        let key = Key::new(partition.clone()).sorted(sort.clone());
        assert_eq!(table.get(key.clone()).await, Some(written.clone()));
        let absent = Key::new(partition.clone()).sorted(other);
        assert_eq!(table.get(absent).await, None);
        let queried = table.all(annals::items::Query::of(partition)).await;
        assert_eq!(queried, vec![written]);
        table.delete(key.clone()).await;
        assert_eq!(table.get(key).await, None);
        table.drop().await;
    }
}
