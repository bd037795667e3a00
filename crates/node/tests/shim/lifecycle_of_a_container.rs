//! From created to removed.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use libtest_mimic::Trial;
use lifecycle::effect::Signal;
use lifecycle::observation::LinuxUser;
use lifecycle::{ContainerRole, RuntimeState};
use node::runtime::RuntimeError;
use node::runtime::config::{EnvVar, Rootfs, UserConfig};

use crate::trial;
use crate::world::{Outcome, World, sandbox_config, state};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_container_runs_logs_and_exits_with_its_code", runs_and_exits),
        trial("an_observation_shows_the_whole_of_a_pod", shows_the_whole),
        trial("death_by_signal_is_128_plus_its_number_l_735", dies_by_signal),
        trial("a_missing_program_is_a_start_error_that_names_it_l_735", lacks_its_program),
        trial("a_program_that_the_kernel_refuses_is_told_in_the_log", cannot_be_executed),
        trial("every_verb_may_be_repeated", repeats),
        trial("a_restart_is_a_container_of_its_own", restarts),
        trial("a_removed_container_leaves_its_log_or_not", is_removed),
        trial("the_termination_message_is_read_from_the_file_l_740", tells_by_file),
        trial("the_termination_message_falls_back_to_the_log_l_740", tells_by_log),
        trial("a_container_has_its_environment_and_directory", has_its_surroundings),
        trial("a_container_has_its_user_and_groups", has_its_user),
        trial("a_read_only_root_cannot_be_written", cannot_write_its_root),
        trial("a_directory_can_be_the_root", runs_on_a_directory),
        trial("an_image_of_many_layers_can_be_mounted", runs_on_many_layers),
        trial("what_a_container_leaves_running_dies_with_it", leaves_processes),
    ]
}

async fn runs_and_exits(mut world: World) -> Outcome<World> {
    let (_, container) = world.run("echo out; echo err >&2; exit 7").await?;
    let exit = world.exit(&container).await?;
    assert_eq!((exit.exit_code, exit.reason.as_deref(), exit.message.as_str()), (7, None, ""));
    let log = world.log("main")?;
    let mut lines: Vec<&str> = log.lines().collect();
    // Two pipes have no common order.
    lines.sort_unstable();
    assert_eq!(lines, ["err", "out"]);
    Ok(world)
}

async fn shows_the_whole(mut world: World) -> Outcome<World> {
    let config = world.shell("main", "exec sleep 1000")?;
    let sandbox = world.runtime.run_sandbox(&sandbox_config("pod")).await?;
    assert_eq!((sandbox.ready, sandbox.host_network, sandbox.attempt), (true, false, 0));
    let container = world.runtime.create_container(&sandbox.id, &config).await?;
    assert_eq!(world.record(&container)?.state, RuntimeState::Created);
    world.runtime.start_container(&container).await?;
    let observation =
        world.wait_until(|it| matches!(state(it, &container), Some(RuntimeState::Running { .. }))).await?;
    let record = observation.containers.first().ok_or("no container")?;
    assert_eq!(
        (record.name.as_str(), record.role, record.attempt, &record.sandbox, record.spec_image.as_str()),
        ("main", ContainerRole::App, 0, &sandbox.id, "busybox")
    );
    assert_eq!(record.user, Some(LinuxUser { uid: 0, gid: 0, supplemental_groups: vec![] }));
    assert_eq!(observation.sandboxes, [sandbox]);
    world.runtime.signal_container(&container, &Signal::Kill).await?;
    assert_eq!(world.exit(&container).await?.exit_code, 137);
    Ok(world)
}

