//! `seccomp(2)`.

#![expect(
    unsafe_code,
    reason = "seccompiler only installs filters together with no_new_privs, which Kubernetes leaves to the pod"
)]

use std::io;

use seccompiler::sock_filter;

/// Installs a filter on the calling thread, on top of those that it has.
///
/// Needs CAP_SYS_ADMIN or no_new_privs; leaves no_new_privs as it is.
pub(crate) fn install_filter(program: &[sock_filter]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast::<libc::sock_filter>().cast_mut() };
    // SAFETY: `program` points to `length` instructions; both structs have the layout of the kernel's
    // (seccompiler's `sock_filter` is `repr(C)` with the same fields), and the kernel only reads them during the call.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, std::ptr::from_ref(&program)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
