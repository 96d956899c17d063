//! Views: how fast one is built from the start of the feed, compared with a replay of the same events id by
//! id; and how much it slows the writers down while it follows them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use annals::entity::{EntityEvent, Stored};
use annals::feed::Filter;
use annals::projection::{Fed, View};
use annals::{Annals, Codec, NewEvent, Payload};
use serde_json::json;

use crate::Result;
use crate::appends::{Load, payload};
use crate::machine::{resident_mib, spread};
use crate::ours::Ours;
use crate::reads::{fill, scan_ours};
use crate::writer::Writer;

const WRITERS: usize = 64;
const LAP: Duration = Duration::from_secs(3);
/// Events of an id: many updates of few rows, and few updates of many rows.
const EACH: [u64; 2] = [100, 5];

/// A payload: what it says does not matter here.
struct Text(u64);

impl EntityEvent for Text {
    fn to_event(&self) -> annals::Result<NewEvent> {
        Ok(NewEvent::new(Codec::Json, "\"\""))
    }

    fn from_event(event: &NewEvent) -> annals::Result<Option<Self>> {
        let text: String = event.decode()?;
        Ok(Some(Self(text.len() as u64)))
    }
}

/// Events and bytes.
struct Totals(u64, u64);

impl Stored for Totals {
    fn to_payload(&self) -> annals::Result<Payload> {
        Ok(Payload::new(
            Codec::Json,
            json!([self.0, self.1]).to_string(),
        ))
    }

    fn from_payload(payload: &Payload) -> annals::Result<Self> {
        let (events, bytes) = payload.decode()?;
        Ok(Self(events, bytes))
    }
}

/// A view with another name in each round, so that each begins at the start of the feed.
macro_rules! views {
    ($($name:ident)*) => {
        $(
            struct $name;

            impl View for $name {
                const NAME: &'static str = stringify!($name);
                type Event = Text;
                type Row = Totals;

                fn source() -> Filter {
                    Filter::new()
                }

                fn key(event: &Fed<Text>) -> Option<String> {
                    Some(event.entity().to_owned())
                }

                fn apply(row: Option<Totals>, event: &Fed<Text>) -> Option<Totals> {
                    let Totals(events, bytes) = row.unwrap_or(Totals(0, 0));
                    Some(Totals(events + 1, bytes + event.event.0))
                }
            }
        )*
    };
}

views! { First Second Third Following }

pub(crate) async fn run(folder: &Path, events: u64) -> Result<()> {
    for each in EACH {
        let ours = Arc::new(Ours::open(&folder.join(format!("annals-{each}"))).await?);
        let writer: Arc<dyn Writer> = ours.clone();
        let count = events / each;
        let ids: Vec<Arc<str>> = (0..count)
            .map(|id| format!("Account|{id}").into())
            .collect();
        fill(&writer, &ids, each).await?;
        let events = count * each;
        let mut ratios = Vec::new();
        let mut rates = Vec::new();
        let before = resident_mib();
        for round in 0..3 {
            let replay = scan_ours(ours.journal(), events).await?;
            let rate = match round {
                0 => build::<First>(ours.annals(), events).await?,
                1 => build::<Second>(ours.annals(), events).await?,
                _ => build::<Third>(ours.annals(), events).await?,
            };
            rates.push(rate.round());
            ratios.push(rate / replay);
        }
        println!(
            "{}",
            json!({"what": format!("view, {each} events a row"), "events": events,
                "events_per_second": spread(&rates), "to_replay": spread(&ratios),
                "mib_added": resident_mib().saturating_sub(before)})
        );
        if each == EACH[0] {
            followed(&ours, &writer).await?;
        }
    }
    Ok(())
}

/// Events per second from the start of the feed to its end.
async fn build<V: View<Row = Totals>>(annals: &Annals, events: u64) -> Result<f64> {
    let start = Instant::now();
    let view = annals.projections().view::<V>().start().await?;
    view.caught_up().await?;
    let elapsed = start.elapsed().as_secs_f64();
    let status = annals.projections().status(V::NAME).await?;
    let handled = status.map_or(0, |status| status.builds[0].handled);
    assert_eq!(handled, events);
    view.stop().await;
    Ok(events as f64 / elapsed)
}

/// Appends with and without a view of them, in turn.
async fn followed(ours: &Arc<Ours>, writer: &Arc<dyn Writer>) -> Result<()> {
    let mut load = Load::named("Followed", payload(200), 1, WRITERS);
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let alone = load.lap(writer, LAP).await?;
        let view = ours
            .annals()
            .projections()
            .view::<Following>()
            .start()
            .await?;
        view.caught_up().await?;
        let with = load.lap(writer, LAP).await?;
        view.stop().await;
        ratios.push(with.rate / alone.rate);
    }
    println!(
        "{}",
        json!({"what": "appends with a view that follows, relative to none", "writers": WRITERS,
            "ratio": spread(&ratios)})
    );
    Ok(())
}
