//! What can be loaded, and what the store then knows of it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Mutex;

use node::images::{Digest, ImageConfig, Progress, Silent};
use serde_json::json;

use crate::image_builder::{Compression, ImageBuilder, gzip, layout_members, put, tar_of, write_tar};
use crate::scene::{Scene, names};

fn app() -> ImageBuilder {
    ImageBuilder::new("app:1").file("etc/name", 0o644, "base").layer().file("app", 0o755, "program")
}

#[test]
fn a_docker_archive_gives_an_image_with_all_that_its_configuration_says() {
    let scene = Scene::new();
    let builder = app().named("registry.example.com:5000/team/app:1").config(json!({
        "Entrypoint": ["/app"], "Cmd": ["serve"], "Env": ["A=1", "B="], "WorkingDir": "/srv", "User": "1000:1000",
        "StopSignal": "SIGINT", "Labels": {"a": "b"}, "ExposedPorts": {"80/tcp": {}}, "Volumes": {"/data": {}},
    }));
    let file = builder.write_docker_archive(&scene.path("app.tar")).unwrap();
    let image = scene.load_one(&file);
    let blobs = builder.blobs().unwrap();
    assert_eq!(image.id.as_str(), blobs.config_digest);
    assert_eq!(image.tags, ["docker.io/library/app:1", "registry.example.com:5000/team/app:1"]);
    assert_eq!((image.name(), image.image_id()), ("docker.io/library/app:1", blobs.config_digest.as_str()));
    assert_eq!(image.created.as_deref(), Some("1970-01-01T00:00:00Z"));
    let config = ImageConfig {
        entrypoint: vec!["/app".to_owned()],
        command: vec!["serve".to_owned()],
        environment: vec!["A=1".to_owned(), "B=".to_owned()],
        working_directory: "/srv".to_owned(),
        user: "1000:1000".to_owned(),
        stop_signal: "SIGINT".to_owned(),
        labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        exposed_ports: vec!["80/tcp".to_owned()],
        volumes: vec!["/data".to_owned()],
    };
    assert_eq!(image.config, config);
    assert_eq!(scene.store.layer_directories(&image).len(), 2);
    assert_eq!(scene.read(&image, "etc/name"), "base");
    assert_eq!(scene.read(&image, "app"), "program");
    let member_bytes: u64 = builder.docker_members().unwrap().iter().map(|(_, content)| content.len() as u64).sum();
    let list_bytes = builder.docker_members().unwrap().last().unwrap().1.len() as u64;
    assert_eq!(image.size_bytes, member_bytes - list_bytes);
    assert_eq!(scene.store.list().unwrap(), std::slice::from_ref(&image));
    assert_eq!(scene.reopen().find("app:1").unwrap(), Some(image));
}

#[test]
fn an_oci_archive_and_a_layout_directory_give_the_same_image() {
    let scene = Scene::new();
    let archive = scene.load_one(&app().write_oci_archive(&scene.path("app.tar")).unwrap());
    let layout = Scene::new();
    let directory = layout.load_one(&app().write_oci_layout(&layout.path("layout")).unwrap());
    assert_eq!(archive, directory);
    assert_eq!(scene.read(&archive, "app"), "program");
    let blobs = app().blobs().unwrap();
    assert_eq!(archive.size_bytes, blobs.blobs.values().map(|blob| blob.len() as u64).sum::<u64>());
    assert_eq!(archive.manifest, Some(Digest::parse(blobs.manifest["digest"].as_str().unwrap()).unwrap()));
}

#[test]
fn layers_and_archives_may_be_compressed_with_gzip_and_zstd() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let builder = app().compressed(compression);
        let docker = tar_of(&builder.docker_members().unwrap()).unwrap();
        let oci = tar_of(&builder.oci_members().unwrap()).unwrap();
        for plain in [docker, oci] {
            let outer = [plain.clone(), gzip(&plain).unwrap(), zstd::stream::encode_all(plain.as_slice(), 1).unwrap()];
            for archive in outer {
                let scene = Scene::new();
                fs::write(scene.path("image"), archive).unwrap();
                let image = scene.load_one(&scene.path("image"));
                assert_eq!(scene.read(&image, "app"), "program");
                assert_eq!(names(&scene.root().join("staging")), [""; 0]);
            }
        }
    }
}

