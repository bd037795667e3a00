//! `monopod image`: what is in the store, and what goes in and out.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use node::images::{Image, ImageStore, Progress};

use crate::cli::ImageCommand;
use crate::data_dir::DataDir;
use crate::failure::{EXIT_USAGE, Explained, print};

pub(super) fn execute(command: ImageCommand, data_dir: &DataDir) -> anyhow::Result<u8> {
    let store = open_store(data_dir)?;
    match command {
        ImageCommand::Load { file, tag } => load(&store, &file, tag.as_deref()),
        ImageCommand::List { quiet } => list(&store, quiet),
        ImageCommand::Remove { images } => remove(&store, &images),
    }
}

/// Opens the image store of a data directory.
pub(crate) fn open_store(data_dir: &DataDir) -> anyhow::Result<ImageStore> {
    ImageStore::open(&data_dir.images()).map_err(|error| explained(&error, error.hint()))
}

/// An error of the store, with what to do.
fn explained(error: &dyn std::error::Error, hint: String) -> anyhow::Error {
    Explained::machine(chain(error), hint)
}

fn load(store: &ImageStore, file: &Path, tag: Option<&str>) -> anyhow::Result<u8> {
    let bars = Bars::default();
    let before: BTreeSet<String> =
        store.list().map_err(|error| explained(&error, error.hint()))?.iter().flat_map(names).collect();
    let images = store.load(file, tag, &bars).map_err(|error| {
        let hint = error.hint().to_owned();
        Explained::usage(chain(&error), hint)
    })?;
    let mut out = std::io::stdout().lock();
    for image in images {
        for name in new_names(&image, &before) {
            writeln!(out, "Loaded image: {name}")?;
        }
    }
    Ok(0)
}

/// The names that an image got; all of them if it had them before.
fn new_names(image: &Image, before: &BTreeSet<String>) -> Vec<String> {
    let names = names(image);
    let new: Vec<String> = names.iter().filter(|name| !before.contains(*name)).cloned().collect();
    if new.is_empty() { names } else { new }
}

fn list(store: &ImageStore, quiet: bool) -> anyhow::Result<u8> {
    let images = store.list().map_err(|error| explained(&error, error.hint()))?;
    let mut out = std::io::stdout().lock();
    let rows: Vec<(String, &Image)> =
        images.iter().flat_map(|image| names(image).into_iter().map(move |name| (name, image))).collect();
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max(5);
    if !quiet {
        writeln!(out, "{:width$}   {:12}   SIZE", "IMAGE", "ID")?;
    }
    for (name, image) in rows {
        if quiet {
            writeln!(out, "{name}")?;
        } else {
            let id = image.id.hex().get(..12).unwrap_or_default();
            writeln!(out, "{name:width$}   {id:12}   {}", indicatif::HumanBytes(image.size_bytes))?;
        }
    }
    Ok(0)
}

/// All names of an image, or its id if it has none left.
fn names(image: &Image) -> Vec<String> {
    let mut names: Vec<String> = image.tags.iter().chain(&image.digests).map(ToString::to_string).collect();
    if names.is_empty() {
        names.push(image.id.to_string());
    }
    names
}

/// Removes all that it can, and tells of what it could not.
fn remove(store: &ImageStore, images: &[String]) -> anyhow::Result<u8> {
    let mut code = 0;
    for image in images {
        match store.remove(image, false) {
            Ok(removed) => {
                let mut out = std::io::stdout().lock();
                for name in &removed.names {
                    writeln!(out, "Untagged: {name}")?;
                }
                if let Some(id) = &removed.image {
                    writeln!(out, "Deleted: {id}")?;
                }
            }
            Err(error) => {
                let hint = error.hint();
                print(&Explained::usage(chain(&error), hint));
                code = EXIT_USAGE;
            }
        }
    }
    Ok(code)
}

/// An error with all its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // A transparent error says what its cause says.
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Bars on a terminal, nothing elsewhere.
struct Bars {
    all: Option<MultiProgress>,
    open: Mutex<BTreeMap<String, ProgressBar>>,
}

impl Default for Bars {
    fn default() -> Self {
        Bars { all: std::io::stderr().is_terminal().then(MultiProgress::new), open: Mutex::default() }
    }
}

impl Progress for Bars {
    fn begin(&self, item: &str, total_bytes: Option<u64>) {
        let Some(all) = &self.all else { return };
        let template = "{prefix:14} {bar:30} {bytes}/{total_bytes}";
        let bar = all.add(total_bytes.map_or_else(ProgressBar::no_length, ProgressBar::new));
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(item.to_owned());
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(item.to_owned(), bar);
    }

    fn advance(&self, item: &str, bytes: u64) {
        if let Some(bar) = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(item) {
            bar.inc(bytes);
        }
    }

    fn end(&self, item: &str) {
        if let Some(bar) = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(item) {
            bar.finish_and_clear();
        }
    }
}
