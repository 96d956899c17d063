//! The golden chapters of j5ik2o's plugin: each has its own settings and tables, and lines with what
//! the plugin read from them (`interop/j5ik2o/README.md`).

use std::path::Path;
use std::sync::Arc;

use annals::items::{Condition, Item, Items, TableSpec, Value, item_from_json};
use annals::journal::Journal;
use annals::layout::Layout;
use annals::memory::Memory;
use annals::{ManualClock, PersistenceId, Random};
use annals_jvm::AnyLayout;
use annals_testkit::store;
use serde_json::{Value as Json, json};

/// Keys in the plugin's reference.conf that the plugin never reads.
const UNREAD: [&str; 1] = ["dynamo-db-snapshot.columns-def.tags-column-name"];

/// A chapter.
#[derive(Debug)]
pub(crate) struct Chapter {
    pub(crate) name: String,
    pub(crate) settings: AnyLayout,
    /// What the plugin read: the kind of a line, and the line.
    lines: Vec<(String, Json)>,
}

/// The lines of a file.
pub(crate) fn lines(name: &str) -> Vec<Json> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/j5ik2o");
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// The chapters that have a journal.
pub(crate) fn chapters() -> Vec<Chapter> {
    let mut chapters: Vec<Chapter> = Vec::new();
    for line in lines("expected.jsonl") {
        let (kind, line) = line.as_object().unwrap().iter().next().unwrap();
        let name = line["journal"].as_str().unwrap().to_owned();
        match kind.as_str() {
            "chapter" if line["byHand"] == true || name.starts_with('v') => {}
            "chapter" => chapters.push(Chapter {
                name,
                settings: settings_of(&line["settings"]),
                lines: Vec::new(),
            }),
            _ => {
                let of_name = chapters.iter_mut().find(|chapter| chapter.name == name);
                if let Some(chapter) = of_name {
                    chapter.lines.push((kind.clone(), line.clone()));
                }
            }
        }
    }
    assert_eq!(chapters.len(), 9);
    chapters
}

/// What a module of the plugin reads from hand-made values.
pub(crate) fn states(module: &str) -> Vec<Json> {
    let lines = lines("expected.jsonl").into_iter();
    let states = lines.filter_map(|line| line.get("state").cloned());
    states.filter(|line| line["journal"] == module).collect()
}

/// Our settings for the plugin's, which are strings by their full path.
fn settings_of(theirs: &Json) -> AnyLayout {
    let mut all = json!({"layout": "j5ik2o"});
    for (path, value) in theirs.as_object().unwrap() {
        if UNREAD.iter().any(|unread| path.ends_with(unread)) {
            continue;
        }
        let mut place = &mut all;
        for part in path.split('.') {
            place = &mut place[part];
        }
        let plain = value.as_str().unwrap().parse::<Json>().ok();
        let plain = plain.filter(|plain| plain.is_boolean() || plain.is_number());
        *place = plain.unwrap_or_else(|| value.clone());
    }
    serde_json::from_value(all).unwrap()
}

impl Chapter {
    /// What the plugin read, of one kind.
    pub(crate) fn lines(&self, kind: &str) -> Vec<&Json> {
        let of_kind = self.lines.iter().filter(|(one, _)| one == kind);
        of_kind.map(|(_, line)| line).collect()
    }

    /// The lines of a kind for an id.
    pub(crate) fn lines_of(&self, kind: &str, id: &PersistenceId) -> Vec<&Json> {
        let mut lines = self.lines(kind);
        lines.retain(|line| line["persistenceId"] == id.as_str());
        lines
    }

    /// Whether the plugin failed at a request about an id.
    pub(crate) fn failed(&self, request: &str, id: &PersistenceId) -> bool {
        let failures = self.lines_of("failure", id);
        failures.iter().any(|line| line["do"] == request)
    }

    /// All items of a table, `journal` or `snapshot`, in the order of their keys.
    pub(crate) fn items(&self, table: &str) -> Vec<Item> {
        let lines = lines(&format!("{table}-{}.jsonl", self.name)).into_iter();
        lines
            .map(|line| item_from_json(&line["Item"]).unwrap())
            .collect()
    }

    pub(crate) fn journal_table(&self) -> TableSpec {
        self.settings.tables().unwrap().journal
    }

    /// The items of an id's events, in the order of their numbers.
    pub(crate) fn rows_of(&self, items: &[Item], id: &PersistenceId) -> Vec<Item> {
        let columns = &self.settings.j5ik2o.dynamo_db_journal.columns_def;
        let owner = &columns.persistence_id_column_name;
        let is_owned = |item: &&Item| item.get(owner).and_then(Value::as_str) == Some(id.as_str());
        let mut rows: Vec<Item> = items.iter().filter(is_owned).cloned().collect();
        let number = &columns.sequence_nr_column_name;
        rows.sort_by_key(|row| row.get(number).and_then(Value::as_u64));
        rows
    }
}

/// A store with one table of these items.
pub(crate) async fn holding(table: &TableSpec, items: Vec<Item>) -> Arc<Memory> {
    let memory = Memory::new();
    let created = memory.create_table(table, Default::default()).await;
    created.unwrap();
    for item in items {
        let put = memory.put(table, item, Condition::Absent).await;
        put.unwrap();
    }
    Arc::new(memory)
}

/// A journal as a new process opens it, with a fixed time.
pub(crate) async fn open_at(memory: &Arc<Memory>, settings: &AnyLayout, time_ms: u64) -> Journal {
    let clock = Arc::new(ManualClock::at_ms(time_ms));
    let random = Random::from_machine();
    let store = store(memory.clone(), clock, random);
    let opened = settings.journal(&store);
    opened.await.unwrap()
}

pub(crate) fn id_of(line: &Json) -> PersistenceId {
    line["persistenceId"].as_str().unwrap().parse().unwrap()
}
