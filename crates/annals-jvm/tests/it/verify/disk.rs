//! Bytes flipped in the files of the embedded store while it is closed: reads return the right data
//! or an error, never a wrong event or a panic.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use annals::embedded::Embedded;
use annals::items::Items;
use annals::journal::Window;
use annals::layout::Layout;
use annals::layout::support::error_chain;
use annals::settings::EmbeddedSettings;
use annals::verify::Verify;
use annals::{ErrorKind, Event, ManualClock, Random};
use annals_jvm::AnyLayout;
use annals_testkit::store;
use futures::TryStreamExt;
use tempfile::TempDir;

use super::Bed;
use annals_testkit::journals::id;

/// How many flips are tried, by seed.
const SEEDS: u64 = 150;

fn open(folder: &Path) -> annals::Result<Arc<dyn Items>> {
    let opened = Embedded::open(folder, &EmbeddedSettings::default())?;
    Ok(Arc::new(opened))
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if fs::metadata(&path).unwrap().len() > 0 {
            found.push(path);
        }
    }
    found.sort();
}

/// The bytes of a file without the zeros at its end: segments of the log are filled with zeros first.
fn used(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).unwrap();
    // These tests write nothing longer.
    file.take(64 * 1024).read_to_end(&mut bytes).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0);
    bytes.truncate(used.map_or(0, |last| last + 1));
    bytes
}

fn write(path: &Path, bytes: &[u8], len: u64) {
    fs::write(path, bytes).unwrap();
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(len).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &to),
            false => write(&to, &used(&path), fs::metadata(&path).unwrap().len()),
        }
    }
}

/// Opens, replays and verifies; returns the replayed events or the error.
async fn read(folder: &Path) -> annals::Result<Vec<Event>> {
    let items = open(folder)?;
    let settings = AnyLayout::default();
    let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
    let journal = settings
        .journal(&store(items, clock, Random::seeded(1)))
        .await?;
    let events: Vec<Event> = journal.replay(&id(), Window::ALL).try_collect().await?;
    journal.verify(&id(), Verify::Check).await?;
    let all: Vec<_> = journal.verify_all(Verify::Check).try_collect().await?;
    assert!(all.concat().is_empty(), "no findings: {all:?}");
    Ok(events)
}

#[tokio::test]
async fn a_flipped_byte_on_disk_is_right_data_or_an_error() {
    let (folder, scratch) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let whole = folder.path().join("whole");
    let bed = Bed::on(open(&whole).unwrap(), AnyLayout::default()).await;
    bed.fill(&id(), &[3; 40]).await;
    let events = bed.replay().await.unwrap();
    drop(bed);
    let mut all = Vec::new();
    files(&whole, &mut all);
    let (mut right, mut told) = (0, 0);
    for seed in 0..SEEDS {
        let random = Random::seeded(seed);
        let damaged = scratch.path().join(seed.to_string());
        copy(&whole, &damaged);
        let file = &all[usize::try_from(random.bits() % all.len() as u64).unwrap()];
        let file = damaged.join(file.strip_prefix(&whole).unwrap());
        let (mut bytes, len) = (used(&file), fs::metadata(&file).unwrap().len());
        let at = usize::try_from(random.bits() % bytes.len() as u64).unwrap();
        bytes[at] ^= 1 << (random.bits() % 8);
        write(&file, &bytes, len);
        let case = format!("seed {seed}, {} at {at}", file.display());
        match read(&damaged).await {
            Ok(found) => {
                assert_eq!(found, events, "{case}");
                right += 1;
            }
            Err(error) => {
                // A changed format number is another format.
                let is_format = ["FORMAT", "version"]
                    .iter()
                    .any(|name| file.ends_with(name));
                let is_told = error.kind() == ErrorKind::Corrupt
                    || (is_format && error.kind() == ErrorKind::Invalid);
                assert!(is_told, "{case}: {error:?}");
                // For people: the engine's own messages have checksums of 39 digits.
                let text = error_chain(&error);
                let longest = text.split(|it: char| !it.is_ascii_digit()).map(str::len);
                assert!(longest.max() < Some(20), "{case}: {text}");
                told += 1;
            }
        }
        fs::remove_dir_all(&damaged).unwrap();
    }
    // Damage in the lock and in the index does no harm.
    assert!(
        right > SEEDS / 4 && told > SEEDS / 4,
        "right={right}, told={told}"
    );
}

/// The end of the log is gone: it looks like a write that was never acknowledged, but the store knows
/// how far its log reached.
#[tokio::test]
async fn a_lost_end_of_the_log_is_an_error() {
    let folder = TempDir::new().unwrap();
    let bed = Bed::on(open(folder.path()).unwrap(), AnyLayout::default()).await;
    bed.fill(&id(), &[1; 10]).await;
    drop(bed);
    let log = folder.path().join("log").join("0000000000000000.log");
    let (bytes, len) = (used(&log), fs::metadata(&log).unwrap().len());
    write(&log, &bytes[..bytes.len() / 2], len);
    let told = read(folder.path()).await.unwrap_err();
    assert_eq!(told.kind(), ErrorKind::Corrupt, "{told:?}");
    // An explicit option opens it with what is left.
    fs::remove_file(folder.path().join("log").join("reached")).unwrap();
    let left = read(folder.path()).await.unwrap();
    assert!(left.len() < 10, "{}", left.len());
}
