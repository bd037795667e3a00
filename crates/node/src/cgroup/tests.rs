//! Tests on recorded trees, and of device filters on a real v2 hierarchy where there is one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::runtime::config::{DeviceKind, LinuxResources};

type Result = std::result::Result<(), Box<dyn std::error::Error>>;

/// What a kernel puts into each new directory of a controller, as far as it matters here.
const V1_FILES: &[(&str, &[(&str, &str)])] = &[
    (
        "cpu,cpuacct",
        &[
            ("cpu.shares", "1024"),
            ("cpu.cfs_period_us", "100000"),
            ("cpu.cfs_quota_us", "-1"),
            ("cpuacct.usage", "123456"),
        ],
    ),
    (
        "memory",
        &[
            ("memory.limit_in_bytes", "9223372036854771712"),
            ("memory.memsw.limit_in_bytes", "9223372036854771712"),
            ("memory.usage_in_bytes", "5000"),
            ("memory.stat", "cache 9\nrss 7\ntotal_inactive_file 2000\n"),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
        ],
    ),
    ("pids", &[("pids.max", "max"), ("pids.current", "4")]),
    ("cpuset", &[("cpuset.cpus", ""), ("cpuset.mems", "")]),
    ("devices", &[]),
];

const V2_FILES: &[(&str, &str)] = &[
    ("cgroup.controllers", "cpu memory pids"),
    ("cgroup.subtree_control", ""),
    ("cgroup.kill", ""),
    ("cpu.weight", "100"),
    ("cpu.max", "max 100000"),
    ("cpu.stat", "usage_usec 77\nuser_usec 50\n"),
    ("memory.max", "max"),
    ("memory.swap.max", "max"),
    ("memory.oom.group", "0"),
    ("memory.current", "9000"),
    ("memory.stat", "anon 1\ninactive_file 1000\n"),
    ("memory.events", "low 0\nhigh 0\nmax 8\noom 2\noom_kill 2\noom_group_kill 0\n"),
    ("pids.max", "max"),
    ("pids.current", "6"),
];

/// A hybrid host with the cgroup `pods/one` in every hierarchy.
fn recorded_v1(root: &Path) -> Result {
    for (controllers, files) in V1_FILES {
        let cgroup = root.join(controllers).join("pods/one");
        fs::create_dir_all(&cgroup)?;
        for directory in [root.join(controllers), root.join(controllers).join("pods"), cgroup] {
            fs::write(directory.join(PROCESSES_FILE), "")?;
            for (name, content) in *files {
                fs::write(directory.join(name), content)?;
            }
        }
    }
    for name in ["cpu", "cpuacct"] {
        symlink("cpu,cpuacct", root.join(name))?;
    }
    fs::write(root.join("cpuset/cpuset.cpus"), "0-3\n")?;
    fs::write(root.join("cpuset/cpuset.mems"), "0\n")?;
    for name in ["unified", "systemd"] {
        fs::create_dir(root.join(name))?;
        fs::write(root.join(name).join(PROCESSES_FILE), "")?;
    }
    Ok(())
}

fn recorded_v2(root: &Path) -> Result {
    fs::create_dir_all(root.join("pods/one"))?;
    for directory in [root.to_owned(), root.join("pods"), root.join("pods/one")] {
        fs::write(directory.join(PROCESSES_FILE), "")?;
        for (name, content) in V2_FILES {
            fs::write(directory.join(name), content)?;
        }
    }
    Ok(())
}

fn everything() -> LinuxResources {
    LinuxResources {
        cpu_shares: Some(512),
        cpu_quota_microseconds: Some(25_000),
        cpu_period_microseconds: Some(50_000),
        memory_limit_bytes: Some(1 << 20),
        pids_limit: Some(9),
        oom_group: true,
    }
}

fn contents(root: &Path, files: &[&str]) -> std::io::Result<Vec<String>> {
    files.iter().map(|file| fs::read_to_string(root.join(file))).collect()
}

#[test]
fn a_host_is_v2_if_the_root_has_controllers_and_v1_if_its_directories_have_processes() -> Result {
    let directory = tempfile::tempdir()?;
    let (v1, v2, none) = (directory.path().join("v1"), directory.path().join("v2"), directory.path().join("none"));
    recorded_v1(&v1)?;
    recorded_v2(&v2)?;
    let hierarchy = Hierarchy::detect(&v1)?;
    let Kind::V1 { controllers, directories } = &hierarchy.kind else { return Err("not v1".into()) };
    let found: Vec<&str> = controllers.keys().map(String::as_str).collect();
    assert_eq!((found, directories.len()), (vec!["cpu", "cpuacct", "cpuset", "devices", "memory", "pids"], 5));
    assert_eq!(Hierarchy::detect(&v2)?.version(), CgroupVersion::V2);
    assert_eq!(
        Hierarchy::detect(&none).err().map(|error| error.to_string()),
        Some(format!(
            "no cgroup hierarchy found at `{}`\nhint: mount cgroup2 there, or the v1 controllers below it",
            none.display()
        ))
    );
    Ok(())
}

