//! The plugin's keys and groups, as its own suite and documents have them.

use super::*;

fn keys() -> Keys {
    Keys::new("journal", 10).unwrap()
}

fn id(text: &str) -> PersistenceId {
    text.parse().unwrap()
}

fn text(key: &Key) -> (String, u64) {
    let (KeyPart::S(partition), Some(KeyPart::N(sort))) = (&key.partition, &key.sort) else {
        panic!("{key}");
    };
    (partition.to_string(), sort.to_u64().unwrap())
}

#[test]
fn keys_are_the_plugins() {
    let id = id("order-1");
    for (number, partition, sort) in [
        (1, "journal-P-order-1-0", 1),
        (99, "journal-P-order-1-0", 99),
        (100, "journal-P-order-1-1", 0),
        (1_250, "journal-P-order-1-12", 50),
    ] {
        assert_eq!(
            text(&keys().event(&id, number)),
            (partition.to_owned(), sort)
        );
    }
    for (mark, number, partition) in [
        (Marker::High, 100, "journal-SH-order-1-1"),
        (Marker::High, 1_200, "journal-SH-order-1-2"),
        (Marker::Low, 100, "journal-SL-order-1-1"),
        (Marker::Low, 99, "journal-SL-order-1-0"),
    ] {
        let key = keys().marker(mark, &id, number);
        assert_eq!(text(&key), (partition.to_owned(), 0));
    }
}

#[test]
fn keys_are_unambiguous_for_any_id() {
    for name in ["a", "a-b", "P-x-0", "é|:-", "-", "-1", "order-1-0", "😀-7"] {
        let id = id(name);
        for number in [1, 100, 12_345] {
            let (partition, sort) = text(&keys().event(&id, number));
            let parsed = keys().parse(&partition);
            assert_eq!(parsed, Some(Partition::Events(id.clone(), number / 100)));
            let item = Item::new().with("par", partition).with("num", sort);
            assert_eq!(keys().number_of(&item).unwrap().get(), number);
        }
        let (partition, _) = text(&keys().marker_in(Marker::Low, &id, 3));
        let parsed = keys().parse(&partition);
        assert_eq!(parsed, Some(Partition::Marker(Marker::Low, id, 3)));
    }
    assert_eq!(keys().parse("other-P-a-0"), None);
    assert_eq!(keys().parse("journal-annals"), None);
    assert_eq!(keys().parse("journal-P-a-x"), None);
}

fn groups(from: u64, to: u64) -> Vec<(u64, u64)> {
    by_hundreds(from, to).collect()
}

#[test]
fn pg1_to_pg5_windows_are_read_by_hundreds() {
    assert_eq!(groups(1, 250), [(1, 99), (100, 199), (200, 250)]);
    let pg2 = [(85, 99), (100, 199), (200, 299), (300, 300)];
    assert_eq!(groups(85, 300), pg2);
    let pg3 = [(185, 199), (200, 299), (300, 399), (400, 499), (500, 512)];
    assert_eq!(groups(185, 512), pg3);
    assert_eq!(groups(1, 15), [(1, 15)]);
    assert_eq!(groups(1, 99), [(1, 99)]);
    assert_eq!(groups(7, 6), []);
}
