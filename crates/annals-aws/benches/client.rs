//! Our client against the bare SDK, on an emulator in this process. Fails below nine tenths.

use std::process::ExitCode;
use std::sync::Arc;

use annals::settings::Settings;
use annals::{Error, Random, Result, SystemClock};
use annals_aws::DynamoDb;
use annals_aws::bench::{Load, compare};
use tokio::net::TcpListener;

/// The least our client may reach of the bare SDK's throughput.
const RATIO_MIN: f64 = 0.9;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(ratio) if ratio >= RATIO_MIN => ExitCode::SUCCESS,
        Ok(_) => {
            eprintln!("our client is slower than {RATIO_MIN} of the bare SDK");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<f64> {
    let failed = |e: std::io::Error| Error::unavailable("no port").because(e);
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let database = dynoxide::Database::memory()
        .map_err(|e| Error::unavailable("no emulator").because(e.to_string()))?;
    tokio::spawn(dynoxide::server::serve_on(listener, database));

    let settings = Settings {
        endpoint: Some(format!("http://{address}")),
        ..Settings::default()
    };
    let clock = Arc::new(SystemClock::new());
    let store = DynamoDb::open_local(&settings, clock, Random::from_machine()).await?;
    let measured = compare(&Arc::new(store), "annals-bench".parse()?, Load::default()).await?;

    println!("conditional puts of 1 KB, 50 at once, per second");
    println!(
        "{:>8} {:>10} {:>10} {:>8}",
        "round", "bare SDK", "annals", "ratio"
    );
    for (n, round) in measured.rounds.iter().enumerate() {
        let (bare, ours) = (round.bare_per_sec, round.ours_per_sec);
        println!(
            "{:>8} {bare:>10.0} {ours:>10.0} {:>8.3}",
            n + 1,
            round.ratio()
        );
    }
    let (bare, ours) = (measured.bare_per_sec(), measured.ours_per_sec());
    println!(
        "{:>8} {bare:>10.0} {ours:>10.0} {:>8.3}",
        "median",
        measured.ratio()
    );
    Ok(measured.ratio())
}
