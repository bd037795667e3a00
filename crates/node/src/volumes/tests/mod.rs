//! Volumes set up, refreshed, mounted and torn down for real, below temporary directories.

mod scene;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::json;

use super::{PodVolumes, image_volumes};
use crate::runtime::config::{MountAccess, MountConfig, MountPropagation, MountSource};
use scene::{Scene, bind, can_mount, file_system, mode, names, owner};

#[test]
fn l_920_an_empty_dir_is_open_to_all_and_keeps_what_containers_do_with_it() {
    let scene = Scene::new(json!([{"name": "work"}, {"name": "other", "emptyDir": {}}]));
    assert_eq!(scene.set_up(), Ok(None));
    let work = scene.volume("empty-dir", "work");
    assert_eq!((mode(&work), owner(&work)), (0o777, (0, 0)));
    fs::write(work.join("file"), "kept").unwrap();
    fs::set_permissions(&work, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(scene.set_up(), Ok(None));
    assert_eq!((mode(&work), names(&work)), (0o700, vec!["file".to_owned()]));
    assert_eq!(names(work.parent().unwrap()), ["other", "work"]);
}

#[test]
fn l_920_a_memory_empty_dir_is_as_large_as_the_least_limit_that_is_set() {
    if !can_mount() {
        return;
    }
    let mut scene = Scene::new(json!([
        {"name": "limited", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "free", "emptyDir": {"medium": "Memory"}},
    ]));
    scene.node.allocatable.insert("memory".to_owned(), Quantity("64Mi".to_owned()));
    let size = |path: &Path| {
        let stat = rustix::fs::statvfs(path).unwrap();
        stat.f_blocks * stat.f_frsize
    };
    assert_eq!(scene.set_up(), Ok(None));
    let (limited, free) = (scene.volume("empty-dir", "limited"), scene.volume("empty-dir", "free"));
    assert_eq!((file_system(&limited), size(&limited), size(&free)), ("memory", 1 << 20, 64 << 20));
    assert_eq!(mode(&limited), 0o1777);
    fs::write(limited.join("file"), "kept").unwrap();
    assert_eq!(scene.set_up(), Ok(None));
    assert_eq!(names(&limited), ["file"]);
    scene.volumes().tear_down(&scene.images).unwrap();
    scene.change_pod("/spec/containers/0/resources", json!({"limits": {"memory": "16Mi"}}));
    assert_eq!(scene.set_up(), Ok(None));
    assert_eq!((size(&limited), size(&free)), (1 << 20, 16 << 20));
}

#[test]
fn l_920_other_media_are_refused() {
    let scene = Scene::new(json!([{"name": "huge", "emptyDir": {"medium": "HugePages"}}]));
    let text =
        "MountVolume.SetUp failed for volume \"huge\" : storage medium \"HugePages\" is not provided by this node";
    assert_eq!(scene.set_up(), Err(vec![text.to_owned()]));
}

#[test]
fn l_921_files_are_links_into_one_directory_that_is_swapped_as_a_whole() {
    let mut scene = Scene::new(json!([{"name": "cfg", "configMap": {"name": "app", "defaultMode": 0o444}}]));
    scene.put_config_map("app", &[("a", "1"), ("b", "2")]);
    assert_eq!(scene.set_up(), Ok(None));
    let volume = scene.volume("configmap", "cfg");
    let first = "..2026_02_01_15_04_05.123456789";
    assert_eq!(names(&volume), [first, "..data", "a", "b"]);
    assert_eq!(fs::read_link(volume.join("..data")).unwrap(), Path::new(first));
    assert_eq!(fs::read_link(volume.join("a")).unwrap(), Path::new("..data/a"));
    assert_eq!((mode(&volume), mode(&volume.join(first)), mode(&volume.join(first).join("a"))), (0o777, 0o755, 0o444));
    assert_eq!(file_system(&volume), file_system(scene.scratch.path()));

    scene.now += SignedDuration::from_secs(1);
    assert_eq!(scene.refresh(), Ok(None));
    assert_eq!(fs::read_link(volume.join("..data")).unwrap(), Path::new(first), "unchanged content stays");

    // What an agent that died left behind goes with the next change.
    fs::create_dir(volume.join("..2020_01_01_00_00_00.1")).unwrap();
    symlink("..2020_01_01_00_00_00.1", volume.join("..data_tmp")).unwrap();
    scene.put_config_map("app", &[("b", "3"), ("c", "4")]);
    let old = fs::File::open(volume.join("b")).unwrap();
    assert_eq!(scene.refresh(), Ok(None));
    assert_eq!(names(&volume), ["..2026_02_01_15_04_06.123456789", "..data", "b", "c"]);
    assert_eq!(fs::read_to_string(volume.join("b")).unwrap(), "3");
    assert_eq!(std::io::read_to_string(old).unwrap(), "2", "who has the old file open reads on in it");
}

#[test]
fn l_921_items_choose_keys_paths_and_modes() {
    if !can_mount() {
        return;
    }
    let items = json!([{"key": "a", "path": "dir/sub/a", "mode": 0o400}, {"key": "a", "path": "again"}]);
    let mut scene = Scene::new(json!([
        {"name": "cfg", "configMap": {"name": "app", "items": items}},
        {"name": "sec", "secret": {"secretName": "key", "items": items}},
    ]));
    scene.put_config_map("app", &[("a", "1"), ("b", "2")]);
    scene.put_secret("key", &[("a", b"\xff\x00"), ("b", b"")]);
    assert_eq!(scene.set_up(), Ok(None));
    for (plugin, name, content) in [("configmap", "cfg", &b"1"[..]), ("secret", "sec", b"\xff\x00")] {
        let volume = scene.volume(plugin, name);
        assert_eq!(names(&volume).iter().filter(|name| !name.starts_with("..")).collect::<Vec<_>>(), ["again", "dir"]);
        assert_eq!(fs::read(volume.join("dir/sub/a")).unwrap(), content);
        assert_eq!(mode(&volume.join("..data/dir/sub/a")), 0o400);
        assert_eq!((mode(&volume.join("..data/again")), mode(&volume.join("..data/dir/sub"))), (0o644, 0o755));
    }
    assert_eq!(file_system(&scene.volume("secret", "sec")), "memory");
}

#[test]
fn l_921_what_is_missing_fails_the_mount_unless_it_is_optional() {
    if !can_mount() {
        return;
    }
    let mut scene = Scene::new(json!([
        {"name": "c1", "configMap": {"name": "none"}},
        {"name": "c2", "configMap": {"name": "app", "items": [{"key": "x", "path": "x"}]}},
        {"name": "s1", "secret": {"secretName": "none"}},
        {"name": "s2", "secret": {"secretName": "key", "items": [{"key": "x", "path": "x"}]}},
        {"name": "p", "projected": {"sources": [
            {"configMap": {"name": "none"}}, {"secret": {"name": "none"}}, {"configMap": {"name": "none"}},
            {"clusterTrustBundle": {"path": "ca", "name": "x"}}]}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "nfs", "nfs": {"server": "a", "path": "/"}},
        {"name": "fine", "emptyDir": {}},
    ]));
    scene.put_config_map("app", &[("a", "1")]);
    scene.put_secret("key", &[("a", b"1")]);
    let failed = |volume: &str, text: &str| format!("MountVolume.SetUp failed for volume \"{volume}\" : {text}");
    let expected = vec![
        failed("c1", "configmap \"none\" not found"),
        failed("c2", "configmap references non-existent config key: x"),
        failed("s1", "secret \"none\" not found"),
        failed("s2", "references non-existent secret key: x"),
        failed(
            "p",
            "[configmap \"none\" not found, secret \"none\" not found, clusterTrustBundle is not provided by this node; use a configMap]",
        ),
        failed(
            "claim",
            "persistentvolumeclaim \"data\" cannot be mounted: this node provides no persistent volumes; use an emptyDir or a hostPath volume",
        ),
        failed("nfs", "no volume plugin matched"),
    ];
    assert_eq!(scene.set_up(), Err(expected));
    assert!(scene.volume("empty-dir", "fine").is_dir());
    assert!(!scene.volume("secret", "s1").exists());

    let mut scene = Scene::new(json!([
        {"name": "c1", "configMap": {"name": "none", "optional": true}},
        {"name": "c2", "configMap": {"name": "app", "optional": true, "items": [{"key": "x", "path": "x"}]}},
        {"name": "s1", "secret": {"secretName": "none", "optional": true}},
        {"name": "p", "projected": {"sources": [{"configMap": {"name": "none", "optional": true}}]}},
    ]));
    scene.put_config_map("app", &[("a", "1")]);
    assert_eq!(scene.set_up(), Ok(None));
    // L-922: an optional object that appears later is filled in.
    scene.put_config_map("none", &[("late", "1")]);
    assert_eq!(scene.refresh(), Ok(None));
    assert_eq!(fs::read_to_string(scene.volume("configmap", "c1").join("late")).unwrap(), "1");
    assert_eq!(fs::read_to_string(scene.volume("projected", "p").join("late")).unwrap(), "1");
}

#[test]
fn a_volume_that_nothing_mounts_is_not_set_up() {
    let mut scene = Scene::new(json!([{"name": "cfg", "configMap": {"name": "none"}}]));
    scene.change_pod("/spec/containers/0/volumeMounts", json!([]));
    assert_eq!(scene.set_up(), Ok(None));
    let ephemeral = json!([{"name": "debug", "volumeMounts": [{"name": "cfg", "mountPath": "/cfg"}]}]);
    scene.pod.spec.as_mut().unwrap().ephemeral_containers = serde_json::from_value(ephemeral).unwrap();
    assert!(scene.set_up().is_err());
}

#[test]
fn l_922_labels_are_written_anew_when_they_change() {
    if !can_mount() {
        return;
    }
    let mut scene = Scene::new(json!([{"name": "info", "downwardAPI": {"items": [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}, "mode": 0o440},
        {"path": "cpu", "resourceFieldRef": {"containerName": "app", "resource": "limits.cpu", "divisor": "1m"}},
    ]}}]));
    scene.change_pod("/spec/containers/0/resources", json!({"limits": {"cpu": "1500m"}}));
    assert_eq!(scene.set_up(), Ok(None));
    let volume = scene.volume("downward-api", "info");
    let read = |name: &str| fs::read_to_string(volume.join(name)).unwrap();
    assert_eq!([read("labels"), read("name"), read("cpu")], ["app=\"web\"", "web", "1500"]);
    assert_eq!((mode(&volume.join("..data/name")), file_system(&volume)), (0o440, "memory"));
    scene.change_pod("/metadata/labels", json!({"app": "shop", "b": "2"}));
    assert_eq!(scene.refresh(), Ok(None));
    assert_eq!(read("labels"), "app=\"shop\"\nb=\"2\"");
}

