//! Real pods in real shims, as root.
//!
//! The test program is its own shim: executed anew with the hidden subcommand it is nothing else.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot run says so, and a helper process tells its parent"
)]

mod hostile;
mod lifecycle_of_a_container;
mod security;
mod streams;
mod volumes;
mod world;

use std::ffi::OsString;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use world::{Outcome, World};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some((word, rest)) = arguments.split_first()
        && word == node::shim::SUBCOMMAND
    {
        return node::shim::main(rest);
    }
    if let Some((word, rest)) = arguments.split_first()
        && word == hostile::AGENT
    {
        return hostile::agent(rest);
    }
    let trials = [
        lifecycle_of_a_container::trials(),
        volumes::trials(),
        security::trials(),
        streams::trials(),
        hostile::trials(),
    ]
    .into_iter()
    .flatten()
    .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A test that is given a runtime and must leave nothing of it behind.
pub(crate) fn trial<F, T>(name: &'static str, test: F) -> Trial
where
    F: FnOnce(World) -> T + Send + 'static,
    T: Future<Output = Outcome<World>>,
{
    Trial::test(name, move || {
        if !rustix::process::geteuid().is_root() {
            // Counted as passed, and said.
            eprintln!("{name}: skipped: containers need root");
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime
            .block_on(async { test(World::new().await?).await?.close().await })
            .map_err(|error| Failed::from(error.to_string()))
    })
}
