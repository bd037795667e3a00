//! What is damaged, hostile or foreign: one clear error, and nothing left behind.

use std::fs;
use std::path::Path;

use node::images::Silent;
use serde_json::{Value, json};

use crate::image_builder::{Compression, ImageBuilder, digest, gzip, layout_members, put, tar_of, write_tar};
use crate::scene::{Scene, explained};

fn app() -> ImageBuilder {
    ImageBuilder::new("app:1").file("etc/name", 0o644, "base").layer().file("app", 0o755, "program")
}

/// Loads a file that must be refused; gives the causes and the hint.
fn refuse(scene: &Scene, file: &Path) -> (String, String) {
    let error = scene.load(file).unwrap_err();
    assert_eq!(error.to_string(), format!("failed to load image archive `{}`", file.display()));
    scene.assert_empty();
    explained(&error)
}

fn check(members: &[(String, Vec<u8>)], expected: &str) {
    let scene = Scene::new();
    let file = write_tar(&scene.path("image.tar"), members).unwrap();
    let (text, hint) = refuse(&scene, &file);
    assert_eq!(text, expected);
    assert!(!hint.is_empty());
}

/// Changes one member.
fn with(members: Vec<(String, Vec<u8>)>, name: &str, change: impl Fn(&mut Vec<u8>)) -> Vec<(String, Vec<u8>)> {
    let mut members = members;
    let member = members.iter_mut().find(|(found, _)| found == name).unwrap();
    change(&mut member.1);
    members
}

fn without(members: Vec<(String, Vec<u8>)>, name: &str) -> Vec<(String, Vec<u8>)> {
    let kept: Vec<_> = members.iter().filter(|(found, _)| found != name).cloned().collect();
    assert!(kept.len() < members.len());
    kept
}

#[test]
fn an_archive_that_was_cut_off_is_refused_wherever_it_was_cut() {
    for members in [app().docker_members().unwrap(), app().oci_members().unwrap()] {
        let whole = tar_of(&members).unwrap();
        for archive in [whole.clone(), gzip(&whole).unwrap()] {
            let scene = Scene::new();
            let file = scene.path("image.tar");
            let step = (archive.len() / 40).max(1);
            // The last kilobyte is the end marker, without which nothing is lacking.
            for length in (0..archive.len().saturating_sub(1025)).step_by(step) {
                fs::write(&file, &archive[..length]).unwrap();
                let (text, hint) = refuse(&scene, &file);
                assert!(!text.is_empty() && !hint.is_empty(), "cut at {length}: {text}");
            }
        }
    }
}

#[test]
fn what_is_no_image_is_refused_with_what_would_be_one() {
    let scene = Scene::new();
    let file = |name: &str, content: &[u8]| {
        let path = scene.path(name);
        fs::write(&path, content).unwrap();
        path
    };
    let kinds =
        "give a file of `docker save`, an OCI archive or layout, or a tar file of a root file system with --tag NAME";
    let not_tar = ("it is no tar archive".to_owned(), kinds.to_owned());
    assert_eq!(refuse(&scene, &file("empty", b"")), not_tar);
    assert_eq!(refuse(&scene, &file("text.yaml", b"kind: Pod\n")), not_tar);
    assert_eq!(refuse(&scene, &file("long", &b"text ".repeat(1000))), not_tar);
    assert_eq!(refuse(&scene, &file("empty.gz", &gzip(b"").unwrap())), not_tar);
    let layout = "it is a directory without `oci-layout`, so it is no OCI layout";
    assert_eq!(refuse(&scene, scene.scratch.path()), (layout.to_owned(), kinds.to_owned()));
    let missing = "cannot read it: No such file or directory (os error 2)";
    assert_eq!(refuse(&scene, &scene.path("none")), (missing.to_owned(), "check the path".to_owned()));
    let xz = "cannot read it: it is compressed with xz; gzip and zstd can be read";
    let plain = "compress it with gzip or zstd, or not at all";
    assert_eq!(refuse(&scene, &file("a.tar.xz", b"\xfd7zXZ\0...")), (xz.to_owned(), plain.to_owned()));
    let rootfs = app().write_rootfs(&scene.path("rootfs.tar")).unwrap();
    let no_image = "it holds neither `manifest.json` nor `oci-layout`, so it is no image";
    let name_it = "to make an image of a root file system, name it with --tag NAME";
    assert_eq!(refuse(&scene, &rootfs), (no_image.to_owned(), name_it.to_owned()));
}

