//! The Lambda functions, with events of AWS and the permissions of the template.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use annals::items::Items;
use annals::layout::{AnnalsLayout, Layout};
use annals::log::{Data, Log, LogEvent, LogTables, Span};
use annals::memory::Memory;
use annals::settings::LogSettings;
use annals::store::Store;
use annals::store::Verb;
use annals::{Clock, ErrorKind, ManualClock};
use annals_aws::kinesis::Begin;
use annals_aws::template::{LogResources, Template};
use annals_lambda::{Environment, Function, Step};
use annals_testkit::faulty::Faulty;
use futures::{FutureExt, TryStreamExt};
use serde_json::{Value as Json, json};

use crate::kinesis::place::{Place, drain, numbered};
use crate::script::{Act, Script};

const MINUTE: Duration = Duration::from_secs(60);

fn kinesis_event() -> Json {
    serde_json::from_str(include_str!("../fixtures/kinesis-event.json")).unwrap()
}

fn scheduled_event() -> Json {
    serde_json::from_str(include_str!("../fixtures/scheduled-event.json")).unwrap()
}

fn environment(step: Step) -> Environment {
    let environment = Environment::read(|name| match name {
        "ANNALS_STEP" => Some(step.to_string()),
        "ANNALS_PLAYBACK_STREAM" if step == Step::Playback => Some("replay".to_owned()),
        _ => None,
    });
    environment.unwrap()
}

/// A log on a store, and functions for it.
struct Stage {
    items: Arc<dyn Items>,
    clock: Arc<dyn Clock>,
    log: Log,
}

impl Stage {
    async fn on(items: Arc<dyn Items>) -> Self {
        // When the records of the fixture arrived.
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at_ms(1_545_084_720_000));
        let settings = LogSettings::default();
        let log = Log::create(
            Store::from(items.clone()).with_clock(clock.clone()),
            &settings,
        )
        .await;
        Self {
            log: log.unwrap(),
            items,
            clock,
        }
    }

    async fn function(&self, step: Step) -> Function {
        let store = Store::from(self.items.clone()).with_clock(self.clock.clone());
        let function = Function::on(environment(step), &store, None).await;
        function.unwrap()
    }

    async fn events(&self) -> Vec<LogEvent> {
        self.log.playback(Span::ALL).try_collect().await.unwrap()
    }
}

#[tokio::test]
async fn pumps_and_sweeps_a_batch() {
    let stage = Stage::on(Arc::new(Memory::new())).await;
    let pump = stage.function(Step::Pump).await;
    let sweep = stage.function(Step::Sweep).await;
    // Lambda delivers a batch at least once, perhaps again after a sweep.
    for moved in [2, 0] {
        for _ in 0..2 {
            let answer = pump.handle(kinesis_event(), MINUTE).await.unwrap();
            assert_eq!(answer, json!({"batchItemFailures": []}));
        }
        let answer = sweep.handle(scheduled_event(), MINUTE).await.unwrap();
        assert_eq!(
            (&answer["more"], &answer["moved"]),
            (&json!(false), &json!(moved))
        );
        assert_eq!(answer["set_aside"], 0);
    }
    let events = stage.events().await;
    assert_eq!(events.len(), 2);
    assert_eq!(events[0].time.to_string(), "2018-12-17T22:10:50.987Z");
    assert_eq!(events[0].data(), Data::Json(json!({"text": "hello"})));
    assert_eq!(events[1].data(), Data::Bytes("This is only a test.".into()));
    let number = "49590338271490256608559692538361571095921575989136588898";
    let id = format!("shardId-000000000006:{number}");
    assert_eq!(events[0].event_id.as_str(), id);
    let role = &events[0].payload.as_map()["invokeIdentityArn"];
    assert_eq!(
        role.as_str(),
        Some("arn:aws:iam::123456789012:role/lambda-role")
    );
}

