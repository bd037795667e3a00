//! The pause process: process 1 of a pod's shared process namespace (`shareProcessNamespace`, L-940).
//!
//! It reaps what is orphaned in the pod, and does nothing else.
//! Containers see it as `/proc/1`, so it must not be a way out: its root is an empty file system, it has no capabilities, and may not be traced.

use std::io;

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};
use rustix::thread::{CapabilitySet, Gid, Uid, UnshareFlags};

use super::executor::limit_capabilities;
use super::seccomp;
use crate::runtime::config::SeccompProfile;
use crate::sys;
use crate::sys::process::Cloned;

/// The name that users know it by.
const NAME: &std::ffi::CStr = c"/pause";
/// The user of Kubernetes' own pause image.
const PAUSE_ID: u32 = 65535;

/// Starts the pause process and gives its id.
pub(crate) fn start() -> io::Result<Pid> {
    // Everything that allocates comes before the fork.
    let argv = [NAME.to_owned(), c"shim".to_owned(), c"pause".to_owned()];
    match sys::process::clone_into_pid_namespace()? {
        Cloned::Parent(pid) => Ok(pid),
        Cloned::Child => {
            let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
            sys::signal::reset_dispositions();
            let _ = sys::process::execve(c"/proc/self/exe", &argv, &[]);
            sys::process::exit_now(1)
        }
    }
}

/// The pause process itself; returns only if it cannot confine itself, or at its end.
pub(crate) fn main() -> io::Result<()> {
    // The fork's parent may have died before its death signal was set; process 1 has no parent in its namespace.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::thread::set_name(c"pause")?;
    leave_file_systems()?;
    let filters = seccomp::compile(&SeccompProfile::RuntimeDefault, &[]).map_err(io::Error::other)?;
    let id = (Uid::from_raw(PAUSE_ID), Gid::from_raw(PAUSE_ID));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(id.1, id.1, id.1)?;
    limit_capabilities(CapabilitySet::empty(), CapabilitySet::SETUID)?;
    rustix::thread::set_no_new_privs(true)?;
    for filter in &filters {
        sys::seccomp::install_filter(filter)?;
    }
    // Without keep-capabilities the change of user drops what is left.
    rustix::thread::set_thread_res_uid(id.0, id.0, id.0)?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    loop {
        // Process 1 gets no signal that it does not ask for, but SIGKILL from outside.
        let _ = sys::signal::wait_for_signal(&[libc::SIGCHLD])?;
        while matches!(rustix::process::wait(WaitOptions::NOHANG), Ok(Some(_))) {}
    }
}

fn leave_file_systems() -> io::Result<()> {
    sys::process::unshare(UnshareFlags::NEWNS)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount("pause", "/tmp", "tmpfs", flags, c"size=4k,mode=555")?;
    rustix::process::chdir("/tmp")?;
    // With both the same, the old root lies on top of the new one and is taken off.
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}
