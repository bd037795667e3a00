//! Volumes as containers see them: set up by the agent's side, mounted by real shims, as root.
//!
//! The test program is its own shim: executed anew with the hidden subcommand it is nothing else.

#![expect(clippy::print_stderr, reason = "a test says why it is skipped")]

#[expect(dead_code, reason = "the shim's own tests use more of it")]
#[path = "../shim/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use libtest_mimic::{Arguments, Failed, Trial};
use lifecycle::NodeConfig;
use node::images::{ImageStore, Silent};
use node::runtime::config::{ContainerConfig, MountConfig};
use node::volumes::{ContainerMounts, PodVolumes, SourceError, Token, TokenRequest, VolumeContext, VolumeSources};
use serde_json::{Value, json};

use world::{Outcome, World};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some((word, rest)) = arguments.split_first()
        && word == node::shim::SUBCOMMAND
    {
        return node::shim::main(rest);
    }
    let trials = vec![
        trial("every_kind_of_volume_is_seen_in_a_container", every_kind),
        trial("l_922_changes_are_seen_in_a_running_container_but_not_through_a_sub_path", live_refresh),
        trial("l_926_a_sub_path_that_is_swapped_for_a_link_is_not_mounted", swapped_sub_path),
        trial("l_920_volumes_survive_a_restart_of_container_and_agent_and_go_with_the_pod", survives),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A test that is given a runtime and must leave nothing of it behind.
fn trial<F, T>(name: &'static str, test: F) -> Trial
where
    F: FnOnce(World) -> T + Send + 'static,
    T: Future<Output = Outcome<World>>,
{
    Trial::test(name, move || {
        if !rustix::process::geteuid().is_root() {
            eprintln!("{name}: skipped: containers need root");
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let outcome = runtime.block_on(async { test(World::new().await?).await?.close().await });
        outcome.map_err(|error| Failed::from(error.to_string()))
    })
}

/// The API's objects, which a test may change.
#[derive(Default)]
struct Objects {
    config_map: Mutex<BTreeMap<String, String>>,
}

impl Objects {
    fn put(&self, key: &str, value: &str) {
        self.config_map.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), value.to_owned());
    }
}

impl VolumeSources for Objects {
    fn config_map(&self, _: &str, _: &str) -> Result<Option<Arc<ConfigMap>>, SourceError> {
        let data = self.config_map.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Some(Arc::new(ConfigMap { data: Some(data), ..ConfigMap::default() })))
    }

    fn secret(&self, _: &str, _: &str) -> Result<Option<Arc<Secret>>, SourceError> {
        let data = BTreeMap::from([("password".to_owned(), ByteString(b"hunter2".to_vec()))]);
        Ok(Some(Arc::new(Secret { data: Some(data), ..Secret::default() })))
    }

    fn service_account_token(&self, _: &TokenRequest<'_>) -> Result<Token, SourceError> {
        let expires_at = Timestamp::now() + SignedDuration::from_hours(1);
        Ok(Token { token: "token".to_owned(), expires_at })
    }
}

/// A pod with one container and its volumes, in a world's directory. They are torn down whatever becomes of the test.
struct Scene {
    volumes: PodVolumes,
    images: ImageStore,
    objects: Objects,
    node: NodeConfig,
    pod: Pod,
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Whoever cares looks for mounts at the end.
        let _ = self.volumes.tear_down(&self.images);
    }
}

impl Scene {
    fn new(world: &World, volumes: &Value, mounts: &Value) -> Outcome<Scene> {
        let pod = json!({
            "metadata": {"name": "pod", "namespace": "default", "uid": "1-2", "labels": {"app": "web"}},
            "spec": {"volumes": volumes, "containers": [{"name": "main", "volumeMounts": mounts}]},
        });
        let root = world.directory.path();
        Ok(Scene {
            volumes: PodVolumes::new(&root.join("pods/1-2")),
            images: ImageStore::open(&root.join("images"))?,
            objects: Objects::default(),
            node: NodeConfig::new("node"),
            pod: serde_json::from_value(pod)?,
        })
    }

