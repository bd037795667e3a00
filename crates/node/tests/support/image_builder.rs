//! Builds images for tests out of nothing but files: no registry, no daemon, no network.
//!
//! The same builder gives the same bytes every time. Other test crates take it in with `#[path]`.

#![allow(dead_code, reason = "each test crate uses a part of it")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// An image that is being made.
#[derive(Clone)]
pub(crate) struct ImageBuilder {
    names: Vec<String>,
    layers: Vec<Layer>,
    config: Value,
    os: String,
    architecture: String,
    compression: Compression,
}

/// How layers are compressed.
#[derive(Clone, Copy)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

#[derive(Clone, Default)]
struct Layer(Vec<Node>);

#[derive(Clone)]
enum Node {
    Directory { path: String, mode: u32 },
    File { path: String, mode: u32, content: Vec<u8> },
    Link { path: String, target: String },
}

/// The blobs of an image, by their digests, and the descriptor of its manifest.
pub(crate) struct Blobs {
    pub(crate) blobs: BTreeMap<String, Vec<u8>>,
    pub(crate) manifest: Value,
    pub(crate) config_digest: String,
    pub(crate) diff_ids: Vec<String>,
}

impl ImageBuilder {
    /// An image of one empty layer for this machine.
    pub(crate) fn new(name: &str) -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        ImageBuilder {
            names: vec![name.to_owned()],
            layers: vec![Layer::default()],
            config: json!({}),
            os: "linux".to_owned(),
            architecture: architecture.to_owned(),
            compression: Compression::None,
        }
    }

    /// One more name.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.names.push(name.to_owned());
        self
    }

    /// No name at all.
    pub(crate) fn unnamed(mut self) -> Self {
        self.names.clear();
        self
    }

    /// What the image's configuration says of its containers: `{"Cmd": ["sh"]}`.
    pub(crate) fn config(mut self, config: Value) -> Self {
        self.config = config;
        self
    }

    pub(crate) fn platform(mut self, os: &str, architecture: &str) -> Self {
        (self.os, self.architecture) = (os.to_owned(), architecture.to_owned());
        self
    }

    pub(crate) fn compressed(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// What follows goes into a new layer above.
    pub(crate) fn layer(mut self) -> Self {
        self.layers.push(Layer::default());
        self
    }

    pub(crate) fn directory(self, path: &str, mode: u32) -> Self {
        self.node(Node::Directory { path: path.to_owned(), mode })
    }

    pub(crate) fn file(self, path: &str, mode: u32, content: impl Into<Vec<u8>>) -> Self {
        self.node(Node::File { path: path.to_owned(), mode, content: content.into() })
    }

    pub(crate) fn link(self, path: &str, target: &str) -> Self {
        self.node(Node::Link { path: path.to_owned(), target: target.to_owned() })
    }

    /// Debian's busybox-static with a link for each applet, and the directories that programs expect.
    pub(crate) fn busybox(mut self) -> Result<Self> {
        let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists());
        let busybox = busybox.ok_or("no busybox: install busybox-static")?;
        let applets = std::process::Command::new(busybox).arg("--list").output()?;
        for directory in ["bin", "dev", "etc", "proc", "root", "sbin", "sys", "usr", "usr/bin", "usr/sbin", "var"] {
            self = self.directory(directory, 0o755);
        }
        self = self.directory("tmp", 0o1777);
        self =
            self.file("etc/passwd", 0o644, "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n");
        self = self.file("etc/group", 0o644, "root:x:0:\nnogroup:x:65534:\n");
        self = self.file("bin/busybox", 0o755, fs::read(busybox)?);
        for applet in String::from_utf8(applets.stdout)?.lines().filter(|applet| *applet != "busybox") {
            self = self.link(&format!("bin/{applet}"), "busybox");
        }
        Ok(self)
    }

    fn node(mut self, node: Node) -> Self {
        if let Some(layer) = self.layers.last_mut() {
            layer.0.push(node);
        }
        self
    }

    /// All blobs of the image.
    pub(crate) fn blobs(&self) -> Result<Blobs> {
        let plain: Vec<Vec<u8>> = self.layers.iter().map(Layer::tar).collect::<Result<_>>()?;
        let diff_ids: Vec<String> = plain.iter().map(|layer| digest(layer)).collect();
        let config = json!({
            "created": "1970-01-01T00:00:00Z",
            "architecture": self.architecture,
            "os": self.os,
            "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        let mut blobs = BTreeMap::new();
        let mut layers = Vec::new();
        for layer in plain {
            let (layer, suffix) = self.compression.apply(layer)?;
            layers.push(put(&mut blobs, &format!("application/vnd.oci.image.layer.v1.tar{suffix}"), layer));
        }
        let config = put(&mut blobs, "application/vnd.oci.image.config.v1+json", config.to_string().into_bytes());
        let config_digest = text(&config, "digest");
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config,
            "layers": layers,
        });
        let mut manifest =
            put(&mut blobs, "application/vnd.oci.image.manifest.v1+json", manifest.to_string().into_bytes());
        if let Some(manifest) = manifest.as_object_mut() {
            manifest.insert("platform".to_owned(), json!({"os": self.os, "architecture": self.architecture}));
        }
        Ok(Blobs { blobs, manifest, config_digest, diff_ids })
    }

    /// The members of a docker-archive, as `docker save` writes it.
    pub(crate) fn docker_members(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let blobs = self.blobs()?;
        let member = |digest: &str| format!("{}.blob", digest.trim_start_matches("sha256:"));
        let manifest: Value = serde_json::from_slice(&blobs.blob(&blobs.manifest)?)?;
        let layers = manifest.get("layers").and_then(Value::as_array).cloned().unwrap_or_default();
        let layers: Vec<String> = layers.iter().map(|layer| member(&text(layer, "digest"))).collect();
        let list = json!([{"Config": member(&blobs.config_digest), "RepoTags": self.names, "Layers": layers}]);
        let wanted = |digest: &String| *digest == blobs.config_digest || layers.contains(&member(digest));
        let mut members: Vec<(String, Vec<u8>)> = blobs
            .blobs
            .iter()
            .filter(|(digest, _)| wanted(digest))
            .map(|(digest, content)| (member(digest), content.clone()))
            .collect();
        members.push(("manifest.json".to_owned(), list.to_string().into_bytes()));
        Ok(members)
    }

    /// Writes a docker-archive.
    pub(crate) fn write_docker_archive(&self, file: &Path) -> Result<PathBuf> {
        write_tar(file, &self.docker_members()?)
    }

    /// The members of an OCI layout, with one entry for each name.
    pub(crate) fn oci_members(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let blobs = self.blobs()?;
        let entry = |name: Option<&String>| {
            let mut entry = blobs.manifest.clone();
            if let (Some(name), Some(entry)) = (name, entry.as_object_mut()) {
                entry.insert("annotations".to_owned(), json!({"io.containerd.image.name": name}));
            }
            entry
        };
        let named: Vec<Value> = self.names.iter().map(|name| entry(Some(name))).collect();
        let entries = if named.is_empty() { vec![entry(None)] } else { named };
        Ok(layout_members(blobs.blobs, &entries))
    }

    /// Writes an OCI archive.
    pub(crate) fn write_oci_archive(&self, file: &Path) -> Result<PathBuf> {
        write_tar(file, &self.oci_members()?)
    }

    /// Writes an OCI layout into a directory.
    pub(crate) fn write_oci_layout(&self, directory: &Path) -> Result<PathBuf> {
        for (name, content) in self.oci_members()? {
            let path = directory.join(name);
            fs::create_dir_all(path.parent().unwrap_or(directory))?;
            fs::write(path, content)?;
        }
        Ok(directory.to_owned())
    }

    /// Writes the first layer as the archive of a root file system.
    pub(crate) fn write_rootfs(&self, file: &Path) -> Result<PathBuf> {
        fs::write(file, self.layers.first().ok_or("no layer")?.tar()?)?;
        Ok(file.to_owned())
    }
}

