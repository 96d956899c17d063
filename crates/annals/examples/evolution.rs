//! Events of yesterday under the code of today: `cargo run -p annals --example evolution`.

use annals::Annals;
use annals::entity::{Adapter, Entity, EntityEvent, EntitySettings, Format, Stored};
use annals::journal::Expected;
use annals::{Codec, NewEvent};
use serde::{Deserialize, Serialize};

/// What happens to a parcel, as it is written today.
#[derive(Serialize, Deserialize, EntityEvent)]
enum Happened {
    /// It was called `Posted` once, and `express` is newer than the first parcels.
    #[serde(alias = "Posted")]
    Sent {
        to: String,
        #[serde(default)]
        express: bool,
    },
    /// Before schema 1 these were kilograms.
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
    /// What another service writes into the same journal.
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
    type Event = Happened;
    type Error = std::convert::Infallible;

    fn apply(&mut self, event: &Happened) {
        self.history.push(match event {
            Happened::Sent { to, express: true } => format!("sent to {to}, express"),
            Happened::Sent { to, express: false } => format!("sent to {to}"),
            Happened::Weighed { grams } => format!("weighs {grams} g"),
            Happened::Left { place } => format!("left {place}"),
            Happened::Arrived { place } => format!("arrived in {place}"),
            Happened::Other(event) => format!("{}, as {}", event.manifest, event.codec),
        });
    }
}

/// What serde cannot do alone: other units, and one event that is two today.
fn adapter() -> Adapter {
    #[derive(Deserialize)]
    struct Weighed {
        kilograms: u64,
    }
    #[derive(Deserialize)]
    struct Moved {
        from: String,
        to: String,
    }
    Adapter::new(|event| match (event.manifest.as_str(), event.schema) {
        ("Weighed", 0) => {
            let old: Weighed = Format::read(&event.into())?;
            let grams = old.kilograms * 1_000;
            Ok(vec![Happened::Weighed { grams }.to_event()?])
        }
        ("Moved", _) => {
            let Moved { from, to } = Format::read(&event.into())?;
            let left = Happened::Left { place: from };
            let arrived = Happened::Arrived { place: to };
            Ok(vec![left.to_event()?, arrived.to_event()?])
        }
        _ => Ok(vec![event]),
    })
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

    let parcels = annals.executor::<Parcel>(EntitySettings::new().adapter(adapter()));
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
