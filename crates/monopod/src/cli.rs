//! What can be typed: every command and flag, with its help.
//!
//! Parsing touches nothing but the arguments and the environment; what they mean is found out in `commands`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};

/// The hidden first argument that makes this process a shim.
const SHIM: &str = "shim";

/// Runs Kubernetes Pods and Jobs on this machine exactly as a cluster would, with no cluster.
#[derive(Debug, Parser)]
#[command(name = "monopod", version, about, propagate_version = true, subcommand_required = true)]
#[command(
    after_help = "Exit status: 0 success, 1 a workload failed, 2 wrong usage or input, 3 a fault of monopod or the machine."
)]
pub(crate) struct Invocation {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that hold for every command.
#[derive(Args, Debug)]
pub(crate) struct GlobalOptions {
    /// Where images, volumes and the state of pods are kept
    #[arg(long, global = true, value_name = "DIR", env = "MONOPOD_DATA_DIR", default_value = "/var/lib/monopod")]
    pub(crate) data_dir: PathBuf,
    /// How much is said on stderr about what monopod does [default: warn; error with --quiet]
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
}

/// A level of the log on stderr.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the Pods and Jobs of manifests, and wait until all have ended
    Run(RunOptions),
    /// Load, list and remove images
    #[command(subcommand)]
    Image(ImageCommand),
    /// Take away all that the data directory holds, running pods included
    Reset(ResetOptions),
    /// Print the completion script of a shell
    #[command(after_help = "Example:\n  monopod completion bash > /etc/bash_completion.d/monopod")]
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Runs the Pods and Jobs of manifests, and waits until all have ended.
///
/// Shows what `kubectl get pods -w` shows, the events that matter, and the output of every container.
/// Ctrl-C ends the pods as a deletion does; a second one kills them.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  monopod run job.yaml
  monopod run --pull missing --timeout 5m config.yaml job.yaml
  kustomize build overlay | monopod run -
  monopod run --output json pod.yaml | jq -r 'select(.kind == \"Log\").line'

Exit status:
  0 if all succeeded; else the exit code of the first app container that failed, or 1;
  2 wrong input; 124 on --timeout; 130 on Ctrl-C")]
pub(crate) struct RunOptions {
    /// Manifests in YAML or JSON; `-` reads standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Show the containers' output only
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Do not show the containers' output
    #[arg(long)]
    pub(crate) no_logs: bool,
    /// How to print: text for people, or one JSON object per change
    #[arg(long, short, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: OutputFormat,
    /// End the pods after this long, and exit with 124 (`90s`, `5m`, `1h30m`)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout: Option<std::time::Duration>,
    /// When to pull images: as the manifest says (`policy`), or the same for all containers
    #[arg(long, value_name = "WHEN", default_value = "policy")]
    pub(crate) pull: PullOption,
}

/// How `run` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    Text,
    Json,
}

/// When `run` pulls images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PullOption {
    /// As each container's `imagePullPolicy` says
    Policy,
    /// Only if the image is not loaded
    Missing,
    /// Never: an image that is not loaded is an error
    Never,
    /// Before every start of a container
    Always,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Load the images of an archive
    ///
    /// Takes what `docker save` writes, an OCI archive or layout directory, each plain or compressed with gzip or zstd, and with --tag the tar of a root file system.
    #[command(after_help = "Examples:\n  monopod image load app.tar\n  monopod image load rootfs.tar.gz --tag app:1.0")]
    Load {
        /// The archive, or the directory of an OCI layout
        #[arg(value_name = "FILE.tar")]
        file: PathBuf,
        /// The name to give the image
        #[arg(long, value_name = "NAME")]
        tag: Option<String>,
    },
    /// List the images that are loaded
    #[command(visible_alias = "ls")]
    List {
        /// Print names only
        #[arg(long, short)]
        quiet: bool,
    },
    /// Remove images
    #[command(visible_alias = "rm")]
    Remove {
        /// Names or ids
        #[arg(required = true, value_name = "IMAGE")]
        images: Vec<String>,
    },
}

#[derive(Args, Debug)]
pub(crate) struct ResetOptions {
    /// Do it: without this, only what would be removed is shown
    #[arg(long)]
    pub(crate) yes: bool,
}

/// The arguments behind the hidden subcommand, if this process is to be a shim.
pub(crate) fn shim_arguments(arguments: &[OsString]) -> Option<&[OsString]> {
    match arguments {
        [_, first, rest @ ..] if first == SHIM => Some(rest),
        _ => None,
    }
}

/// Parses the arguments; prints help and errors itself, and answers the exit code for them.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Invocation, ExitCode> {
    Invocation::try_parse_from(arguments).map_err(|error| {
        // Nothing can be done where even the error can't be printed.
        drop(error.print());
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(crate::failure::EXIT_USAGE))
    })
}

/// The completion script of a shell.
pub(crate) fn completion(shell: clap_complete::Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Invocation::command(), "monopod", &mut script);
    script
}

fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let refuse = || format!("`{text}` is no duration such as `90s`, `5m` or `1h30m`");
    let span: jiff::SignedDuration = text.parse().map_err(|_| refuse())?;
    std::time::Duration::try_from(span).map_err(|_| refuse())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Invocation::command().debug_assert();
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        assert_eq!(parse_duration("1h30m"), Ok(std::time::Duration::from_secs(5400)));
        assert_eq!(parse_duration("90s"), Ok(std::time::Duration::from_secs(90)));
        assert_eq!(parse_duration("-5s"), Err("`-5s` is no duration such as `90s`, `5m` or `1h30m`".to_owned()));
        assert_eq!(parse_duration("five"), Err("`five` is no duration such as `90s`, `5m` or `1h30m`".to_owned()));
    }
}
