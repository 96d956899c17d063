//! Whether bytes have the shape that their codec promises: for who verifies what has no checksum.
//!
//! Who replays does without: an application that reads a payload parses it anyway.
//! Never: says that a payload is right. One that was altered into another well-formed one is not
//! told from it.

use prost::Message as _;

use annals::Codec;

/// A message of which nothing is known: all its fields are skipped.
#[derive(Clone, PartialEq, prost::Message)]
struct Anything {}

/// What is wrong with the shape of bytes.
pub(crate) fn malformed(codec: &Codec, bytes: &[u8]) -> Option<&'static str> {
    match codec {
        Codec::Json => {
            let parsed = serde_json::from_slice::<serde::de::IgnoredAny>(bytes);
            parsed.err().map(|_| "its payload is not JSON")
        }
        Codec::Cbor => {
            let mut decoder = minicbor::Decoder::new(bytes);
            let is_one = decoder.skip().is_ok() && decoder.position() == bytes.len();
            (!is_one).then_some("its payload is not CBOR")
        }
        Codec::Protobuf => {
            let parsed = Anything::decode(bytes);
            parsed
                .err()
                .map(|_| "its payload is no message of protocol buffers")
        }
        Codec::Bytes | Codec::Text | Codec::Other(_) => None,
    }
}
