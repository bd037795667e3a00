//! The names of signals, as images and pods have them.

/// The number of a signal named `SIGTERM`, `TERM`, `sigterm`, `15`, `SIGRTMIN`, `SIGRTMIN+3` or `SIGRTMAX-1`.
pub fn signal_number(name: &str) -> Option<i32> {
    let upper = name.trim().to_ascii_uppercase();
    if let Ok(number) = upper.parse::<i32>() {
        return (1..=LAST).contains(&number).then_some(number);
    }
    let short = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some((_, number)) = NAMES.iter().find(|(known, _)| *known == short) {
        return Some(*number);
    }
    let real_time = if let Some(offset) = short.strip_prefix("RTMIN") {
        FIRST_REAL_TIME + if offset.is_empty() { 0 } else { offset.strip_prefix('+')?.parse::<i32>().ok()? }
    } else {
        let offset = short.strip_prefix("RTMAX")?;
        LAST - if offset.is_empty() { 0 } else { offset.strip_prefix('-')?.parse::<i32>().ok()? }
    };
    (FIRST_REAL_TIME..=LAST).contains(&real_time).then_some(real_time)
}

/// As the C library counts them: it keeps 32 and 33 for itself.
const FIRST_REAL_TIME: i32 = 34;
const LAST: i32 = 64;

const NAMES: &[(&str, i32)] = &[
    ("ABRT", libc::SIGABRT),
    ("ALRM", libc::SIGALRM),
    ("BUS", libc::SIGBUS),
    ("CHLD", libc::SIGCHLD),
    ("CLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("FPE", libc::SIGFPE),
    ("HUP", libc::SIGHUP),
    ("ILL", libc::SIGILL),
    ("INT", libc::SIGINT),
    ("IO", libc::SIGIO),
    ("IOT", libc::SIGIOT),
    ("KILL", libc::SIGKILL),
    ("PIPE", libc::SIGPIPE),
    ("POLL", libc::SIGPOLL),
    ("PROF", libc::SIGPROF),
    ("PWR", libc::SIGPWR),
    ("QUIT", libc::SIGQUIT),
    ("SEGV", libc::SIGSEGV),
    ("STKFLT", libc::SIGSTKFLT),
    ("STOP", libc::SIGSTOP),
    ("SYS", libc::SIGSYS),
    ("TERM", libc::SIGTERM),
    ("TRAP", libc::SIGTRAP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
    ("VTALRM", libc::SIGVTALRM),
    ("WINCH", libc::SIGWINCH),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_known_by_every_name_that_images_use() {
        let names = ["SIGTERM", "TERM", "sigquit", "15", "SIGRTMIN", "SIGRTMIN+3", "RTMAX-2", "RTMAX"];
        assert_eq!(
            names.map(signal_number),
            [Some(15), Some(15), Some(3), Some(15), Some(34), Some(37), Some(62), Some(64)]
        );
    }

    #[test]
    fn what_is_no_signal_is_none() {
        let names = ["", "SIG", "0", "65", "-1", "TERMINATE", "SIGRTMIN+31", "RTMAX+1", "RTMIN-1"];
        assert_eq!(names.map(signal_number), [None; 9]);
    }
}
