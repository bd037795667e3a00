//! What the server does with bytes that no good client sends, and with the ones that clients without Go send.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Failure, TestServer};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

type TestResult = Result<(), Failure>;

/// Long enough for a machine that is busy with other things.
const DEADLINE: Duration = Duration::from_secs(30);

/// An answer, whole.
#[derive(Debug)]
struct Answer {
    code: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    fn at(&self, pointer: &str) -> Value {
        self.json().pointer(pointer).cloned().unwrap_or_default()
    }
}

/// Connects over TLS and HTTP/1.1, as the administrator or as nobody.
async fn connect(server: &TestServer, admin: bool) -> Result<TlsStream<TcpStream>, Failure> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(server.authority.certificate().as_bytes())?)?;
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let config = if admin {
        let credential = server.authority.client_credential("admin", "system:masters")?;
        let certificate = CertificateDer::from_pem_slice(credential.certificate.as_bytes())?;
        builder.with_client_auth_cert(vec![certificate], PrivateKeyDer::from_pem_slice(credential.key.as_bytes())?)?
    } else {
        builder.with_no_client_auth()
    };
    let stream = TcpStream::connect(server.address).await?;
    let name = ServerName::try_from("localhost")?;
    Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
}

/// Sends bytes and reads the answer until the server closes.
async fn exchange(server: &TestServer, admin: bool, request: &[u8]) -> Result<Answer, Failure> {
    let mut stream = connect(server, admin).await?;
    // A server that has seen enough may close before everything is sent.
    drop(stream.write_all(request).await);
    let mut answer = Vec::new();
    drop(tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await?);
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| format!("no answer: {text:?}"))?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or("no code")?;
    Ok(Answer { code, head: head.to_lowercase(), body: body.to_owned() })
}

