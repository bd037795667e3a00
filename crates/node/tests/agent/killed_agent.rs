//! Agents that are killed and start again: pods go on, and what happened meanwhile is seen.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use libtest_mimic::Trial;
use node::agent::{Agent, AgentConfig, AgentError};
use node::paths::DataPaths;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::cluster::Objects;
use crate::world::{
    Outcome, PATIENCE, World, container, expect, is_ready, is_running, pod_ref, shell, state, until, with,
};
use crate::{steps, trial};

/// Makes this program an agent to be killed.
pub(crate) const WORD: &str = "agent-to-be-killed";

/// An agent on a data directory: reads its pods from `objects.json`, and prints each change of one as a line.
pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    let Some(directory) = arguments.first().map(PathBuf::from) else { return ExitCode::FAILURE };
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(serve(&directory)));
    if let Err(error) = outcome {
        crate::world::say(&error.to_string());
    }
    ExitCode::FAILURE
}

#[expect(clippy::print_stdout, reason = "it is what its parent reads")]
async fn serve(directory: &Path) -> Outcome {
    let objects = Arc::new(Objects::default());
    let pods: Vec<Pod> = serde_json::from_slice(&std::fs::read(directory.join("objects.json"))?)?;
    pods.into_iter().for_each(|pod| objects.apply(pod));
    let mut changes = objects.changes();
    let _agent = Agent::start(AgentConfig::new(directory, "node-1"), Arc::clone(&objects) as _).await?;
    loop {
        println!("{}", serde_json::to_string(&objects.pods())?);
        changes.changed().await?;
    }
}

/// Such an agent, as its parent sees it.
struct KilledAgent {
    child: Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

impl KilledAgent {
    fn start(directory: &Path, pods: &[Pod]) -> Outcome<KilledAgent> {
        std::fs::write(directory.join("objects.json"), serde_json::to_vec(pods)?)?;
        let mut child = Command::new("/proc/self/exe")
            .arg(WORD)
            .arg(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().ok_or("no output")?;
        Ok(KilledAgent { child, lines: BufReader::new(stdout).lines() })
    }

    /// Waits until its pod is as wanted.
    async fn until(&mut self, is_so: impl Fn(&Pod) -> bool) -> Outcome<Pod> {
        let wait = async {
            let mut last = String::new();
            while let Some(line) = self.lines.next_line().await? {
                let pods: Vec<Pod> = serde_json::from_str(&line)?;
                if let Some(pod) = pods.into_iter().find(&is_so) {
                    return Ok(pod);
                }
                last = line;
            }
            Err(format!("the agent ended; the last it said: {last}").into())
        };
        tokio::time::timeout(PATIENCE, wait).await?
    }

    async fn kill(mut self) -> Outcome {
        Ok(self.child.kill().await?)
    }
}

/// Waits until a process has ended, whoever its parent is.
async fn until_ended(process: i32) -> Outcome {
    let waited = tokio::task::spawn_blocking(move || -> Outcome {
        let id = rustix::process::Pid::from_raw(process).ok_or("no process")?;
        let pidfd = match rustix::process::pidfd_open(id, rustix::process::PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(rustix::io::Errno::SRCH) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut polled = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut polled, None)?;
        Ok(())
    });
    tokio::time::timeout(PATIENCE, waited).await??
}

/// The first line that a container has written, as a number.
async fn printed_number(world: &World, pod: &Pod) -> Outcome<i32> {
    Ok(world.first_line(pod, "app", 0).await?.parse()?)
}

/// A pod in the node's process namespace that prints its process id.
fn spec(world: &World) -> Outcome<serde_json::Value> {
    let path = world.path().join("work");
    std::fs::create_dir_all(&path)?;
    // The node makes one dollar sign of two.
    let script = "echo $$$$; while [ ! -e /work/go ]; do sleep 0.05; done; exit 7";
    let app = with(shell("app", script), json!({"volumeMounts": [{"name": "work", "mountPath": "/work"}]}));
    let volume = json!({"name": "work", "hostPath": {"path": path}});
    Ok(json!({"hostPID": true, "restartPolicy": "Never", "volumes": [volume], "containers": [app]}))
}

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_container_keeps_its_process_and_first_life_when_the_agent_is_killed", |mut world| {
            steps!(world, {
                world.stop_agent().await;
                let mut agent = KilledAgent::start(world.path(), &[crate::world::pod("kept", spec(&world)?)?])?;
                let before = agent.until(is_ready).await?;
                agent.kill().await?;
                let process = printed_number(&world, &before).await?;
                world.objects.apply(before.clone());
                world.start_agent().await?;
                std::fs::write(world.path().join("work/go"), "")?;
                until_ended(process).await?;
                let after = world.until_phase("kept", "Failed").await?;
                expect("container", container(&after, "app").container_id, container(&before, "app").container_id)?;
                expect("restarts", container(&after, "app").restart_count, 0)?;
                let ended = state(&after, "app").terminated.unwrap_or_default();
                expect("code", ended.exit_code, 7)?;
                let started = state(&before, "app").running.unwrap_or_default().started_at;
                expect("start", ended.started_at, started)?;
            })
        }),
        trial("an_exit_while_no_agent_lives_is_seen_with_its_code", |mut world| {
            steps!(world, {
                world.stop_agent().await;
                let mut agent = KilledAgent::start(world.path(), &[crate::world::pod("missed", spec(&world)?)?])?;
                let before = agent.until(is_ready).await?;
                agent.kill().await?;
                let process = printed_number(&world, &before).await?;
                std::fs::write(world.path().join("work/go"), "")?;
                until_ended(process).await?;
                world.objects.apply(before);
                world.start_agent().await?;
                let after = world.until_phase("missed", "Failed").await?;
                expect("code", state(&after, "app").terminated.unwrap_or_default().exit_code, 7)?;
                expect("restarts", container(&after, "app").restart_count, 0)?;
            })
        }),
        trial("a_pod_whose_object_went_while_no_agent_lived_is_ended", |mut world| {
            steps!(world, {
                world.create(
                    "orphan",
                    json!({"containers": [shell("app", "sleep 1000")], "terminationGracePeriodSeconds": 1}),
                )?;
                let pod = world.until("orphan", "running", |pod| is_running(pod, "app")).await?;
                world.stop_agent().await;
                world.objects.remove("orphan");
                world.start_agent().await?;
                let runtime = world.agent.as_ref().ok_or("no agent")?.runtime().clone();
                let directory = DataPaths::new(world.path()).pod(&pod_ref(&pod).uid);
                until(|| !directory.exists() && runtime.observation(&pod_ref(&pod).uid).is_none()).await?;
            })
        }),
        trial("two_agents_do_not_share_a_data_directory", |world| {
            steps!(world, {
                let second = Agent::start(world.config(), Arc::clone(&world.objects) as _).await;
                expect("locked", matches!(second, Err(AgentError::Locked { .. })), true)?;
            })
        }),
    ]
}
