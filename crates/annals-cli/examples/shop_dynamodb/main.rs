//! The shop of the tutorial (`docs/tutorial.md`) on DynamoDB:
//! `cargo run -p annals-cli --example shop_dynamodb`. On the embedded store, the view
//! of open carts runs, too: `cargo run -p annals-cli --example shop`.

#[path = "../shop/cart.rs"]
mod cart;
#[path = "../shop/http.rs"]
mod http;
#[path = "../shop/open_carts.rs"]
mod open_carts;

// ANCHOR: imports
use std::sync::Arc;

use annals::entity::{EntitySettings, Retention};
use annals::layout::AnnalsLayout;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;
// ANCHOR_END: imports

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let levels = Targets::new()
        .with_target("annals", LevelFilter::INFO)
        .with_default(LevelFilter::WARN);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    tracing_subscriber::registry()
        .with(lines.with_filter(levels))
        .init();
    // ANCHOR: open
    let annals = annals_aws::create(&Default::default(), &AnnalsLayout::default()).await?;
    // ANCHOR_END: open
    let settings = EntitySettings::new().retention(Retention::every(100));
    let carts: http::Carts = annals.region(settings);
    // ANCHOR: view
    let open: Option<http::OpenView> = None; // projections do not run on DynamoDB yet
    // ANCHOR_END: view

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
