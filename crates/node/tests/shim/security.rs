//! What a container may do, seen from inside it.

use std::fs;
use std::os::unix::fs::MetadataExt;

use libtest_mimic::Trial;
use node::runtime::config::{DeviceConfig, DeviceKind, SeccompProfile, SecurityConfig, UserConfig};

use crate::trial;
use crate::world::{Outcome, World, sandbox_config};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("the_default_container_is_filtered_and_has_exact_capabilities_l_944_l_945", has_defaults),
        trial("no_new_privileges_is_set_and_only_then_l_945", has_no_new_privileges),
        trial("another_user_has_no_capabilities_but_their_bounds", has_bounds_only),
        trial("privileged_has_all_that_the_node_has_l_945", is_privileged),
        trial("an_exec_is_confined_like_the_container", confines_execs),
        trial("the_default_filter_refuses_new_namespaces", refuses_namespaces),
        trial("a_localhost_profile_is_loaded_l_944", loads_a_profile),
        trial("a_broken_profile_is_a_start_error", refuses_a_broken_profile),
        trial("an_unknown_capability_is_a_start_error", refuses_an_unknown_capability),
        trial("device_nodes_can_be_made_but_not_used", cannot_use_devices),
        trial("a_device_of_the_pods_can_be_used", uses_a_device),
        trial("kernel_files_are_masked_or_read_only_l_945", masks_paths),
        trial("signals_are_as_a_fresh_process_has_them", has_default_signals),
        trial("nothing_of_the_shims_descriptors_leaks", leaks_no_descriptors),
    ]
}

const SHOW: &str = "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\\t'";
/// The fourteen default capabilities as a mask.
const DEFAULT_MASK: &str = "00000000a80425fb";
const NONE: &str = "0000000000000000";

fn status(effective: &str, bounding: &str, no_new_privileges: u8, seccomp: u8) -> String {
    format!(
        "CapInh:{NONE}\nCapPrm:{effective}\nCapEff:{effective}\nCapBnd:{bounding}\nCapAmb:{NONE}\n\
         NoNewPrivs:{no_new_privileges}\nSeccomp:{seccomp}\n"
    )
}

async fn has_defaults(mut world: World) -> Outcome<World> {
    let (_, container) = world.run(SHOW).await?;
    world.exit(&container).await?;
    assert_eq!(world.log("main")?, status(DEFAULT_MASK, DEFAULT_MASK, 0, 2));
    Ok(world)
}

async fn has_no_new_privileges(mut world: World) -> Outcome<World> {
    let mut config = world.shell("main", SHOW)?;
    config.security.no_new_privileges = true;
    config.security.capabilities = vec!["CAP_NET_BIND_SERVICE".to_owned()];
    let (_, container) = world.run_container(&config).await?;
    world.exit(&container).await?;
    let mask = "0000000000000400";
    assert_eq!(world.log("main")?, status(mask, mask, 1, 2));
    Ok(world)
}

async fn has_bounds_only(mut world: World) -> Outcome<World> {
    let mut config = world.shell("main", SHOW)?;
    config.user = UserConfig { uid: 1000, gid: 1000, supplementary_groups: vec![] };
    let (_, container) = world.run_container(&config).await?;
    world.exit(&container).await?;
    assert_eq!(world.log("main")?, status(NONE, DEFAULT_MASK, 0, 2));
    Ok(world)
}

async fn is_privileged(mut world: World) -> Outcome<World> {
    let mut config = world.shell(
        "main",
        &format!(
            "exec 2>&1; {SHOW}; echo 1 > /proc/sys/vm/drop_caches && echo writable; touch /sys/x 2>&1; ls -d /dev/full"
        ),
    )?;
    config.security = SecurityConfig {
        privileged: true,
        capabilities: ALL_CAPABILITIES.iter().map(|name| (*name).to_owned()).collect(),
        no_new_privileges: false,
        masked_paths: vec![],
        read_only_paths: vec![],
        seccomp: SeccompProfile::Unconfined,
    };
    let (_, container) = world.run_container(&config).await?;
    world.exit(&container).await?;
    // What the node withholds from us cannot be given on.
    let own = fs::read_to_string("/proc/self/status")?;
    let held = own.lines().find_map(|line| line.strip_prefix("CapBnd:\t")).ok_or("no CapBnd")?;
    assert_eq!(
        world.log("main")?,
        format!("{}writable\ntouch: /sys/x: Permission denied\n/dev/full\n", status(held, held, 0, 0))
    );
    Ok(world)
}