    fn context(&self) -> VolumeContext<'_> {
        VolumeContext {
            pod: &self.pod,
            node: &self.node,
            sources: &self.objects,
            images: &self.images,
            now: Timestamp::now(),
        }
    }

    fn volume(&self, world: &World, plugin: &str, name: &str) -> PathBuf {
        world.directory.path().join(format!("pods/1-2/volumes/kubernetes.io~{plugin}/{name}"))
    }

    fn mounts(&self) -> Outcome<Vec<MountConfig>> {
        let spec = self.pod.spec.as_ref().ok_or("no spec")?;
        let container = spec.containers.first().ok_or("no container")?;
        let environment = BTreeMap::from([("NAME".to_owned(), "web".to_owned())]);
        let wanted = ContainerMounts {
            container: "main",
            volume_mounts: container.volume_mounts.as_deref().unwrap_or_default(),
            environment: &environment,
        };
        Ok(self.volumes.mounts(&self.context(), &wanted)?)
    }

    /// A container with the pod's volumes.
    fn container(&self, world: &World, name: &str, script: &str) -> Outcome<ContainerConfig> {
        let mut config = world.shell(name, script)?;
        config.mounts = self.mounts()?;
        Ok(config)
    }
}

/// A pod with a volume of each kind, set up. The host path is `host` in the world's directory.
fn one_of_each(world: &World) -> Outcome<Scene> {
    let host = world.directory.path().join("host");
    fs::create_dir(&host)?;
    fs::write(host.join("file"), "of the node")?;
    let volumes = json!([
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "cfg", "configMap": {"name": "app", "items": [{"key": "a", "path": "dir/a"}]}},
        {"name": "key", "secret": {"secretName": "key", "defaultMode": 0o400}},
        {"name": "info", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"name": "all", "projected": {"sources": [
            {"serviceAccountToken": {"path": "token"}}, {"secret": {"name": "key"}}]}},
        {"name": "host", "hostPath": {"path": host}},
        {"name": "tools", "image": {"reference": "tools:1"}},
    ]);
    let mounts = json!([
        {"name": "disk", "mountPath": "/disk"},
        {"name": "disk", "mountPath": "/sub", "subPathExpr": "$(NAME)/logs"},
        {"name": "memory", "mountPath": "/memory"},
        {"name": "cfg", "mountPath": "/cfg"},
        {"name": "key", "mountPath": "/key"},
        {"name": "key", "mountPath": "/etc/password", "subPath": "password"},
        {"name": "info", "mountPath": "/info"},
        {"name": "all", "mountPath": "/all"},
        {"name": "host", "mountPath": "/host"},
        {"name": "host", "mountPath": "/disk/inner", "subPath": "file", "readOnly": true},
        {"name": "tools", "mountPath": "/tools", "subPath": "share"},
    ]);
    let scene = Scene::new(world, &volumes, &mounts)?;
    let rootfs = world.directory.path().join("tools.tar");
    let mut tar = tar::Builder::new(fs::File::create(&rootfs)?);
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o644);
    header.set_size(5);
    tar.append_data(&mut header, "share/tool", &b"tools"[..])?;
    tar.finish()?;
    scene.images.load(&rootfs, Some("tools:1"), &Silent)?;
    scene.objects.put("a", "configured");
    scene.volumes.set_up(&scene.context())?;
    Ok(scene)
}

async fn every_kind(world: World) -> Outcome<World> {
    let scene = one_of_each(&world)?;
    let host = world.directory.path().join("host");
    let script = "
        for f in /cfg/dir/a /key/password /etc/password /info/labels /all/token /all/password /host/file /disk/inner /tools/tool; do
            echo $f $(cat $f)
        done
        stat -c '%n %a' /disk /memory /sub /key/..data/password
        df -k /memory | tail -1 | sed 's/  */ /g'
        for f in /disk/x /memory/x /sub/x /cfg/x /key/x /info/x /all/x /host/x /disk/inner /tools/x; do
            (echo made > $f) 2> /dev/null && echo wrote $f
        done
        ls /disk/web/logs";
    let (_, container) = world.run_container(&scene.container(&world, "main", script)?).await?;
    let mut world = world;
    world.exit(&container).await?;
    let log = world.log("main")?;
    let expected = "\
/cfg/dir/a configured
/key/password hunter2
/etc/password hunter2
/info/labels app=\"web\"
/all/token token
/all/password hunter2
/host/file of the node
/disk/inner of the node
/tools/tool tools
/disk 777
/memory 1777
/sub 777
/key/..data/password 400
tmpfs 1024 0 1024 0% /memory
wrote /disk/x
wrote /memory/x
wrote /sub/x
wrote /host/x
x
";
    assert_eq!(log, expected);
    assert_eq!(fs::read_to_string(host.join("x"))?, "made\n");
    assert_eq!(fs::read_to_string(scene.volume(&world, "empty-dir", "disk").join("web/logs/x"))?, "made\n");
    scene.volumes.tear_down(&scene.images)?;
    assert!(host.join("file").exists(), "host paths stay");
    Ok(world)
}