#[test]
fn a_root_file_system_that_was_cut_off_between_two_files_is_refused() {
    let scene = Scene::new();
    let file = ImageBuilder::new("x").file("a", 0o644, "1").write_rootfs(&scene.path("rootfs.tar")).unwrap();
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..1024]).unwrap();
    let error = scene.store.load(&file, Some("x:1"), &Silent).unwrap_err();
    assert_eq!(explained(&error).0, "the archive ends without its end marker: it is empty or was cut off");
    fs::write(&file, [0; 1024]).unwrap();
    scene.store.load(&file, Some("x:1"), &Silent).unwrap_err();
    scene.assert_empty();
}

#[test]
fn names_that_lack_or_cannot_be_are_refused() {
    let scene = Scene::new();
    let unnamed = app().unnamed().write_docker_archive(&scene.path("image.tar")).unwrap();
    let (text, hint) = refuse(&scene, &unnamed);
    assert_eq!((text.as_str(), hint.as_str()), ("the archive gives its image no name", "name it with --tag NAME"));
    for (tag, expected) in [
        ("Up:1", "`Up:1` is no image name: invalid reference format: repository name (library/Up) must be lowercase"),
        ("a b", "`a b` is no image name: invalid reference format"),
    ] {
        let error = scene.store.load(&unnamed, Some(tag), &Silent).unwrap_err();
        assert_eq!(explained(&error).0, expected);
    }
    scene.assert_empty();
    let one = app().blobs().unwrap();
    let two = ImageBuilder::new("b").file("b", 0o644, "").blobs().unwrap();
    let named = |blobs: &crate::image_builder::Blobs, name: &str| {
        let mut entry = blobs.manifest.clone();
        entry["annotations"] = json!({"io.containerd.image.name": name});
        entry
    };
    let entries = [named(&one, "docker.io/library/a:1"), named(&two, "docker.io/library/b:1")];
    let members = layout_members(one.blobs.into_iter().chain(two.blobs).collect(), &entries);
    let both = write_tar(&scene.path("both.tar"), &members).unwrap();
    let error = scene.store.load(&both, Some("c:1"), &Silent).unwrap_err();
    let expected = "the archive holds several images (docker.io/library/a:1, docker.io/library/b:1), which cannot all be named `docker.io/library/c:1`";
    assert_eq!(explained(&error), (expected.to_owned(), "load it without --tag".to_owned()));
    scene.assert_empty();
}

#[test]
fn missing_members_are_named() {
    let blobs = app().blobs().unwrap();
    let hex = |digest: &str| digest.trim_start_matches("sha256:").to_owned();
    let (config, layer) = (hex(&blobs.config_digest), hex(&blobs.diff_ids[1]));
    let docker = app().docker_members().unwrap();
    for name in [&config, &layer] {
        let member = format!("{name}.blob");
        check(&without(docker.clone(), &member), &format!("member `{member}` is missing"));
    }
    let oci = app().oci_members().unwrap();
    let manifest = hex(blobs.manifest["digest"].as_str().unwrap());
    for name in [&config, &layer, &manifest] {
        let member = format!("blobs/sha256/{name}");
        check(&without(oci.clone(), &member), &format!("member `{member}` is missing"));
    }
}