#[test]
fn limits_are_written_and_taken_back_on_v1() -> Result {
    let directory = tempfile::tempdir()?;
    recorded_v1(directory.path())?;
    let cgroup = Hierarchy::detect(directory.path())?.cgroup("/pods/one");
    let files = [
        "cpu/pods/one/cpu.shares",
        "cpu/pods/one/cpu.cfs_quota_us",
        "cpu/pods/one/cpu.cfs_period_us",
        "memory/pods/one/memory.limit_in_bytes",
        "memory/pods/one/memory.memsw.limit_in_bytes",
        "pids/pods/one/pids.max",
    ];
    cgroup.limit(&everything())?;
    assert_eq!(contents(directory.path(), &files)?, ["512", "25000", "50000", "1048576", "1048576", "9"]);
    // What is not asked for stays in a new cgroup, and goes in one that had it.
    cgroup.limit(&LinuxResources::default())?;
    assert_eq!(contents(directory.path(), &files)?, ["512", "25000", "50000", "1048576", "1048576", "9"]);
    cgroup.change_limits(&LinuxResources { cpu_shares: Some(2), ..LinuxResources::default() })?;
    assert_eq!(contents(directory.path(), &files)?, ["2", "-1", "50000", "-1", "-1", "max"]);
    Ok(())
}

#[test]
fn limits_are_written_and_taken_back_on_v2() -> Result {
    let directory = tempfile::tempdir()?;
    recorded_v2(directory.path())?;
    let cgroup = Hierarchy::detect(directory.path())?.cgroup("pods/one");
    let files = ["cpu.weight", "cpu.max", "memory.max", "memory.swap.max", "memory.oom.group", "pids.max"];
    let own = directory.path().join("pods/one");
    cgroup.limit(&everything())?;
    assert_eq!(contents(&own, &files)?, ["20", "25000 50000", "1048576", "0", "1", "9"]);
    cgroup.change_limits(&LinuxResources { cpu_shares: Some(1024), ..LinuxResources::default() })?;
    assert_eq!(contents(&own, &files)?, ["39", "max", "max", "max", "1", "max"]);
    Ok(())
}

#[test]
fn a_limit_that_needs_a_missing_controller_is_refused_with_its_name() -> Result {
    let directory = tempfile::tempdir()?;
    recorded_v2(directory.path())?;
    fs::remove_file(directory.path().join("pods/one/memory.max"))?;
    fs::remove_file(directory.path().join("pods/one/cpu.weight"))?;
    let cgroup = Hierarchy::detect(directory.path())?.cgroup("pods/one");
    // Shares alone order who is served first: a host without them runs the pod all the same.
    cgroup.limit(&LinuxResources { cpu_shares: Some(2), ..LinuxResources::default() })?;
    let error = cgroup.limit(&everything()).err().ok_or("it was taken")?.to_string();
    assert!(error.starts_with("the limit on memory needs the cgroup controller `memory`"), "{error}");
    Ok(())
}

#[test]
fn a_new_cpuset_inherits_and_controllers_are_handed_on() -> Result {
    let directory = tempfile::tempdir()?;
    let (v1, v2) = (directory.path().join("v1"), directory.path().join("v2"));
    recorded_v1(&v1)?;
    recorded_v2(&v2)?;
    Hierarchy::detect(&v1)?.cgroup("pods/one").create()?;
    assert_eq!(
        contents(&v1.join("cpuset/pods"), &["cpuset.cpus", "one/cpuset.cpus", "one/cpuset.mems"])?,
        ["0-3", "0-3", "0"]
    );
    Hierarchy::detect(&v2)?.cgroup("pods/one").create()?;
    // A recorded file holds the last line written; the kernel adds them up.
    assert_eq!(
        contents(&v2, &["cgroup.subtree_control", "pods/cgroup.subtree_control", "pods/one/cgroup.subtree_control"])?,
        ["+pids", "+pids", ""]
    );
    Ok(())
}

