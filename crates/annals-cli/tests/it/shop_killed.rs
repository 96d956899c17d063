//! The shop of the tutorial, killed again and again while clients fill carts and pay for them: in the
//! end, its list of open carts is the fold of the journal.
//!
//! Each process is killed only after its own view handled something, so that kills hit a view at work.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use annals::journal::Window;
use annals::{Annals as Library, Clock, PersistenceId, Random, SystemClock};
use futures::{StreamExt, TryStreamExt};
use reqwest::Client;
use serde_json::{Value as Json, json};

use crate::examples::Shop;
use crate::run::Annals;

const KILLS: u64 = 10;
const CLIENTS: u64 = 4;
/// Carts that are filled at the same time, by all clients.
const CARTS: u64 = 12;
/// Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the clients have done so far.
#[derive(Default)]
struct Done {
    /// Commands that were answered.
    answered: AtomicU64,
    /// Of those, items that were added by way of the list, so the view runs.
    listed: AtomicU64,
}

/// A client that knows one process.
#[derive(Clone)]
struct Shopper {
    http: Client,
    url: Arc<str>,
    done: Arc<Done>,
}

impl Shopper {
    fn new(url: &str, done: &Arc<Done>) -> Self {
        Self {
            http: Client::builder().timeout(PATIENCE).build().unwrap(),
            url: url.into(),
            done: done.clone(),
        }
    }

    /// `None`: the process is gone.
    async fn post(&self, path: &str, body: Json) -> Option<u16> {
        let request = self.http.post(format!("{}{path}", self.url));
        match request.json(&body).send().await {
            Ok(response) => Some(response.status().as_u16()),
            Err(error) if error.is_timeout() => panic!("{path} {body}: {error}"),
            Err(_) => None,
        }
    }

    /// Fills carts and pays for them until the process is gone. Older carts are left as they are.
    async fn shop(self, random: Random) {
        loop {
            let done = &self.done;
            let cart = done.answered.load(Ordering::Relaxed) / 10 + random.below(CARTS);
            let item = format!("{:04x}", random.bits() as u16);
            let kind = random.below(10);
            let status = match kind {
                0 => {
                    self.post("/carts", json!({"id": cart.to_string(), "item": item}))
                        .await
                }
                1 => {
                    self.post(&format!("/carts/{cart}/payment"), json!({"cents": 100}))
                        .await
                }
                _ => {
                    self.post(&format!("/carts/{cart}/items"), json!({"item": item}))
                        .await
                }
            };
            let Some(status) = status else { return };
            assert!([200, 422].contains(&status), "{status}");
            done.answered.fetch_add(1, Ordering::Relaxed);
            done.listed
                .fetch_add(u64::from(kind == 0 && status == 200), Ordering::Relaxed);
        }
    }

    async fn page(&self, after: Option<&str>) -> Json {
        // The only character of `next` that a URL cannot have.
        let after = after.map(|after| format!("&after={}", after.replace('\0', "%00")));
        let url = format!("{}/carts?limit=7{}", self.url, after.unwrap_or_default());
        let response = self.http.get(url).send().await.unwrap();
        serde_json::from_str(&response.text().await.unwrap()).unwrap()
    }

    /// All pages of the list, as it is now.
    async fn list(&self) -> Vec<(String, Vec<String>)> {
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = self.page(after.as_deref()).await;
            for cart in page["carts"].as_array().unwrap() {
                let items = serde_json::from_value(cart["items"].clone()).unwrap();
                listed.push((cart["id"].as_str().unwrap().to_owned(), items));
            }
            match page["next"].as_str() {
                Some(next) => after = Some(next.to_owned()),
                None => return listed,
            }
        }
    }
}

/// Shops with several clients, until a process has answered enough and listed something; then it is
/// killed in the middle of their requests.
async fn shop_and_kill(annals: &Annals, random: &Random, done: &Arc<Done>) {
    let shop = Shop::embedded(annals);
    let shopper = Shopper::new(&shop.url, done);
    let shoppers = (0..CLIENTS).map(|_| shopper.clone().shop(Random::seeded(random.bits())));
    let shoppers: Vec<_> = shoppers.map(tokio::spawn).collect();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (answered, listed) = (count(&done.answered), count(&done.listed));
    let (answered, listed) = (
        answered + 40 + random.below(80),
        listed + 1 + random.below(4),
    );
    let enough = async {
        while count(&done.answered) < answered || count(&done.listed) < listed {
            SystemClock::new().sleep(Duration::from_millis(1)).await;
        }
    };
    SystemClock::within(PATIENCE, enough)
        .await
        .expect("the view does not go on");
    drop(shop);
    for shopper in shoppers {
        shopper.await.unwrap();
    }
}

/// The open carts according to the events of each cart; and how many carts were paid.
async fn fold(annals: &Annals) -> (BTreeMap<String, Vec<String>>, usize) {
    let library = Library::embedded(annals.folder().join("annals-data"))
        .await
        .unwrap();
    let ids: Vec<PersistenceId> = library
        .journal()
        .persistence_ids("Cart|")
        .try_collect()
        .await
        .unwrap();
    let (mut open, mut paid) = (BTreeMap::new(), 0);
    for id in ids {
        let (mut items, mut is_paid) = (Vec::new(), false);
        let mut events = library.journal().replay(&id, Window::ALL);
        while let Some(event) = events.next().await {
            let event = event.unwrap().data;
            let content: Json = serde_json::from_slice(&event.payload).unwrap();
            match &*event.manifest {
                "Added" => items.push(content["item"].as_str().unwrap().to_owned()),
                "Paid" => is_paid = true,
                other => panic!("{other}"),
            }
        }
        paid += usize::from(is_paid);
        if !is_paid {
            open.insert(id.as_str().strip_prefix("Cart|").unwrap().to_owned(), items);
        }
    }
    (open, paid)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_of_open_carts_is_the_fold_of_the_journal_after_ten_kills() {
    let seed = std::env::var("ANNALS_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("ANNALS_SEED={seed}");
    let (annals, random) = (Annals::embedded(), Random::seeded(seed));
    let done = Arc::default();
    for _ in 0..KILLS {
        shop_and_kill(&annals, &random, &done).await;
    }
    let shop = Shop::embedded(&annals);
    let shopper = Shopper::new(&shop.url, &done);
    // It is answered when the view includes everything before it, too.
    let last = shopper
        .post("/carts", json!({"id": "last", "item": "bag"}))
        .await;
    assert_eq!(last, Some(200));
    let listed = shopper.list().await;
    drop(shop);

    let (open, paid) = fold(&annals).await;
    println!("{} open carts, {paid} paid", open.len());
    assert!(open.len() > 20 && paid > 10, "too little happened");
    let sizes: Vec<usize> = listed.iter().map(|(_, items)| items.len()).collect();
    assert!(
        sizes.iter().rev().is_sorted(),
        "the fullest first: {sizes:?}"
    );
    let by_id: BTreeMap<String, Vec<String>> = listed.iter().cloned().collect();
    assert_eq!(by_id.len(), listed.len(), "each cart is listed once");
    assert_eq!(by_id, open);
}
