//! Codecs of entities: several in one journal, the JVM serializers that they select, and unknown events.

use std::sync::Arc;

use annals::entity::codec::ValueCodec;
use annals::entity::{
    Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Retention, Stored, persist_all,
};
use annals::items::{Condition, Item, Items, Scan, Value, scan_all};
use annals::journal::{Expected, Window};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::snapshot::Criteria;
use annals::{Annals, Codec, Error, NewEvent, Payload, Result};
use annals_testkit::tck::{AKKA, ANNALS, J5IK2O, Variant};
use bytes::Bytes;
use futures::TryStreamExt;
use prost::Message as _;
use serde::{Deserialize, Serialize};

/// A price, also used by a JVM service.
#[derive(Clone, PartialEq, prost::Message)]
struct Price {
    #[prost(uint64, tag = "1")]
    cents: u64,
}

/// A big-endian number: serializer 1043 of that service.
struct BigEndian;

impl ValueCodec<u32> for BigEndian {
    fn codec() -> Codec {
        Codec::Other("akka:1043".into())
    }

    fn write(value: &u32) -> Result<Bytes> {
        Ok(Bytes::copy_from_slice(&value.to_be_bytes()))
    }

    fn read(payload: &Payload) -> Result<u32> {
        let bytes = payload.bytes.as_ref().try_into();
        bytes
            .map(u32::from_be_bytes)
            .map_err(|cause| Error::corrupt("not 4 bytes").because(cause))
    }
}

/// The events of an article, one for each codec.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, EntityEvent)]
#[event(entity = Article)]
enum ArticleEvent {
    Listed {
        by: String,
    },
    #[event(format = "cbor")]
    Weighed(u64),
    #[serde(skip)]
    #[event(format = "protobuf", name = "com.example.Price", schema = 2)]
    Priced(Price),
    #[serde(skip)]
    #[event(format = "bytes")]
    Photographed(Vec<u8>),
    #[serde(skip)]
    #[event(format = "text", alias = "Remarked")]
    Noted(String),
    /// A message with a custom serializer of that service.
    #[serde(skip)]
    #[event(format = "protobuf", codec = "akka:1042", name = "discount")]
    Discounted(Price),
    #[serde(skip)]
    #[event(format = BigEndian, tags("stock"))]
    Counted(u32),
    /// JSON with a custom serializer of that service.
    #[event(codec = "akka:1044")]
    Sold {
        to: String,
    },
    #[serde(skip)]
    #[event(raw)]
    Other(NewEvent),
}

/// All events as text; a protocol buffers message itself.
#[derive(Clone, PartialEq, prost::Message, Stored)]
#[stored(format = "protobuf", name = "com.example.Article")]
struct Article {
    #[prost(string, repeated, tag = "1")]
    seen: Vec<String>,
}

impl Entity for Article {
    const TYPE: &'static str = "Article";
    type Event = ArticleEvent;
    type Error = std::convert::Infallible;

    fn apply(&mut self, event: &ArticleEvent) {
        self.seen.push(format!("{event:?}"));
    }
}

/// Persists these events.
struct Record(Vec<ArticleEvent>);

impl Handle<Record> for Article {
    type Reply = u64;

    fn handle(&self, command: &Record, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
        Ok(persist_all(command.0.clone()).reply(|article| article.seen.len() as u64))
    }
}

fn everything() -> Vec<ArticleEvent> {
    let foreign = NewEvent::new(Codec::Other("akka:77".into()), vec![0xff, 0x00]);
    vec![
        ArticleEvent::Listed { by: "Ann".into() },
        ArticleEvent::Weighed(70),
        ArticleEvent::Priced(Price { cents: 1_099 }),
        ArticleEvent::Photographed(vec![0xff, 0xd8]),
        ArticleEvent::Noted("fine".into()),
        ArticleEvent::Discounted(Price { cents: 999 }),
        ArticleEvent::Counted(7),
        ArticleEvent::Sold { to: "Bob".into() },
        ArticleEvent::Other(foreign.manifest("com.example.Recalled").schema(3).tag("a")),
    ]
}

async fn create(variant: &Variant) -> (Arc<dyn Items>, Arc<dyn Layout>, Annals) {
    let (items, layout): (Arc<dyn Items>, _) =
        (Arc::new(Memory::new()), variant.on_default_tables());
    let annals = Annals::create(items.clone(), &*layout).await.unwrap();
    (items, layout, annals)
}

fn texts(events: &[ArticleEvent]) -> Vec<String> {
    events.iter().map(|event| format!("{event:?}")).collect()
}

