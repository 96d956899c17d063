//! A member of the group.

use std::sync::Arc;

use annals::Random;
use annals::group::{Delivery, DeliveryId, Group, Settled, Take};
use annals_testkit::faulty::Faulty;
use futures::FutureExt;
use futures::future::{Either, select};

use super::{Run, yields};

const TURNS: u64 = 30;

/// A member, careful or not.
pub(super) struct Member<'a> {
    group: Group,
    run: &'a Run,
    careless: Option<(Random, Arc<Faulty>)>,
}

impl<'a> Member<'a> {
    /// Acknowledges everything.
    pub(super) fn careful(group: Group, run: &'a Run) -> Self {
        let careless = None;
        Self {
            group,
            run,
            careless,
        }
    }

    /// Acknowledges, refuses, forgets and crashes.
    pub(super) fn careless(group: Group, run: &'a Run, with: (Random, Arc<Faulty>)) -> Self {
        let careless = Some(with);
        Self {
            group,
            run,
            careless,
        }
    }

    fn happens(&self, per_mille: u32) -> bool {
        let random = self.careless.as_ref();
        random.is_some_and(|(random, _)| random.happens(per_mille))
    }

    fn below(&self, end: u64) -> u64 {
        let random = self.careless.as_ref();
        random.map_or(end - 1, |(random, _)| random.below(end))
    }

    pub(super) async fn work(&mut self) {
        for _ in 0..TURNS {
            self.turn().await;
            if let Some((_, store)) = &self.careless {
                // The process starts again.
                store.revive();
            }
            yields(self.below(10)).await;
        }
    }

    /// Runs a call, or drops it in the middle, as a process that dies.
    async fn call<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        match self.happens(40) {
            true => {
                let ends = yields(self.below(30)).boxed_local();
                match select(Box::pin(call), ends).await {
                    Either::Left((result, _)) => Some(result),
                    Either::Right(_) => None,
                }
            }
            false => Some(call.await),
        }
    }

    /// Takes and handles some deliveries; whether there were any.
    pub(super) async fn turn(&mut self) -> bool {
        let take = Take::new().max(1 + self.below(4) as usize).member("m");
        let Some(Ok(deliveries)) = self.call(self.group.next(&take)).await else {
            return false;
        };
        let deliveries = deliveries.unwrap();
        for delivery in &deliveries {
            self.run.world.delivered(delivery, &self.run.clock);
        }
        let any = !deliveries.is_empty();
        if self.happens(50) {
            return any;
        }
        for delivery in deliveries {
            yields(self.below(10)).await;
            match self.below(100) {
                0..15 => self.nack(&delivery).await,
                15..25 => {}
                _ => self.ack(&delivery).await,
            }
        }
        any
    }

    async fn ack(&self, delivery: &Delivery) {
        let world = &self.run.world;
        for _ in 0..5 {
            world.acking(delivery);
            let ids: [DeliveryId; 1] = [delivery.id.to_string().parse().unwrap()];
            let result = self.call(self.group.ack(&ids)).await;
            match &result {
                Some(Ok(settled)) => {
                    world.acked(delivery, Some(settled.as_ref().unwrap()[0]));
                    return;
                }
                _ => world.acked(delivery, None),
            }
            if result.is_none() || self.happens(200) {
                return;
            }
        }
    }

    async fn nack(&self, delivery: &Delivery) {
        self.run.world.nacking(delivery);
        let ids = [delivery.id];
        let nacked = self.group.nack(&ids, "cannot");
        if let Some(Ok(Some(settled))) = self.call(nacked).await {
            assert!(settled[0] != Settled::Acked && settled.len() == 1);
        }
    }
}
