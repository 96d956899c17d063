//! Variants of every shape in every format, and the errors of those that do not read.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;
use crate::{Codec, ErrorKind};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all_fields = "camelCase")]
enum Shapes {
    Unit,
    Newtype(String),
    Nested(Box<Inner>),
    Maybe(Option<u64>),
    Tuple(u64, String),
    Struct {
        some_amount: u64,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        note: Option<String>,
    },
    Empty {},
    #[serde(rename = "renamed", alias = "was", alias = "Been")]
    Renamed {
        n: i64,
    },
    Flat {
        n: u8,
        #[serde(flatten)]
        rest: Rest,
    },
}

/// An enum inside a variant keeps its name in the content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Inner {
    A,
    B(u8),
    C { d: bool },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Rest {
    a: String,
    b: Vec<u32>,
}

const FORMATS: [SerdeFormat; 2] = [SerdeFormat::Json, SerdeFormat::Cbor];

fn json(text: &str) -> Payload {
    Payload::new(Codec::Json, text.to_owned())
}

/// Check the exact bytes: JSON as text, CBOR in hex.
#[track_caller]
fn check_bytes(value: &impl Serialize, name: &str, text: &str, cbor: &str) {
    let (written, payload) = write(SerdeFormat::Json, value).unwrap();
    assert_eq!((written, payload), (name, json(text)));
    let (written, payload) = write(SerdeFormat::Cbor, value).unwrap();
    let hex: String = payload.bytes.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!((written, hex.as_str()), (name, cbor));
}

#[test]
fn only_the_content_is_written() {
    check_bytes(&Shapes::Unit, "Unit", "{}", "a0");
    check_bytes(&Shapes::Empty {}, "Empty", "{}", "a0");
    check_bytes(&Shapes::Newtype("a".into()), "Newtype", "\"a\"", "6161");
    check_bytes(&Shapes::Maybe(None), "Maybe", "null", "f6");
    check_bytes(
        &Shapes::Tuple(1, "a".into()),
        "Tuple",
        "[1,\"a\"]",
        "82016161",
    );
    check_bytes(
        &Shapes::Renamed { n: -1 },
        "renamed",
        "{\"n\":-1}",
        "a1616e20",
    );
    let nested = Shapes::Nested(Box::new(Inner::B(7)));
    check_bytes(&nested, "Nested", "{\"B\":7}", "a1614207");
    let bare = Shapes::Struct {
        some_amount: 10,
        note: None,
    };
    let cbor = "a16a736f6d65416d6f756e740a";
    check_bytes(&bare, "Struct", "{\"someAmount\":10}", cbor);

    #[derive(Serialize)]
    enum Event {
        Deposited { amount: u64 },
    }
    let event = Event::Deposited { amount: 10 };
    let cbor = "a166616d6f756e740a";
    check_bytes(&event, "Deposited", "{\"amount\":10}", cbor);
}

fn shapes() -> impl Strategy<Value = Shapes> {
    let inner = prop_oneof![
        Just(Inner::A),
        any::<u8>().prop_map(Inner::B),
        any::<bool>().prop_map(|d| Inner::C { d }),
    ];
    let rest = (any::<String>(), any::<Vec<u32>>()).prop_map(|(a, b)| Rest { a, b });
    let fields = (any::<u64>(), any::<Option<String>>());
    prop_oneof![
        Just(Shapes::Unit),
        Just(Shapes::Empty {}),
        any::<String>().prop_map(Shapes::Newtype),
        inner.prop_map(|inner| Shapes::Nested(Box::new(inner))),
        any::<Option<u64>>().prop_map(Shapes::Maybe),
        any::<(u64, String)>().prop_map(|(n, text)| Shapes::Tuple(n, text)),
        fields.prop_map(|(some_amount, note)| Shapes::Struct { some_amount, note }),
        any::<i64>().prop_map(|n| Shapes::Renamed { n }),
        (any::<u8>(), rest).prop_map(|(n, rest)| Shapes::Flat { n, rest }),
    ]
}

proptest! {
    #[test]
    fn written_variants_read_back(value in shapes()) {
        for format in FORMATS {
            let (name, payload) = write(format, &value).unwrap();
            prop_assert_eq!(read::<Shapes>(name, &payload).unwrap(), Some(value.clone()));
        }
    }

    #[test]
    fn unknown_names_and_bytes_never_panic(name in any::<String>(), bytes: Vec<u8>) {
        for format in FORMATS {
            let payload = Payload::new(format.codec(), bytes.clone());
            if !["Unit", "Newtype", "Nested", "Maybe", "Tuple"].contains(&name.as_str()) {
                prop_assert!(read::<Shapes>(&name, &payload).is_ok_and(|read| read.is_none()));
            }
            for known in ["Unit", "Nested", "Tuple", "Struct", "Flat"] {
                if let Err(error) = read::<Shapes>(known, &payload) {
                    prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
                }
            }
        }
    }
}