async fn dies_by_signal(mut world: World) -> Outcome<World> {
    let (_, container) = world.run("kill -SEGV $$; sleep 1").await?;
    // Process 1 of a namespace gets no signal of its own; its child does.
    let first = world.exit(&container).await?.exit_code;
    let config = world.shell("second", "trap 'exit 9' USR1; echo ready; while :; do sleep 1000 & wait; done")?;
    let sandbox = world.record(&container)?.sandbox;
    let second = world.runtime.create_container(&sandbox, &config).await?;
    world.runtime.start_container(&second).await?;
    world.exec(&second, "until grep -q SigCgt.*2.. /proc/1/status; do :; done").await?;
    let stop = Signal::Stop { named: Some("SIGUSR1".to_owned()), grace: std::time::Duration::ZERO };
    world.runtime.signal_container(&second, &stop).await?;
    let third = world.runtime.create_container(&sandbox, &world.program("third", &["/bin/sleep", "1000"])?).await?;
    world.runtime.start_container(&third).await?;
    world.runtime.signal_container(&third, &Signal::Kill).await?;
    assert_eq!((first, world.exit(&second).await?.exit_code, world.exit(&third).await?.exit_code), (0, 9, 137));
    Ok(world)
}

async fn lacks_its_program(mut world: World) -> Outcome<World> {
    let cases = [
        (vec!["nosuchthing", "-x"], "exec: \"nosuchthing\": executable file not found in $PATH"),
        (vec!["/nosuchthing"], "exec: \"/nosuchthing\": stat /nosuchthing: no such file or directory"),
        (vec!["/etc"], "exec: \"/etc\": is a directory"),
        (vec!["/etc/passwd"], "exec: \"/etc/passwd\": permission denied"),
    ];
    let sandbox = world.runtime.run_sandbox(&sandbox_config("pod")).await?.id;
    for (index, (argv, message)) in cases.into_iter().enumerate() {
        let config = world.program(&format!("c{index}"), &argv)?;
        let container = world.runtime.create_container(&sandbox, &config).await?;
        let error = world.runtime.start_container(&container).await.err().ok_or("it has started")?;
        assert!(matches!(&error, RuntimeError::StartFailed(text) if text == message), "{error:?}");
        let exit = world.exit(&container).await?;
        assert_eq!(
            (exit.exit_code, exit.reason.as_deref(), exit.message.as_str(), exit.started_at),
            (128, Some("StartError"), message, None)
        );
    }
    Ok(world)
}

async fn cannot_be_executed(mut world: World) -> Outcome<World> {
    let sandbox = world.runtime.run_sandbox(&sandbox_config("pod")).await?.id;
    let config = world.program("main", &["/data/garbage"])?;
    let Rootfs::Overlay { upper_directory, .. } = &config.rootfs else { return Err("no overlay".into()) };
    std::fs::create_dir_all(upper_directory.join("data"))?;
    let garbage = upper_directory.join("data/garbage");
    std::fs::write(&garbage, "\x01\x02\x03\x04")?;
    std::fs::set_permissions(&garbage, PermissionsExt::from_mode(0o755))?;
    let container = world.runtime.create_container(&sandbox, &config).await?;
    world.runtime.start_container(&container).await?;
    assert_eq!(world.exit(&container).await?.exit_code, 255);
    assert_eq!(world.log("main")?, "exec /data/garbage: exec format error\n");
    Ok(world)
}

async fn repeats(mut world: World) -> Outcome<World> {
    let config = world.shell("main", "exec sleep 1000")?;
    let (sandbox, container) = world.run_container(&config).await?;
    let pid = world.contained_processes();
    assert_eq!(world.runtime.run_sandbox(&sandbox_config("pod")).await?.id, sandbox);
    assert_eq!(world.runtime.create_container(&sandbox, &config).await?, container);
    world.runtime.start_container(&container).await?;
    assert_eq!(world.contained_processes(), pid);
    for _ in 0..2 {
        world.runtime.signal_container(&container, &Signal::Kill).await?;
    }
    world.exit(&container).await?;
    for _ in 0..2 {
        world.runtime.start_container(&container).await?;
        world.runtime.signal_container(&container, &Signal::Kill).await?;
    }
    for _ in 0..2 {
        world.runtime.remove_container(&container, true).await?;
    }
    for _ in 0..2 {
        world.runtime.stop_sandbox(&sandbox).await?;
    }
    for _ in 0..2 {
        world.runtime.remove_sandbox(&sandbox).await?;
    }
    assert_eq!(world.runtime.observations(), []);
    world.runtime.remove_pod_cgroup("kubepods/besteffort/pod-pod").await?;
    Ok(world)
}

