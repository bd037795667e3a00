//! Sharing, holding, removing, crashing, and two processes at once.

use std::fs;
use std::sync::Barrier;

use node::images::{Digest, FindError, Image, ImageStore, RemoveError, Removed, Silent};

use crate::image_builder::ImageBuilder;
use crate::scene::{Scene, names};

/// An image of a shared lower layer and one of its own.
fn sharing(name: &str) -> ImageBuilder {
    ImageBuilder::new(name).file("base", 0o644, "base").layer().file("own", 0o644, name)
}

impl Scene {
    fn add(&self, builder: &ImageBuilder) -> Image {
        self.load_one(&builder.write_docker_archive(&self.path("image.tar")).unwrap())
    }
}

#[test]
fn a_layer_that_two_images_share_is_there_once_and_stays_for_the_other() {
    let scene = Scene::new();
    let (a, b) = (scene.add(&sharing("a:1")), scene.add(&sharing("b:1")));
    assert_eq!(a.layers[0], b.layers[0]);
    assert_eq!(scene.layers(), 3);
    let removed = scene.store.remove("a:1", false).unwrap();
    assert_eq!(removed, Removed { names: vec!["docker.io/library/a:1".to_owned()], image: Some(a.id) });
    assert_eq!(scene.layers(), 2);
    assert_eq!(scene.read(&b, "base"), "base");
    scene.store.remove("b:1", false).unwrap();
    scene.assert_empty();
}

#[test]
fn an_image_goes_with_its_last_name_or_by_its_id() {
    let scene = Scene::new();
    let image = scene.add(&sharing("a:1").named("a:2"));
    let name = "docker.io/library/a:1".to_owned();
    assert_eq!(scene.store.remove("a:1", false).unwrap(), Removed { names: vec![name], image: None });
    assert_eq!(scene.names(), ["docker.io/library/a:2"]);
    let other = scene.add(&ImageBuilder::new("b:1").file("b", 0o644, ""));
    let removed = scene.store.remove(&image.id.hex()[..12], false).unwrap();
    assert_eq!(removed.image, Some(image.id));
    let removed = scene.store.remove(other.id.as_str(), false).unwrap();
    assert_eq!(removed.names, ["docker.io/library/b:1"]);
    scene.assert_empty();
}

#[test]
fn what_cannot_be_removed_is_told_with_a_hint() {
    let scene = Scene::new();
    for number in 0..17 {
        scene.add(&ImageBuilder::new(&format!("i:{number}")).file("n", 0o644, number.to_string()));
    }
    let refuse = |name: &str| scene.store.remove(name, false).unwrap_err();
    assert_eq!(refuse("none:1").to_string(), "no image is named `none:1`");
    assert_eq!(refuse("NONE").to_string(), "`NONE` is no image name");
    assert_eq!(refuse("ffffffffffff").to_string(), "no image is named `ffffffffffff`");
    // Of seventeen ids two begin with the same digit.
    let ids: Vec<String> = scene.store.list().unwrap().iter().map(|image| image.id.hex()[..1].to_owned()).collect();
    let twice = ids.iter().find(|digit| ids.iter().filter(|other| other == digit).count() > 1).unwrap();
    assert!(matches!(refuse(twice), RemoveError::Ambiguous { .. }));
    assert_eq!(scene.store.list().unwrap().len(), 17);
    assert!(refuse("none:1").hint().contains("monopod image list"));
}

#[test]
fn an_image_that_is_used_goes_only_by_force_and_its_layers_stay_until_it_is_released() {
    let scene = Scene::new();
    let image = scene.add(&sharing("a:1"));
    scene.store.hold(&image.id, "container 1").unwrap();
    scene.store.hold(&image.id, "container 1").unwrap();
    scene.store.hold(&image.id, "container 2").unwrap();
    let error = scene.store.remove("a:1", false).unwrap_err();
    assert_eq!(error.to_string(), "image `docker.io/library/a:1` is used by container 1, container 2");
    scene.store.remove("a:1", true).unwrap();
    assert_eq!(scene.store.list().unwrap(), []);
    let another_process = scene.reopen();
    assert_eq!(scene.read(&image, "base"), "base");
    let held: Vec<String> = another_process.holders().unwrap().into_keys().collect();
    assert_eq!(held, ["container 1", "container 2"]);
    another_process.release("container 1").unwrap();
    another_process.release("container 1").unwrap();
    assert_eq!(scene.layers(), 2);
    scene.store.release("container 2").unwrap();
    scene.assert_empty();
    let error = scene.store.hold(&image.id, "container 3").unwrap_err();
    assert_eq!(error.to_string(), format!("image `{}` is not in the store", image.id));
}

#[test]
fn an_image_that_lost_its_name_to_a_newer_one_goes_when_nobody_uses_it() {
    let scene = Scene::new();
    let old = scene.add(&ImageBuilder::new("app:1").file("v", 0o644, "1"));
    let new = scene.add(&ImageBuilder::new("app:1").file("v", 0o644, "2"));
    assert_eq!((scene.store.list().unwrap(), scene.layers()), (vec![new.clone()], 1));
    scene.store.hold(&new.id, "container").unwrap();
    let newest = scene.add(&ImageBuilder::new("app:1").file("v", 0o644, "3"));
    assert_eq!(scene.layers(), 2);
    assert_eq!(scene.store.find(new.id.as_str()).unwrap().map(|image| image.tags), Some(vec![]));
    scene.store.release("container").unwrap();
    assert_eq!((scene.store.list().unwrap(), scene.layers()), (vec![newest], 1));
    assert_ne!(old.id, new.id);
}

