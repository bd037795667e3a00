//! Files of an image, read from its unpacked layers as a container will see them, without mounting anything.
//!
//! Layers come from strangers: a symbolic link is followed inside the image only, a device or pipe is not opened, a huge file is not read.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// As many as the kernel follows.
const LINKS_MAX: u32 = 40;

/// overlayfs' mark of a directory that hides what lies below it (kernel: overlayfs.rst, "whiteouts and opaque directories").
const OPAQUE_XATTR: &str = "trusted.overlay.opaque";

/// Why a file of an image cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImageFileError {
    /// The disk does not give it.
    #[error("failed to read `{}` of the image in `{}`", path.display(), layer.display())]
    Read {
        /// The path in the image.
        path: PathBuf,
        /// The layer that was looked into.
        layer: PathBuf,
        /// What the disk says.
        #[source]
        source: std::io::Error,
    },
    /// It is larger than anything that is sensible.
    #[error("`{}` of the image is larger than {limit_bytes} bytes", path.display())]
    TooLarge {
        /// The path in the image.
        path: PathBuf,
        /// How much would have been read.
        limit_bytes: u64,
    },
}

/// An image's unpacked layers.
#[derive(Clone, Copy, Debug)]
pub struct ImageRoot<'a> {
    layers: &'a [PathBuf],
}

/// What one layer says of a name in a directory.
enum Sight {
    Found(Stat),
    Hidden,
    Absent,
}

impl<'a> ImageRoot<'a> {
    /// The layers, the topmost first.
    pub fn new(layers: &'a [PathBuf]) -> Self {
        ImageRoot { layers }
    }

    /// The content of a regular file; `None` if there is none at this path.
    pub fn read(&self, path: &Path, limit_bytes: u64) -> Result<Option<Vec<u8>>, ImageFileError> {
        let mut wanted = components(path.as_os_str());
        let mut walked: Vec<OsString> = Vec::new();
        let mut links = 0;
        while let Some(component) = wanted.pop_front() {
            if component == ".." {
                // Above the root is the root.
                walked.pop();
                continue;
            }
            walked.push(component);
            let Some((layer, stat)) = self.find(&walked, path)? else { return Ok(None) };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {}
                FileType::Symlink => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Ok(None);
                    }
                    let target = self.in_layer(path, layer, read_link(layer, &walked))?;
                    walked.pop();
                    if target.as_bytes().starts_with(b"/") {
                        walked.clear();
                    }
                    for component in components(&target).into_iter().rev() {
                        wanted.push_front(component);
                    }
                }
                FileType::RegularFile if wanted.is_empty() => {
                    return self.read_file(path, layer, &walked, limit_bytes).map(Some);
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The layer that shows a path whose parents are directories, and what is there.
    fn find(&self, walked: &[OsString], path: &Path) -> Result<Option<(&'a Path, Stat)>, ImageFileError> {
        for layer in self.layers {
            match self.in_layer(path, layer, look(layer, walked))? {
                Sight::Found(stat) => return Ok(Some((layer, stat))),
                Sight::Hidden => return Ok(None),
                Sight::Absent => {}
            }
        }
        Ok(None)
    }

    fn read_file(
        &self,
        path: &Path,
        layer: &Path,
        walked: &[OsString],
        limit_bytes: u64,
    ) -> Result<Vec<u8>, ImageFileError> {
        // Where others write too, the file may have become a pipe meanwhile, and opening one waits without NONBLOCK.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = open_parent(layer, walked)
            .and_then(|(parent, name)| rustix::fs::openat(&parent, name, flags, Mode::empty()));
        let file = std::fs::File::from(self.in_layer(path, layer, file)?);
        let mut content = Vec::new();
        let read = file.take(limit_bytes.saturating_add(1)).read_to_end(&mut content);
        read.map_err(|source| ImageFileError::Read { path: path.to_owned(), layer: layer.to_owned(), source })?;
        if content.len() as u64 > limit_bytes {
            return Err(ImageFileError::TooLarge { path: path.to_owned(), limit_bytes });
        }
        Ok(content)
    }

    fn in_layer<T>(&self, path: &Path, layer: &Path, result: Result<T, Errno>) -> Result<T, ImageFileError> {
        result.map_err(|error| ImageFileError::Read {
            path: path.to_owned(),
            layer: layer.to_owned(),
            source: error.into(),
        })
    }
}

fn components(path: &OsStr) -> VecDeque<OsString> {
    let parts = path.as_bytes().split(|byte| *byte == b'/');
    parts.filter(|part| !part.is_empty() && *part != b".").map(|part| OsStr::from_bytes(part).to_owned()).collect()
}

/// Walks down one layer, minding whiteouts and opaque directories.
fn look(layer: &Path, walked: &[OsString]) -> Result<Sight, Errno> {
    let mut directory = open_root(layer)?;
    let mut absent = Sight::Absent;
    let Some((last, parents)) = walked.split_last() else { return Ok(Sight::Absent) };
    for name in parents {
        match stat_in(&directory, name)? {
            Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {}
            // Whatever else stands here in this layer covers the directories of that name below.
            Some(_) => return Ok(Sight::Hidden),
            None => return Ok(absent),
        }
        directory = rustix::fs::openat(&directory, name, directory_flags(), Mode::empty())?;
        if is_opaque(&directory) {
            absent = Sight::Hidden;
        }
    }
    match stat_in(&directory, last)? {
        Some(stat) if is_whiteout(&stat) => Ok(Sight::Hidden),
        Some(stat) => Ok(Sight::Found(stat)),
        None => Ok(absent),
    }
}

fn open_root(layer: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(layer, directory_flags(), Mode::empty())
}

fn open_parent<'a>(layer: &Path, walked: &'a [OsString]) -> Result<(OwnedFd, &'a OsStr), Errno> {
    let (name, parents) = walked.split_last().ok_or(Errno::ISDIR)?;
    let mut directory = open_root(layer)?;
    for parent in parents {
        directory = rustix::fs::openat(&directory, parent, directory_flags(), Mode::empty())?;
    }
    Ok((directory, name))
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn stat_in(directory: &OwnedFd, name: &OsStr) -> Result<Option<Stat>, Errno> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_link(layer: &Path, walked: &[OsString]) -> Result<OsString, Errno> {
    let (parent, name) = open_parent(layer, walked)?;
    let target = rustix::fs::readlinkat(&parent, name, Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()))
}

fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

fn is_opaque(directory: &OwnedFd) -> bool {
    let mut value = [0u8; 1];
    // An attribute that is absent or not `y` does not say so.
    rustix::fs::fgetxattr(directory.as_fd(), OPAQUE_XATTR, &mut value).is_ok_and(|length| length == 1 && value == *b"y")
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "the tests make exactly two layers")]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::XattrFlags;

    use super::*;

    type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

    /// Two layers, the topmost first.
    fn layers() -> Result<(tempfile::TempDir, Vec<PathBuf>)> {
        let root = tempfile::tempdir()?;
        let layers = vec![root.path().join("upper"), root.path().join("lower")];
        for layer in &layers {
            std::fs::create_dir_all(layer.join("etc"))?;
        }
        Ok((root, layers))
    }

    fn read(layers: &[PathBuf], path: &str) -> Result<Option<String>> {
        let content = ImageRoot::new(layers).read(Path::new(path), 100)?;
        Ok(content.map(String::from_utf8).transpose()?)
    }

    #[test]
    fn the_topmost_layer_that_has_a_file_shows_it() -> Result {
        let (_root, layers) = layers()?;
        std::fs::write(layers[1].join("etc/passwd"), "lower")?;
        assert_eq!(read(&layers, "/etc/passwd")?, Some("lower".into()));
        std::fs::write(layers[0].join("etc/passwd"), "upper")?;
        assert_eq!(read(&layers, "/etc/passwd")?, Some("upper".into()));
        assert_eq!(read(&layers, "/etc/group")?, None);
        assert_eq!(read(&layers, "/etc")?, None);
        assert_eq!(read(&layers, "/etc/passwd/x")?, None);
        Ok(())
    }

    #[test]
    fn links_are_followed_inside_the_image_only() -> Result {
        let (_root, layers) = layers()?;
        std::fs::create_dir_all(layers[1].join("usr/lib"))?;
        std::fs::write(layers[1].join("usr/lib/passwd"), "inside")?;
        symlink("../../../../usr/lib/passwd", layers[0].join("etc/relative"))?;
        symlink("/usr/lib/passwd", layers[0].join("etc/absolute"))?;
        symlink("loop", layers[0].join("etc/loop"))?;
        symlink("/", layers[0].join("etc/up"))?;
        assert_eq!(read(&layers, "/etc/relative")?, Some("inside".into()));
        assert_eq!(read(&layers, "/etc/absolute")?, Some("inside".into()));
        assert_eq!(read(&layers, "/etc/up/usr/lib/passwd")?, Some("inside".into()));
        assert_eq!(read(&layers, "/etc/loop")?, None);
        Ok(())
    }

    #[test]
    fn a_link_to_the_nodes_files_finds_nothing() -> Result {
        let (_root, layers) = layers()?;
        symlink("/proc/self/status", layers[0].join("etc/passwd"))?;
        assert_eq!(read(&layers, "/etc/passwd")?, None);
        Ok(())
    }

    #[test]
    fn whiteouts_and_opaque_directories_hide_what_lies_below() -> Result {
        let (_root, layers) = layers()?;
        std::fs::write(layers[1].join("etc/passwd"), "lower")?;
        std::fs::write(layers[1].join("etc/group"), "lower")?;
        let whiteout = layers[0].join("etc/passwd");
        let made = rustix::fs::mknodat(rustix::fs::CWD, &whiteout, FileType::CharacterDevice, Mode::empty(), 0);
        if made == Err(Errno::PERM) {
            println_skipped("no right to make device nodes");
            return Ok(());
        }
        made?;
        assert_eq!(read(&layers, "/etc/passwd")?, None);
        assert_eq!(read(&layers, "/etc/group")?, Some("lower".into()));
        rustix::fs::setxattr(layers[0].join("etc"), OPAQUE_XATTR, b"y", XattrFlags::empty())?;
        assert_eq!(read(&layers, "/etc/group")?, None);
        Ok(())
    }

    #[test]
    fn a_huge_file_and_what_is_no_file_are_not_read() -> Result {
        let (_root, layers) = layers()?;
        std::fs::write(layers[0].join("etc/passwd"), "x".repeat(101))?;
        let error = read(&layers, "/etc/passwd").err().map(|error| error.to_string());
        assert_eq!(error, Some("`/etc/passwd` of the image is larger than 100 bytes".into()));
        rustix::fs::mknodat(rustix::fs::CWD, layers[0].join("etc/group"), FileType::Fifo, Mode::RUSR, 0)?;
        assert_eq!(read(&layers, "/etc/group")?, None);
        Ok(())
    }

    #[expect(clippy::print_stderr, reason = "a test that cannot run here says so")]
    fn println_skipped(why: &str) {
        eprintln!("skipped: {why}");
    }
}
