//! What the view of ids costs, in requests and units.

use std::sync::Arc;

use annals::Annals;
use annals::items::{Items, Scan};
use annals::memory::Memory;
use annals::store::{Store, Verb};
use annals_jvm::LayoutName;
use annals_testkit::journals::number;
use futures::TryStreamExt;

use super::{LAYOUTS, Running, append, id, settings};

/// Rows of ids and tombstones that were written so far: each has a version of its own.
pub(super) async fn versions(items: &Arc<dyn Items>) -> Vec<String> {
    let name = "annals-projection".parse().unwrap();
    let Some(table) = items.describe_table(&name).await.unwrap() else {
        return Vec::new();
    };
    let store = Store::from_items(items.clone());
    let found: Vec<_> = store
        .scan_all(&Arc::new(table), Scan::whole())
        .try_collect()
        .await
        .unwrap();
    let rows = found
        .iter()
        .filter(|item| item.text("p").is_some_and(|p| p.starts_with("i:")));
    let mut versions: Vec<_> = rows.map(|row| row.text("w").unwrap().to_owned()).collect();
    versions.sort_unstable();
    versions
}

#[tokio::test]
async fn an_id_is_written_when_it_is_new_and_when_it_is_purged() {
    for layout in LAYOUTS {
        let items: Arc<dyn Items> = Arc::new(Memory::new());
        let writer = Annals::create(items.clone(), &settings(layout))
            .await
            .unwrap();
        let store = Store::from_items(items.clone());
        let annals = Annals::open(store.clone(), &settings(layout))
            .await
            .unwrap();
        let running = Running::start(&annals);
        running.ids().await;
        let ids: Vec<_> = (0..20).map(|n| id(&format!("Cart|p1-{n}"))).collect();
        store.take_counts();
        for id in &ids {
            append(writer.journal(), id, 1).await;
            running.ids().await;
        }
        // One more for the record: the first change of the table.
        let calls = |verb| store.counts().of(verb).calls;
        assert_eq!(calls(Verb::Put), 21, "{layout:?}");

        store.take_counts();
        let before = versions(&items).await;
        for id in &ids {
            for _ in 0..5 {
                append(writer.journal(), id, 3).await;
            }
            writer.journal().delete_to(id, number(9)).await.unwrap();
            running.ids().await;
        }
        assert_eq!(calls(Verb::Put), 0, "{layout:?}");
        assert_eq!(versions(&items).await, before);

        store.take_counts();
        for id in &ids[..7] {
            writer.journal().purge(id).await.unwrap();
            running.ids().await;
        }
        assert_eq!(calls(Verb::Put), 7, "{layout:?}");
        for id in &ids[..7] {
            append(writer.journal(), id, 1).await;
            running.ids().await;
        }
        assert_eq!(calls(Verb::Put), 14, "{layout:?}");
        let writes = calls(Verb::Write) + calls(Verb::Delete);
        assert_eq!(writes, 0, "nothing else is written");

        // A new process reads what was not saved again, and writes nothing.
        running.stop().await;
        store.take_counts();
        let running = Running::start(&annals);
        assert_eq!(running.ids().await.len(), 20);
        assert_eq!(calls(Verb::Put), 0, "{layout:?}");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_page_reads_no_event() {
    for layout in LAYOUTS {
        let store = Store::new(Memory::new());
        let annals = Annals::create(store.clone(), &settings(layout))
            .await
            .unwrap();
        let running = Running::start(&annals);
        for n in 0..100 {
            append(annals.journal(), &id(&format!("Cart|p1-{n:03}")), 1).await;
        }
        running.ids().await;
        store.take_counts();
        let page = running
            .page("Cart|", Some(&id("Cart|p1-049")), Some(10))
            .await;
        assert_eq!(page.len(), 10);
        let small = store.take_counts();

        for _ in 0..100 {
            append(annals.journal(), &id("Cart|p1-000"), 100).await;
        }
        for n in 0..1_000 {
            append(annals.journal(), &id(&format!("Cart|p2-{n:04}")), 1).await;
        }
        // Purged ids are not read either.
        for n in 0..200 {
            annals
                .journal()
                .purge(&id(&format!("Cart|p2-{n:04}")))
                .await
                .unwrap();
        }
        running.view.caught_up().await.unwrap();
        store.take_counts();
        let same = running
            .page("Cart|", Some(&id("Cart|p1-049")), Some(10))
            .await;
        let large = store.take_counts();
        assert_eq!(same, page);
        assert_eq!(large, small, "{layout:?}");
        assert_eq!(large.total().calls, 1);

        let next = running.page("Cart|p2", None, Some(10)).await;
        assert_eq!(next.first(), Some(&id("Cart|p2-0200")));
        // Each is a byte longer, in the key of the row and in that of the index.
        let read = store.take_counts().total().bytes_read;
        assert_eq!(read, large.total().bytes_read + 20);
        running.stop().await;
    }
}

/// The position is saved from time to time, so that a new process does not read everything again.
#[tokio::test]
async fn a_restart_reads_what_came_since_the_position_was_saved() {
    let store = Store::new(Memory::new());
    let annals = Annals::create(store.clone(), &settings(LayoutName::Annals))
        .await
        .unwrap();
    let running = Running::start(&annals);
    let carts = [id("Cart|1"), id("Cart|2")];
    let read = |store: &Store| store.take_counts().of(Verb::Changes).bytes_read;
    for n in 0..11_000 {
        append(annals.journal(), &carts[n % 2], 1).await;
        if n % 100 == 0 {
            running.ids().await;
        }
    }
    running.ids().await;
    let all = read(&store);
    running.stop().await;
    let running = Running::start(&annals);
    assert_eq!(running.ids().await, carts);
    let again = read(&store);
    assert!(again > 0 && again * 5 < all, "{again} of {all}");
    running.stop().await;
}
