//! GET requests against small servers of their own.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Answers one request on each connection with the next answer; gives back the requests.
async fn server(answers: &[&str]) -> Result<(u16, JoinHandle<Vec<String>>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let answers: Vec<String> = answers.iter().map(|answer| answer.replace("PORT", &port.to_string())).collect();
    let task = tokio::spawn(async move {
        let mut requests = Vec::new();
        for answer in answers {
            let Ok((mut stream, _)) = listener.accept().await else { break };
            requests.push(read_request(&mut stream).await);
            // The client may have gone away.
            let _ = stream.write_all(answer.as_bytes()).await;
        }
        requests
    });
    Ok((port, task))
}

async fn read_request<S: AsyncReadExt + Unpin>(stream: &mut S) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => request.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&request).into_owned()
}

fn get(port: u16, action: Value) -> Result<Get> {
    let mut action = action;
    action.as_object_mut().ok_or("no object")?.entry("port").or_insert(json!(port));
    let action: HTTPGetAction = serde_json::from_value(action)?;
    Ok(Get::of_action(&action, &Container::default(), "127.0.0.1", "probe")?)
}

async fn fetch(port: u16, action: Value) -> Result<std::result::Result<(u16, String), String>> {
    let sent = get(port, action)?.fetch(&Network::Node, TIMEOUT).await;
    Ok(sent.map(|answer| (answer.status.as_u16(), answer.body)).map_err(|error| error.to_string()))
}

