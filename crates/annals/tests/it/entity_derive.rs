//! Derived events and states: how they are stored and read, and what is refused.

use annals::entity::{EntityEvent, Stored};
use annals::{Codec, ErrorKind, NewEvent, Payload};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, EntityEvent)]
#[serde(rename_all = "kebab-case")]
#[event(schema = 2, tags("account"))]
enum Account {
    Opened,
    #[event(schema = 3, tags("money", "in"))]
    Deposited {
        amount: u64,
    },
    #[serde(alias = "frozen")]
    Blocked(String),
    #[serde(other)]
    Other,
}

fn event(manifest: &str, schema: u32, json: &str) -> NewEvent {
    let event = NewEvent::new(Codec::Json, json.to_owned());
    event.manifest(manifest).schema(schema)
}

#[track_caller]
fn check<E: EntityEvent + PartialEq + std::fmt::Debug>(value: E, want: &NewEvent) {
    assert_eq!(value.to_event().unwrap(), *want);
    assert_eq!(E::from_event(want).unwrap(), Some(value));
}

#[track_caller]
fn check_corrupt<T: std::fmt::Debug>(read: annals::Result<T>, want: &str) {
    let error = read.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    assert!(format!("{error:?}").contains(want), "{error:?}");
}

#[test]
fn the_manifest_of_a_variant_is_its_name() {
    let tagged = |event: NewEvent, tags: &[&str]| {
        let tags = tags.iter();
        tags.fold(event.tag("account"), |event, tag| event.tag(*tag))
    };
    check(Account::Opened, &tagged(event("opened", 2, "{}"), &[]));
    let deposited = event("deposited", 3, r#"{"amount":10}"#);
    let deposited = tagged(deposited, &["money", "in"]);
    check(Account::Deposited { amount: 10 }, &deposited);
    let blocked = tagged(event("blocked", 2, r#""fraud""#), &[]);
    check(Account::Blocked("fraud".into()), &blocked);
}

#[test]
fn aliases_are_read() {
    let read = Account::from_event(&event("frozen", 2, r#""fraud""#));
    assert_eq!(read.unwrap(), Some(Account::Blocked("fraud".into())));
    // A catch-all reads every schema number.
    let read = Account::from_event(&event("cancelled", 9, r#"{"why":1}"#));
    assert_eq!(read.unwrap(), Some(Account::Other));
    let foreign = NewEvent::new(Codec::Protobuf, vec![1]).manifest("cancelled");
    assert_eq!(Account::from_event(&foreign).unwrap(), Some(Account::Other));
}

#[test]
fn another_schema_number_is_refused() {
    let read = Account::from_event(&event("deposited", 2, r#"{"amount":10}"#));
    check_corrupt(read, "schema=`2`, expected=`3`");
    let read = Account::from_event(&event("opened", 0, "{}"));
    check_corrupt(read, "schema=`0`, expected=`2`");
    let read = Account::from_event(&event("deposited", 3, r#"{"sum":10}"#));
    check_corrupt(read, "missing field `amount`");
}

#[derive(Debug, PartialEq, Serialize, Deserialize, EntityEvent)]
#[event(format = "cbor")]
enum Small<T> {
    One(T),
}

#[test]
fn a_cbor_type_also_reads_json() {
    let cbor = NewEvent::new(Codec::Cbor, vec![0x07]).manifest("One");
    check(Small::One(7u8), &cbor);
    let read = Small::<u8>::from_event(&event("One", 0, "7"));
    assert_eq!(read.unwrap(), Some(Small::One(7)));
    let read = Small::<u8>::from_event(&event("Two", 0, "7"));
    assert_eq!(read.unwrap(), None);
}

#[derive(Debug, PartialEq, Serialize, Deserialize, EntityEvent)]
#[event(schema = 1, tags("a"))]
struct Moved {
    to: u8,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, EntityEvent)]
#[serde(rename = "pinged")]
struct Pinged;

#[derive(Debug, PartialEq, Serialize, Deserialize, EntityEvent)]
#[event(format = "cbor")]
struct Paired<T>(T, T)
where
    T: Copy;

#[derive(Debug, PartialEq, Serialize, Deserialize, EntityEvent)]
#[serde(transparent)]
struct Text {
    text: String,
}

#[test]
fn the_manifest_of_a_struct_is_its_name() {
    check(Moved { to: 1 }, &event("Moved", 1, r#"{"to":1}"#).tag("a"));
    check(Pinged, &event("pinged", 0, "{}"));
    let paired = NewEvent::new(Codec::Cbor, vec![0x82, 0x01, 0x02]);
    check(Paired(1u8, 2), &paired.manifest("Paired"));
    let text = Text { text: "a".into() };
    check(text, &event("Text", 0, r#""a""#));
    let other = event("Other", 0, "{}");
    assert_eq!(Moved::from_event(&other).unwrap(), None);
    assert_eq!(Pinged::from_event(&other).unwrap(), None);
    check_corrupt(Moved::from_event(&event("Moved", 0, "{}")), "expected=`1`");
    check_corrupt(Pinged::from_event(&event("pinged", 0, "")), "EOF");
}

#[derive(Debug, PartialEq, Serialize, Deserialize, EntityEvent)]
enum Never {}

#[test]
fn an_enum_without_variants_knows_no_event() {
    assert_eq!(Never::from_event(&event("A", 0, "{}")).unwrap(), None);
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize, Stored)]
#[stored(format = "cbor", schema = 4)]
struct State<T> {
    n: T,
}

#[test]
fn a_state_is_stored_with_its_schema_number() {
    let state = State { n: 1u8 };
    let payload = state.to_payload().unwrap();
    let bytes = vec![0xa1, 0x61, b'n', 0x01];
    assert_eq!(payload, Payload::new(Codec::Cbor, bytes).schema(4));
    assert_eq!(State::from_payload(&payload).unwrap(), state);
    let json = Payload::new(Codec::Json, r#"{"n":1}"#).schema(4);
    assert_eq!(State::from_payload(&json).unwrap(), state);
    let old = State::<u8>::from_payload(&json.clone().schema(3));
    check_corrupt(old, "schema=`3`, expected=`4`");
    let foreign = Payload::new(Codec::Bytes, "x").schema(4);
    check_corrupt(State::<u8>::from_payload(&foreign), "codec=`bytes`");
    let trailing = Payload::new(Codec::Cbor, vec![0xa1, 0x61, b'n', 0x01, 0x00]).schema(4);
    check_corrupt(
        State::<u8>::from_payload(&trailing),
        "bytes follow the value",
    );
}

#[derive(Clone, PartialEq, prost::Message, EntityEvent, Stored)]
#[event(format = "protobuf", name = "a.Moved", alias = "b.Moved", schema = 1)]
#[stored(format = "protobuf", codec = "akka:7")]
struct Message {
    #[prost(uint64, tag = "1")]
    to: u64,
}

#[derive(Debug, PartialEq, EntityEvent, Stored)]
#[event(format = "bytes", codec = "akka:7")]
#[stored(format = "bytes")]
struct Blob(bytes::Bytes);

#[derive(Debug, PartialEq, EntityEvent)]
#[event(format = "protobuf", tags("all"))]
enum Held<T> {
    One(T),
    Nothing,
    #[event(format = "text")]
    Said(String),
    #[event(raw)]
    Other(Box<NewEvent>),
}

#[test]
fn structs_can_have_other_codecs() {
    let moved = NewEvent::new(Codec::Protobuf, vec![8, 7]).schema(1);
    check(Message { to: 7 }, &moved.clone().manifest("a.Moved"));
    let read = |event: &NewEvent| Message::from_event(event);
    let alias = read(&moved.clone().manifest("b.Moved")).unwrap();
    assert_eq!(alias, Some(Message { to: 7 }));
    assert_eq!(read(&moved.clone().manifest("Message")).unwrap(), None);
    let moved = moved.manifest("a.Moved");
    check_corrupt(read(&moved.clone().schema(0)), "schema=`0`, expected=`1`");
    let mut cut = moved.clone();
    cut.payload = bytes::Bytes::from_static(&[8]);
    check_corrupt(read(&cut), "message does not decode");
    let mut json = moved;
    json.codec = Codec::Json;
    check_corrupt(read(&json), "codec=`json`, expected=`protobuf`");
    let blob = NewEvent::new(Codec::Other("akka:7".into()), "x");
    check(Blob("x".into()), &blob.manifest("Blob"));
    // Written before the codec name was set.
    let plain = NewEvent::new(Codec::Bytes, "x").manifest("Blob");
    assert_eq!(Blob::from_event(&plain).unwrap(), Some(Blob("x".into())));
    let foreign = NewEvent::new(Codec::Text, "x").manifest("Blob");
    check_corrupt(Blob::from_event(&foreign), "codec=`text`, expected=`bytes`");
}

#[test]
fn enums_without_serde_variants_need_no_serde() {
    let event = |codec, bytes: &'static [u8]| NewEvent::new(codec, bytes).tag("all");
    let one = Held::One(Message { to: 7 });
    check(one, &event(Codec::Protobuf, &[8, 7]).manifest("One"));
    let nothing = event(Codec::Protobuf, &[]).manifest("Nothing");
    check(Held::<Message>::Nothing, &nothing);
    // A field of an earlier release.
    let more = event(Codec::Protobuf, &[8, 7]).manifest("Nothing");
    assert_eq!(Held::from_event(&more).unwrap(), Some(Held::<()>::Nothing));
    let said = event(Codec::Text, b"hi").manifest("Said");
    check(Held::<()>::Said("hi".into()), &said);
    let no_text = event(Codec::Text, &[0xff]).manifest("Said");
    check_corrupt(Held::<()>::from_event(&no_text), "is not UTF-8");
    // An unknown event keeps its own tags.
    let unknown = NewEvent::new(Codec::Text, "x").manifest("Two").schema(3);
    check(Held::<()>::Other(Box::new(unknown.clone())), &unknown);
    // A known manifest is not an unknown event, whatever is wrong with it.
    let wrong = unknown.manifest("Nothing");
    check_corrupt(Held::<()>::from_event(&wrong), "schema=`3`, expected=`0`");
}

#[test]
fn states_can_have_other_codecs() {
    let payload = Message { to: 7 }.to_payload().unwrap();
    let want = Payload::new(Codec::Other("akka:7".into()), vec![8, 7]);
    assert_eq!(payload, want);
    assert_eq!(Message::from_payload(&want).unwrap(), Message { to: 7 });
    let other = Payload::new(Codec::Other("akka:8".into()), vec![8, 7]);
    check_corrupt(Message::from_payload(&other), "codec=`akka:8`");
    let blob = Blob("x".into()).to_payload().unwrap();
    assert_eq!(blob, Payload::new(Codec::Bytes, "x"));
    assert_eq!(Blob::from_payload(&blob).unwrap(), Blob("x".into()));
}
