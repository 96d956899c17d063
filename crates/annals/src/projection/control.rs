//! The control record of a projection: whether it runs, and its builds.
//!
//! A build is one run over the feed from its start, with its own rows and positions. A new revision of
//! the code, or a rebuild, adds a build beside the live one. A switch makes it live; the one before it is
//! retired, and its rows are dropped later.
//!
//! Guarantees: at most one build is live. What is decided once for a build never changes: revision,
//! source, shares, generation of the feed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::record::Records;
use super::table::{self, BuildKey};
use super::target::Kind;
use crate::feed::{Filter, Position};
use crate::items::{Query, SortRange};
use crate::{Error, Result};
use futures::TryStreamExt;

/// The control record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Control {
    pub(super) kind: Kind,
    /// The journal's table: a projection belongs to one journal.
    pub(super) journal: String,
    pub(super) is_paused: bool,
    /// By number.
    pub(super) builds: Vec<Build>,
    /// What operators asked the shares to do with dead letters, by number.
    #[serde(default)]
    pub(super) requests: Vec<Request>,
}

/// A build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Build {
    pub(super) number: u32,
    /// The revision of the code that makes it.
    pub(super) revision: u32,
    pub(super) stage: Stage,
    pub(super) shares: u16,
    pub(super) source: Source,
    /// Where it began.
    pub(super) start: Position,
    pub(super) created_ms: u64,
}

/// Which events a build wants, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Source {
    categories: Vec<String>,
    prefix: String,
    tags: Vec<String>,
    slices: Option<(u16, u16)>,
}

impl Source {
    pub(super) fn of(filter: &Filter) -> Self {
        Self {
            categories: filter.categories.clone(),
            prefix: filter.prefix.clone(),
            tags: filter.tags.clone(),
            slices: filter
                .slices
                .as_ref()
                .map(|slices| (*slices.start(), *slices.end())),
        }
    }

    pub(super) fn filter(&self) -> Filter {
        let mut filter = Filter::new().prefix(self.prefix.as_str());
        filter.categories.clone_from(&self.categories);
        filter.tags.clone_from(&self.tags);
        filter.slices = self.slices.map(|(first, last)| first..=last);
        filter
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = serde_json::to_string(self).unwrap_or_default();
        f.write_str(&text)
    }
}

/// What a build is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Stage {
    /// It is made beside the live one.
    Building,
    /// Its rows are the projection.
    Live,
    /// Another one is live. Its rows are dropped some time after this.
    Retired { since_ms: u64 },
    /// Its rows are being dropped.
    Dropping,
}

impl Stage {
    /// Whether events are needed for it: its rows are the projection, or will be.
    pub(super) fn needs_events(self) -> bool {
        matches!(self, Self::Building | Self::Live)
    }
}

/// What an operator wants done with dead letters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) number: u64,
    /// Only those of this id.
    pub(super) id: Option<String>,
    pub(super) action: Action,
}

/// What can be done with dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Action {
    /// Handle them again, in order.
    Retry,
    /// Give them up.
    Discard,
}

/// How many requests are kept.
const REQUESTS_MAX: usize = 50;

/// What a program runs.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) revision: u32,
    pub(super) journal: String,
    pub(super) source: Source,
    /// The shares of a new build; `None`: as many as an existing one has.
    pub(super) shares: Option<u16>,
    pub(super) start: Position,
}

impl Control {
    pub(super) async fn load(records: &Records, name: &str) -> Result<Option<Self>> {
        let found = records.get(table::control(name)).await?;
        Ok(found.map(|found| found.content))
    }

    /// All projections, by name.
    pub(super) async fn list(records: &Records) -> Result<Vec<(String, Self)>> {
        let query = Query::of(table::CONTROLS).within(SortRange::All);
        let mut items = records.store.query_all(&records.table, query);
        let mut found = Vec::new();
        while let Some(item) = items.try_next().await? {
            let name = item.text("n").unwrap_or_default().to_owned();
            let control = super::record::Versioned::from_item(&item)?;
            found.push((name, control.content));
        }
        Ok(found)
    }

    /// Changes the record of a projection. `false`: there is none.
    pub(super) async fn change(
        records: &Records,
        name: &str,
        mut change: impl FnMut(&mut Self) -> Result<()> + Send,
    ) -> Result<bool> {
        let key = table::control(name);
        let mut exists = false;
        let changed = records.update(key, |found: Option<Self>| {
            exists = found.is_some();
            let Some(before) = found else { return Ok(None) };
            let mut control = before.clone();
            change(&mut control)?;
            Ok((control != before).then_some(control))
        });
        changed.await?;
        Ok(exists)
    }

    /// Registers a program: adds a build if none has its revision. Returns the record.
    ///
    /// # Errors
    /// `Invalid` if the record does not fit the program.
    pub(super) async fn register(records: &Records, program: &Program) -> Result<Self> {
        let now_ms = records.store.clock().now_ms();
        let key = table::control(&program.name);
        let mut registered = None;
        let update = records.update(key, |found: Option<Self>| {
            let before = found.clone();
            let mut control = found.unwrap_or_else(|| Self::new(program));
            control.check(program)?;
            if !control.has_build_of(program)? {
                control.add_build(program, now_ms);
            }
            registered = Some(control.clone());
            Ok(Some(control).filter(|control| before.as_ref() != Some(control)))
        });
        update.await?;
        // `decide` is called at least once.
        registered.ok_or_else(|| Error::unavailable("the projection was not registered; retry"))
    }

    fn new(program: &Program) -> Self {
        Self {
            kind: program.kind,
            journal: program.journal.clone(),
            is_paused: false,
            builds: Vec::new(),
            requests: Vec::new(),
        }
    }

