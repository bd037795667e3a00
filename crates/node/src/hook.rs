//! Lifecycle hooks: exec, httpGet, and the refusal of tcpSocket (L-501 to L-505).
//!
//! A hook has no time limit of its own: the engine cancels one that has had its time, and times `sleep` itself.

use k8s_openapi::api::core::v1::{Container, ExecAction, HTTPGetAction, LifecycleHandler, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use lifecycle::ContainerId;

use crate::probe::PodTarget;
use crate::probe::http::{Get, GetError, RequestError};
use crate::runtime::{CapturedExec, RuntimeError, RuntimeService};
use crate::wording;

/// So much of an exec hook's output stands in the message of its failure.
const OUTPUT_BYTES_MAX: usize = 10 * 1024;

/// Whose hook it is.
#[derive(Clone, Copy, Debug)]
pub struct Hooked<'a> {
    /// The container's spec.
    pub container: &'a Container,
    /// Its id.
    pub id: &'a ContainerId,
    /// Where its pod is reached; `None` if it has no sandbox.
    pub target: Option<&'a PodTarget>,
}

/// How a hook went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookReport {
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// The host and port of an HTTPS hook that was answered in plain HTTP and repeated so (L-505).
    pub fell_back_to_http: Option<String>,
}

/// Runs a hook to its end.
pub async fn run(runtime: &RuntimeService, hooked: &Hooked<'_>, handler: &LifecycleHandler) -> HookReport {
    if let Some(action) = &handler.exec {
        return HookReport { failure: exec(runtime, hooked.id, action).await, ..HookReport::default() };
    }
    if let Some(action) = &handler.http_get {
        return http_get(hooked, action).await;
    }
    let failure = Some(handler.tcp_socket.as_ref().map_or_else(|| "nil".to_owned(), invalid_handler));
    HookReport { failure, ..HookReport::default() }
}

async fn exec(runtime: &RuntimeService, id: &ContainerId, action: &ExecAction) -> Option<String> {
    // Unlike a probe's, a hook's command is taken as it is (L-504).
    let argv = action.command.clone().unwrap_or_default();
    exec_failure(&argv, runtime.exec_captured(id, &argv, None, OUTPUT_BYTES_MAX).await)
}

fn exec_failure(argv: &[String], captured: Result<CapturedExec, RuntimeError>) -> Option<String> {
    match captured {
        Ok(captured) if captured.exit.exit_code == 0 => None,
        Ok(captured) => {
            let command = argv.join(" ");
            let error = String::from_utf8_lossy(captured.standard_error());
            let output = wording::quoted_bytes(&captured.output);
            let code = captured.exit.exit_code;
            Some(format!("command '{command}' exited with {code}: {error}, message: {output}"))
        }
        Err(error) => Some(format!("{error}, message: \"\"")),
    }
}

async fn http_get(hooked: &Hooked<'_>, action: &HTTPGetAction) -> HookReport {
    let failed = |failure: String| HookReport { failure: Some(failure), ..HookReport::default() };
    let Some(target) = hooked.target else {
        return failed("failed to find networking container: the pod has no sandbox".to_owned());
    };
    let (host, network) = target.resolve(action.host.as_deref());
    let mut get = match Get::of_action(action, hooked.container, &host, "lifecycle") {
        Ok(get) => get,
        Err(error) => return failed(error.to_string()),
    };
    match get.send(&network, None).await {
        // Whatever the status: an answer is all that is asked for.
        Ok(_) => HookReport::default(),
        Err(GetError::Request { cause: RequestError::PlainServer, .. }) => {
            get.url.is_https = false;
            get.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("Authorization"));
            match get.send(&network, None).await {
                Ok(_) => HookReport { fell_back_to_http: Some(get.url.authority()), ..HookReport::default() },
                Err(error) => failed(error.to_string()),
            }
        }
        Err(error) => failed(error.to_string()),
    }
}

