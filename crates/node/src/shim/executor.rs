//! The last steps of a container's process before it becomes the pod's program.
//!
//! libcontainer calls this in the new process: namespaces, mounts and user are in place, all capabilities are still held.
//! In the order below the kernel grants each step, and what the program ends up with is exact:
//!
//! 1. Bounding, inheritable and ambient sets become what the pod may have; nothing of them is regained by any exec.
//! 2. Permitted and effective keep CAP_SYS_ADMIN on top, because a filter without no_new_privs needs it.
//! 3. The filters go in; from here on only execve is called, which every sensible profile allows.
//! 4. execve computes the sets anew: for root the bounding set, for others the ambient one, which is empty. CAP_SYS_ADMIN is gone.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use libcontainer::oci_spec::runtime::Spec;
use libcontainer::workload::{Executor, ExecutorError, ExecutorSetEnvsError, ExecutorValidationError};
use rustix::fs::Access;
use rustix::process::Signal;
use rustix::thread::CapabilitySet;
use seccompiler::BpfProgram;

use crate::sys;

/// What a container's process becomes.
#[derive(Clone, Debug)]
pub(crate) struct ContainerExecutor {
    /// Program and arguments.
    pub(crate) argv: Vec<String>,
    /// The whole environment.
    pub(crate) env: Vec<(String, String)>,
    /// The exact capabilities.
    pub(crate) capabilities: CapabilitySet,
    /// Installed in this order.
    pub(crate) filters: Rc<Vec<BpfProgram>>,
    /// Whether a program that the kernel refuses is told on standard error, since nobody waits for the answer any more.
    pub(crate) announces_failure: bool,
}

impl Executor for ContainerExecutor {
    /// Runs while the creator still waits, so that a missing program is an error of the start.
    fn validate(&self, _spec: &Spec) -> Result<(), ExecutorValidationError> {
        self.program().map(|_| ()).map_err(ExecutorValidationError::ArgValidationError)
    }

    /// The environment goes along with the exec; the process's own is of no account.
    fn setup_envs(&self, _envs: HashMap<String, String>) -> Result<(), ExecutorSetEnvsError> {
        Ok(())
    }

    fn exec(&self, _spec: &Spec) -> Result<(), ExecutorError> {
        let message = self.become_program();
        if self.announces_failure {
            announce(&message);
        }
        Err(ExecutorError::Other(message))
    }
}

impl ContainerExecutor {
    /// Returns only if it fails, with the reason.
    fn become_program(&self) -> String {
        let program = match self.program() {
            Ok(program) => program,
            Err(message) => return message,
        };
        if let Err(message) = self.confine() {
            return message;
        }
        let name = program.display().to_string();
        let strings = c_string(name.clone()).and_then(|program| {
            let argv = self.argv.iter().cloned().map(c_string).collect::<Result<Vec<_>, _>>()?;
            let env = self.env.iter().map(|(name, value)| c_string(format!("{name}={value}")));
            Ok((program, argv, env.collect::<Result<Vec<_>, _>>()?))
        });
        match strings {
            Ok((program, argv, env)) => match sys::process::execve(&program, &argv, &env) {
                Ok(never) => match never {},
                Err(error) => format!("exec {name}: {}", describe(&error)),
            },
            Err(message) => message,
        }
    }

    fn confine(&self) -> Result<(), String> {
        let failed = |what: &str, error: &dyn std::fmt::Display| format!("failed to {what}: {error}");
        sys::signal::reset_dispositions();
        sys::signal::unblock_all().map_err(|error| failed("unblock signals", &error))?;
        // A container whose shim dies has nobody to wait for it.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| failed("set the parent death signal", &error))?;
        limit_capabilities(self.capabilities, CapabilitySet::SYS_ADMIN)
            .map_err(|error| failed("drop capabilities", &error))?;
        for filter in self.filters.iter() {
            sys::seccomp::install_filter(filter).map_err(|error| failed("install the seccomp filter", &error))?;
        }
        Ok(())
    }

    /// The file to execute: as named if the name has a slash, else the first in PATH.
    fn program(&self) -> Result<PathBuf, String> {
        let name = self.argv.first().filter(|name| !name.is_empty()).ok_or("no command specified")?;
        if name.contains('/') {
            return check_program(Path::new(name))
                .map(|()| PathBuf::from(name))
                .map_err(|error| format!("exec: \"{name}\": {error}"));
        }
        let path = self.env.iter().find(|(variable, _)| variable == "PATH").map_or("", |(_, value)| value);
        path.split(':')
            .map(|directory| Path::new(if directory.is_empty() { "." } else { directory }).join(name))
            .find(|candidate| check_program(candidate).is_ok())
            .ok_or_else(|| format!("exec: \"{name}\": executable file not found in $PATH"))
    }
}

/// Gives the calling process exactly `wanted`, and `extra` until its next exec. Whoever is not root loses all but the bounding set then.
pub(crate) fn limit_capabilities(wanted: CapabilitySet, extra: CapabilitySet) -> rustix::io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        if !wanted.contains(capability) && rustix::thread::capability_is_in_bounding_set(capability).unwrap_or(false) {
            rustix::thread::remove_capability_from_bounding_set(capability)?;
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    // What the machine withholds from us cannot be given on.
    let held = rustix::thread::capabilities(None)?.permitted;
    let kept = (wanted | extra) & held;
    let sets = rustix::thread::CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)
}

/// Reads names such as `CAP_CHOWN`; an unknown one is given back as the error.
pub(crate) fn parse_capabilities(names: &[String]) -> Result<CapabilitySet, String> {
    names.iter().try_fold(CapabilitySet::empty(), |set, name| {
        let known = name.strip_prefix("CAP_").and_then(CapabilitySet::from_name);
        known.map(|capability| set | capability).ok_or_else(|| name.clone())
    })
}

fn check_program(path: &Path) -> Result<(), String> {
    let metadata = std::fs::metadata(path).map_err(|error| format!("stat {}: {}", path.display(), describe(&error)))?;
    if metadata.is_dir() {
        return Err("is a directory".to_owned());
    }
    // access(2) asks for the real user, as execve will, although all capabilities are still held.
    rustix::fs::access(path, Access::EXEC_OK).map_err(|error| describe(&error.into()))
}

/// The kernel's words without Rust's "(os error 2)", as users know them from other runtimes.
fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split_once(" (os error").map_or(text.as_str(), |(text, _)| text);
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}

fn c_string(text: String) -> Result<CString, String> {
    CString::new(text).map_err(|error| {
        let text = String::from_utf8_lossy(&error.into_vec()).into_owned();
        format!("a NUL character in the command or environment: {text:?}")
    })
}

fn announce(message: &str) {
    // SAFETY-free: rustix names standard error without taking it.
    let stderr: BorrowedFd<'_> = rustix::stdio::stderr();
    // Nobody is left to tell if that fails.
    let _ = rustix::io::write(stderr, format!("{message}\n").as_bytes());
}