async fn send(server: &TestServer, line: &str, headers: &str, body: &str) -> Result<Answer, Failure> {
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    exchange(server, true, request.as_bytes()).await
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn a_256_nobody_gets_anything_but_health_and_version() -> TestResult {
    let server = TestServer::start().await?;
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    for (path, code) in
        [("/version", 200), ("/readyz", 200), ("/livez?verbose", 200), ("/api/v1/pods", 401), ("/openapi/v3", 401)]
    {
        let answer = exchange(&server, false, get(path).as_bytes()).await?;
        assert_eq!(answer.code, code, "{path}: {answer:?}");
    }
    let bad_token = get("/api/v1/pods").replace("Connection", "Authorization: Bearer x.y.z\r\nConnection");
    assert_eq!(exchange(&server, true, bad_token.as_bytes()).await?.code, 401);
    Ok(())
}

#[tokio::test]
async fn a_8_a_body_needs_neither_content_type_nor_kind() -> TestResult {
    let server = TestServer::start().await?;
    let answer = send(&server, &format!("POST {CONFIG_MAPS}"), "", r#"{"metadata": {"name": "a"}}"#).await?;
    assert_eq!((answer.code, answer.at("/kind")), (201, json!("ConfigMap")), "{answer:?}");
    assert!(answer.head.contains("content-type: application/json"));
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n";
    let answer = send(&server, &format!("POST {CONFIG_MAPS}"), "Content-Type: application/yaml\r\n", yaml).await?;
    assert_eq!(answer.code, 201, "{answer:?}");
    Ok(())
}

#[tokio::test]
async fn bad_bodies_get_the_right_status_and_the_server_lives() -> TestResult {
    let server = TestServer::start().await?;
    let post = format!("POST {CONFIG_MAPS}");
    for (headers, body, code) in [
        ("", "garbage", 400),
        ("", "[]", 400),
        ("", "{\"metadata\": {\"name\": 1}}", 400),
        ("", "{\"kind\": \"Pod\", \"apiVersion\": \"v1\", \"metadata\": {\"name\": \"a\"}}", 400),
        ("Content-Type: text/html\r\n", "{}", 415),
        ("Content-Type: application/vnd.kubernetes.protobuf\r\n", "k8s\0nonsense", 400),
        ("Content-Type: application/yaml\r\n", "a: [", 400),
        ("Accept: text/html\r\n", "{\"metadata\": {\"name\": \"a\"}}", 406),
    ] {
        let answer = send(&server, &post, headers, body).await?;
        assert_eq!((answer.code, answer.at("/kind")), (code, json!("Status")), "{headers}{body}: {answer:?}");
        assert_eq!(answer.at("/code"), json!(code));
    }
    let patch = send(&server, &format!("PATCH {CONFIG_MAPS}/a"), "Content-Type: text/plain\r\n", "{}").await?;
    assert_eq!(patch.code, 415);
    let unknown = send(&server, "GET /apis/nothing/v1/things", "", "").await?;
    assert_eq!((unknown.code, unknown.body.as_str()), (404, "404 page not found\n"));
    assert_eq!(send(&server, &format!("GET {CONFIG_MAPS}"), "", "").await?.code, 200);
    Ok(())
}

#[tokio::test]
async fn a_4_a_body_that_is_too_large_is_refused_before_it_is_read() -> TestResult {
    let server = TestServer::start().await?;
    let head = format!(
        "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 104857600\r\n\r\n"
    );
    let request = [head.as_bytes(), &vec![b' '; 4 * 1024 * 1024]].concat();
    let answer = exchange(&server, true, &request).await?;
    assert_eq!((answer.code, answer.at("/reason")), (413, json!("RequestEntityTooLarge")), "{answer:?}");
    Ok(())
}

#[tokio::test]
async fn a_147_unknown_and_doubled_fields_are_warned_of() -> TestResult {
    let server = TestServer::start().await?;
    let body = r#"{"metadata": {"name": "a", "name": "b"}, "dta": {}}"#;
    let warned = send(&server, &format!("POST {CONFIG_MAPS}"), "", body).await?;
    assert_eq!((warned.code, warned.at("/metadata/name")), (201, json!("b")), "{warned:?}");
    assert!(warned.head.contains("warning: 299 - \"duplicate field \\\"metadata.name\\\"\""), "{warned:?}");
    assert!(warned.head.contains("warning: 299 - \"unknown field \\\"dta\\\"\""), "{warned:?}");
    let strict = send(&server, &format!("POST {CONFIG_MAPS}?fieldValidation=Strict"), "", body).await?;
    assert_eq!(strict.code, 400);
    Ok(())
}

/// The lines of a watch, for as long as it takes to see so many of them.
async fn watch(server: &TestServer, path: &str, count: usize) -> Result<Vec<Value>, Failure> {
    let mut stream = connect(server, true).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    let events = |text: &str| -> Vec<Value> {
        let lines = text.lines().filter(|line| line.starts_with("{\"type\""));
        lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let reading = async {
        let mut piece = vec![0; 64 * 1024];
        while events(&text).len() < count {
            let length = stream.read(&mut piece).await?;
            if length == 0 {
                return Err(format!("the watch ended: {text}").into());
            }
            text.push_str(&String::from_utf8_lossy(piece.get(..length).unwrap_or_default()));
        }
        Ok(events(&text))
    };
    tokio::time::timeout(DEADLINE, reading).await?
}

#[tokio::test]
async fn a_85_initial_events_end_with_an_annotated_bookmark() -> TestResult {
    let server = TestServer::start().await?;
    let path = "/api/v1/namespaces?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let events = watch(&server, path, 5).await?;
    let kinds: Vec<_> = events.iter().map(|event| event.get("type").cloned().unwrap_or_default()).collect();
    assert_eq!(kinds, ["ADDED", "ADDED", "ADDED", "ADDED", "BOOKMARK"]);
    let mark = events.last().and_then(|event| event.pointer("/object/metadata/annotations/k8s.io~1initial-events-end"));
    assert_eq!(mark, Some(&json!("true")));
    Ok(())
}

#[tokio::test]
async fn a_65_the_first_table_of_a_watch_alone_names_the_columns() -> TestResult {
    let server = TestServer::start().await?;
    let mut stream = connect(&server, true).await?;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let request = format!(
        "GET /api/v1/namespaces?watch=true&timeoutSeconds=1 HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    drop(tokio::time::timeout(DEADLINE, stream.read_to_string(&mut text)).await?);
    let tables: Vec<Value> = text
        .lines()
        .filter(|line| line.starts_with("{\"type\""))
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let columns: Vec<_> = tables
        .iter()
        .map(|table| table.pointer("/object/columnDefinitions").and_then(Value::as_array).map(Vec::len))
        .collect();
    assert_eq!(columns, [Some(3), Some(0), Some(0), Some(0)]);
    Ok(())
}

#[tokio::test]
async fn a_80_a_watch_from_before_the_history_ends_with_410() -> TestResult {
    use apiserver::{Store, StoreOptions};
    let server = TestServer::start_with(Store::in_memory_with(StoreOptions { history_events: 2 })).await?;
    for name in ["a", "b", "c"] {
        let body = json!({"metadata": {"name": name}}).to_string();
        assert_eq!(send(&server, &format!("POST {CONFIG_MAPS}"), "", &body).await?.code, 201);
    }
    let answer = send(&server, &format!("GET {CONFIG_MAPS}?watch=true&resourceVersion=1"), "", "").await?;
    assert_eq!((answer.code, answer.at("/reason")), (410, json!("Expired")), "{answer:?}");
    Ok(())
}

#[tokio::test]
async fn of_two_writers_in_a_race_one_is_told_of_the_conflict() -> TestResult {
    let server = TestServer::start().await?;
    let body = r#"{"metadata": {"name": "a"}}"#;
    let created = send(&server, &format!("POST {CONFIG_MAPS}"), "", body).await?;
    let update = |value: &str| {
        let mut object = created.json();
        apiserver::value::set(&mut object, &["data"], json!({"key": value}));
        object.to_string()
    };
    let line = format!("PUT {CONFIG_MAPS}/a");
    let (one, two) = (update("1"), update("2"));
    let (one, two) = tokio::join!(send(&server, &line, "", &one), send(&server, &line, "", &two));
    let mut codes = [one?.code, two?.code];
    codes.sort_unstable();
    assert_eq!(codes, [200, 409]);
    Ok(())
}

#[tokio::test]
async fn a_123_delete_options_come_in_the_query_too() -> TestResult {
    let server = TestServer::start().await?;
    send(&server, &format!("POST {CONFIG_MAPS}"), "", r#"{"metadata": {"name": "a"}}"#).await?;
    let marked = send(&server, &format!("DELETE {CONFIG_MAPS}/a?propagationPolicy=Foreground"), "", "").await?;
    assert_eq!(marked.at("/metadata/finalizers"), json!(["foregroundDeletion"]), "{marked:?}");
    let both = r#"{"propagationPolicy": "Orphan", "orphanDependents": true}"#;
    assert_eq!(send(&server, &format!("DELETE {CONFIG_MAPS}/a"), "", both).await?.code, 422);
    Ok(())
}