async fn restarts(mut world: World) -> Outcome<World> {
    let mut config = world.shell("main", "echo life >> /life; cat /life; exit 1")?;
    let (sandbox, first) = world.run_container(&config).await?;
    world.exit(&first).await?;
    config.attempt = 1;
    config.log_path = Some(world.log_path("main").with_file_name("1.log"));
    if let Rootfs::Overlay { upper_directory, work_directory, .. } = &mut config.rootfs {
        *upper_directory = upper_directory.with_file_name("upper-1");
        *work_directory = work_directory.with_file_name("work-1");
    }
    let second = world.runtime.create_container(&sandbox, &config).await?;
    world.runtime.start_container(&second).await?;
    world.exit(&second).await?;
    assert_ne!(first, second);
    let attempts: Vec<u32> = {
        let mut records: Vec<_> = world.runtime.observations().into_iter().flat_map(|it| it.containers).collect();
        records.sort_by_key(|record| record.attempt);
        records.iter().map(|record| record.attempt).collect()
    };
    assert_eq!(attempts, [0, 1]);
    // The new life begins on an empty layer.
    let log = std::fs::read_to_string(world.log_path("main").with_file_name("1.log"))?;
    assert_eq!(log.lines().count(), 1);
    Ok(world)
}

async fn is_removed(mut world: World) -> Outcome<World> {
    let config = world.shell("main", "echo x")?;
    let (sandbox, kept) = world.run_container(&config).await?;
    let other = world.shell("other", "echo y")?;
    let thrown = world.runtime.create_container(&sandbox, &other).await?;
    world.runtime.start_container(&thrown).await?;
    world.exit(&kept).await?;
    world.exit(&thrown).await?;
    world.runtime.remove_container(&kept, true).await?;
    world.runtime.remove_container(&thrown, false).await?;
    let Rootfs::Overlay { upper_directory, .. } = &config.rootfs else { return Err("no overlay".into()) };
    assert_eq!(
        (world.log_path("main").exists(), world.log_path("other").exists(), upper_directory.exists()),
        (true, false, false)
    );
    assert_eq!(world.runtime.observations().into_iter().flat_map(|it| it.containers).count(), 0);
    Ok(world)
}

async fn tells_by_file(mut world: World) -> Outcome<World> {
    let mut config = world.shell("main", "printf 'last words' > /dev/termination-log; exit 3")?;
    let path = config.termination_message.host_path.clone().ok_or("no path")?;
    config.mounts.push(crate::volumes::bind(&path, "/dev/termination-log"));
    let (_, container) = world.run_container(&config).await?;
    assert_eq!(world.exit(&container).await?.message, "last words");
    Ok(world)
}

async fn tells_by_log(mut world: World) -> Outcome<World> {
    let mut config = world.shell("main", "seq 1 100; exit 3")?;
    config.termination_message.fallback_to_logs_on_error = true;
    let (sandbox, failed) = world.run_container(&config).await?;
    let mut config = world.shell("fine", "seq 1 100; exit 0")?;
    config.termination_message.fallback_to_logs_on_error = true;
    let fine = world.runtime.create_container(&sandbox, &config).await?;
    world.runtime.start_container(&fine).await?;
    let expected: String = (21..=100).map(|number| format!("{number}\n")).collect();
    assert_eq!((world.exit(&failed).await?.message, world.exit(&fine).await?.message), (expected, String::new()));
    Ok(world)
}

