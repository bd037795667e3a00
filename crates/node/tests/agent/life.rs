//! From creation to completion.

use libtest_mimic::Trial;
use serde_json::json;

use crate::world::{container, described, expect, is_running, shell, state, status, with};
use crate::{steps, trial};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("init_sidecar_and_app_run_in_order_and_the_pod_completes", |world| {
            steps!(world, {
                let spec = json!({
                    "restartPolicy": "Never",
                    "volumes": [{"name": "work", "emptyDir": {}}],
                    "initContainers": [
                        with(shell("setup", "echo prepared > /work/file"), json!({"volumeMounts": [{"name": "work", "mountPath": "/work"}]})),
                        with(shell("proxy", "trap 'echo stopped; exit 0' TERM; echo up; while :; do sleep 0.1; done"), json!({"restartPolicy": "Always"})),
                    ],
                    "containers": [
                        with(shell("app", "cat /work/file; echo err >&2; exit 0"), json!({"volumeMounts": [{"name": "work", "mountPath": "/work"}]})),
                    ],
                });
                world.create("ordered", spec)?;
                let pod = world.until_phase("ordered", "Succeeded").await?;
                let times = |name: &str| {
                    let ended = state(&pod, name).terminated.unwrap_or_default();
                    (ended.started_at.map(|time| time.0), ended.finished_at.map(|time| time.0), ended.exit_code)
                };
                let (setup, proxy, app) = (times("setup"), times("proxy"), times("app"));
                expect("exit codes", (setup.2, proxy.2, app.2), (0, 0, 0))?;
                expect("setup ends before proxy starts", setup.1 <= proxy.0, true)?;
                expect("proxy starts before app", proxy.0 <= app.0, true)?;
                expect("proxy ends after app", app.1 <= proxy.1, true)?;
                expect("app's log", world.log("ordered", "app", 0).await?, "prepared\nerr\n".to_owned())?;
                expect("proxy's log", world.log("ordered", "proxy", 0).await?, "up\nstopped\n".to_owned())?;
                expect("restarts", container(&pod, "proxy").restart_count, 0)?;
            })
        }),
        trial("a_failed_app_fails_the_pod_with_its_code_and_message", |world| {
            steps!(world, {
                let app = with(
                    shell("app", "echo last words; exit 7"),
                    json!({"terminationMessagePolicy": "FallbackToLogsOnError"}),
                );
                world.create("failing", json!({"restartPolicy": "Never", "containers": [app]}))?;
                let pod = world.until_phase("failing", "Failed").await?;
                let ended = state(&pod, "app").terminated.unwrap_or_default();
                expect("end", (ended.exit_code, ended.reason.as_deref()), (7, Some("Error")))?;
                expect("message", ended.message.as_deref(), Some("last words\n"))?;
            })
        }),
        trial("a_termination_message_is_read_from_its_file", |world| {
            steps!(world, {
                let app = with(
                    shell("app", "echo -n done > /tmp/message"),
                    json!({"terminationMessagePath": "/tmp/message"}),
                );
                world.create("message", json!({"restartPolicy": "Never", "containers": [app]}))?;
                let pod = world.until_phase("message", "Succeeded").await?;
                let ended = state(&pod, "app").terminated.unwrap_or_default();
                expect("message", ended.message.as_deref(), Some("done"))?;
            })
        }),
        trial("a_crashed_container_is_restarted_with_a_new_log", |world| {
            steps!(world, {
                let app = with(
                    shell(
                        "app",
                        "if [ -e /work/once ]; then echo second; sleep 1000; fi; touch /work/once; echo first; exit 3",
                    ),
                    json!({"volumeMounts": [{"name": "work", "mountPath": "/work"}]}),
                );
                world.create(
                    "crashing",
                    json!({"volumes": [{"name": "work", "emptyDir": {}}], "containers": [app], "terminationGracePeriodSeconds": 1}),
                )?;
                let is_restarted = |pod: &_| is_running(pod, "app") && container(pod, "app").restart_count == 1;
                let pod = world.until("crashing", "restarted", is_restarted).await?;
                let last = container(&pod, "app").last_state.unwrap_or_default();
                expect("last state", described(&last), "exited 3 Error".to_owned())?;
                expect("first log", world.log("crashing", "app", 0).await?, "first\n".to_owned())?;
                expect("second log", world.first_line(&pod, "app", 1).await?, "second".to_owned())?;
            })
        }),
        trial("a_missing_image_is_never_pulled_under_policy_never", |world| {
            steps!(world, {
                let app = json!({"name": "app", "image": "nothing:here", "imagePullPolicy": "Never"});
                world.create("imageless", json!({"containers": [app]}))?;
                let waits = |pod: &_| described(&state(pod, "app")).starts_with("waiting ErrImageNeverPull");
                let pod = world.until("imageless", "refused", waits).await?;
                let message = "waiting ErrImageNeverPull: Container image \"nothing:here\" is not present with pull policy of Never";
                expect("state", described(&state(&pod, "app")), message.to_owned())?;
            })
        }),
        trial("what_the_image_says_is_run_if_the_pod_says_nothing", |world| {
            steps!(world, {
                let app = json!({"name": "app", "image": crate::world::IMAGE, "imagePullPolicy": "Never"});
                world.create("default", json!({"restartPolicy": "Never", "containers": [app]}))?;
                let pod = world.until_phase("default", "Succeeded").await?;
                expect("log", world.log("default", "app", 0).await?, "image\n".to_owned())?;
                expect("image", container(&pod, "app").image, "docker.io/library/busybox:test".to_owned())?;
                expect("address", status(&pod).pod_ip.as_deref(), Some("127.0.0.1"))?;
            })
        }),
    ]
}
