//! A program with a view and two handlers, which the tests of projections run in this process.

use std::sync::Arc;
use std::time::Duration;

use annals::embedded::Embedded;
use annals::entity::{EntityEvent, Stored};
use annals::feed::Filter;
use annals::journal::Expected;
use annals::projection::{Fed, Handler, OnPoison, ProjectionStatus, RunSettings, View};
use annals::{Annals as Library, Clock, Error, Result, SystemClock};
use annals_jvm::{AnyLayout, LayoutName};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::run::Annals;

#[derive(Debug, Serialize, Deserialize, EntityEvent)]
pub(crate) enum CartEvent {
    Added,
    /// The handlers panic or fail.
    Broken,
}

/// A view of two shares.
pub(crate) struct OpenCarts;

#[derive(Serialize, Deserialize, Stored)]
pub(crate) struct OpenCart {
    events: u64,
}

impl View for OpenCarts {
    const NAME: &'static str = "open-carts";
    type Event = CartEvent;
    type Row = OpenCart;

    fn source() -> Filter {
        Filter::new().category("Cart")
    }

    fn key(event: &Fed<CartEvent>) -> Option<String> {
        Some(event.entity().to_owned())
    }

    fn apply(row: Option<OpenCart>, _: &Fed<CartEvent>) -> Option<OpenCart> {
        let events = row.map_or(0, |row| row.events) + 1;
        Some(OpenCart { events })
    }
}

/// Makes dead letters of what it cannot handle, until it is fixed.
struct Mails {
    is_fixed: bool,
}

/// Stops where it cannot handle an event, until it is fixed.
struct Search {
    is_fixed: bool,
}

#[async_trait]
impl Handler for Mails {
    const NAME: &'static str = "mails";
    type Event = CartEvent;

    fn source() -> Filter {
        Filter::new().category("Cart")
    }

    async fn handle(&self, event: &Fed<CartEvent>) -> Result<()> {
        match event.event {
            CartEvent::Broken if !self.is_fixed => panic!("the cart is broken"),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Handler for Search {
    const NAME: &'static str = "search";
    type Event = CartEvent;

    fn source() -> Filter {
        Filter::new().category("Cart")
    }

    async fn handle(&self, event: &Fed<CartEvent>) -> Result<()> {
        match event.event {
            CartEvent::Broken if !self.is_fixed => Err(Error::invalid("the cart is broken")),
            _ => Ok(()),
        }
    }
}

pub(crate) const LAYOUTS: [(LayoutName, &str); 3] = [
    (LayoutName::Annals, "annals"),
    (LayoutName::Akka, "akka"),
    (LayoutName::J5ik2o, "j5ik2o"),
];

pub(crate) fn settings(on_poison: OnPoison) -> RunSettings {
    let settings = RunSettings::default().attempts(1).on_poison(on_poison);
    settings.lease(Duration::from_millis(400))
}

/// Opens the folder of the commands, and closes it at the end.
pub(crate) fn in_store(
    annals: &Annals,
    layout: LayoutName,
    program: impl AsyncFnOnce(&Library) -> (),
) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let folder = annals.folder().join("annals-data");
        let items = Embedded::open(&folder, &Default::default()).unwrap();
        let layout = AnyLayout {
            layout,
            ..AnyLayout::default()
        };
        let library = Library::create(Arc::new(items), &layout).await.unwrap();
        program(&library).await;
    });
}

pub(crate) async fn append(library: &Library, id: &str, events: &[CartEvent]) {
    for event in events {
        let (id, event) = (id.parse().unwrap(), event.to_event().unwrap());
        let append = library.journal().append(&id, Expected::Any, event);
        append.await.unwrap();
    }
}

/// For tests outside of a runtime.
pub(crate) fn sleep_ms(ms: u64) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { SystemClock::new().sleep(Duration::from_millis(ms)).await });
}

/// Waits until a projection is like that.
pub(crate) async fn until(
    library: &Library,
    name: &str,
    is_so: impl Fn(&ProjectionStatus) -> bool,
) {
    let clock = SystemClock::new();
    for _ in 0..2_000 {
        let status = library.projections().status(name).await.unwrap();
        if status.is_some_and(|status| is_so(&status)) {
            return;
        }
        clock.sleep(Duration::from_millis(20)).await;
    }
    let status = library.projections().status(name).await.unwrap();
    panic!("{status:#?}");
}

/// A program with all three projections, until they get no further.
pub(crate) async fn run_program(library: &Library, is_fixed: bool) {
    let projections = library.projections();
    let carts = projections.view::<OpenCarts>().shares(2);
    let carts = carts.settings(settings(OnPoison::Stop)).start();
    let carts = carts.await.unwrap();
    let mails = projections.handler(Mails { is_fixed });
    let mails = mails.settings(settings(OnPoison::DeadLetter)).start();
    let mails = mails.await.unwrap();
    let search = projections.handler(Search { is_fixed });
    let search = search.settings(settings(OnPoison::Stop)).start();
    let search = search.await.unwrap();
    let caught_up = |status: &ProjectionStatus| status.builds.iter().all(|it| it.lag_events == 0);
    until(library, "open-carts", caught_up).await;
    until(library, "mails", |status| {
        caught_up(status) && !(is_fixed && status.builds[0].dead_letters > 0)
    })
    .await;
    until(library, "search", |status| {
        let is_stopped = status.builds[0].shares[0].stopped.is_some();
        is_stopped != is_fixed && (is_stopped || caught_up(status))
    })
    .await;
    carts.stop().await;
    mails.stop().await;
    search.stop().await;
}

/// Three carts of seven events, of which one is broken, and what a program makes of them.
pub(crate) fn fill(annals: &Annals, layout: LayoutName) {
    in_store(annals, layout, async |library| {
        append(library, "Cart|1", &[CartEvent::Added, CartEvent::Added]).await;
        let broken = [CartEvent::Added, CartEvent::Broken, CartEvent::Added];
        append(library, "Cart|2", &broken).await;
        append(library, "Cart|3", &[CartEvent::Added, CartEvent::Added]).await;
        append(library, "Order|1", &[CartEvent::Broken]).await;
        run_program(library, false).await;
    });
}
