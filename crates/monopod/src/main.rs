//! The command line of monopod: the one place where the crates meet.
//!
//! The process has two lives. As a shim (a hidden subcommand) it must stay single-threaded, so that is looked at before anything else exists.
//! As everything else it parses, resolves, runs a command and turns the outcome into an exit code.
//! Next: `cli` for what can be typed, `commands` for what is then done.

mod cli;
mod commands;
mod control_plane;
mod data_dir;
mod failure;
mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().collect();
    if let Some(shim_arguments) = cli::shim_arguments(&arguments) {
        return node::shim::main(shim_arguments);
    }
    match cli::parse(&arguments) {
        Ok(invocation) => failure::exit_code(commands::execute(invocation)),
        Err(code) => code,
    }
}
