//! What is mounted into containers, and what a pod's containers share.

use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Trial;
use node::runtime::config::{MountAccess, MountConfig, MountPropagation, MountSource, NamespaceMode, PidNamespaceMode};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};

use crate::trial;
use crate::world::{Outcome, World, sandbox_config};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("volumes_are_mounted_writable_read_only_and_recursively_so", mounts_volumes),
        trial("a_volume_is_shared_by_a_pods_containers", shares_a_volume),
        trial("image_volumes_and_memory_volumes_are_mounted", mounts_layers_and_memory),
        trial("mount_propagation_is_as_asked_for_l_927", propagates),
        trial("a_pods_containers_share_network_ipc_and_host_name_but_not_processes", shares_namespaces),
        trial("with_share_process_namespace_pause_is_process_1_l_940", shares_processes),
        trial("host_namespaces_are_the_nodes_l_940", uses_node_namespaces),
        trial("sysctls_are_set_in_the_pods_namespaces_l_946", sets_sysctls),
        trial("the_network_namespace_is_handed_out", hands_out_its_network),
    ]
}

/// A writable bind mount.
pub(crate) fn bind(path: &Path, destination: &str) -> MountConfig {
    mount_with(path, destination, MountAccess::ReadWrite, MountPropagation::Private)
}

fn mount_with(path: &Path, destination: &str, access: MountAccess, propagation: MountPropagation) -> MountConfig {
    MountConfig {
        destination: PathBuf::from(destination),
        source: MountSource::Bind { path: path.to_owned(), sub_path: None, access, propagation },
    }
}

async fn mounts_volumes(mut world: World) -> Outcome<World> {
    let volume = world.directory.path().join("volume");
    fs::create_dir_all(volume.join("below"))?;
    fs::write(volume.join("file"), "content\n")?;
    let below = TemporaryMount::tmpfs(&volume.join("below"))?;
    let script = "cat /rw/file; touch /rw/new /ro/new /rro/new; touch /ro/below/a; touch /rro/below/b; cat /one; \
                  mkdir /rw/deep; pwd";
    let mut config = world.shell("main", script)?;
    config.mounts = vec![
        bind(&volume, "/rw"),
        mount_with(&volume, "/ro", MountAccess::ReadOnly, MountPropagation::Private),
        mount_with(&volume, "/rro", MountAccess::RecursiveReadOnly, MountPropagation::Private),
        bind(&volume.join("file"), "/one"),
    ];
    config.working_directory = "/rw/work/here".to_owned();
    let (_, container) = world.run_container(&config).await?;
    world.exit(&container).await?;
    let mut log: Vec<String> = world.log("main")?.lines().map(str::to_owned).collect();
    log.sort_unstable();
    assert_eq!(
        log,
        [
            "/rw/work/here",
            "content",
            "content",
            "touch: /ro/new: Read-only file system",
            "touch: /rro/below/b: Read-only file system",
            "touch: /rro/new: Read-only file system",
        ]
    );
    assert!(volume.join("new").exists() && volume.join("below/a").exists() && volume.join("work/here").is_dir());
    drop(below);
    Ok(world)
}

async fn shares_a_volume(mut world: World) -> Outcome<World> {
    let volume = world.directory.path().join("volume");
    fs::create_dir_all(&volume)?;
    let mut writer = world.shell("writer", "echo from writer > /v/x; touch /v/done; exec sleep 1000")?;
    writer.mounts = vec![bind(&volume, "/v")];
    let (sandbox, _) = world.run_container(&writer).await?;
    let mut reader = world.shell("reader", "until [ -e /v/done ]; do :; done; cat /v/x")?;
    reader.mounts = vec![bind(&volume, "/v")];
    let reader = world.runtime.create_container(&sandbox, &reader).await?;
    world.runtime.start_container(&reader).await?;
    world.exit(&reader).await?;
    assert_eq!(world.log("reader")?, "from writer\n");
    Ok(world)
}

