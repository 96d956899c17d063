//! Scans: whole tables, in any order.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::scratch::{
    Scratch, assert_invalid, assert_once_each, assert_page_size, filled, item, sorted, texts,
    unsorted,
};
use annals::items::{Items, KeyType, Scan, Segment, Write};

/// 60 items in 20 partitions, each with a unique `id`.
async fn scattered(items: &Arc<dyn Items>) -> (Scratch, BTreeSet<String>) {
    let table = Scratch::new(items, sorted(KeyType::N)).await;
    let puts = (0..60u64).map(|n| {
        let stored = item(&format!("p{}", n % 20), n);
        Write::Put(stored.with("id", n.to_string()))
    });
    let written = items.write(&table.spec, puts.collect()).await;
    written.expect("write");
    (table, (0..60).map(|n: u64| n.to_string()).collect())
}

/// In one segment or in many.
pub(crate) async fn an_empty_table_has_nothing_to_scan(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    assert_eq!(table.contents().await, vec![]);
    for index in 0..3 {
        let scan = Scan::segment(Segment { index, of: 3 });
        assert_eq!(table.scanned(scan).await, vec![]);
    }
    table.drop().await;
}

/// Every item is in exactly one of 1, 4 or 7 segments, which may differ in size.
pub(crate) async fn segments_divide_the_table(items: Arc<dyn Items>) {
    let (table, want) = scattered(&items).await;
    for of in [1, 4, 7] {
        let mut seen = Vec::new();
        for index in 0..of {
            let scan = Scan::segment(Segment { index, of });
            seen.extend(texts(&table.scanned(scan).await, "id"));
        }
        assert_once_each(&seen, &want);
    }
    table.drop().await;
}

/// Also within segments.
pub(crate) async fn limited_pages_bring_everything_once(items: Arc<dyn Items>) {
    let (table, want) = scattered(&items).await;
    let seen = texts(&table.scanned(Scan::whole().limit(7)).await, "id");
    assert_once_each(&seen, &want);
    let mut seen = Vec::new();
    for index in 0..2 {
        let scan = Scan::segment(Segment { index, of: 2 }).limit(11);
        let first = items.scan(&table.spec, scan.clone()).await;
        let first = first.expect("scan");
        assert!(first.items.len() <= 11, "{} items", first.items.len());
        seen.extend(texts(&table.scanned(scan).await, "id"));
    }
    assert_once_each(&seen, &want);
    table.drop().await;
}

/// Four items of 390 KB do not fit into one page.
pub(crate) async fn tables_larger_than_a_page_come_in_pages(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, sorted(KeyType::S)).await;
    let partitions = ["a", "b", "c", "d"];
    for partition in partitions {
        table.put(filled(item(partition, "1"), 390 * 1024)).await;
    }
    let (mut seen, mut pages) = (Vec::new(), 0);
    let mut next = Some(Scan::whole());
    while let Some(scan) = next.take() {
        let page = items.scan(&table.spec, scan.clone()).await.expect("scan");
        assert_page_size(&page.items);
        seen.extend(texts(&page.items, "p"));
        next = page.next.map(|cursor| scan.after(cursor));
        pages += 1;
        assert!(pages < 20, "four items in {pages} pages");
    }
    assert_once_each(&seen, &partitions.map(str::to_owned).into());
    assert!(pages > 1, "more than a page allows came in one");
    table.drop().await;
}

/// A segment out of range, zero segments, a limit of zero.
pub(crate) async fn what_cannot_be_scanned_is_invalid(items: Arc<dyn Items>) {
    let table = Scratch::new(&items, unsorted()).await;
    for scan in [
        Scan::segment(Segment { index: 0, of: 0 }),
        Scan::segment(Segment { index: 3, of: 3 }),
        Scan::segment(Segment {
            index: 0,
            of: 1_000_001,
        }),
        Scan::whole().limit(0),
    ] {
        let what = format!("{scan:?}");
        assert_invalid(items.scan(&table.spec, scan).await, &what);
    }
    table.drop().await;
}
