//! Attacks and ordinary layers, unpacked for real.

mod scene;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use proptest::prelude::*;

use super::*;
use scene::{Archive, Scene, chain, is_root, listing};

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
