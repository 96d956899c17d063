//! What a run should do: the commits of the feed, and what became of each.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};

use annals::feed::{Batch, Filter, LanePosition, Position, What};
use annals::group::{DeadLetters, Delivery, GroupStatus, Settled};
use annals::{Clock, ManualClock, PersistenceId, SequenceNumber};

#[derive(Default)]
pub(crate) struct World {
    filter: Filter,
    start: LanePosition,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Those that the group should hand out, by place.
    commits: BTreeMap<u64, Commit>,
    /// The commit of an id that is in flight for sure, and until when.
    in_flight: HashMap<PersistenceId, (u64, u64)>,
    /// How many events have no tag of the filter. If they are deleted, they count as missed: their tags
    /// are not known any more.
    other_tags: u64,
    /// The id that is appended to, until the writer knows the commit, and whether its dead letters may
    /// have been forgotten meanwhile, and the commit with them.
    appending: Option<(PersistenceId, bool)>,
    floor: u64,
    violations: Vec<String>,
}

#[derive(Debug)]
struct Commit {
    id: PersistenceId,
    /// It was handed out before the writer knew of it.
    is_early: bool,
    /// With those that the filter does not accept.
    events: u64,
    numbers: Vec<u64>,
    /// The last sequence number, of those that the filter does not accept, too.
    last: u64,
    /// All of its events are gone. If others are left, the feed has no place for those that are not.
    is_gone: bool,
    /// Some of its events may be gone.
    is_touched: bool,
    is_deleted: bool,
    is_purged: bool,
    is_acked: bool,
    /// By the call that said so; otherwise it may have been missed.
    is_surely_acked: bool,
    /// An acknowledgement may have succeeded.
    is_uncertain: bool,
    acks_running: u32,
    is_discarded: bool,
    /// It may have been a dead letter that a retry did not find any more, and that was discarded with the
    /// others before the retry ended: then it is not missed.
    may_be_forgotten: bool,
}

impl Commit {
    fn new(id: &PersistenceId, events: u64, numbers: Vec<u64>) -> Self {
        Self {
            last: numbers.last().copied().unwrap_or(0),
            is_gone: false,
            id: id.clone(),
            is_early: false,
            events,
            numbers,
            is_touched: false,
            is_deleted: false,
            is_purged: false,
            is_acked: false,
            is_surely_acked: false,
            is_uncertain: false,
            acks_running: 0,
            is_discarded: false,
            may_be_forgotten: false,
        }
    }

    fn may_be_handled(&self) -> bool {
        self.is_acked || self.is_uncertain || self.acks_running > 0 || self.is_discarded
    }
}

fn place_of(position: &Position) -> u64 {
    position.lanes()[0].place
}