async fn live_refresh(world: World) -> Outcome<World> {
    let scene = Scene::new(
        &world,
        &json!([{"name": "cfg", "configMap": {"name": "app"}}]),
        &json!([
            {"name": "cfg", "mountPath": "/cfg"},
            {"name": "cfg", "mountPath": "/once", "subPath": "a"},
        ]),
    )?;
    scene.objects.put("a", "1");
    scene.volumes.set_up(&scene.context())?;
    let (_, container) = world.run_container(&scene.container(&world, "main", "exec sleep 1000")?).await?;
    scene.objects.put("a", "2");
    scene.objects.put("b", "new");
    scene.volumes.refresh(&scene.context())?;
    assert_eq!(world.output(&container, "cat /cfg/a /cfg/b /once").await?, "2new1");
    scene.volumes.tear_down(&scene.images)?;
    Ok(world)
}

async fn swapped_sub_path(world: World) -> Outcome<World> {
    let secret = world.directory.path().join("secret");
    fs::create_dir(&secret)?;
    fs::write(secret.join("file"), "of the node")?;
    let scene = Scene::new(
        &world,
        &json!([{"name": "work", "emptyDir": {}}]),
        &json!([{"name": "work", "mountPath": "/m", "subPath": "dir/part"}]),
    )?;
    scene.volumes.set_up(&scene.context())?;
    // Checked and made here, and then changed by another container of the pod before it is mounted.
    let mounts = scene.mounts()?;
    let work = scene.volume(&world, "empty-dir", "work");
    let sandbox = world.runtime.run_sandbox(&world::sandbox_config("pod")).await?.id;
    let mut tries = 0;
    for link in ["/", "../../../../../..", secret.to_str().ok_or("no text")?] {
        for swapped in ["dir", "dir/part"] {
            fs::remove_dir_all(work.join("dir")).or_else(|_| fs::remove_file(work.join("dir")))?;
            if swapped == "dir/part" {
                fs::create_dir(work.join("dir"))?;
            }
            symlink(link, work.join(swapped))?;
            tries += 1;
            let mut config = world.shell(&format!("try-{tries}"), "ls /m")?;
            config.mounts = mounts.clone();
            let container = world.runtime.create_container(&sandbox, &config).await?;
            let refused = world.runtime.start_container(&container).await.err();
            let text = refused.ok_or_else(|| format!("{link} at {swapped} was mounted"))?.to_string();
            assert!(text.contains("open in volume") && text.contains("Invalid cross-device link"), "{text}");
            fs::remove_file(work.join(swapped))?;
            fs::create_dir_all(work.join("dir/part"))?;
        }
    }
    // Through a link that stays inside, it is mounted.
    fs::create_dir_all(work.join("real/part"))?;
    fs::write(work.join("real/part/inside"), "")?;
    fs::remove_dir_all(work.join("dir"))?;
    symlink("real", work.join("dir"))?;
    let config = scene.container(&world, "last", "ls /m")?;
    let container = world.runtime.create_container(&sandbox, &config).await?;
    world.runtime.start_container(&container).await?;
    let mut world = world;
    world.exit(&container).await?;
    assert_eq!(world.log("last")?, "inside\n");
    scene.volumes.tear_down(&scene.images)?;
    Ok(world)
}

async fn survives(world: World) -> Outcome<World> {
    let scene = Scene::new(
        &world,
        &json!([{"name": "disk", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}}]),
        &json!([{"name": "disk", "mountPath": "/disk"}, {"name": "memory", "mountPath": "/memory"}]),
    )?;
    scene.volumes.set_up(&scene.context())?;
    let first = scene.container(&world, "first", "echo disk > /disk/x; echo memory > /memory/x")?;
    let (sandbox, container) = world.run_container(&first).await?;
    let mut world = world;
    world.exit(&container).await?;
    world.reopen().await?;
    // The new agent knows nothing but the pod.
    scene.volumes.set_up(&scene.context())?;
    let second = scene.container(&world, "second", "cat /disk/x /memory/x")?;
    let container = world.runtime.create_container(&sandbox, &second).await?;
    world.runtime.start_container(&container).await?;
    world.exit(&container).await?;
    assert_eq!(world.log("second")?, "disk\nmemory\n");
    world.runtime.stop_sandbox(&sandbox).await?;
    scene.volumes.tear_down(&scene.images)?;
    assert!(!world.directory.path().join("pods/1-2/volumes").exists());
    Ok(world)
}