#[test]
fn content_that_differs_from_its_digest_is_refused() {
    let blobs = app().compressed(Compression::Gzip).blobs().unwrap();
    let hex = |digest: &str| digest.trim_start_matches("sha256:").to_owned();
    let oci = app().compressed(Compression::Gzip).oci_members().unwrap();
    let config = format!("blobs/sha256/{}", hex(&blobs.config_digest));
    let changed = |content: &mut Vec<u8>| content.push(b' ');
    let found = digest(&[blobs.blobs[&blobs.config_digest].clone(), vec![b' ']].concat());
    check(
        &with(oci.clone(), &config, changed),
        &format!("member `{config}` has digest {found}, but the image says {}", blobs.config_digest),
    );
    // One that is as long as it should be, and whose plain content is right: gzip's header has a byte for the system.
    let manifest: Value = serde_json::from_slice(&blobs.blob(&blobs.manifest).unwrap()).unwrap();
    let layer_digest = manifest["layers"][1]["digest"].as_str().unwrap();
    let layer = format!("blobs/sha256/{}", hex(layer_digest));
    let mut other = blobs.blobs[layer_digest].clone();
    other[9] ^= 1;
    check(
        &with(oci.clone(), &layer, |content| content[9] ^= 1),
        &format!("layer `{layer}` has digest {}, but the image says {layer_digest}", digest(&other)),
    );
    let longer = format!(
        "member `blobs/sha256/{}` cannot be used: it says that `{layer}` has {} bytes",
        hex(blobs.manifest["digest"].as_str().unwrap()),
        other.len()
    );
    check(&with(oci, &layer, changed), &longer);

    let docker = app().docker_members().unwrap();
    let plain = app().blobs().unwrap();
    let layer = format!("{}.blob", hex(&plain.diff_ids[0]));
    let mut other = plain.blobs[&plain.diff_ids[0]].clone();
    other[512] = b'B';
    check(
        &with(docker, &layer, |content| content[512] = b'B'),
        &format!("layer `{layer}` has diff id {}, but the image says {}", digest(&other), plain.diff_ids[0]),
    );
}

#[test]
fn an_image_of_another_machine_is_refused_with_both_names() {
    let host = format!("linux/{}", crate::load::architecture());
    let builder = app().platform("linux", "s390x");
    let config = builder.blobs().unwrap().config_digest.replace("sha256:", "");
    let foreign = format!("the image is for linux/s390x, but this machine is {host}");
    check(&builder.docker_members().unwrap(), &format!("member `{config}.blob` cannot be used: {foreign}"));
    check(&builder.oci_members().unwrap(), &format!("member `index.json` cannot be used: {foreign}"));
    let scene = Scene::new();
    let file = builder.write_docker_archive(&scene.path("image.tar")).unwrap();
    let (_, hint) = refuse(&scene, &file);
    assert_eq!(hint, format!("build or save the image for {host}, for example with `--platform {host}`"));
    // An index that names others, but does not hold them.
    let mut blobs = std::collections::BTreeMap::new();
    let index = json!({"manifests": [builder.blobs().unwrap().manifest]}).to_string().into_bytes();
    let mut entry = put(&mut blobs, "application/vnd.oci.image.index.v1+json", index.clone());
    entry["annotations"] = json!({"io.containerd.image.name": "a:1"});
    let member = format!("blobs/sha256/{}", digest(&index).replace("sha256:", ""));
    check(&layout_members(blobs, &[entry]), &format!("member `{member}` cannot be used: {foreign}"));
}

#[test]
fn broken_and_contradicting_documents_are_refused() {
    let docker = app().docker_members().unwrap();
    let json = "member `manifest.json` cannot be used: it is malformed: EOF while parsing a list at line 1 column 1";
    check(&with(docker.clone(), "manifest.json", |content| *content = b"[".to_vec()), json);
    let huge = |content: &mut Vec<u8>| content.resize(5 << 20, b' ');
    check(&with(docker.clone(), "manifest.json", huge), "member `manifest.json` has more than 4194304 bytes");
    check(
        &with(docker.clone(), "manifest.json", |content| *content = b"[]".to_vec()),
        "the archive gives its image no name",
    );
    let config = app().blobs().unwrap().config_digest.replace("sha256:", "");
    let fewer = |content: &mut Vec<u8>| {
        let mut list: Value = serde_json::from_slice(content).unwrap();
        list[0]["Layers"].as_array_mut().unwrap().pop();
        *content = list.to_string().into_bytes();
    };
    check(
        &with(docker, "manifest.json", fewer),
        &format!("member `{config}.blob` cannot be used: it lists 2 layers, the image's manifest 1"),
    );
    // An index cannot hold its own digest, but a long chain can be made.
    let mut blobs = std::collections::BTreeMap::new();
    let mut entry = app().blobs().unwrap().manifest;
    for _ in 0..8 {
        entry.as_object_mut().unwrap().remove("platform");
        entry = put(&mut blobs, "", json!({"manifests": [entry]}).to_string().into_bytes());
    }
    entry["annotations"] = json!({"io.containerd.image.name": "a:1"});
    check(&layout_members(blobs, &[entry]), "its indexes are nested too deep");
}