async fn confines_execs(world: World) -> Outcome<World> {
    let mut config = world.shell("main", "exec sleep 1000")?;
    config.security.no_new_privileges = true;
    config.user = UserConfig { uid: 1000, gid: 1000, supplementary_groups: vec![2000] };
    let (_, container) = world.run_container(&config).await?;
    let shown = world.output(&container, &format!("{SHOW}; id -u; id -G; echo $GREETING; pwd")).await?;
    assert_eq!(shown, format!("{}1000\n1000 2000\nhello world\n/\n", status(NONE, DEFAULT_MASK, 1, 2)));
    Ok(world)
}

async fn refuses_namespaces(mut world: World) -> Outcome<World> {
    let mut free = world.shell("free", "unshare -U true && echo made")?;
    free.security.seccomp = SeccompProfile::Unconfined;
    let (sandbox, free) = world.run_container(&free).await?;
    let filtered = world.shell("filtered", "unshare -U true && echo made")?;
    let filtered = world.runtime.create_container(&sandbox, &filtered).await?;
    world.runtime.start_container(&filtered).await?;
    world.exit(&free).await?;
    world.exit(&filtered).await?;
    // The same program, with and without the filter: it is the filter that refuses.
    assert_eq!(
        (world.log("free")?.as_str(), world.log("filtered")?.as_str()),
        ("made\n", "unshare: unshare(0x10000000): Operation not permitted\n")
    );
    Ok(world)
}

async fn loads_a_profile(mut world: World) -> Outcome<World> {
    let profile = r#"{
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [
            {"names": ["mkdir", "mkdirat", "no_such_call"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28},
            {"names": ["sethostname"], "action": "SCMP_ACT_KILL_PROCESS"}
        ]
    }"#;
    let mut config = world
        .shell("main", "exec 2>&1; mkdir /x; (hostname y); echo $?; grep Seccomp: /proc/self/status | tr -d '\\t'")?;
    config.security.seccomp = SeccompProfile::Localhost(profile.to_owned());
    let (_, container) = world.run_container(&config).await?;
    world.exit(&container).await?;
    let log = world.log("main")?;
    let lines: Vec<&str> = log.lines().filter(|line| !line.is_empty() && *line != "Bad system call").collect();
    // 128 + SIGSYS.
    assert_eq!(lines, ["mkdir: can't create directory '/x': No space left on device", "159", "Seccomp:2"]);
    Ok(world)
}

async fn refuses_a_broken_profile(world: World) -> Outcome<World> {
    let mut config = world.shell("main", "true")?;
    config.security.seccomp = SeccompProfile::Localhost("{\"defaultAction\": 3}".to_owned());
    let sandbox = world.runtime.run_sandbox(&sandbox_config("pod")).await?.id;
    let container = world.runtime.create_container(&sandbox, &config).await?;
    let error = world.runtime.start_container(&container).await.err().ok_or("it has started")?.to_string();
    assert!(error.starts_with("the seccomp profile is not an OCI seccomp document: "), "{error}");
    Ok(world)
}

async fn refuses_an_unknown_capability(world: World) -> Outcome<World> {
    let mut config = world.shell("main", "true")?;
    config.security.capabilities.push("CAP_FLY".to_owned());
    let sandbox = world.runtime.run_sandbox(&sandbox_config("pod")).await?.id;
    let container = world.runtime.create_container(&sandbox, &config).await?;
    let error = world.runtime.start_container(&container).await.err().ok_or("it has started")?.to_string();
    assert_eq!(error, "unknown capability to add or keep: \"CAP_FLY\"");
    Ok(world)
}

