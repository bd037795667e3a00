//! Whole configurations, from a pod and an image that was loaded for the purpose.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use lifecycle::{ContainerRole, PodUid};
use serde_json::{Value, json};

use super::*;
use crate::images::Silent;
use crate::runtime::config::{LinuxResources, SeccompProfile, SecurityConfig, UserConfig};
use crate::volumes::{SourceError, Token, TokenRequest};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// An API without objects.
struct Nothing;

impl VolumeSources for Nothing {
    fn config_map(&self, _: &str, _: &str) -> std::result::Result<Option<Arc<ConfigMap>>, SourceError> {
        Ok(None)
    }

    fn secret(&self, _: &str, _: &str) -> std::result::Result<Option<Arc<Secret>>, SourceError> {
        Ok(None)
    }

    fn service_account_token(&self, _: &TokenRequest<'_>) -> std::result::Result<Token, SourceError> {
        Err(SourceError("no tokens".to_owned()))
    }
}

/// A data directory with one image: a root file system with accounts.
struct Scene {
    directory: tempfile::TempDir,
    images: ImageStore,
}

impl Scene {
    fn new() -> Result<Scene> {
        let directory = tempfile::tempdir()?;
        let archive = directory.path().join("rootfs.tar");
        let mut tar = tar::Builder::new(fs::File::create(&archive)?);
        for (path, content) in [("etc/passwd", "web:x:101:102::/srv:/bin/sh\n"), ("etc/group", "log:x:9:web\n")] {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, path, content.as_bytes())?;
        }
        tar.finish()?;
        let images = ImageStore::open(&directory.path().join("images"))?;
        images.load(&archive, Some("app:1"), &Silent)?;
        Ok(Scene { directory, images })
    }

    fn build(&self, spec: Value) -> Result<std::result::Result<BuiltContainer, BuildError>> {
        let metadata = serde_json::from_value(json!({"name": "p", "namespace": "ns", "uid": "u"}))?;
        let pod = Arc::new(Pod { metadata, spec: Some(serde_json::from_value(spec)?), status: None });
        let reference = PodRef { namespace: "ns".into(), name: "p".into(), uid: PodUid("u".into()) };
        let sandbox = SandboxRecord {
            id: SandboxId("s".into()),
            attempt: 0,
            ready: true,
            host_network: false,
            ips: vec!["127.0.0.1".parse()?],
            created_at: Timestamp::UNIX_EPOCH,
        };
        let request = CreateContainer {
            pod,
            sandbox: sandbox.id.clone(),
            name: "c".into(),
            role: ContainerRole::App,
            attempt: 2,
            image_id: "app:1".into(),
            target: None,
        };
        let environment = Sources { services: Some(Vec::new()), ..Sources::default() };
        let inputs = ContainerInputs {
            request: &request,
            reference: &reference,
            sandbox: &sandbox,
            environment: &environment,
            volumes: &Nothing,
            now: Timestamp::UNIX_EPOCH,
        };
        let (node, dns) = (NodeConfig::new("node"), ClusterDns::default());
        let host = ContainerHost {
            node: &node,
            paths: &DataPaths::new(self.directory.path()),
            images: &self.images,
            memory_bytes: 1 << 30,
            dns: &dns,
            hostname: "node",
        };
        Ok(build_container(&host, &inputs))
    }

    /// The reason and message of what cannot be built.
    fn refused(&self, container: Value) -> Result<(&'static str, String)> {
        let error = self.build(json!({"containers": [container]}))?.err().ok_or("it was built")?;
        Ok((error.reason(), error.to_string()))
    }
}

