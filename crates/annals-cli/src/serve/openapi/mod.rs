//! The document at `/openapi.json`: every route, parameter, body and response.
//!
//! Made from the table of routes and the wire types. What neither has (statuses, headers, which
//! members go together) is said for each operation in `operations`. `scripts/fuzz-http` holds the
//! document against the running server.

pub(super) mod group_operations;
pub(super) mod operations;
pub(super) mod projections;

use std::borrow::Cow;
use std::sync::LazyLock;

use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value as Json, json};

use super::http;
use super::http::Call;
use super::problem::Answer;
use super::router::{ROUTES, Route};
use crate::wire;

static DOCUMENT: LazyLock<String> = LazyLock::new(|| document().to_string());

/// `GET /openapi.json`
pub(super) async fn get(_: Call) -> Answer {
    Ok(http::bytes("application/json", DOCUMENT.as_str()))
}

/// The problems that every operation may have.
const EVERYWHERE: [&str; 6] = ["400", "401", "403", "431", "500", "503"];
/// The problems of operations that read a body.
const OF_BODIES: [&str; 3] = ["408", "413", "415"];
/// A time: milliseconds since 1970, or RFC 3339.
const TIME: &str = "^([0-9]{1,15}|(19[7-9][0-9]|20[0-9]{2})-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z)$";

/// The document of an operation.
pub(super) struct Operation {
    members: Map<String, Json>,
    responses: Map<String, Json>,
}

impl Operation {
    fn new(id: &'static str, summary: &str) -> Self {
        let members = [("operationId", id), ("summary", summary)];
        let members = members.map(|(name, text)| (name.to_owned(), json!(text)));
        Self {
            members: members.into_iter().collect(),
            responses: Map::new(),
        }
    }

    fn with(mut self, name: &str, value: Json) -> Self {
        self.members.insert(name.to_owned(), value);
        self
    }

    fn parameters(self, parameters: impl IntoIterator<Item = Json>) -> Self {
        let parameters = parameters.into_iter().collect();
        self.with("parameters", parameters)
    }

    fn response(mut self, status: &str, response: Json) -> Self {
        self.responses.insert(status.to_owned(), response);
        self
    }

    /// Succeeds with a value as JSON.
    fn json<T: JsonSchema>(self, description: &str) -> Self {
        self.response("200", content::<T>(description))
    }

    /// The same, with an entity tag.
    fn tagged<T: JsonSchema>(self, status: &str, description: &str) -> Self {
        let mut response = content::<T>(description);
        if let Json::Object(members) = &mut response {
            members.insert("headers".to_owned(), json!({"ETag": etag()}));
        }
        self.response(status, response)
    }

    /// Succeeds with JSON lines, or also with server-sent events.
    fn lines(self, description: &str, media: &[&str]) -> Self {
        let media = [http::LINES].iter().chain(media);
        let media = media.map(|media| ((*media).to_owned(), json!({"schema": {"type": "string"}})));
        let content: Map<String, Json> = media.collect();
        let response = json!({"description": description, "content": content});
        self.response("200", response)
    }

    /// Takes a body of JSON.
    fn body<T: JsonSchema>(self) -> Self {
        let content = json!({"application/json": {"schema": reference::<T>()}});
        let body = json!({"required": true, "content": content});
        self.with("requestBody", body).problems(&OF_BODIES)
    }

    fn problems(self, statuses: &[&str]) -> Self {
        statuses.iter().fold(self, |operation, status| {
            let to = format!("#/components/responses/{status}");
            operation.response(status, json!({"$ref": to}))
        })
    }

    fn document(self) -> Json {
        let mut all = self.problems(&EVERYWHERE);
        let responses = Json::Object(std::mem::take(&mut all.responses));
        Json::Object(all.with("responses", responses).members)
    }
}

