//! A codec of one's own, around another: `cargo run -p annals --example custom_codec`.
//!
//! What it writes is packed and recorded as such; what was written before there was any packing is
//! read as well.

use std::io::{Read, Write};

use annals::entity::codec::{Json, ValueCodec};
use annals::entity::{Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Stored, persist};
use annals::journal::{Expected, Window};
use annals::{Annals, Codec, Error, NewEvent, Payload, Result};
use bytes::Bytes;
use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

/// What another codec writes, deflated.
struct Packed<C>(C);

/// What bytes may become at most.
const UNPACKED_BYTES_MAX: u64 = 16 << 20;

impl<T, C: ValueCodec<T>> ValueCodec<T> for Packed<C> {
    fn codec() -> Codec {
        Codec::Other(format!("{}+deflate", C::codec()))
    }

    fn write(value: &T) -> Result<Bytes> {
        let mut packed = DeflateEncoder::new(Vec::new(), Compression::default());
        let written = packed.write_all(&C::write(value)?);
        let packed = written.and_then(|()| packed.finish());
        let packed = packed.map_err(|cause| Error::invalid("it does not pack").because(cause))?;
        Ok(packed.into())
    }

    fn read(payload: &Payload) -> Result<T> {
        if payload.codec != Self::codec() {
            return C::read(payload);
        }
        let mut bytes = Vec::new();
        let mut unpacking = DeflateDecoder::new(payload.bytes.as_ref()).take(UNPACKED_BYTES_MAX);
        let unpacked = unpacking.read_to_end(&mut bytes);
        unpacked.map_err(|cause| Error::corrupt("it does not unpack").because(cause))?;
        C::read(&Payload::new(C::codec(), bytes))
    }
}

#[derive(Default, Serialize, Deserialize, Stored)]
#[stored(format = Packed<Json>)]
struct Diary {
    pages: Vec<String>,
}

#[derive(EntityEvent)]
#[event(format = Packed<Json>)]
enum Happened {
    Written(String),
}

impl Entity for Diary {
    const TYPE: &'static str = "Diary";
    type Event = Happened;
    type Error = std::convert::Infallible;

    fn apply(&mut self, event: &Happened) {
        let Happened::Written(page) = event;
        self.pages.push(page.clone());
    }
}

struct WritePage(String);

impl Handle<WritePage> for Diary {
    type Reply = ();

    fn handle(&self, page: &WritePage, _: &Cx<'_>) -> Result<Effect<Self, ()>, Self::Error> {
        Ok(persist(Happened::Written(page.0.clone())))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let annals = Annals::embedded(folder.path()).await?;
    let id = "Diary|ann".parse()?;
    let old = NewEvent::new(Codec::Json, r#""in plain JSON""#).manifest("Written");
    annals.journal().append(&id, Expected::Empty, old).await?;

    let diaries = annals.executor::<Diary>(EntitySettings::new());
    let long = "all work and no play ".repeat(100);
    diaries.ask("ann", WritePage(long.clone())).await?;
    let pages = diaries.view("ann", |diary| diary.pages.clone()).await?;
    assert_eq!(pages, ["in plain JSON", &long]);

    let stored = annals.journal().replay(&id, Window::ALL);
    let stored: Vec<_> = stored.try_collect().await?;
    for event in &stored {
        println!("{}: {} bytes", event.data.codec, event.data.payload.len());
    }
    let codecs: Vec<_> = stored.iter().map(|e| e.data.codec.to_string()).collect();
    assert_eq!(codecs, ["json", "json+deflate"]);
    assert!(stored.iter().all(|event| event.data.payload.len() < 200));
    Ok(())
}
