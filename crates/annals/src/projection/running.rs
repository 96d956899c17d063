//! Starting a projection, and the handle of one that runs in this process.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::control::{Control, Program, Source, key_of};
use super::progress::Progress;
use super::record::Records;
use super::rows::Rows;
use super::runner::{Members, Runner};
use super::settings::{OnPoison, RunSettings};
use super::table::{self, BuildKey, SHARES_MAX};
use super::target::Target;
use super::view::View;
use super::worker::Work;
use crate::entity::{Entity, EntitySettings, EventReader};
use crate::feed::{Position, Reading};
use crate::journal::Journal;
use crate::{Error, Result};

/// Makes the target and the access to it, once it is known where its items are and how events are read.
type Make<A> = Box<dyn FnOnce(Records, EventReader) -> (Arc<dyn Target>, A) + Send>;

/// A projection that is about to start. [`Projections`](super::Projections) makes it.
///
/// See [`View`] for an example.
#[must_use = "nothing runs before `start` is called"]
pub struct Starting<A> {
    journal: Journal,
    make: Make<A>,
    reader: EventReader,
    shares: Option<u16>,
    from_now: bool,
    settings: RunSettings,
}

impl<A> fmt::Debug for Starting<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Starting")
            .field("shares", &self.shares)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl<A> Starting<A> {
    pub(super) fn new(
        journal: &Journal,
        make: impl FnOnce(Records, EventReader) -> (Arc<dyn Target>, A) + Send + 'static,
    ) -> Self {
        Self {
            journal: journal.clone(),
            make: Box::new(make),
            reader: EventReader::default(),
            shares: None,
            from_now: false,
            settings: RunSettings::default(),
        }
    }

    /// Into how many shares the ids are divided, 1 to 1,024; runners divide them among themselves. It is
    /// decided when a revision is started for the first time; 1 by default.
    ///
    /// More: more runners work at the same time. A row that gets events of ids in different shares sees
    /// them in another order than they were committed.
    pub fn shares(mut self, shares: u16) -> Self {
        self.shares = Some(shares);
        self
    }

    /// Begin at the end of the feed, if the projection is new. By default it begins at the start.
    pub fn from_now(mut self) -> Self {
        self.from_now = true;
        self
    }

    /// Read events with the adapters of an entity.
    pub fn adapters_of<E: Entity>(mut self, settings: &EntitySettings<E>) -> Self {
        self.reader = settings.event_reader().clone();
        self
    }

    /// What happens to an event that cannot be handled.
    pub fn on_poison(mut self, on_poison: OnPoison) -> Self {
        self.settings = self.settings.on_poison(on_poison);
        self
    }

    /// How it runs.
    pub fn settings(mut self, settings: RunSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Starts it in this process. Call it inside a tokio runtime. Other processes may run it as well:
    /// they divide the shares.
    ///
    /// # Errors
    /// `Invalid` if the store has no feed, the source wants nothing, or what is stored does not fit the
    /// code: another kind, source or number of shares under the same revision, or an older revision than
    /// the live one.
    pub async fn start(self) -> Result<Running<A>> {
        let records = Records {
            store: self.journal.store().clone(),
            table: Arc::new(table::spec()?),
        };
        let (target, access) = (self.make)(records.clone(), self.reader.clone());
        table::check_name(target.name())?;
        let source = target.source();
        let checked = source.check();
        checked.map_err(|error| error.fact("projection", target.name()))?;
        if let Some(shares) = self
            .shares
            .filter(|shares| !(1..=SHARES_MAX).contains(shares))
        {
            return Err(
                Error::invalid(format!("a projection has 1 to {SHARES_MAX} shares"))
                    .fact("shares", shares),
            );
        }
        let reading = Reading::new(&self.journal);
        let feed = reading.lanes()?;
        let shape = feed.shape().await?;
        let start = match self.from_now {
            true => reading.head().await?,
            false => shape.start(),
        };
        table::create_missing(&records.store, &records.table).await?;
        let program = Program {
            name: target.name().to_owned(),
            kind: target.kind(),
            revision: target.revision(),
            journal: reading.table()?,
            source: Source::of(&source),
            shares: self.shares,
            start,
        };
        Control::register(&records, &program).await?;
        let work = Arc::new(Work {
            store: records.store.clone(),
            journal: self.journal.clone(),
            feed,
            target,
            reader: self.reader,
            settings: self.settings,
            progress: Progress::default(),
        });
        let (stop, stopped) = watch::channel(false);
        let runner = Runner::new(records.clone(), work.clone(), stopped);
        Ok(Running {
            records,
            journal: self.journal,
            work,
            access,
            stop,
            task: tokio::spawn(runner.run()),
        })
    }
}

/// A projection that runs in this process. It stops when this is dropped; call [`stop`](Self::stop) to
/// wait until it has.
///
/// See [`View`] for an example.
#[must_use = "the projection stops when this is dropped"]
pub struct Running<A> {
    records: Records,
    journal: Journal,
    work: Arc<Work>,
    access: A,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl<A> fmt::Debug for Running<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("target", &self.work.target)
            .finish_non_exhaustive()
    }
}

