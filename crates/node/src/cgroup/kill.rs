//! How a cgroup is emptied: every process in it dies, whatever it does against it.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{Cgroup, CgroupError, PROCESSES_FILE, write};

impl Cgroup {
    /// Kills every process in the cgroup and below it and waits until they are gone, for at most `patience`.
    ///
    /// Blocks. A cgroup that is empty or gone is success.
    pub fn kill(&self, patience: Duration) -> Result<(), CgroupError> {
        let deadline = Instant::now() + patience;
        self.stop_forks();
        loop {
            let processes = self.processes();
            if processes.is_empty() {
                return Ok(());
            }
            // Opened before the signal: a process that ends in between is seen as ended, not missed.
            let handles = processes.into_iter().filter_map(open_process).collect::<Vec<_>>();
            self.kill_at_once();
            for handle in &handles {
                // It has ended already.
                let _ = pidfd_send_signal(handle, Signal::KILL);
            }
            wait_for_all(&handles, deadline);
            if Instant::now() >= deadline {
                return self.report_survivors(patience);
            }
        }
    }

    /// The processes in the cgroup and in all below it.
    pub fn processes(&self) -> Vec<Pid> {
        let mut found = Vec::new();
        if let Some(directory) = self.process_directory() {
            collect_processes(&directory, &mut found);
        }
        found
    }

    fn report_survivors(&self, patience: Duration) -> Result<(), CgroupError> {
        match self.processes().len() {
            0 => Ok(()),
            count => Err(CgroupError::StillRunning { path: self.absolute_path(), count, seconds: patience.as_secs() }),
        }
    }

    /// Keeps a fork bomb from outrunning the signals: who may have no process cannot fork.
    fn stop_forks(&self) {
        if let Some(file) = self.controller_file("pids", "pids.max") {
            // Without it the loop above needs more rounds, and all the same comes to its end or its deadline.
            let _ = write(&file, "0");
        }
    }

    /// v2 since Linux 5.14 kills a whole tree in one go.
    fn kill_at_once(&self) {
        if let Some(directory) = self.v2_directory() {
            // An older kernel: the signals below do the work.
            let _ = write(&directory.join("cgroup.kill"), "1");
        }
    }

    /// On v1 a process is in the same cgroup in each hierarchy: one is as good as another, but all hosts have `pids`.
    fn process_directory(&self) -> Option<std::path::PathBuf> {
        ["pids", "freezer", "memory", "cpu"]
            .into_iter()
            .find_map(|controller| self.controller_directory(controller))
            .or_else(|| self.directories().into_iter().next())
    }
}

fn collect_processes(directory: &Path, found: &mut Vec<Pid>) {
    if let Ok(text) = fs::read_to_string(directory.join(PROCESSES_FILE)) {
        // A process of a foreign process namespace shows as 0 and cannot be named.
        found.extend(text.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw));
    }
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect_processes(&entry.path(), found);
        }
    }
}

fn open_process(pid: Pid) -> Option<OwnedFd> {
    // ESRCH: it has ended.
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// A pidfd becomes readable when its process has ended.
fn wait_for_all(handles: &[OwnedFd], deadline: Instant) {
    for handle in handles {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(timeout) = Timespec::try_from(left) else { return };
        let mut poll = [PollFd::new(handle, PollFlags::IN)];
        while rustix::event::poll(&mut poll, Some(&timeout)) == Err(Errno::INTR) {}
    }
}
