//! Health checks against small servers of their own.

use std::convert::Infallible;

use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::service::service_fn;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::*;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const TIMEOUT: Duration = Duration::from_secs(5);

/// What the server sends: headers, data and trailers.
#[derive(Clone, Default)]
struct Script {
    http_status: u16,
    headers: Vec<(&'static str, &'static str)>,
    data: Vec<u8>,
    trailers: Vec<(&'static str, &'static str)>,
}

fn grpc(data: &[u8], trailers: &[(&'static str, &'static str)]) -> Script {
    let headers = vec![("content-type", "application/grpc")];
    Script { http_status: 200, headers, data: data.to_vec(), trailers: trailers.to_vec() }
}

fn header_map(entries: &[(&'static str, &'static str)]) -> HeaderMap {
    let entries = entries.iter();
    entries.map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
}

/// Serves one connection; gives back what was asked.
async fn serve(script: Script) -> Result<(u16, tokio::task::JoinHandle<Option<(String, Vec<u8>)>>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let task = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.ok()?;
        let (give, mut take) = tokio::sync::mpsc::channel(1);
        let service = service_fn(move |request: Request<Incoming>| {
            let (script, give) = (script.clone(), give.clone());
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.map(|body| body.to_bytes().to_vec());
                // The test looks at the first request only.
                let _ = give.try_send((path, body.unwrap_or_default()));
                let frames = [Frame::data(Bytes::from(script.data)), Frame::trailers(header_map(&script.trailers))];
                let body = StreamBody::new(futures::stream::iter(frames.map(Ok::<_, Infallible>)));
                let mut response = Response::new(body);
                *response.status_mut() = StatusCode::from_u16(script.http_status).unwrap_or_default();
                *response.headers_mut() = header_map(&script.headers);
                Ok::<_, Infallible>(response)
            }
        });
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        // The client breaks off when it has its answer.
        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        take.try_recv().ok()
    });
    Ok((port, task))
}

async fn probe(script: Script, service: &str) -> Result<(ProbeOutcome, Option<(String, Vec<u8>)>)> {
    let (port, asked) = serve(script).await?;
    let outcome = attempt(&Network::Node, "127.0.0.1", port, service, TIMEOUT).await;
    Ok((outcome, asked.await?))
}

async fn check(script: Script, expected: std::result::Result<(), &str>) -> Result {
    let expected = match expected {
        Ok(()) => ProbeOutcome::Success,
        Err(text) => ProbeOutcome::Failure(text.to_owned()),
    };
    assert_eq!(probe(script, "").await?.0, expected);
    Ok(())
}

#[tokio::test]
async fn a_serving_service_is_healthy() -> Result {
    let (outcome, asked) = probe(grpc(&[0, 0, 0, 0, 2, 8, 1], &[("grpc-status", "0")]), "db").await?;
    assert_eq!(outcome, ProbeOutcome::Success);
    let request = [0, 0, 0, 0, 4, 0x0a, 2, b'd', b'b'];
    assert_eq!(asked, Some(("/grpc.health.v1.Health/Check".to_owned(), request.to_vec())));
    Ok(())
}

#[tokio::test]
async fn every_other_status_is_unhealthy() -> Result {
    let ok = [("grpc-status", "0")];
    check(grpc(&[0, 0, 0, 0, 0], &ok), Err("service unhealthy (responded with \"UNKNOWN\")")).await?;
    check(grpc(&[0, 0, 0, 0, 2, 8, 2], &ok), Err("service unhealthy (responded with \"NOT_SERVING\")")).await?;
    check(grpc(&[0, 0, 0, 0, 2, 8, 3], &ok), Err("service unhealthy (responded with \"SERVICE_UNKNOWN\")")).await?;
    check(grpc(&[0, 0, 0, 0, 2, 8, 9], &ok), Err("service unhealthy (responded with \"9\")")).await
}

#[tokio::test]
async fn a_refused_call_is_told_with_its_code() -> Result {
    let unknown = [("grpc-status", "5"), ("grpc-message", "unknown service %22db%22")];
    let text = "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service \"db\"";
    check(grpc(&[], &unknown), Err(text)).await?;
    let script = Script { headers: vec![("grpc-status", "12"), ("grpc-message", "unknown method")], ..grpc(&[], &[]) };
    let text = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown method";
    check(script, Err(text)).await
}

#[tokio::test]
async fn a_server_that_is_not_grpc_is_told() -> Result {
    let script = Script { http_status: 404, headers: vec![("content-type", "text/plain")], ..Script::default() };
    let text = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unexpected HTTP status code received from server: 404 (Not Found); transport: received unexpected content-type \"text/plain\"";
    check(script, Err(text)).await
}

#[tokio::test]
async fn a_broken_answer_is_told() -> Result {
    let text = "error: health rpc probe failed: rpc error: code = Internal desc = cannot read the health response";
    check(grpc(&[0, 0, 0, 0, 2, 8], &[("grpc-status", "0")]), Err(text)).await
}

#[tokio::test(start_paused = true)]
async fn nobody_there_is_told_when_the_time_is_up() -> Result {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    drop(listener);
    let before = Instant::now();
    let outcome = attempt(&Network::Node, "127.0.0.1", port, "", Duration::from_secs(2)).await;
    let text = format!("timeout: failed to connect service \"127.0.0.1:{port}\" within 2s: context deadline exceeded");
    assert_eq!((outcome, before.elapsed()), (ProbeOutcome::Failure(text), Duration::from_secs(2)));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_server_that_speaks_something_else_is_not_connected() -> Result {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await?;
        stream.shutdown().await
    });
    let outcome = attempt(&Network::Node, "127.0.0.1", port, "", Duration::from_secs(1)).await;
    let text = format!("timeout: failed to connect service \"127.0.0.1:{port}\" within 1s: context deadline exceeded");
    assert_eq!(outcome, ProbeOutcome::Failure(text));
    server.await??;
    Ok(())
}

#[tokio::test]
async fn a_server_that_never_answers_the_call_is_told() -> Result {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        // An empty SETTINGS frame.
        stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?;
        let mut rest = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest).await
    });
    let outcome = attempt(&Network::Node, "127.0.0.1", port, "", Duration::from_secs(1)).await;
    assert_eq!(outcome, ProbeOutcome::Failure("timeout: health rpc did not complete within 1s".into()));
    server.await??;
    Ok(())
}

#[test]
fn messages_are_read_and_written() {
    assert_eq!(health_request(""), b"");
    let long = "x".repeat(300);
    assert_eq!(health_request(&long).get(..3), Some([0x0a, 0xac, 0x02].as_slice()));
    assert_eq!(health_status(b""), Some(0));
    assert_eq!(health_status(&[0x12, 2, 9, 9, 0x19, 0, 0, 0, 0, 0, 0, 0, 0, 0x25, 0, 0, 0, 0, 8, 1]), Some(1));
    assert_eq!([health_status(&[8]), health_status(&[8, 0x80]), health_status(&[0x12, 9])], [None; 3]);
    assert_eq!(health_status(&[0xff; 11]), None);
}
