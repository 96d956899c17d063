//! The properties of journals, snapshots, durable state and the log on every layout and store: those
//! of Akka's and Pekko's technology compatibility kits, and ours.
//!
//! Each check creates its own tables and drops them. A failure is a panic that names the property. No
//! check measures time.
#![allow(
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a test suite: a panic is how a check fails"
)]

pub mod aftermath;
mod akka;
mod feed;
mod journal;
mod log;
pub mod record;
mod snapshot;
mod state;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::store;
use annals::items::{Items, TableName};
use annals::journal::Journal;
use annals::layout::{AnnalsLayout, Layout, TableNames};
use annals::store::Store;
use annals::{Clock, Codec, Error, ManualClock, Payload, Random};
use annals_jvm::AnyLayout;
use annals_jvm::LayoutName;
use annals_jvm::settings::{PartitionKeyKind, SortKeyKind, StoredRevision};

/// One property, by name.
///
/// ```
/// use annals::memory::Memory;
/// use annals_testkit::tck::{ANNALS, LISTS};
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let property = LISTS[0].properties.first().expect("there are some");
/// assert!(property.name.starts_with("j1"), "{}", property.name);
/// property.check(Arc::new(Memory::new()), ANNALS).await; // panics if it fails
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Property {
    /// The property's name.
    pub name: &'static str,
    act: fn(Setup) -> BoxFuture<'static, ()>,
}

impl Property {
    /// Checks this property.
    ///
    /// # Panics
    /// If it does not hold, after its tables are dropped.
    pub async fn check(&self, items: Arc<dyn Items>, variant: Variant) {
        let setup = Setup::new(items, variant).await;
        let setup = setup.expect("tables for a property");
        let acting = AssertUnwindSafe((self.act)(setup.clone()));
        let ended = acting.catch_unwind().await;
        let dropped = setup.drop_tables().await;
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
        dropped.expect("the property's tables are dropped");
    }
}

/// A layout to be checked, with its settings and what they allow.
///
/// ```
/// use annals_testkit::tck::{AKKA, Variant};
///
/// assert_eq!((AKKA.name, AKKA.on_default_tables().name()), ("akka", "akka"));
///
/// // A layout of your own:
/// use annals::layout::AnnalsLayout;
/// let mine = Variant::new("mine", |tables| std::sync::Arc::new(AnnalsLayout::new(tables)));
/// assert_eq!(mine.on_default_tables().name(), "annals");
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Variant {
    /// The name of the layout and the variant.
    pub name: &'static str,
    /// The layout, with tables of these names.
    pub layout: fn(TableNames) -> Arc<dyn Layout>,
    /// The size of a large snapshot, in bytes.
    pub large_snapshot: usize,
    /// The size of a large durable state, in bytes.
    pub large_state: usize,
    /// Whether every text can be an id. If not, `Invalid` is the right answer to some.
    pub takes_every_id: bool,
}

impl Variant {
    /// A layout that splits large values into several items and takes every id.
    pub const fn new(name: &'static str, layout: fn(TableNames) -> Arc<dyn Layout>) -> Self {
        Self {
            name,
            layout,
            large_snapshot: 1_200_000,
            large_state: 1_200_000,
            takes_every_id: true,
        }
    }

    /// The layout, with its own names for its tables.
    pub fn on_default_tables(&self) -> Arc<dyn Layout> {
        (self.layout)(TableNames::default())
    }
}