#[track_caller]
fn check_read(name: &str, payload: &Payload, want: Result<Option<Shapes>, &str>) {
    match (read::<Shapes>(name, payload), want) {
        (Ok(read), Ok(want)) => assert_eq!(read, want, "{name}"),
        (Err(error), Err(want)) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(format!("{error:?}").contains(want), "{name}: {error:?}");
        }
        (read, want) => panic!("{name}: {read:?}, not {want:?}"),
    }
}

#[test]
fn an_unknown_name_is_none_and_unknown_content_is_corrupt() {
    let renamed = |n| Ok(Some(Shapes::Renamed { n }));
    check_read("renamed", &json("{\"n\":1}"), renamed(1));
    check_read("was", &json("{\"n\":2}"), renamed(2));
    check_read("Been", &json("{\"n\":3,\"more\":[]}"), renamed(3));
    check_read("Renamed", &json("{\"n\":1}"), Ok(None));
    check_read("", &json("{\"n\":1}"), Ok(None));
    check_read("nobody", &json("no json"), Ok(None));
    check_read("renamed", &json("{}"), Err("missing field `n`"));
    check_read("renamed", &json("{\"n\":1} {}"), Err("trailing"));
    check_read("Tuple", &json("[1]"), Err("invalid length"));
    check_read("Nested", &json("{\"D\":1}"), Err("unknown variant `D`"));
    check_read("Newtype", &json(""), Err("EOF"));
    let trailing = Payload::new(Codec::Cbor, vec![0xa0, 0x00]);
    check_read("Unit", &trailing, Err("bytes follow the value"));
}

#[test]
fn a_unit_variant_ignores_content() {
    for text in ["{}", "null", "{\"once\":[1,{\"a\":2}]}", "[]", "7"] {
        check_read("Unit", &json(text), Ok(Some(Shapes::Unit)));
    }
    check_read("Unit", &json("{"), Err("EOF"));
    let foreign = Payload::new(Codec::Protobuf, vec![0xff]);
    check_read("Unit", &foreign, Ok(Some(Shapes::Unit)));
    check_read("nobody", &foreign, Ok(None));
    check_read("Maybe", &foreign, Err("reads only json and cbor"));
    check_read("Struct", &foreign, Err("reads only json and cbor"));
}

#[test]
fn a_catch_all_variant_reads_any_name() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Few {
        One(u8),
        #[serde(other)]
        Other,
    }
    let read = |name| read::<Few>(name, &json("1"));
    assert_eq!(read("One").unwrap(), Some(Few::One(1)));
    assert_eq!(read("Two").unwrap(), Some(Few::Other));
}

#[test]
fn an_event_can_be_stored_as_another_enum() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(into = "Record", try_from = "Record")]
    struct Event(u8);

    #[derive(Serialize, Deserialize)]
    enum Record {
        Small(u8),
        Large,
    }

    impl From<Event> for Record {
        fn from(event: Event) -> Self {
            match event.0 {
                0..9 => Self::Small(event.0),
                _ => Self::Large,
            }
        }
    }

    impl TryFrom<Record> for Event {
        type Error = &'static str;

        fn try_from(record: Record) -> Result<Self, Self::Error> {
            match record {
                Record::Small(n) => Ok(Self(n)),
                Record::Large => Err("too large"),
            }
        }
    }

    assert_eq!(write(SerdeFormat::Json, &Event(3)).unwrap().0, "Small");
    assert_eq!(read("Small", &json("3")).unwrap(), Some(Event(3)));
    let large = read::<Event>("Large", &json("{}")).unwrap_err();
    assert!(format!("{large:?}").contains("too large"), "{large:?}");
}

#[test]
fn only_externally_tagged_variants_have_a_name() {
    #[derive(Serialize, Deserialize)]
    #[serde(tag = "type")]
    enum Inside {
        A { n: u8 },
    }
    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Nowhere {
        A(u8),
    }
    for format in FORMATS {
        for error in [
            write(format, &Inside::A { n: 1 }).unwrap_err(),
            write(format, &Nowhere::A(1)).unwrap_err(),
            write(format, &"text").unwrap_err(),
            write(format, &Some(Inner::A)).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(format!("{error:?}").contains("not a variant"), "{error:?}");
        }
    }
    let inside = read::<Inside>("A", &json("{\"n\":1}")).err().unwrap();
    assert_eq!(inside.kind(), ErrorKind::Corrupt, "it is not ignored");
}
