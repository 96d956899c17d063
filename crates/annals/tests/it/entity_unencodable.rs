//! Events, states and values that cannot be encoded: a bug of the application, which is reported as one.

use std::collections::BTreeMap;
use std::convert::Infallible;

use annals::Annals;
use annals::entity::{
    AskError, Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Retention, Stored, durable,
    persist,
};
use annals::layout::AnnalsLayout;
use annals::memory::Memory;
use serde::{Deserialize, Serialize};

use crate::noted::Noted;

/// JSON has no maps with such keys.
type Seats = BTreeMap<(u8, u8), String>;

#[derive(Default, Serialize, Deserialize, Stored)]
struct Hall {
    seats: Seats,
}

#[derive(Clone, Serialize, Deserialize, EntityEvent)]
#[event(entity = Hall)]
enum HallEvent {
    Booked { seat: (u8, u8) },
    Sold { seats: Seats },
}

impl Entity for Hall {
    const TYPE: &'static str = "Hall";
    type Event = HallEvent;
    type Error = Infallible;

    fn apply(&mut self, event: &HallEvent) {
        if let HallEvent::Booked { seat } = event {
            self.seats.insert(*seat, "somebody".to_owned());
        }
    }
}

impl Handle<HallEvent> for Hall {
    type Reply = ();

    fn handle(&self, event: &HallEvent, _: &Cx<'_>) -> Result<Effect<Self, ()>, Infallible> {
        Ok(persist(event.clone()))
    }
}

impl durable::Entity for Hall {
    const TYPE: &'static str = "Hall";
    type Error = Infallible;
}

struct Book;

impl durable::Handle<Book> for Hall {
    type Reply = ();

    fn handle(&self, _: &Book, _: &Cx<'_>) -> Result<durable::Effect<Self, ()>, Infallible> {
        Ok(durable::update(Self { seats: seats() }))
    }
}

fn seats() -> Seats {
    Seats::from([((1, 2), "somebody".to_owned())])
}

async fn annals() -> Annals {
    let layout = AnnalsLayout::default();
    Annals::create(Memory::new(), &layout).await.unwrap()
}

/// The client cannot fix it, and an operator needs the cause.
fn is_a_bug(error: &AskError<Infallible>) {
    assert_eq!((error.http_status(), error.is_retryable()), (500, false));
    let problem = error.problem();
    assert_eq!((problem.status, problem.kind), (500, "corrupt"));
    // Advice for developers is in the error, not in what the client gets.
    assert!(!problem.detail.contains("format"), "{problem:?}");
    assert!(error.to_string().contains(r#"format = "cbor""#), "{error}");
    let cause = std::error::Error::source(error).expect("a cause");
    assert!(cause.to_string().contains("key must be a string"));
}

#[tokio::test]
async fn an_event_that_cannot_be_encoded_is_a_bug_of_the_application() {
    let halls = annals().await.executor::<Hall>(EntitySettings::new());
    let sold = HallEvent::Sold { seats: seats() };
    is_a_bug(&halls.ask("1", sold).await.unwrap_err());
    assert_eq!(halls.view("1", |hall| hall.seats.len()).await.unwrap(), 0);
}

#[tokio::test]
async fn a_value_that_cannot_be_encoded_is_a_bug_of_the_application() {
    let annals = annals().await;
    let halls = annals.durable_executor::<Hall>(EntitySettings::new());
    is_a_bug(&halls.unwrap().ask("1", Book).await.unwrap_err());
}

/// No command fails because of it, so the report is all there is.
#[tokio::test]
async fn a_snapshot_that_cannot_be_encoded_is_reported_with_its_cause_and_the_remedy() {
    let noted = Noted::default();
    let _guard = tracing::subscriber::set_default(noted.clone());
    let settings = EntitySettings::new().retention(Retention::every(1));
    let halls = annals().await.executor::<Hall>(settings);
    let booked = HallEvent::Booked { seat: (1, 2) };
    halls.ask("1", booked).await.unwrap();
    let text = noted.text();
    for part in [
        "message=saving a snapshot failed",
        "id=Hall|1",
        r#"#[stored(format = "cbor")]"#,
        "cause=key must be a string",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// The remedy helps.
#[test]
fn cbor_has_maps_with_any_keys() {
    #[derive(Serialize, Deserialize, Stored)]
    #[stored(format = "cbor")]
    struct Packed {
        seats: Seats,
    }
    let payload = Packed { seats: seats() }.to_payload().unwrap();
    assert_eq!(Packed::from_payload(&payload).unwrap().seats, seats());
}
