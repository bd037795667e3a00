//! Layers written member by member, and a place to unpack them into.

use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::images::unpack::{LowerLayers, OPAQUE_XATTR, UnpackLimits, unpack};

/// A layer that is written member by member, also with names that no program would write.
#[derive(Default)]
pub(super) struct Archive(pub(super) Vec<u8>);

impl Archive {
    pub(super) fn member(mut self, kind: u8, name: &str, link: &str, data: &[u8]) -> Self {
        self.raw(kind, name.as_bytes(), link.as_bytes(), data, |_| {});
        self
    }

    pub(super) fn with(mut self, kind: u8, name: &str, data: &[u8], change: impl FnOnce(&mut tar::Header)) -> Self {
        self.raw(kind, name.as_bytes(), b"", data, change);
        self
    }

    pub(super) fn raw(
        &mut self,
        kind: u8,
        name: &[u8],
        link: &[u8],
        data: &[u8],
        change: impl FnOnce(&mut tar::Header),
    ) {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::new(kind));
        header.set_mode(if kind == b'5' { 0o755 } else { 0o644 });
        (header.as_old_mut().name[..name.len()]).copy_from_slice(name);
        (header.as_old_mut().linkname[..link.len()]).copy_from_slice(link);
        header.set_size(data.len() as u64);
        change(&mut header);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
    }

    pub(super) fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let mut data = Vec::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let length = (1..).find(|digits| (rest + digits).to_string().len() == *digits).unwrap() + rest;
            data.extend_from_slice(format!("{length} {key}=").as_bytes());
            data.extend_from_slice(value);
            data.push(b'\n');
        }
        self.member(b'x', "pax", "", &data)
    }

    pub(super) fn directory(self, name: &str) -> Self {
        self.member(b'5', name, "", b"")
    }

    pub(super) fn file(self, name: &str, data: &str) -> Self {
        self.member(b'0', name, "", data.as_bytes())
    }

    pub(super) fn symlink(self, name: &str, target: &str) -> Self {
        self.member(b'2', name, target, b"")
    }

    pub(super) fn hard_link(self, name: &str, target: &str) -> Self {
        self.member(b'1', name, target, b"")
    }

    pub(super) fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

/// A place to unpack into, with something beside it that must stay as it is.
pub(super) struct Scene {
    pub(super) scratch: tempfile::TempDir,
    pub(super) layers: Vec<PathBuf>,
}

impl Scene {
    pub(super) fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("outside")).unwrap();
        std::fs::write(scratch.path().join("outside/secret"), "secret").unwrap();
        Scene { scratch, layers: Vec::new() }
    }

    /// Unpacks a layer above those before.
    pub(super) fn unpack(&mut self, archive: Archive) -> Result<PathBuf, String> {
        self.unpack_bytes(&archive.end())
    }

    pub(super) fn unpack_bytes(&mut self, archive: &[u8]) -> Result<PathBuf, String> {
        let layer = self.scratch.path().join(format!("layer{}", self.layers.len()));
        std::fs::create_dir(&layer).unwrap();
        let lower: Vec<PathBuf> = self.layers.iter().rev().cloned().collect();
        let lower = LowerLayers::open(&lower).unwrap();
        self.layers.push(layer.clone());
        let directory = std::fs::File::open(&layer).unwrap();
        let outcome = unpack(&mut &archive[..], directory.as_fd(), &lower, &UnpackLimits::default());
        self.assert_outside_is_untouched();
        outcome.map(|_| layer).map_err(|error| chain(&error))
    }

    pub(super) fn assert_outside_is_untouched(&self) {
        let outside = self.scratch.path().join("outside");
        let names: Vec<_> = std::fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["secret"]);
        assert_eq!(std::fs::read_to_string(outside.join("secret")).unwrap(), "secret");
        assert_eq!(std::fs::metadata(outside.join("secret")).unwrap().nlink(), 1);
    }

    /// What overlayfs shows of all layers.
    pub(super) fn merged(&self) -> Option<Mounted> {
        let target = self.scratch.path().join("merged");
        std::fs::create_dir(&target).unwrap();
        let lower: Vec<_> = self.layers.iter().rev().map(|layer| layer.display().to_string()).collect();
        let options = std::ffi::CString::new(format!("lowerdir={}", lower.join(":"))).unwrap();
        match rustix::mount::mount("overlay", &target, "overlay", rustix::mount::MountFlags::RDONLY, options.as_c_str())
        {
            Ok(()) => Some(Mounted(target)),
            Err(error) => {
                println!("skipped: overlayfs cannot be mounted here: {error}");
                None
            }
        }
    }
}

pub(super) struct Mounted(pub(super) PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

pub(super) fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root can set owners and make devices");
    }
    is_root
}

/// Every path below a directory with its kind, sorted: `d a`, `f a/b`, `l c -> d`, `c 1:3 e`, `w f` for a whiteout.
pub(super) fn listing(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(path) = open.pop() {
        for entry in std::fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(directory).unwrap().display().to_string();
            let metadata = path.symlink_metadata().unwrap();
            let kind = metadata.file_type();
            found.push(if kind.is_dir() {
                open.push(path.clone());
                let mut value = [0; 4];
                let is_opaque = rustix::fs::lgetxattr(&path, OPAQUE_XATTR, &mut value).is_ok();
                format!("{name}{}", if is_opaque { "/ opaque" } else { "/" })
            } else if kind.is_symlink() {
                format!("{name} -> {}", std::fs::read_link(&path).unwrap().display())
            } else if kind.is_char_device() && metadata.rdev() == 0 {
                format!("{name} whiteout")
            } else if kind.is_char_device() {
                format!("{name} char {}", metadata.rdev())
            } else if kind.is_block_device() {
                format!("{name} block {}", metadata.rdev())
            } else if kind.is_fifo() {
                format!("{name} fifo")
            } else {
                format!("{name} = {}", std::fs::read_to_string(&path).unwrap())
            });
        }
    }
    found.sort();
    found
}
