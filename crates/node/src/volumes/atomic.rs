//! Replaces all files of a volume at once, so that a reader sees the old ones or the new ones (L-921).
//!
//! ```text
//! volume/
//!   ..2026_02_01_15_04_05.123456789/   the files
//!   ..data -> ..2026_02_01_15_04_05.123456789
//!   key    -> ..data/key
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::directory::set_mode;
use super::payload::{Payload, ProjectedFile};
use super::set_up::VolumeError;
use crate::images::remove_tree;

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";

/// The directory that always holds the current files.
pub(super) fn data(volume: &Path) -> PathBuf {
    volume.join(DATA)
}

/// Writes the files unless they are there already; `publish` is called before anybody can see new ones.
pub(super) fn write(
    volume: &Path,
    payload: &Payload,
    now: Timestamp,
    publish: impl Fn() -> Result<(), VolumeError>,
) -> Result<(), VolumeError> {
    let current = fs::read_link(data(volume)).ok();
    let is_current = current.as_ref().is_some_and(|current| holds(&volume.join(current), payload));
    if !is_current {
        let name = write_files(volume, payload, now)?;
        publish()?;
        swap(volume, &name)?;
    }
    link_files(volume, payload)?;
    remove_old(volume, payload)
}

/// Whether a directory holds exactly these files with this content.
fn holds(directory: &Path, payload: &Payload) -> bool {
    let found = files_below(directory, Path::new(""));
    let expected: BTreeSet<PathBuf> = payload.keys().map(PathBuf::from).collect();
    let is_same = |(path, file): (&String, &ProjectedFile)| {
        fs::read(directory.join(path)).is_ok_and(|content| content == file.data)
    };
    found.is_ok_and(|found| found == expected) && payload.iter().all(is_same)
}

fn files_below(directory: &Path, relative: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(directory.join(relative))? {
        let entry = entry?;
        let path = relative.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            found.extend(files_below(directory, &path)?);
        } else {
            found.insert(path);
        }
    }
    Ok(found)
}

/// Writes all files into a new directory and gives its name.
fn write_files(volume: &Path, payload: &Payload, now: Timestamp) -> Result<String, VolumeError> {
    let (name, directory) = make_time_directory(volume, now)?;
    for (path, file) in payload {
        let path = directory.join(path);
        for parent in
            path.ancestors().skip(1).take_while(|parent| *parent != directory).collect::<Vec<_>>().iter().rev()
        {
            make_directory(parent)?;
        }
        write_file(&path, file)?;
    }
    Ok(name)
}

fn make_time_directory(volume: &Path, now: Timestamp) -> Result<(String, PathBuf), VolumeError> {
    let mut number = u64::from(now.subsec_nanosecond().unsigned_abs());
    loop {
        let name = format!("{}.{number}", now.to_zoned(TimeZone::UTC).strftime("..%Y_%m_%d_%H_%M_%S"));
        let directory = volume.join(&name);
        match fs::create_dir(&directory) {
            Ok(()) => {
                set_mode(&directory, 0o755)?;
                return Ok((name, directory));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(VolumeError::system("make the directory", &directory)(error)),
        }
    }
}

fn make_directory(path: &Path) -> Result<(), VolumeError> {
    match fs::create_dir(path) {
        Ok(()) => set_mode(path, 0o755),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(VolumeError::system("make the directory", path)(error)),
    }
}

fn write_file(path: &Path, file: &ProjectedFile) -> Result<(), VolumeError> {
    let failed = VolumeError::system("write", path);
    let mut options = fs::OpenOptions::new();
    let mut opened = options.write(true).create_new(true).mode(0o600).open(path).map_err(&failed)?;
    io::Write::write_all(&mut opened, &file.data).map_err(&failed)?;
    if file.user.is_some() {
        lchown(path, file.user, None).map_err(&failed)?;
    }
    set_mode(path, file.mode)
}

/// From here on readers see the new files.
fn swap(volume: &Path, name: &str) -> Result<(), VolumeError> {
    let link = volume.join(NEW_DATA);
    // One may be left by an agent that died over it.
    fs::remove_file(&link).or_else(missing_is_fine).map_err(VolumeError::system("remove", &link))?;
    symlink(name, &link).map_err(VolumeError::system("make the link", &link))?;
    fs::rename(&link, data(volume)).map_err(VolumeError::system("rename", &link))
}

/// Makes the names that containers know, for files that had none.
fn link_files(volume: &Path, payload: &Payload) -> Result<(), VolumeError> {
    for (path, file) in payload {
        let name = path.split('/').next().unwrap_or_default();
        let link = volume.join(name);
        if link.is_symlink() {
            continue;
        }
        let failed = VolumeError::system("make the link", &link);
        symlink(Path::new(DATA).join(name), &link).map_err(&failed)?;
        if file.user.is_some() {
            lchown(&link, file.user, None).map_err(&failed)?;
        }
    }
    Ok(())
}

/// Removes names of files that are gone, and old directories, also those that an agent left that died over them.
fn remove_old(volume: &Path, payload: &Payload) -> Result<(), VolumeError> {
    let names: BTreeSet<&str> = payload.keys().filter_map(|path| path.split('/').next()).collect();
    let failed = VolumeError::system("list", volume);
    let current = fs::read_link(data(volume)).map_err(&failed)?;
    for entry in fs::read_dir(volume).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        let (path, name) = (entry.path(), entry.file_name());
        let text = name.to_string_lossy();
        let is_link_of_ours =
            fs::read_link(&path).is_ok_and(|target| target == Path::new(DATA).join(&name)) && text != DATA;
        let is_old_link = is_link_of_ours && !names.contains(text.as_ref());
        let is_old_directory = text.starts_with("..") && text != DATA && Path::new(&name) != current;
        if is_old_link || is_old_directory {
            remove_tree(&path).map_err(VolumeError::system("remove", &path))?;
        }
    }
    Ok(())
}

fn missing_is_fine(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}
