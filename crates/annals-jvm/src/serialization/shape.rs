//! Checks the syntax of a payload without a checksum, for verification. Replays do not check it:
//! applications parse the payload anyway.
//!
//! Does not prove that a payload is right: it may have been altered into another valid one.

use prost::Message as _;

use annals::Codec;

/// A message without known fields: all of them are skipped.
#[derive(Clone, PartialEq, prost::Message)]
struct Anything {}

/// The syntax error of a payload, if it has one.
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
                .map(|_| "its payload is not a protocol buffers message")
        }
        Codec::Bytes | Codec::Text | Codec::Other(_) => None,
    }
}
