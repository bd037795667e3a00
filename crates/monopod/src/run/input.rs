//! From files to objects: everything is read, and everything that is wrong is told, before anything runs.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anstream::eprint;
use api::manifest::{self, Diagnostic, ManifestObject};
use apiserver::ResourceType;
use serde_json::Value;

use crate::cli::PullOption;
use crate::failure::Explained;

/// A manifest is not larger; an endless standard input must not eat the memory.
const BYTES_MAX: u64 = 64 << 20;

/// The objects of the manifests, and the texts that they came from.
pub(crate) struct Input {
    pub(crate) objects: Vec<ManifestObject>,
    texts: BTreeMap<String, String>,
}

/// Reads all files; tells of everything that is wrong in them.
pub(crate) fn read(files: &[PathBuf]) -> anyhow::Result<Input> {
    let mut input = Input { objects: Vec::new(), texts: BTreeMap::new() };
    let mut wrong = Vec::new();
    for file in files {
        let name = if file == Path::new("-") { "<stdin>".to_owned() } else { file.display().to_string() };
        let text = read_text(file, &name)?;
        let (objects, diagnostics) = manifest::read(&name, &text);
        input.objects.extend(objects);
        wrong.extend(diagnostics);
        input.texts.insert(name, text);
    }
    wrong.extend(input.unserved());
    wrong.extend(input.twins());
    input.refuse(&wrong)?;
    input.require_workload()?;
    Ok(input)
}

impl Input {
    /// Tells what is wrong, and fails if anything is.
    pub(crate) fn refuse(&self, wrong: &[Diagnostic]) -> anyhow::Result<()> {
        if wrong.is_empty() {
            return Ok(());
        }
        let colour = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
        for diagnostic in wrong {
            let text = self.texts.get(&diagnostic.file).map_or("", String::as_str);
            eprint!("{}\n\n", place_line(diagnostic, text, colour));
        }
        let (count, noun) = (wrong.len(), if wrong.len() == 1 { "error" } else { "errors" });
        Err(Explained::usage(format!("{count} {noun} in the manifests, so nothing was run"), "mend them and run again"))
    }

    /// Kinds that can be read but are not served here.
    fn unserved(&self) -> Vec<Diagnostic> {
        let unserved = self.objects.iter().filter(|object| resource_of(object).is_none());
        unserved
            .map(|object| {
                object.error("kind", format!("kind `{}` can't be run here", object.kind)).hint(
                    "monopod runs Pods and Jobs; take the pod template of this object and make a Pod or a Job of it",
                )
            })
            .collect()
    }

    /// Objects of the same kind, namespace and name.
    fn twins(&self) -> Vec<Diagnostic> {
        let mut first: BTreeMap<(String, String, String), &ManifestObject> = BTreeMap::new();
        let mut wrong = Vec::new();
        for object in self.objects.iter().filter(|object| !object.name().is_empty()) {
            let key = (object.kind.clone(), namespace_of(object).to_owned(), object.name().to_owned());
            if let Some(before) = first.get(&key) {
                let line = before.locate("metadata.name").start.line;
                let message = format!(
                    "a second {} is named `{}`; the first is at {}:{line}",
                    object.kind,
                    object.name(),
                    before.file
                );
                wrong.push(object.error("metadata.name", message).hint("give one of the two another name"));
            } else {
                first.insert(key, object);
            }
        }
        wrong
    }

    /// How many Pods and Jobs there are.
    pub(crate) fn workloads(&self) -> usize {
        self.objects.iter().filter(|object| matches!(object.kind.as_str(), "Pod" | "Job")).count()
    }

    fn require_workload(&self) -> anyhow::Result<()> {
        if self.workloads() > 0 {
            return Ok(());
        }
        let kinds: Vec<&str> = self.objects.iter().map(|object| object.kind.as_str()).collect();
        Err(Explained::usage(
            format!("there is nothing to run: the manifests hold only {}", kinds.join(", ")),
            "add a Pod or a Job",
        ))
    }
}

/// The rendered diagnostic, with `file:line:column` in front where the excerpt does not show it.
fn place_line(diagnostic: &Diagnostic, text: &str, colour: bool) -> String {
    diagnostic.render(text, colour)
}

fn read_text(file: &Path, name: &str) -> anyhow::Result<String> {
    let explain = |error: std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => "check the path",
            std::io::ErrorKind::PermissionDenied => "give yourself the right to read it",
            std::io::ErrorKind::IsADirectory => "name the files in it",
            std::io::ErrorKind::InvalidData => "a manifest is text in UTF-8",
            _ => "check that it can be read",
        };
        Explained::usage(format!("cannot read `{name}`: {error}"), hint)
    };
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().take(BYTES_MAX).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(BYTES_MAX).read_to_string(&mut text))
    };
    read.map_err(explain)?;
    Ok(text)
}

/// The resource that an object is served as.
pub(crate) fn resource_of(object: &ManifestObject) -> Option<&'static ResourceType> {
    ResourceType::find_kind(&object.api_version, &object.kind)
}

/// The namespace of an object; `default` if it names none.
pub(crate) fn namespace_of(object: &ManifestObject) -> &str {
    if object.namespace().is_empty() { "default" } else { object.namespace() }
}

/// Sets when the images of a Pod or Job are pulled, if the user said so.
pub(crate) fn set_pull_policy(object: &mut Value, pull: PullOption) {
    let policy = match pull {
        PullOption::Policy => return,
        PullOption::Missing => "IfNotPresent",
        PullOption::Never => "Never",
        PullOption::Always => "Always",
    };
    for spec in ["/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec"] {
        for list in ["initContainers", "containers"] {
            let containers = object.pointer_mut(&format!("{spec}/{list}")).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
                container.insert("imagePullPolicy".to_owned(), policy.into());
            }
        }
    }
}
