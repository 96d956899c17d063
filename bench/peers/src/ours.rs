//! The journal on the embedded store.

use std::path::Path;

use annals::Annals;
use annals::journal::{Append as Events, Expected, Journal};
use annals::{Codec, NewEvent, SequenceNumber};

use crate::Result;
use crate::writer::{Append, Appending, Writer};

pub(crate) struct Ours(Annals);

impl Ours {
    pub(crate) async fn open(folder: &Path) -> Result<Self> {
        Ok(Self(Annals::embedded(folder).await?))
    }

    pub(crate) fn annals(&self) -> &Annals {
        &self.0
    }

    pub(crate) fn journal(&self) -> &Journal {
        self.0.journal()
    }
}

impl Writer for Ours {
    fn name(&self) -> &'static str {
        "annals"
    }

    fn append(&self, append: Append) -> Appending {
        let journal = self.0.journal().clone();
        Box::pin(async move {
            let id = append.id.parse()?;
            let expected = match SequenceNumber::new(append.after) {
                None => Expected::Empty,
                Some(last) => Expected::Last(last),
            };
            let event = || NewEvent::new(Codec::Json, append.payload.clone());
            let events: Vec<NewEvent> = (0..append.events).map(|_| event()).collect();
            journal.append(&id, expected, Events::of(events)).await?;
            Ok(())
        })
    }
}
