//! Streams, functions and roles as resources of CloudFormation. Pure.
//!
//! Promises: a role may make the requests that its function makes, on the tables and streams that it
//! works on, and no others. A test runs each step and compares.

use annals::Result;
use annals::log::LogTables;
use annals::settings::LogSettings;
use serde_json::{Map, Value as Json, json};

use super::LogParts;

/// What may be done with tables, by who does it.
const APPLICATION: [&str; 7] = [
    "BatchGetItem",
    "BatchWriteItem",
    "DeleteItem",
    "GetItem",
    "PutItem",
    "Query",
    "Scan",
];
const PUMP_BUFFER: [&str; 4] = ["BatchGetItem", "BatchWriteItem", "GetItem", "PutItem"];
const READ_ITEMS: [&str; 2] = ["BatchGetItem", "GetItem"];
const SWEEP_BUFFER: [&str; 2] = ["BatchWriteItem", "Scan"];
/// `Scan`: the first sweep of a table looks whether it is empty.
const SWEEP_EVENTS: [&str; 6] = [
    "BatchGetItem",
    "BatchWriteItem",
    "GetItem",
    "PutItem",
    "Query",
    "Scan",
];
/// `Scan`: of a table whose index is not complete a few items are looked at, for the time unit.
const PLAYBACK_EVENTS: [&str; 4] = ["BatchGetItem", "GetItem", "Query", "Scan"];
/// What an event source mapping does in the function's name.
const READ_STREAM: [&str; 5] = [
    "DescribeStream",
    "DescribeStreamSummary",
    "GetRecords",
    "GetShardIterator",
    "ListShards",
];

/// Where the functions' archive is.
pub(super) fn parameters() -> Json {
    json!({
        "CodeBucket": {
            "Type": "String",
            "Description": "The S3 bucket with the archive of annals-lambda",
        },
        "CodeKey": {
            "Type": "String",
            "Default": "annals-lambda.zip",
            "Description": "The archive: annals-lambda for arm64, named bootstrap, in a zip file",
        },
    })
}

/// Some actions of a service on some resources.
fn statement(service: &str, actions: &[&str], resources: Vec<Json>) -> Json {
    let actions = actions.iter();
    let actions: Vec<String> = actions.map(|name| format!("{service}:{name}")).collect();
    json!({"Effect": "Allow", "Action": actions, "Resource": resources})
}

fn arn(name: &str) -> Json {
    json!({"Fn::GetAtt": [name, "Arn"]})
}

fn indexes(name: &str) -> Json {
    json!({"Fn::Sub": format!("${{{name}.Arn}}/index/*")})
}

/// The policy of what reads and writes the journal.
pub(super) fn application_policy(tables: &[&str], with_index: &[&str]) -> Json {
    let resources = tables.iter().map(|name| arn(name));
    let mut statements = vec![statement("dynamodb", &APPLICATION, resources.collect())];
    if !with_index.is_empty() {
        let indexes = with_index.iter().map(|name| indexes(name)).collect();
        statements.push(statement("dynamodb", &["Query", "Scan"], indexes));
    }
    json!({
        "Type": "AWS::IAM::ManagedPolicy",
        "Properties": {
            "Description": "Reading and writing journal, snapshots and durable state of Annals",
            "PolicyDocument": {"Version": "2012-10-17", "Statement": statements},
        },
    })
}

/// One function with its role and its traces.
struct Function<'a> {
    /// What the names of its resources begin with.
    name: &'a str,
    step: &'a str,
    seconds: u32,
    statements: Vec<Json>,
    environment: Map<String, Json>,
}

impl Function<'_> {
    fn resources(mut self, into: &mut Map<String, Json>) {
        let (name, role) = (self.name, format!("{}Role", self.name));
        let traces = format!("{name}LogGroup");
        let written = vec![arn(&traces)];
        let actions = ["CreateLogStream", "PutLogEvents"];
        self.statements.push(statement("logs", &actions, written));
        self.environment
            .insert("ANNALS_STEP".to_owned(), json!(self.step));
        into.insert(
            traces.clone(),
            json!({
                "Type": "AWS::Logs::LogGroup",
                "DeletionPolicy": "Delete",
                "UpdateReplacePolicy": "Delete",
                "Properties": {"RetentionInDays": 30},
            }),
        );
        into.insert(
            role.clone(),
            json!({
                "Type": "AWS::IAM::Role",
                "Properties": {
                    "AssumeRolePolicyDocument": {
                        "Version": "2012-10-17",
                        "Statement": [{
                            "Effect": "Allow",
                            "Principal": {"Service": "lambda.amazonaws.com"},
                            "Action": "sts:AssumeRole",
                        }],
                    },
                    "Policies": [{
                        "PolicyName": self.step,
                        "PolicyDocument": {
                            "Version": "2012-10-17",
                            "Statement": self.statements,
                        },
                    }],
                },
            }),
        );
        into.insert(
            format!("{name}Function"),
            json!({
                "Type": "AWS::Lambda::Function",
                "Properties": {
                    "Runtime": "provided.al2023",
                    "Architectures": ["arm64"],
                    "Handler": "bootstrap",
                    "Code": {
                        "S3Bucket": {"Ref": "CodeBucket"},
                        "S3Key": {"Ref": "CodeKey"},
                    },
                    "MemorySize": 256,
                    "Timeout": self.seconds,
                    "Role": arn(&role),
                    "LoggingConfig": {"LogGroup": {"Ref": traces}},
                    "Environment": {"Variables": self.environment},
                },
            }),
        );
    }
}

