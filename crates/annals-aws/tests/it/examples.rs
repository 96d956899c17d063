//! The examples are run on a server of DynamoDB.

use annals::items::Items;
use annals::layout::Layout;
use annals::{Annals, Codec, NewEvent, journal::Expected};
use annals_jvm::AnyLayout;

use crate::example_run::{example, printed};
use crate::server;

/// The bank on DynamoDB is the bank on one machine, but for a line.
#[test]
fn the_bank_moves_to_dynamodb_with_one_line() {
    let here = include_str!("../../../annals/examples/bank.rs").lines();
    let there = include_str!("../../examples/bank_dynamodb.rs").lines();
    assert_eq!(here.clone().count(), there.clone().count());
    let differ = here.zip(there).filter(|(here, there)| here != there);
    let differ: Vec<(&str, &str)> = differ.collect();
    let want = (
        "    let annals = annals::Annals::embedded(\"annals-data\").await?;",
        "    let annals = annals_aws::create(&Default::default()).await?;",
    );
    assert_eq!(differ, [want]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bank_on_dynamodb_goes_on_where_it_was() {
    let endpoint = server::endpoint().await;
    let mut before = None;
    for _ in 0..2 {
        let mut bank = example("bank_dynamodb");
        bank.env("AWS_ENDPOINT_URL", &endpoint)
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", "local")
            .env("AWS_SECRET_ACCESS_KEY", "local");
        let text = tokio::task::spawn_blocking(|| printed(bank)).await.unwrap();
        let balance = balance_in(&text);
        if let Some(before) = before.replace(balance) {
            assert_eq!(balance, before + 6, "{text}");
        }
    }
}

/// The last balance: 6 in `10, then 6`, confirmed by the rejection.
fn balance_in(text: &str) -> u64 {
    let (deposited, rest) = text.split_once(", then ").unwrap();
    let (left, refused) = rest.split_once('\n').unwrap();
    let left: u64 = left.parse().unwrap();
    assert_eq!(deposited.parse::<u64>().unwrap(), left + 4, "{text}");
    assert_eq!(refused, format!("insufficient funds. balance=`{left}`\n"));
    left
}

#[tokio::test]
async fn what_is_missing_is_made_once_and_never_by_opening() {
    let endpoint = server::endpoint().await;
    let settings = AnyLayout {
        journal_table: Some(server::unique("one-journal")),
        snapshot_table: Some(server::unique("one-snapshots")),
        state_table: Some(server::unique("one-states")),
        ..server::settings(&endpoint)
    };
    let items = server::open_at(&endpoint, std::sync::Arc::new(annals::SystemClock::new())).await;
    let items: std::sync::Arc<dyn Items> = std::sync::Arc::new(items);
    let missing = Annals::open(items.clone(), &settings).await;
    assert!(missing.is_err(), "{missing:?}");
    for expected in [Expected::Empty, Expected::Any] {
        let annals = Annals::create(items.clone(), &settings).await.unwrap();
        let id = "Cart|1".parse().unwrap();
        let event = NewEvent::new(Codec::Text, "opened");
        annals.journal().append(&id, expected, event).await.unwrap();
    }
    for table in settings.tables().unwrap().all() {
        assert!(items.drop_table(table.name()).await.unwrap());
    }
}