/// Our own.
pub const ANNALS: Variant = Variant::new("annals", |tables| Arc::new(AnnalsLayout::new(tables)));
/// The tables of akka-persistence-dynamodb 1.x. A snapshot is one item, which an index repeats.
pub const AKKA: Variant = Variant {
    large_snapshot: 192_000,
    ..Variant::new("akka", |tables| Arc::new(named(LayoutName::Akka, tables)))
};
/// j5ik2o's tables, with an id in one partition, in order. A value is one item.
pub const J5IK2O: Variant = Variant {
    takes_every_id: false,
    ..j5ik2o("j5ik2o", |tables| {
        Arc::new(named(LayoutName::J5ik2o, tables))
    })
};
/// j5ik2o's tables, with an id spread over many partitions: only the index, which lags, has it in
/// order.
pub const J5IK2O_SHARDED: Variant = j5ik2o("j5ik2o-sharded", |tables| {
    let mut settings = named(LayoutName::J5ik2o, tables);
    let journal = &mut settings.j5ik2o.dynamo_db_journal;
    journal.partition_key_resolver_class_name = PartitionKeyKind::SequenceNumberBased;
    journal.sort_key_resolver_class_name = SortKeyKind::SeqNr;
    journal.soft_delete = false;
    let snapshot = &mut settings.j5ik2o.dynamo_db_snapshot;
    snapshot.partition_key_resolver_class_name = PartitionKeyKind::SequenceNumberBased;
    snapshot.sort_key_resolver_class_name = SortKeyKind::SeqNr;
    settings.j5ik2o.dynamo_db_state.stored_revision = StoredRevision::V1;
    Arc::new(settings)
});

const fn j5ik2o(name: &'static str, layout: fn(TableNames) -> Arc<dyn Layout>) -> Variant {
    Variant {
        large_snapshot: 384_000,
        large_state: 384_000,
        ..Variant::new(name, layout)
    }
}

fn named(layout: LayoutName, tables: TableNames) -> AnyLayout {
    AnyLayout {
        layout,
        journal_table: tables.journal,
        snapshot_table: tables.snapshot,
        state_table: tables.state.filter(|_| layout != LayoutName::Akka),
        ..AnyLayout::default()
    }
}

/// A list of properties, and the layouts that must have them.
///
/// ```
/// use annals_testkit::tck::LISTS;
///
/// let states = LISTS.iter().find(|list| list.name == "state").expect("there is one");
/// assert!(states.variants.iter().all(|variant| variant.name != "akka"), "no durable state");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct List {
    /// The name of the list.
    pub name: &'static str,
    /// The layouts on which they must hold.
    pub variants: &'static [Variant],
    /// The properties.
    pub properties: &'static [Property],
}

/// The list that needs a store with changes.
const FEED: &str = "feed";

const ALL: &[Variant] = &[ANNALS, AKKA, J5IK2O, J5IK2O_SHARDED];

/// All lists. Tests of a store run all of them.
#[rustfmt::skip]
pub const LISTS: &[List] = &[
    List { name: "journal", variants: ALL, properties: journal::PROPERTIES },
    List { name: "snapshot", variants: ALL, properties: snapshot::PROPERTIES },
    List { name: "plugin", variants: &[AKKA], properties: akka::PROPERTIES },
    List { name: "failures", variants: ALL, properties: akka::failures::PROPERTIES },
    List { name: "state", variants: &[ANNALS, J5IK2O, J5IK2O_SHARDED], properties: state::PROPERTIES },
    List { name: "log", variants: &[ANNALS], properties: log::storing::PROPERTIES },
    List { name: "playback", variants: &[ANNALS], properties: log::playing::PROPERTIES },
    List { name: FEED, variants: ALL, properties: feed::PROPERTIES },
];

/// One property on one layout: a test for every store.
///
/// ```
/// use annals::memory::Memory;
/// use annals_testkit::tck::cases;
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let case = cases().find(|case| case.variant.name == "akka").expect("there are some");
/// assert!(case.name_on("memory").starts_with("akka::memory::journal::j1"));
/// case.check(Arc::new(Memory::new())).await; // panics if it fails
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The layout.
    pub variant: Variant,
    /// The name of its list.
    pub list: &'static str,
    /// The property.
    pub property: Property,
}

impl Case {
    /// Checks it on a store.
    ///
    /// # Panics
    /// If it does not hold.
    pub async fn check(&self, items: Arc<dyn Items>) {
        self.property.check(items, self.variant).await;
    }

    /// Whether it can only be checked on a store that keeps its changes
    /// ([`Items::changes`]). Tests of other stores ignore it.
    pub fn needs_changes(&self) -> bool {
        self.list == FEED
    }

    /// The name of its test: `akka::memory::journal::j1_replays_all_events`.
    pub fn name_on(&self, store: &str) -> String {
        let (variant, list, property) = (self.variant.name, self.list, self.property.name);
        format!("{variant}::{store}::{list}::{property}")
    }
}