#[test]
fn l_923_a_token_is_private_and_renewed_when_it_is_old() {
    if !can_mount() {
        return;
    }
    let mut scene = Scene::new(json!([{"name": "token", "projected": {"defaultMode": 0o644, "sources": [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 1000, "audience": "vault"}},
        {"configMap": {"name": "ca"}},
    ]}}]));
    scene.put_config_map("ca", &[("ca.crt", "x")]);
    let start = scene.now.as_second();
    let at = |seconds: i64| Timestamp::from_second(start + seconds).unwrap();
    let volume = scene.volume("projected", "token");
    let token = || fs::read_to_string(volume.join("token")).unwrap().rsplit("signature").next().unwrap().to_owned();
    assert_eq!(
        scene.set_up(),
        Err(vec!["MountVolume.SetUp failed for volume \"token\" : failed to fetch token: no tokens today".to_owned()])
    );
    scene.objects.token = Some((start, start + 1000));
    assert_eq!(scene.set_up(), Ok(Some(at(800))));
    assert_eq!(*scene.objects.tokens.lock().unwrap(), ["robot vault 1000", "robot vault 1000"]);
    assert_eq!(mode(&volume.join("..data/token")), 0o644);

    scene.now = at(799);
    assert_eq!(scene.refresh(), Ok(Some(at(800))));
    assert_eq!(scene.objects.tokens.lock().unwrap().len(), 2);
    scene.now = at(800);
    scene.objects.token = None;
    assert_eq!(scene.refresh(), Ok(Some(at(800))), "an old token is better than none");
    scene.objects.token = Some((start + 800, start + 1800));
    assert_eq!(scene.refresh(), Ok(Some(at(1600))));
    assert_eq!(token(), (start + 800).to_string());

    scene.now = at(2000);
    scene.objects.token = None;
    assert!(scene.refresh().is_err(), "a token that has ended is none");
    let month = 30 * 24 * 3600;
    scene.objects.token = Some((start + 2000, start + month));
    assert_eq!(scene.refresh(), Ok(Some(at(2000 + 24 * 3600))));

    scene.set_security(json!({"runAsUser": 1000}));
    scene.objects.token = Some((start + month, start + month + 1000));
    scene.now = at(month);
    scene.refresh().unwrap();
    let file = volume.join("..data/token");
    assert_eq!((mode(&file), owner(&file), owner(&volume.join("..data/ca.crt"))), (0o600, (1000, 0), (0, 0)));
}

