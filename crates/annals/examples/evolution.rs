//! Schema evolution: events of earlier releases, read by today's code:
//! `cargo run -p annals --example evolution`.

use annals::Annals;
use annals::entity::{Entity, EntityEvent, EntitySettings, Stored};
use annals::journal::Expected;
use annals::{Codec, NewEvent, Result};
use serde::{Deserialize, Serialize};

/// The events of a parcel, as they are written today.
#[derive(Serialize, Deserialize, EntityEvent)]
#[event(entity = Parcel)]
enum ParcelEvent {
    /// Earlier releases called it `Posted` and had no `express`.
    #[serde(alias = "Posted")]
    Sent {
        to: String,
        #[serde(default)]
        express: bool,
    },
    /// Schema 0 had kilograms.
    #[event(schema = 1)]
    Weighed {
        grams: u64,
    },
    Left {
        place: String,
    },
    Arrived {
        place: String,
    },
    /// Events that another service writes into the same journal.
    #[serde(skip)]
    #[event(raw)]
    Other(NewEvent),
}

#[derive(Default, Serialize, Deserialize, Stored)]
struct Parcel {
    history: Vec<String>,
}

impl Entity for Parcel {
    const TYPE: &'static str = "Parcel";
    type Event = ParcelEvent;
    type Error = std::convert::Infallible;

    fn apply(&mut self, event: &ParcelEvent) {
        self.history.push(match event {
            ParcelEvent::Sent { to, express: true } => format!("sent to {to}, express"),
            ParcelEvent::Sent { to, express: false } => format!("sent to {to}"),
            ParcelEvent::Weighed { grams } => format!("weighs {grams} g"),
            ParcelEvent::Left { place } => format!("left {place}"),
            ParcelEvent::Arrived { place } => format!("arrived in {place}"),
            ParcelEvent::Other(event) => format!("{}, as {}", event.manifest, event.codec),
        });
    }
}

/// Converts what serde cannot: other units, and one event that became two.
fn adapt(event: NewEvent) -> Result<Vec<NewEvent>> {
    #[derive(Deserialize)]
    struct Weighed {
        kilograms: u64,
    }
    #[derive(Deserialize)]
    struct Moved {
        from: String,
        to: String,
    }
    match (event.manifest.as_str(), event.schema) {
        ("Weighed", 0) => {
            let old: Weighed = event.decode()?;
            let grams = old.kilograms * 1_000;
            Ok(vec![ParcelEvent::Weighed { grams }.to_event()?])
        }
        ("Moved", _) => {
            let Moved { from, to } = event.decode()?;
            let left = ParcelEvent::Left { place: from };
            let arrived = ParcelEvent::Arrived { place: to };
            Ok(vec![left.to_event()?, arrived.to_event()?])
        }
        _ => Ok(vec![event]),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let annals = Annals::embedded(folder.path()).await?;
    let json = |manifest, text: &'static str| NewEvent::new(Codec::Json, text).manifest(manifest);
    let stored = vec![
        json("Posted", r#"{"to":"Oslo"}"#),
        json("Weighed", r#"{"kilograms":2}"#),
        json("Weighed", r#"{"grams":2150}"#).schema(1),
        json("Moved", r#"{"from":"Rome","to":"Bern"}"#),
        json("Sent", r#"{"to":"Kiel","express":true}"#),
        NewEvent::new(Codec::Text, "on hold").manifest("CustomsNoted"),
    ];
    let id = "Parcel|7".parse()?;
    annals
        .journal()
        .append(&id, Expected::Empty, stored)
        .await?;

    let parcels = annals.executor::<Parcel>(EntitySettings::new().adapter(adapt));
    let history = parcels.view("7", |parcel| parcel.history.clone()).await?;
    println!("{}", history.join("\n"));
    let want = [
        "sent to Oslo",
        "weighs 2000 g",
        "weighs 2150 g",
        "left Rome",
        "arrived in Bern",
        "sent to Kiel, express",
        "CustomsNoted, as text",
    ];
    assert_eq!(history, want);
    Ok(())
}
