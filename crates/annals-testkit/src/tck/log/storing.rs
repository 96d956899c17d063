//! Ingest and sweep: a repeated record is stored once, and never replaces another.

use futures::{StreamExt, TryStreamExt};
use serde_json::{Value as Json, json};

use super::{at, ids, numbered, on_stage, played, record, sweep};
use crate::tck::{Setup, properties};
use annals::items::{Condition, Item, Value};
use annals::journal::{Expected, Journal};
use annals::log::{Data, Ingested, JournalPump, Log, LogEvent, Slot, Span, Time};
use annals::settings::LogSettings;
use annals::store::Store;
use annals::{Codec, ErrorKind, NewEvent};

properties! {
    a_repeated_record_is_stored_once,
    other_content_under_one_id_is_a_conflict_and_a_dead_letter,
    two_sources_with_one_id_in_one_slot_are_distinguished,
    invalid_records_do_not_affect_others,
    an_unreadable_record_becomes_a_dead_letter,
    late_events_are_stored_and_counted,
    slots_of_two_lengths_never_share_a_table,
    a_pump_resumes_at_its_checkpoint,
    stats_describe_the_tables,
}

/// In the buffer, in one batch, and when its event is stored already.
pub(crate) async fn a_repeated_record_is_stored_once(setup: Setup) {
    on_stage(setup, LogSettings::default(), |stage| async move {
        let one = || numbered("a", 1);
        let report = stage.log.ingest(vec![one(), numbered("b", 1), one()]).await;
        assert_eq!((report.stored(), report.present()), (2, 1));
        let report = stage.log.ingest(vec![one()]).await;
        assert_eq!((report.stored(), report.present()), (0, 1));
        assert!(matches!(
            stage.log.ingest_one(one()).await,
            Ingested::Present
        ));
        assert_eq!(sweep(&stage.log).await.moved, 2);
        stage.ingest(vec![one()]).await;
        let report = sweep(&stage.log).await;
        assert_eq!(
            (report.moved, report.repeated, report.dead_letters),
            (0, 1, 0)
        );
        assert_eq!(ids(&stage.log, Span::ALL).await, ["a", "b"]);
        assert_eq!(stage.buffered().await, 0);
    })
    .await;
}

/// Neither in the buffer nor in its slot is anything replaced.
pub(crate) async fn other_content_under_one_id_is_a_conflict_and_a_dead_letter(setup: Setup) {
    on_stage(setup, LogSettings::default(), |stage| async move {
        let saying = |what: &str| record("a", 1, &json!({"says": what}));
        stage.ingest(vec![saying("first")]).await;
        let report = stage
            .log
            .ingest(vec![saying("second"), numbered("b", 2)])
            .await;
        let told: Vec<_> = report.problems().map(|(n, e)| (n, e.kind())).collect();
        assert_eq!(told, [(0, ErrorKind::Conflict)]);
        let one = stage.log.ingest_one(saying("second")).await;
        assert!(matches!(&one, Ingested::Conflict(e) if e.to_string().contains("event id=`a`")));
        let _ = sweep(&stage.log).await;
        // The buffer is empty by now; the sweep detects it.
        stage.ingest(vec![saying("second")]).await;
        let report = sweep(&stage.log).await;
        assert_eq!((report.moved, report.dead_letters, report.left), (0, 1, 0));
        assert!(report.problems[0].to_string().contains("event id=`a`"));
        assert_eq!(stage.buffered().await, 0);
        let events = played(&stage.log, Span::ALL).await;
        assert_eq!(events.len(), 2);
        assert_eq!(events[0].data(), Data::Json(json!({"says": "first"})));
        let aside: Vec<_> = stage
            .log
            .dead_letters()
            .try_collect()
            .await
            .expect("a list");
        assert_eq!(aside.len(), 1);
        assert!(aside[0].reason.contains("other content"), "{aside:?}");
        assert_eq!(aside[0].record.get("event_id"), Some(&Value::from("a")));
        for is_found in [true, false] {
            let deleted = stage.log.delete_dead_letter(&aside[0].name).await;
            assert_eq!(deleted.expect("a deletion"), is_found);
        }
        assert!(stage.log.dead_letters().next().await.is_none());
    })
    .await;
}

