//! The shop of the tutorial (`docs/tutorial.md`): `cargo run -p annals-cli --example shop`, on the
//! embedded store in this folder. On DynamoDB the store differs, and there is no view:
//! `cargo run -p annals-cli --example shop_dynamodb`.

// ANCHOR: main
mod cart;
mod http;
mod open_carts;

use std::sync::Arc;
use std::time::Duration;

use annals::Annals;
use annals::entity::{EntitySettings, Retention};
use annals::projection::RunSettings;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use crate::open_carts::OpenCarts;

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
    let settings = RunSettings::default().lease(Duration::from_secs(1));
    let open = annals.projections().view::<OpenCarts>().settings(settings);
    let open = Some(Arc::new(open.start().await?));

    let address = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, http::router(carts.clone(), open.clone()))
        .with_graceful_shutdown(stopped()?)
        .await?;
    carts.passivate_all().await;
    if let Some(open) = open.and_then(Arc::into_inner) {
        open.stop().await;
    }
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