#[tokio::test]
async fn redelivers_records_that_may_not_be_stored() {
    let items = Arc::new(Faulty::scripted(Arc::new(Memory::new())));
    let stage = Stage::on(items.clone()).await;
    let pump = stage.function(Step::Pump).await;
    items.fail_next(Verb::Write, 1, ErrorKind::Unavailable);
    let answer = pump.handle(kinesis_event(), MINUTE).await.unwrap();
    let number = "49590338271490256608559692538361571095921575989136588898";
    let want = json!({"batchItemFailures": [{"itemIdentifier": number}]});
    assert_eq!(answer, want);
    let answer = pump.handle(kinesis_event(), MINUTE).await.unwrap();
    assert_eq!(answer, json!({"batchItemFailures": []}));
}

#[tokio::test]
async fn refuses_an_event_of_another_source() {
    let stage = Stage::on(Arc::new(Memory::new())).await;
    let pump = stage.function(Step::Pump).await;
    let sqs = json!({"Records": [{"messageId": "1", "body": "x", "eventSource": "aws:sqs"}]});
    for event in [scheduled_event(), json!({"Records": [1]}), sqs] {
        let error = pump.handle(event.clone(), MINUTE).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{event}: {error}");
    }
    assert_eq!(stage.log.stats().await.unwrap().buffered, 0);
}

#[tokio::test]
async fn a_malformed_record_does_not_block_the_others() {
    let stage = Stage::on(Arc::new(Memory::new())).await;
    let pump = stage.function(Step::Pump).await;
    // Redelivery would not help until it expires.
    for (n, name, broken) in [
        (0, "approximateArrivalTimestamp", json!("soon")),
        (1, "approximateArrivalTimestamp", json!(null)),
        (0, "sequenceNumber", json!(1e300)),
    ] {
        let mut event = kinesis_event();
        event["Records"][n]["kinesis"][name] = broken;
        event["Records"][1 - n]["eventID"] = json!(format!("shardId-000000000006:{n}{name}"));
        let answer = pump.handle(event, MINUTE).await.unwrap();
        assert_eq!(answer, json!({"batchItemFailures": []}));
    }
    assert_eq!(stage.log.stats().await.unwrap().buffered, 3);
}

#[tokio::test]
async fn a_sweep_at_its_time_limit_reports_more() {
    let items = Arc::new(Faulty::scripted(Arc::new(Memory::new())));
    let stage = Stage::on(items.clone()).await;
    let pump = stage.function(Step::Pump).await;
    pump.handle(kinesis_event(), MINUTE).await.unwrap();
    let sweep = stage.function(Step::Sweep).await;
    // The store does not respond.
    items.hold(Verb::Scan);
    let none = Duration::ZERO;
    let answer = sweep.handle(scheduled_event(), none).await.unwrap();
    assert_eq!(answer, json!({"more": true}));
    items.release(Verb::Scan);
    let answer = sweep.handle(scheduled_event(), MINUTE).await.unwrap();
    assert_eq!(
        (&answer["more"], &answer["moved"]),
        (&json!(false), &json!(2))
    );
    assert_eq!(stage.events().await.len(), 2);
}

