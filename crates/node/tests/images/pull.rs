//! Pulling: from Debian's docker-registry, filled by skopeo, and from a registry of our own that misbehaves.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use node::images::{Credentials, Image, Progress, PullError, PullOptions, Silent};
use serde_json::json;
use tokio::sync::Notify;

use crate::fake_registry::{Answer, FakeRegistry};
use crate::image_builder::{Compression, ImageBuilder, digest, layout_members, put};
use crate::scene::{Scene, names};

fn app() -> ImageBuilder {
    let builder = ImageBuilder::new("x").unnamed().compressed(Compression::Gzip);
    builder.file("etc/name", 0o644, "base").layer().file("app", 0o755, "program")
}

/// A registry that ends with the test.
struct Registry {
    process: Child,
    address: String,
    directory: tempfile::TempDir,
}

impl Registry {
    fn start(auth: &str) -> Option<Registry> {
        let directory = tempfile::tempdir().unwrap();
        let config = format!(
            "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: \"127.0.0.1:0\"}}\n{auth}",
            directory.path().join("data").display()
        );
        std::fs::write(directory.path().join("config.yml"), config).unwrap();
        let started = Command::new("docker-registry")
            .arg("serve")
            .arg(directory.path().join("config.yml"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let (Ok(mut process), Ok(_)) = (started, Command::new("skopeo").arg("--version").output()) else {
            println!("skipped: docker-registry or skopeo is not installed");
            return None;
        };
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let address =
            lines.find_map(|line| Some(line.ok()?.split("listening on ").nth(1)?.split('"').next()?.to_owned()));
        // Its further words are read so that it never waits for us.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Registry { process, address: address.unwrap(), directory })
    }

    fn push(&self, source: &str, image: &str, more: &[&str]) {
        let copied = Command::new("skopeo")
            .args(["--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false"])
            .args(more)
            .args([source, &format!("docker://{}/{image}", self.address)])
            .output()
            .unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    }

    /// Pushes an image by way of an OCI layout.
    fn push_image(&self, builder: &ImageBuilder, image: &str, more: &[&str]) {
        let layout = self.directory.path().join("layout");
        builder.write_oci_layout(&layout).unwrap();
        self.push(&format!("oci:{}", layout.display()), image, more);
        std::fs::remove_dir_all(layout).unwrap();
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Scene {
    async fn pull(&self, image: &str) -> Result<Image, PullError> {
        self.pull_with(image, &PullOptions::default()).await
    }

    async fn pull_with(&self, image: &str, options: &PullOptions) -> Result<Image, PullError> {
        self.store.pull(image, options, Arc::new(Silent)).await
    }

    fn assert_nothing_is_half_done(&self) {
        assert_eq!(names(&self.root().join("staging")), [""; 0]);
    }
}

/// A Secret with logins for a registry.
fn secret(registry: &str, username: &str, password: &str) -> Secret {
    let config = json!({"auths": {registry: {"username": username, "password": password}}});
    Secret {
        data: Some(BTreeMap::from([(".dockerconfigjson".to_owned(), ByteString(config.to_string().into_bytes()))])),
        type_: Some("kubernetes.io/dockerconfigjson".to_owned()),
        ..Secret::default()
    }
}

fn credentials(secrets: &[Secret]) -> PullOptions {
    PullOptions { credentials: Credentials::from_secrets(secrets).unwrap(), ..PullOptions::default() }
}

#[tokio::test]
async fn an_image_is_pulled_by_tag_and_by_digest() {
    let Some(registry) = Registry::start("") else { return };
    registry.push_image(&app(), "team/app:1", &[]);
    let blobs = app().blobs().unwrap();
    let manifest = blobs.manifest["digest"].as_str().unwrap();
    let repository = format!("{}/team/app", registry.address);
    let scene = Scene::new();
    let image = scene.pull(&format!("{repository}:1")).await.unwrap();
    assert_eq!(image.id.as_str(), blobs.config_digest);
    assert_eq!(image.tags, [format!("{repository}:1")]);
    assert_eq!(image.digests, [format!("{repository}@{manifest}")]);
    assert_eq!(image.image_id(), image.digests[0], "L-736");
    assert_eq!(image.size_bytes, blobs.blobs.values().map(|blob| blob.len() as u64).sum::<u64>());
    assert_eq!(scene.read(&image, "app"), "program");
    assert_eq!(scene.read(&image, "etc/name"), "base");
    scene.assert_nothing_is_half_done();
    assert_eq!(names(&scene.root().join("blobs/sha256")).len(), 2, "layers are kept unpacked only");

    let by_digest = Scene::new();
    let image = by_digest.pull(&format!("{repository}:ignored@{manifest}")).await.unwrap();
    assert_eq!((image.tags.len(), image.name()), (0, image.digests[0].as_str()));
    assert_eq!(by_digest.store.find(image.image_id()).unwrap(), Some(image));
}

#[tokio::test]
async fn what_the_store_has_is_not_fetched_again() {
    let Some(registry) = Registry::start("") else { return };
    let tar = registry.directory.path().join("app.tar");
    let scene = Scene::new();
    let loaded = scene.load_one(&app().named("app:1").write_docker_archive(&tar).unwrap());
    registry.push_image(&app(), "app:1", &[]);
    let name = format!("{}/app:1", registry.address);
    struct Deaf;
    impl Progress for Deaf {
        fn begin(&self, item: &str, _: Option<u64>) {
            panic!("{item} is fetched");
        }
        fn advance(&self, _: &str, _: u64) {}
        fn end(&self, _: &str) {}
    }
    let pulled = scene.store.pull(&name, &PullOptions::default(), Arc::new(Deaf)).await.unwrap();
    assert_eq!(pulled.tags, [name, "docker.io/library/app:1".to_owned()]);
    assert_eq!(pulled.layers, loaded.layers);
}

#[tokio::test]
async fn of_an_index_the_image_for_this_machine_is_pulled() {
    let Some(registry) = Registry::start("") else { return };
    let foreign = ImageBuilder::new("x").platform("linux", "s390x").file("which", 0o644, "foreign").blobs().unwrap();
    let own = ImageBuilder::new("x").file("which", 0o644, "own").blobs().unwrap();
    for (name, with_own) in [("multi:1", true), ("foreign:1", false)] {
        let entries: Vec<_> =
            [foreign.manifest.clone()].into_iter().chain(with_own.then(|| own.manifest.clone())).collect();
        let mut blobs: BTreeMap<_, _> = own.blobs.clone().into_iter().chain(foreign.blobs.clone()).collect();
        let index =
            json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": entries});
        let entry = put(&mut blobs, "application/vnd.oci.image.index.v1+json", index.to_string().into_bytes());
        let layout = registry.directory.path().join(format!("{with_own}"));
        for (member, content) in layout_members(blobs, &[entry]) {
            let path = layout.join(member);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        registry.push(&format!("oci:{}", layout.display()), name, &["--all"]);
    }
    let scene = Scene::new();
    let image = scene.pull(&format!("{}/multi:1", registry.address)).await.unwrap();
    assert_eq!(scene.read(&image, "which"), "own");
    assert_ne!(image.digests[0].split('@').nth(1), image.manifest.as_ref().map(|digest| digest.as_str()));
    let error = scene.pull(&format!("{}/foreign:1", registry.address)).await.unwrap_err();
    let text = format!(
        "failed to pull and unpack image \"{}/foreign:1\": no match for platform in manifest: the image is for linux/s390x, but this machine is linux/{}",
        registry.address,
        crate::load::architecture()
    );
    assert_eq!((error.to_string(), error.reason()), (text, "ErrImagePull"));
}

#[tokio::test]
async fn what_is_not_there_is_told_in_containerds_words() {
    let Some(registry) = Registry::start("") else { return };
    registry.push_image(&app(), "app:1", &[]);
    let scene = Scene::new();
    for name in ["app:2", "none:1"] {
        let name = format!("{}/{name}", registry.address);
        let error = scene.pull(&name).await.unwrap_err();
        let text = format!(
            "failed to pull and unpack image \"{name}\": failed to resolve reference \"{name}\": {name}: not found"
        );
        assert_eq!((error.to_string(), error.reason()), (text, "ErrImagePull"));
    }
    let error = scene.pull("No:Name").await.unwrap_err();
    let text = "Failed to apply default image tag \"No:Name\": couldn't parse image name \"No:Name\": invalid reference format: repository name (library/No) must be lowercase";
    assert_eq!((error.to_string().as_str(), error.reason()), (text, "InvalidImageName"));
    let address = registry.address.clone();
    drop(registry);
    let name = format!("{address}/app:1");
    let error = scene.pull(&name).await.unwrap_err().to_string();
    let start = format!(
        "failed to pull and unpack image \"{name}\": failed to resolve reference \"{name}\": failed to do request: "
    );
    assert!(error.starts_with(&start) && error.ends_with("Connection refused (os error 111)"), "{error}");
    scene.assert_empty();
}

#[tokio::test]
async fn a_registry_with_logins_lets_in_who_has_one() {
    let users = tempfile::NamedTempFile::new().unwrap();
    // bcrypt of `pass:word`.
    std::fs::write(users.path(), "user:$2b$04$YmIHEN/rB/N3MS0h.IyFxudTVBpKkhFdyM4ZyPGbRawwXlBB.JOZy\n").unwrap();
    let auth = format!("auth: {{htpasswd: {{realm: test, path: {}}}}}\n", users.path().display());
    let Some(registry) = Registry::start(&auth) else { return };
    registry.push_image(&app(), "private:1", &["--dest-creds", "user:pass:word"]);
    let scene = Scene::new();
    let name = format!("{}/private:1", registry.address);
    let wrong = secret(&registry.address, "user", "wrong");
    let right = secret(&format!("http://{}/v2/", registry.address), "user", "pass:word");
    for secrets in [vec![], vec![wrong.clone()]] {
        let error = scene.pull_with(&name, &credentials(&secrets)).await.unwrap_err().to_string();
        let start = format!(
            "failed to pull and unpack image \"{name}\": failed to resolve reference \"{name}\": pull access denied, repository does not exist or may require authorization: "
        );
        assert!(error.starts_with(&start), "{error}");
    }
    scene.assert_empty();
    let image = scene.pull_with(&name, &credentials(&[wrong, right])).await.unwrap();
    assert_eq!(scene.read(&image, "app"), "program");
}

#[tokio::test]
async fn a_download_that_breaks_goes_on_where_it_broke() {
    let noise: Vec<u8> = (0..400_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let builder = ImageBuilder::new("x").file("noise", 0o644, noise.clone());
    let registry = FakeRegistry::start(&builder).await;
    let layer = registry.layers()[0].clone();
    registry.answer(&layer, Answer::CutAfter(150_000));
    let scene = Scene::new();
    let image = scene.pull(&registry.image()).await.unwrap();
    assert_eq!(std::fs::read(scene.store.layer_directories(&image)[0].join("noise")).unwrap(), noise);
    let offsets: Vec<u64> = registry.requests(&layer);
    assert_eq!(offsets, [0, 150_000, 300_000]);
}

#[tokio::test]
async fn content_that_is_not_what_was_asked_for_is_refused() {
    let registry = FakeRegistry::start(&app()).await;
    let layer = registry.layers()[0].clone();
    let size = registry.size(&layer);
    let scene = Scene::new();
    let image = registry.image();
    let refused = async |answer: Answer, expected: &str| {
        registry.answer(&layer, answer);
        let error = scene.pull(&image).await.unwrap_err().to_string();
        assert_eq!(error, format!("failed to pull and unpack image \"{image}\": {expected}"));
        scene.assert_nothing_is_half_done();
        assert!(!scene.root().join("blobs/sha256").join(layer.replace("sha256:", "")).exists());
    };
    refused(Answer::Status(404), &format!("failed to copy {layer}: {layer}: not found")).await;
    let longer = format!("failed to copy {layer}: unexpected content: more than the {size} bytes it should have");
    refused(Answer::Endless, &longer).await;
    let other = vec![b'x'; size];
    let text = format!("failed to copy {layer}: unexpected content: its digest is {}", digest(&other));
    refused(Answer::Body(other), &text).await;
    registry.answer(&layer, Answer::Whole);
    assert_eq!(scene.read(&scene.pull(&image).await.unwrap(), "app"), "program");
}

#[tokio::test]
async fn a_pull_that_is_given_up_leaves_nothing_half_done_and_can_be_taken_up_again() {
    let registry = FakeRegistry::start(&app()).await;
    let second = registry.layers()[1].clone();
    registry.answer(&second, Answer::HangAfter(10));
    let scene = Scene::new();
    struct Heard(Arc<Notify>, String);
    impl Progress for Heard {
        fn begin(&self, _: &str, _: Option<u64>) {}
        fn advance(&self, item: &str, _: u64) {
            if self.1.contains(item) {
                self.0.notify_one();
            }
        }
        fn end(&self, _: &str) {}
    }
    let begun = Arc::new(Notify::new());
    let heard = Arc::new(Heard(Arc::clone(&begun), second.clone()));
    let (image, options) = (registry.image(), PullOptions::default());
    tokio::select! {
        _ = scene.store.pull(&image, &options, heard) => panic!("it hangs"),
        () = begun.notified() => {}
    }
    assert_eq!(scene.store.list().unwrap(), []);
    registry.answer(&second, Answer::Whole);
    let image = scene.pull(&image).await.unwrap();
    assert_eq!(scene.read(&image, "app"), "program");
    scene.assert_nothing_is_half_done();
}

#[tokio::test]
async fn layers_that_were_complete_are_not_fetched_again_by_the_next_try() {
    let registry = FakeRegistry::start(&app()).await;
    let [first, second] = [registry.layers()[0].clone(), registry.layers()[1].clone()];
    registry.answer(&second, Answer::Status(500));
    let scene = Scene::new();
    scene.pull(&registry.image()).await.unwrap_err();
    registry.answer(&second, Answer::Whole);
    scene.pull(&registry.image()).await.unwrap();
    assert_eq!((registry.requests(&first).len(), registry.requests(&second).len()), (1, 2));
}

#[tokio::test]
async fn pulls_at_the_same_time_fetch_each_blob_once() {
    let registry = FakeRegistry::start(&app()).await;
    let scene = Scene::new();
    let image = registry.image();
    let (a, b, c) = tokio::join!(scene.pull(&image), scene.pull(&image), scene.pull(&image));
    assert_eq!(a.unwrap(), b.unwrap());
    assert_eq!(c.unwrap().layers.len(), 2);
    for layer in registry.layers() {
        assert_eq!(registry.requests(&layer).len(), 1);
    }
}

#[tokio::test]
async fn what_is_no_container_image_is_refused() {
    let registry = FakeRegistry::start(&app()).await;
    let image = registry.image();
    let scene = Scene::new();
    let chart = json!({"schemaVersion": 2, "layers": [],
        "config": {"mediaType": "application/vnd.cncf.helm.config.v1+json", "digest": digest(b"{}"), "size": 2}});
    let chart = chart.to_string().into_bytes();
    let name = digest(&chart);
    registry.set_manifest(chart);
    let error = scene.pull(&image).await.unwrap_err().to_string();
    let text = format!("manifest {name} cannot be used: it is another artifact, not a container image");
    assert_eq!(error, format!("failed to pull and unpack image \"{image}\": {text}"));
    let by_digest = format!("{}@{}", image.trim_end_matches(":1"), digest(b"other"));
    let error = scene.pull(&by_digest).await.unwrap_err().to_string();
    assert!(error.contains(&format!("unexpected content: its digest is {name}")), "{error}");
    scene.assert_empty();
    assert!(Path::new(&scene.root()).exists());
}
