//! The commands: each a function from its options to an exit code.

mod image;
pub(crate) use image::open_store;

mod logging;
mod reset;

use std::io::Write as _;

use crate::cli::{self, Command, Invocation, LogLevel};
use crate::data_dir::DataDir;

/// Who wants the containers' output only wants no warnings beside it.
fn log_level(invocation: &Invocation) -> LogLevel {
    let is_quiet = matches!(&invocation.command, Command::Run(options) if options.quiet);
    invocation.global.log_level.unwrap_or(if is_quiet { LogLevel::Error } else { LogLevel::Warn })
}

/// Does what was typed.
pub(crate) fn execute(invocation: Invocation) -> anyhow::Result<u8> {
    logging::start(log_level(&invocation));
    let root = &invocation.global.data_dir;
    match invocation.command {
        Command::Run(options) => crate::run::run(&options, root),
        Command::Image(command) => image::execute(command, &DataDir::open(root)?),
        Command::Reset(options) => reset::execute(&options, root),
        Command::Completion { shell } => {
            std::io::stdout().write_all(&cli::completion(shell))?;
            Ok(0)
        }
    }
}
