//! Calls that make, change or replace the process.

#![expect(unsafe_code, reason = "rustix keeps unshare, clone and execve unsafe or hidden, with good reason")]

use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::io;

use rustix::process::Pid;
use rustix::thread::UnshareFlags;

/// Gives the calling thread new namespaces. Refuses to unshare the descriptor table.
pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    if flags.contains(UnshareFlags::FILES) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: the one obligation is that no thread sees descriptors of another's table; FILES is refused above.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Which side of [`clone_into_pid_namespace`] this is.
pub(crate) enum Cloned {
    /// The caller, with the child's id.
    Parent(Pid),
    /// The child: process 1 of a new process namespace.
    Child,
}

/// Forks a child that is process 1 of a new process namespace.
///
/// The caller must have one thread only: in the child no other thread exists, and a lock that one held stays locked for ever.
/// The shim has one thread, and the child does nothing but exec.
pub(crate) fn clone_into_pid_namespace() -> io::Result<Cloned> {
    let flags = libc::c_long::from(libc::CLONE_NEWPID | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with a null stack this is fork(2) with a namespace: the child runs on a copy of
    // the caller's memory. It has one thread (see above), so no lock is held by a thread that does not exist there.
    let result = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    match i32::try_from(result) {
        Ok(0) => Ok(Cloned::Child),
        Ok(pid) if pid > 0 => {
            Pid::from_raw(pid).map(Cloned::Parent).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Replaces the process by a program; returns only if that fails.
pub(crate) fn execve(program: &CStr, argv: &[CString], env: &[CString]) -> io::Result<Infallible> {
    let argv = null_terminated(argv);
    let env = null_terminated(env);
    // SAFETY: all pointers point to C strings that outlive the call, and both arrays end with a null pointer.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    Err(io::Error::last_os_error())
}

fn null_terminated(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain(std::iter::once(std::ptr::null())).collect()
}

/// Ends the process at once, without destructors, buffers or exit handlers: for a forked child that could not exec.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no obligations.
    unsafe { libc::_exit(code) }
}
