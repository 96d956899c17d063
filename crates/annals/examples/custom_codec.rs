//! A custom codec that compresses another one: `cargo run -p annals --example custom_codec`.
//!
//! It stores its own codec name with the bytes, and still reads payloads from before the compression.

use std::io::{Read, Write};

use annals::entity::codec::{Json, ValueCodec};
use annals::entity::{Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Stored, persist};
use annals::journal::{Expected, Window};
use annals::{Annals, Codec, Error, NewEvent, Payload, Result};
use bytes::Bytes;
use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

/// Compresses the bytes of another codec with deflate.
struct Deflate<C>(C);

/// The limit of the decompressed size.
const BYTES_MAX: u64 = 16 << 20;

impl<T, C: ValueCodec<T>> ValueCodec<T> for Deflate<C> {
    fn codec() -> Codec {
        Codec::Other(format!("{}+deflate", C::codec()))
    }

    fn write(value: &T) -> Result<Bytes> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        let written = encoder.write_all(&C::write(value)?);
        let bytes = written.and_then(|()| encoder.finish());
        let bytes = bytes.map_err(|cause| Error::invalid("compression failed").because(cause))?;
        Ok(bytes.into())
    }

    fn read(payload: &Payload) -> Result<T> {
        if payload.codec != Self::codec() {
            return C::read(payload);
        }
        let mut bytes = Vec::new();
        let mut decoder = DeflateDecoder::new(payload.bytes.as_ref()).take(BYTES_MAX);
        let read = decoder.read_to_end(&mut bytes);
        read.map_err(|cause| Error::corrupt("decompression failed").because(cause))?;
        C::read(&Payload::new(C::codec(), bytes))
    }
}

#[derive(Default, Serialize, Deserialize, Stored)]
#[stored(format = Deflate<Json>)]
struct Diary {
    pages: Vec<String>,
}

#[derive(EntityEvent)]
#[event(entity = Diary, format = Deflate<Json>)]
enum DiaryEvent {
    Written(String),
}

impl Entity for Diary {
    const TYPE: &'static str = "Diary";
    type Event = DiaryEvent;
    type Error = std::convert::Infallible;

    fn apply(&mut self, event: &DiaryEvent) {
        let DiaryEvent::Written(page) = event;
        self.pages.push(page.clone());
    }
}

struct WritePage(String);

impl Handle<WritePage> for Diary {
    type Reply = ();

    fn handle(&self, page: &WritePage, _: &Cx<'_>) -> Result<Effect<Self, ()>, Self::Error> {
        Ok(persist(DiaryEvent::Written(page.0.clone())))
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
