//! Containers that misbehave, and ends that nobody wished for.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use libtest_mimic::Trial;
use lifecycle::effect::Signal;
use lifecycle::{ContainerId, RuntimeState};
use node::runtime::RuntimeError;
use rustix::process::{Pid, kill_process};

use crate::trial;
use crate::world::{Outcome, PATIENCE, World, sandbox_config, state};

/// The word that makes the test program an agent that is going to be killed.
pub(crate) const AGENT: &str = "agent-to-be-killed";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_fork_bomb_is_bounded_and_killed", survives_a_fork_bomb),
        trial("an_out_of_memory_kill_is_told", tells_oom),
        trial("a_flood_without_newlines_is_cut_and_rotated", survives_a_flood),
        trial("a_container_that_closes_its_streams_still_ends_properly", closes_its_streams),
        trial("a_hundred_that_end_at_once_are_all_seen", ends_at_once),
        trial("who_ignores_sigterm_is_killed", ignores_sigterm),
        trial("stopping_a_sandbox_ends_all_in_it", is_stopped),
        trial("two_pods_run_side_by_side", runs_two_pods),
        trial("a_killed_agents_containers_live_on_and_are_found", survives_the_agent),
        trial("an_exit_that_no_agent_saw_is_found_with_its_code", keeps_exits),
        trial("a_killed_shims_containers_die_and_are_unknown", survives_the_shim),
        trial("a_killed_shim_is_buried_by_the_next_agent", is_buried_later),
        trial("garbage_from_a_client_does_no_harm", reads_garbage),
        trial("what_another_user_may_not_reach_is_closed", is_private),
        trial("limits_can_be_changed_in_place", changes_limits),
    ]
}

async fn survives_a_fork_bomb(mut world: World) -> Outcome<World> {
    let mut config = world.shell("main", "bomb() { bomb | bomb & }; bomb; sleep 1000")?;
    config.resources.pids_limit = Some(50);
    let (_, container) = world.run_container(&config).await?;
    // It is at its limit once a fork has failed.
    world.wait_for_log_line("main", "fork").await?;
    world.runtime.signal_container(&container, &Signal::Kill).await?;
    assert_eq!(world.exit(&container).await?.exit_code, 137);
    assert_eq!(world.contained_processes(), Vec::<i32>::new());
    Ok(world)
}

async fn tells_oom(mut world: World) -> Outcome<World> {
    let mut config = world.shell("main", "exec tail -c 200000000 /dev/zero")?;
    config.resources.memory_limit_bytes = Some(16 << 20);
    let (_, container) = world.run_container(&config).await?;
    let exit = world.exit(&container).await?;
    assert_eq!((exit.exit_code, exit.reason.as_deref()), (137, Some("OOMKilled")));
    Ok(world)
}

async fn survives_a_flood(mut world: World) -> Outcome<World> {
    let (_, container) = world.run("tr '\\0' x < /dev/zero | head -c 120000000; exit 0").await?;
    assert_eq!(world.exit(&container).await?.exit_code, 0);
    let directory = world.log_path("main").parent().ok_or("no parent")?.to_owned();
    let mut sizes = Vec::new();
    for entry in fs::read_dir(directory)? {
        sizes.push(entry?.metadata()?.len());
    }
    assert_eq!((sizes.len(), sizes.iter().filter(|size| **size > 10 << 20).count()), (5, 0));
    let text = fs::read_to_string(world.log_path("main"))?;
    assert!(text.lines().all(|line| line.split(' ').nth(2) == Some("P")), "a full line");
    assert_eq!(text.lines().next().and_then(|line| line.split(' ').nth(3)).map(str::len), Some(16 * 1024));
    Ok(world)
}

async fn closes_its_streams(mut world: World) -> Outcome<World> {
    let (_, container) = world.run("echo one; exec 0<&- 1>&- 2>&-; sleep 0.1; exit 4").await?;
    assert_eq!((world.exit(&container).await?.exit_code, world.log("main")?.as_str()), (4, "one\n"));
    Ok(world)
}

async fn ends_at_once(mut world: World) -> Outcome<World> {
    let sandbox = world.runtime.run_sandbox(&sandbox_config("pod")).await?.id;
    for index in 0..100 {
        let config = world.shell(&format!("c{index}"), &format!("echo {index}; exit {index}"))?;
        let container = world.runtime.create_container(&sandbox, &config).await?;
        world.runtime.start_container(&container).await?;
        assert_eq!(world.exit(&container).await?.exit_code, index);
        assert_eq!(world.log(&config.name)?, format!("{index}\n"));
        world.runtime.remove_container(&container, true).await?;
    }
    Ok(world)
}

