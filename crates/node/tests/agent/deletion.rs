//! Deletion: order, grace, and what is gone afterwards.

use std::time::Duration;

use libtest_mimic::Trial;
use node::paths::DataPaths;
use serde_json::json;

use crate::world::{expect, is_ready, is_running, leftovers, pod_ref, shell, state, until, with};
use crate::{steps, trial};

/// Ends at once when it is told to, and says when it will.
const OBEDIENT: &str = "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_deleted_pod_stops_apps_first_and_sidecars_in_reverse", |world| {
            steps!(world, {
                let sidecar = |name| with(shell(name, OBEDIENT), json!({"restartPolicy": "Always"}));
                let app = shell("app", "trap 'sleep 1; exit 0' TERM; echo up; while :; do sleep 0.05; done");
                world.create(
                    "ordered",
                    json!({"initContainers": [sidecar("first"), sidecar("second")], "containers": [app]}),
                )?;
                let pod = world.until("ordered", "ready", is_ready).await?;
                for name in ["first", "second", "app"] {
                    world.first_line(&pod, name, 0).await?;
                }
                world.objects.delete("ordered", None)?;
                world.until_gone("ordered").await?;
                let history = world.objects.history("ordered");
                let last = history.last().ok_or("no status was written")?;
                let told = |error| format!("{error}: {:#?}", last.container_statuses);
                expect("phase", last.phase.as_deref(), Some("Succeeded")).map_err(told)?;
                let ended = |name: &str| {
                    let all = last.init_container_statuses.iter().chain(&last.container_statuses).flatten();
                    let found = all.filter(|status| status.name == name).find_map(|status| status.state.clone());
                    found.and_then(|state| state.terminated).and_then(|ended| Some(ended.finished_at?.0))
                };
                let (app, second, first) = (ended("app"), ended("second"), ended("first"));
                expect("all have ended", [app, second, first].iter().all(Option::is_some), true)?;
                expect("app before second", app <= second, true)?;
                expect("second before first", second <= first, true)?;
            })
        }),
        trial("a_deaf_container_is_killed_when_its_grace_is_over", |world| {
            steps!(world, {
                let app = shell("app", "trap '' TERM; echo up; while :; do sleep 1; done");
                world.create("deaf", json!({"containers": [app]}))?;
                let pod = world.until("deaf", "running", |pod| is_running(pod, "app")).await?;
                world.first_line(&pod, "app", 0).await?;
                let begun = std::time::Instant::now();
                world.objects.delete("deaf", Some(1))?;
                world.until_gone("deaf").await?;
                let took = begun.elapsed();
                // Never less than two seconds between TERM and KILL (L-606).
                expect("within its time", (Duration::from_secs(2)..Duration::from_secs(6)).contains(&took), true)?;
                let last = world.objects.history("deaf").pop().ok_or("no status was written")?;
                expect("phase", last.phase.as_deref(), Some("Failed"))?;
            })
        }),
        trial("a_pod_that_is_gone_has_left_nothing_but_images", |world| {
            steps!(world, {
                let app =
                    with(shell("app", OBEDIENT), json!({"volumeMounts": [{"name": "memory", "mountPath": "/memory"}]}));
                let memory = json!({"name": "memory", "emptyDir": {"medium": "Memory"}});
                world.create("clean", json!({"volumes": [memory], "containers": [app]}))?;
                let pod = world.until("clean", "ready", is_ready).await?;
                world.first_line(&pod, "app", 0).await?;
                world.objects.delete("clean", None)?;
                world.until_gone("clean").await?;
                let paths = DataPaths::new(world.path());
                expect("pod directory", paths.pod(&pod_ref(&pod).uid).exists(), false)?;
                // The records of containers go last, and the image is released with them.
                until(|| leftovers(world.path()).is_empty())
                    .await
                    .map_err(|_| format!("{:#?}", leftovers(world.path())))?;
            })
        }),
        trial("a_pod_removed_by_force_is_killed_all_the_same", |world| {
            steps!(world, {
                let app = with(shell("app", "sleep 1000"), json!({}));
                world.create("forced", json!({"containers": [app], "terminationGracePeriodSeconds": 1}))?;
                let pod = world.until("forced", "running", |pod| is_running(pod, "app")).await?;
                world.objects.delete("forced", Some(0))?;
                let runtime = world.agent.as_ref().ok_or("no agent")?.runtime().clone();
                let uid = pod_ref(&pod).uid;
                until(|| runtime.observation(&uid).is_none()).await?;
                expect("state", state(&pod, "app").running.is_some(), true)?;
            })
        }),
    ]
}
