//! FR4 of the plugin's own tests: the default settings of every layout are valid, and only the table
//! is missing.

use std::sync::Arc;

use annals::embedded::Embedded;
use annals::items::Items;
use annals::layout::Layout;
use annals::memory::Memory;
use annals::{Annals, Error, ErrorKind};
use annals_jvm::AnyLayout;
use annals_jvm::LayoutName;

/// The error of opening, or of the first use.
async fn first_error(items: &Arc<dyn Items>, settings: &AnyLayout) -> Option<Error> {
    match Annals::open(items.clone(), settings).await {
        Ok(annals) => {
            let id = "order-1".parse().unwrap();
            annals.journal().highest(&id).await.err()
        }
        Err(error) => Some(error),
    }
}

async fn check(items: Arc<dyn Items>, layout: LayoutName, journal: &str) {
    let settings = AnyLayout {
        layout,
        ..AnyLayout::default()
    };
    let error = first_error(&items, &settings).await.expect("no table");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    let told = error.to_string();
    assert!(
        told.starts_with("table does not exist; create it"),
        "{told}"
    );
    assert!(told.contains(&format!(" table=`{journal}`")), "{told}");

    for table in settings.tables().unwrap().all() {
        items.create_table(table, Default::default()).await.unwrap();
    }
    let error = first_error(&items, &settings).await;
    assert!(error.is_none(), "{error:?}");
}

#[tokio::test]
async fn fr4_default_settings_lack_only_their_tables() {
    for (layout, journal) in [
        (LayoutName::Annals, "annals-journal"),
        (LayoutName::Akka, "akka-persistence"),
        (LayoutName::J5ik2o, "Journal"),
    ] {
        check(Arc::new(Memory::new()), layout, journal).await;
        let folder = tempfile::tempdir().unwrap();
        let embedded = Embedded::open(folder.path(), &Default::default()).unwrap();
        check(Arc::new(embedded), layout, journal).await;
    }
}