async fn mounts_layers_and_memory(mut world: World) -> Outcome<World> {
    let layers = ["top", "bottom"].map(|name| world.directory.path().join(name));
    for (index, layer) in layers.iter().enumerate() {
        fs::create_dir_all(layer.join("models"))?;
        fs::write(layer.join("models").join(format!("from-{index}")), "")?;
        fs::write(layer.join("same"), format!("{index}\n"))?;
        fs::copy("/bin/busybox", layer.join("program"))?;
    }
    let source = |layers: &[PathBuf], sub_path: Option<&str>| MountSource::Layers {
        lower_directories: layers.to_vec(),
        sub_path: sub_path.map(PathBuf::from),
    };
    let script = "cat /image/same; ls /image/models /models; touch /image/x; /image/program true; cat /single/same; \
                  df -k /memory | tail -1 | sed 's/  */ /g'; touch /memory/x && echo written";
    let mut config = world.shell("main", script)?;
    config.mounts = vec![
        MountConfig { destination: "/image".into(), source: source(&layers, None) },
        MountConfig { destination: "/models".into(), source: source(&layers, Some("models")) },
        MountConfig { destination: "/single".into(), source: source(layers.get(1..).unwrap_or_default(), None) },
        MountConfig {
            destination: "/memory".into(),
            source: MountSource::Tmpfs { size_bytes: Some(1 << 20), mode: 0o777 },
        },
    ];
    let (_, container) = world.run_container(&config).await?;
    world.exit(&container).await?;
    let mut log: Vec<String> = world.log("main")?.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    log.sort_unstable();
    assert_eq!(
        log,
        [
            "/bin/sh: /image/program: Permission denied",
            "/image/models:",
            "/models:",
            "0",
            "1",
            "from-0",
            "from-0",
            "from-1",
            "from-1",
            "tmpfs 1024 0 1024 0% /memory",
            "touch: /image/x: Read-only file system",
            "written",
        ]
    );
    Ok(world)
}

async fn propagates(world: World) -> Outcome<World> {
    let root = world.directory.path().join("shared");
    let names = ["none", "in", "both"];
    for name in names {
        fs::create_dir_all(root.join(name).join("node"))?;
        fs::create_dir_all(root.join(name).join("container"))?;
    }
    let shared = TemporaryMount::tmpfs(&root)?;
    mount_change(&root, MountPropagationFlags::SHARED)?;
    for name in names {
        fs::create_dir_all(root.join(name).join("node"))?;
        fs::create_dir_all(root.join(name).join("container"))?;
    }
    let mut config = world.shell("main", "exec sleep 1000")?;
    config.security.privileged = true;
    config.security.capabilities.push("CAP_SYS_ADMIN".to_owned());
    config.security.seccomp = node::runtime::config::SeccompProfile::Unconfined;
    let propagations = [MountPropagation::Private, MountPropagation::HostToContainer, MountPropagation::Bidirectional];
    config.mounts = names
        .iter()
        .zip(propagations)
        .map(|(name, propagation)| {
            mount_with(&root.join(name), &format!("/{name}"), MountAccess::ReadWrite, propagation)
        })
        .collect();
    let (_, container) = world.run_container(&config).await?;
    let mut mounted = Vec::new();
    for name in names {
        mounted.push(TemporaryMount::tmpfs(&root.join(name).join("node"))?);
        world.output(&container, &format!("mount -t tmpfs x /{name}/container")).await?;
    }
    let seen = world
        .output(&container, "for n in none in both; do grep -q \" /$n/node \" /proc/mounts && echo $n; done; true")
        .await?;
    let on_node: Vec<&str> =
        names.into_iter().filter(|name| is_mount_point(&root.join(name).join("container"))).collect();
    drop(mounted);
    world.output(&container, "umount /both/container").await?;
    drop(shared);
    assert_eq!((seen.as_str(), on_node), ("in\nboth\n", vec!["both"]));
    Ok(world)
}

async fn shares_namespaces(world: World) -> Outcome<World> {
    let first = world.shell("first", "echo shm > /dev/shm/x; nc -l -p 4000 -e /bin/echo hello & exec sleep 1000")?;
    let (sandbox, first) = world.run_container(&first).await?;
    let second = world.runtime.create_container(&sandbox, &world.shell("second", "exec sleep 1000")?).await?;
    world.runtime.start_container(&second).await?;
    world
        .output(
            &first,
            "until nc -z 127.0.0.1 4000 < /dev/null || grep -q :0FA0 /proc/net/tcp /proc/net/tcp6; do :; done",
        )
        .await?;
    let show = "for n in net ipc uts; do readlink /proc/1/ns/$n; done; cat /dev/shm/x; hostname";
    let shared = (world.output(&first, show).await?, world.output(&second, show).await?);
    assert_eq!(shared.0, shared.1);
    let own = "readlink /proc/1/ns/pid";
    assert_ne!(world.output(&first, own).await?, world.output(&second, own).await?);
    let node_network = fs::read_link("/proc/self/ns/net")?.to_string_lossy().into_owned();
    assert!(!shared.0.contains(&node_network), "{shared:?} is the node's");
    assert_eq!(world.output(&second, "ps -o comm | grep -vE 'sh|ps|grep|COMMAND'").await?, "sleep\n");
    Ok(world)
}