#[test]
fn images_are_found_as_pods_name_them() {
    let scene = Scene::new();
    let image = scene.add(&sharing("registry.example.com/a").named("b:1"));
    let id = image.id.to_string();
    for name in ["registry.example.com/a", "registry.example.com/a:latest", "b:1", "docker.io/b:1", id.as_str()] {
        assert_eq!(scene.store.find(name).unwrap().as_ref(), Some(&image), "{name}");
    }
    let digest = Digest::of(b"x");
    for name in ["a", "b", "b:2", &format!("b@{digest}"), digest.as_str()] {
        assert_eq!(scene.store.find(name).unwrap(), None, "{name}");
    }
    let error = scene.store.find("Wrong:Name").unwrap_err();
    assert!(matches!(error, FindError::InvalidName { .. }));
    let text = "Failed to apply default image tag \"Wrong:Name\": couldn't parse image name \"Wrong:Name\": invalid reference format: repository name (library/Wrong) must be lowercase";
    assert_eq!(error.to_string(), text, "L-734");
}

#[test]
fn an_image_whose_layer_is_damaged_counts_as_absent_and_can_be_loaded_again() {
    let scene = Scene::new();
    let image = scene.add(&sharing("a:1"));
    fs::remove_dir_all(&scene.store.layer_directories(&image)[0]).unwrap();
    assert_eq!(scene.store.find("a:1").unwrap(), None);
    assert_eq!(scene.add(&sharing("a:1")), image);
    assert_eq!(scene.store.find("a:1").unwrap(), Some(image));
}

#[test]
fn what_a_crash_left_is_taken_away_and_never_used() {
    let scene = Scene::new();
    let image = scene.add(&sharing("a:1"));
    let layer = names(&scene.root().join("layers"))[0].clone();
    // A layer that was being unpacked, one that no image names, a blob on its way, a file that was being written.
    fs::create_dir_all(scene.root().join("staging").join("half").join("dir")).unwrap();
    fs::create_dir_all(scene.root().join("layers/0123/dir")).unwrap();
    fs::write(scene.root().join("blobs/sha256/0123"), "").unwrap();
    fs::write(scene.root().join("staging/file-x"), "").unwrap();
    fs::write(scene.root().join("locks").join(&layer), "").unwrap();
    let store = scene.reopen();
    assert_eq!(store.list().unwrap(), [image]);
    assert_eq!((scene.layers(), names(&scene.root().join("staging"))), (2, vec![]));
    assert_eq!(names(&scene.root().join("blobs/sha256")).len(), 1);
    assert_eq!(names(&scene.root().join("locks")), ["index"]);

    // The very directory that the next layer is unpacked into.
    store.remove("a:1", false).unwrap();
    let staged = scene.root().join("staging").join(&layer);
    fs::create_dir_all(staged.join("rubbish")).unwrap();
    let image = scene.add(&sharing("a:1"));
    assert!(!scene.store.layer_directories(&image).iter().any(|directory| directory.join("rubbish").exists()));
}

#[test]
fn a_broken_index_is_an_error_and_not_an_empty_store() {
    let scene = Scene::new();
    scene.add(&sharing("a:1"));
    fs::write(scene.root().join("index.json"), "{").unwrap();
    let error = ImageStore::open(&scene.root()).unwrap_err();
    let path = scene.root().join("index.json").display().to_string();
    assert_eq!(error.to_string(), format!("the image index `{path}` is broken"));
    assert_eq!(error.hint(), format!("remove `{path}` and load the images again, or run `monopod reset`"));
    assert_eq!(scene.layers(), 2);
}

#[test]
fn many_processes_load_and_remove_at_once_and_each_layer_is_unpacked_once() {
    const PROCESSES: usize = 6;
    let scene = Scene::new();
    let shared = sharing("same:1").write_docker_archive(&scene.path("same.tar")).unwrap();
    let own: Vec<_> = (0..PROCESSES)
        .map(|number| {
            let file = scene.path(&format!("{number}.tar"));
            sharing(&format!("own:{number}")).write_docker_archive(&file).unwrap()
        })
        .collect();
    let barrier = Barrier::new(PROCESSES);
    std::thread::scope(|scope| {
        for (number, own) in own.iter().enumerate() {
            let (scene, barrier, shared) = (&scene, &barrier, &shared);
            scope.spawn(move || {
                // Each has its own descriptors, and so its own locks, as a process has.
                let store = scene.reopen();
                barrier.wait();
                for _ in 0..3 {
                    let image = store.load(shared, None, &Silent).unwrap().remove(0);
                    assert_eq!(scene.read(&image, "base"), "base");
                    store.load(own, None, &Silent).unwrap();
                    store.remove(&format!("own:{number}"), false).unwrap();
                }
            });
        }
    });
    scene.reopen();
    assert_eq!(scene.names(), ["docker.io/library/same:1"]);
    assert_eq!((scene.layers(), names(&scene.root().join("staging"))), (2, vec![]));
}
