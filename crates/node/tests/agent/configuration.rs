//! What a container finds: environment, user, files, and the words for what is missing.

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::world::{World, described, expect, is_running, shell, state, with};
use crate::{steps, trial};

/// Runs a script to its end in a pod of the given fields and compares its output.
async fn prints(world: &World, name: &str, container: Value, spec: Value, output: &str) -> crate::world::Outcome {
    let spec = with(json!({"restartPolicy": "Never", "containers": [container]}), spec);
    world.create(name, spec)?;
    world.until(name, "over", |pod| state(pod, "app").terminated.is_some()).await?;
    expect(name, world.log(name, "app", 0).await?, output.to_owned())
}

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_container_waits_for_its_config_map_and_starts_when_it_comes", |world| {
            steps!(world, {
                let reference = json!([{"configMapRef": {"name": "settings"}}]);
                let app = with(shell("app", "echo $COLOR; sleep 1000"), json!({"envFrom": reference}));
                world.create("waiting", json!({"containers": [app], "terminationGracePeriodSeconds": 1}))?;
                let told = "waiting CreateContainerConfigError: configmap \"settings\" not found";
                world.until("waiting", "waiting", |pod| described(&state(pod, "app")) == told).await?;
                world.objects.apply_config_map(serde_json::from_value(
                    json!({"metadata": {"name": "settings", "namespace": "default"}, "data": {"COLOR": "red"}}),
                )?);
                world.until("waiting", "running", |pod| is_running(pod, "app")).await?;
            })
        }),
        trial("the_environment_comes_from_every_source", |world| {
            steps!(world, {
                world.objects.apply_config_map(serde_json::from_value(
                    json!({"metadata": {"name": "config"}, "data": {"A": "1", "B": "2"}}),
                )?);
                world.objects.apply_secret(serde_json::from_value(
                    json!({"metadata": {"name": "secret"}, "data": {"KEY": "czNjcjN0"}}),
                )?);
                let env = json!([
                    {"name": "B", "value": "own"},
                    {"name": "BOTH", "value": "$(A)-$(B)-$(NONE)-$$(A)"},
                    {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "KEY"}}},
                    {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
                    {"name": "FILE", "valueFrom": {"fileKeyRef": {"volumeName": "work", "path": "env", "key": "TOLD"}}},
                ]);
                let script = "echo $A $B $BOTH $SECRET $NAME $LABEL $CPU $FILE $FROM_IMAGE $HOSTNAME $HOME $1";
                let mount = json!([{"name": "work", "mountPath": "/work"}]);
                let app = with(
                    shell("app", script),
                    json!({"env": env, "envFrom": [{"configMapRef": {"name": "config"}}], "volumeMounts": mount,
                           "args": ["sh", "arg-$(A)"], "resources": {"limits": {"cpu": "250m"}}}),
                );
                let init = with(shell("init", "echo \"TOLD='by init'\" > /work/env"), json!({"volumeMounts": mount}));
                let spec = json!({"initContainers": [init], "volumes": [{"name": "work", "emptyDir": {}}]});
                let output = "1 own 1-own-$(NONE)-$(A) s3cr3t env env 250 by init 1 env /root arg-1\n";
                prints(&world, "env", app, spec, output).await?;
            })
        }),
        trial("users_and_groups_are_as_asked_for", |world| {
            steps!(world, {
                let id = || shell("app", "id -u; id -g; id -G");
                prints(&world, "root", id(), json!({}), "0\n0\n0\n").await?;
                let context =
                    json!({"runAsUser": 1000, "runAsGroup": 2000, "fsGroup": 3000, "supplementalGroups": [4000]});
                prints(&world, "user", id(), json!({"securityContext": context}), "1000\n2000\n2000 3000 4000\n")
                    .await?;
                let nobody = with(id(), json!({"securityContext": {"runAsUser": 65534}}));
                prints(&world, "nobody", nobody, json!({}), "65534\n65534\n65534\n").await?;
            })
        }),
        trial("a_root_image_is_refused_under_run_as_non_root", |world| {
            steps!(world, {
                let app = with(shell("app", "true"), json!({"securityContext": {"runAsNonRoot": true}}));
                world.create("refused", json!({"containers": [app]}))?;
                let told = "waiting CreateContainerConfigError: container has runAsNonRoot and image will run as root (pod: \"refused_default(uid-refused)\", container: app)";
                world.until("refused", "refused", |pod| described(&state(pod, "app")) == told).await?;
            })
        }),
        trial("privileges_are_as_asked_for", |world| {
            steps!(world, {
                let show =
                    || shell("app", "grep -E 'NoNewPrivs|Seccomp:|CapEff' /proc/self/status | tr -s '\\t\\n' '  '");
                let output = "CapEff: 00000000a80425fb NoNewPrivs: 0 Seccomp: 2 ";
                prints(&world, "plain", show(), json!({}), output).await?;
                let context = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]},
                                     "seccompProfile": {"type": "Unconfined"}});
                let app = with(show(), json!({"securityContext": context}));
                prints(&world, "changed", app, json!({}), "CapEff: 0000000000001000 NoNewPrivs: 1 Seccomp: 0 ").await?;
                let app = with(
                    shell("app", "touch /x 2>&1; touch /tmp/x && echo ok"),
                    json!({
                    "securityContext": {"readOnlyRootFilesystem": true}, "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}),
                );
                let spec = json!({"volumes": [{"name": "tmp", "emptyDir": {}}]});
                prints(&world, "read-only", app, spec, "touch: /x: Read-only file system\nok\n").await?;
            })
        }),
        trial("the_pods_names_stand_in_its_files", |world| {
            steps!(world, {
                let app = shell(
                    "app",
                    "hostname; cat /etc/hostname; tail -n 4 /etc/hosts; cat /etc/resolv.conf; ping -c 1 -q localhost > /dev/null && echo pong",
                );
                let spec = json!({
                    "hostname": "web", "subdomain": "sub",
                    "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a", "b"]}],
                    "dnsPolicy": "None", "dnsConfig": {"nameservers": ["9.9.9.9"], "searches": ["lan"]},
                });
                let output = "web\nweb\n127.0.0.1\tweb.sub.default.svc.cluster.local\tweb\n\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\nsearch lan\nnameserver 9.9.9.9\npong\n";
                prints(&world, "names", app, spec, output).await?;
            })
        }),
        trial("a_working_directory_is_made_and_entered", |world| {
            steps!(world, {
                let app = with(shell("app", "pwd"), json!({"workingDir": "/srv/deep"}));
                prints(&world, "directory", app, json!({}), "/srv/deep\n").await?;
            })
        }),
        trial("a_program_that_is_not_there_is_told", |world| {
            steps!(world, {
                let app = with(shell("app", ""), json!({"command": ["/no/such/program"]}));
                world.create("missing", json!({"restartPolicy": "Never", "containers": [app]}))?;
                let pod = world.until_phase("missing", "Failed").await?;
                expect("state", described(&state(&pod, "app")), "exited 128 StartError".to_owned())?;
            })
        }),
    ]
}
