//! What a cgroup has used: processor, memory, and deaths for want of it.

use std::fs;

use super::{Cgroup, CgroupVersion};

/// A moment's account of a cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupUsage {
    /// Processor time since the cgroup was made.
    pub cpu_nanoseconds: u64,
    /// Memory in use.
    pub memory_bytes: u64,
    /// Memory that cannot be had back by dropping file caches, as Kubernetes counts it.
    pub memory_working_set_bytes: u64,
    /// Processes and threads.
    pub pids: u64,
}

impl Cgroup {
    /// What the cgroup has used; zero where the kernel keeps no account.
    pub fn usage(&self) -> CgroupUsage {
        let (cpu_nanoseconds, memory_bytes, inactive_file) = match self.hierarchy.version() {
            CgroupVersion::V1 => (
                self.number("cpuacct", "cpuacct.usage"),
                self.number("memory", "memory.usage_in_bytes"),
                self.field("memory", "memory.stat", "total_inactive_file"),
            ),
            CgroupVersion::V2 => (
                self.field("cpu", "cpu.stat", "usage_usec").saturating_mul(1000),
                self.number("memory", "memory.current"),
                self.field("memory", "memory.stat", "inactive_file"),
            ),
        };
        CgroupUsage {
            cpu_nanoseconds,
            memory_bytes,
            memory_working_set_bytes: memory_bytes.saturating_sub(inactive_file),
            pids: self.number("pids", "pids.current"),
        }
    }

    /// How many processes the kernel has killed here because the cgroup, or one above it, was out of memory.
    pub fn oom_kills(&self) -> u64 {
        match self.hierarchy.version() {
            CgroupVersion::V1 => self.field("memory", "memory.oom_control", "oom_kill"),
            CgroupVersion::V2 => self.field("memory", "memory.events", "oom_kill"),
        }
    }

    fn number(&self, controller: &str, file: &str) -> u64 {
        self.text(controller, file).trim().parse().unwrap_or(0)
    }

    fn field(&self, controller: &str, file: &str, name: &str) -> u64 {
        self.text(controller, file)
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
            .unwrap_or(0)
    }

    fn text(&self, controller: &str, file: &str) -> String {
        self.controller_directory(controller)
            .and_then(|directory| fs::read_to_string(directory.join(file)).ok())
            .unwrap_or_default()
    }
}