impl Blobs {
    /// The content that a descriptor names.
    pub(crate) fn blob(&self, descriptor: &Value) -> Result<Vec<u8>> {
        Ok(self.blobs.get(&text(descriptor, "digest")).cloned().ok_or("no such blob")?)
    }
}

impl Compression {
    fn apply(self, plain: Vec<u8>) -> Result<(Vec<u8>, &'static str)> {
        Ok(match self {
            Compression::None => (plain, ""),
            Compression::Gzip => (gzip(&plain)?, "+gzip"),
            Compression::Zstd => (zstd::stream::encode_all(plain.as_slice(), 1)?, "+zstd"),
        })
    }
}

impl Layer {
    fn tar(&self) -> Result<Vec<u8>> {
        let mut builder = tar::Builder::new(Vec::new());
        for node in &self.0 {
            let mut header = tar::Header::new_ustar();
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(0);
            match node {
                Node::Directory { path, mode } => {
                    header.set_entry_type(tar::EntryType::Directory);
                    header.set_mode(*mode);
                    header.set_size(0);
                    builder.append_data(&mut header, path, &[][..])?;
                }
                Node::File { path, mode, content } => {
                    header.set_entry_type(tar::EntryType::Regular);
                    header.set_mode(*mode);
                    header.set_size(content.len() as u64);
                    builder.append_data(&mut header, path, content.as_slice())?;
                }
                Node::Link { path, target } => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    header.set_mode(0o777);
                    header.set_size(0);
                    builder.append_link(&mut header, path, target)?;
                }
            }
        }
        Ok(builder.into_inner()?)
    }
}

/// The members of an OCI layout of some blobs and the entries of its index.
pub(crate) fn layout_members(blobs: BTreeMap<String, Vec<u8>>, entries: &[Value]) -> Vec<(String, Vec<u8>)> {
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": entries,
    });
    let mut members = vec![
        ("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
        ("index.json".to_owned(), index.to_string().into_bytes()),
    ];
    let blobs = blobs.into_iter();
    members.extend(blobs.map(|(digest, content)| (format!("blobs/{}", digest.replace(':', "/")), content)));
    members
}

/// Adds a blob and gives its descriptor.
pub(crate) fn put(blobs: &mut BTreeMap<String, Vec<u8>>, media_type: &str, content: Vec<u8>) -> Value {
    let descriptor = json!({"mediaType": media_type, "digest": digest(&content), "size": content.len()});
    blobs.insert(digest(&content), content);
    descriptor
}

/// `sha256:...` of some bytes.
pub(crate) fn digest(content: &[u8]) -> String {
    let hex: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Compresses with gzip.
pub(crate) fn gzip(plain: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(plain)?;
    Ok(encoder.finish()?)
}

/// The bytes of a tar archive.
pub(crate) fn tar_of(members: &[(String, Vec<u8>)]) -> Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in members {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, name, content.as_slice())?;
    }
    Ok(builder.into_inner()?)
}

/// Writes a tar archive.
pub(crate) fn write_tar(file: &Path, members: &[(String, Vec<u8>)]) -> Result<PathBuf> {
    fs::write(file, tar_of(members)?)?;
    Ok(file.to_owned())
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}
