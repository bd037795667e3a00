//! The file systems that a container is made of, mounted in the shim's own mount namespace.
//!
//! Nobody else sees these mounts, and they vanish with the shim whatever kills it.
//! Each volume is cloned to a staging place first, because libcontainer takes a mount's propagation as it finds it and ignores what its spec says.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, mkdirat, openat2};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount, move_mount, open_tree, unmount,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::files::FileError;
use crate::images::open_beneath;
use crate::runtime::config::{ContainerConfig, MountAccess, MountPropagation, MountSource, Rootfs};
use crate::sys::mount::{MountAttributes, mount_setattr};

/// The kernel takes one page of options from `mount(2)`.
const MOUNT_OPTIONS_MAX: usize = 4095;

const ATTRIBUTE_READ_ONLY: u64 = 0x1;
const ATTRIBUTE_NO_EXEC: u64 = 0x8;
const ATTRIBUTES_NO_SETUID_NO_DEVICES: u64 = 0x2 | 0x4;

/// The mount namespaces of the shim: its own, and the node's, in which bidirectional volumes live.
pub(crate) struct MountNamespaces {
    pub(crate) own: File,
    pub(crate) node: File,
}

/// What stands ready for one container.
pub(crate) struct StagedMounts {
    /// All of it, to be unmounted and removed.
    directory: PathBuf,
    /// The root file system.
    pub(crate) rootfs: PathBuf,
    /// One for each entry of the config's `mounts`: what to bind; `None` for what libcontainer mounts itself.
    pub(crate) sources: Vec<Option<PathBuf>>,
}

/// Mounts the root file system and stages the volumes below `directory`.
pub(crate) fn stage(
    config: &ContainerConfig,
    directory: &Path,
    namespaces: &MountNamespaces,
) -> Result<StagedMounts, FileError> {
    make_directory(directory)?;
    let rootfs = directory.join("rootfs");
    let mut staged = StagedMounts { directory: directory.to_owned(), rootfs, sources: Vec::new() };
    match fill(config, namespaces, &mut staged) {
        Ok(()) => Ok(staged),
        Err(error) => {
            staged.remove();
            Err(error)
        }
    }
}

fn fill(config: &ContainerConfig, namespaces: &MountNamespaces, staged: &mut StagedMounts) -> Result<(), FileError> {
    make_directory(&staged.rootfs)?;
    match &config.rootfs {
        Rootfs::Overlay { lower_directories, upper_directory, work_directory } => {
            make_directory(upper_directory)?;
            make_directory(work_directory)?;
            mount_overlay(lower_directories, Some((upper_directory, work_directory)), &staged.rootfs)?;
        }
        Rootfs::Directory(path) => {
            let source = BindSource { path, sub_path: None };
            let tree = clone_tree(source, MountPropagation::Private, namespaces)?;
            place(&tree, &staged.rootfs)?;
        }
    }
    for (index, mount) in config.mounts.iter().enumerate() {
        let target = staged.directory.join(index.to_string());
        let source = match &mount.source {
            MountSource::Bind { path, sub_path, access, propagation } => {
                let source = BindSource { path, sub_path: sub_path.as_deref() };
                stage_bind(source, *access, *propagation, namespaces, &target)?;
                Some(target)
            }
            MountSource::Layers { lower_directories, sub_path } => {
                Some(stage_layers(lower_directories, sub_path.as_deref(), &target)?)
            }
            MountSource::Tmpfs { .. } => None,
        };
        staged.sources.push(source);
    }
    make_working_directory(config, staged)
}

