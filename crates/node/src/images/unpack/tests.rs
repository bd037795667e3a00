//! Attacks and ordinary layers, unpacked for real.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::*;
use proptest::prelude::*;

/// A layer that is written member by member, also with names that no program would write.
#[derive(Default)]
struct Archive(Vec<u8>);

impl Archive {
    fn member(mut self, kind: u8, name: &str, link: &str, data: &[u8]) -> Self {
        self.raw(kind, name.as_bytes(), link.as_bytes(), data, |_| {});
        self
    }

    fn with(mut self, kind: u8, name: &str, data: &[u8], change: impl FnOnce(&mut tar::Header)) -> Self {
        self.raw(kind, name.as_bytes(), b"", data, change);
        self
    }

    fn raw(&mut self, kind: u8, name: &[u8], link: &[u8], data: &[u8], change: impl FnOnce(&mut tar::Header)) {
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

    fn pax(self, records: &[(&str, &[u8])]) -> Self {
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

    fn directory(self, name: &str) -> Self {
        self.member(b'5', name, "", b"")
    }

    fn file(self, name: &str, data: &str) -> Self {
        self.member(b'0', name, "", data.as_bytes())
    }

    fn symlink(self, name: &str, target: &str) -> Self {
        self.member(b'2', name, target, b"")
    }

    fn hard_link(self, name: &str, target: &str) -> Self {
        self.member(b'1', name, target, b"")
    }

    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

/// A place to unpack into, with something beside it that must stay as it is.
struct Scene {
    scratch: tempfile::TempDir,
    layers: Vec<PathBuf>,
}

impl Scene {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("outside")).unwrap();
        std::fs::write(scratch.path().join("outside/secret"), "secret").unwrap();
        Scene { scratch, layers: Vec::new() }
    }

    /// Unpacks a layer above those before.
    fn unpack(&mut self, archive: Archive) -> Result<PathBuf, String> {
        self.unpack_bytes(&archive.end())
    }

    fn unpack_bytes(&mut self, archive: &[u8]) -> Result<PathBuf, String> {
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

    fn assert_outside_is_untouched(&self) {
        let outside = self.scratch.path().join("outside");
        let names: Vec<_> = std::fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["secret"]);
        assert_eq!(std::fs::read_to_string(outside.join("secret")).unwrap(), "secret");
        assert_eq!(std::fs::metadata(outside.join("secret")).unwrap().nlink(), 1);
    }

    /// What overlayfs shows of all layers.
    fn merged(&self) -> Option<Mounted> {
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

struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root can set owners and make devices");
    }
    is_root
}

/// Every path below a directory with its kind, sorted: `d a`, `f a/b`, `l c -> d`, `c 1:3 e`, `w f` for a whiteout.
fn listing(directory: &Path) -> Vec<String> {
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

#[test]
fn parent_components_are_refused() {
    for archive in [
        Archive::default().file("../outside/secret", "x"),
        Archive::default().file("a/../../outside/secret", "x"),
        Archive::default().directory(".."),
        Archive::default().symlink("../outside/new", "x"),
        Archive::default().hard_link("a", "../outside/secret"),
        Archive::default().pax(&[("path", b"../outside/secret")]).file("a", "x"),
        Archive::default().member(b'L', "././@LongLink", "", b"../outside/secret\0").file("a", "x"),
        Archive::default().file("a/.wh...", "x"),
        Archive::default().file("a/.wh..", "x"),
        Archive::default().file("a/.wh.", "x"),
    ] {
        let mut scene = Scene::new();
        scene.unpack(Archive::default().directory("a")).unwrap();
        let error = scene.unpack(archive).unwrap_err();
        assert!(error.ends_with("would lie outside of its layer"), "{error}");
    }
}

#[test]
fn absolute_names_and_links_stay_in_the_layer() {
    let mut scene = Scene::new();
    let outside = scene.scratch.path().join("outside");
    let absolute = format!("{}/secret", outside.display());
    let archive = Archive::default()
        .file(&absolute, "mine")
        .symlink("link", &outside.display().to_string())
        .file("link/secret", "through")
        .hard_link("hard", &absolute)
        .symlink("up", "../../../../../../../../..")
        .file("up/etc-file", "in root");
    let layer = scene.unpack(archive).unwrap();
    let inside = layer.join(outside.strip_prefix("/").unwrap());
    assert_eq!(std::fs::read_to_string(inside.join("secret")).unwrap(), "through");
    assert_eq!(std::fs::read_to_string(layer.join("hard")).unwrap(), "through");
    assert_eq!(std::fs::read_to_string(layer.join("etc-file")).unwrap(), "in root");
}

#[test]
fn nothing_is_written_through_a_link_that_an_earlier_member_made() {
    let mut scene = Scene::new();
    let secret = scene.scratch.path().join("outside/secret").display().to_string();
    let archive = Archive::default().symlink("a", &secret).file("a", "x").symlink("d", "/").directory("d");
    let layer = scene.unpack(archive).unwrap();
    assert_eq!(listing(&layer), ["a = x", "d/"]);
}

#[test]
fn hard_links_to_what_is_no_file_of_the_image_are_refused() {
    for (target, prepare) in [
        ("/etc/passwd", Archive::default()),
        ("none", Archive::default()),
        (".", Archive::default()),
        ("dir", Archive::default().directory("dir")),
        ("file/x", Archive::default().file("file", "")),
    ] {
        let mut scene = Scene::new();
        let error = scene.unpack(prepare.hard_link("a", target)).unwrap_err();
        assert_eq!(error, format!("member `a` is a hard link to `{target}`, which is no file of the image"));
    }
}

#[test]
fn a_directory_behind_a_link_is_made_within_the_layer() {
    for (target, expected) in [
        ("usr/lib", ["lib -> usr/lib", "usr/", "usr/lib/", "usr/lib/a/", "usr/lib/a/b = x"]),
        ("/usr/lib", ["lib -> /usr/lib", "usr/", "usr/lib/", "usr/lib/a/", "usr/lib/a/b = x"]),
        ("../../usr/lib", ["lib -> ../../usr/lib", "usr/", "usr/lib/", "usr/lib/a/", "usr/lib/a/b = x"]),
        ("/proc/self", ["lib -> /proc/self", "proc/", "proc/self/", "proc/self/a/", "proc/self/a/b = x"]),
    ] {
        let mut scene = Scene::new();
        let layer = scene.unpack(Archive::default().symlink("lib", target).file("lib/a/b", "x")).unwrap();
        assert_eq!(listing(&layer), expected);
    }
}

#[test]
fn a_loop_of_links_and_a_file_in_the_way_are_errors() {
    let loops = Archive::default().symlink("a", "b").symlink("b", "a").file("a/c", "x");
    let error = Scene::new().unpack(loops).unwrap_err();
    assert_eq!(
        error,
        "member `a/c`: cannot open the directory that it lies in: Too many levels of symbolic links (os error 40)"
    );
    let error = Scene::new().unpack(Archive::default().file("a", "").file("a/b", "")).unwrap_err();
    assert_eq!(error, "member `a/b`: cannot open the directory that it lies in: Not a directory (os error 20)");
}

#[test]
fn huge_and_broken_numbers_are_refused() {
    let check = |change: fn(&mut tar::Header), expected: &str| {
        let mut scene = Scene::new();
        let error = scene.unpack(Archive::default().file("ok", "").with(b'0', "a", b"x", change)).unwrap_err();
        assert_eq!(error, expected);
    };
    check(
        |header| header.as_old_mut().size = [0xff; 12],
        "malformed layer archive after member `ok`: the header at byte 512 has a wrong `size`",
    );
    check(
        |header| header.as_old_mut().uid = [0x80, 1, 1, 1, 1, 1, 1, 1],
        "malformed layer archive after member `ok`: the header at byte 512 has a wrong `uid`",
    );
    check(
        |header| header.as_old_mut().mode = *b"abcdefgh",
        "malformed layer archive after member `ok`: the header at byte 512 has a wrong `mode`",
    );
    check(
        |header| header.as_old_mut().linkflag = [b'Z'],
        "malformed layer archive after member `ok`: the header at byte 512 has the unknown member type 'Z'",
    );
    check(
        |header| header.as_old_mut().size = *b"77777777777\0",
        "member `a`: cannot read it from the archive: the archive ends in the middle, at byte 2560",
    );
}

#[test]
fn long_and_deep_names_are_refused_and_what_describes_a_member_is_bounded() {
    let check = |archive: Archive, expected: &str| {
        assert_eq!(Scene::new().unpack(archive).unwrap_err(), expected);
    };
    let long = "x".repeat(256);
    check(
        Archive::default().pax(&[("path", long.as_bytes())]).file("a", ""),
        &format!("member `{}...` has a name that is too long", "x".repeat(200)),
    );
    let deep = "a/".repeat(300);
    check(
        Archive::default().pax(&[("path", deep.as_bytes())]).file("a", ""),
        &format!("member `{}...` has a name that lies too deep", "a/".repeat(100)),
    );
    check(
        Archive::default().with(b'L', "././@LongLink", b"", |header| header.set_size(1 << 40)),
        "malformed layer archive: the names and attributes of the member at byte 0 take more than 1048576 bytes",
    );
    check(
        Archive::default().member(b'x', "pax", "", b"13 path=a\n").file("a", ""),
        "malformed layer archive: the PAX records at byte 0 are malformed",
    );
    check(
        Archive::default().pax(&[("path", b"a\0b")]).file("a", ""),
        "malformed layer archive: the header at byte 1024 has a wrong `path`",
    );
    check(
        Archive::default().pax(&[("path", b"a")]),
        "malformed layer archive: the archive ends in the middle, at byte 1024",
    );
}

#[test]
fn a_bomb_ends_at_the_limit() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = std::fs::File::open(scratch.path()).unwrap();
    let archive = Archive::default().file("a", "12345").file("b", "12345").end();
    let run = |limits| {
        let outcome = unpack(&mut &archive[..], directory.as_fd(), &LowerLayers::default(), &limits);
        outcome.map_err(|error| chain(&error))
    };
    assert_eq!(
        run(UnpackLimits { bytes: 9, members: 10 }),
        Err("member `b`: the layer holds more than 9 bytes".to_owned())
    );
    assert_eq!(
        run(UnpackLimits { bytes: 10, members: 1 }),
        Err("member `b`: the layer holds more than 1 members".to_owned())
    );
    let whole = Unpacked { members: 2, bytes: 10, has_end_marker: true };
    assert_eq!(run(UnpackLimits { bytes: 10, members: 2 }), Ok(whole));
}

#[test]
fn attributes_that_would_steer_the_mount_are_left_out() {
    if !is_root() {
        return;
    }
    let mut scene = Scene::new();
    let archive = Archive::default()
        .pax(&[
            ("SCHILY.xattr.trusted.overlay.redirect", b"/outside"),
            ("SCHILY.xattr.trusted.overlay.opaque", b"y"),
            ("SCHILY.xattr.user.overlay.opaque", b"y"),
            ("SCHILY.xattr.security.selinux", b"x"),
            ("SCHILY.xattr.user.mine", b"a\nb"),
        ])
        .directory("d");
    let layer = scene.unpack(archive).unwrap();
    let mut names = vec![0; 4096];
    let length = rustix::fs::llistxattr(layer.join("d"), &mut names).unwrap();
    names.truncate(length);
    assert_eq!(names, b"user.mine\0");
    let mut value = vec![0; 16];
    let length = rustix::fs::lgetxattr(layer.join("d"), "user.mine", &mut value).unwrap();
    assert_eq!(&value[..length], b"a\nb");
}

#[test]
fn owners_modes_times_capabilities_and_special_files_are_kept() {
    if !is_root() {
        return;
    }
    // VFS_CAP_REVISION_2 with CAP_NET_RAW, permitted and effective; it holds a newline's value nowhere but could.
    let capability = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut scene = Scene::new();
    let archive = Archive::default()
        .with(b'5', "./", b"", |header| header.set_mode(0o711))
        .with(b'5', "tmp", b"", |header| {
            header.set_mode(0o1777);
            header.set_mtime(12345);
        })
        .pax(&[("SCHILY.xattr.security.capability", &capability), ("uid", b"70000"), ("mtime", b"99.5")])
        .with(b'0', "tmp/ping", b"#!", |header| {
            header.set_mode(0o4755);
            header.set_gid(7);
        })
        .with(b'3', "null", b"", |header| {
            header.set_device_major(1).unwrap();
            header.set_device_minor(3).unwrap();
        })
        .with(b'4', "disk", b"", |header| header.set_device_major(8).unwrap())
        .with(b'6', "fifo", b"", |header| header.set_uid(3))
        .symlink("link", "no/such");
    let layer = scene.unpack(archive).unwrap();
    let expected = ["disk block 2048", "fifo fifo", "link -> no/such", "null char 259", "tmp/", "tmp/ping = #!"];
    assert_eq!(listing(&layer), expected);
    let ping = layer.join("tmp/ping").metadata().unwrap();
    assert_eq!(
        (ping.uid(), ping.gid(), ping.permissions().mode(), ping.mtime(), ping.mtime_nsec()),
        (70000, 7, 0o104755, 99, 500_000_000)
    );
    let mut value = [0; 32];
    let length = rustix::fs::lgetxattr(layer.join("tmp/ping"), "security.capability", &mut value).unwrap();
    assert_eq!(value[..length], capability);
    let tmp = layer.join("tmp").metadata().unwrap();
    assert_eq!((tmp.permissions().mode(), tmp.mtime()), (0o41777, 12345));
    assert_eq!(layer.metadata().unwrap().permissions().mode(), 0o40711);
    assert_eq!(layer.join("fifo").metadata().unwrap().uid(), 3);
}

#[test]
fn the_last_of_several_members_of_one_name_counts() {
    let archive = Archive::default()
        .file("a", "1")
        .file("a", "2")
        .directory("b")
        .file("b/c", "x")
        .file("b", "file")
        .symlink("c", "b")
        .directory("c")
        .directory("d")
        .file("d/kept", "x")
        .directory("d");
    let mut scene = Scene::new();
    let layer = scene.unpack(archive).unwrap();
    assert_eq!(listing(&layer), ["a = 2", "b = file", "c/", "d/", "d/kept = x"]);
}

#[test]
fn hard_links_share_a_file_and_replace_what_was_there() {
    let archive = Archive::default().file("a", "1").file("b", "2").hard_link("b", "./a").hard_link("a", "a");
    let mut scene = Scene::new();
    let layer = scene.unpack(archive).unwrap();
    assert_eq!(listing(&layer), ["a = 1", "b = 1"]);
    assert_eq!(layer.join("a").metadata().unwrap().ino(), layer.join("b").metadata().unwrap().ino());
}

#[test]
fn whiteouts_hide_what_lies_below_and_nothing_else() {
    if !is_root() {
        return;
    }
    let mut scene = Scene::new();
    let below = Archive::default()
        .file("gone", "1")
        .directory("opaque")
        .file("opaque/old", "1")
        .directory("emptied")
        .file("emptied/old", "1")
        .directory("anew")
        .file("anew/old", "1")
        .file("kept", "1");
    scene.unpack(below).unwrap();
    let above = Archive::default()
        .file(".wh.gone", "")
        .file("opaque/.wh..wh..opq", "")
        .file("opaque/new", "2")
        .file("emptied/.wh.old", "")
        .file(".wh.anew", "")
        .file("anew/new", "2")
        .file("both", "2")
        .file(".wh.both", "")
        .file(".wh..wh.plnk", "")
        .file(".wh.none", "");
    let layer = scene.unpack(above).unwrap();
    let expected = [
        "anew/ opaque",
        "anew/new = 2",
        "both = 2",
        "emptied/",
        "emptied/old whiteout",
        "gone whiteout",
        "none whiteout",
        "opaque/ opaque",
        "opaque/new = 2",
    ];
    assert_eq!(listing(&layer), expected);
    if let Some(merged) = scene.merged() {
        let expected = ["anew/", "anew/new = 2", "both = 2", "emptied/", "kept = 1", "opaque/", "opaque/new = 2"];
        assert_eq!(listing(&merged.0), expected);
    }
}

#[test]
fn whiteouts_of_the_lowest_layer_hide_nothing_and_leave_nothing() {
    let archive = Archive::default().file(".wh.a", "").file("b/.wh..wh..opq", "").file("c", "");
    let mut scene = Scene::new();
    assert_eq!(listing(&scene.unpack(archive).unwrap()), ["c = "]);
}

#[test]
fn an_unlisted_parent_keeps_the_attributes_it_has_below() {
    if !is_root() {
        return;
    }
    let mut scene = Scene::new();
    let below = Archive::default().with(b'5', "tmp", b"", |header| {
        header.set_mode(0o1777);
        header.set_uid(5);
    });
    scene.unpack(below).unwrap();
    let layer = scene.unpack(Archive::default().file("tmp/a/b", "x")).unwrap();
    let tmp = layer.join("tmp").metadata().unwrap();
    assert_eq!((tmp.permissions().mode(), tmp.uid()), (0o41777, 5));
    let inner = layer.join("tmp/a").metadata().unwrap();
    assert_eq!((inner.permissions().mode(), inner.uid()), (0o40755, 0));
}

#[test]
fn a_hard_link_to_a_file_of_a_layer_below_copies_it() {
    let mut scene = Scene::new();
    scene.unpack(Archive::default().with(b'0', "a", b"1", |header| header.set_mode(0o640)).file("b", "2")).unwrap();
    scene.unpack(Archive::default().file(".wh.b", "")).unwrap();
    let layer = scene.unpack(Archive::default().hard_link("c", "a")).unwrap();
    assert_eq!(listing(&layer), ["c = 1"]);
    assert_eq!(layer.join("c").metadata().unwrap().permissions().mode(), 0o100640);
    let error = scene.unpack(Archive::default().hard_link("d", "b")).unwrap_err();
    assert_eq!(error, "member `d` is a hard link to `b`, which is no file of the image");
}

#[test]
fn files_with_holes_are_read_in_every_form_that_tar_writes() {
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("sparse");
    let file = std::fs::File::create(&source).unwrap();
    // More parts than fit the header of the old form.
    for part in 0..40u64 {
        std::os::unix::fs::FileExt::write_all_at(&file, b"data", part << 20).unwrap();
    }
    file.set_len(50 << 20).unwrap();
    drop(file);
    for form in [&["--format=gnu"][..], &["--format=posix"], &["--format=posix", "--sparse-version=0.1"]] {
        let tar = std::process::Command::new("tar")
            .args(["-cS"])
            .args(form)
            .args(["-C"])
            .arg(scratch.path())
            .arg("sparse")
            .output();
        let Ok(tar) = tar else {
            println!("skipped: no tar program");
            return;
        };
        assert!(tar.status.success());
        let mut scene = Scene::new();
        let unpacked = scene.unpack_bytes(&tar.stdout).unwrap().join("sparse");
        assert!(std::fs::read(&unpacked).unwrap() == std::fs::read(&source).unwrap(), "{form:?}");
        assert!(unpacked.metadata().unwrap().blocks() < 10_000, "{form:?} has lost its holes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever the bytes: no panic, and nothing outside is touched.
    #[test]
    fn damaged_archives_are_errors_or_layers(damage in proptest::collection::vec((0usize..4096, any::<u8>()), 0..12), cut in 0usize..5000) {
        let mut archive = Archive::default()
            .directory("a")
            .pax(&[("path", b"a/long"), ("SCHILY.xattr.user.x", b"1")])
            .file("x", "data")
            .symlink("s", "../../outside")
            .hard_link("h", "a/long")
            .file("a/.wh.x", "")
            .end();
        for (at, value) in damage {
            let length = archive.len();
            archive[at % length] = value;
        }
        archive.truncate(cut);
        // The checksums are made right again, or hardly any damage would get past them.
        for block in archive.chunks_exact_mut(512) {
            let mut header = tar::Header::new_old();
            header.as_mut_bytes().copy_from_slice(block);
            if block[257..262] == *b"ustar" {
                header.set_cksum();
                block.copy_from_slice(header.as_bytes());
            }
        }
        let mut scene = Scene::new();
        let _ = scene.unpack_bytes(&archive);
    }
}