#[test]
fn several_images_of_one_archive_are_loaded_together() {
    let scene = Scene::new();
    let one = app();
    let two = ImageBuilder::new("two:1").file("two", 0o644, "2");
    let mut members = one.docker_members().unwrap();
    let mut list: serde_json::Value = serde_json::from_slice(&members.pop().unwrap().1).unwrap();
    let mut more = two.docker_members().unwrap();
    let more_list: serde_json::Value = serde_json::from_slice(&more.pop().unwrap().1).unwrap();
    list.as_array_mut().unwrap().push(more_list[0].clone());
    members.extend(more);
    members.push(("./manifest.json".to_owned(), list.to_string().into_bytes()));
    let images = scene.load(&write_tar(&scene.path("both.tar"), &members).unwrap()).unwrap();
    let found: Vec<&str> = images.iter().map(|image| image.name()).collect();
    assert_eq!(found, ["docker.io/library/app:1", "docker.io/library/two:1"]);
    assert_eq!(scene.names(), ["docker.io/library/app:1", "docker.io/library/two:1"]);
}

#[test]
fn a_layer_that_an_old_docker_wrote_as_a_link_is_found() {
    let scene = Scene::new();
    let layer = ImageBuilder::new("x").file("a", 0o644, "1").blobs().unwrap();
    let diff_id = &layer.diff_ids[0];
    let tar = layer.blobs.get(diff_id).unwrap().clone();
    let config = json!({"architecture": crate::load::architecture(), "os": "linux",
                        "rootfs": {"type": "layers", "diff_ids": [diff_id, diff_id]}});
    let list = json!([{"Config": "c.json", "RepoTags": ["old:1"], "Layers": ["one/layer.tar", "two/layer.tar"]}]);
    let mut builder = tar::Builder::new(Vec::new());
    let mut add = |name: &str, content: &[u8]| {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, name, content).unwrap();
    };
    add("c.json", config.to_string().as_bytes());
    add("one/layer.tar", &tar);
    add("manifest.json", list.to_string().as_bytes());
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    builder.append_link(&mut header, "two/layer.tar", "../one/layer.tar").unwrap();
    fs::write(scene.path("old.tar"), builder.into_inner().unwrap()).unwrap();
    let image = scene.load_one(&scene.path("old.tar"));
    assert_eq!((image.layers.len(), scene.layers()), (2, 2));
}

pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[test]
fn of_an_index_the_image_for_this_machine_is_taken_even_if_only_that_one_is_there() {
    let foreign = ImageBuilder::new("x").platform("linux", "s390x").file("which", 0o644, "foreign").blobs().unwrap();
    let own = ImageBuilder::new("x").file("which", 0o644, "own").blobs().unwrap();
    let attestation = json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "size": 3,
        "digest": crate::image_builder::digest(b"{} "), "platform": {"os": "unknown", "architecture": "unknown"}});
    let index = json!({"schemaVersion": 2, "manifests": [foreign.manifest, own.manifest, attestation]});
    for with_foreign in [true, false] {
        let mut blobs = own.blobs.clone();
        if with_foreign {
            blobs.extend(foreign.blobs.clone());
        }
        let mut entry = put(&mut blobs, "application/vnd.oci.image.index.v1+json", index.to_string().into_bytes());
        entry["annotations"] = json!({"org.opencontainers.image.ref.name": "multi:1"});
        let scene = Scene::new();
        let file = write_tar(&scene.path("multi.tar"), &layout_members(blobs, &[entry])).unwrap();
        let image = scene.load_one(&file);
        assert_eq!(scene.read(&image, "which"), "own");
        assert_eq!(image.tags, ["docker.io/library/multi:1"]);
    }
}