/// One becomes a dead letter, and the other is played back.
pub(crate) async fn two_sources_with_one_id_in_one_slot_are_distinguished(setup: Setup) {
    on_stage(setup, LogSettings::default(), |stage| async move {
        let mut other = record("a", 1, &json!(2));
        other.source = "other".to_owned();
        let mut same = record("a", 1, &json!(1));
        same.source = "the same from elsewhere".to_owned();
        stage.ingest(vec![record("a", 1, &json!(1))]).await;
        let _ = sweep(&stage.log).await;
        stage.ingest(vec![other, same]).await;
        let report = sweep(&stage.log).await;
        assert_eq!(
            (report.moved, report.repeated, report.dead_letters),
            (0, 1, 1)
        );
        let events = played(&stage.log, Span::ALL).await;
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].data(), Data::Json(json!(1)));
    })
    .await;
}

/// Each is reported by its id.
pub(crate) async fn invalid_records_do_not_affect_others(setup: Setup) {
    on_stage(setup, LogSettings::default(), |stage| async move {
        let large = |id: &str, bytes: usize| record(id, 1, &json!("x".repeat(bytes)));
        let mut ends = numbered("ends", 1);
        ends.time = Time::END;
        // An event is stored twice in its item, so it may have half of its size.
        let records = vec![
            numbered("a", 1),
            large("huge", 400_000),
            large("large", 160_000),
            large("fits", 130_000),
            ends,
            numbered("z", 1),
        ];
        let report = stage.log.ingest(records).await;
        let told: Vec<_> = report.problems().map(|(n, e)| (n, e.to_string())).collect();
        assert_eq!(told.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1, 2, 4]);
        for ((_, told), id) in told.iter().zip(["huge", "large", "ends"]) {
            assert!(told.contains(&format!("event id=`{id}`")), "{told}");
        }
        let report = sweep(&stage.log).await;
        assert_eq!((report.moved, report.dead_letters), (3, 0));
        assert_eq!(ids(&stage.log, Span::ALL).await, ["a", "fits", "z"]);
    })
    .await;
}

/// It does not block others, and is not swept again.
pub(crate) async fn an_unreadable_record_becomes_a_dead_letter(setup: Setup) {
    on_stage(setup, LogSettings::default(), |stage| async move {
        stage.ingest(vec![numbered("a", 1)]).await;
        let bare = |key: &str| Item::new().with("partition_key", key);
        let odd = [
            bare("no-attributes"),
            bare("text-for-time")
                .with("event_id", "x")
                .with("event_time_stamp", "soon")
                .with("record_payload", Value::M(Default::default())),
            bare("year-9999")
                .with("event_id", "y")
                .with("event_time_stamp", 253_402_300_799_000u64)
                .with("record_payload", Value::M(Default::default())),
        ];
        for item in &odd {
            let table = &stage.log.tables().buffer;
            let put = stage
                .setup
                .items
                .put(table, item.clone(), Condition::Always);
            put.await.expect("a put");
        }
        let report = sweep(&stage.log).await;
        assert_eq!((report.moved, report.dead_letters, report.left), (1, 3, 0));
        assert!(report.horizon.is_some());
        let aside: Vec<_> = stage
            .log
            .dead_letters()
            .try_collect()
            .await
            .expect("a list");
        for item in &odd {
            assert!(aside.iter().any(|aside| aside.record == *item), "{item:?}");
        }
        assert_eq!(stage.buffered().await, 0);
    })
    .await;
}

/// They are in their slot, and reported as late.
pub(crate) async fn late_events_are_stored_and_counted(setup: Setup) {
    on_stage(setup, LogSettings::default(), |stage| async move {
        stage.fill(vec![numbered("a", 0)]).await;
        let horizon = stage
            .log
            .horizon()
            .await
            .expect("a read")
            .expect("a horizon");
        assert!(horizon > at(500), "the clock is years later");
        stage.ingest(vec![numbered("late", 500)]).await;
        let report = sweep(&stage.log).await;
        assert_eq!((report.moved, report.late), (1, 1));
        assert_eq!(report.late_events[0].as_str(), "late");
        assert_eq!(ids(&stage.log, Span::ALL).await, ["a", "late"]);
        // The horizon does not go back.
        assert_eq!(stage.log.horizon().await.expect("a read"), Some(horizon));
        stage.ingest(vec![numbered("late", 500)]).await;
        let report = sweep(&stage.log).await;
        assert_eq!((report.late, report.repeated_late), (0, 1));
    })
    .await;
}

