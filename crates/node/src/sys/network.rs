//! The `SIOC*` calls that bring an interface up.

#![expect(unsafe_code, reason = "rustix has no interface ioctls; netlink would be a hundred lines for one bit")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The name of the loopback interface, as `ifr_name` holds it.
const LOOPBACK: &[u8] = b"lo";

/// Brings `lo` of the socket's network namespace up, which gives it its addresses.
pub(crate) fn bring_loopback_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: `ifreq` is plain old data, for which all-zero bytes are a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(LOOPBACK) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the descriptor is borrowed, so open; SIOCSIFFLAGS reads an `ifreq` with a zero-terminated name
    // (two bytes of a zeroed array) and the flags, and keeps nothing.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, std::ptr::from_ref(&request)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