/// A reference to the schema of a wire type.
fn reference<T: JsonSchema>() -> Json {
    let name: Cow<'_, str> = T::schema_name();
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn content<T: JsonSchema>(description: &str) -> Json {
    let content = json!({"application/json": {"schema": reference::<T>()}});
    json!({"description": description, "content": content})
}

fn etag() -> Json {
    json!({"description": "The number, in quotes", "schema": {"type": "string"}})
}

/// A parameter in the query.
fn query(name: &str, description: &str, schema: &Json) -> Json {
    json!({"name": name, "in": "query", "description": description, "schema": schema})
}

/// A parameter in the headers.
fn in_header(name: &str, description: &str, schema: &Json) -> Json {
    json!({"name": name, "in": "header", "description": description, "schema": schema})
}

/// A parameter that several operations share.
fn parameter(name: &str) -> Json {
    json!({"$ref": format!("#/components/parameters/{name}")})
}

/// The whole document.
fn document() -> Json {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Annals",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Journals of events, snapshots and durable state. Errors are application/problem+json with a kind that says what to do: conflict, reload and decide again; unavailable, repeat the call later; invalid, fix the call; corrupt, call an operator; absent, there is none.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{}, {"token": []}],
        "paths": paths(),
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas(),
            "responses": problems(),
            "parameters": parameters(),
        },
    })
}

/// Every route, by path and method.
fn paths() -> Json {
    let mut paths: Map<String, Json> = Map::new();
    for Route {
        method,
        path,
        document,
        ..
    } in ROUTES
    {
        let entry = paths.entry(*path).or_insert_with(|| {
            let names = path.split('{').skip(1);
            let names = names.filter_map(|rest| rest.split('}').next());
            let parameters: Vec<Json> = names.map(parameter).collect();
            match parameters.is_empty() {
                true => json!({}),
                false => json!({ "parameters": parameters }),
            }
        });
        if let Json::Object(entry) = entry {
            entry.insert(method.to_ascii_lowercase(), document().document());
        }
    }
    Json::Object(paths)
}