/// Opening it with another length is an error that names the stored one.
pub(crate) async fn slots_of_two_lengths_never_share_a_table(setup: Setup) {
    on_stage(setup, LogSettings::default(), |stage| async move {
        stage.fill(vec![numbered("a", 0)]).await;
        let mut other = stage.settings.clone();
        other.time_unit_ms = 60_000;
        let (items, clock) = (stage.setup.items.clone(), stage.setup.clock.clone());
        let error = Log::open(Store::from(items).with_clock(clock), &other)
            .await
            .expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("found=`1000`"), "{error}");
    })
    .await;
}

async fn append(journal: &Journal, id: &str, event: NewEvent) {
    let id = id.parse().expect("an id");
    let appended = journal.append(&id, Expected::Any, event).await;
    appended.expect("an append");
}

/// Every event of every id, once, in the order of its number.
pub(crate) async fn a_pump_resumes_at_its_checkpoint(setup: Setup) {
    on_stage(setup, LogSettings::default(), |stage| async move {
        let journal = stage.setup.journal().await;
        let long = format!("Long|{}", "x".repeat(1_500));
        for _ in 0..3 {
            append(
                &journal,
                "Cart|1",
                NewEvent::new(Codec::Json, r#"{"n":1}"#).tag("t"),
            )
            .await;
            append(&journal, &long, NewEvent::new(Codec::Bytes, vec![0, 255])).await;
        }
        append(
            &journal,
            "Cart|2",
            NewEvent::new(Codec::Bytes, vec![7; 500_000]),
        )
        .await;
        let pump = || JournalPump::new(journal.clone(), stage.log.clone(), "j");
        let report = pump().pass().await.expect("a pass");
        assert_eq!(
            (report.ids, report.events, report.without_payload),
            (3, 7, 1)
        );
        assert_eq!(report.problems, Vec::<String>::new());
        stage.advance(1);
        append(&journal, "Cart|1", NewEvent::new(Codec::Text, "last")).await;
        assert_eq!(pump().pass().await.expect("a pass").events, 1);
        assert_eq!(pump().pass().await.expect("a pass").events, 0);
        let _ = sweep(&stage.log).await;
        let events = played(&stage.log, Span::ALL).await;
        assert_eq!(events.len(), 8);
        let of = |event: &LogEvent, name: &str| match event.data() {
            Data::Json(json) => json[name].clone(),
            Data::Bytes(_) => Json::Null,
        };
        let cart: Vec<_> = events
            .iter()
            .filter(|e| of(e, "persistence_id") == "Cart|1")
            .collect();
        let numbers: Vec<_> = cart
            .iter()
            .map(|event| of(event, "sequence_number"))
            .collect();
        assert_eq!(numbers, [json!(1), json!(2), json!(3), json!(4)]);
        assert_eq!(of(cart[0], "payload"), json!({"n": 1}));
        assert_eq!(of(cart[0], "tags"), json!(["t"]));
        assert_eq!(of(cart[3], "payload"), json!("last"));
        let bytes = events
            .iter()
            .find(|e| of(e, "persistence_id") == long.as_str());
        assert_eq!(
            of(bytes.expect("it is there"), "payload_base64"),
            json!("AP8=")
        );
    })
    .await;
}

/// For operators.
pub(crate) async fn stats_describe_the_tables(setup: Setup) {
    on_stage(setup, LogSettings::default(), |stage| async move {
        let stats = stage.log.stats().await.expect("stats");
        assert_eq!(
            (stats.buffered, stats.horizon, stats.first_slot),
            (0, None, None)
        );
        assert!(stats.is_indexed);
        stage
            .fill(vec![numbered("a", 0), numbered("b", 90_000_000)])
            .await;
        stage.ingest(vec![numbered("c", 7), numbered("d", 8)]).await;
        let stats = stage.log.stats().await.expect("stats");
        assert_eq!((stats.buffered, stats.oldest_buffered), (2, Some(at(7))));
        assert_eq!((stats.days, stats.dead_letters), (2, 0));
        let slots = [stats.first_slot, stats.last_slot].map(|slot| slot.map(Slot::start));
        assert_eq!(slots, [Some(at(0)), Some(at(90_000_000))]);
        let made = stage
            .setup
            .items
            .describe_table(stage.log.tables().event.name())
            .await;
        let made = made.expect("a description").expect("a table");
        assert_eq!(
            stage.log.tables().event.differences(&made),
            Vec::<String>::new()
        );
    })
    .await;
}