#[test]
fn l_924_fs_group_owns_the_files_and_may_use_them() {
    if !can_mount() {
        return;
    }
    let mut scene = Scene::new(json!([
        {"name": "work"},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "cfg", "configMap": {"name": "app", "defaultMode": 0o400}},
        {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
    ]));
    scene.put_config_map("app", &[("a", "1")]);
    scene.objects.token = Some((0, 1 << 37));
    scene.set_security(json!({"fsGroup": 2000}));
    scene.set_up().unwrap();
    let work = scene.volume("empty-dir", "work");
    assert_eq!((mode(&work), owner(&work)), (0o2777, (0, 2000)));
    let memory = scene.volume("empty-dir", "memory");
    assert_eq!((mode(&memory), owner(&memory)), (0o3777, (0, 2000)));
    let volume = scene.volume("configmap", "cfg");
    assert_eq!((mode(&volume), owner(&volume)), (0o2777, (0, 2000)));
    let file = volume.join("..data/a");
    assert_eq!((mode(&file), owner(&file)), (0o440, (0, 2000)));
    let token = scene.volume("projected", "token").join("..data/token");
    assert_eq!((mode(&token), owner(&token)), (0o640, (0, 2000)));
}

#[test]
fn l_925_host_paths_are_checked_or_made() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name).display().to_string();
    fs::create_dir(at("dir")).unwrap();
    fs::write(at("file"), "").unwrap();
    symlink("dir", at("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let check = |kind: &str, path: String, expected: Option<&str>| {
        let scene = Scene::new(json!([{"name": "v", "hostPath": {"path": path, "type": kind}}]));
        let expected = expected.map(|text| vec![format!("MountVolume.SetUp failed for volume \"v\" : {text}")]);
        assert_eq!(scene.set_up().err(), expected, "{kind} {path}");
    };
    let wrong = |path: &str, kind: &str| format!("hostPath type check failed: {} is not a {kind}", at(path));
    check("", at("none"), None);
    check("Directory", at("dir"), None);
    check("Directory", at("link"), None);
    check("File", at("file"), None);
    check("Socket", at("socket"), None);
    check("CharDevice", "/dev/null".to_owned(), None);
    check("DirectoryOrCreate", at("new/dir"), None);
    check("FileOrCreate", at("new-file"), None);
    check("Directory", at("none"), Some(&wrong("none", "directory")));
    check("DirectoryOrCreate", at("file"), Some(&wrong("file", "directory")));
    check("File", at("dir"), Some(&wrong("dir", "file")));
    check("FileOrCreate", at("dir"), Some(&wrong("dir", "file")));
    check("Socket", at("file"), Some(&wrong("file", "socket file")));
    check("CharDevice", at("file"), Some(&wrong("file", "character device")));
    check("BlockDevice", at("file"), Some(&wrong("file", "block device")));
    let missing = at("no/file");
    check("FileOrCreate", missing.clone(), Some(&format!("cannot make the file {missing}: no such file or directory")));
    check("", "/a/../b".to_owned(), Some("invalid HostPath `/a/../b`: must not contain '..'"));
    assert_eq!((mode(Path::new(&at("new/dir"))), mode(Path::new(&at("new-file")))), (0o755, 0o644));
    assert_eq!(names(scratch.path()), ["dir", "file", "link", "new", "new-file", "socket"]);
}

