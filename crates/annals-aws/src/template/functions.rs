//! Streams, functions and roles as CloudFormation resources. Pure.
//!
//! Guarantees: a role may make exactly the requests of its function, on exactly the function's tables
//! and streams. A test runs each step and compares.

use annals::log::LogTables;
use annals::settings::LogSettings;
use annals::{Error, Result};
use serde_json::{Map, Value as Json, json};

use super::LogResources;

/// Actions on tables, per role.
const APPLICATION: [&str; 8] = [
    "BatchGetItem",
    "BatchWriteItem",
    "DeleteItem",
    "DescribeTable",
    "GetItem",
    "PutItem",
    "Query",
    "Scan",
];
const PUMP_BUFFER: [&str; 4] = ["BatchGetItem", "BatchWriteItem", "GetItem", "PutItem"];
const READ_ITEMS: [&str; 2] = ["BatchGetItem", "GetItem"];
const SWEEP_BUFFER: [&str; 2] = ["BatchWriteItem", "Scan"];
/// `Scan`: the first sweep checks whether the table is empty.
const SWEEP_EVENTS: [&str; 6] = [
    "BatchGetItem",
    "BatchWriteItem",
    "GetItem",
    "PutItem",
    "Query",
    "Scan",
];
/// `Scan`: without a complete index, a few items are read to find the time unit.
const PLAYBACK_EVENTS: [&str; 4] = ["BatchGetItem", "GetItem", "Query", "Scan"];
/// Actions of the event source mapping, which uses the function's role.
const READ_STREAM: [&str; 5] = [
    "DescribeStream",
    "DescribeStreamSummary",
    "GetRecords",
    "GetShardIterator",
    "ListShards",
];

/// Parameters that locate the code archive of the functions.
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

/// Allows actions of a service on resources.
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

/// The policy of an application that uses the journal.
pub(super) fn application_policy(tables: &[&str], indexed: &[&str]) -> Json {
    let resources = tables.iter().map(|name| arn(name));
    let mut statements = vec![statement("dynamodb", &APPLICATION, resources.collect())];
    if !indexed.is_empty() {
        let indexes = indexed.iter().map(|name| indexes(name)).collect();
        statements.push(statement("dynamodb", &["Query", "Scan"], indexes));
    }
    json!({
        "Type": "AWS::IAM::ManagedPolicy",
        "Properties": {
            "Description": "Read and write the journal, snapshots and durable state of Annals",
            "PolicyDocument": {"Version": "2012-10-17", "Statement": statements},
        },
    })
}

/// One function with its role and its log group.
struct Function<'a> {
    /// Prefix of the names of its resources.
    name: &'a str,
    step: &'a str,
    seconds: u32,
    statements: Vec<Json>,
    environment: Map<String, Json>,
}

impl Function<'_> {
    fn resources(mut self, into: &mut Map<String, Json>) {
        let (name, role) = (self.name, format!("{}Role", self.name));
        let log_group = format!("{name}LogGroup");
        let actions = ["CreateLogStream", "PutLogEvents"];
        let statement = statement("logs", &actions, vec![arn(&log_group)]);
        self.statements.push(statement);
        self.environment
            .insert("ANNALS_STEP".to_owned(), json!(self.step));
        into.insert(
            log_group.clone(),
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
                    "LoggingConfig": {"LogGroup": {"Ref": log_group}},
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

/// The environment of a function: the log settings as JSON.
fn environment(settings: &LogSettings, tables: &LogTables) -> Result<Map<String, Json>> {
    let mut log = settings.clone();
    log.buffer_table = Some(tables.buffer.name().clone());
    log.event_table = Some(tables.event.name().clone());
    let text = serde_json::to_string(&json!({"log": log}));
    let text = text.map_err(|cause| {
        Error::invalid("the log settings cannot be encoded as JSON").because(cause)
    })?;
    Ok(Map::from_iter([(
        "ANNALS_SETTINGS".to_owned(),
        json!(text),
    )]))
}

/// The streams, functions, roles and triggers of the log.
pub(super) fn log_resources(tables: &LogTables, log: &LogResources) -> Result<Map<String, Json>> {
    let (from, to) = (&log.stream, &log.playback_stream);
    if from == to {
        return Err(Error::invalid(
            "pump and playback need different streams, or events would loop; name two streams",
        )
        .fact("stream", from));
    }
    let environment = environment(&log.settings, tables)?;
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
    let mut playback_environment = environment;
    let name = json!({"Ref": "PlaybackStream"});
    playback_environment.insert("ANNALS_PLAYBACK_STREAM".to_owned(), name);
    let playback = Function {
        name: "Playback",
        step: "playback",
        seconds: 900,
        statements: vec![
            on(&PLAYBACK_EVENTS, event()),
            on(&["Query"], vec![indexes("EventTable")]),
            statement("kinesis", &["PutRecords"], vec![arn("PlaybackStream")]),
        ],
        environment: playback_environment,
    };
    playback.resources(&mut all);
    triggers(&mut all);
    Ok(all)
}

/// The triggers of the functions: the stream for the pump, a schedule for the sweep.
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
                "Description": "Moves buffered records into slots",
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
