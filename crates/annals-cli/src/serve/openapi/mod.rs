//! The document at `/openapi.json`: every path, parameter, body and answer.
//!
//! Written by hand beside the handlers, not derived from their types: what matters to a caller
//! (statuses, media types, headers, which members go together) is not in the types. A test holds
//! it against the router, and `scripts/fuzz-http` against the running server.

mod paths;
mod schemas;

use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};

static DOCUMENT: LazyLock<String> = LazyLock::new(|| document().to_string());

/// `GET /openapi.json`
pub(super) async fn answer() -> Response {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT.as_str()).into_response()
}

/// The whole document.
pub(super) fn document() -> Json {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Annals",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Journals of events, snapshots and durable state. Errors are application/problem+json with a kind that says what to do: conflict, reload and decide again; unavailable, the same call later; invalid, fix the call; corrupt, an operator looks; absent, it is not there.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{}, {"token": []}],
        "paths": paths::paths(),
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas::schemas(),
            "responses": schemas::problems(),
            "parameters": schemas::parameters(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const METHODS: [&str; 5] = ["get", "head", "post", "put", "delete"];

    /// Every `$ref` of the document leads somewhere.
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

    /// Lines are described in words, and those name schemas.
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
    fn every_path_of_the_router_is_described_and_no_other() {
        let document = document();
        let described: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
        let routed: Vec<&str> = crate::serve::router::routes()
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        assert_eq!(described, routed);
        for path in document["paths"].as_object().unwrap().values() {
            let mut names = path.as_object().unwrap().keys();
            assert!(names.all(|name| METHODS.contains(&name.as_str()) || name == "parameters"));
        }
    }
}