fn sorted_lines(request: &str) -> Vec<String> {
    let mut lines: Vec<String> = request.trim_end().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn a_request_has_kubernetes_headers() -> Result {
    let (port, requests) = server(&["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]).await?;
    assert_eq!(fetch(port, json!({"path": "/healthz?a=b"})).await?, Ok((200, "ok".into())));
    let expected = [
        "Accept: */*".to_owned(),
        "Connection: close".to_owned(),
        "GET /healthz?a=b HTTP/1.1".to_owned(),
        format!("Host: 127.0.0.1:{port}"),
        "User-Agent: kube-probe/1.36".to_owned(),
    ];
    assert_eq!(requests.await?.first().map(|request| sorted_lines(request)), Some(expected.to_vec()));
    Ok(())
}

#[tokio::test]
async fn given_headers_go_before_and_empty_ones_are_left_out() -> Result {
    let (port, requests) = server(&["HTTP/1.0 204 No Content\r\n\r\n"]).await?;
    let headers = json!([
        {"name": "host", "value": "my.host"}, {"name": "user-agent", "value": ""}, {"name": "Accept", "value": ""},
        {"name": "X-A", "value": "1"}, {"name": "X-A", "value": "2"},
    ]);
    assert_eq!(fetch(port, json!({"path": "/", "httpHeaders": headers})).await?, Ok((204, String::new())));
    let expected = ["Connection: close", "GET / HTTP/1.1", "Host: my.host", "X-A: 1", "X-A: 2"];
    assert_eq!(
        requests.await?.first().map(|request| sorted_lines(request)),
        Some(expected.map(str::to_owned).to_vec())
    );
    Ok(())
}

#[tokio::test]
async fn redirects_to_the_same_host_are_followed() -> Result {
    let answers = [
        "HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 307 T\r\nLocation: http://127.0.0.1:PORT/last\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast",
    ];
    let (port, requests) = server(&answers).await?;
    let headers = json!([{"name": "Host", "value": "my.host"}]);
    assert_eq!(fetch(port, json!({"path": "/first", "httpHeaders": headers})).await?, Ok((200, "last".into())));
    let firsts: Vec<(bool, Option<String>)> = requests
        .await?
        .iter()
        .map(|request| (request.contains("Host: my.host"), request.lines().next().map(str::to_owned)))
        .collect();
    let line = |text: &str| Some(format!("GET {text} HTTP/1.1"));
    assert_eq!(firsts, [(true, line("/first")), (true, line("/next")), (false, line("/last"))]);
    Ok(())
}

#[tokio::test]
async fn a_redirect_to_another_host_is_the_answer() -> Result {
    let (port, _) =
        server(&["HTTP/1.1 302 Found\r\nLocation: http://0.0.0.0/\r\nContent-Length: 4\r\n\r\nmove"]).await?;
    assert_eq!(fetch(port, json!({"path": "/"})).await?, Ok((302, "move".into())));
    Ok(())
}

#[tokio::test]
async fn the_tenth_redirect_is_refused() -> Result {
    let (port, requests) = server(&["HTTP/1.1 302 F\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"; 10]).await?;
    assert_eq!(fetch(port, json!({"path": "/"})).await?, Err("Get \"/x\": stopped after 10 redirects".into()));
    assert_eq!(requests.await?.len(), 10);
    Ok(())
}

#[tokio::test]
async fn ten_kilobytes_of_a_body_are_read() -> Result {
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{}", "x".repeat(100_000));
    let (port, _) = server(&[&answer]).await?;
    let fetched = fetch(port, json!({"path": "/"})).await?;
    assert_eq!(fetched.map(|(status, body)| (status, body.len())), Ok((200, 10_240)));
    Ok(())
}

#[tokio::test]
async fn failures_have_gos_words() -> Result {
    let (port, _) = server(&["", "hello\r\nworld", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"]).await?;
    let url = format!("Get \"http://127.0.0.1:{port}/\": ");
    assert_eq!(fetch(port, json!({"path": "/"})).await?, Err(format!("{url}EOF")));
    let malformed = "net/http: HTTP/1.x transport connection broken: malformed HTTP response \"hello\"";
    assert_eq!(fetch(port, json!({"path": "/"})).await?, Err(format!("{url}{malformed}")));
    assert_eq!(fetch(port, json!({"path": "/"})).await?, Err("unexpected EOF".into()));
    let refused = format!("{url}dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(fetch(port, json!({"path": "/"})).await?, Err(refused));
    let headers = json!([{"name": "X Y", "value": "z"}]);
    let (port, _) = server(&[""]).await?;
    let invalid = format!("Get \"http://127.0.0.1:{port}/\": net/http: invalid header field name \"X Y\"");
    assert_eq!(fetch(port, json!({"path": "/", "httpHeaders": headers})).await?, Err(invalid));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_in_time_is_told() -> Result {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let sent = get(port, json!({"path": "/"}))?.fetch(&Network::Node, Duration::from_secs(1)).await;
    let text = format!(
        "Get \"http://127.0.0.1:{port}/\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    );
    assert_eq!(sent.map_err(|error| error.to_string()), Err(text));
    Ok(())
}

#[tokio::test]
async fn any_certificate_will_do() -> Result {
    let certified = rcgen::generate_simple_self_signed(["elsewhere".to_owned()])?;
    let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der())?;
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        let mut stream = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config)).accept(stream).await?;
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await?;
        stream.shutdown().await
    });
    assert_eq!(fetch(port, json!({"path": "/", "scheme": "HTTPS"})).await?, Ok((200, "ok".into())));
    server.await??;
    Ok(())
}

#[tokio::test]
async fn a_server_without_tls_is_told() -> Result {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let server = tokio::spawn(async move {
        for answer in ["HTTP/1.1 400 Bad Request\r\n\r\n", "220 mail ready\r\n"] {
            let (mut stream, _) = listener.accept().await?;
            stream.write_all(answer.as_bytes()).await?;
            let mut rest = Vec::new();
            // The client breaks off.
            let _ = stream.read_to_end(&mut rest).await;
        }
        std::io::Result::Ok(())
    });
    let url = format!("Get \"https://127.0.0.1:{port}/\": ");
    let action = json!({"path": "/", "scheme": "HTTPS"});
    let plain = format!("{url}http: server gave HTTP response to HTTPS client");
    assert_eq!(fetch(port, action.clone()).await?, Err(plain));
    let other = format!("{url}tls: first record does not look like a TLS handshake");
    assert_eq!(fetch(port, action).await?, Err(other));
    server.await??;
    Ok(())
}

#[test]
fn a_hook_has_its_own_user_agent() -> Result {
    let action: HTTPGetAction = serde_json::from_value(json!({"port": 80, "host": "h", "path": "x"}))?;
    let get = Get::of_action(&action, &Container::default(), "127.0.0.1", "lifecycle")?;
    assert_eq!(get.url.to_string(), "http://h:80/x");
    assert_eq!(get.headers.first(), Some(&("User-Agent".to_owned(), "kube-lifecycle/1.36".to_owned())));
    Ok(())
}
