//! Real pods on a real machine: the agent with an API of a few maps, as root.
//!
//! The test program is its own shim, and its own agent to be killed: executed anew with a hidden word it is nothing else.

#[path = "../support/image_builder.rs"]
mod image_builder;

mod cluster;
mod configuration;
mod deletion;
mod killed_agent;
mod life;
mod probes_and_hooks;
mod world;

use std::ffi::OsString;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use world::{Outcome, World};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.split_first() {
        Some((word, rest)) if word == node::shim::SUBCOMMAND => return node::shim::main(rest),
        Some((word, rest)) if word == killed_agent::WORD => return killed_agent::main(rest),
        _ => {}
    }
    let trials = [
        life::trials(),
        probes_and_hooks::trials(),
        deletion::trials(),
        configuration::trials(),
        killed_agent::trials(),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials.into_iter().flatten().collect()).exit_code()
}

/// A test that is given a world of its own and must leave nothing of it behind.
fn trial<F, T>(name: &'static str, test: F) -> Trial
where
    F: FnOnce(World) -> T + Send + 'static,
    T: Future<Output = (World, Outcome)>,
{
    Trial::test(name, move || {
        if !rustix::process::geteuid().is_root() {
            // Counted as passed, and said.
            world::say(&format!("{name}: skipped: containers need root"));
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let outcome = runtime.block_on(async {
            let (world, outcome) = test(World::new().await?).await;
            // Cleaned up after a failure too; what failed first is what counts.
            let closed = world.close().await;
            outcome.and(closed)
        });
        outcome.map_err(|error| Failed::from(error.to_string()))
    })
}

/// Runs the steps of a test; a failure on the way leaves the world to be closed.
macro_rules! steps {
    ($world:ident, $steps:block) => {
        async move {
            let outcome: crate::world::Outcome = async {
                $steps
                Ok(())
            }
            .await;
            ($world, outcome)
        }
    };
}
use steps;