async fn cannot_use_devices(mut world: World) -> Outcome<World> {
    // 1:1 is the node's memory, 7:0 a loop device, 1:3 the null device that every container may use.
    let script = "exec 2>&1; mknod /mem c 1 1 && echo made; cat /mem; mknod /loop b 7 0 && echo made; cat /loop; \
                  mknod /null c 1 3 && echo x > /null && echo used";
    let (_, container) = world.run(script).await?;
    world.exit(&container).await?;
    assert_eq!(
        world.log("main")?,
        "made\ncat: can't open '/mem': Operation not permitted\nmade\ncat: can't open '/loop': Operation not permitted\nused\n"
    );
    Ok(world)
}

async fn uses_a_device(mut world: World) -> Outcome<World> {
    // A device of the node's that no container has by itself.
    let candidates = ["/dev/fuse", "/dev/loop-control", "/dev/kvm"];
    let Some(metadata) = candidates.iter().find_map(|path| fs::metadata(path).ok()) else {
        eprintln!("a_device_of_the_pods_can_be_used: skipped: none of {candidates:?} is here");
        return Ok(world);
    };
    let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    let script = "exec 2>&1; ls -l /dev/mine | sed 's/  */ /g' | cut -d' ' -f1,3-6; : < /dev/mine && echo readable; : >> /dev/mine";
    let mut config = world.shell("main", script)?;
    config.devices.push(DeviceConfig {
        path: "/dev/mine".into(),
        kind: DeviceKind::Character,
        major,
        minor,
        file_mode: 0o640,
        uid: 7,
        gid: 8,
        access: "r".to_owned(),
    });
    let (_, container) = world.run_container(&config).await?;
    world.exit(&container).await?;
    assert_eq!(
        world.log("main")?,
        format!(
            "crw-r----- 7 8 {major}, {minor}\nreadable\n/bin/sh: can't create /dev/mine: Operation not permitted\n"
        )
    );
    Ok(world)
}

async fn masks_paths(mut world: World) -> Outcome<World> {
    let script = "exec 2>&1; [ -c /proc/uptime ] && echo masked; ls /sys/kernel | wc -l; \
                  echo 1 > /proc/sys/kernel/printk; echo 1 > /proc/irq/default_smp_affinity; touch /sys/x";
    let mut config = world.shell("main", script)?;
    // A file and a directory that every kernel has.
    config.security.masked_paths.extend(["/proc/uptime", "/sys/kernel", "/proc/no/such"].map(str::to_owned));
    let (_, container) = world.run_container(&config).await?;
    world.exit(&container).await?;
    assert_eq!(
        world.log("main")?,
        "masked\n0\n\
         /bin/sh: can't create /proc/sys/kernel/printk: Read-only file system\n\
         /bin/sh: can't create /proc/irq/default_smp_affinity: Read-only file system\n\
         touch: /sys/x: Read-only file system\n"
    );
    Ok(world)
}

async fn has_default_signals(mut world: World) -> Outcome<World> {
    let (_, container) = world.run("exec grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status").await?;
    world.exit(&container).await?;
    assert_eq!(world.log("main")?, format!("SigBlk:\t{NONE}\nSigIgn:\t{NONE}\nSigCgt:\t{NONE}\n"));
    Ok(world)
}

async fn leaks_no_descriptors(mut world: World) -> Outcome<World> {
    let mut config = world.program("main", &["/bin/ls", "/proc/self/fd"])?;
    config.stdin = true;
    let (_, container) = world.run_container(&config).await?;
    world.exit(&container).await?;
    // The fourth is the directory that is listed.
    assert_eq!(world.log("main")?, "0\n1\n2\n3\n");
    Ok(world)
}

const ALL_CAPABILITIES: &[&str] = &[
    "CAP_AUDIT_CONTROL",
    "CAP_AUDIT_READ",
    "CAP_AUDIT_WRITE",
    "CAP_BLOCK_SUSPEND",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_KILL",
    "CAP_LEASE",
    "CAP_LINUX_IMMUTABLE",
    "CAP_MAC_ADMIN",
    "CAP_MAC_OVERRIDE",
    "CAP_MKNOD",
    "CAP_NET_ADMIN",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_RAW",
    "CAP_PERFMON",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYSLOG",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_CHROOT",
    "CAP_SYS_MODULE",
    "CAP_SYS_NICE",
    "CAP_SYS_PACCT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_WAKE_ALARM",
];
