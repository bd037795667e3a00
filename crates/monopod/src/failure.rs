//! How a command's end becomes an exit code and a text on stderr.
//!
//! 0 is success, 1 a failed workload or a finding, 2 wrong usage or input, 3 a fault of monopod or of the machine.
//! A command that ends by a workload's own code gives that code.

use std::fmt;
use std::process::ExitCode;

use anstream::eprintln;
use anstyle::{AnsiColor, Style};

/// Wrong usage or wrong input.
pub(crate) const EXIT_USAGE: u8 = 2;
/// A fault of monopod itself or of the machine under it.
pub(crate) const EXIT_INTERNAL: u8 = 3;

/// An error that carries what to do about it, and the exit code that it means.
#[derive(Debug)]
pub(crate) struct Explained {
    /// What is wrong, without a full stop.
    pub(crate) message: String,
    /// What to do.
    pub(crate) hint: Option<String>,
    /// The exit code.
    pub(crate) code: u8,
}

impl Explained {
    /// An error of usage or input.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        Explained { message: message.into(), hint: Some(hint.into()), code: EXIT_USAGE }.into()
    }

    /// An error of the machine that the user can do something about.
    pub(crate) fn machine(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        Explained { message: message.into(), hint: Some(hint.into()), code: EXIT_INTERNAL }.into()
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Explained {}

/// The exit code of a command; prints its error, if it is one.
pub(crate) fn exit_code(outcome: anyhow::Result<u8>) -> ExitCode {
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            print(&error);
            ExitCode::from(explained(&error).map_or(EXIT_INTERNAL, |explained| explained.code))
        }
    }
}

/// Prints an error with its causes, and its hint last.
pub(crate) fn print(error: &anyhow::Error) {
    let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    let cyan = Style::new().bold().fg_color(Some(AnsiColor::Cyan.into()));
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    eprintln!("{red}error{red:#}: {}", causes.join(": "));
    if let Some(hint) = explained(error).and_then(|explained| explained.hint.as_ref()) {
        eprintln!("{cyan}hint{cyan:#}: {hint}");
    }
}

fn explained(error: &anyhow::Error) -> Option<&Explained> {
    error.chain().find_map(|cause| cause.downcast_ref())
}

/// A reader that went away (`monopod image list | head`) has had enough: no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}
