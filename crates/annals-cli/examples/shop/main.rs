//! The shop of the tutorial (`docs/tutorial.md`): `cargo run -p annals-cli --example shop`, on the
//! embedded store in this folder. On DynamoDB one line differs:
//! `cargo run -p annals-cli --example shop_dynamodb`.

// ANCHOR: main
mod cart;
mod http;

use annals::Annals;
use annals::entity::{EntitySettings, Retention};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let levels = Targets::new()
        .with_target("annals", LevelFilter::INFO)
        .with_default(LevelFilter::WARN);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    tracing_subscriber::registry()
        .with(lines.with_filter(levels))
        .init();
    let annals = Annals::embedded("annals-data").await?;
    let settings = EntitySettings::new().retention(Retention::every(100));
    let carts: http::Carts = annals.region(settings);

    let address = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, http::router(carts.clone()))
        .with_graceful_shutdown(stopped()?)
        .await?;
    carts.passivate_all().await;
    Ok(())
}

/// Waits for Ctrl-C, or for SIGTERM, which service managers send.
fn stopped() -> std::io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
// ANCHOR_END: main