async fn has_its_surroundings(mut world: World) -> Outcome<World> {
    let script =
        "pwd; echo $PATH; echo $HOME; echo $HOSTNAME; hostname; echo $GREETING; echo $TWICE; echo ${TERM-none}";
    let mut config = world.shell("main", script)?;
    config.working_directory = "/made/for/this".to_owned();
    for value in ["first", "second"] {
        config.env.push(EnvVar { name: "TWICE".to_owned(), value: value.to_owned() });
    }
    let (_, container) = world.run_container(&config).await?;
    world.exit(&container).await?;
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    assert_eq!(world.log("main")?, format!("/made/for/this\n{path}\n/root\npod\npod\nhello world\nsecond\nnone\n"));
    Ok(world)
}

async fn has_its_user(mut world: World) -> Outcome<World> {
    let mut config = world.shell("main", "id -u; id -g; id -G; echo $HOME; umask")?;
    config.user = UserConfig { uid: 1000, gid: 1000, supplementary_groups: vec![2000, 3000] };
    let (sandbox, container) = world.run_container(&config).await?;
    world.exit(&container).await?;
    assert_eq!(world.log("main")?, "1000\n1000\n1000 2000 3000\n/home/app\n0022\n");
    let plain = world.shell("plain", "id -G")?;
    let container = world.runtime.create_container(&sandbox, &plain).await?;
    world.runtime.start_container(&container).await?;
    world.exit(&container).await?;
    assert_eq!(world.log("plain")?, "0\n");
    Ok(world)
}

async fn cannot_write_its_root(mut world: World) -> Outcome<World> {
    let mut config = world.shell("main", "exec 2>&1; touch /x; touch /dev/shm/y && echo shm")?;
    config.read_only_rootfs = true;
    let (_, container) = world.run_container(&config).await?;
    world.exit(&container).await?;
    assert_eq!(world.log("main")?, "touch: /x: Read-only file system\nshm\n");
    Ok(world)
}

async fn runs_on_a_directory(mut world: World) -> Outcome<World> {
    let mut config = world.shell("main", "echo here > /data/file; echo done")?;
    let root = world.directory.path().join("root");
    copy_root(&world.root(), &root)?;
    config.rootfs = Rootfs::Directory(root.clone());
    let (_, container) = world.run_container(&config).await?;
    world.exit(&container).await?;
    world.runtime.remove_container(&container, true).await?;
    assert_eq!(
        (world.log("main")?, std::fs::read_to_string(root.join("data/file"))?),
        ("done\n".into(), "here\n".into())
    );
    Ok(world)
}

async fn runs_on_many_layers(mut world: World) -> Outcome<World> {
    let mut config = world.shell("main", "ls /layers | wc -l")?;
    let Rootfs::Overlay { lower_directories, .. } = &mut config.rootfs else { return Err("no overlay".into()) };
    // Names as long as an image store's: more than one page of mount options.
    for index in 0..100 {
        let layer = world.directory.path().join(format!("layers/{index:064}"));
        std::fs::create_dir_all(layer.join("layers"))?;
        std::fs::write(layer.join(format!("layers/{index}")), "")?;
        lower_directories.push(layer);
    }
    let (_, container) = world.run_container(&config).await?;
    world.exit(&container).await?;
    assert_eq!(world.log("main")?, "100\n");
    Ok(world)
}

async fn leaves_processes(mut world: World) -> Outcome<World> {
    let (_, container) = world.run("setsid sleep 1000 & setsid sleep 1000 & exit 0").await?;
    world.exit(&container).await?;
    assert_eq!(world.contained_processes(), Vec::<i32>::new());
    Ok(world)
}

fn copy_root(from: &Path, to: &Path) -> Outcome {
    for directory in ["bin", "etc", "data", "proc", "sys", "dev"] {
        std::fs::create_dir_all(to.join(directory))?;
    }
    std::fs::copy(from.join("bin/busybox"), to.join("bin/busybox"))?;
    std::os::unix::fs::symlink(PathBuf::from("busybox"), to.join("bin/sh"))?;
    Ok(())
}