#[test]
fn a_container_gets_the_volumes_that_it_asks_for_outer_ones_first() {
    if !can_mount() {
        return;
    }
    let mut scene = Scene::new(json!([
        {"name": "work"}, {"name": "cfg", "configMap": {"name": "app"}},
        {"name": "host", "hostPath": {"path": "/dev/null"}}]));
    scene.put_config_map("app", &[("a", "1")]);
    scene.set_up().unwrap();
    let mounts = scene.mounts(
        json!([
            {"name": "cfg", "mountPath": "/work/etc/app"},
            {"name": "work", "mountPath": "/work/", "readOnly": true},
            {"name": "host", "mountPath": "log/../device", "mountPropagation": "HostToContainer"},
        ]),
        &[],
    );
    let device = MountConfig {
        destination: PathBuf::from("/device"),
        source: MountSource::Bind {
            path: PathBuf::from("/dev/null"),
            sub_path: None,
            access: MountAccess::ReadWrite,
            propagation: MountPropagation::HostToContainer,
        },
    };
    let expected = vec![
        bind("/work", scene.volume("empty-dir", "work"), MountAccess::ReadOnly),
        device,
        bind("/work/etc/app", scene.volume("configmap", "cfg"), MountAccess::ReadOnly),
    ];
    assert_eq!(mounts, Ok(expected));
    let unknown = scene.mounts(json!([{"name": "ghost", "mountPath": "/g"}]), &[]);
    assert_eq!(unknown, Err("cannot find volume \"ghost\" to mount into container \"app\"".to_owned()));
}