impl<A> Running<A> {
    /// Waits until everything that was committed before this call is handled.
    ///
    /// # Errors
    /// Those of the store. It waits as long as a share is stopped or has no owner.
    pub async fn caught_up(&self) -> Result<()> {
        let head = Reading::new(&self.journal).head().await?;
        self.build_with(&head).await.map(drop)
    }

    /// Waits until everything up to a position is handled, in every share.
    ///
    /// # Errors
    /// As [`caught_up`](Self::caught_up); `Invalid` if the position is of another store's feed, or after
    /// the end of this one.
    pub async fn reached(&self, position: &Position) -> Result<()> {
        let position = self.locate(position).await?;
        self.build_with(&position).await.map(drop)
    }

    /// The position in the current generation.
    ///
    /// # Errors
    /// `Invalid` if no share can reach it, or only by events that nobody waits for.
    async fn locate(&self, position: &Position) -> Result<Position> {
        let feed = Reading::new(&self.journal);
        let located = feed.locate(position).await?;
        let head = feed.head().await?;
        match head.includes(&located) {
            true => Ok(located),
            false => Err(Error::invalid(
                "the position is after the end of the feed; use one that this store returned",
            )
            .fact("position", position)
            .fact("end", head)),
        }
    }

    /// Waits until everything up to a position is handled; returns the build that has it.
    async fn build_with(&self, position: &Position) -> Result<BuildKey> {
        loop {
            let moved = self.work.progress.moved();
            tokio::pin!(moved);
            // Registers before the positions are read.
            moved.as_mut().enable();
            if let Some(build) = self.reached_build(position).await? {
                return Ok(build);
            }
            let clock = self.records.store.clock();
            tokio::select! {
                () = moved => {}
                // Shares of other processes move without notice.
                () = clock.passes(self.work.settings.tick().min(Duration::from_millis(250))) => {}
            }
        }
    }

    /// The build that programs of this revision read, if it includes everything up to a position.
    async fn reached_build(&self, position: &Position) -> Result<Option<BuildKey>> {
        let target = &self.work.target;
        let control = Control::load(&self.records, target.name()).await?;
        let build = control
            .as_ref()
            .and_then(|control| control.read_by(target.revision()));
        let Some(build) = build else {
            return Ok(None);
        };
        let key = key_of(target.name(), build);
        let includes = |at: Option<&Position>| at.is_some_and(|at| at.includes(position));
        let here = |share| includes(self.work.progress.get((build.number, share)).as_ref());
        if (0..build.shares).all(here) {
            return Ok(Some(key));
        }
        let members = Members::load(&self.records, &key).await?;
        let saved = |share: u16| {
            let found = members.shares.get(&share);
            includes(found.and_then(|found| found.content.at.as_ref()))
        };
        let has_all = (0..build.shares).all(|share| here(share) || saved(share));
        Ok(has_all.then_some(key))
    }

    /// Stops after the current batches, and releases the shares for others.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        // A panic of the runner was reported when it happened.
        drop(self.task.await);
    }
}

impl<V: View> Running<Rows<V>> {
    /// Gets a row that includes everything up to a position, such as
    /// [`Region::ask_at`](crate::entity::Region::ask_at) returns: what the caller just wrote.
    ///
    /// # Errors
    /// As [`reached`](Self::reached) and [`Rows::get`].
    pub async fn get_after(&self, position: &Position, key: &str) -> Result<Option<V::Row>> {
        let position = &self.locate(position).await?;
        // Another build may be live by now.
        let build = self.build_with(position).await?;
        self.access.get_in(&build, key).await
    }

    /// The rows.
    pub fn rows(&self) -> &Rows<V> {
        &self.access
    }
}

impl<V> Deref for Running<Rows<V>> {
    type Target = Rows<V>;

    fn deref(&self) -> &Rows<V> {
        &self.access
    }
}

impl<H> Running<Arc<H>> {
    /// The handler.
    pub fn handler(&self) -> &H {
        &self.access
    }
}
