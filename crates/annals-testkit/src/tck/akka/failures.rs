//! Errors: a missing table, and the context of a failed request. On every layout.

use std::error::Error as StdError;

use super::super::properties;
use super::stage::{Stage, after, append, id, replay, text};
use crate::tck::Setup;
use annals::items::{Condition, Item, Key, KeyPart, KeyType, Query, TableSpec, Value, Write};
use annals::journal::{Append, Window};
use annals::{Error, ErrorKind, NewEvent, PersistenceId};

properties! {
    fr1_a_missing_table_is_one_error_that_names_it_and_the_remedy,
    fr2_the_journal_works_again_when_its_table_is_back,
    fr5_a_missing_table_is_named,
    fr8_the_error_of_a_put_has_request_table_and_key,
    fr9_the_error_of_a_delete_has_request_table_and_key,
    fr10_the_error_of_a_query_has_request_table_and_key,
    fr11_the_error_of_a_batch_of_writes_distinguishes_puts_and_deletes,
    fr12_the_error_of_a_batch_of_reads_has_its_first_keys_and_their_number,
}

/// The journal's table, dropped.
async fn missing(setup: &Setup) -> TableSpec {
    let table = Stage::of(setup).table;
    setup.items.drop_table(table.name()).await.expect("a drop");
    table
}

/// The error and its causes, a line each.
fn lines(error: &Error) -> Vec<String> {
    let first: &dyn StdError = error;
    let chain = std::iter::successors(Some(first), |&error| error.source());
    chain.map(ToString::to_string).collect()
}

/// Exactly one line says what is missing and what to do.
fn check_missing(error: &Error, table: &TableSpec) {
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    let (lines, fact) = (lines(error), format!("table=`{}`", table.name()));
    let naming = lines.iter().filter(|line| line.contains(&fact)).count();
    assert_eq!(naming, 1, "{lines:?} name {fact} once");
    let line = lines.iter().find(|line| line.contains(&fact));
    let line = line.expect("it was counted");
    assert!(line.contains("`annals tables create`"), "{line}");
    assert_eq!(line.matches(&fact).count(), 1, "{line}");
}

/// FR1: when opening, or at the first use.
pub(crate) async fn fr1_a_missing_table_is_one_error_that_names_it_and_the_remedy(setup: Setup) {
    let table = missing(&setup).await;
    let opened = setup.layout.journal(&setup.store()).await;
    let failed = match opened {
        Ok(journal) => journal.highest(&id()).await.expect_err("no table"),
        Err(error) => error,
    };
    check_missing(&failed, &table);
}

fn check_operation(error: &Error, operation: &str, id: &PersistenceId) {
    let told = error.to_string();
    for fact in [format!("operation=`{operation}`"), format!("id=`{id}`")] {
        assert!(told.contains(&fact), "{told} tells {fact}");
    }
}

/// FR2: calls fail with an error, and the same handle works again.
pub(crate) async fn fr2_the_journal_works_again_when_its_table_is_back(setup: Setup) {
    let journal = setup.journal().await;
    let table = missing(&setup).await;
    let failed = journal.highest(&id()).await.expect_err("no table");
    check_missing(&failed, &table);
    check_operation(&failed, "highest", &id());
    let failed = replay(&journal, Window::ALL).await.expect_err("no table");
    check_missing(&failed, &table);
    check_operation(&failed, "replay", &id());
    let deleted = journal.delete_to(&id(), super::stage::number(1)).await;
    let failed = deleted.expect_err("no table");
    check_missing(&failed, &table);
    check_operation(&failed, "delete", &id());

    let created = setup.items.create_table(&table, Default::default()).await;
    created.expect("the table again");
    assert_eq!(journal.highest(&id()).await.expect("highest"), None);
    let last = append(&journal, 0, 2).await;
    append(&journal, last, 1).await;
    let found = replay(&journal, Window::ALL).await.expect("a replay");
    assert_eq!(found, [1, 2, 3]);
}

/// FR5: single events and several.
pub(crate) async fn fr5_a_missing_table_is_named(setup: Setup) {
    let journal = setup.journal().await;
    let table = missing(&setup).await;
    for count in [1, 2] {
        let events: Vec<NewEvent> = (0..count).map(text).collect();
        let failed = journal.append(&id(), after(0), Append::of(events)).await;
        let failed = Error::from(failed.expect_err("no table"));
        check_missing(&failed, &table);
        check_operation(&failed, "append", &id());
    }
}