#[tokio::test]
async fn one_journal_holds_events_of_every_codec() {
    for variant in [ANNALS, AKKA, J5IK2O] {
        let (items, layout, annals) = create(&variant).await;
        let region = annals.region::<Article>(EntitySettings::new());
        let (first, rest) = (everything()[..1].to_vec(), everything()[1..].to_vec());
        assert_eq!(region.ask("1", Record(first)).await.unwrap(), 1);
        assert_eq!(region.ask("1", Record(rest)).await.unwrap(), 9);

        let other = Annals::open(items, &*layout).await.unwrap();
        let executor = other.executor::<Article>(EntitySettings::new());
        let seen = executor.view("1", |article| article.seen.clone()).await;
        assert_eq!(seen.unwrap(), texts(&everything()), "{}", variant.name);
        let id = "Article|1".parse().unwrap();
        let stored = other.journal().replay(&id, Window::ALL);
        let stored: Vec<NewEvent> = stored
            .map_ok(|event| event.data)
            .try_collect()
            .await
            .unwrap();
        let codecs: Vec<_> = stored.iter().map(|event| event.codec.to_string()).collect();
        let want = "json cbor protobuf bytes text akka:1042 akka:1043 akka:1044 akka:77";
        assert_eq!(codecs.join(" "), want, "{}", variant.name);
        for (stored, event) in stored.iter().zip(everything()) {
            assert_eq!(*stored, event.to_event().unwrap(), "{}", variant.name);
        }
    }
}

#[tokio::test]
async fn a_protocol_buffers_state_is_stored_with_its_manifest() {
    for variant in [ANNALS, AKKA, J5IK2O] {
        let (items, layout, annals) = create(&variant).await;
        let retention = || EntitySettings::new().retention(Retention::every(1).delete_events());
        let executor = annals.executor::<Article>(retention());
        executor.ask("1", Record(everything())).await.unwrap();
        let id = "Article|1".parse().unwrap();
        let snapshot = annals.snapshots().load(&id, Criteria::ALL).await.unwrap();
        let payload = snapshot.unwrap().payload;
        assert_eq!(payload.codec, Codec::Protobuf);
        assert_eq!(payload.manifest, "com.example.Article");
        assert!(Article::from_payload(&payload.manifest("com.example.Order")).is_err());
        let left = annals.journal().replay(&id, Window::ALL);
        assert!(left.try_collect::<Vec<_>>().await.unwrap().len() <= 1);

        let other = Annals::open(items, &*layout).await.unwrap();
        let executor = other.executor::<Article>(retention());
        let seen = executor.view("1", |article| article.seen.clone()).await;
        assert_eq!(seen.unwrap(), texts(&everything()), "{}", variant.name);
    }
}

/// The JVM serializers and manifests of the codecs, in the order of events.
const SERIALIZERS: [(i32, &str); 9] = [
    (31, "Listed"),
    (33, "Weighed"),
    (2, "com.example.Price"),
    (4, ""),
    (20, ""),
    (1042, "discount"),
    (1043, "Counted"),
    (1044, "Sold"),
    (77, "com.example.Recalled"),
];

/// The items of the journal table with this numeric attribute, in its order.
async fn stored(items: &Arc<dyn Items>, layout: &dyn Layout, order: &str) -> Vec<Item> {
    let table = layout.tables().unwrap().journal;
    let found = scan_all(items.clone(), Arc::new(table), Scan::whole());
    let found: Vec<Item> = found.try_collect().await.unwrap();
    let number = |item: &Item| item.get(order).and_then(Value::as_u64);
    let mut events: Vec<_> = found.into_iter().filter(|i| number(i).is_some()).collect();
    events.sort_by_key(number);
    events
}

#[tokio::test]
async fn codecs_select_serializer_and_manifest_on_the_akka_layout() {
    let (items, layout, annals) = create(&AKKA).await;
    let executor = annals.executor::<Article>(EntitySettings::new());
    executor.ask("1", Record(everything())).await.unwrap();
    let rows = stored(&items, &*layout, "seq").await;
    assert_eq!(rows.len(), SERIALIZERS.len());
    for (row, (serializer, manifest)) in rows.iter().zip(SERIALIZERS) {
        let id = Value::from(serializer as u64);
        assert_eq!(row.get("ev_ser_id"), Some(&id), "{row:?}");
        let manifest = (!manifest.is_empty()).then(|| Value::from(manifest));
        assert_eq!(row.get("ev_ser_manifest"), manifest.as_ref(), "{row:?}");
    }
    assert_eq!(rows[5].get("event"), Some(&Value::from(vec![8, 0xe7, 7])));
    assert_eq!(rows[6].get("event"), Some(&Value::from(vec![0, 0, 0, 7])));
}