impl World {
    pub(crate) fn new(filter: Filter, start: &Position) -> Self {
        Self {
            filter,
            start: start.lanes()[0],
            inner: Mutex::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    pub(crate) fn violation(&self, violation: String) {
        self.inner().violations.push(violation);
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        std::mem::take(&mut self.inner().violations)
    }

    pub(crate) fn appending(&self, id: &PersistenceId) {
        self.inner().appending = Some((id.clone(), false));
    }

    pub(crate) fn appended(&self, batches: &[Batch]) {
        let appending = self.inner().appending.take();
        let is_forgotten = appending.is_some_and(|(_, is_forgotten)| is_forgotten);
        for entry in batches.iter().flat_map(|batch| &batch.entries) {
            let What::Appended(fed) = &entry.what else {
                continue;
            };
            let events = fed.iter().filter(|fed| fed.at > self.start);
            let events = events.filter(|fed| self.filter.accepts(&fed.event));
            let numbers: Vec<u64> = events.map(|fed| fed.event.sequence_number.get()).collect();
            if numbers.is_empty() {
                let is_ours = self.filter.accepts_id(&entry.id) && entry.place > self.start.place;
                self.inner().other_tags += u64::from(is_ours) * fed.len() as u64;
                continue;
            }
            let commit = Commit::new(&entry.id, fed.len() as u64, numbers);
            let last = fed.last().map_or(0, |fed| fed.event.sequence_number.get());
            let is_discarded = is_forgotten;
            let commit = Commit {
                last,
                is_discarded,
                ..commit
            };
            self.know(entry.place, commit);
        }
    }

    /// The writer knows of a commit now. What became of it before that stays.
    fn know(&self, place: u64, commit: Commit) {
        let mut inner = self.inner();
        match inner.commits.remove(&place) {
            None => drop(inner.commits.insert(place, commit)),
            Some(early) => {
                if (&early.id, &early.numbers) != (&commit.id, &commit.numbers) {
                    let numbers = &early.numbers;
                    let violation = format!("not whole: {numbers:?} of {:?}", commit.numbers);
                    inner.violations.push(violation);
                }
                let commit = Commit {
                    is_early: false,
                    events: commit.events,
                    last: commit.last,
                    is_discarded: early.is_discarded || commit.is_discarded,
                    ..early
                };
                inner.commits.insert(place, commit);
            }
        }
    }

    pub(crate) fn deleting(&self, id: &PersistenceId, to: SequenceNumber) {
        let mut inner = self.inner();
        for commit in inner.commits.values_mut().filter(|commit| commit.id == *id) {
            let is_gone = |number: &u64| *number <= to.get();
            commit.is_touched |= commit.numbers.iter().any(is_gone);
            commit.is_deleted |= commit.numbers.iter().all(is_gone);
            commit.is_gone |= is_gone(&commit.last);
        }
    }

    pub(crate) fn purging(&self, id: &PersistenceId) {
        let mut inner = self.inner();
        for commit in inner.commits.values_mut().filter(|commit| commit.id == *id) {
            commit.is_purged = true;
            (commit.is_touched, commit.is_deleted) = (true, true);
        }
    }

    /// Dead letters of an id may be forgotten now.
    pub(crate) fn discarding(&self, dead: &DeadLetters) {
        let mut inner = self.inner();
        inner.in_flight.remove(&dead.persistence_id);
        if let Some((id, is_forgotten)) = &mut inner.appending {
            *is_forgotten |= *id == dead.persistence_id;
        }
        let after = place_of(&dead.after);
        let commits = inner.commits.iter_mut();
        let commits = commits.filter(|(_, commit)| commit.id == dead.persistence_id);
        for (place, commit) in commits.filter(|(_, commit)| !commit.is_acked) {
            commit.is_discarded |= *place > after;
            commit.may_be_forgotten |= commit.is_gone;
        }
    }

    pub(crate) fn delivered(&self, delivery: &Delivery, clock: &ManualClock) {
        let place = place_of(&delivery.position);
        let mut inner = self.inner();
        let Inner {
            commits,
            in_flight,
            violations,
            ..
        } = &mut *inner;
        let numbers = delivery.events.iter();
        let numbers: Vec<u64> = numbers.map(|event| event.sequence_number.get()).collect();
        let count = numbers.len() as u64;
        commits.entry(place).or_insert_with(|| {
            let commit = Commit::new(&delivery.persistence_id, count, numbers.clone());
            let is_early = true;
            Commit { is_early, ..commit }
        });
        let Some(commit) = commits.get(&place) else {
            return;
        };
        let is_part = numbers.iter().all(|number| commit.numbers.contains(number));
        if commit.id != delivery.persistence_id
            || !is_part
            || (numbers != commit.numbers && !commit.is_touched)
        {
            violations.push(format!("not whole: {delivery:?} of {:?}", commit.numbers));
        }
        let now = clock.now_ms();
        // Its response came late: it was handed out to another one meanwhile, or discarded.
        if delivery.deadline_ms <= now || commit.is_discarded {
            return;
        }
        if let Some((other, until)) = in_flight.get(&commit.id)
            && *until > now
        {
            violations.push(format!("{other} is in flight: {delivery:?}"));
        }
        let earlier = commits.range(..place);
        let mut earlier = earlier.filter(|(_, other)| other.id == commit.id);
        if let Some((other, _)) =
            earlier.find(|(_, other)| !other.may_be_handled() && !other.is_deleted)
        {
            violations.push(format!("{other} is not handled: {delivery:?}"));
        }
        in_flight.insert(commit.id.clone(), (place, delivery.deadline_ms));
    }

    pub(crate) fn acking(&self, delivery: &Delivery) {
        self.settling(delivery);
        let mut inner = self.inner();
        if let Some(commit) = inner.commits.get_mut(&place_of(&delivery.position)) {
            commit.acks_running += 1;
        }
    }

    pub(crate) fn nacking(&self, delivery: &Delivery) {
        self.settling(delivery);
    }

    /// From now on it may be handed out again.
    fn settling(&self, delivery: &Delivery) {
        let place = place_of(&delivery.position);
        let mut inner = self.inner();
        let of_id = inner.in_flight.get(&delivery.persistence_id);
        // Not that of a later attempt.
        if of_id == Some(&(place, delivery.deadline_ms)) {
            inner.in_flight.remove(&delivery.persistence_id);
        }
    }

    /// An acknowledgement ended; without a result, it may have succeeded.
    pub(crate) fn acked(&self, delivery: &Delivery, settled: Option<Settled>) {
        let mut inner = self.inner();
        let place = place_of(&delivery.position);
        let Some(commit) = inner.commits.get_mut(&place) else {
            return;
        };
        commit.acks_running -= 1;
        match settled {
            None => commit.is_uncertain = true,
            Some(Settled::Acked) => (commit.is_acked, commit.is_surely_acked) = (true, true),
            // By an attempt of this call whose response was lost, by another, or it was deleted.
            Some(Settled::Already) => commit.is_acked = true,
            Some(Settled::Expired) => {}
            Some(other) => {
                let violation = format!("{other:?}: {delivery:?}");
                inner.violations.push(violation);
            }
        }
    }

    pub(crate) fn check_floor(&self, status: &GroupStatus, dead: &[DeadLetters]) {
        let floor = place_of(&status.floor);
        let mut inner = self.inner();
        let mut violations = Vec::new();
        if floor < inner.floor {
            violations.push(format!(
                "the floor moves back from {} to {floor}",
                inner.floor
            ));
        }
        inner.floor = floor;
        for (place, commit) in inner.commits.range(..=floor) {
            let is_dead = |dead: &DeadLetters| {
                dead.persistence_id == commit.id && place_of(&dead.after) < *place
            };
            if !commit.may_be_handled() && !commit.is_deleted && !dead.iter().any(is_dead) {
                violations.push(format!(
                    "the floor {floor} is past {place} of {}",
                    commit.id
                ));
            }
        }
        inner.violations.extend(violations);
    }

    /// The first commit of each id that must not be deleted: it is not handled.
    pub(crate) fn open(&self) -> HashMap<PersistenceId, u64> {
        let inner = self.inner();
        let commits = inner.commits.iter().rev();
        let open = commits.filter(|(_, commit)| !commit.may_be_handled() && !commit.is_deleted);
        open.map(|(place, commit)| (commit.id.clone(), *place))
            .collect()
    }

    /// The last commit of each id.
    pub(crate) fn last(&self) -> HashMap<PersistenceId, u64> {
        let inner = self.inner();
        let commits = inner.commits.iter();
        commits
            .map(|(place, commit)| (commit.id.clone(), *place))
            .collect()
    }

    pub(crate) fn check_end(&self, status: &GroupStatus, head: &Position) {
        let mut inner = self.inner();
        let mut violations = Vec::new();
        let (mut certain, mut possible) = (0, 0);
        for (place, commit) in &inner.commits {
            let is_settled = commit.is_acked || commit.is_discarded || commit.is_uncertain;
            if !is_settled && !commit.is_deleted {
                violations.push(format!("{place} of {} was lost", commit.id));
            }
            if !is_settled && commit.is_purged && status.purged == 0 {
                violations.push(format!("{place} of {} was purged silently", commit.id));
            }
            // A purge leaves no trace of each commit.
            let is_counted = !commit.is_purged && !commit.may_be_forgotten;
            certain += u64::from(!is_settled && is_counted && commit.is_gone);
            // The layouts of the JVM plugins have an item for each event, so a part may be missed.
            let may_miss = !commit.is_surely_acked || commit.is_touched;
            possible += u64::from(may_miss) * commit.events;
        }
        let unknown = inner.commits.iter().filter(|(_, commit)| commit.is_early);
        violations.extend(unknown.map(|(place, _)| format!("{place} is not in the feed")));
        possible += inner.other_tags;
        if !(certain..=possible).contains(&status.missed) {
            let gone = inner.commits.iter().filter(|(_, commit)| commit.is_gone);
            violations.push(format!(
                "{} missed, not {certain} to {possible}: {:#?}",
                status.missed,
                gone.collect::<Vec<_>>()
            ));
        }
        if place_of(&status.floor) > place_of(head) {
            violations.push("the floor is past the end".to_owned());
        }
        inner.violations.extend(violations);
    }
}
