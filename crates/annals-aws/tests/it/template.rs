//! The CloudFormation template creates the same tables as `tables create`.

use std::collections::BTreeSet;
use std::sync::Arc;

use annals::items::{Billing, Items, TableSpec};
use annals::layout::{AnnalsLayout, Layout, Tables};
use annals::log::LogTables;
use annals::settings::LogSettings;
use annals::{ErrorKind, SystemClock};
use annals_aws::template::{LogResources, Template};
use annals_jvm::{AnyLayout, LayoutName};
use annals_lambda::LambdaSettings;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn log(settings: LogSettings) -> LogResources {
    LogResources::new(
        settings,
        "events".parse().unwrap(),
        "replay".parse().unwrap(),
    )
}

fn tables(layout: LayoutName) -> Tables {
    let layout = AnyLayout {
        layout,
        ..AnyLayout::default()
    };
    layout.tables().unwrap()
}

/// Creates the table of a resource as CloudFormation does: the properties are those of the API.
async fn create(resource: &Json, endpoint: &str) -> TableSpec {
    let mut properties = resource["Properties"].clone();
    // A separate request.
    let recovery = properties.as_object_mut().unwrap();
    recovery.remove("PointInTimeRecoverySpecification");
    let body = properties.to_string();
    let head = [
        "POST / HTTP/1.1",
        "host: localhost",
        "content-type: application/x-amz-json-1.0",
        "x-amz-target: DynamoDB_20120810.CreateTable",
        "x-amz-date: 20260101T000000Z",
        "authorization: AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=x",
        "connection: close",
        &format!("content-length: {}", body.len()),
        "",
        &body,
    ];
    let address = endpoint.replace("http://", "");
    let mut server = TcpStream::connect(address).await.unwrap();
    let request = head.join("\r\n");
    server.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    server.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let store = crate::server::open_at(endpoint, Arc::new(SystemClock::new())).await;
    let name = properties["TableName"].as_str().unwrap();
    let found = store.describe_table(&name.parse().unwrap()).await;
    found.unwrap().unwrap()
}

#[tokio::test]
async fn a_template_has_the_tables_of_the_layout_and_the_log() {
    for layout in [LayoutName::Annals, LayoutName::Akka, LayoutName::J5ik2o] {
        let (layout_tables, log) = (tables(layout), log(LogSettings::default()));
        let template = Template::new(&layout_tables, Billing::OnDemand, Some(&log)).unwrap();
        let endpoint = crate::server::emulator().await;
        let mut created = Vec::new();
        for resource in template.as_json()["Resources"]
            .as_object()
            .unwrap()
            .values()
        {
            if resource["Type"] == "AWS::DynamoDB::Table" {
                assert_eq!(resource["DeletionPolicy"], "Retain");
                created.push(create(resource, &endpoint).await);
            }
        }
        let log_tables = LogTables::new(&log.settings).unwrap();
        let wanted: Vec<&TableSpec> = layout_tables.all().chain(log_tables.all()).collect();
        assert_eq!(created.len(), wanted.len(), "{layout:?}");
        for (created, wanted) in created.iter().zip(wanted) {
            assert_eq!(created.name(), wanted.name());
            let differences = wanted.differences(created);
            assert!(differences.is_empty(), "{layout:?}: {differences:?}");
        }
    }
}

#[test]
fn tables_and_global_indexes_get_the_provisioned_capacity() {
    let billing = Billing::Provisioned {
        read_units: 3,
        write_units: 4,
    };
    let template = Template::new(&tables(LayoutName::J5ik2o), billing, None).unwrap();
    let table = &template.as_json()["Resources"]["JournalTable"]["Properties"];
    let want = json!({"ReadCapacityUnits": 3, "WriteCapacityUnits": 4});
    assert_eq!(table["ProvisionedThroughput"], want);
    let index = &table["GlobalSecondaryIndexes"][0];
    assert_eq!(index["ProvisionedThroughput"], want);
    assert!(template.as_json()["Resources"]["PumpFunction"].is_null());
}

#[test]
fn refuses_two_tables_or_streams_of_the_same_name() {
    let tables = AnnalsLayout::default().tables().unwrap();
    let refused = |log: &LogResources| {
        let error = Template::new(&tables, Billing::OnDemand, Some(log)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    };
    let mut settings = LogSettings::default();
    settings.event_table = Some(tables.journal.name().clone());
    let text = refused(&log(settings));
    assert!(text.contains("two tables have the same name"), "{text}");
    let mut one = log(LogSettings::default());
    one.stream = one.playback_stream.clone();
    let text = refused(&one);
    assert!(text.contains("events would loop"), "{text}");
}

/// The actions of the application's policy: on tables, and on indexes.
fn policy_actions(layout: LayoutName) -> [BTreeSet<String>; 2] {
    let template = Template::new(&tables(layout), Billing::OnDemand, None).unwrap();
    let policy = &template.as_json()["Resources"]["ApplicationPolicy"]["Properties"];
    let statements = policy["PolicyDocument"]["Statement"].as_array().unwrap();
    let actions = |statement: &Json| {
        let actions = statement["Action"].as_array().unwrap().iter();
        let actions = actions.map(|action| action.as_str().unwrap());
        let names = actions.map(|action| action.strip_prefix("dynamodb:").unwrap());
        names.map(str::to_owned).collect()
    };
    assert_eq!(statements.len(), 2);
    [actions(&statements[0]), actions(&statements[1])]
}

/// The words in code font.
fn in_code_font(text: &str) -> BTreeSet<String> {
    let words = text.split('`').skip(1).step_by(2);
    let words = words.map(|word| word.strip_prefix("dynamodb:").unwrap_or(word));
    words.map(str::to_owned).collect()
}

#[test]
fn the_policy_of_the_template_has_the_actions_that_the_operating_page_asks_for() {
    let page = include_str!("../../../../docs/operating.md");
    let (_, asked) = page.split_once("A role needs ").expect("the sentence");
    let (asked, _) = asked.split_once(" on their indexes").expect("its end");
    let (on_tables, on_indexes) = asked.split_once(" on the tables").expect("both parts");
    let asked = [in_code_font(on_tables), in_code_font(on_indexes)];
    for layout in [LayoutName::Akka, LayoutName::J5ik2o] {
        assert_eq!(policy_actions(layout), asked, "{layout:?}");
    }
}

#[test]
fn a_function_can_read_the_settings_in_the_template() {
    let mut settings = LogSettings::default();
    settings.time_unit_ms = 60_000;
    let tables = AnnalsLayout::default().tables().unwrap();
    let template = Template::new(&tables, Billing::OnDemand, Some(&log(settings))).unwrap();
    let variables = &template.as_json()["Resources"]["SweepFunction"]["Properties"]["Environment"];
    let text = variables["Variables"]["ANNALS_SETTINGS"].as_str().unwrap();
    let read: LambdaSettings = serde_json::from_str(text).unwrap();
    assert_eq!(read.log.time_unit_ms, 60_000);
    assert_eq!(read.log.event_table.unwrap().as_str(), "annals-log");
}
