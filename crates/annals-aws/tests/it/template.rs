//! The template: what it makes is what `tables create` makes.

use std::sync::Arc;

use annals::items::{Billing, Items, TableSpec};
use annals::layout::Layout;
use annals::{ErrorKind, SystemClock};
use annals_aws::template::{LogParts, Template};
use annals_jvm::AnyLayout;
use annals_jvm::LayoutName;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn parts() -> LogParts {
    LogParts {
        stream: "events".parse().unwrap(),
        playback_stream: "replay".parse().unwrap(),
    }
}

/// Makes the table of a resource as CloudFormation does: its words are those of DynamoDB's own API.
async fn make(resource: &Json, endpoint: &str) -> TableSpec {
    let mut properties = resource["Properties"].clone();
    // A request of its own.
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
async fn the_tables_of_a_template_are_those_that_are_opened() {
    for layout in [LayoutName::Annals, LayoutName::Akka, LayoutName::J5ik2o] {
        let settings = AnyLayout {
            layout,
            ..AnyLayout::default()
        };
        let template = Template::of(&settings, Billing::OnDemand, Some(&parts())).unwrap();
        let endpoint = crate::server::emulator().await;
        let mut made = Vec::new();
        for resource in template.as_json()["Resources"]
            .as_object()
            .unwrap()
            .values()
        {
            if resource["Type"] == "AWS::DynamoDB::Table" {
                assert_eq!(resource["DeletionPolicy"], "Retain");
                made.push(make(resource, &endpoint).await);
            }
        }
        let layout_tables = layout.tables(&settings).unwrap();
        let log_tables = annals::log::LogTables::new(&settings.log).unwrap();
        let wanted: Vec<&TableSpec> = layout_tables.all().chain(log_tables.all()).collect();
        assert_eq!(made.len(), wanted.len(), "{layout:?}");
        for (made, wanted) in made.iter().zip(wanted) {
            assert_eq!(made.name(), wanted.name());
            assert!(wanted.differences(made).is_empty(), "{layout:?}: {made:?}");
        }
    }
}

#[test]
fn reserved_capacity_is_that_of_tables_and_global_indexes() {
    let settings = AnyLayout {
        layout: LayoutName::J5ik2o,
        ..AnyLayout::default()
    };
    let billing = Billing::Provisioned {
        read_units: 3,
        write_units: 4,
    };
    let template = Template::of(&settings, billing, None).unwrap();
    let table = &template.as_json()["Resources"]["JournalTable"]["Properties"];
    let want = json!({"ReadCapacityUnits": 3, "WriteCapacityUnits": 4});
    assert_eq!(table["ProvisionedThroughput"], want);
    let index = &table["GlobalSecondaryIndexes"][0];
    assert_eq!(index["ProvisionedThroughput"], want);
    assert!(template.as_json()["Resources"]["PumpFunction"].is_null());
}

#[test]
fn names_that_stand_in_each_others_way_are_refused() {
    let mut settings = AnyLayout::default();
    let name = settings
        .layout
        .tables(&settings)
        .unwrap()
        .journal
        .name()
        .clone();
    settings.log.event_table = Some(name);
    let refused = |settings: &AnyLayout, parts: &LogParts| {
        let error = Template::of(settings, Billing::OnDemand, Some(parts)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    };
    let text = refused(&settings, &parts());
    assert!(text.contains("two tables have one name"), "{text}");
    let one = LogParts {
        stream: "replay".parse().unwrap(),
        ..parts()
    };
    let text = refused(&AnyLayout::default(), &one);
    assert!(text.contains("events would go round"), "{text}");
}

#[test]
fn a_function_reads_the_settings_that_the_template_gives_it() {
    let mut settings = AnyLayout::default();
    settings.log.time_unit_ms = 60_000;
    let template = Template::of(&settings, Billing::OnDemand, Some(&parts())).unwrap();
    let variables = &template.as_json()["Resources"]["SweepFunction"]["Properties"]["Environment"];
    let text = variables["Variables"]["ANNALS_SETTINGS"].as_str().unwrap();
    let read: AnyLayout = serde_json::from_str(text).unwrap();
    assert_eq!(read.log.time_unit_ms, 60_000);
    assert_eq!(read.log.event_table.unwrap().as_str(), "annals-log");
}