    fn check(&self, program: &Program) -> Result<()> {
        let refuse = |what: &str, found: &dyn std::fmt::Display| {
            Err(Error::invalid(what)
                .fact("projection", &program.name)
                .fact("found", found))
        };
        if self.kind != program.kind {
            return refuse(
                "a projection of this name is of another kind; choose another name",
                &self.kind,
            );
        }
        if self.journal != program.journal {
            return refuse(
                "a projection of this name reads another journal; choose another name",
                &self.journal,
            );
        }
        Ok(())
    }

    /// Whether a build has the program's revision.
    fn has_build_of(&self, program: &Program) -> Result<bool> {
        let fact = |what: &str| Error::invalid(what).fact("projection", &program.name);
        let Some(build) = self.builds_of(program.revision).last() else {
            let newest = self.live().map_or(0, |live| live.revision);
            return match program.revision > newest {
                true => Ok(false),
                false => Err(fact(
                    "a newer revision of this projection is live; deploy the newer code, or raise its revision",
                )
                .fact("revision", program.revision)
                .fact("live", newest)),
            };
        };
        if build.source != program.source {
            return Err(fact(
                "the source of this projection changed; raise its revision, so that it is built anew",
            )
            .fact("revision", program.revision)
            .fact("was", &build.source)
            .fact("is", &program.source));
        }
        match program.shares {
            Some(shares) if shares != build.shares => Err(fact(
                "the number of shares changed; keep it, or raise the revision, so that it is built anew",
            )
            .fact("revision", program.revision)
            .fact("was", build.shares)
            .fact("is", shares)),
            _ => Ok(true),
        }
    }

    fn add_build(&mut self, program: &Program, now_ms: u64) {
        let stage = match self.builds.is_empty() {
            true => Stage::Live,
            false => Stage::Building,
        };
        self.builds.push(Build {
            number: self.next_number(),
            revision: program.revision,
            stage,
            shares: program.shares.unwrap_or(1),
            source: program.source.clone(),
            start: program.start.clone(),
            created_ms: now_ms,
        });
    }

    fn next_number(&self) -> u32 {
        self.builds.last().map_or(1, |last| last.number + 1)
    }

    pub(super) fn live(&self) -> Option<&Build> {
        self.builds.iter().find(|build| build.stage == Stage::Live)
    }

    pub(super) fn building(&self) -> Option<&Build> {
        let mut newest = self.builds.iter().rev();
        newest.find(|build| build.stage == Stage::Building)
    }

    /// The builds of a revision that are not being dropped, by number.
    pub(super) fn builds_of(&self, revision: u32) -> impl Iterator<Item = &Build> {
        let builds = self.builds.iter();
        builds.filter(move |build| build.revision == revision && build.stage != Stage::Dropping)
    }

    /// The build whose rows a program of this revision reads: the live one if it is of this revision,
    /// or else the newest one that is.
    pub(super) fn read_by(&self, revision: u32) -> Option<&Build> {
        let live = self.live().filter(|live| live.revision == revision);
        live.or_else(|| self.builds_of(revision).last())
    }

    /// Adds a build beside the live one, with the live one's revision and source.
    ///
    /// # Errors
    /// `Invalid` if one is being built, or the projection cannot be rebuilt.
    pub(super) fn rebuild(&mut self, start: Position, now_ms: u64) -> Result<u32> {
        if self.kind != Kind::View {
            return Err(Error::invalid(
                "only views are rebuilt from here: a handler would repeat its effects. raise the revision in the code",
            )
            .fact("kind", self.kind));
        }
        if let Some(building) = self.building() {
            return Err(Error::invalid(
                "a build is being made already; switch to it, or wait until it has caught up",
            )
            .fact("build", building.number));
        }
        let number = self.next_number();
        let live = self
            .live()
            .ok_or_else(|| Error::invalid("nothing is live yet"))?;
        let build = Build {
            number,
            stage: Stage::Building,
            start,
            created_ms: now_ms,
            ..live.clone()
        };
        self.builds.push(build);
        Ok(number)
    }

    /// Makes the newest build live.
    ///
    /// # Errors
    /// `Invalid` if none is being made, or another one than expected.
    pub(super) fn switch(&mut self, to: u32, now_ms: u64) -> Result<()> {
        let is_building = self.building().is_some_and(|build| build.number == to);
        if !is_building {
            return Err(Error::invalid("this build is not being made any more").fact("build", to));
        }
        for build in &mut self.builds {
            build.stage = match build.stage {
                Stage::Live => Stage::Retired { since_ms: now_ms },
                // An older one that was never live.
                Stage::Building if build.number < to => Stage::Retired { since_ms: now_ms },
                Stage::Building if build.number == to => Stage::Live,
                stage => stage,
            };
        }
        Ok(())
    }

    /// Marks retired builds for dropping, if they were retired so long ago.
    pub(super) fn drop_retired(&mut self, keep: Duration, now_ms: u64) -> bool {
        let keep_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        let mut has_changed = false;
        for build in &mut self.builds {
            if let Stage::Retired { since_ms } = build.stage
                && now_ms.saturating_sub(since_ms) >= keep_ms
            {
                build.stage = Stage::Dropping;
                has_changed = true;
            }
        }
        has_changed
    }

    pub(super) fn request(&mut self, id: Option<String>, action: Action) {
        let number = self.requests.last().map_or(1, |last| last.number + 1);
        self.requests.push(Request { number, id, action });
        let excess = self.requests.len().saturating_sub(REQUESTS_MAX);
        self.requests.drain(..excess);
    }
}

/// The key of a build's items.
pub(super) fn key_of(name: &str, build: &Build) -> BuildKey {
    BuildKey::new(name, build.number)
}
