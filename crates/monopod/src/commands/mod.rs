//! The commands: each a function from its options to an exit code.

mod image;
pub(crate) use image::open_store;

mod logging;
mod reset;

use std::io::Write as _;

use crate::cli::{self, Command, Invocation};
use crate::data_dir::DataDir;

/// Does what was typed.
pub(crate) fn execute(invocation: Invocation) -> anyhow::Result<u8> {
    logging::start(invocation.global.log_level);
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
