//! `monopod run`: a control plane for the length of one command.
//!
//! Reads the manifests ([`input`]), starts store, controllers and node, creates the objects, and shows what happens ([`render`]) until all has ended ([`session`]).
//! Then everything is taken away, however it ended.

mod follow;
mod input;
mod pulls;
mod render;
mod session;

use std::path::Path;

use anyhow::Context as _;
use api::manifest::Diagnostic;
use apiserver::registry::FieldValidation;
use apiserver::{ApiError, Registry, WriteOptions};
use serde_json::json;

use crate::cli::RunOptions;
use crate::control_plane::{ControlPlane, ControlPlaneOptions};
use crate::data_dir::{DataDir, NodeDir};
use crate::failure::Explained;
use input::{Input, namespace_of, resource_of, set_pull_policy};

/// Runs the manifests; answers the exit code.
pub(crate) fn run(options: &RunOptions, root: &Path) -> anyhow::Result<u8> {
    let input = input::read(&options.files)?;
    require_root()?;
    let data_dir = DataDir::open(root)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime of async tasks")?;
    runtime.block_on(run_in(options, &input, &data_dir))
}

async fn run_in(options: &RunOptions, input: &Input, data_dir: &DataDir) -> anyhow::Result<u8> {
    for abandoned in data_dir.abandoned_runs()? {
        take_away(abandoned).await?;
    }
    let node_dir = data_dir.new_run()?;
    let outcome = run_on(options, input, data_dir, &node_dir).await;
    let taken_away = take_away(node_dir).await;
    // What went wrong first is what the user must know.
    let code = outcome?;
    taken_away?;
    Ok(code)
}

async fn run_on(options: &RunOptions, input: &Input, data_dir: &DataDir, node_dir: &NodeDir) -> anyhow::Result<u8> {
    let plane = ControlPlane::start(ControlPlaneOptions {
        node_directory: node_dir.path().to_owned(),
        image_directory: data_dir.images(),
    })
    .await?;
    check(input, options, plane.registry()).await?;
    let follower = follow::Follower::start(options, &plane, data_dir, input.workloads())?;
    create(input, options, plane.registry()).await?;
    let code = follower.until_the_end().await;
    plane.stop().await;
    code
}

/// Removes what a run has: its pods first.
pub(crate) async fn take_away(node_dir: NodeDir) -> anyhow::Result<()> {
    node::agent::remove_everything(node_dir.path())
        .await
        .with_context(|| format!("cannot take away the pods of `{}`", node_dir.path().display()))?;
    node_dir.remove()
}

/// Passes every object through the API server's rules without storing it, and tells all that they break.
async fn check(input: &Input, options: &RunOptions, registry: &Registry) -> anyhow::Result<()> {
    make_namespaces(input, registry).await?;
    let write = WriteOptions { dry_run: true, field_validation: FieldValidation::Strict, ..WriteOptions::default() };
    let mut wrong = Vec::new();
    for object in &input.objects {
        let Some(resource) = resource_of(object) else { continue };
        let mut value = object.value.clone();
        set_pull_policy(&mut value, options.pull);
        match registry.create(resource, namespace_of(object), value, &write).await {
            // A namespace that was just made, or what every namespace has.
            Err(error) if error.is_already_exists() => {}
            Err(error) => wrong.extend(diagnostics(object, &error)),
            Ok(_) => {}
        }
    }
    input.refuse(&wrong)
}

/// Namespaces that objects name: a cluster has them made beforehand.
async fn make_namespaces(input: &Input, registry: &Registry) -> anyhow::Result<()> {
    let namespaces = apiserver::ResourceType::find("", "v1", "namespaces").context("namespaces are not served")?;
    for name in input.objects.iter().map(namespace_of) {
        match registry.create(namespaces, "", json!({"metadata": {"name": name}}), &WriteOptions::default()).await {
            Err(error) if error.is_already_exists() => {}
            // A name that can't be one is told with the object that has it.
            Err(error) if error.reason() == "Invalid" => {}
            answer => {
                answer.with_context(|| format!("cannot make namespace `{name}`"))?;
            }
        }
    }
    Ok(())
}

/// One diagnostic for each rule that an object breaks.
fn diagnostics(object: &api::manifest::ManifestObject, error: &ApiError) -> Vec<Diagnostic> {
    let causes: Vec<_> = error.status().details.iter().flat_map(|details| details.causes.iter().flatten()).collect();
    if causes.is_empty() {
        return vec![object.error("", error.to_string())];
    }
    causes
        .into_iter()
        .map(|cause| {
            let field = cause.field.as_deref().unwrap_or_default();
            let message = cause.message.as_deref().unwrap_or_default();
            object.error(field, if field.is_empty() { message.to_owned() } else { format!("{field}: {message}") })
        })
        .collect()
}

async fn create(input: &Input, options: &RunOptions, registry: &Registry) -> anyhow::Result<()> {
    let write = WriteOptions { field_manager: "monopod".to_owned(), ..WriteOptions::default() };
    for object in &input.objects {
        let Some(resource) = resource_of(object) else { continue };
        let mut value = object.value.clone();
        set_pull_policy(&mut value, options.pull);
        match registry.create(resource, namespace_of(object), value, &write).await {
            Err(error) if error.is_already_exists() => {}
            answer => {
                answer.with_context(|| format!("cannot create {} `{}`", object.kind, object.name()))?;
            }
        }
    }
    Ok(())
}

/// Namespaces, mounts and control groups are root's.
fn require_root() -> anyhow::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let owner = std::fs::metadata("/proc/self").context("cannot read /proc: is it mounted?")?.uid();
    if owner == 0 {
        return Ok(());
    }
    Err(Explained::machine("monopod must run as root to make containers", "run it with sudo"))
}