/// The schemas of the wire types: requests as they are read, everything else as it is written.
fn schemas() -> Json {
    let generator = |contract: Contract| {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
            settings.contract = contract;
        });
        // A default is what a member that is left out means; null, mostly, may not be sent.
        let without_defaults = RecursiveTransform(|schema: &mut Schema| {
            schema.remove("default");
        });
        settings.with_transform(without_defaults).into_generator()
    };
    let mut sent = generator(Contract::Deserialize);
    add::<(wire::Append<'_>, wire::NewSnapshot<'_>)>(&mut sent);
    add::<(wire::NewState<'_>, wire::Record<'_>)>(&mut sent);
    add::<(wire::LogTime, wire::ItemsCall, wire::BulkAppend<'_>)>(&mut sent);
    add::<(wire::NewGroup, wire::Ack, wire::Nack)>(&mut sent);
    let mut all = generator(Contract::Serialize);
    add::<(wire::StoredEvent<'_>, wire::Snapshot<'_>, wire::State<'_>)>(&mut all);
    add::<(wire::Appended<'_>, wire::Position<'_>, wire::Id<'_>)>(&mut all);
    add::<(
        wire::Revision<'_>,
        wire::Deleted<'_>,
        wire::BulkAppended<'_>,
        wire::FeedNotice<'_>,
    )>(&mut all);
    add::<(wire::DeletedTo<'_>, wire::Purged<'_>)>(&mut all);
    add::<(wire::Findings<'_>, wire::Tables, wire::Status)>(&mut all);
    add::<(wire::Ingested, wire::Swept, wire::Pumped, wire::Linked)>(&mut all);
    add::<(wire::LogEvent<'_>, wire::LogStats, wire::Horizon)>(&mut all);
    add::<(wire::DeadLetter, wire::Forgotten, wire::Problem)>(&mut all);
    add::<wire::ItemsResult>(&mut all);
    add::<(wire::Projection<'_>, wire::WholeProjection<'_>)>(&mut all);
    add::<(wire::ProjectionPaused<'_>, wire::ProjectionBuild<'_>)>(&mut all);
    add::<(
        wire::ProjectionDeadLetter<'_>,
        wire::DeadLettersRequested<'_>,
    )>(&mut all);
    add::<(wire::Group<'_>, wire::Delivery<'_>, wire::Outcomes)>(&mut all);
    add::<(
        wire::GroupDeadLetters<'_>,
        wire::Retried<'_>,
        wire::Discarded<'_>,
        wire::DeletedGroup<'_>,
    )>(&mut all);
    let mut schemas = sent.take_definitions(true);
    schemas.extend(all.take_definitions(true));
    Json::Object(schemas)
}

fn add<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

/// The problems by status.
fn problems() -> Json {
    let all = [
        ("400", "The call is wrong; fix it. Nothing was written"),
        ("401", "The token is missing or wrong"),
        (
            "403",
            "Without a token, only loopback names of this machine are answered, and pages of other sites may not change anything",
        ),
        ("404", "There is none"),
        ("408", "The body takes too long to arrive"),
        (
            "409",
            "Another writer was first, the idempotency key was used for something else, or the last event that a tail received was purged; reload and decide again",
        ),
        ("413", "The body is too large"),
        (
            "415",
            "The body is of another media type than the path takes",
        ),
        ("428", "The revision is missing"),
        ("431", "The path and the headers are too large"),
        (
            "500",
            "Stored bytes do not parse, or the server has a bug; call an operator",
        ),
        ("503", "Repeat the call later. A write may be stored"),
    ];
    let content = json!({"application/problem+json": {"schema": reference::<wire::Problem>()}});
    let all = all.into_iter().map(|(status, description)| {
        let mut response = json!({"description": description, "content": content});
        if let (Json::Object(members), "503") = (&mut response, status) {
            let headers = json!({"Retry-After": {"schema": {"type": "string"}}});
            members.insert("headers".to_owned(), headers);
        }
        (status.to_owned(), response)
    });
    Json::Object(all.collect())
}

/// The parameters that several operations share, and those in paths.
fn parameters() -> Json {
    let number = reference::<wire::Number>();
    let time = json!({"type": "string", "pattern": TIME});
    let text = json!({"type": "string", "minLength": 1});
    let in_path = |name: &str, description: &str, schema: &Json| json!({"name": name, "in": "path", "required": true, "description": description, "schema": schema});
    let group = json!({"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,100}$"});
    json!({
        "group": in_path("group", "The name of a consumer group", &group),
        "persistence_id": in_path("persistence_id", "The persistence id: any text of 1 to 2,000 bytes, percent-encoded as one segment", &text),
        "sequence_number": in_path("sequence_number", "The sequence number", &number),
        "name": in_path("name", "The name of a dead letter", &text),
        "projection": in_path("projection", "The name of a projection", &json!({"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,100}$"})),
        "min_seq": query("min_seq", "From this sequence number on", &number),
        "max_seq": query("max_seq", "Up to this sequence number", &number),
        "min_time": query("min_time", "Saved at this time or later: milliseconds since 1970, or RFC 3339", &time),
        "max_time": query("max_time", "Saved at this time or before", &time),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `$ref` of the document.
    fn references<'a>(json: &'a Json, found: &mut Vec<&'a str>) {
        match json {
            Json::Object(members) => {
                for (name, value) in members {
                    match value {
                        Json::String(to) if name == "$ref" => found.push(to),
                        other => references(other, found),
                    }
                }
            }
            Json::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 50, "{found:?}");
        for to in found {
            let pointer = to.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{to}");
        }
    }

    /// Lines are described in words, which name schemas.
    #[test]
    fn every_schema_that_is_named_is_there() {
        let document = document();
        let text = document.to_string();
        let named = text.split("(schema ").skip(1);
        let named: Vec<&str> = named.filter_map(|rest| rest.split(')').next()).collect();
        assert!(named.len() >= 5, "{named:?}");
        for name in named {
            assert!(
                !document["components"]["schemas"][name].is_null(),
                "{name} is missing"
            );
        }
    }

    #[test]
    fn every_route_has_a_document_of_its_own() {
        let document = document();
        let mut ids = Vec::new();
        for route in ROUTES {
            let method = route.method.to_ascii_lowercase();
            let operation = &document["paths"][route.path][&method];
            let own = (route.document)();
            let id = own.members["operationId"].clone();
            assert_eq!(operation["operationId"], id, "{method} {}", route.path);
            let answers = own.responses.keys().filter(|it| it.starts_with('2'));
            assert_eq!(answers.count(), 1, "{id}");
            assert!(!ids.contains(&id), "{id} twice");
            ids.push(id);
        }
        let described = document["paths"].as_object().unwrap().values();
        let described = described.map(|it| it.as_object().unwrap());
        let described = described.flat_map(|it| it.keys().filter(|name| *name != "parameters"));
        assert_eq!(described.count(), ROUTES.len());
    }
}
