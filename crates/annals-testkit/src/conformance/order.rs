//! The order of sort keys, by their type.

use std::sync::Arc;

use bytes::Bytes;

use super::scratch::{Scratch, column, item, sorted};
use annals::items::{Items, KeyType, Number, Query, Value, Write};

/// Writes the keys in another order, and expects to read them in the given one.
async fn assert_order(items: Arc<dyn Items>, key_type: KeyType, ascending: Vec<Value>) {
    let table = Scratch::new(&items, sorted(key_type)).await;
    let mut shuffled = ascending.clone();
    let middle = shuffled.len() / 2;
    shuffled.rotate_left(middle);
    shuffled.reverse();
    let puts = shuffled.into_iter().map(|sort| Write::Put(item("a", sort)));
    let written = items.write(&table.spec, puts.collect()).await;
    written.expect("write");

    let seen = table.all(Query::of("a")).await;
    assert_eq!(column(&seen, "s"), ascending, "ascending");
    let mut seen = table.all(Query::of("a").descending()).await;
    seen.reverse();
    assert_eq!(column(&seen, "s"), ascending, "descending, turned around");
    table.drop().await;
}

/// Negative, fractions, tiny, huge, and numbers that sort differently as text.
pub(crate) async fn number_keys_order_by_value(items: Arc<dyn Items>) {
    let ascending = [
        "-9e125",
        "-12345678901234567890123456789012345678",
        "-1000",
        "-999.5",
        "-10",
        "-9",
        "-1.5",
        "-1",
        "-0.5",
        "-1e-130",
        "0",
        "1e-130",
        "0.05",
        "0.5",
        "0.51",
        "1",
        "1.5",
        "9",
        "10",
        "99",
        "100",
        "9007199254740992",
        "9007199254740993",
        "12345678901234567890123456789012345678",
        "9e125",
    ];
    let numbers = ascending.map(|text| text.parse::<Number>().expect("a number").into());
    assert_order(items, KeyType::N, numbers.to_vec()).await;
}

/// The last two are in reverse order in UTF-16, where the last is a surrogate pair.
pub(crate) async fn text_keys_order_by_their_utf8_bytes(items: Arc<dyn Items>) {
    let ascending = [
        " ", "0", "10", "2", "A", "Z", "Za", "a", "aa", "ab", "b", "~", "é", "日本", "\u{e000}",
        "\u{ff5e}", "𐐷",
    ];
    let texts = ascending.map(Value::from);
    assert_order(items, KeyType::S, texts.to_vec()).await;
}

/// 0x80 comes after 0x7f, and a prefix before longer keys.
pub(crate) async fn byte_keys_order_unsigned(items: Arc<dyn Items>) {
    let ascending: [&'static [u8]; 8] = [
        &[0],
        &[0, 0],
        &[0, 1],
        &[1],
        &[127],
        &[128],
        &[128, 255],
        &[255],
    ];
    let bytes = ascending.map(|bytes| Bytes::from_static(bytes).into());
    assert_order(items, KeyType::B, bytes.to_vec()).await;
}