async fn ignores_sigterm(mut world: World) -> Outcome<World> {
    let (_, container) = world.run("trap '' TERM; echo ready; while :; do sleep 1000 & wait; done").await?;
    world.wait_for_log("main", "ready\n").await?;
    let stop = Signal::Stop { named: None, grace: Duration::from_secs(1) };
    world.runtime.signal_container(&container, &stop).await?;
    assert_eq!(world.output(&container, "echo alive").await?, "alive\n");
    world.runtime.signal_container(&container, &Signal::Kill).await?;
    assert_eq!(world.exit(&container).await?.exit_code, 137);
    Ok(world)
}

async fn is_stopped(mut world: World) -> Outcome<World> {
    let (sandbox, first) = world.run("exec sleep 1000").await?;
    let config = world.shell("second", "trap '' TERM; sleep 1000 & sleep 1000 & wait; wait")?;
    let second = world.runtime.create_container(&sandbox, &config).await?;
    world.runtime.start_container(&second).await?;
    world.runtime.stop_sandbox(&sandbox).await?;
    assert_eq!((world.shims(), world.contained_processes()), (vec![], vec![]));
    let codes = (world.exit(&first).await?.exit_code, world.exit(&second).await?.exit_code);
    let observation = world.runtime.observations().pop().ok_or("no pod")?;
    assert_eq!((codes, observation.sandboxes.iter().filter(|it| it.ready).count()), ((137, 137), 0));
    let error = world.runtime.run_sandbox(&sandbox_config("pod")).await.err().ok_or("it stands")?;
    assert!(matches!(error, RuntimeError::SandboxEnded(_)), "{error:?}");
    Ok(world)
}

async fn runs_two_pods(mut world: World) -> Outcome<World> {
    let names = ["left", "right"];
    let configs = names.map(sandbox_config);
    let [left, right] = &configs;
    let (one, two) = tokio::join!(world.runtime.run_sandbox(left), world.runtime.run_sandbox(right));
    let mut containers = Vec::new();
    for (name, sandbox) in names.into_iter().zip([one?.id, two?.id]) {
        let mut config = world
            .shell(name, "hostname; nc -l -p 5000 & sleep 0.1; grep -c :1388 /proc/net/tcp6 /proc/net/tcp | head -1")?;
        config.pod = crate::world::pod(name);
        containers.push(world.runtime.create_container(&sandbox, &config).await?);
    }
    let [first, second] = containers.as_slice() else { return Err("not two".into()) };
    let (one, two) = tokio::join!(world.runtime.start_container(first), world.runtime.start_container(second));
    one?;
    two?;
    for (container, name) in containers.iter().zip(names) {
        assert_eq!(world.exit(container).await?.exit_code, 0);
        // Each has its own host name and its own port 5000.
        assert_eq!(world.log(name)?, format!("{name}\n/proc/net/tcp6:1\n"));
    }
    assert_eq!(world.runtime.observations().len(), 2);
    Ok(world)
}

/// Plays an agent: runs a pod, tells the container's id, and waits for its death.
pub(crate) fn agent(arguments: &[std::ffi::OsString]) -> std::process::ExitCode {
    let play = || -> Outcome {
        let [directory, prefix, script] = arguments else { return Err("three arguments".into()) };
        let script = script.to_string_lossy();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let world = World::adopt(std::path::Path::new(directory), &prefix.to_string_lossy()).await?;
            let (_, container) = world.run(&script).await?;
            println!("{container}");
            std::future::pending::<()>().await;
            Ok(())
        })
    };
    match play() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}

