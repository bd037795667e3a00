//! Which devices a container may use: the rules, and the program that enforces them on cgroup v2.
//!
//! On v1 libcontainer writes the same rules into the devices controller.
//! v2 has no such controller: without a program of its own a container could open any device that it can make a node for.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crate::runtime::config::DeviceKind;
use crate::sys::bpf::{attach_cgroup_device_program, load_cgroup_device_program};

/// Why a device filter could not be put in place.
#[derive(Debug, thiserror::Error)]
#[error(
    "failed to {action} the device filter of cgroup `{cgroup}`: {source}\n\
     hint: run with CAP_BPF or CAP_SYS_ADMIN on a kernel with CONFIG_CGROUP_BPF"
)]
pub struct DeviceFilterError {
    /// What was to be done.
    pub action: &'static str,
    /// With which cgroup.
    pub cgroup: PathBuf,
    /// What the kernel said.
    pub source: io::Error,
}

/// Something that may be done with some devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRule {
    /// Block or character devices.
    pub kind: DeviceKind,
    /// One major number or all.
    pub major: Option<u32>,
    /// One minor number or all.
    pub minor: Option<u32>,
    /// What may be done.
    pub access: DeviceAccess,
}

/// What may be done with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAccess {
    /// Open for reading.
    pub read: bool,
    /// Open for writing.
    pub write: bool,
    /// Make a node.
    pub make_node: bool,
}

impl DeviceAccess {
    /// Everything.
    pub const ALL: DeviceAccess = DeviceAccess { read: true, write: true, make_node: true };
    /// Making nodes alone.
    pub const MAKE_NODE: DeviceAccess = DeviceAccess { read: false, write: false, make_node: true };

    /// Reads `rwm`; other letters are ignored.
    pub fn parse(text: &str) -> DeviceAccess {
        DeviceAccess { read: text.contains('r'), write: text.contains('w'), make_node: text.contains('m') }
    }
}

/// The rules that every container has: nodes may be made (CAP_MKNOD decides), and the devices of an ordinary `/dev` may be used.
pub(crate) fn default_device_rules() -> Vec<DeviceRule> {
    let character =
        |major, minor| DeviceRule { kind: DeviceKind::Character, major: Some(major), minor, access: DeviceAccess::ALL };
    let any = |kind| DeviceRule { kind, major: None, minor: None, access: DeviceAccess::MAKE_NODE };
    vec![
        any(DeviceKind::Character),
        any(DeviceKind::Block),
        character(1, Some(3)), // null
        character(1, Some(5)), // zero
        character(1, Some(7)), // full
        character(1, Some(8)), // random
        character(1, Some(9)), // urandom
        character(5, Some(0)), // tty
        character(5, Some(1)), // console
        character(5, Some(2)), // ptmx
        character(136, None),  // pts/*
    ]
}

/// Refuses the cgroup of v2 at `directory` every device that no rule allows.
pub(crate) fn attach_device_filter(directory: &Path, rules: &[DeviceRule]) -> Result<(), DeviceFilterError> {
    let failed = |action| move |source| DeviceFilterError { action, cgroup: directory.to_owned(), source };
    let program = load_cgroup_device_program(&device_program(rules)).map_err(failed("load"))?;
    let cgroup = File::open(directory).map_err(failed("open the directory for"))?;
    attach_cgroup_device_program(cgroup.as_fd(), program.as_fd()).map_err(failed("attach"))
}

// Registers. The kernel passes r1, a pointer to `struct bpf_cgroup_dev_ctx`; r0 is the answer.
const ANSWER: u8 = 0;
const CONTEXT: u8 = 1;
const KIND: u8 = 2;
const ACCESS: u8 = 3;
const MAJOR: u8 = 4;
const MINOR: u8 = 5;
/// The context is not needed once its fields are loaded.
const SCRATCH: u8 = CONTEXT;

// Operations of eBPF: class, source and code together.
const LOAD_WORD: u8 = 0x61;
const AND_IMMEDIATE: u8 = 0x54;
const SHIFT_RIGHT_IMMEDIATE: u8 = 0x74;
const MOVE_IMMEDIATE: u8 = 0xb4;
const MOVE_REGISTER: u8 = 0xbc;
const JUMP_UNEQUAL_IMMEDIATE: u8 = 0x55;
const JUMP_UNEQUAL_REGISTER: u8 = 0x5d;
const EXIT: u8 = 0x95;

