//! The operations of processes on snapshots: recover, save, read, delete; and the checks at the end
//! of a run.

use std::time::Duration;

use annals::journal::{Journal, Window};
use annals::snapshot::{Criteria, Snapshot, Snapshots};
use annals::{Clock, Error, Event, Random};
use annals_testkit::tck::record::{label, parse};
use futures::{StreamExt, TryStreamExt};

use super::process::{Process, World, id};
use super::snapshot_record::fold;
use super::write::{self, WriteOutcome};
use annals_testkit::journals::number;

/// How many states of an id a process keeps.
const POINTS: usize = 5;

/// A number, and the state there.
pub(super) type Point = (u64, u64);

/// The state after each event; `None` if events are missing.
pub(super) fn fold_all(from: Point, events: &[Event]) -> Option<Vec<Point>> {
    let mut points = vec![from];
    for event in events {
        let (last, state) = *points.last()?;
        if event.sequence_number.get() != last + 1 {
            return None;
        }
        let (attempt, place, count) = parse(event);
        points.push((last + 1, fold(state, &label(attempt, place, count))));
    }
    Some(points)
}

/// The number and state of a snapshot.
pub(super) fn point_of(snapshot: Option<&Snapshot>) -> Point {
    snapshot.map_or((0, 0), |snapshot| {
        let state = write::parse(&snapshot.payload).map_or(0, |(_, state)| state);
        (snapshot.sequence_number.get(), state)
    })
}

/// Any criteria around a number and the present time.
fn draw(random: &Random, near: u64, now_ms: u64) -> Criteria {
    let near = |end| number((near + 1).saturating_sub(random.below(end)).max(1));
    let mut criteria = match random.below(4) {
        0 => Criteria::ALL,
        1 => Criteria::at(near(3)),
        _ => Criteria::ALL.up_to(near(4)),
    };
    match random.below(6) {
        0 => criteria.min_number = near(5),
        1 | 2 => criteria.max_time_ms = now_ms - random.below(12),
        3 => criteria.min_time_ms = now_ms - random.below(12),
        _ => {}
    }
    criteria
}

impl Process {
    fn criteria(&self, index: usize) -> Criteria {
        let near = self.points[index].last().map_or(3, |(number, _)| *number);
        draw(&self.random, near, self.world.clock.now_ms())
    }

    /// Advances the clock, so that criteria can use the time.
    fn pass_time(&self) {
        let ms = self.random.below(4);
        self.world.clock.advance(Duration::from_millis(ms));
    }

    /// The newest snapshot that matches the criteria; `None` if the store fails.
    async fn load(&self, index: usize, criteria: Criteria) -> Option<Option<Snapshot>> {
        let look = self.world.snapshots().begin_look(index, criteria);
        match self.snapshots.load(&id(index), criteria).await {
            Ok(found) => {
                let mut record = self.world.snapshots();
                record.looked(look, found.as_ref(), &self.world.noise);
                Some(found)
            }
            Err(error) => {
                self.excuse("load", &error);
                None
            }
        }
    }

    pub(super) async fn load_any(&mut self, index: usize) {
        self.pass_time();
        let criteria = self.criteria(index);
        self.load(index, criteria).await;
    }

    /// The recovery of an entity: the newest snapshot, and the events after it.
    pub(super) async fn recover(&mut self, index: usize) {
        let Some(newest) = self.load(index, Criteria::ALL).await else {
            return;
        };
        let from = point_of(newest.as_ref());
        let window = Window::from(number(from.0 + 1));
        let replay = self.journal.replay(&id(index), window);
        let events: Result<Vec<Event>, Error> = replay.try_collect().await;
        match events {
            Ok(events) => self.recovered(index, from, &events),
            Err(error) => self.excuse("recovery", &error),
        }
    }

    fn recovered(&mut self, index: usize, from: Point, events: &[Event]) {
        let mut record = self.world.record();
        record.saw_all(index, events);
        let tried = record.deletion_tried[index];
        drop(record);
        match fold_all(from, events) {
            Some(mut points) => {
                let mut record = self.world.snapshots();
                for (number, state) in &points {
                    record.folded(index, *number, *state);
                }
                points.retain(|(number, _)| *number > 0);
                let old = points.len().saturating_sub(POINTS);
                self.points[index] = points.split_off(old);
            }
            None if tried > from.0 => {}
            None => {
                let what = format!("id {index}: events behind {from:?} are missing");
                self.world.snapshots().violated(what);
            }
        }
    }