#[test]
fn usage_and_oom_kills_are_read_on_both_versions() -> Result {
    let directory = tempfile::tempdir()?;
    let (v1, v2) = (directory.path().join("v1"), directory.path().join("v2"));
    recorded_v1(&v1)?;
    recorded_v2(&v2)?;
    let (one, two) = (Hierarchy::detect(&v1)?.cgroup("pods/one"), Hierarchy::detect(&v2)?.cgroup("pods/one"));
    let usage = |cpu_nanoseconds, memory_bytes, memory_working_set_bytes, pids| CgroupUsage {
        cpu_nanoseconds,
        memory_bytes,
        memory_working_set_bytes,
        pids,
    };
    assert_eq!((one.usage(), one.oom_kills()), (usage(123_456, 5000, 3000, 4), 3));
    assert_eq!((two.usage(), two.oom_kills()), (usage(77_000, 9000, 8000, 6), 2));
    let gone = Hierarchy::detect(&v1)?.cgroup("pods/two");
    assert_eq!((gone.usage(), gone.oom_kills(), gone.exists()), (CgroupUsage::default(), 0, false));
    Ok(())
}

#[test]
fn a_real_cgroup_is_emptied_and_removed() -> Result {
    let Ok(hierarchy) = Hierarchy::detect(Path::new("/sys/fs/cgroup")) else {
        return skipped("no cgroup file system at /sys/fs/cgroup");
    };
    let cgroup = hierarchy.cgroup(&format!("monopod-unit-test-{}", std::process::id()));
    if cgroup.child("inner").create().is_err() {
        return skipped("no right to make cgroups");
    }
    let inner = cgroup.child("inner");
    let files: Vec<PathBuf> = inner.directories().iter().map(|it| it.join(PROCESSES_FILE)).collect();
    let join = files.iter().map(|file| format!("echo $$ > {}; ", file.display())).collect::<String>();
    let mut child = Command::new("sh")
        .args(["-c", &format!("{join} echo in; trap '' TERM; sleep 1000 & sleep 1000")])
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().ok_or("no stdout")?), &mut line)?;
    let before = cgroup.processes().len();
    cgroup.kill(std::time::Duration::from_secs(5))?;
    let status = child.wait()?;
    cgroup.remove()?;
    cgroup.remove()?;
    assert_eq!(
        (before >= 1, std::os::unix::process::ExitStatusExt::signal(&status), cgroup.exists()),
        (true, Some(9), false)
    );
    Ok(())
}

#[test]
fn a_device_filter_lets_through_what_a_rule_allows_and_nothing_else() -> Result {
    let Some(hierarchy) = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
        .into_iter()
        .map(PathBuf::from)
        .find(|root| root.join("cgroup.controllers").exists())
    else {
        return skipped("no cgroup v2 hierarchy is mounted");
    };
    let cgroup = hierarchy.join(format!("monopod-unit-test-{}", std::process::id()));
    if fs::create_dir(&cgroup).is_err() {
        return skipped("no right to make cgroups");
    }
    let directory = tempfile::tempdir()?;
    let outcome = filtered(&cgroup, directory.path());
    remove_directory(&cgroup)?;
    let outcome = outcome?;
    // null may be used, zero only read, full not at all; nodes may be made of anything.
    assert_eq!(outcome, "null-w null-r zero-r node ");
    Ok(())
}

fn filtered(cgroup: &Path, directory: &Path) -> std::result::Result<String, Box<dyn std::error::Error>> {
    let rule = |minor, access| DeviceRule { kind: DeviceKind::Character, major: Some(1), minor: Some(minor), access };
    let any = DeviceRule { kind: DeviceKind::Block, major: None, minor: None, access: DeviceAccess::MAKE_NODE };
    attach_device_filter(cgroup, &[rule(3, DeviceAccess::ALL), rule(5, DeviceAccess::parse("r")), any])?;
    let node = directory.join("node");
    let script = format!(
        "echo $$ > {}/cgroup.procs; exec 2>/dev/null; \
         (: > /dev/null) && printf 'null-w '; (: < /dev/null) && printf 'null-r '; \
         (: > /dev/zero) && printf 'zero-w '; (: < /dev/zero) && printf 'zero-r '; \
         (: > /dev/full) && printf 'full-w '; (: < /dev/full) && printf 'full-r '; \
         mknod {} b 7 0 && printf 'node '; (: < {}) && printf 'node-r '; true",
        cgroup.display(),
        node.display(),
        node.display()
    );
    let output = Command::new("sh").args(["-c", &script]).output()?;
    Ok(String::from_utf8(output.stdout)?)
}

#[expect(clippy::print_stderr, reason = "a test that cannot run here says so")]
fn skipped(why: &str) -> Result {
    eprintln!("skipped: {why}");
    Ok(())
}
