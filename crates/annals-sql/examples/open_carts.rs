//! Open carts as rows of SQLite: `cargo run -p annals-sql --features sqlite --example open_carts`. Events
//! and rows are in this folder; every run adds a book to the cart.

use annals::Annals;
use annals::entity::EntityEvent;
use annals::journal::Expected;
// ANCHOR: view
use annals::feed::Filter;
use annals::projection::Fed;
use annals_sql::sqlx::{self, Sqlite, SqliteConnection, SqlitePool};
use annals_sql::{Result, SqlSink, SqlView};

#[derive(serde::Serialize, serde::Deserialize, EntityEvent)]
enum CartEvent {
    Added { item: String, cents: i64 },
    CheckedOut,
}

struct OpenCarts;

#[async_trait::async_trait]
impl SqlView for OpenCarts {
    const NAME: &'static str = "open-carts";
    type Event = CartEvent;
    type Database = Sqlite;

    fn source() -> Filter {
        Filter::new().category("Cart")
    }

    async fn create(&self, tx: &mut SqliteConnection) -> Result {
        let create = "CREATE TABLE IF NOT EXISTS cart_item (cart text, item text, cents bigint)";
        sqlx::query(create).execute(tx).await?;
        Ok(())
    }

    async fn apply(&self, event: &Fed<CartEvent>, tx: &mut SqliteConnection) -> Result {
        let query = match &event.event {
            CartEvent::Added { item, cents } => {
                let insert = "INSERT INTO cart_item (cart, item, cents) VALUES ($1, $2, $3)";
                sqlx::query(insert)
                    .bind(event.entity())
                    .bind(item)
                    .bind(cents)
            }
            CartEvent::CheckedOut => {
                sqlx::query("DELETE FROM cart_item WHERE cart = $1").bind(event.entity())
            }
        };
        query.execute(tx).await?;
        Ok(())
    }
}
// ANCHOR_END: view

#[tokio::main]
async fn main() -> Result {
    let annals = Annals::embedded("annals-data").await?;
    let added = CartEvent::Added {
        item: "book".to_owned(),
        cents: 1250,
    };
    let journal = annals.journal();
    journal
        .append(&"Cart|42".parse()?, Expected::Any, added.to_event()?)
        .await?;

    // ANCHOR: start
    let pool = SqlitePool::connect("sqlite:carts.db?mode=rwc").await?;
    let sink = SqlSink::new(pool.clone(), OpenCarts);
    let carts = annals.projections().target(sink).start().await?;
    // ANCHOR_END: start

    carts.caught_up().await?;
    let sum = "SELECT count(*), sum(cents) FROM cart_item WHERE cart = $1";
    let (items, cents): (i64, i64) = sqlx::query_as(sum).bind("42").fetch_one(&pool).await?;
    println!("cart 42: {items} items, {cents} cents");
    carts.stop().await;
    Ok(())
}
