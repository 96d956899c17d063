//! Metadata, causation and correlation ids that handlers and callers set, read back from the journal.

use std::convert::Infallible;
use std::sync::Arc;

use annals::entity::{
    AskError, Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Once, Region, Stored,
    durable, persist,
};
use annals::items::Items;
use annals::journal::Window;
use annals::layout::AnnalsLayout;
use annals::memory::Memory;
use annals::{Annals, ErrorKind, Event};
use annals_testkit::tck::{AKKA, ANNALS, J5IK2O};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Serialize, Deserialize, Stored)]
struct Order {
    lines: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize, EntityEvent)]
#[event(entity = Order)]
enum OrderEvent {
    Added { item: String },
    Checked,
}

impl Entity for Order {
    const TYPE: &'static str = "Order";
    type Event = OrderEvent;
    type Error = Infallible;

    fn apply(&mut self, event: &OrderEvent) {
        if let OrderEvent::Added { item } = event {
            self.lines.push(item.clone());
        }
    }
}

/// Adds an item and checks the order, with metadata of each event.
struct Add(&'static str);

impl Handle<Add> for Order {
    /// The correlation id that the handler saw.
    type Reply = Option<String>;

    fn handle(&self, add: &Add, cx: &Cx<'_>) -> Result<Effect<Self, Self::Reply>, Infallible> {
        let seen = cx.correlation_id().map(str::to_owned);
        let item = add.0.to_owned();
        let added = persist(OrderEvent::Added { item }).metadata("by", "ann");
        let checked = persist(OrderEvent::Checked).metadata("by", "system");
        Ok(added
            .and(checked.tag("audit"))
            .metadata("source", "web")
            .reply(move |_| seen))
    }
}

/// Sets its own causation and correlation ids.
struct Import;

impl Handle<Import> for Order {
    type Reply = usize;

    fn handle(&self, _: &Import, _: &Cx<'_>) -> Result<Effect<Self, usize>, Infallible> {
        let item = "imported".to_owned();
        Ok(persist(OrderEvent::Added { item })
            .causation("file-3")
            .correlation("import-9")
            .reply(|order| order.lines.len()))
    }
}

async fn events(annals: &Annals) -> Vec<Event> {
    let replay = annals
        .journal()
        .replay(&"Order|1".parse().unwrap(), Window::ALL);
    replay.try_collect().await.unwrap()
}

fn ids(event: &Event) -> (Option<&str>, Option<&str>) {
    (event.causation.as_deref(), event.correlation.as_deref())
}

#[tokio::test]
async fn metadata_and_ids_are_stored_on_every_layout() {
    for variant in [ANNALS, AKKA, J5IK2O] {
        let items: Arc<dyn Items> = Arc::new(Memory::new());
        let layout = variant.on_default_tables();
        let annals = Annals::create(items.clone(), &*layout).await.unwrap();
        let remembers = || EntitySettings::new().remember_commands(10);
        let orders: Region<Order> = annals.region(remembers());
        let correlated = orders.with_correlation("request-7");
        let seen = correlated.ask("1", Add("a book")).await.unwrap();
        assert_eq!(seen.as_deref(), Some("request-7"));
        assert_eq!(orders.ask("1", Add("a lamp")).await.unwrap(), None);
        assert_eq!(correlated.ask("1", Import).await.unwrap(), 3);
        let imported = correlated.ask_once("1", "order-1", Import).await.unwrap();
        assert_eq!(imported, Once::Done(4));

        let other = Annals::open(items, &*layout).await.unwrap();
        let stored = events(&other).await;
        let metadata = |event: &Event, name: &str| event.data.metadata[name].clone();
        for (event, by) in stored.iter().zip(["ann", "system", "ann", "system"]) {
            assert_eq!(metadata(event, "by"), by, "{}", variant.name);
            assert_eq!(metadata(event, "source"), "web", "{}", variant.name);
            assert_eq!(event.data.tags.is_empty(), by == "ann", "{event:?}");
        }
        let stored_ids: Vec<_> = stored.iter().map(ids).collect();
        let request = (None, Some("request-7"));
        let import = (Some("file-3"), Some("import-9"));
        let once = (Some("order-1"), Some("import-9"));
        let want = [request, request, (None, None), (None, None), import, once];
        assert_eq!(stored_ids, want, "{}", variant.name);

        // The command's id is what recognises it after a restart.
        let executor = other.executor::<Order>(remembers()).with_correlation("r");
        let again = executor.ask_once("1", "order-1", Import).await.unwrap();
        for wrong in [String::new(), "x".repeat(1025)] {
            let refused = executor.ask_once("1", &wrong, Import).await.unwrap_err();
            assert!(
                refused
                    .to_string()
                    .contains("a command id has 1 to 1024 bytes")
            );
        }
        assert_eq!(again, Once::Already(6), "{}", variant.name);
        let seen = executor.ask("1", Add("a pen")).await.unwrap();
        assert_eq!(seen.as_deref(), Some("r"));
        let last = events(&other).await;
        assert_eq!(ids(last.last().unwrap()), (None, Some("r")));
    }
}

#[tokio::test]
async fn a_correlation_id_that_is_too_long_is_refused() {
    let layout = AnnalsLayout::default();
    let annals = Annals::create(Memory::new(), &layout).await.unwrap();
    let orders: Region<Order> = annals.region(EntitySettings::new());
    let long = orders.with_correlation("x".repeat(2_000));
    let refused = long.ask("1", Add("a book")).await.unwrap_err();
    assert_eq!(refused.http_status(), 400);
    assert!(matches!(&refused, AskError::Store(error) if error.kind() == ErrorKind::Invalid));
    assert_eq!(events(&annals).await.len(), 0);
    assert_eq!(orders.ask("1", Add("a book")).await.unwrap(), None);
}

/// A value whose handler replies with the correlation id.
#[derive(Debug, Default, Serialize, Deserialize, Stored)]
struct Note;

impl durable::Entity for Note {
    const TYPE: &'static str = "Note";
    type Error = Infallible;
}

struct Trace;

impl durable::Handle<Trace> for Note {
    type Reply = Option<String>;

    fn handle(
        &self,
        _: &Trace,
        cx: &Cx<'_>,
    ) -> Result<durable::Effect<Self, Self::Reply>, Infallible> {
        Ok(durable::reply(cx.correlation_id().map(str::to_owned)))
    }
}

#[tokio::test]
async fn handlers_of_durable_values_see_the_correlation_id() {
    let layout = AnnalsLayout::default();
    let annals = Annals::create(Memory::new(), &layout).await.unwrap();
    let region = annals
        .durable_region::<Note>(EntitySettings::new())
        .unwrap();
    let executor = annals
        .durable_executor::<Note>(EntitySettings::new())
        .unwrap();
    let seen = region.with_correlation("r-1").ask("1", Trace).await;
    assert_eq!(seen.unwrap().as_deref(), Some("r-1"));
    let seen = executor.with_correlation("r-2").ask("1", Trace).await;
    assert_eq!(seen.unwrap().as_deref(), Some("r-2"));
    assert_eq!(region.ask("1", Trace).await.unwrap(), None);
}
