//! Reads the journal of a store of format 1 independently of the engine, which drops everything after
//! the first bytes that it does not understand.
//!
//! Guarantees: no file is changed. All files of the journal are there, and every batch in them is as it
//! was written, in the order in which it was written. Only the newest file may end with a part of a
//! batch, and only where an interrupted append ends: at the end of an entry or of a page, or before the
//! zeros up to the length that the engine reserves. Any other byte that is not of a batch is damage.
//!
//! What cannot be found: the end of the newest file is lost from a batch, entry or page on; or, in a file
//! that still has its reserved length, zeros from anywhere to its end. An interrupted append looks the
//! same. `Latest` finds more, as far as the engine's tables have it.
//!
//! ```text
//! start   01  items: u32  sequence number: u64
//! item    02  kind: u8  compression: u8  keyspace: u64  key: u16  value: u32  stored value: u32  key  value
//! end     03  checksum of the items: u64  "FJL" 03
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::latest::{Latest, Value};

/// The length of a new file. The engine cuts it at the last batch when it opens the file again.
const RESERVED: usize = 64 * 1024 * 1024;
/// Where an interrupted write of the system may end.
const PAGE: usize = 4096;
const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const START_LEN: usize = 13;
const ITEM_LEN: usize = 21;
const END_LEN: usize = 13;
const TRAILER: &[u8; 4] = b"FJL\x03";
/// Sequence numbers are below this one.
const NUMBERS: u64 = 1 << 63;
const VALUE: u8 = 0;
const TOMBSTONE: u8 = 1;
const PLAIN: u8 = 0;
const LZ4: u8 = 1;

/// What is wrong with the journal, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub(super) file: PathBuf,
    pub(super) offset: usize,
    pub(super) problem: &'static str,
}

#[derive(Debug)]
pub(super) enum Failure {
    Damaged(Damage),
    Unreadable(io::Error),
}

impl From<io::Error> for Failure {
    fn from(cause: io::Error) -> Self {
        Self::Unreadable(cause)
    }
}

/// An append at the end of the journal that was interrupted. The engine leaves it out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Torn {
    pub(super) file: PathBuf,
    pub(super) offset: usize,
    pub(super) bytes: usize,
}

/// A journal that is complete, as far as its files show.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// The sequence number of the last batch.
    pub(super) last: Option<u64>,
    /// Whether older files were removed, as the tables have everything in them.
    pub(super) is_shortened: bool,
    pub(super) torn: Option<Torn>,
    pub(super) latest: Latest,
}

impl Journal {
    pub(super) fn read(engine: &Path) -> Result<Self, Failure> {
        let files = files(engine)?;
        let mut journal = Self {
            is_shortened: files.first().is_some_and(|(number, _)| *number > 0),
            ..Self::default()
        };
        for (n, (_, path)) in files.iter().enumerate() {
            let bytes = fs::read(path)?;
            let is_newest = n + 1 == files.len();
            journal.read_file(path, &bytes, is_newest)?;
        }
        Ok(journal)
    }