#[test]
fn a_mount_point_inside_a_read_only_volume_is_made_by_the_node() {
    let mut scene = Scene::new(json!([{"name": "cfg", "configMap": {"name": "app"}}, {"name": "work"}]));
    scene.put_config_map("app", &[("a", "1")]);
    let mounts = json!([
        {"name": "cfg", "mountPath": "/etc/app"},
        {"name": "work", "mountPath": "/etc/app/cache/deep"},
        {"name": "work", "mountPath": "/etc/app/cache/deep/er"},
        {"name": "work", "mountPath": "/etc/application"},
    ]);
    scene.change_pod("/spec/containers/0/volumeMounts", mounts);
    scene.set_up().unwrap();
    let volume = scene.volume("configmap", "cfg");
    assert_eq!(names(&volume.join("cache/deep")), [""; 0]);
    let shown: Vec<String> = names(&volume).into_iter().filter(|name| !name.starts_with("..")).collect();
    assert_eq!(shown, ["a", "cache"]);
}

#[test]
fn l_926_a_missing_sub_path_is_made_with_the_mode_of_the_volume() {
    let scene = Scene::new(json!([{"name": "work"}]));
    scene.set_up().unwrap();
    let work = scene.volume("empty-dir", "work");
    fs::set_permissions(&work, fs::Permissions::from_mode(0o2770)).unwrap();
    let mounts = scene.mounts(
        json!([{"name": "work", "mountPath": "/logs", "subPathExpr": "logs/$(POD)/$$(POD)"}]),
        &[("POD", "web")],
    );
    let expected = MountConfig {
        destination: PathBuf::from("/logs"),
        source: MountSource::Bind {
            path: work.clone(),
            sub_path: Some(PathBuf::from("logs/web/$(POD)")),
            access: MountAccess::ReadWrite,
            propagation: MountPropagation::Private,
        },
    };
    assert_eq!(mounts, Ok(vec![expected]));
    assert_eq!([mode(&work.join("logs")), mode(&work.join("logs/web/$(POD)"))], [0o2770, 0o2770]);
}

#[test]
fn l_926_a_sub_path_never_leads_out_of_its_volume() {
    let scene = Scene::new(json!([{"name": "work"}]));
    scene.set_up().unwrap();
    let work = scene.volume("empty-dir", "work");
    let outside = scene.scratch.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::create_dir(work.join("dir")).unwrap();
    fs::write(work.join("file"), "").unwrap();
    symlink(&outside, work.join("absolute")).unwrap();
    symlink("../../../../..", work.join("up")).unwrap();
    symlink("dir", work.join("inside")).unwrap();
    symlink("nowhere", work.join("dangling")).unwrap();
    symlink("loop", work.join("loop")).unwrap();
    let mount = |path: &str| scene.mounts(json!([{"name": "work", "mountPath": "/m", "subPath": path}]), &[]);
    for path in ["inside", "dir/.", "file", "inside/new"] {
        assert!(mount(path).is_ok(), "{path}");
    }
    assert_eq!(names(&work.join("dir")), ["new"]);
    let prepare = Err("failed to prepare subPath for volumeMount \"work\" of container \"app\"".to_owned());
    let create = Err("failed to create subPath directory for volumeMount \"work\" of container \"app\"".to_owned());
    for path in ["absolute", "up", "up/etc", "loop", "file/x", "absolute/x"] {
        assert_eq!(mount(path), prepare, "{path}");
    }
    for path in ["dangling", "dangling/x"] {
        assert_eq!(mount(path), create, "{path}");
    }
    assert_eq!(mount("/abs"), Err("error SubPath `/abs` must not be an absolute path".to_owned()));
    assert_eq!(mount("a/../b"), Err("unable to provision SubPath `a/../b`: must not contain '..'".to_owned()));
    let missing = scene.mounts(
        json!([{"name": "work", "mountPath": "/m", "subPathExpr": "$(B)/$(A)/$(C)"}]),
        &[("B", ""), ("C", "set")],
    );
    assert_eq!(missing, Err("missing value for A, B".to_owned()));
    assert_eq!(names(&outside), [""; 0]);
}

