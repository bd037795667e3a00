//! Tests of the code itself: who may depend on whom, licences, and sizes.
//!
//! They read manifests and sources as text and run nothing but `cargo metadata`.

#![expect(clippy::indexing_slicing, reason = "indexing JSON gives null where there is nothing")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

type Failure = Box<dyn std::error::Error>;

/// The arrows of ARCHITECTURE.md: what each crate may use of the house.
const ARROWS: &[(&str, &[&str])] = &[
    ("api", &[]),
    ("lifecycle", &["api"]),
    ("controllers", &["api"]),
    ("advice", &["api"]),
    ("node", &["api", "lifecycle"]),
    ("apiserver", &["api"]),
    ("monopod", &["api", "lifecycle", "controllers", "advice", "node", "apiserver"]),
];

/// Crates that decide and never act: nothing below may be reachable from them.
const PURE: &[&str] = &["api", "lifecycle", "controllers", "advice"];
const IMPURE: &[&str] = &["tokio", "hyper", "axum", "mio", "async-std", "smol", "reqwest", "libcontainer", "redb"];

/// Licences that may be used, as SPDX names.
const LICENCES: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "MIT",
    "MIT-0",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "MPL-2.0",
    "CC0-1.0",
    "Unlicense",
    "0BSD",
    "BSL-1.0",
    // Mozilla's list of certificate authorities: data, not code.
    "CDLA-Permissive-2.0",
];

/// Packages whose manifest names a licence file instead of an SPDX expression: what the file is.
const CLARIFIED: &[(&str, &str)] = &[("rust-criu", "MIT")];

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

#[test]
fn the_arrows_between_crates_are_those_of_the_architecture() -> Result<(), Failure> {
    let metadata = Metadata::read()?;
    let house: BTreeSet<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    let mut wrong = Vec::new();
    for package in metadata.members() {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
            wrong.push(format!("crate `{}` stands in no arrow", package.name));
            continue;
        };
        for dependency in &package.direct {
            if house.contains(dependency.as_str()) && !allowed.contains(&dependency.as_str()) {
                wrong.push(format!("`{}` must not use `{dependency}`", package.name));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    Ok(())
}

#[test]
fn pure_crates_reach_no_runtime_network_or_disk() -> Result<(), Failure> {
    let metadata = Metadata::read()?;
    let mut wrong = Vec::new();
    for name in PURE {
        let reached = metadata.reachable(name);
        for impure in IMPURE.iter().filter(|impure| reached.contains(**impure)) {
            wrong.push(format!("`{name}` reaches `{impure}`"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    Ok(())
}

#[test]
fn every_dependency_has_a_licence_that_may_be_used() -> Result<(), Failure> {
    let metadata = Metadata::read()?;
    let refused: Vec<String> = metadata
        .packages
        .values()
        .filter(|package| !licence_is_allowed(&package.license))
        .map(|package| format!("{}: {}", package.name, package.license))
        .collect();
    assert_eq!(refused, Vec::<String>::new());
    Ok(())
}

#[test]
fn files_and_functions_keep_to_their_sizes() -> Result<(), Failure> {
    let mut wrong = Vec::new();
    // Tables of tests may be as long as they are.
    let is_test = |file: &PathBuf| file.components().any(|part| part.as_os_str() == "tests");
    for file in rust_files(&workspace_root().join("crates"))?.into_iter().filter(|file| !is_test(file)) {
        let text = std::fs::read_to_string(&file)?;
        let name = file.strip_prefix(workspace_root())?.display().to_string();
        let product = product_lines(&text);
        if product.len() > FILE_LINES_MAX {
            wrong.push(format!("{name}: {} lines, at most {FILE_LINES_MAX}", product.len()));
        }
        for (line, length) in long_functions(&product) {
            wrong.push(format!("{name}:{line}: a function of {length} lines, at most {FUNCTION_LINES_MAX}"));
        }
        if !text.starts_with("//!") && !text.starts_with("#!") {
            wrong.push(format!("{name}: no `//!` head that says what the file is"));
        }
    }
    assert_eq!(wrong.join("\n"), "");
    Ok(())
}

/// The lines before the tests of a file.
fn product_lines(text: &str) -> Vec<&str> {
    text.lines().take_while(|line| *line != "#[cfg(test)]").collect()
}

/// Functions that are too long: the number of their first line and their length.
/// The code is formatted, so a function ends at the first `}` that is indented as its `fn` is.
fn long_functions(lines: &[&str]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let words: Vec<&str> = line.split_whitespace().take(5).collect();
        let is_function = words.iter().position(|word| *word == "fn").is_some_and(|at| {
            words
                .iter()
                .take(at)
                .all(|word| matches!(*word, "pub" | "async" | "const" | "unsafe") || word.starts_with("pub("))
        });
        if !is_function {
            continue;
        }
        let end = format!("{}}}", " ".repeat(indent));
        let length = lines.iter().skip(index).position(|line| *line == end).map_or(0, |at| at + 1);
        if length > FUNCTION_LINES_MAX {
            found.push((index + 1, length));
        }
    }
    found
}

fn rust_files(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Whether an SPDX expression can be met with the allowed licences: one of `OR`, all of `AND`.
fn licence_is_allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    expression.split(" AND ").all(|part| {
        part.trim_matches(['(', ')', ' '])
            .split(" OR ")
            .any(|choice| LICENCES.contains(&choice.trim_matches(['(', ')', ' '])))
    })
}

fn workspace_root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

struct Package {
    name: String,
    license: String,
    member: bool,
    direct: Vec<String>,
    resolved: Vec<String>,
}

/// What `cargo metadata` says, as far as these tests need it.
struct Metadata {
    packages: BTreeMap<String, Package>,
}

impl Metadata {
    fn read() -> Result<Metadata, Failure> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let output = Command::new(cargo)
            .args(["metadata", "--format-version=1", "--offline", "--locked"])
            .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
            .current_dir(workspace_root())
            .output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        let json: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let text = |value: &serde_json::Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
        let members: BTreeSet<String> =
            list(&json["workspace_members"]).iter().filter_map(|id| id.as_str().map(str::to_owned)).collect();
        let mut packages = BTreeMap::new();
        for package in list(&json["packages"]) {
            let id = text(&package, "id");
            let normal = list(&package["dependencies"]).into_iter().filter(|dependency| dependency["kind"].is_null());
            let name = text(&package, "name");
            let clarified = CLARIFIED.iter().find(|(clarified, _)| *clarified == name);
            let entry = Package {
                license: clarified.map_or_else(|| text(&package, "license"), |(_, licence)| (*licence).to_owned()),
                name,
                member: members.contains(&id),
                direct: normal.map(|dependency| text(&dependency, "name")).collect(),
                resolved: Vec::new(),
            };
            packages.insert(id, entry);
        }
        for node in list(&json["resolve"]["nodes"]) {
            let normal = |dependency: &serde_json::Value| {
                list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null())
            };
            let resolved = list(&node["deps"]).iter().filter(|dep| normal(dep)).map(|dep| text(dep, "pkg")).collect();
            if let Some(package) = packages.get_mut(&text(&node, "id")) {
                package.resolved = resolved;
            }
        }
        Ok(Metadata { packages })
    }

    fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.values().filter(|package| package.member)
    }

    /// The names of all packages that a member reaches without its dev- and build-dependencies.
    fn reachable(&self, member: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let mut open: Vec<&Package> = self.members().filter(|package| package.name == member).collect();
        while let Some(package) = open.pop() {
            if names.insert(package.name.clone()) {
                open.extend(package.resolved.iter().filter_map(|id| self.packages.get(id)));
            }
        }
        names
    }
}