impl StagedMounts {
    /// Unmounts all of it; a container that lives keeps its own copies.
    pub(crate) fn remove(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        for entry in entries.flatten() {
            // What is not mounted is no mount point, and an empty directory goes below.
            let _ = unmount(entry.path(), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
            let _ = if entry.path().is_dir() { fs::remove_dir(entry.path()) } else { fs::remove_file(entry.path()) };
        }
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Mounts unpacked layers, the topmost first, read-only unless an upper and a work directory are given.
fn mount_overlay(lower: &[PathBuf], upper: Option<(&PathBuf, &PathBuf)>, target: &Path) -> Result<(), FileError> {
    let [single] = lower else {
        return mount_layers(lower, upper, target).map_err(FileError::of("mount overlay at", target));
    };
    if upper.is_some() {
        return mount_layers(lower, upper, target).map_err(FileError::of("mount overlay at", target));
    }
    // overlayfs wants two layers at least; one alone is bound.
    let tree = open_clone(single)?;
    set_attributes(&tree, true, MountAttributes::new(ATTRIBUTE_READ_ONLY, libc::MS_PRIVATE), single)?;
    place(&tree, target)
}

fn mount_layers(lower: &[PathBuf], upper: Option<(&PathBuf, &PathBuf)>, target: &Path) -> io::Result<()> {
    let mut options = Vec::from(b"lowerdir=");
    for (index, directory) in lower.iter().enumerate() {
        if index > 0 {
            options.push(b':');
        }
        escape(directory.as_os_str(), b":,\\", &mut options);
    }
    if let Some((upper, work)) = upper {
        options.extend_from_slice(b",upperdir=");
        escape(upper.as_os_str(), b",\\", &mut options);
        options.extend_from_slice(b",workdir=");
        escape(work.as_os_str(), b",\\", &mut options);
        // The layer is thrown away with its container and never mounted again: to sync it would be work for nobody.
        options.extend_from_slice(b",volatile");
    }
    if options.len() > MOUNT_OPTIONS_MAX {
        return mount_many_layers(lower, upper, target);
    }
    let options = std::ffi::CString::new(options)?;
    Ok(mount("overlay", target, "overlay", MountFlags::empty(), options.as_c_str())?)
}

/// Images of more than some thirty layers need the mount API that takes them one by one (Linux 6.5).
fn mount_many_layers(lower: &[PathBuf], upper: Option<(&PathBuf, &PathBuf)>, target: &Path) -> io::Result<()> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for directory in lower {
        fsconfig_set_string(context.as_fd(), "lowerdir+", directory)?;
    }
    if let Some((upper, work)) = upper {
        fsconfig_set_string(context.as_fd(), "upperdir", upper)?;
        fsconfig_set_string(context.as_fd(), "workdir", work)?;
        rustix::mount::fsconfig_set_flag(context.as_fd(), "volatile")?;
    }
    fsconfig_create(context.as_fd())?;
    let tree = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    Ok(move_mount(tree.as_fd(), "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

fn escape(path: &OsStr, special: &[u8], options: &mut Vec<u8>) {
    for byte in path.as_bytes() {
        if special.contains(byte) {
            options.push(b'\\');
        }
        options.push(*byte);
    }
}

/// What is to be bound: a path of the node, or something inside it that may not lead out of it.
#[derive(Clone, Copy)]
struct BindSource<'a> {
    path: &'a Path,
    sub_path: Option<&'a Path>,
}

fn stage_bind(
    source: BindSource<'_>,
    access: MountAccess,
    propagation: MountPropagation,
    namespaces: &MountNamespaces,
    target: &Path,
) -> Result<(), FileError> {
    let path = source.path;
    let tree = clone_tree(source, propagation, namespaces)?;
    match access {
        MountAccess::ReadWrite => {}
        MountAccess::ReadOnly => {
            set_attributes(&tree, false, MountAttributes::new(ATTRIBUTE_READ_ONLY, 0), path)?;
        }
        MountAccess::RecursiveReadOnly => {
            set_attributes(&tree, true, MountAttributes::new(ATTRIBUTE_READ_ONLY, 0), path)?;
        }
    }
    let stat = rustix::fs::fstat(&tree).map_err(|error| FileError::of("inspect", path)(error.into()))?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        make_directory(target)?;
    } else {
        File::create(target).map_err(FileError::of("make file", target))?;
    }
    place(&tree, target)
}

/// Kubernetes: an image volume is read-only and has no programs to run (L-928).
fn stage_layers(layers: &[PathBuf], sub_path: Option<&Path>, target: &Path) -> Result<PathBuf, FileError> {
    make_directory(target)?;
    mount_overlay(layers, None, target)?;
    let tree = open_clone(target)?;
    let attributes = ATTRIBUTE_READ_ONLY | ATTRIBUTE_NO_EXEC | ATTRIBUTES_NO_SETUID_NO_DEVICES;
    set_attributes(&tree, true, MountAttributes::new(attributes, libc::MS_PRIVATE), target)?;
    place(&tree, target)?;
    let Some(sub_path) = sub_path else { return Ok(target.to_owned()) };
    // A path through the image's own symbolic links may not lead out of the image.
    let root = open_directory(target)?;
    let flags = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let found = openat2(&root, sub_path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), flags)
        .map_err(|error| FileError::of("open in image volume", sub_path)(error.into()))?;
    let proc_path = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&found)));
    fs::read_link(&proc_path).map_err(FileError::of("resolve in image volume", sub_path))
}

