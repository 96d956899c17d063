//! Stands between a runner and the sink: drops calls in the middle, loses answers, and keeps calls that go
//! on later, as if their process had been paused.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use annals::feed::{Filter, Position};
use annals::projection::{Delivery, Failure, Kind, ShareContext, Target};
use annals::{Clock, Error, Result, SystemClock};

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// It is dropped when it waits for the nth time.
    Drop(usize),
    /// It succeeds, but nobody hears of it.
    LoseAnswer,
    /// It stops when it waits for the nth time, and goes on later, beside the next calls.
    Pause(usize, Duration),
    /// It never reaches the sink.
    Refuse,
}

/// The calls of a target that have faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Resume,
    Handle,
    Retry,
}

type Faults = Box<dyn FnMut(Call) -> Fault + Send>;

pub(crate) struct Tap {
    sink: Arc<dyn Target>,
    faults: Mutex<Faults>,
    /// The last batch, also if it was refused.
    pub(crate) seen: Mutex<Option<(ShareContext, Vec<Delivery>)>>,
    /// Whether a call that was to be dropped did not wait that often.
    pub(crate) was_faster: AtomicBool,
    /// Calls that were paused.
    paused: Mutex<Vec<tokio::task::JoinHandle<()>>>,
}

impl Tap {
    pub(crate) fn new(
        sink: Arc<dyn Target>,
        faults: impl FnMut(Call) -> Fault + Send + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            sink,
            faults: Mutex::new(Box::new(faults)),
            seen: Mutex::default(),
            was_faster: AtomicBool::new(false),
            paused: Mutex::default(),
        })
    }

    /// Waits until no call is paused any more.
    pub(crate) async fn awake(&self) {
        let paused: Vec<_> = self.paused.lock().unwrap().drain(..).collect();
        for call in paused {
            call.await.unwrap();
        }
    }

    async fn call<T, E>(
        &self,
        of: Call,
        call: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let fault = (self.faults.lock().unwrap())(of);
        let crashed = || {
            E::from(Error::unavailable("the test lets it fail").fact("how", format!("{fault:?}")))
        };
        match fault {
            Fault::None => call.await,
            Fault::Refuse => Err(crashed()),
            Fault::LoseAnswer => {
                call.await?;
                Err(crashed())
            }
            Fault::Drop(n) => match Waits::of(call).at_most(n).await {
                Ok(done) => {
                    self.was_faster.store(true, Ordering::SeqCst);
                    done
                }
                Err(_) => Err(crashed()),
            },
            Fault::Pause(n, how_long) => match Waits::of(call).at_most(n).await {
                Ok(done) => done,
                Err(left) => {
                    let later = async move {
                        SystemClock::new().sleep(how_long).await;
                        drop(left.await);
                    };
                    self.paused.lock().unwrap().push(tokio::spawn(later));
                    Err(crashed())
                }
            },
        }
    }
}

/// A future that can be left after it has waited a number of times.
pub(crate) struct Waits<T>(Pin<Box<dyn Future<Output = T> + Send>>);

impl<T> Waits<T> {
    pub(crate) fn of(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }

    /// The outcome; or what is left, when it waits for the nth time.
    pub(crate) async fn at_most(self, n: usize) -> Result<T, Self> {
        let mut future = Some(self);
        let mut waited = 0;
        std::future::poll_fn(move |context| {
            let polled = match waited < n {
                true => Pin::new(future.as_mut().unwrap()).poll(context),
                false => return Poll::Ready(Err(future.take().unwrap())),
            };
            waited += 1;
            polled.map(Ok)
        })
        .await
    }
}

impl<T> Future for Waits<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.0.as_mut().poll(context)
    }
}

#[async_trait::async_trait]
impl Target for Tap {
    fn name(&self) -> &str {
        self.sink.name()
    }

    fn revision(&self) -> u32 {
        self.sink.revision()
    }

    fn kind(&self) -> Kind {
        self.sink.kind()
    }

    fn source(&self) -> Filter {
        self.sink.source()
    }

    async fn resume(&self, share: &ShareContext) -> Result<Option<Position>> {
        let (sink, share) = (self.sink.clone(), share.clone());
        let call = async move { sink.resume(&share).await };
        self.call(Call::Resume, call).await
    }

    async fn handle(&self, share: &ShareContext, batch: &[Delivery]) -> Result<(), Failure> {
        let (sink, share, batch) = (self.sink.clone(), share.clone(), batch.to_vec());
        *self.seen.lock().unwrap() = Some((share.clone(), batch.clone()));
        let call = async move { sink.handle(&share, &batch).await };
        self.call(Call::Handle, call).await
    }

    async fn retry(&self, share: &ShareContext, letter: &Delivery) -> Result<(), Failure> {
        let (sink, share, letter) = (self.sink.clone(), share.clone(), letter.clone());
        let call = async move { sink.retry(&share, &letter).await };
        self.call(Call::Retry, call).await
    }

    async fn drop_build(&self, build: u32) -> Result<()> {
        self.sink.drop_build(build).await
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tap")
    }
}