/// Checks that the error ends with the request, and contains no data of the items.
fn check_told(error: &Error, table: &TableSpec, request: &str, keys: &str) {
    check_missing(error, table);
    let told = lines(error).join(" <- ");
    for fact in [&format!("request=`{request}`"), keys] {
        assert!(told.contains(fact), "{told} tells {fact}");
    }
    assert!(!format!("{told} {error:?}").contains(SECRET), "{told}");
}

/// Data that no error may contain.
const SECRET: &str = "confidential";

fn part(key_type: KeyType, n: u64) -> KeyPart {
    match key_type {
        KeyType::S => KeyPart::S(format!("{n}")),
        KeyType::N => KeyPart::from(n),
        KeyType::B => KeyPart::B(vec![n as u8].into()),
    }
}

fn key(table: &TableSpec, n: u64) -> Key {
    let key = Key::new(part(table.key().partition.key_type, n));
    match &table.key().sort {
        Some(sort) => key.sorted(part(sort.key_type, n)),
        None => key,
    }
}

fn item(table: &TableSpec, n: u64) -> Item {
    let Key { partition, sort } = key(table, n);
    let names = table.key().attributes().map(|a| a.name.clone());
    let values = [Some(partition), sort].into_iter().flatten();
    let key: Item = names.zip(values.map(Value::from)).collect();
    key.with("payload-of-a-test", SECRET)
}

/// FR8.
pub(crate) async fn fr8_the_error_of_a_put_has_request_table_and_key(setup: Setup) {
    let table = missing(&setup).await;
    let put = setup.items.put(&table, item(&table, 7), Condition::Absent);
    let failed = Error::from(put.await.expect_err("no table"));
    let fact = format!("key=`{}`", key(&table, 7));
    check_told(&failed, &table, "put", &fact);
}

/// FR9.
pub(crate) async fn fr9_the_error_of_a_delete_has_request_table_and_key(setup: Setup) {
    let table = missing(&setup).await;
    let items = &setup.items;
    let deleted = items.delete(&table, key(&table, 7), Condition::Always);
    let failed = Error::from(deleted.await.expect_err("no table"));
    let fact = format!("key=`{}`", key(&table, 7));
    check_told(&failed, &table, "delete", &fact);
}

/// FR10.
pub(crate) async fn fr10_the_error_of_a_query_has_request_table_and_key(setup: Setup) {
    let table = missing(&setup).await;
    let partition = key(&table, 7).partition;
    let query = Query::of(partition.clone());
    let failed = setup.items.query(&table, query).await;
    let failed = failed.expect_err("no table");
    let fact = format!("partition=`{partition}`");
    check_told(&failed, &table, "query", &fact);
}

/// FR11.
pub(crate) async fn fr11_the_error_of_a_batch_of_writes_distinguishes_puts_and_deletes(
    setup: Setup,
) {
    let table = missing(&setup).await;
    let puts = (1..=2).map(|n| Write::Put(item(&table, n)));
    let deletes = (3..=3).map(|n| Write::Delete(key(&table, n)));
    let written = setup.items.write(&table, puts.chain(deletes).collect());
    let failed = Error::from(written.await.expect_err("no table"));
    let [one, two, three] = [1, 2, 3].map(|n| key(&table, n));
    let facts = format!("puts=`{one}; {two}`, delete=`{three}`");
    check_told(&failed, &table, "write", &facts);
}

/// FR12.
pub(crate) async fn fr12_the_error_of_a_batch_of_reads_has_its_first_keys_and_their_number(
    setup: Setup,
) {
    let table = missing(&setup).await;
    let keys = (1..=5).map(|n| key(&table, n)).collect();
    let failed = setup.items.get(&table, keys).await.expect_err("no table");
    let [one, two, three] = [1, 2, 3].map(|n| key(&table, n));
    let fact = format!("keys=`{one}; {two}; {three} and 2 more`");
    check_told(&failed, &table, "get", &fact);
    let failed = setup.items.get(&table, vec![key(&table, 9)]).await;
    let fact = format!("key=`{}`", key(&table, 9));
    check_told(&failed.expect_err("no table"), &table, "get", &fact);
}
