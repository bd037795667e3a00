//! OpenAPI documents.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use http::StatusCode;
use http::header::{ETAG, HeaderValue};
use serde_json::{Value, json};

use super::negotiate::Format;
use super::query::Query;
use super::respond::{self, Answered};
use crate::resource::{ResourceType, all};

/// The Content-Type of the binary form of version 2.
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The documents, made when they are first asked for.
#[derive(Default)]
pub(super) struct Documents {
    v3: OnceLock<BTreeMap<String, Document>>,
}

/// One document of version 3.
struct Document {
    text: String,
    hash: String,
}

impl Documents {
    /// Answers a path below `/openapi`.
    pub(super) fn answer(&self, path: &str, _query: &Query, accept: &str) -> Answered {
        if path == "/openapi/v3" {
            return respond::object(StatusCode::OK, Format::Json, &self.index());
        }
        if path == "/openapi/v2" {
            return Ok(v2(accept));
        }
        let document = path.strip_prefix("/openapi/v3/").and_then(|name| self.documents().get(name));
        let Some(document) = document else {
            return Ok(respond::text(StatusCode::NOT_FOUND, "404 page not found\n"));
        };
        let mut response = respond::bytes(StatusCode::OK, "application/json", document.text.clone().into_bytes());
        if let Ok(etag) = HeaderValue::try_from(format!("\"{}\"", document.hash)) {
            response.headers_mut().insert(ETAG, etag);
        }
        Ok(response)
    }

    ///
    fn index(&self) -> Value {
        let paths = self.documents().iter().map(|(name, document)| {
            let url = format!("/openapi/v3/{name}?hash={}", document.hash);
            (name.clone(), json!({"serverRelativeURL": url}))
        });
        json!({"paths": paths.collect::<serde_json::Map<_, _>>()})
    }

    fn documents(&self) -> &BTreeMap<String, Document> {
        self.v3.get_or_init(|| {
            let mut documents = BTreeMap::new();
            for resource in all() {
                let api_version = resource.api_version();
                let name = if resource.group.is_empty() {
                    format!("api/{api_version}")
                } else {
                    format!("apis/{api_version}")
                };
                documents.entry(name).or_insert_with(|| document(resource.group));
            }
            documents
        })
    }
}

fn document(group: &str) -> Document {
    use sha2::{Digest, Sha256};
    let resources: Vec<&ResourceType> = all().filter(|resource| resource.group == group).collect();
    let paths: serde_json::Map<String, Value> = resources.iter().flat_map(|resource| paths(resource)).collect();
    let document = json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.2"}, "paths": paths,
        "components": {"schemas": super::schemas::of_group(group)}});
    let text = document.to_string();
    let hash = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02X}")).collect();
    Document { text, hash }
}

/// The paths of a resource: that of one object, whose patch tells clients that the server checks fields,
/// and that of the collection, which `explain` finds resources by.
fn paths(resource: &ResourceType) -> Vec<(String, Value)> {
    let prefix = if resource.group.is_empty() { "/api" } else { "/apis" };
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{prefix}/{}{scope}/{}", resource.api_version(), resource.plural);
    let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let parameter =
        |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation"].map(parameter).into();
    let operation = |action: &str, parameters: Vec<Value>| {
        json!({"x-kubernetes-group-version-kind": kind, "x-kubernetes-action": action, "parameters": parameters,
            "responses": {"200": {"description": "OK"}}})
    };
    let post = operation("post", parameters.clone());
    if resource.traits.review {
        return vec![(collection, json!({"post": post}))];
    }
    let one = json!({"get": operation("get", Vec::new()), "put": operation("put", parameters.clone()),
        "patch": operation("patch", parameters), "delete": operation("delete", vec![parameter("dryRun")])});
    let many = json!({"get": operation("list", Vec::new()), "post": post});
    vec![(format!("{collection}/{{name}}"), one), (collection, many)]
}

///
fn v2(accept: &str) -> http::Response<axum::body::Body> {
    if accept.contains("protobuf") {
        let mut message = vec![0x0a, 3];
        message.extend_from_slice(b"2.0");
        let info = [&[0x0a, 1][..], b"k", &[0x12, 1], b"1"].concat();
        message.extend_from_slice(&[0x12, u8::try_from(info.len()).unwrap_or(0)]);
        message.extend_from_slice(&info);
        return respond::bytes(StatusCode::OK, V2_PROTOBUF, message);
    }
    let document = json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36.2"}, "paths": {}});
    respond::bytes(StatusCode::OK, "application/json", document.to_string().into_bytes())
}