#[test]
fn l_927_recursive_read_only_needs_a_read_only_private_mount() {
    let scene = Scene::new(json!([{"name": "work"}]));
    scene.set_up().unwrap();
    let access = |mount: serde_json::Value| {
        let mut wanted = json!({"name": "work", "mountPath": "/m"});
        wanted.as_object_mut().unwrap().extend(mount.as_object().unwrap().clone());
        scene.mounts(json!([wanted]), &[]).map(|mounts| match &mounts[0].source {
            MountSource::Bind { access, .. } => *access,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(access(json!({"readOnly": true})), Ok(MountAccess::ReadOnly));
    for mode in ["Enabled", "IfPossible"] {
        let wanted = json!({"readOnly": true, "recursiveReadOnly": mode});
        assert_eq!(access(wanted), Ok(MountAccess::RecursiveReadOnly));
    }
    assert_eq!(
        access(json!({"recursiveReadOnly": "Enabled"})),
        Err("failed to resolve recursive read-only mode: volume \"work\" requested recursive read-only mode, but it is not read-only".to_owned())
    );
    assert_eq!(
        access(json!({"recursiveReadOnly": "Enabled", "readOnly": true, "mountPropagation": "HostToContainer"})),
        Err("failed to resolve recursive read-only mode: volume \"work\" requested recursive read-only mode, but it is not compatible with propagation \"HostToContainer\"".to_owned())
    );
}

#[test]
fn l_928_an_image_volume_is_its_layers_and_is_held_while_the_pod_stands() {
    let scene = Scene::new(json!([{"name": "tools", "image": {"reference": "tools:1"}}]));
    assert_eq!(scene.set_up(), Ok(None));
    let mounts = || scene.mounts(json!([{"name": "tools", "mountPath": "/tools", "subPath": "bin"}]), &[]);
    assert_eq!(mounts(), Err("image \"tools:1\" of volume \"tools\" is not present".to_owned()));
    let tar = scene.scratch.path().join("rootfs.tar");
    let mut builder = tar::Builder::new(fs::File::create(&tar).unwrap());
    builder.append_dir("bin", scene.scratch.path()).unwrap();
    builder.finish().unwrap();
    let image = scene.images.load(&tar, Some("tools:1"), &crate::images::Silent).unwrap().remove(0);
    let source = MountSource::Layers {
        lower_directories: scene.images.layer_directories(&image),
        sub_path: Some(PathBuf::from("bin")),
    };
    assert_eq!(mounts(), Ok(vec![MountConfig { destination: PathBuf::from("/tools"), source }]));
    let holders = scene.images.holders().unwrap();
    assert_eq!(holders, BTreeMap::from([("pod 1-2 volume tools".to_owned(), image.id.clone())]));
    scene.volumes().tear_down(&scene.images).unwrap();
    assert_eq!(scene.images.holders().unwrap(), BTreeMap::new());
    assert_eq!(image_volumes(&scene.pod), [("tools".to_owned(), "tools:1".to_owned())]);
}

#[test]
fn tear_down_finds_what_another_agent_left_and_never_touches_what_is_mounted_below() {
    if !can_mount() {
        return;
    }
    let scene = Scene::new(json!([{"name": "memory", "emptyDir": {"medium": "Memory"}}, {"name": "work"}]));
    scene.set_up().unwrap();
    let kept = scene.scratch.path().join("kept");
    fs::create_dir(&kept).unwrap();
    fs::write(kept.join("file"), "x").unwrap();
    // Mounted in and on a volume, twice: by a privileged container with bidirectional mounts, say.
    for target in [scene.volume("empty-dir", "memory").join("inner"), scene.volume("empty-dir", "work")] {
        fs::create_dir_all(&target).unwrap();
        for _ in 0..2 {
            rustix::mount::mount_bind(&kept, &target).unwrap();
        }
    }
    let another_agent = PodVolumes::new(&scene.scratch.path().join("pods/1-2"));
    another_agent.tear_down(&scene.images).unwrap();
    another_agent.tear_down(&scene.images).unwrap();
    assert_eq!(names(&scene.scratch.path().join("pods/1-2")), [""; 0]);
    assert_eq!(names(&kept), ["file"]);
}
