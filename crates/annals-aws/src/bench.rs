//! What our client costs over the bare SDK: both put the same items into the same table of the
//! same server, taking turns, so that what slows the machine slows both.
//!
//! Promises: every put is a conditional one of a new key, as an append makes it, and the table is
//! dropped afterwards. Both send the same request, so the ratio is that of the clients. Against a
//! bare put that asks for neither the consumed capacity nor the item that is there, ours came to
//! 0.72 to 0.95 on DynamoDB Local, which works longer for such an answer. On AWS nobody measured.
//! Never: compares figures of two runs.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use annals::items::{Condition, Item, Items, KeyAttribute, KeySchema, TableName, TableSpec};
use annals::{Clock, Error, Result};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{
    AttributeValue, ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure,
};
use bytes::Bytes;
use tokio::task::JoinSet;

use crate::client::DynamoDb;
use crate::error::{Verdict, verdict_of};

/// How much to measure.
///
/// ```
/// use annals_aws::DynamoDb;
/// use annals_aws::bench::{Load, compare};
/// use std::sync::Arc;
///
/// /// A short look: one counted round.
/// async fn look(store: &Arc<DynamoDb>) -> annals::Result<f64> {
///     let load = Load { rounds: 1, ..Load::default() };
///     let comparison = compare(store, "annals-bench".parse()?, load).await?;
///     Ok(comparison.ratio())
/// }
/// # assert_eq!(Load::default().puts, 2_500);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// How often each client has its turn.
    pub rounds: u32,
    /// How many puts each client makes in a turn.
    pub puts: u32,
    /// How many of them are under way at once.
    pub tasks: u32,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            rounds: 9,
            puts: 2_500,
            tasks: 50,
        }
    }
}

/// One turn of each client, in puts per second.
///
/// ```
/// use annals_aws::bench::Round;
///
/// let round = Round { bare_per_sec: 1_000.0, ours_per_sec: 950.0 };
/// assert_eq!(round.ratio(), 0.95);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// The bare SDK, configured as it comes.
    pub bare_per_sec: f64,
    /// [`DynamoDb`].
    pub ours_per_sec: f64,
}

impl Round {
    /// Ours over bare.
    pub fn ratio(&self) -> f64 {
        self.ours_per_sec / self.bare_per_sec
    }
}

/// What was measured.
///
/// ```
/// use annals_aws::bench::{Comparison, Round};
///
/// let round = |ours_per_sec| Round { bare_per_sec: 100.0, ours_per_sec };
/// let comparison = Comparison { rounds: vec![round(90.0), round(10.0), round(98.0)] };
/// assert_eq!(comparison.ours_per_sec(), 90.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Every round, in order.
    pub rounds: Vec<Round>,
}

impl Comparison {
    /// The median of the bare SDK's puts per second.
    pub fn bare_per_sec(&self) -> f64 {
        self.median(|round| round.bare_per_sec)
    }

    /// The median of our puts per second.
    pub fn ours_per_sec(&self) -> f64 {
        self.median(|round| round.ours_per_sec)
    }

    /// The median of the rounds' ratios of ours over bare: at 1 our client costs nothing.
    ///
    /// ```
    /// use annals_aws::bench::{Comparison, Round};
    ///
    /// let round = |ours_per_sec| Round { bare_per_sec: 100.0, ours_per_sec };
    /// let comparison = Comparison { rounds: vec![round(90.0), round(10.0), round(98.0)] };
    /// assert_eq!(comparison.ratio(), 0.9);
    /// ```
    pub fn ratio(&self) -> f64 {
        self.median(Round::ratio)
    }

    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        let mut each: Vec<f64> = self.rounds.iter().map(of).collect();
        each.sort_unstable_by(f64::total_cmp);
        each.get(each.len() / 2).copied().unwrap_or(0.0)
    }
}

/// Puts items of 1 KB through the bare SDK and through `store`, in turns, into the table `name`,
/// which it creates and drops. Whoever cuts it short drops that table.
///
/// # Errors
/// `Invalid` where the load is empty, `Conflict` where there is such a table; otherwise as the
/// puts fail.
pub async fn compare(store: &Arc<DynamoDb>, name: TableName, load: Load) -> Result<Comparison> {
    if load.rounds == 0 || load.puts == 0 || load.tasks == 0 {
        return Err(Error::invalid("a load has rounds, puts and tasks"));
    }
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("n"));
    let table = Arc::new(TableSpec::new(name, key)?);
    store.create_table(&table, Default::default()).await?;
    let measured = measure(store, &table, load).await;
    store.drop_table(table.name()).await?;
    measured
}