    pub(super) async fn save(&mut self, index: usize) {
        if self.points[index].is_empty() || self.random.below(3) == 0 {
            self.recover(index).await;
        }
        // Mostly the last one, as entities do.
        let back = self.random.below(3).saturating_sub(1) as usize;
        let Some(point) = self.points[index].iter().rev().nth(back).copied() else {
            return;
        };
        for _ in 0..1 + self.random.below(3) {
            self.pass_time();
            let is_large = self.is_large();
            let attempt = self.world.snapshots().begin(index, point, is_large);
            let state = write::payload(attempt, point.1, self.noise(is_large));
            self.world.snapshots().saves[attempt].time_ms = self.world.clock.now_ms();
            let (id, at) = (id(index), number(point.0));
            let saved = self.snapshots.save(&id, at, state).await;
            let outcome = self.write_outcome("save", saved);
            self.world.snapshots().saved(attempt, outcome);
            if outcome == WriteOutcome::Done || self.restart_if_crashed().await {
                return;
            }
        }
    }

    pub(super) async fn delete_snapshots(&mut self, index: usize) {
        self.pass_time();
        let criteria = self.criteria(index);
        for _ in 0..1 + self.random.below(3) {
            let attempt = self.world.snapshots().begin_deletion(index, criteria);
            let deleted = self.snapshots.delete(&id(index), criteria).await;
            let outcome = self.write_outcome("deletion of snapshots", deleted.map(|_| ()));
            self.world.snapshots().deleted(attempt, outcome);
            if outcome == WriteOutcome::Done || self.restart_if_crashed().await {
                return;
            }
        }
    }

    /// The outcome of a write without a condition.
    fn write_outcome(&self, what: &str, result: annals::Result<()>) -> WriteOutcome {
        match result {
            Ok(()) => WriteOutcome::Done,
            Err(error) => {
                self.excuse(what, &error);
                WriteOutcome::Unknown
            }
        }
    }
}

/// Checks snapshots in a new process at the end of a run.
pub(super) async fn check(world: &World, journal: &Journal, index: usize, random: &Random) {
    let snapshots = world.open_snapshots(world.items.clone(), random);
    check_find(world, &snapshots, index).await;
    let near = 1 + world
        .snapshots()
        .saves
        .iter()
        .map(|s| s.number)
        .max()
        .unwrap_or(0);
    for _ in 0..8 {
        let criteria = draw(
            random,
            near.saturating_sub(random.below(6)),
            world.clock.now_ms(),
        );
        let look = world.snapshots().begin_look(index, criteria);
        match snapshots.load(&id(index), criteria).await {
            Ok(found) => world.snapshots().looked(look, found.as_ref(), &world.noise),
            Err(error) => world.snapshots().violated(format!("{error:?}")),
        }
    }
    let all = journal.replay(&id(index), Window::ALL);
    let all: Result<Vec<Event>, Error> = all.try_collect().await;
    let Ok(all) = all else {
        return world.snapshots().violated(format!("{all:?}"));
    };
    // If nothing was deleted, the full history gives the state of every snapshot.
    if let Some(points) = fold_all((0, 0), &all) {
        for (number, state) in points {
            world.snapshots().folded(index, number, state);
        }
    }
}

/// Checks that all snapshots are found as they were saved, newest first.
async fn check_find(world: &World, snapshots: &Snapshots, index: usize) {
    let mut found = snapshots.find(&id(index), Criteria::ALL);
    let mut below = None;
    loop {
        let criteria = below.map_or(Criteria::ALL, |n| Criteria::ALL.up_to(number(n)));
        let look = world.snapshots().begin_look(index, criteria);
        match found.next().await {
            Some(Ok(snapshot)) => {
                let mut record = world.snapshots();
                record.looked(look, Some(&snapshot), &world.noise);
                match snapshot.sequence_number.get() - 1 {
                    0 => return,
                    n => below = Some(n),
                }
            }
            Some(Err(error)) => return world.snapshots().violated(format!("{error:?}")),
            None => {
                let mut record = world.snapshots();
                return record.looked(look, None, &world.noise);
            }
        }
    }
}
