//! An erasure pass: reads the end of the log, and erases what was superseded from sealed segments.
//!
//! Guarantees: the note is raised only after the values are gone, so a pass that is interrupted is
//! repeated. Segments are rewritten in order, and the first error ends the pass: a value is never left
//! behind whose successor, which names it, is erased.

use std::path::Path;

use crate::Result;
use crate::embedded::catalog::Catalog;
use crate::embedded::codec;
use crate::embedded::index::Kind;
use crate::embedded::log::{
    self, Dropped, Erase, Note, Place, Position, Rewritten, Superseded, key_hash,
};

/// Positions of the log that a pass reads before it erases. More: more memory. Fewer: a segment may be
/// rewritten several times.
const BATCH: u64 = 1_000_000;

/// What a pass needs.
pub(super) struct Pass<'a> {
    /// The log's folder.
    pub(super) folder: &'a Path,
    /// Called for every block of work; returns whether to go on.
    pub(super) step: &'a mut dyn FnMut() -> bool,
    /// Waits until what was answered is visible everywhere, and begins a new segment if told to.
    pub(super) barrier: &'a dyn Fn(bool) -> Result<()>,
    pub(super) tables: &'a Catalog,
    /// The position after everything that is visible.
    pub(super) visible: &'a dyn Fn() -> Position,
    /// Whether the open segment may be sealed early.
    pub(super) may_seal: bool,
}

/// What a pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// Changes that were erased.
    pub(super) erased: u64,
    /// Segments that were rewritten.
    pub(super) segments: u64,
    /// Whether the open segment was sealed early.
    pub(super) sealed: bool,
    /// Whether the open segment holds something that was to be erased.
    pub(super) blocked: bool,
    /// Whether it was stopped.
    pub(super) stopped: bool,
}

/// What a part of the log superseded.
struct Found {
    superseded: Vec<Superseded>,
    has_dropped: bool,
    /// The last position that superseded something.
    last: Option<Position>,
    after: Place,
}

impl Pass<'_> {
    /// Erases what changes before `end` superseded.
    pub(super) fn run(mut self, note: &mut Note, end: Position) -> Result<Done> {
        let mut done = Done::default();
        while note.from.position < end && !done.stopped {
            let to = end.min(note.from.position.plus(BATCH));
            let mut found = self.find(note.from, to)?;
            let mut starts = log::starts(self.folder)?;
            if needs_seal(&found, &starts) && self.may_seal {
                (self.barrier)(true)?;
                starts = log::starts(self.folder)?;
                (self.may_seal, done.sealed) = (false, true);
            } else if found.has_dropped {
                (self.barrier)(false)?;
            }
            let is_blocked = needs_seal(&found, &starts);
            found.superseded.sort_unstable();
            self.erase(&found, &starts, &mut done)?;
            if done.stopped {
                break;
            }
            if let Some(last) = found.last {
                note.superseded = last;
            }
            // What the open segment holds is erased later.
            let open = starts.last().copied().filter(|_| is_blocked);
            note.from = match open {
                Some(open) if open.position > note.from.position => open,
                Some(_) => note.from,
                None => found.after,
            };
            note.write(self.folder)?;
            if is_blocked {
                done.blocked = true;
                break;
            }
        }
        Ok(done)
    }

    fn find(&mut self, from: Place, to: Position) -> Result<Found> {
        let mut found = Found {
            superseded: Vec::new(),
            has_dropped: false,
            last: None,
            after: from,
        };
        log::frames_from(self.folder, from, to, |changes, after| {
            for change in changes {
                let Some(position) = change.supersedes else {
                    continue;
                };
                found.last = Some(change.position);
                found.superseded.push(Superseded {
                    position,
                    by: change.position,
                    key: key_hash(change.key),
                });
                let is_record = change.key.first() == Some(&(Kind::Table as u8));
                found.has_dropped |= is_record && change.value.is_none();
            }
            found.after = after;
            Ok(())
        })?;
        Ok(found)
    }

    fn erase(&mut self, found: &Found, starts: &[Place], done: &mut Done) -> Result<()> {
        let numbers = self.tables.numbers();
        // Read after the numbers: all of these tables were dropped at or before it.
        let by = Position((self.visible)().0.saturating_sub(1));
        let is_dropped = |key: &[u8]| {
            let table = codec::table_of(key);
            table.is_some_and(|number| numbers.is_dropped(number))
        };
        for segment in starts.windows(2) {
            let [start, next] = segment else {
                continue;
            };
            let superseded = between(&found.superseded, start.position, next.position);
            let has_dropped = found.has_dropped && start.position < by;
            if superseded.is_empty() && !has_dropped {
                continue;
            }
            let erase = Erase {
                superseded,
                dropped: has_dropped.then_some(Dropped {
                    is_dropped: &is_dropped,
                    by,
                }),
            };
            match log::rewrite(self.folder, start.segment, &erase, self.step)? {
                Rewritten::Done { erased, .. } => {
                    done.erased += erased;
                    done.segments += 1;
                }
                Rewritten::Unchanged => {}
                Rewritten::Stopped => {
                    done.stopped = true;
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Whether the open segment holds something to erase.
fn needs_seal(found: &Found, starts: &[Place]) -> bool {
    let Some(open) = starts.last() else {
        return false;
    };
    let superseded = found
        .superseded
        .iter()
        .any(|it| it.position >= open.position);
    superseded || (found.has_dropped && found.after.position > open.position)
}

/// Those with positions from one to before another.
fn between(all: &[Superseded], from: Position, to: Position) -> &[Superseded] {
    let start = all.partition_point(|it| it.position < from);
    let end = all.partition_point(|it| it.position < to);
    all.get(start..end).unwrap_or_default()
}
