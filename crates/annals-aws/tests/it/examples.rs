//! Runs the examples on a DynamoDB server.

use std::sync::Arc;

use annals::items::Items;
use annals::layout::{AnnalsLayout, Layout, TableNames};
use annals::{Annals, Codec, NewEvent, journal::Expected};

use crate::example_run::{example, printed};
use crate::server;

/// On DynamoDB the example imports the layout and opens another store; nothing else differs.
#[test]
fn the_bank_moves_to_dynamodb_by_opening_another_store() {
    let embedded = include_str!("../../../annals/examples/bank.rs").lines();
    let dynamodb = include_str!("../../examples/bank_dynamodb.rs").lines();
    let dynamodb = dynamodb.filter(|line| *line != "use annals::layout::AnnalsLayout;");
    assert_eq!(embedded.clone().count(), dynamodb.clone().count());
    let differ: Vec<(&str, &str)> = embedded.zip(dynamodb).filter(|(a, b)| a != b).collect();
    let want = (
        "    let annals = annals::Annals::embedded(\"annals-data\").await?;",
        "    let annals = annals_aws::create(&Default::default(), &AnnalsLayout::default()).await?;",
    );
    assert_eq!(differ, [want]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bank_on_dynamodb_continues_after_a_restart() {
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
async fn create_makes_missing_tables_once_and_open_never() {
    let endpoint = server::endpoint().await;
    let names = TableNames::default()
        .journal(server::unique("one-journal"))
        .snapshot(server::unique("one-snapshots"))
        .state(server::unique("one-states"));
    let layout = AnnalsLayout::new(names);
    let items: Arc<dyn Items> = server::open_patient(&endpoint).await;
    let missing = Annals::open(items.clone(), &layout).await;
    assert!(missing.is_err(), "{missing:?}");
    for expected in [Expected::Empty, Expected::Any] {
        let annals = Annals::create(items.clone(), &layout).await.unwrap();
        let id = "Cart|1".parse().unwrap();
        let event = NewEvent::new(Codec::Text, "opened");
        annals.journal().append(&id, expected, event).await.unwrap();
    }
    for table in layout.tables().unwrap().all() {
        assert!(items.drop_table(table.name()).await.unwrap());
    }
}