async fn measure(store: &Arc<DynamoDb>, table: &Arc<TableSpec>, load: Load) -> Result<Comparison> {
    let bare = Client::new(&store.shared);
    let turn = Turn {
        clock: store.sender.clock(),
        load,
    };
    let put_bare = |key: Place| put_bare(bare.clone(), table.clone(), key);
    let put_ours = |key: Place| put_ours(store.clone(), table.clone(), key);
    let mut rounds = Vec::new();
    // The first round opens the connections and is not counted.
    for round in 0..=load.rounds {
        let (bare_name, ours_name) = (format!("bare-{round}"), format!("ours-{round}"));
        // Who goes first alternates: a server slows down as its table grows.
        let (bare_per_sec, ours_per_sec) = if round % 2 == 0 {
            let bare_per_sec = turn.run(&bare_name, put_bare).await?;
            (bare_per_sec, turn.run(&ours_name, put_ours).await?)
        } else {
            let ours_per_sec = turn.run(&ours_name, put_ours).await?;
            (turn.run(&bare_name, put_bare).await?, ours_per_sec)
        };
        rounds.push(Round {
            bare_per_sec,
            ours_per_sec,
        });
    }
    rounds.remove(0);
    Ok(Comparison { rounds })
}

/// The key of one put, and what is put there.
struct Place {
    partition: String,
    number: u64,
    payload: Bytes,
}

/// A kilobyte with its key.
const PAYLOAD_BYTES: usize = 1_000;

/// A client's turn.
#[derive(Clone, Copy)]
struct Turn<'a> {
    clock: &'a dyn Clock,
    load: Load,
}

impl Turn<'_> {
    /// Makes the puts of a turn; answers how many there were a second.
    async fn run<F>(&self, name: &str, put: impl Fn(Place) -> F + Clone + Send) -> Result<f64>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let each = self.load.puts.div_ceil(self.load.tasks);
        let payload = Bytes::from(vec![b'x'; PAYLOAD_BYTES]);
        let start = self.clock.monotonic();
        let mut tasks = JoinSet::new();
        for task in 0..self.load.tasks {
            let partition = format!("{name}-{task}");
            let puts: Vec<F> = (0..u64::from(each))
                .map(|number| {
                    put(Place {
                        partition: partition.clone(),
                        number,
                        payload: payload.clone(),
                    })
                })
                .collect();
            tasks.spawn(async move {
                for put in puts {
                    put.await?;
                }
                Ok::<_, Error>(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.map_err(|e| Error::unavailable("a task of the bench failed").because(e))??;
        }
        let took = self.clock.monotonic().saturating_sub(start);
        let puts = f64::from(each) * f64::from(self.load.tasks);
        Ok(puts / took.as_secs_f64().max(f64::EPSILON))
    }
}

async fn put_ours(store: Arc<DynamoDb>, table: Arc<TableSpec>, place: Place) -> Result<()> {
    let item = Item::new()
        .with("p", place.partition)
        .with("n", place.number)
        .with("d", place.payload);
    store.put(&table, item, Condition::Absent).await?;
    Ok(())
}

async fn put_bare(client: Client, table: Arc<TableSpec>, place: Place) -> Result<()> {
    let item = HashMap::from([
        ("p".to_owned(), AttributeValue::S(place.partition)),
        ("n".to_owned(), AttributeValue::N(place.number.to_string())),
        (
            "d".to_owned(),
            AttributeValue::B(Blob::from_maybe_shared(place.payload)),
        ),
    ]);
    let put = client.put_item().table_name(table.name().as_str());
    let put = put
        .set_item(Some(item))
        .condition_expression("attribute_not_exists(#p)")
        .expression_attribute_names("#p", "p")
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .return_consumed_capacity(ReturnConsumedCapacity::Total);
    match put.send().await.map_err(verdict_of) {
        Ok(_) => Ok(()),
        Err(Verdict::Retry(_, error)) => Err(error),
        Err(Verdict::Final(failure)) => Err(failure.into_error(table.name())),
    }
}
