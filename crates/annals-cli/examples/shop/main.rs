//! The shop of the tutorial (`docs/tutorial.md`): `cargo run -p annals-cli --example shop`, on the
//! embedded store in this folder. On DynamoDB one line differs:
//! `cargo run -p annals-cli --example shop_dynamodb`.

// ANCHOR: main
mod cart;
mod http;

use annals::Annals;
use annals::entity::{EntitySettings, Retention};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let annals = Annals::embedded("annals-data").await?;
    let settings = EntitySettings::new().retention(Retention::every(100));
    let carts: http::Carts = annals.region(settings);

    let address = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, http::router(carts.clone()))
        .with_graceful_shutdown(async { tokio::signal::ctrl_c().await.unwrap_or_default() })
        .await?;
    carts.passivate_all().await;
    Ok(())
}
// ANCHOR_END: main
