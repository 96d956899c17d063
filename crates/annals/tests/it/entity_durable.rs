//! Durable values: revisions, deletions, concurrent writers and lost responses, on every layout with
//! durable state.

use std::sync::Arc;

use annals::entity::durable::{Effect, Entity, Executor, Handle, Region, delete, none, update};
use annals::entity::{AskError, Cx, EntitySettings, Stored};
use annals::items::Items;
use annals::memory::Memory;
use annals::store::Verb;
use annals::{Annals, Codec, ErrorKind, Payload, PersistenceId, Random};
use annals_jvm::AnyLayout;
use annals_testkit::faulty::{Faults, Faulty};
use annals_testkit::tck::{AKKA, ANNALS, J5IK2O, J5IK2O_SHARDED};
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Serialize, Deserialize, Stored)]
struct Cart {
    items: Vec<String>,
}

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("not in the cart. item=`{0}`")]
struct Missing(String);

impl Entity for Cart {
    const TYPE: &'static str = "Cart";
    type Error = Missing;

    fn tag(&self) -> String {
        format!("of-{}", self.items.len())
    }
}

struct Add(String);
struct Remove(&'static str);
struct Clear;
struct PanicInReply;

impl Handle<Add> for Cart {
    type Reply = usize;

    fn handle(&self, add: &Add, _: &Cx<'_>) -> Result<Effect<Self, usize>, Missing> {
        let mut items = self.items.clone();
        items.push(add.0.clone());
        Ok(update(Self { items }).reply(|cart| cart.items.len()))
    }
}

impl Handle<Remove> for Cart {
    type Reply = bool;

    fn handle(&self, remove: &Remove, _: &Cx<'_>) -> Result<Effect<Self, bool>, Missing> {
        let mut items = self.items.clone();
        items.retain(|item| item != remove.0);
        if items.len() == self.items.len() {
            return Err(Missing(remove.0.to_owned()));
        }
        Ok(update(Self { items }).reply(|_| true))
    }
}

impl Handle<Clear> for Cart {
    /// Whether it was new.
    type Reply = (bool, u64);

    fn handle(&self, _: &Clear, cx: &Cx<'_>) -> Result<Effect<Self, (bool, u64)>, Missing> {
        let was = (cx.is_new(), cx.sequence_number());
        Ok(delete().passivate().reply(move |_| was))
    }
}

impl Handle<PanicInReply> for Cart {
    type Reply = ();

    fn handle(&self, _: &PanicInReply, _: &Cx<'_>) -> Result<Effect<Self, ()>, Missing> {
        Ok(none().reply(|_| panic!("a reply that panics")))
    }
}

fn id(id: &str) -> PersistenceId {
    format!("Cart|{id}").parse().unwrap()
}

fn add(item: &str) -> Add {
    Add(item.to_owned())
}

async fn carts(annals: &Annals) -> (Region<Cart>, Executor<Cart>) {
    let region = annals.durable_region(EntitySettings::new().tries(100));
    let executor = annals.durable_executor(EntitySettings::new().tries(100));
    (region.unwrap(), executor.unwrap())
}

#[tokio::test]
async fn values_are_stored_on_every_layout_with_durable_state() {
    for variant in [ANNALS, J5IK2O, J5IK2O_SHARDED] {
        let items: Arc<dyn Items> = Arc::new(Memory::new());
        let annals = Annals::create(items, &*variant.on_default_tables())
            .await
            .unwrap();
        let (region, executor) = carts(&annals).await;
        assert_eq!(region.ask("1", add("a")).await.unwrap(), 1);
        assert_eq!(executor.ask("1", add("b")).await.unwrap(), 2);
        // The region's value is stale: the command is decided again with the newer one.
        assert_eq!(region.ask("1", add("c")).await.unwrap(), 3);
        let rejected = region.ask("1", Remove("z")).await;
        assert!(matches!(rejected, Err(AskError::Rejected(Missing(_)))));
        let kept = annals.states().unwrap().get(&id("1")).await.unwrap();
        let kept = kept.unwrap();
        assert_eq!((kept.revision, kept.tag.as_str()), (3, "of-3"));
        assert_eq!(region.ask("1", Clear).await.unwrap(), (false, 3));
        assert_eq!(region.resident(), 0, "it was passivated");
        assert_eq!(region.ask("1", Clear).await.unwrap(), (true, 4));
        let kept = annals.states().unwrap().last(&id("1")).await.unwrap();
        let kept = kept.map(|state| (state.revision, state.value));
        assert_eq!(kept, Some((4, None)), "deleting nothing writes nothing");
        assert_eq!(executor.ask("1", add("d")).await.unwrap(), 1);
        let items = region.view("1", |cart| cart.items.clone()).await.unwrap();
        assert_eq!(items, ["d"]);
    }
}

#[tokio::test]
async fn a_layout_without_durable_state_is_refused() {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let annals = Annals::create(items, &*AKKA.on_default_tables())
        .await
        .unwrap();
    let refused = annals.durable_region::<Cart>(EntitySettings::new());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hosts_lose_no_command() {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let mut hosts = Vec::new();
    for _ in 0..2 {
        let annals = Annals::create(items.clone(), &AnyLayout::default()).await;
        hosts.push(carts(&annals.unwrap()).await);
    }
    let tasks = (0..200usize).map(|n| {
        let (region, executor) = hosts[n % 2].clone();
        tokio::spawn(async move {
            let item = add(&n.to_string());
            match n % 5 {
                0 => executor.ask("1", item).await.is_ok(),
                _ => region.ask("1", item).await.is_ok(),
            }
        })
    });
    let mut acknowledged = Vec::new();
    for (n, done) in futures::future::join_all(tasks)
        .await
        .into_iter()
        .enumerate()
    {
        if done.unwrap() {
            acknowledged.push(n.to_string());
        }
    }
    let view = hosts[0].1.view("1", |cart| cart.items.clone());
    let mut items = view.await.unwrap();
    items.sort_unstable();
    acknowledged.sort_unstable();
    assert_eq!(items, acknowledged, "each item exactly once");
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());
}

#[tokio::test]
async fn an_unconfirmed_write_is_in_doubt_and_read_before_the_next_command() {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let store = Arc::new(Faulty::new(items, Random::seeded(1), Faults::none()));
    let annals = Annals::create(store.clone(), &AnyLayout::default()).await;
    let (region, _) = carts(&annals.unwrap()).await;
    region.ask("1", add("a")).await.unwrap();
    store.lose_next(Verb::Put, 1);
    let lost = region.ask("1", add("b")).await;
    let Err(AskError::InDoubt(error)) = lost else {
        panic!("{lost:?}")
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(
        region.ask("1", add("c")).await.unwrap(),
        3,
        "the write had succeeded"
    );
    store.crash();
    let down = region.ask("1", add("d")).await;
    assert!(matches!(down, Err(AskError::InDoubt(_))), "{down:?}");
    let down = region.ask("1", add("d")).await.unwrap_err();
    assert!(
        down.is_retryable(),
        "the value could not be read, so nothing was written"
    );
    store.revive();
    assert_eq!(region.ask("1", add("e")).await.unwrap(), 4);
}

#[tokio::test]
async fn an_unreadable_value_is_named_and_a_panic_costs_a_read() {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let annals = Annals::create(items, &AnyLayout::default()).await.unwrap();
    let (region, _) = carts(&annals).await;
    let strange = Payload::new(Codec::Json, "[]");
    let states = annals.states().unwrap();
    states.upsert(&id("1"), 1, strange).await.unwrap();
    let error = region.view("1", |_| ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("Cart|1"), "{error}");
    region.ask("2", add("a")).await.unwrap();
    let panicked = region.ask("2", PanicInReply).await;
    assert!(matches!(panicked, Err(AskError::Panicked)));
    assert_eq!(region.ask("2", add("b")).await.unwrap(), 2);
}