// linux/bpf.h: BPF_DEVCG_DEV_*, BPF_DEVCG_ACC_*.
const KIND_BLOCK: i32 = 1;
const KIND_CHARACTER: i32 = 2;
const ACCESS_MAKE_NODE: i32 = 1;
const ACCESS_READ: i32 = 2;
const ACCESS_WRITE: i32 = 4;

/// A program that answers 1 if a rule allows all that is asked for, else 0.
fn device_program(rules: &[DeviceRule]) -> Vec<u64> {
    let mut program = vec![
        instruction(LOAD_WORD, KIND, CONTEXT, 0, 0),
        instruction(MOVE_REGISTER, ACCESS, KIND, 0, 0),
        // The low half of the first word is the kind, the high half what is asked for.
        instruction(AND_IMMEDIATE, KIND, 0, 0, 0xffff),
        instruction(SHIFT_RIGHT_IMMEDIATE, ACCESS, 0, 0, 16),
        instruction(LOAD_WORD, MAJOR, CONTEXT, 4, 0),
        instruction(LOAD_WORD, MINOR, CONTEXT, 8, 0),
    ];
    for rule in rules {
        program.extend(rule_program(rule));
    }
    program.extend(answer(0));
    program
}

fn rule_program(rule: &DeviceRule) -> Vec<u64> {
    let mut checks = vec![(JUMP_UNEQUAL_IMMEDIATE, KIND, 0, kind_bits(rule.kind))];
    if rule.access != DeviceAccess::ALL {
        // Allowed is what leaves nothing of the request outside the rule.
        checks.push((MOVE_REGISTER, SCRATCH, ACCESS, 0));
        checks.push((AND_IMMEDIATE, SCRATCH, 0, access_bits(rule.access)));
        checks.push((JUMP_UNEQUAL_REGISTER, SCRATCH, ACCESS, 0));
    }
    let numbers = [(MAJOR, rule.major), (MINOR, rule.minor)];
    for (register, number) in numbers {
        if let Some(number) = number {
            // Device numbers have at most 20 bits.
            checks.push((JUMP_UNEQUAL_IMMEDIATE, register, 0, i32::try_from(number).unwrap_or(i32::MAX)));
        }
    }
    let count = checks.len();
    let mut program = Vec::with_capacity(count + 2);
    for (index, (code, target, source, immediate)) in checks.into_iter().enumerate() {
        // A check that fails jumps behind the two instructions of the answer.
        let is_jump = matches!(code, JUMP_UNEQUAL_IMMEDIATE | JUMP_UNEQUAL_REGISTER);
        let offset = if is_jump { i16::try_from(count - index + 1).unwrap_or(i16::MAX) } else { 0 };
        program.push(instruction(code, target, source, offset, immediate));
    }
    program.extend(answer(1));
    program
}

fn answer(value: i32) -> [u64; 2] {
    [instruction(MOVE_IMMEDIATE, ANSWER, 0, 0, value), instruction(EXIT, 0, 0, 0, 0)]
}

/// `struct bpf_insn` as one little-endian integer.
fn instruction(code: u8, target: u8, source: u8, offset: i16, immediate: i32) -> u64 {
    let bytes = [[code, target | source << 4], offset.to_le_bytes()].concat();
    let mut whole = [0; 8];
    for (to, from) in whole.iter_mut().zip(bytes.into_iter().chain(immediate.to_le_bytes())) {
        *to = from;
    }
    u64::from_le_bytes(whole)
}

fn kind_bits(kind: DeviceKind) -> i32 {
    match kind {
        DeviceKind::Block => KIND_BLOCK,
        DeviceKind::Character => KIND_CHARACTER,
    }
}

fn access_bits(access: DeviceAccess) -> i32 {
    [(access.read, ACCESS_READ), (access.write, ACCESS_WRITE), (access.make_node, ACCESS_MAKE_NODE)]
        .into_iter()
        .filter_map(|(is_set, bit)| is_set.then_some(bit))
        .sum()
}