#[test]
fn a_hostile_layer_leaves_nothing_behind() {
    let mut header = tar::Header::new_ustar();
    header.as_old_mut().name[..16].copy_from_slice(b"../../../evil.sh");
    header.set_size(0);
    header.set_cksum();
    let good = ImageBuilder::new("x").file("a", 0o644, "1").blobs().unwrap();
    let good = good.blobs[&good.diff_ids[0]].clone();
    let evil = [header.as_bytes().as_slice(), &[0; 1024]].concat();
    let config = json!({"architecture": crate::load::architecture(), "os": "linux",
                        "rootfs": {"type": "layers", "diff_ids": [digest(&good), digest(&evil)]}});
    let list = json!([{"Config": "c", "RepoTags": ["evil:1"], "Layers": ["good", "evil"]}]);
    let members = [
        ("c".to_owned(), config.to_string().into_bytes()),
        ("good".to_owned(), good),
        ("evil".to_owned(), evil),
        ("manifest.json".to_owned(), list.to_string().into_bytes()),
    ];
    check(&members, "failed to unpack layer `evil`: member `../../../evil.sh` would lie outside of its layer");
}

#[test]
fn a_full_disk_is_one_error_and_can_be_used_again_afterwards() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can mount a small file system");
        return;
    }
    struct Mounted<'a>(&'a Path);
    impl Drop for Mounted<'_> {
        fn drop(&mut self) {
            rustix::mount::unmount(self.0, rustix::mount::UnmountFlags::DETACH).unwrap();
        }
    }
    let scratch = tempfile::tempdir().unwrap();
    let disk = scratch.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", &disk, "tmpfs", flags, c"size=1m").unwrap();
    let mounted = Mounted(&disk);
    let store = node::images::ImageStore::open(&disk.join("images")).unwrap();
    let noise: Vec<u8> = (0..3u32 << 20).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let large = ImageBuilder::new("large:1").file("small", 0o644, "x").file("noise", 0o644, noise);
    let plain = large.write_docker_archive(&scratch.path().join("large.tar")).unwrap();
    let packed = scratch.path().join("large.tar.gz");
    fs::write(&packed, gzip(&fs::read(&plain).unwrap()).unwrap()).unwrap();
    let layer = large.blobs().unwrap().diff_ids[0].replace("sha256:", "");
    let hint = |place: &str| {
        let place = disk.join("images").join(place);
        let place = place.display().to_string();
        format!(
            "free some space on the file system of `{}`, or choose another one with --data-dir",
            place.trim_end_matches('/')
        )
    };
    let error = store.load(&plain, None, &Silent).unwrap_err();
    let text = format!(
        "failed to unpack layer `{layer}.blob`: member `noise`: cannot write it: No space left on device (os error 28)"
    );
    assert_eq!(explained(&error), (text, hint("")));
    let error = store.load(&packed, None, &Silent).unwrap_err();
    let staging = disk.join("images/staging").display().to_string();
    let text = format!("cannot unfold the compressed archive below `{staging}`: No space left on device (os error 28)");
    assert_eq!(explained(&error), (text, hint("staging")));
    let small = app().write_docker_archive(&scratch.path().join("small.tar")).unwrap();
    assert_eq!(store.load(&small, None, &Silent).unwrap().len(), 1);
    drop(mounted);
}