/// The plugin's message, reduced to what this test reads.
#[derive(Clone, PartialEq, prost::Message)]
struct PersistentMessage {
    #[prost(message, optional, tag = "1")]
    payload: Option<PersistentPayload>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PersistentPayload {
    #[prost(int32, tag = "1")]
    serializer_id: i32,
    #[prost(bytes = "vec", tag = "2")]
    payload: Vec<u8>,
    #[prost(string, tag = "3")]
    manifest: String,
}

#[tokio::test]
async fn codecs_select_serializer_and_manifest_on_the_j5ik2o_layout() {
    let (items, layout, annals) = create(&J5IK2O).await;
    let executor = annals.executor::<Article>(EntitySettings::new());
    executor.ask("1", Record(everything())).await.unwrap();
    let rows = stored(&items, &*layout, "sequence-nr").await;
    let rows = rows.iter().filter_map(|row| match row.get("message") {
        Some(Value::B(bytes)) => PersistentMessage::decode(bytes.as_ref()).unwrap().payload,
        _ => None,
    });
    let payloads: Vec<PersistentPayload> = rows.collect();
    let selected: Vec<_> = payloads
        .iter()
        .map(|payload| (payload.serializer_id, payload.manifest.as_str()))
        .collect();
    assert_eq!(selected, SERIALIZERS);
    assert_eq!(payloads[5].payload, [8, 0xe7, 7]);
    assert_eq!(payloads[6].payload, [0, 0, 0, 7]);
}

#[tokio::test]
async fn entities_read_what_a_jvm_service_wrote() {
    let (items, layout, annals) = create(&AKKA).await;
    let table = layout.tables().unwrap().journal;
    let rows = [
        (1042u64, "discount", vec![8, 0xe7, 7]),
        (1044, "Sold", br#"{"to":"Bob"}"#.to_vec()),
        (2, "com.example.Price", vec![8, 0xe7, 7]),
    ];
    for (n, (serializer, manifest, bytes)) in (1u64..).zip(rows) {
        let mut row = Item::new()
            .with("par", "journal-P-Article|1-0")
            .with("num", n)
            .with("persistence_id", "Article|1")
            .with("seq", n)
            .with("event", bytes)
            .with("writer_uuid", "6f0c57f1-6b7e-4f8e-9d5e-0a2b3c4d5e6f")
            .with("ev_ser_id", serializer);
        row.insert("ev_ser_manifest", manifest);
        items.put(&table, row, Condition::Absent).await.unwrap();
    }
    let executor = annals.executor::<Article>(EntitySettings::new());
    let seen = executor.view("1", |article| article.seen.clone()).await;
    // The plugin stores no schema number for serializer 2.
    let error = seen.unwrap_err();
    assert!(
        format!("{error:?}").contains("schema=`0`, expected=`2`"),
        "{error:?}"
    );
    let adapt = |event: NewEvent| match event.manifest.as_str() {
        "com.example.Price" => Ok(vec![event.schema(2)]),
        _ => Ok(vec![event]),
    };
    let executor = annals.executor::<Article>(EntitySettings::new().adapter(adapt));
    let seen = executor.view("1", |article| article.seen.clone()).await;
    let want = [
        ArticleEvent::Discounted(Price { cents: 999 }),
        ArticleEvent::Sold { to: "Bob".into() },
        ArticleEvent::Priced(Price { cents: 999 }),
    ];
    assert_eq!(seen.unwrap(), texts(&want));
}

#[tokio::test]
async fn raw_events_are_copied_unchanged() {
    let unknown = NewEvent::new(Codec::Bytes, vec![1, 2, 3])
        .manifest("Recalled")
        .schema(9)
        .tag("legal")
        .metadata("by", "carol");
    for variant in [ANNALS, AKKA, J5IK2O] {
        let (_, _, annals) = create(&variant).await;
        let (from, to) = ("Article|1".parse().unwrap(), "Article|2".parse().unwrap());
        let append = annals
            .journal()
            .append(&from, Expected::Empty, unknown.clone());
        append.await.unwrap();
        let read = annals.journal().replay(&from, Window::ALL);
        let read: Vec<_> = read.try_collect().await.unwrap();
        let event = ArticleEvent::from_event(&read[0].data).unwrap().unwrap();
        assert_eq!(event, ArticleEvent::Other(unknown.clone()));
        // A raw variant knows every event, so recovery does not fail.
        let executor = annals.executor::<Article>(EntitySettings::new());
        let seen = executor.view("1", |article| article.seen.len()).await;
        assert_eq!(seen.unwrap(), 1);
        executor.ask("2", Record(vec![event])).await.unwrap();
        let copied = annals.journal().replay(&to, Window::ALL);
        let copied: Vec<_> = copied.try_collect().await.unwrap();
        assert_eq!(copied[0].data, unknown, "{}", variant.name);
    }
}