/// Every property of every list, on each of the list's layouts.
pub fn cases() -> impl Iterator<Item = Case> {
    LISTS.iter().flat_map(|list| {
        list.variants.iter().flat_map(move |&variant| {
            list.properties.iter().map(move |&property| Case {
                variant,
                list: list.name,
                property,
            })
        })
    })
}

/// The setup of a check: a store, a layout, its own tables and clock.
///
/// ```
/// use annals::memory::Memory;
/// use annals_testkit::tck::{ANNALS, Setup};
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let setup = Setup::new(Arc::new(Memory::new()), ANNALS).await?;
/// let journal = setup.journal().await;
/// assert_eq!(journal.highest(&"Cart|42".parse()?).await?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Setup {
    /// The store.
    pub items: Arc<dyn Items>,
    /// What is checked.
    pub variant: Variant,
    /// The layout, with its own tables.
    pub layout: Arc<dyn Layout>,
    /// A manual clock.
    pub clock: Arc<ManualClock>,
    /// Randomness from a fixed seed.
    pub random: Random,
}

impl Setup {
    /// Creates tables with unique names.
    pub async fn new(items: Arc<dyn Items>, variant: Variant) -> Result<Self, Error> {
        // Through the handle, which adds context to errors.
        let items = Store::from_items(items).items().clone();
        let unique = Random::from_machine().bits();
        let name = |what: &str| -> Result<TableName, Error> {
            format!("annals-tck-{what}-{unique:016x}").parse()
        };
        let names = TableNames::default()
            .journal(name("journal")?)
            .snapshot(name("snapshot")?)
            .state(name("state")?);
        let layout = (variant.layout)(names);
        for table in layout.tables()?.all() {
            items.create_table(table, Default::default()).await?;
        }
        Ok(Self {
            items,
            variant,
            layout,
            clock: Arc::new(ManualClock::at_ms(1_700_000_000_000)),
            random: Random::seeded(1),
        })
    }

    /// The store, as a new process opens it.
    pub fn store(&self) -> Store {
        let clock: Arc<dyn Clock> = self.clock.clone();
        store(self.items.clone(), clock, self.random.clone())
    }

    /// A journal of a new process.
    pub async fn journal(&self) -> Journal {
        let opened = self.layout.journal(&self.store()).await;
        opened.expect("the journal opens")
    }

    async fn drop_tables(&self) -> Result<(), Error> {
        for table in self.layout.tables()?.all() {
            self.items.drop_table(table.name()).await?;
        }
        Ok(())
    }
}

/// Checks every property of a list on a store and a layout.
///
/// ```
/// use annals::memory::Memory;
/// use annals_testkit::tck;
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// tck::run(tck::LISTS[0].properties, Arc::new(Memory::new()), tck::ANNALS).await;
/// # }
/// ```
///
/// # Panics
/// If any does not hold, after all were checked, with a line for each.
pub async fn run(properties: &[Property], items: Arc<dyn Items>, variant: Variant) {
    let mut failures = Vec::new();
    for property in properties {
        let check = AssertUnwindSafe(property.check(items.clone(), variant));
        if let Err(panic) = check.catch_unwind().await {
            failures.push(format!(
                "{}: {}",
                property.name,
                crate::conformance::message_of(&*panic)
            ));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {} properties do not hold:\n{}",
        failures.len(),
        properties.len(),
        failures.join("\n")
    );
}

/// Random bytes, which cannot be compressed.
fn random_bytes(bytes: usize, seed: u64) -> Payload {
    let random = Random::seeded(seed);
    let words = (0..bytes / 8).flat_map(|_| random.bits().to_le_bytes());
    Payload::new(Codec::Bytes, words.collect::<Vec<u8>>())
}

macro_rules! properties {
    ($($name:ident,)+) => {
        /// The properties.
        pub(crate) const PROPERTIES: &[crate::tck::Property] = &[$(crate::tck::Property {
            name: stringify!($name),
            act: |setup| Box::pin($name(setup)),
        },)+];
    };
}

pub(crate) use properties;