/// Clones what is mounted at a path, with all below it, and gives it the propagation asked for.
fn clone_tree(
    source: BindSource<'_>,
    propagation: MountPropagation,
    namespaces: &MountNamespaces,
) -> Result<OwnedFd, FileError> {
    let (tree, propagation) = match propagation {
        MountPropagation::Private => (open_bind_source(source)?, libc::MS_PRIVATE),
        // The shim's own mounts follow the node's already.
        MountPropagation::HostToContainer => (open_bind_source(source)?, libc::MS_SLAVE),
        MountPropagation::Bidirectional => (open_clone_on_node(source, namespaces)?, libc::MS_SHARED),
    };
    set_attributes(&tree, true, MountAttributes::new(0, propagation), source.path)?;
    Ok(tree)
}

/// A clone made in the node's namespace is a peer of the node's mount: what is mounted in the one shows in the other.
fn open_clone_on_node(source: BindSource<'_>, namespaces: &MountNamespaces) -> Result<OwnedFd, FileError> {
    let path = source.path;
    let enter = |namespace: &File| {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))
            .map_err(|error| FileError::of("enter the mount namespace for", path)(error.into()))
    };
    enter(&namespaces.node)?;
    let tree = open_bind_source(source);
    enter(&namespaces.own)?;
    tree
}

/// Kubernetes: a subPath may pass links, but never out of its volume, whatever the containers do meanwhile (L-926).
fn open_bind_source(source: BindSource<'_>) -> Result<OwnedFd, FileError> {
    let Some(sub_path) = source.sub_path else { return open_clone(source.path) };
    let volume = open_directory(source.path)?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let found = open_beneath(volume.as_fd(), sub_path.as_os_str().as_bytes(), OFlags::PATH, resolve)
        .map_err(|error| FileError::of("open in volume", sub_path)(error.into()))?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(&found, "", flags).map_err(|error| FileError::of("clone the mount of", sub_path)(error.into()))
}

fn open_clone(path: &Path) -> Result<OwnedFd, FileError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags).map_err(|error| FileError::of("clone the mount of", path)(error.into()))
}

fn set_attributes(tree: &OwnedFd, recursive: bool, attributes: MountAttributes, path: &Path) -> Result<(), FileError> {
    mount_setattr(tree.as_fd(), recursive, &attributes).map_err(FileError::of("set mount attributes of", path))
}

fn place(tree: &OwnedFd, target: &Path) -> Result<(), FileError> {
    move_mount(tree.as_fd(), "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(|error| FileError::of("mount at", target)(error.into()))
}

/// Makes the working directory if it is missing, on the mount that it will lie on, as runc does.
fn make_working_directory(config: &ContainerConfig, staged: &StagedMounts) -> Result<(), FileError> {
    let wanted = Path::new(&config.working_directory);
    let mounts = config.mounts.iter().zip(&staged.sources);
    let mut base = (Path::new("/"), Some(&staged.rootfs));
    for (mount, source) in mounts {
        let is_deeper = mount.destination.components().count() > base.0.components().count();
        if is_deeper && wanted.starts_with(&mount.destination) {
            base = (&mount.destination, source.as_ref());
        }
    }
    let (Ok(below), Some(root)) = (wanted.strip_prefix(base.0), base.1) else { return Ok(()) };
    make_directories_in_root(root, below)
}

/// Makes a path in a tree whose symbolic links are not to be trusted.
fn make_directories_in_root(root: &Path, path: &Path) -> Result<(), FileError> {
    let root = open_directory(root)?;
    let open = |path: &Path| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat2(&root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)
    };
    let mut present = PathBuf::from(".");
    for component in path.components() {
        let Component::Normal(name) = component else { continue };
        let next = present.join(name);
        if open(&next).is_err_and(|error| error == rustix::io::Errno::NOENT) {
            let made = open(&present).and_then(|parent| mkdirat(&parent, name, Mode::from_raw_mode(0o755)));
            made.map_err(|error| FileError::of("make working directory", path)(error.into()))?;
        }
        present = next;
    }
    Ok(())
}

/// Reads a small file of a tree whose symbolic links are not to be trusted.
pub(crate) fn read_in_root(root: &Path, path: &Path, length: u64) -> Option<String> {
    let root = open_directory(root).ok()?;
    let flags = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = openat2(&root, path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty(), flags).ok()?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(File::from(file), length), &mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn open_directory(path: &Path) -> Result<OwnedFd, FileError> {
    rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| FileError::of("open directory", path)(error.into()))
}

fn make_directory(path: &Path) -> Result<(), FileError> {
    fs::create_dir_all(path).map_err(FileError::of("make directory", path))
}