/// The handler as Go prints it: a tcpSocket hook is accepted by the API and fails when it is to run.
fn invalid_handler(action: &TCPSocketAction) -> String {
    let port = match &action.port {
        IntOrString::Int(number) => format!("{{0 {number} }}"),
        IntOrString::String(name) => format!("{{1 0 {name}}}"),
    };
    let host = action.host.as_deref().unwrap_or_default();
    format!(
        "&LifecycleHandler{{Exec:nil,HTTPGet:nil,TCPSocket:&TCPSocketAction{{Port:{port},Host:{host},}},Sleep:nil,}}"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::probe::Network;
    use crate::shim::ExecExit;

    type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

    /// Answers each connection with the next answer, whatever is asked; gives back what was.
    async fn server(answers: &'static [&'static str]) -> Result<(u16, tokio::task::JoinHandle<Vec<Vec<u8>>>)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let task = tokio::spawn(async move {
            let mut asked = Vec::new();
            for answer in answers {
                let Ok((mut stream, _)) = listener.accept().await else { break };
                // The client may break off.
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
                let mut bytes = Vec::new();
                let _ = stream.read_to_end(&mut bytes).await;
                asked.push(bytes);
            }
            asked
        });
        Ok((port, task))
    }

    async fn hook(action: serde_json::Value, has_target: bool) -> Result<HookReport> {
        let target = PodTarget { host: "127.0.0.1".into(), network: Network::Node };
        let (container, id) = (Container::default(), ContainerId("c".into()));
        let hooked = Hooked { container: &container, id: &id, target: has_target.then_some(&target) };
        Ok(http_get(&hooked, &serde_json::from_value(action)?).await)
    }

    #[tokio::test]
    async fn any_answer_is_success() -> Result {
        let (port, _) = server(&["HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"]).await?;
        assert_eq!(hook(json!({"port": port, "path": "/"}), true).await?, HookReport::default());
        Ok(())
    }

    #[tokio::test]
    async fn a_plain_answer_to_https_is_asked_for_again_without_authorization() -> Result {
        let (port, asked) =
            server(&["HTTP/1.1 400 Bad\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]).await?;
        let headers = json!([{"name": "authorization", "value": "secret"}, {"name": "X-A", "value": "1"}]);
        let action = json!({"port": port, "path": "/", "scheme": "HTTPS", "httpHeaders": headers});
        let expected = HookReport { failure: None, fell_back_to_http: Some(format!("127.0.0.1:{port}")) };
        assert_eq!(hook(action, true).await?, expected);
        let second = asked.await?.pop().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let second = second.ok_or("no second request")?;
        assert!(second.contains("X-A: 1") && !second.contains("secret"), "{second}");
        Ok(())
    }

    #[tokio::test]
    async fn failures_of_http_hooks_are_told() -> Result {
        let (port, server) = server(&[""]).await?;
        let failure = |report: HookReport| report.failure.unwrap_or_default();
        let url = format!("Get \"http://127.0.0.1:{port}/x\": ");
        assert_eq!(failure(hook(json!({"port": port, "path": "/x"}), true).await?), format!("{url}EOF"));
        server.await?;
        let refused = format!("{url}dial tcp 127.0.0.1:{port}: connect: connection refused");
        assert_eq!(failure(hook(json!({"port": port, "path": "/x"}), true).await?), refused);
        let no_sandbox = "failed to find networking container: the pod has no sandbox";
        assert_eq!(failure(hook(json!({"port": port, "path": "/x"}), false).await?), no_sandbox);
        Ok(())
    }

    #[test]
    fn a_failed_command_is_told_with_its_output() {
        let argv = ["sh".to_owned(), "-c".to_owned()];
        let captured = |exit_code| CapturedExec {
            exit: ExecExit { exit_code, timed_out: false },
            output: b"out\nerr\n".to_vec(),
            standard_output_bytes: 4,
        };
        assert_eq!(exec_failure(&argv, Ok(captured(0))), None);
        let text = "command 'sh -c' exited with 3: err\n, message: \"out\\nerr\\n\"";
        assert_eq!(exec_failure(&argv, Ok(captured(3))).as_deref(), Some(text));
        let error = Err(RuntimeError::ExecFailed("no such program".into()));
        assert_eq!(exec_failure(&argv, error).as_deref(), Some("no such program, message: \"\""));
    }

    #[test]
    fn a_tcp_hook_is_printed_as_go_does() -> Result {
        let printed = |action| Ok::<_, serde_json::Error>(invalid_handler(&serde_json::from_value(action)?));
        let text = "&LifecycleHandler{Exec:nil,HTTPGet:nil,TCPSocket:&TCPSocketAction{Port:{0 80 },Host:,},Sleep:nil,}";
        assert_eq!(printed(json!({"port": 80}))?, text);
        let text =
            "&LifecycleHandler{Exec:nil,HTTPGet:nil,TCPSocket:&TCPSocketAction{Port:{1 0 web},Host:h,},Sleep:nil,}";
        assert_eq!(printed(json!({"port": "web", "host": "h"}))?, text);
        Ok(())
    }
}