#[tokio::test]
async fn a_sweep_that_fails_is_an_error() {
    let items = Arc::new(Faulty::scripted(Arc::new(Memory::new())));
    let stage = Stage::on(items.clone()).await;
    let sweep = stage.function(Step::Sweep).await;
    items.fail_next(Verb::Scan, 1, ErrorKind::Unavailable);
    let error = sweep.handle(scheduled_event(), MINUTE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

/// A log with the events of these records, and the playback function for it.
async fn playback(records: Vec<(String, String)>) -> (Place, Function) {
    let place = Place::here().await;
    place.create(1).await;
    place.create_named(&"replay".parse().unwrap(), 1).await;
    place.put(records).await;
    let _ = drain(&mut place.pump(Begin::TrimHorizon).await).await;
    place.events().await;
    let function = played_by(&place, place.items.clone()).await;
    (place, function)
}

async fn played_by(place: &Place, items: Arc<dyn Items>) -> Function {
    let store = Store::from(items).with_clock(place.clock.clone());
    let kinesis = Some(place.kinesis.clone());
    let function = Function::on(environment(Step::Playback), &store, kinesis);
    function.await.unwrap()
}

/// The clock advances a minute every so many requests.
fn a_minute_passes(place: &Place, requests: u64) {
    let (clock, mut n) = (place.clock.clone(), 0);
    place.fake().fault(move |_, _| {
        n += 1;
        if n % requests == 0 {
            let _ = clock.sleep(MINUTE).now_or_never();
        }
        None
    });
}

/// Calls a playback with its own response until there is no more. Returns the responses.
async fn play_through(function: &Function, mut event: Json) -> Vec<Json> {
    let mut answers = Vec::new();
    loop {
        event = function.handle(event, MINUTE).await.unwrap();
        answers.push(event.clone());
        assert!(answers.len() < 100, "{event}");
        if event["more"] == false {
            return answers;
        }
    }
}

#[tokio::test]
async fn a_playback_continues_with_its_own_response() {
    // A request has one record of each key.
    let hot = (0..30).map(|n| ("key".to_owned(), format!("{n}")));
    for (records, requests) in [(numbered("a", 30), 1), (hot.collect(), 7)] {
        let (place, function) = playback(records).await;
        a_minute_passes(&place, requests);
        let start = json!({"start": "2023-11-14T22:00:00Z", "end": 1_700_000_900_000u64});
        let answers = play_through(&function, start).await;
        assert!(answers.len() > 1, "one call was enough");
        let played = answers.iter().map(|answer| answer["played"].as_u64());
        let put = place.fake().state().records("replay");
        let mut found: Vec<_> = put.iter().map(|record| record.data.clone()).collect();
        let first = place.fake().state().records(place.stream.as_str());
        let want: Vec<_> = first.iter().map(|record| record.data.clone()).collect();
        assert_eq!(played.sum::<Option<u64>>(), Some(found.len() as u64));
        match requests {
            // Records sent after the reported position come again.
            1 => assert!((30..60).contains(&found.len()), "{answers:?}"),
            // A call ends with the request in which its time limit passed.
            _ => assert_eq!(answers[0]["played"], 7, "{answers:?}"),
        }
        let mut seen = std::collections::HashSet::new();
        found.retain(|data| seen.insert(data.clone()));
        found.sort_by_key(|data| want.iter().position(|other| other == data));
        assert_eq!(found, want);
    }
}

#[tokio::test]
async fn a_playback_crosses_years_of_empty_slots() {
    let (place, _) = playback(Vec::new()).await;
    let behind = crate::server::emulator().await;
    let (clock, mut n) = (place.clock.clone(), 0);
    // A minute passes with so many requests.
    let script = Script::in_front_of(&behind, move |_, _| {
        n += 1;
        if n % 140 == 0 {
            let _ = clock.sleep(MINUTE).now_or_never();
        }
        Act::Forward
    })
    .await;
    let items = crate::server::open_at(&script.endpoint, place.clock.clone()).await;
    // Without an index every slot is read.
    let tables = LogTables::new(&LogSettings::default()).unwrap();
    for table in [&tables.buffer, &tables.event] {
        items.create_table(table, Default::default()).await.unwrap();
    }
    let function = played_by(&place, Arc::new(items)).await;
    let end = place.clock.now_ms();
    let span = json!({"start": end - 350_000, "end": end});
    let answers = play_through(&function, span).await;
    // The last response has the start of the last call.
    let cut = answers.iter().filter(|answer| answer["more"] == true);
    let starts: Vec<_> = cut.map(|answer| answer["start"].as_str()).collect();
    assert!(starts.len() > 1, "{answers:?}");
    assert!(starts.is_sorted_by(|a, b| a < b), "{answers:?}");
}

#[tokio::test]
async fn a_playback_defaults_to_the_last_15_minutes() {
    let (place, function) = playback(numbered("a", 10)).await;
    let answer = function.handle(json!({}), MINUTE).await.unwrap();
    let now = place.log().await.now();
    let end: annals::log::Time = answer["end"].as_str().unwrap().parse().unwrap();
    let start: annals::log::Time = answer["start"].as_str().unwrap().parse().unwrap();
    assert!(end <= now);
    assert_eq!(start.ms(), (end.ms() - 900_000) / 1_000 * 1_000);
    for event in [
        json!({"begin": 1}),
        json!({"start": "soon"}),
        json!({"after": "x"}),
        json!([]),
    ] {
        let error = function.handle(event, MINUTE).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

/// The permissions of a role: actions by table or stream.
fn allowed(template: &Json, role: &str) -> BTreeMap<String, BTreeSet<String>> {
    let policy = &template["Resources"][role]["Properties"]["Policies"][0]["PolicyDocument"];
    let mut allowed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for statement in policy["Statement"].as_array().unwrap() {
        for resource in statement["Resource"].as_array().unwrap() {
            let Some(name) = resource["Fn::GetAtt"][0].as_str() else {
                continue;
            };
            let actions = statement["Action"].as_array().unwrap();
            let actions = actions.iter().map(|action| action.as_str().unwrap());
            let names = actions.map(|action| action.split(':').next_back().unwrap().to_owned());
            allowed.entry(name.to_owned()).or_default().extend(names);
        }
    }
    allowed
}

/// The resource name of the table of a request.
fn table_of(body: &Json) -> &'static str {
    let text = body.to_string();
    match (text.contains("annals-buffer"), text.contains("annals-log")) {
        (true, false) => "BufferTable",
        (false, true) => "EventTable",
        _ => panic!("{text}"),
    }
}

#[tokio::test]
async fn every_function_needs_exactly_the_permissions_of_its_role() {
    let (stream, replay) = ("events".parse().unwrap(), "replay".parse().unwrap());
    let log = LogResources::new(LogSettings::default(), stream, replay);
    let tables = AnnalsLayout::default().tables().unwrap();
    let template = Template::new(&tables, Default::default(), Some(&log)).unwrap();
    let mut large = kinesis_event();
    large["Records"][1]["kinesis"]["data"] = json!("A".repeat(500_000));
    large["Records"][1]["eventID"] = json!("shardId-000000000006:large");
    let pump = || (Step::Pump, vec![kinesis_event(), large.clone()]);
    let sweep = || (Step::Sweep, vec![scheduled_event(), scheduled_event()]);
    // Each step is the first to use the tables once.
    for calls in [
        vec![pump(), sweep(), (Step::Playback, vec![json!({"start": 0})])],
        vec![sweep(), pump(), sweep()],
        vec![(Step::Playback, vec![json!({})]), pump(), sweep()],
    ] {
        stays_within(&template, calls).await;
    }
}

/// Calls functions on new tables, and compares their requests with the permissions of their roles.
async fn stays_within(template: &Template, calls: Vec<(Step, Vec<Json>)>) {
    // An emulator of its own: the tables have the default names.
    let behind = crate::server::emulator().await;
    let script = Script::in_front_of(&behind, |_, _| Act::Forward).await;
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at_ms(1_545_084_720_000));
    let items = Arc::new(crate::server::open_at(&script.endpoint, clock.clone()).await);
    let settings = LogSettings::default();
    // As CloudFormation creates them: empty.
    let tables = LogTables::new(&settings).unwrap();
    for table in [&tables.buffer, &tables.event] {
        items.create_table(table, Default::default()).await.unwrap();
    }
    let (place, _) = playback(numbered("a", 1)).await;
    for (step, events) in calls {
        let role = match step {
            Step::Pump => "PumpRole",
            Step::Sweep => "SweepRole",
            Step::Playback => "PlaybackRole",
            other => panic!("{other} has no role"),
        };
        let before = script.seen().len();
        let kinesis = Some(place.kinesis.clone());
        let store = Store::from(items.clone()).with_clock(clock.clone());
        let function = Function::on(environment(step), &store, kinesis);
        let function = function.await.unwrap();
        for event in events {
            function.handle(event, MINUTE).await.unwrap();
        }
        let allowed = allowed(template.as_json(), role);
        let mut done: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for seen in &script.seen()[before..] {
            let table = table_of(&seen.body);
            let actions = done.entry(table.to_owned()).or_default();
            actions.insert(seen.operation.clone());
        }
        assert!(!done.is_empty(), "{role}");
        for (table, actions) in &done {
            let allowed = &allowed[table];
            assert!(
                actions.is_subset(allowed),
                "{role} {table}: {actions:?} in {allowed:?}"
            );
        }
    }
    let log = Log::open(Store::from(items).with_clock(clock), &settings)
        .await
        .unwrap();
    assert_eq!(log.stats().await.unwrap().buffered, 0);
}