fn stream(name: &str) -> Json {
    json!({
        "Type": "AWS::Kinesis::Stream",
        "Properties": {"Name": name, "StreamModeDetails": {"StreamMode": "ON_DEMAND"}},
    })
}

/// The settings that a function needs, as its environment has them.
fn environment(settings: &LogSettings, tables: &LogTables) -> Result<Map<String, Json>> {
    let mut log = settings.clone();
    log.buffer_table = Some(tables.buffer.name().clone());
    log.event_table = Some(tables.event.name().clone());
    let text = serde_json::to_string(&json!({"log": log}));
    let text = text.map_err(|cause| {
        annals::Error::invalid("the log's settings cannot be written as JSON").because(cause)
    })?;
    Ok(Map::from_iter([(
        "ANNALS_SETTINGS".to_owned(),
        json!(text),
    )]))
}

/// Streams, functions and roles of the log.
pub(super) fn of_log(tables: &LogTables, parts: &LogParts) -> Result<Map<String, Json>> {
    let (from, to) = (&parts.stream, &parts.playback_stream);
    if from == to {
        return Err(annals::Error::invalid(format!(
            "a stream that is played back to is not pumped, or events would go round; name two streams. stream=`{from}`"
        )));
    }
    let environment = environment(&parts.settings, tables)?;
    let mut all = Map::new();
    all.insert("EventStream".to_owned(), stream(from.as_str()));
    all.insert("PlaybackStream".to_owned(), stream(to.as_str()));
    let on = |actions: &[&str], resources| statement("dynamodb", actions, resources);
    let (buffer, event) = (|| vec![arn("BufferTable")], || vec![arn("EventTable")]);
    let pump = Function {
        name: "Pump",
        step: "pump",
        seconds: 60,
        statements: vec![
            statement("kinesis", &READ_STREAM, vec![arn("EventStream")]),
            on(&PUMP_BUFFER, buffer()),
            on(&READ_ITEMS, event()),
        ],
        environment: environment.clone(),
    };
    pump.resources(&mut all);
    let sweep = Function {
        name: "Sweep",
        step: "sweep",
        seconds: 300,
        statements: vec![on(&SWEEP_BUFFER, buffer()), on(&SWEEP_EVENTS, event())],
        environment: environment.clone(),
    };
    sweep.resources(&mut all);
    let mut told = environment;
    let name = json!({"Ref": "PlaybackStream"});
    told.insert("ANNALS_PLAYBACK_STREAM".to_owned(), name);
    let playback = Function {
        name: "Playback",
        step: "playback",
        seconds: 900,
        statements: vec![
            on(&PLAYBACK_EVENTS, event()),
            on(&["Query"], vec![indexes("EventTable")]),
            statement("kinesis", &["PutRecords"], vec![arn("PlaybackStream")]),
        ],
        environment: told,
    };
    playback.resources(&mut all);
    triggers(&mut all);
    Ok(all)
}

/// What invokes the functions: the stream, and the clock.
fn triggers(all: &mut Map<String, Json>) {
    all.insert(
        "PumpSource".to_owned(),
        json!({
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "EventSourceArn": arn("EventStream"),
                "FunctionName": {"Ref": "PumpFunction"},
                "StartingPosition": "TRIM_HORIZON",
                "BatchSize": 500,
                "MaximumBatchingWindowInSeconds": 1,
                "FunctionResponseTypes": ["ReportBatchItemFailures"],
            },
        }),
    );
    all.insert(
        "SweepSchedule".to_owned(),
        json!({
            "Type": "AWS::Events::Rule",
            "Properties": {
                "Description": "Moves what waits in the buffer into slots",
                "ScheduleExpression": "rate(1 minute)",
                "Targets": [{"Id": "sweep", "Arn": arn("SweepFunction")}],
            },
        }),
    );
    all.insert(
        "SweepPermission".to_owned(),
        json!({
            "Type": "AWS::Lambda::Permission",
            "Properties": {
                "Action": "lambda:InvokeFunction",
                "FunctionName": {"Ref": "SweepFunction"},
                "Principal": "events.amazonaws.com",
                "SourceArn": arn("SweepSchedule"),
            },
        }),
    );
}