async fn shares_processes(mut world: World) -> Outcome<World> {
    let mut sandbox = sandbox_config("pod");
    sandbox.namespaces.pid = PidNamespaceMode::Pod;
    let sandbox = world.runtime.run_sandbox(&sandbox).await?.id;
    let first =
        world.runtime.create_container(&sandbox, &world.shell("first", "sleep 12345 & exec sleep 1000")?).await?;
    let second = world.runtime.create_container(&sandbox, &world.shell("second", "exec sleep 2000")?).await?;
    world.runtime.start_container(&first).await?;
    world.runtime.start_container(&second).await?;
    let listed =
        world.output(&second, "ps -o pid,args | grep -E '^ +1 |sleep' | grep -v grep | sed 's/^ *[0-9]* //' ").await?;
    let mut listed: Vec<&str> = listed.lines().map(str::trim).collect();
    listed.sort_unstable();
    assert_eq!(listed, ["/pause shim pause", "sleep 1000", "sleep 12345", "sleep 2000"]);
    // Process 1 is no way out of the container.
    let outside = world.output(&second, "ls /proc/1/root/ /proc/1/cwd/ 2>&1; true").await?;
    assert_eq!(outside, "ls: /proc/1/root/: Permission denied\nls: /proc/1/cwd/: Permission denied\n");
    // One container can signal another's processes, and all of a container's go with its first.
    world
        .output(&second, "kill -KILL $(ps -o pid,args | grep 'sleep 1000' | grep -v grep | sed 's/^ *//; s/ .*//')")
        .await?;
    assert_eq!(world.exit(&first).await?.exit_code, 137);
    assert_eq!(world.output(&second, "ps -o args | grep -c '[s]leep 12345'; true").await?, "0\n");
    Ok(world)
}

async fn uses_node_namespaces(mut world: World) -> Outcome<World> {
    let mut sandbox = sandbox_config("pod");
    sandbox.namespaces.network = NamespaceMode::Node;
    sandbox.namespaces.ipc = NamespaceMode::Node;
    sandbox.namespaces.pid = PidNamespaceMode::Node;
    let record = world.runtime.run_sandbox(&sandbox).await?;
    assert!(record.host_network);
    let script = "for n in net ipc uts pid; do readlink /proc/self/ns/$n; done; sleep 1000 & exit 0";
    let container = world.runtime.create_container(&record.id, &world.shell("main", script)?).await?;
    world.runtime.start_container(&container).await?;
    world.exit(&container).await?;
    let mut expected = String::new();
    for name in ["net", "ipc", "uts", "pid"] {
        expected.push_str(&format!("{}\n", fs::read_link(format!("/proc/self/ns/{name}"))?.display()));
    }
    assert_eq!(world.log("main")?, expected);
    assert_eq!(world.contained_processes(), Vec::<i32>::new());
    Ok(world)
}

async fn sets_sysctls(mut world: World) -> Outcome<World> {
    let mut sandbox = sandbox_config("pod");
    sandbox.sysctls.insert("net.ipv4.ip_unprivileged_port_start".to_owned(), "80".to_owned());
    sandbox.sysctls.insert("kernel.shm_rmid_forced".to_owned(), "1".to_owned());
    let id = world.runtime.run_sandbox(&sandbox).await?.id;
    let script = "cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/kernel/shm_rmid_forced";
    let container = world.runtime.create_container(&id, &world.shell("main", script)?).await?;
    world.runtime.start_container(&container).await?;
    world.exit(&container).await?;
    assert_eq!(world.log("main")?, "80\n1\n");
    assert_eq!(fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start")?, "1024\n");
    let mut refused = sandbox_config("other");
    refused.sysctls.insert("net.no.such".to_owned(), "1".to_owned());
    let error = world.runtime.run_sandbox(&refused).await.err().ok_or("it stands")?;
    assert_eq!(error.to_string(), "failed to set sysctl `net.no.such` to `1`: No such file or directory (os error 2)");
    world.runtime.remove_pod_cgroup("kubepods/besteffort/pod-other").await?;
    Ok(world)
}

async fn hands_out_its_network(world: World) -> Outcome<World> {
    let (sandbox, container) = world.run("exec sleep 1000").await?;
    let namespace = world.runtime.network_namespace(&sandbox).await?;
    let inside = world.output(&container, "readlink /proc/1/ns/net").await?;
    let outside = format!("net:[{}]\n", rustix::fs::fstat(&namespace)?.st_ino);
    assert_eq!(inside, outside);
    assert!(world.output(&container, "ip addr show lo").await?.contains("127.0.0.1/8"));
    Ok(world)
}

/// Something mounted on the node for a test, unmounted whatever happens.
struct TemporaryMount(PathBuf);

impl TemporaryMount {
    fn tmpfs(path: &Path) -> Outcome<TemporaryMount> {
        mount("test", path, "tmpfs", MountFlags::empty(), c"size=1m")?;
        Ok(TemporaryMount(path.to_owned()))
    }
}

impl Drop for TemporaryMount {
    fn drop(&mut self) {
        // The test has its own complaint if this fails: it looks for mounts at its end.
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

fn is_mount_point(path: &Path) -> bool {
    let Ok(text) = fs::read_to_string("/proc/self/mountinfo") else { return false };
    let needle = format!(" {} ", path.display());
    text.contains(&needle)
}
