//! `annals-peers`: the embedded store next to a raw log and SQLite, on the same disk in the same run.
//!
//! ```text
//! annals-peers FOLDER appends [SECONDS [ROUNDS [CELL]]]   durable appends, with an expected version each
//! annals-peers FOLDER reads [EVENTS [ROUNDS]]             recovery of ids; everything, by the feed and by ids
//! annals-peers FOLDER flush [SECONDS]                     latency of appends while the index flushes
//! annals-peers FOLDER feed [EVENTS [ROUNDS]]              catching up with the feed, and following it
//! annals-peers FOLDER view [EVENTS]                       building a view, and following with it
//! annals-peers FOLDER growth [EVENTS]                     disk, memory and open time as the store grows
//! ```
//!
//! Every contender acknowledges an append only after a sync, and shares a sync among concurrent
//! appends. Contenders take turns, in alternating order. Prints a line of JSON for each cell: ratios
//! are computed within a round, and the one of the median round is printed with the lowest and the
//! highest. Leaves no data behind.

mod appends;
mod feed;
mod growth;
mod latency;
mod machine;
mod ours;
mod raw;
mod reads;
mod sqlite;
mod view;
mod writer;

use std::path::Path;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T, E = Error> = std::result::Result<T, E>;

const USAGE: &str =
    "usage: annals-peers FOLDER appends|reads|flush|feed|view|growth [SIZE [ROUNDS [CELL]]]";

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("annals-peers: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(args: &[String]) -> Result<()> {
    let [folder, what, rest @ ..] = args else {
        return Err(USAGE.into());
    };
    let number = |at: usize, default: u64| match rest.get(at) {
        None => Ok(default),
        Some(text) => text
            .parse()
            .map_err(|_| format!("{text}: not a number. {USAGE}")),
    };
    let folder = Path::new(folder);
    std::fs::create_dir(folder).map_err(|cause| format!("{}: {cause}", folder.display()))?;
    let outcome = match what.as_str() {
        "appends" => {
            let cell = rest.get(2).map(|_| number(2, 0)).transpose()?;
            appends::run(folder, number(0, 2)?, number(1, 3)?, cell).await
        }
        "reads" => reads::run(folder, number(0, 1_000_000)?, number(1, 3)?).await,
        "flush" => latency::run(folder, number(0, 10)?).await,
        "feed" => feed::run(folder, number(0, 1_000_000)?, number(1, 3)?).await,
        "view" => view::run(folder, number(0, 1_000_000)?).await,
        "growth" => growth::run(folder, number(0, 10_000_000)?).await,
        _ => Err(USAGE.into()),
    };
    std::fs::remove_dir_all(folder)?;
    outcome
}