/// Runs a container under an agent that is killed without warning; the world is another agent's then.
async fn run_under_a_killed_agent(world: &mut World, script: &str) -> Outcome<ContainerId> {
    let mut agent = Command::new("/proc/self/exe")
        .arg(AGENT)
        .arg(world.directory.path())
        .arg(&world.config.cgroup_prefix)
        .arg(script)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(agent.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
    agent.kill()?;
    agent.wait()?;
    let container = ContainerId(line.trim().to_owned());
    if container.as_str().len() == 64 { Ok(container) } else { Err(format!("not an id: {line:?}").into()) }
}

async fn survives_the_agent(mut world: World) -> Outcome<World> {
    let container = run_under_a_killed_agent(&mut world, "echo $$ > /pid; exec sleep 1000").await?;
    let before = world.contained_processes();
    world.reopen().await?;
    let record = world.record(&container)?;
    assert!(matches!(record.state, RuntimeState::Running { .. }), "{record:?}");
    assert_eq!((before.len(), world.contained_processes()), (1, before));
    assert_eq!(world.output(&container, "cat /pid").await?, "1\n");
    world.runtime.signal_container(&container, &Signal::Kill).await?;
    assert_eq!(world.exit(&container).await?.exit_code, 137);
    Ok(world)
}

async fn keeps_exits(mut world: World) -> Outcome<World> {
    let container =
        run_under_a_killed_agent(&mut world, "until [ -e /go ]; do sleep 0.01; done; echo bye; exit 42").await?;
    // Through the container's own eyes: what is put below a mounted overlay need not be seen in it.
    let process = world.contained_processes().first().copied().ok_or("no process")?;
    fs::write(format!("/proc/{process}/root/go"), "")?;
    // The shim puts it on record whoever listens.
    world.wait_for_log("main", "bye\n").await?;
    world.reopen().await?;
    let exit = world.exit(&container).await?;
    assert_eq!((exit.exit_code, exit.started_at.is_some()), (42, true));
    Ok(world)
}

async fn survives_the_shim(mut world: World) -> Outcome<World> {
    let (sandbox, running) = world.run("sleep 1000 & exec sleep 1000").await?;
    let ended = world.runtime.create_container(&sandbox, &world.shell("ended", "exit 3")?).await?;
    world.runtime.start_container(&ended).await?;
    world.exit(&ended).await?;
    for shim in world.shims() {
        kill_process(Pid::from_raw(shim).ok_or("no pid")?, rustix::process::Signal::KILL)?;
    }
    let observation = world.wait_until(|it| it.sandboxes.iter().all(|sandbox| !sandbox.ready)).await?;
    assert_eq!(state(&observation, &running), Some(&RuntimeState::Unknown));
    assert!(matches!(state(&observation, &ended), Some(RuntimeState::Exited(exit)) if exit.exit_code == 3));
    assert_eq!(world.contained_processes(), Vec::<i32>::new());
    world.runtime.remove_container(&running, true).await?;
    assert_eq!(world.runtime.observations().into_iter().flat_map(|it| it.containers).count(), 1);
    // Another attempt goes on.
    let mut next = sandbox_config("pod");
    next.attempt = 1;
    assert!(world.runtime.run_sandbox(&next).await?.ready);
    assert_eq!(world.runtime.observations().first().map(|it| it.sandboxes.len()), Some(2));
    Ok(world)
}

async fn is_buried_later(mut world: World) -> Outcome<World> {
    let container = run_under_a_killed_agent(&mut world, "setsid sleep 1000 & exec sleep 1000").await?;
    for shim in world.shims() {
        kill_process(Pid::from_raw(shim).ok_or("no pid")?, rustix::process::Signal::KILL)?;
    }
    world.reopen().await?;
    assert_eq!(world.record(&container)?.state, RuntimeState::Unknown);
    assert_eq!(world.contained_processes(), Vec::<i32>::new());
    Ok(world)
}

async fn reads_garbage(world: World) -> Outcome<World> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let (sandbox, container) = world.run("exec sleep 1000").await?;
    let directory = fs::File::open(world.config.state_directory.join("sandboxes").join(sandbox.as_str()))?;
    let path = format!("/proc/self/fd/{}/shim.sock", std::os::fd::AsRawFd::as_raw_fd(&directory));
    let cases: [&[u8]; 5] = [
        b"\0\0\0\x02{}",
        b"\0\0\0\x07garbage",
        b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\x2a{\"version\":2,\"request\":\"NetworkNamespace\"}",
    ];
    for garbage in cases {
        let mut stream = tokio::net::UnixStream::connect(&path).await?;
        stream.write_all(garbage).await?;
        stream.shutdown().await?;
        let mut answer = Vec::new();
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await??;
        assert!(String::from_utf8_lossy(&answer).contains("Failed"), "{garbage:?}: {answer:?}");
    }
    assert_eq!(world.output(&container, "echo fine").await?, "fine\n");
    Ok(world)
}

async fn is_private(world: World) -> Outcome<World> {
    use std::os::unix::fs::PermissionsExt;

    let (sandbox, _) = world.run("exec sleep 1000").await?;
    let directory = world.config.state_directory.join("sandboxes").join(sandbox.as_str());
    assert_eq!(fs::metadata(directory)?.permissions().mode() & 0o7777, 0o700);
    Ok(world)
}

async fn changes_limits(mut world: World) -> Outcome<World> {
    let mut config = world.shell("main", "exec sleep 1000")?;
    config.resources.memory_limit_bytes = Some(64 << 20);
    config.resources.cpu_quota_microseconds = Some(50_000);
    let (_, container) = world.run_container(&config).await?;
    let read = "cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes cpu/cpu.cfs_quota_us cpu/cpu.shares 2>/dev/null || cat memory.max";
    let before = world.output(&container, read).await?;
    let usage = world.runtime.container_usage(&container)?;
    assert!(usage.memory_bytes > 0 && usage.pids >= 1, "{usage:?}");
    let mut resources = config.resources.clone();
    resources.memory_limit_bytes = Some(128 << 20);
    resources.cpu_quota_microseconds = None;
    resources.cpu_shares = Some(512);
    world.runtime.update_container(&container, &resources).await?;
    assert_eq!(
        (before.as_str(), world.output(&container, read).await?.as_str()),
        ("67108864\n50000\n2\n", "134217728\n-1\n512\n")
    );
    world.runtime.signal_container(&container, &Signal::Kill).await?;
    world.exit(&container).await?;
    Ok(world)
}
