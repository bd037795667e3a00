//! Probes of all four kinds, and hooks.

use libtest_mimic::Trial;
use serde_json::json;

use crate::world::{container, described, expect, is_ready, is_running, pod_ref, shell, state, with};
use crate::{steps, trial};

const FOR_EVER: &str = "trap 'exit 0' TERM; while :; do sleep 0.05; done";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("an_exec_probe_makes_a_container_ready_when_it_passes", |world| {
            steps!(world, {
                let probe = json!({"exec": {"command": ["cat", "/work/ready"]}, "periodSeconds": 1});
                let app = with(
                    shell("app", FOR_EVER),
                    json!({"readinessProbe": probe, "volumeMounts": [{"name": "work", "mountPath": "/work"}]}),
                );
                let path = world.path().join("work");
                std::fs::create_dir(&path)?;
                let volume = json!({"name": "work", "hostPath": {"path": path}});
                world.create("exec", json!({"volumes": [volume], "containers": [app]}))?;
                let failed =
                    "Unhealthy: Readiness probe failed: cat: can't open '/work/ready': No such file or directory\n";
                world.until_event("exec", failed).await?;
                let pod = world.until("exec", "running", |pod| is_running(pod, "app")).await?;
                expect("ready", container(&pod, "app").ready, false)?;
                std::fs::write(path.join("ready"), "")?;
                world.until("exec", "ready", is_ready).await?;
            })
        }),
        trial("an_http_probe_reaches_the_pods_own_network", |world| {
            steps!(world, {
                let server = "mkdir /www; echo ok > /www/healthz; exec httpd -f -p 8080 -h /www";
                let get = |path| json!({"httpGet": {"port": "web", "path": path}, "periodSeconds": 1});
                let app = with(
                    shell("app", server),
                    json!({"ports": [{"name": "web", "containerPort": 8080}], "startupProbe": get("/healthz"),
                           "readinessProbe": get("/healthz"), "livenessProbe": with(get("/none"), json!({"failureThreshold": 1}))}),
                );
                world.create("http", json!({"containers": [app], "terminationGracePeriodSeconds": 1}))?;
                world
                    .until_event("http", "Unhealthy: Liveness probe failed: HTTP probe failed with statuscode: 404")
                    .await?;
                world.until_event("http", "Killing: Container app failed liveness probe, will be restarted").await?;
                let pod = world.until("http", "restarted", |pod| container(pod, "app").restart_count > 0).await?;
                expect("started", container(&pod, "app").last_state.is_some(), true)?;
            })
        }),
        trial("a_tcp_probe_needs_no_more_than_a_connection", |world| {
            steps!(world, {
                let probe =
                    |port: u16| json!({"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 30});
                let app = with(shell("app", "exec nc -ll -p 7000 -e true"), json!({"readinessProbe": probe(7000)}));
                world.create("tcp", json!({"containers": [app], "terminationGracePeriodSeconds": 1}))?;
                world.until("tcp", "ready", is_ready).await?;
                let other = with(shell("app", FOR_EVER), json!({"readinessProbe": probe(7001)}));
                world.create("refused", json!({"containers": [other]}))?;
                let failed = "Unhealthy: Readiness probe failed: dial tcp 127.0.0.1:7001: connect: connection refused";
                world.until_event("refused", failed).await?;
            })
        }),
        trial("a_grpc_probe_asks_for_health_inside_the_pod", |world| {
            steps!(world, {
                let probe =
                    json!({"grpc": {"port": 5000, "service": "db"}, "periodSeconds": 1, "failureThreshold": 60});
                let app = with(shell("app", FOR_EVER), json!({"readinessProbe": probe}));
                world.create("grpc", json!({"containers": [app]}))?;
                let refused = "Unhealthy: Readiness probe failed: timeout: failed to connect service \"127.0.0.1:5000\" within 1s: context deadline exceeded";
                world.until_event("grpc", refused).await?;
                let pod = world.objects.pod("grpc").ok_or("no pod")?;
                let runtime = world.agent.as_ref().ok_or("no agent")?.runtime();
                let observation = runtime.observation(&pod_ref(&pod).uid).ok_or("no sandbox")?;
                let sandbox = observation.sandboxes.first().ok_or("no sandbox")?;
                let namespace = runtime.network_namespace(&sandbox.id).await?;
                let _server = grpc::serve(namespace, 5000).await?;
                world.until("grpc", "ready", is_ready).await?;
            })
        }),
        trial("a_startup_probe_of_a_sidecar_gates_the_app", |world| {
            steps!(world, {
                let probe = json!({"exec": {"command": ["test", "-e", "/work/up"]}, "periodSeconds": 1, "failureThreshold": 60});
                let mount = json!([{"name": "work", "mountPath": "/work"}]);
                let sidecar = with(
                    shell("sidecar", FOR_EVER),
                    json!({"restartPolicy": "Always", "startupProbe": probe, "volumeMounts": mount}),
                );
                let path = world.path().join("work");
                std::fs::create_dir(&path)?;
                let volume = json!({"name": "work", "hostPath": {"path": path}});
                let spec = json!({"restartPolicy": "Never", "volumes": [volume], "initContainers": [sidecar],
                                  "containers": [shell("app", "true")]});
                world.create("gated", spec)?;
                world.until_event("gated", "Unhealthy: Startup probe failed: ").await?;
                let pod = world.objects.pod("gated").ok_or("no pod")?;
                expect("app", described(&state(&pod, "app")), "waiting PodInitializing: ".to_owned())?;
                std::fs::write(path.join("up"), "")?;
                world.until_phase("gated", "Succeeded").await?;
            })
        }),
        trial("hooks_run_after_the_start_and_before_the_stop", |world| {
            steps!(world, {
                let hook =
                    |text: &str| json!({"exec": {"command": ["/bin/sh", "-c", format!("echo {text} > /proc/1/fd/1")]}});
                let app = with(
                    shell("app", "trap 'echo term; exit 0' TERM; echo up; while :; do sleep 0.05; done"),
                    json!({"lifecycle": {"postStart": hook("post-start"), "preStop": hook("pre-stop")}}),
                );
                world.create("hooked", json!({"containers": [app]}))?;
                let pod = world.until("hooked", "ready", is_ready).await?;
                let path = node::paths::DataPaths::new(world.path()).pod_logs(&pod_ref(&pod));
                let ended = tokio_util::sync::CancellationToken::new();
                let watches = std::sync::Arc::new(node::logs::DirectoryWatches::start()?);
                let mut logs = node::logs::PodLogs::follow(&path, watches, ended.clone()).await?;
                world.first_line(&pod, "app", 0).await?;
                world.objects.delete("hooked", None)?;
                world.until_gone("hooked").await?;
                ended.cancel();
                let mut lines = Vec::new();
                while let Some(line) = logs.next().await? {
                    lines.push(String::from_utf8(line.entry.content)?);
                }
                // The first two come as they come: a postStart hook does not wait for the entrypoint.
                lines.get_mut(..2).unwrap_or_default().sort();
                expect("log", lines, ["post-start", "up", "pre-stop", "term"].map(str::to_owned).to_vec())?;
            })
        }),
        trial("a_failed_post_start_hook_is_told_with_its_output", |world| {
            steps!(world, {
                let hook = json!({"exec": {"command": ["/bin/sh", "-c", "echo out; echo err >&2; exit 3"]}});
                let app = with(shell("app", FOR_EVER), json!({"lifecycle": {"postStart": hook}}));
                world.create("broken", json!({"containers": [app], "terminationGracePeriodSeconds": 1}))?;
                world.until_event("broken", "FailedPostStartHook: PostStartHook failed").await?;
                let told = "waiting PostStartHookError: Exec lifecycle hook ([/bin/sh -c echo out; echo err >&2; exit 3]) for Container \"app\" in Pod \"broken_default(uid-broken)\" failed - error: command '/bin/sh -c echo out; echo err >&2; exit 3' exited with 3: err\n, message: \"out\\nerr\\n\"";
                world.until("broken", "told", |pod| described(&state(pod, "app")) == told).await?;
            })
        }),
        trial("an_http_hook_reaches_the_pods_own_network", |world| {
            steps!(world, {
                let get = json!({"httpGet": {"port": 8080, "path": "/x"}});
                let sidecar = with(
                    shell("server", "exec httpd -f -vv -p 8080 -h /"),
                    json!({"restartPolicy": "Always", "startupProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}}),
                );
                let app = with(shell("app", "sleep 1"), json!({"lifecycle": {"postStart": get}}));
                let spec = json!({"restartPolicy": "Never", "initContainers": [sidecar], "containers": [app],
                                  "terminationGracePeriodSeconds": 1});
                world.create("http-hook", spec)?;
                world.until_phase("http-hook", "Succeeded").await?;
                let log = world.log("http-hook", "server", 0).await?;
                expect("what the server says", log.contains("url:/x"), true)
                    .map_err(|error| format!("{error}: {log}"))?;
            })
        }),
    ]
}

/// A gRPC health server in a network namespace.
mod grpc {
    use std::convert::Infallible;
    use std::os::fd::{AsFd, OwnedFd};

    use bytes::Bytes;
    use http::{HeaderMap, HeaderValue, Response};
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio_util::task::AbortOnDropHandle;

    use crate::world::Outcome;

    pub(crate) async fn serve(namespace: OwnedFd, port: u16) -> Outcome<AbortOnDropHandle<()>> {
        let listener = std::thread::spawn(move || -> std::io::Result<std::net::TcpListener> {
            let kind = rustix::thread::LinkNameSpaceType::Network;
            rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(kind))?;
            std::net::TcpListener::bind(("127.0.0.1", port))
        });
        let listener = listener.join().map_err(|_| "the thread died")??;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = hyper::service::service_fn(|_| async { Ok::<_, Infallible>(healthy()) });
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                // The client breaks off when it has its answer.
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            }
        });
        Ok(AbortOnDropHandle::new(task))
    }

    fn healthy() -> Response<StreamBody<impl futures::Stream<Item = Result<Frame<Bytes>, Infallible>>>> {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let frames = [Frame::data(Bytes::from_static(&[0, 0, 0, 0, 2, 8, 1])), Frame::trailers(trailers)];
        let mut response = Response::new(StreamBody::new(futures::stream::iter(frames.map(Ok))));
        response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
        response
    }
}
