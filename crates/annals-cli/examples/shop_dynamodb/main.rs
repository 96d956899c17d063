//! The shop of the tutorial (`docs/tutorial.md`) on DynamoDB:
//! `cargo run -p annals-cli --example shop_dynamodb`. On the embedded store one line differs:
//! `cargo run -p annals-cli --example shop`.

#[path = "../shop/cart.rs"]
mod cart;
#[path = "../shop/http.rs"]
mod http;

// ANCHOR: imports
use annals::entity::{EntitySettings, Retention};
use annals::layout::AnnalsLayout;
use tokio::net::TcpListener;
// ANCHOR_END: imports

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    // ANCHOR: open
    let annals = annals_aws::create(&Default::default(), &AnnalsLayout::default()).await?;
    // ANCHOR_END: open
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