#[test]
fn a_tag_names_an_image_that_has_no_name_or_another_one() {
    for builder in [app(), app().unnamed()] {
        let scene = Scene::new();
        for file in [
            builder.write_docker_archive(&scene.path("docker.tar")).unwrap(),
            builder.write_oci_archive(&scene.path("oci.tar")).unwrap(),
        ] {
            let images = scene.store.load(&file, Some("mine"), &Silent).unwrap();
            assert_eq!(images[0].tags, ["docker.io/library/mine:latest"]);
        }
    }
}

#[test]
fn a_root_file_system_becomes_an_image_of_one_layer() {
    let builder = ImageBuilder::new("x").directory("bin", 0o755).file("bin/tool", 0o755, "x").link("tool", "bin/tool");
    let scene = Scene::new();
    let file = builder.write_rootfs(&scene.path("rootfs.tar")).unwrap();
    let image = scene.store.load(&file, Some("tool:1"), &Silent).unwrap().remove(0);
    assert_eq!(image.config, ImageConfig::default());
    assert_eq!(image.platform.architecture, architecture());
    assert_eq!(scene.read(&image, "bin/tool"), "x");
    let config_bytes = fs::metadata(scene.root().join("blobs/sha256").join(image.id.hex())).unwrap().size();
    assert_eq!(image.size_bytes, fs::metadata(&file).unwrap().size() + config_bytes);

    fs::write(scene.path("rootfs.tar.gz"), gzip(&fs::read(&file).unwrap()).unwrap()).unwrap();
    let again = scene.store.load(&scene.path("rootfs.tar.gz"), Some("tool:1"), &Silent).unwrap();
    assert_eq!(again, [image]);
}

#[test]
fn an_image_without_layers_has_an_empty_directory() {
    let scene = Scene::new();
    let config = json!({"architecture": architecture(), "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}});
    let list = json!([{"Config": "c", "RepoTags": ["scratch:1"], "Layers": null}]);
    let members = [
        ("c".to_owned(), config.to_string().into_bytes()),
        ("manifest.json".to_owned(), list.to_string().into_bytes()),
    ];
    let image = scene.load_one(&write_tar(&scene.path("scratch.tar"), &members).unwrap());
    let directories = scene.store.layer_directories(&image);
    assert_eq!(directories.len(), 1);
    assert_eq!(names(&directories[0]), [""; 0]);
}

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Progress for Heard {
    fn begin(&self, item: &str, total_bytes: Option<u64>) {
        self.0.lock().unwrap().push(format!("begin {item} {total_bytes:?}"));
    }

    fn advance(&self, _: &str, _: u64) {}

    fn end(&self, item: &str) {
        self.0.lock().unwrap().push(format!("end {item}"));
    }
}

#[test]
fn progress_tells_of_each_layer_and_not_of_those_that_are_there() {
    let scene = Scene::new();
    let file = app().write_docker_archive(&scene.path("app.tar")).unwrap();
    let heard = Heard::default();
    scene.store.load(&file, None, &heard).unwrap();
    let blobs = app().blobs().unwrap();
    let expected: Vec<String> = blobs
        .diff_ids
        .iter()
        .flat_map(|diff_id| {
            let (name, size) = (&diff_id[7..19], blobs.blobs[diff_id].len());
            [format!("begin {name} Some({size})"), format!("end {name}")]
        })
        .collect();
    assert_eq!(*heard.0.lock().unwrap(), expected);
    let heard = Heard::default();
    scene.store.load(&file, None, &heard).unwrap();
    assert_eq!(*heard.0.lock().unwrap(), [""; 0]);
}

#[test]
fn busybox_of_this_machine_makes_an_image() {
    let Ok(builder) = ImageBuilder::new("busybox:1.36").busybox() else {
        println!("skipped: no busybox here");
        return;
    };
    let scene = Scene::new();
    let image = scene.load_one(&builder.write_docker_archive(&scene.path("busybox.tar")).unwrap());
    let directory = &scene.store.layer_directories(&image)[0];
    let run = std::process::Command::new(directory.join("bin/busybox")).args(["echo", "hello"]).output().unwrap();
    assert_eq!(run.stdout, b"hello\n");
    assert_eq!(fs::read_link(directory.join("bin/sh")).unwrap().to_str(), Some("busybox"));
}
