//! `bpf(2)`, as far as device filters of cgroup v2 need it.

#![expect(unsafe_code, reason = "rustix has no bpf(2); the crates that have it bring C libraries")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_ATTACH: libc::c_int = 8;
const BPF_PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const BPF_CGROUP_DEVICE: u32 = 6;
/// Programs of parent and child cgroups all have their say.
const BPF_F_ALLOW_MULTI: u32 = 2;

/// The start of `union bpf_attr` for `BPF_PROG_LOAD`; the kernel takes what is missing at its end as zero.
#[repr(C)]
struct ProgramLoad {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buffer: u64,
}

/// The start of `union bpf_attr` for `BPF_PROG_ATTACH`.
#[repr(C)]
struct ProgramAttach {
    target: u32,
    program: u32,
    attach_type: u32,
    flags: u32,
}

/// Loads a program of type `BPF_PROG_TYPE_CGROUP_DEVICE`; each instruction is the kernel's `struct bpf_insn` as one integer.
pub(crate) fn load_cgroup_device_program(instructions: &[u64]) -> io::Result<OwnedFd> {
    let count = u32::try_from(instructions.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let attributes = ProgramLoad {
        program_type: BPF_PROG_TYPE_CGROUP_DEVICE,
        instruction_count: count,
        instructions: instructions.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log_buffer: 0,
    };
    // SAFETY: `attributes` is initialized and outlives the call, its size is passed, and the two pointers in it
    // point to `count` instructions and to a C string; the kernel only reads them during the call.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, std::ptr::from_ref(&attributes), size_of::<ProgramLoad>())
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let descriptor = i32::try_from(result).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    // SAFETY: the kernel has just opened this descriptor for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Attaches a device program to a cgroup of the v2 hierarchy, beside those that are there.
pub(crate) fn attach_cgroup_device_program(cgroup: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let attributes = ProgramAttach {
        target: u32::try_from(cgroup.as_raw_fd()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
        program: u32::try_from(program.as_raw_fd()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
        attach_type: BPF_CGROUP_DEVICE,
        flags: BPF_F_ALLOW_MULTI,
    };
    // SAFETY: `attributes` is initialized, outlives the call, and its size is passed; it holds no pointers,
    // and both descriptors are borrowed, so open, for as long as the call lasts.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, BPF_PROG_ATTACH, std::ptr::from_ref(&attributes), size_of::<ProgramAttach>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
