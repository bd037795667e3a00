//! What is written where to limit a cgroup.

use std::path::PathBuf;

use super::{Cgroup, CgroupError, CgroupVersion, write};
use crate::runtime::config::LinuxResources;

/// Whether limits that are not asked for are taken away or left as they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// The cgroup is new: the kernel's defaults stand.
    Leave,
    /// The cgroup had limits before (in-place resize).
    Reset,
}

/// The period that the kernel and Kubernetes assume.
const DEFAULT_PERIOD_MICROSECONDS: u64 = 100_000;

impl Cgroup {
    /// Limits a new cgroup.
    pub fn limit(&self, resources: &LinuxResources) -> Result<(), CgroupError> {
        self.write_limits(resources, Missing::Leave)
    }

    /// Changes the limits of a cgroup; what is not asked for becomes unlimited.
    pub fn change_limits(&self, resources: &LinuxResources) -> Result<(), CgroupError> {
        self.write_limits(resources, Missing::Reset)
    }

    fn write_limits(&self, resources: &LinuxResources, missing: Missing) -> Result<(), CgroupError> {
        match self.hierarchy.version() {
            CgroupVersion::V1 => {
                self.limit_cpu_v1(resources, missing)?;
                self.limit_memory_v1(resources, missing)?;
            }
            CgroupVersion::V2 => {
                self.limit_cpu_v2(resources, missing)?;
                self.limit_memory_v2(resources, missing)?;
            }
        }
        self.limit_pids(resources, missing)
    }

    fn limit_cpu_v1(&self, resources: &LinuxResources, missing: Missing) -> Result<(), CgroupError> {
        if let Some(shares) = resources.cpu_shares {
            // Shares only say who goes first; a host without the controller runs the pod all the same.
            if let Some(file) = self.controller_file("cpu", "cpu.shares") {
                write(&file, &shares.to_string())?;
            }
        }
        if let Some(quota) = resources.cpu_quota_microseconds {
            let period = resources.cpu_period_microseconds.unwrap_or(DEFAULT_PERIOD_MICROSECONDS);
            write(&self.required_file("cpu", "cpu", "cpu.cfs_period_us")?, &period.to_string())?;
            write(&self.required_file("cpu", "cpu", "cpu.cfs_quota_us")?, &quota.to_string())?;
        } else if missing == Missing::Reset
            && let Some(file) = self.controller_file("cpu", "cpu.cfs_quota_us")
        {
            write(&file, "-1")?;
        }
        Ok(())
    }

    fn limit_cpu_v2(&self, resources: &LinuxResources, missing: Missing) -> Result<(), CgroupError> {
        if let Some(shares) = resources.cpu_shares
            && let Some(file) = self.controller_file("cpu", "cpu.weight")
        {
            write(&file, &weight_of_shares(shares).to_string())?;
        }
        if let Some(quota) = resources.cpu_quota_microseconds {
            let period = resources.cpu_period_microseconds.unwrap_or(DEFAULT_PERIOD_MICROSECONDS);
            write(&self.required_file("cpu", "cpu", "cpu.max")?, &format!("{quota} {period}"))?;
        } else if missing == Missing::Reset
            && let Some(file) = self.controller_file("cpu", "cpu.max")
        {
            write(&file, "max")?;
        }
        Ok(())
    }

    fn limit_memory_v1(&self, resources: &LinuxResources, missing: Missing) -> Result<(), CgroupError> {
        let limit = match resources.memory_limit_bytes {
            Some(limit) => limit.to_string(),
            None if missing == Missing::Reset => "-1".to_owned(),
            None => return Ok(()),
        };
        let plain = self.required_file("memory", "memory", "memory.limit_in_bytes")?;
        // Memory with swap may never be less than memory alone, so a limit that rises is refused until the other has risen.
        let first = write(&plain, &limit);
        if let Some(file) = self.controller_file("memory", "memory.memsw.limit_in_bytes") {
            write(&file, &limit)?;
        }
        first.or_else(|_| write(&plain, &limit))
    }

    fn limit_memory_v2(&self, resources: &LinuxResources, missing: Missing) -> Result<(), CgroupError> {
        let limit = match resources.memory_limit_bytes {
            Some(limit) => limit.to_string(),
            None if missing == Missing::Reset => "max".to_owned(),
            None => return Ok(()),
        };
        write(&self.required_file("memory", "memory", "memory.max")?, &limit)?;
        // A kernel without swap accounting has no such file.
        if let Some(file) = self.controller_file("memory", "memory.swap.max") {
            write(&file, if limit == "max" { "max" } else { "0" })?;
        }
        if resources.oom_group
            && let Some(file) = self.controller_file("memory", "memory.oom.group")
        {
            write(&file, "1")?;
        }
        Ok(())
    }

    fn limit_pids(&self, resources: &LinuxResources, missing: Missing) -> Result<(), CgroupError> {
        match resources.pids_limit {
            Some(limit) => {
                write(&self.required_file("processes", "pids", "pids.max")?, &limit.to_string())?;
            }
            None if missing == Missing::Reset => {
                if let Some(file) = self.controller_file("pids", "pids.max") {
                    write(&file, "max")?;
                }
            }
            None => {}
        }
        Ok(())
    }

    /// A file of a controller, if the kernel has it here.
    pub(super) fn controller_file(&self, controller: &str, file: &str) -> Option<PathBuf> {
        self.controller_directory(controller).map(|directory| directory.join(file)).filter(|path| path.exists())
    }

    fn required_file(&self, what: &'static str, controller: &'static str, file: &str) -> Result<PathBuf, CgroupError> {
        self.controller_file(controller, file).ok_or_else(|| CgroupError::MissingController {
            what,
            controller,
            path: self.absolute_path(),
        })
    }
}

/// Kubernetes: KEP-2254, shares 2..262144 onto weights 1..10000.
fn weight_of_shares(shares: u64) -> u64 {
    let shares = shares.clamp(2, 262_144);
    1 + (shares - 2) * 9999 / 262_142
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_become_the_weights_of_kep_2254() {
        let weights = [0, 2, 1024, 2048, 262_144, 1_000_000].map(weight_of_shares);
        assert_eq!(weights, [1, 1, 39, 79, 10_000, 10_000]);
    }
}