#[test]
fn a_container_is_put_together_from_pod_and_image() -> Result {
    let scene = Scene::new()?;
    let built = scene.build(json!({
        "hostname": "web", "securityContext": {"runAsUser": 101, "fsGroup": 7},
        "containers": [{"name": "c", "image": "app:1", "command": ["$(RUN)"], "args": ["x"], "workingDir": "/w",
            "env": [{"name": "RUN", "value": "/run"}], "tty": true, "stdin": true, "stdinOnce": true,
            "securityContext": {"readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false},
            "terminationMessagePath": "tmp/message", "terminationMessagePolicy": "FallbackToLogsOnError",
            "resources": {"limits": {"memory": "1Mi"}}}],
    }))??;
    let config = built.config;
    let root = scene.directory.path();
    let id = config.id(&SandboxId("s".into()));
    let image = scene.images.find("app:1")?.ok_or("no image")?;
    assert_eq!(built.image, image.id);
    let layer = root.join("containers").join(id.as_str());
    let rootfs = Rootfs::Overlay {
        lower_directories: scene.images.layer_directories(&image),
        upper_directory: layer.join("upper"),
        work_directory: layer.join("work"),
    };
    assert_eq!((config.rootfs, config.read_only_rootfs), (rootfs, true));
    assert_eq!((config.argv, config.working_directory), (vec!["/run".to_owned(), "x".to_owned()], "/w".to_owned()));
    let env: BTreeMap<String, String> = config.env.into_iter().map(|it| (it.name, it.value)).collect();
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let expected = [("HOME", "/srv"), ("HOSTNAME", "web"), ("PATH", path), ("RUN", "/run"), ("TERM", "xterm")];
    assert_eq!(env, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    assert_eq!(config.user, UserConfig { uid: 101, gid: 102, supplementary_groups: vec![102, 9, 7] });
    assert!(config.security.no_new_privileges);
    assert_eq!(config.security.seccomp, SeccompProfile::RuntimeDefault);
    assert_eq!(config.security.capabilities, SecurityConfig::default_capabilities());
    let resources = LinuxResources {
        cpu_shares: Some(2),
        memory_limit_bytes: Some(1 << 20),
        oom_group: true,
        ..Default::default()
    };
    assert_eq!((config.resources, config.oom_score_adj), (resources, Some(999)));
    assert_eq!((config.tty, config.stdin, config.stdin_once), (true, true, true));
    assert_eq!(config.log_path, Some(root.join("logs/pods/ns_p_u/c/2.log")));
    let message = TerminationMessageConfig {
        container_path: "/tmp/message".into(),
        host_path: Some(root.join("pods/u/containers/c/2")),
        fallback_to_logs_on_error: true,
    };
    assert_eq!(config.termination_message, message);
    Ok(())
}

#[test]
fn what_stands_in_every_container_is_mounted_unless_it_mounts_it_itself() -> Result {
    let scene = Scene::new()?;
    let mount = json!([{"name": "own", "mountPath": "/etc/hosts"}]);
    let built = scene.build(json!({
        "volumes": [{"name": "own", "hostPath": {"path": "/dev/null"}}],
        "containers": [{"name": "c", "command": ["x"], "volumeMounts": mount}],
    }))??;
    let destinations: Vec<String> =
        built.config.mounts.iter().map(|mount| mount.destination.display().to_string()).collect();
    assert_eq!(destinations, ["/etc/hosts", "/etc/resolv.conf", "/etc/hostname", "/dev/termination-log"]);
    let mode = fs::metadata(scene.directory.path().join("pods/u/containers/c/2"))?.permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
    Ok(())
}

#[test]
fn each_fault_has_the_reason_that_a_kubelet_gives() -> Result {
    let scene = Scene::new()?;
    let (config, create) = ("CreateContainerConfigError", "CreateContainerError");
    let cases = [
        (json!({"name": "other"}), config, "container \"c\" is not part of the pod's spec"),
        (json!({"name": "c"}), create, "no command specified"),
        (json!({"name": "c", "envFrom": [{"secretRef": {"name": "gone"}}]}), config, "secret \"gone\" not found"),
        (
            json!({"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
            config,
            "cannot find volume \"v\" to mount into container \"c\"",
        ),
        (
            json!({"name": "c", "securityContext": {"runAsNonRoot": true, "runAsUser": 0}}),
            config,
            "container's runAsUser breaks non-root policy (pod: \"p_ns(u)\", container: c)",
        ),
        (
            json!({"name": "c", "securityContext": {"capabilities": {"add": ["FLY"]}}}),
            create,
            "unknown capability \"FLY\"",
        ),
        (
            json!({"name": "c", "securityContext": {"seccompProfile": {"type": "Localhost"}}}),
            config,
            "localhostProfile must be set if seccompProfile type is Localhost.",
        ),
    ];
    for (container, reason, message) in cases {
        assert_eq!(scene.refused(container)?, (reason, message.to_owned()));
    }
    Ok(())
}