    fn read_file(&mut self, path: &Path, bytes: &[u8], is_newest: bool) -> Result<(), Failure> {
        let damaged = |offset, problem| {
            Failure::Damaged(Damage {
                file: path.to_owned(),
                offset,
                problem,
            })
        };
        let data = match bytes.len() {
            RESERVED => without_zeros(bytes),
            _ => bytes,
        };
        let mut at = 0;
        while at < data.len() {
            match Batch::read(data, at) {
                Ok(batch) => {
                    if self.last.is_some_and(|last| batch.number <= last) {
                        return Err(damaged(
                            at,
                            "the sequence number is not above the one before",
                        ));
                    }
                    let applied = batch.apply(&mut self.latest);
                    applied.map_err(|problem| damaged(at, problem))?;
                    self.last = Some(batch.number);
                    at = batch.end;
                }
                Err(Stop::Damaged(offset, problem)) => return Err(damaged(offset, problem)),
                Err(Stop::Incomplete(entry)) => {
                    let part = data.get(at..).unwrap_or_default();
                    let end = FileEnd {
                        length: bytes.len(),
                        is_after_entry: entry == bytes.len(),
                        is_newest,
                    };
                    check_torn(part, &end).map_err(|problem| damaged(at, problem))?;
                    self.torn = Some(Torn {
                        file: path.to_owned(),
                        offset: at,
                        bytes: part.len(),
                    });
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// The files in order. Their numbers have no gaps: only the oldest are ever removed.
fn files(engine: &Path) -> Result<Vec<(u64, PathBuf)>, Failure> {
    let mut files = Vec::new();
    for entry in fs::read_dir(engine)? {
        let path = entry?.path();
        if path.extension().is_none_or(|ending| ending != "jnl") {
            continue;
        }
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let Some(number) = stem.and_then(|stem| stem.parse().ok()) else {
            return Err(missing(path));
        };
        files.push((number, path));
    }
    files.sort();
    let is_next =
        |pair: &[(u64, PathBuf)]| matches!(pair, [(a, _), (b, _)] if a.checked_add(1) == Some(*b));
    match files.is_empty() || !files.windows(2).all(is_next) {
        true => Err(missing(engine.to_owned())),
        false => Ok(files),
    }
}

fn missing(file: PathBuf) -> Failure {
    Failure::Damaged(Damage {
        file,
        offset: 0,
        problem: "a file of the journal is missing",
    })
}

fn without_zeros(bytes: &[u8]) -> &[u8] {
    // Whole pages first, which is fast.
    let pages = bytes.rchunks(PAGE).take_while(|page| **page == [0; PAGE]);
    let zeros: usize = pages.map(<[u8]>::len).sum();
    let bytes = bytes.get(..bytes.len() - zeros).unwrap_or_default();
    let end = bytes.iter().rposition(|byte| *byte != 0);
    bytes
        .get(..end.map_or(0, |end| end + 1))
        .unwrap_or_default()
}

/// How a file ends that ends with a part of a batch.
struct FileEnd {
    length: usize,
    is_after_entry: bool,
    is_newest: bool,
}

/// Whether a part of a batch at the end of a file is what an interrupted append leaves.
fn check_torn(part: &[u8], end: &FileEnd) -> Result<(), &'static str> {
    if !end.is_newest {
        return Err("an older file of the journal ends with a part of a batch");
    }
    let mut markers = part.windows(END_LEN);
    if markers.any(|marker| marker.first() == Some(&END) && marker.ends_with(TRAILER)) {
        return Err("a batch ends after the damage");
    }
    match end.length == RESERVED || end.is_after_entry || end.length.is_multiple_of(PAGE) {
        true => Ok(()),
        false => Err("the file ends where no write ends"),
    }
}

/// Why a batch cannot be read.
enum Stop {
    /// The data ends within the batch, in the entry at this offset or before it.
    Incomplete(usize),
    Damaged(usize, &'static str),
}

/// A batch whose checksum is right.
struct Batch<'a> {
    number: u64,
    items: Vec<Stored<'a>>,
    end: usize,
}

/// An item as the journal has it.
struct Stored<'a> {
    keyspace: u64,
    key: &'a [u8],
    kind: u8,
    compression: u8,
    value_len: usize,
    value: &'a [u8],
    /// All its bytes.
    bytes: &'a [u8],
}

impl<'a> Batch<'a> {
    fn read(data: &'a [u8], at: usize) -> Result<Self, Stop> {
        if data.get(at) != Some(&START) {
            return Err(Stop::Damaged(at, "no batch begins here"));
        }
        let Some(start) = data.get(at..at + START_LEN) else {
            return Err(Stop::Incomplete(at));
        };
        let count = number(start, 1, 4);
        let number = number(start, 5, 8);
        if count == 0 || number >= NUMBERS {
            return Err(Stop::Damaged(at, "the beginning of a batch is damaged"));
        }
        let mut checksum = Xxh3::new();
        let mut items = Vec::new();
        let mut end = at + START_LEN;
        for _ in 0..count {
            let item = Stored::read(data, end)?;
            checksum.update(item.bytes);
            end += item.bytes.len();
            items.push(item);
        }
        let marker = end_marker(checksum.digest());
        let rest = data.get(end..).unwrap_or_default();
        match rest.get(..END_LEN) {
            Some(found) if found == marker => Ok(Self {
                number,
                items,
                end: end + END_LEN,
            }),
            None if marker.starts_with(rest) => Err(Stop::Incomplete(end)),
            _ => Err(Stop::Damaged(end, "the checksum of a batch is wrong")),
        }
    }

    /// Notes what the batch wrote.
    fn apply(&self, latest: &mut Latest) -> Result<(), &'static str> {
        for item in &self.items {
            let value = match item.kind {
                TOMBSTONE => None,
                _ => Some(item.value()?),
            };
            latest.wrote(item.keyspace, item.key, value);
        }
        Ok(())
    }
}

impl<'a> Stored<'a> {
    fn read(data: &'a [u8], at: usize) -> Result<Self, Stop> {
        let rest = data.get(at..).unwrap_or_default();
        // The other kinds of entries are not written by format 1.
        if rest.first().is_some_and(|tag| *tag != ITEM) {
            return Err(Stop::Damaged(at, "an item of a batch is damaged"));
        }
        let Some(header) = rest.get(..ITEM_LEN) else {
            return Err(Stop::Incomplete(at));
        };
        let length = |from, len| number(header, from, len) as usize;
        let (key, value) = (length(11, 2), length(17, 4));
        let Some(bytes) = rest.get(..ITEM_LEN + key + value) else {
            return Err(Stop::Incomplete(at));
        };
        let (key, value) = bytes.get(ITEM_LEN..).unwrap_or_default().split_at(key);
        let item = Self {
            keyspace: number(header, 3, 8),
            key,
            kind: number(header, 1, 1) as u8,
            compression: number(header, 2, 1) as u8,
            value_len: length(13, 4),
            value,
            bytes,
        };
        match item.is_valid() {
            true => Ok(item),
            false => Err(Stop::Damaged(at, "an item of a batch is damaged")),
        }
    }

    fn is_valid(&self) -> bool {
        let is_whole = match self.compression {
            PLAIN => self.value_len == self.value.len(),
            LZ4 => true,
            _ => false,
        };
        is_whole && [VALUE, TOMBSTONE].contains(&self.kind)
    }

    fn value(&self) -> Result<Value, &'static str> {
        if self.compression == PLAIN {
            return Ok(Value::of(self.value));
        }
        match lz4_flex::block::decompress(self.value, self.value_len) {
            Ok(value) if value.len() == self.value_len => Ok(Value::of(&value)),
            _ => Err("a value cannot be decompressed"),
        }
    }
}

fn end_marker(checksum: u64) -> [u8; END_LEN] {
    let mut marker = [END; END_LEN];
    let (_, rest) = marker.split_at_mut(1);
    let (sum, trailer) = rest.split_at_mut(8);
    sum.copy_from_slice(&checksum.to_le_bytes());
    trailer.copy_from_slice(TRAILER);
    marker
}

/// A little-endian number.
fn number(bytes: &[u8], from: usize, len: usize) -> u64 {
    let digits = bytes.iter().skip(from).take(len);
    digits
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}
