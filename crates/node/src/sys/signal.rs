//! Signal masks, dispositions, and signals as a descriptor.

#![expect(unsafe_code, reason = "rustix leaves signal sets and dispositions to libc")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The highest signal number, `SIGRTMAX` of the kernel.
const LAST_SIGNAL: libc::c_int = 64;

/// Blocks the signals for the calling thread and gives a non-blocking descriptor that is readable when one is pending.
pub(crate) fn signal_descriptor(signals: &[libc::c_int]) -> io::Result<OwnedFd> {
    let set = signal_set(signals)?;
    change_mask(libc::SIG_BLOCK, &set)?;
    // SAFETY: `set` is initialized; -1 asks for a new descriptor.
    let descriptor = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Blocks the signals and waits for one of them.
pub(crate) fn wait_for_signal(signals: &[libc::c_int]) -> io::Result<libc::c_int> {
    let set = signal_set(signals)?;
    change_mask(libc::SIG_BLOCK, &set)?;
    // SAFETY: `set` is initialized, and a null pointer asks for no details.
    let signal = unsafe { libc::sigwaitinfo(&raw const set, std::ptr::null_mut()) };
    if signal < 0 { Err(io::Error::last_os_error()) } else { Ok(signal) }
}

/// Unblocks every signal.
pub(crate) fn unblock_all() -> io::Result<()> {
    change_mask(libc::SIG_SETMASK, &signal_set(&[])?)
}

/// Gives every signal its default disposition; ignored ones would stay ignored across an exec (Rust ignores SIGPIPE).
pub(crate) fn reset_dispositions() {
    // The kernel's `struct sigaction`: handler, flags, restorer and mask, each eight bytes. All zero is SIG_DFL without flags.
    let default = [0_u64; 4];
    for signal in 1..=LAST_SIGNAL {
        // The C library refuses to touch the two signals that it uses itself, and a parent may have ignored them: hence the bare call.
        // SAFETY: `default` is as large as the kernel's structure, which is only read; SIG_DFL runs no code of ours.
        // SIGKILL and SIGSTOP are refused, which is harmless.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null_mut::<u64>(),
                size_of::<u64>(),
            );
        }
    }
}

/// Sends a signal by number, real-time ones too. A process that has ended is success.
///
/// Of our own children alone: no other process can have taken the id of one that we have not waited for.
pub(crate) fn send(pid: rustix::process::Pid, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: kill(2) has no obligations; a wrong number is refused with an error.
    let result = unsafe { libc::kill(pid.as_raw_nonzero().get(), signal) };
    match io::Error::last_os_error() {
        _ if result == 0 => Ok(()),
        error if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        error => Err(error),
    }
}

fn change_mask(how: libc::c_int, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: `set` is initialized, and a null pointer asks for no copy of the old mask.
    let result = unsafe { libc::pthread_sigmask(how, std::ptr::from_ref(set), std::ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) }
}

fn signal_set(signals: &[libc::c_int]) -> io::Result<libc::sigset_t> {
    // SAFETY: `sigset_t` is plain old data, for which all-zero bytes are a valid value.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a valid place for a signal set.
    unsafe { libc::sigemptyset(&raw mut set) };
    for signal in signals {
        // SAFETY: `set` has been initialized by `sigemptyset`; a wrong number is refused with an error.
        if unsafe { libc::sigaddset(&raw mut set, *signal) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(set)
}
