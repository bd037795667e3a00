//! The real kubectl against a real server: what people type, and what they see.
//!
//! Each test prints `skipped: ...` and passes where there is no kubectl.

use std::process::Output;

use crate::support::{Failure, TestServer};

type TestResult = Result<(), Failure>;

/// Where a kubectl is looked for besides the path: another version can be named here.
const KUBECTL: &str = "MONOPOD_KUBECTL";

/// A server and a kubectl that talks to it.
struct Shell {
    server: TestServer,
    kubectl: String,
}

/// What a command printed.
#[derive(Debug, PartialEq)]
struct Printed {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Shell {
    /// `None`, with a word about it, where there is no kubectl.
    async fn open() -> Result<Option<Self>, Failure> {
        let kubectl = std::env::var(KUBECTL).unwrap_or_else(|_| "kubectl".to_owned());
        let probe = std::process::Command::new(&kubectl).args(["version", "--client"]).output();
        if !probe.is_ok_and(|output| output.status.success()) {
            crate::support::say(&format!("skipped: there is no {kubectl}"));
            return Ok(None);
        }
        Ok(Some(Self { server: TestServer::start().await?, kubectl }))
    }

    /// Runs a command line (words are divided by single spaces) with something on its standard input.
    async fn run_with(&self, line: &str, variables: &[(&str, &str)], input: &str) -> Result<Printed, Failure> {
        let mut command = std::process::Command::new("timeout");
        command.arg("60").arg(&self.kubectl).args(line.split(' '));
        command.env("KUBECONFIG", &self.server.kubeconfig).env("HOME", self.server.directory.path());
        command.envs(variables.iter().copied());
        command
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let input = input.to_owned();
        let output = tokio::task::spawn_blocking(move || -> std::io::Result<Output> {
            use std::io::Write as _;
            let mut child = command.spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                stdin.write_all(input.as_bytes())?;
            }
            child.wait_with_output()
        });
        let output = output.await??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Printed { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) })
    }

    /// What a command that succeeds prints.
    async fn run(&self, line: &str) -> Result<String, Failure> {
        let printed = self.run_with(line, &[], "").await?;
        if printed.code != Some(0) {
            return Err(format!("kubectl {line}: {printed:?}").into());
        }
        Ok(printed.stdout)
    }

    /// A pod that is bound to a node.
    async fn bound_pod(&self, name: &str) -> TestResult {
        self.run(&format!("run {name} --image=busybox")).await?;
        self.server.registry.bind("default", name, None, "here").await?;
        Ok(())
    }
}

/// Collapses runs of spaces, so that widths of columns say nothing.
fn words(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

const JOB: &str = r#"
apiVersion: batch/v1
kind: Job
metadata: {name: export}
spec:
  backoffLimit: 1
  template:
    spec:
      restartPolicy: Never
      initContainers:
      - {name: proxy, image: "proxy:1", restartPolicy: Always}
      containers:
      - {name: main, image: "main:1"}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn apply_creates_then_changes_then_leaves_alone() -> TestResult {
    let Some(shell) = Shell::open().await? else { return Ok(()) };
    let apply = async |manifest: &str| shell.run_with("apply -f -", &[], manifest).await;
    assert_eq!(apply(JOB).await?.stdout, "job.batch/export created\n");
    assert_eq!(apply(JOB).await?.stdout, "job.batch/export unchanged\n");
    let changed = JOB.replace("backoffLimit: 1", "backoffLimit: 2");
    assert_eq!(apply(&changed).await?.stdout, "job.batch/export configured\n");
    let limit = shell.run("get job export -o jsonpath={.spec.backoffLimit}").await?;
    let names = shell.run("get job export -o jsonpath={.spec.template.spec.containers[*].name}").await?;
    assert_eq!((limit.as_str(), names.as_str()), ("2", "main"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_122_server_side_apply_migrates_conflicts_and_is_forced() -> TestResult {
    let Some(shell) = Shell::open().await? else { return Ok(()) };
    let run = async |line: &str, manifest: &str| shell.run_with(line, &[], manifest).await;
    run("apply -f -", JOB).await?;
    let migrated = run("apply --server-side -f -", JOB).await?;
    assert_eq!((migrated.stdout.as_str(), migrated.stderr.as_str()), ("job.batch/export serverside-applied\n", ""));
    let changed = JOB.replace("backoffLimit: 1", "backoffLimit: 3");
    let refused = run("apply --server-side --field-manager=other -f -", &changed).await?;
    assert!(
        refused
            .stderr
            .contains("Apply failed with 1 conflict: conflict with \"kubectl\" using batch/v1: .spec.backoffLimit"),
        "{refused:?}"
    );
    let forced = run("apply --server-side --field-manager=other --force-conflicts -f -", &changed).await?;
    assert_eq!(forced.stdout, "job.batch/export serverside-applied\n");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_147_a_typo_is_refused_before_anything_is_stored() -> TestResult {
    let Some(shell) = Shell::open().await? else { return Ok(()) };
    let typo = JOB.replace("image: \"main:1\"", "imag: \"main:1\"");
    let refused = shell.run_with("apply -f -", &[], &typo).await?;
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("unknown field \"spec.template.spec.containers[0].imag\""), "{refused:?}");
    assert_eq!(shell.run("get jobs -o name").await?, "");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_28_lists_and_several_documents_are_applied() -> TestResult {
    let Some(shell) = Shell::open().await? else { return Ok(()) };
    let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: v1, kind: Secret, metadata: {name: b}}\n";
    let applied = shell.run_with("apply -f -", &[], list).await?;
    assert_eq!(applied.stdout, "configmap/a created\nsecret/b created\n");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_34_generators_send_protobuf() -> TestResult {
    let Some(shell) = Shell::open().await? else { return Ok(()) };
    for (line, printed) in [
        ("create configmap c --from-literal=a=b", "configmap/c created\n"),
        ("create secret generic s --from-literal=a=b", "secret/s created\n"),
        ("create namespace n", "namespace/n created\n"),
        ("create job j --image=busybox -- echo hi", "job.batch/j created\n"),
        ("create cronjob k --image=busybox --schedule=@hourly -- true", "cronjob.batch/k created\n"),
        ("create serviceaccount sa", "serviceaccount/sa created\n"),
        ("create role r --verb=get --resource=pods", "role.rbac.authorization.k8s.io/r created\n"),
    ] {
        let got = shell.run_with(line, &[], "").await?;
        assert_eq!((got.code, got.stdout.as_str()), (Some(0), printed), "{line}: {}", got.stderr);
    }
    let value = shell.run("get secret s -o jsonpath={.data.a}").await?;
    let command = shell.run("get job j -o jsonpath={.spec.template.spec.containers[0].command}").await?;
    assert_eq!((value.as_str(), command.as_str()), ("Yg==", "[\"echo\",\"hi\"]"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn get_shows_kubernetes_own_columns() -> TestResult {
    let Some(shell) = Shell::open().await? else { return Ok(()) };
    shell.bound_pod("p").await?;
    let pods = words(&shell.run("get pods").await?);
    assert_eq!(pods.first().map(String::as_str), Some("NAME READY STATUS RESTARTS AGE"));
    assert!(pods.get(1).is_some_and(|row| row.starts_with("p 0/1 Pending 0 ")), "{pods:?}");
    let all = words(&shell.run("get pods -A --show-labels").await?);
    assert!(
        all.get(1).is_some_and(|row| row.starts_with("default p 0/1 Pending 0 ") && row.ends_with(" run=p")),
        "{all:?}"
    );
    let namespaces = words(&shell.run("get namespaces").await?);
    assert!(namespaces.get(1).is_some_and(|row| row.starts_with("default Active ")), "{namespaces:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn describe_shows_the_pod_its_init_containers_and_its_events() -> TestResult {
    let Some(shell) = Shell::open().await? else { return Ok(()) };
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  initContainers: [{name: i, image: busybox}]\n  containers: [{name: c, image: busybox}]\n";
    shell.run_with("apply -f -", &[], pod).await?;
    let uid = shell.run("get pod p -o jsonpath={.metadata.uid}").await?;
    let event = format!(
        "apiVersion: v1\nkind: Event\nmetadata: {{name: p.1}}\ninvolvedObject: {{apiVersion: v1, kind: Pod, name: p, namespace: default, uid: {uid}}}\nreason: Pulling\nmessage: Pulling image\ntype: Normal\nsource: {{component: kubelet}}\ncount: 1\nfirstTimestamp: \"2026-01-01T00:00:00Z\"\nlastTimestamp: \"2026-01-01T00:00:00Z\"\n"
    );
    shell.run_with("create -f -", &[], &event).await?;
    let described = shell.run("describe pod p").await?;
    for part in ["Init Containers:\n  i:\n", "Containers:\n  c:\n", "QoS Class:", "Pulling image"] {
        assert!(described.contains(part), "{part} is not in {described}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_29_explain_tells_descriptions() -> TestResult {
    let Some(shell) = Shell::open().await? else { return Ok(()) };
    let explained = shell.run("explain pod.spec.restartPolicy").await?;
    assert!(explained.contains("FIELD: restartPolicy <string>"), "{explained}");
    assert!(explained.contains("Restart policy for all containers within the pod"), "{explained}");
    assert!(shell.run("explain job.spec").await?.contains("backoffLimit"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn exec_carries_streams_and_exit_codes_over_both_transports() -> TestResult {
    let Some(shell) = Shell::open().await? else { return Ok(()) };
    shell.bound_pod("p").await?;
    for websockets in ["true", "false"] {
        let variables = [("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets)];
        let run = async |line: &str, input: &str| shell.run_with(line, &variables, input).await;
        let echo = run("exec p -- echo hi there", "").await?;
        assert_eq!((echo.code, echo.stdout.as_str(), echo.stderr.as_str()), (Some(0), "hi there\n", "said\n"));
        let failed = run("exec p -- exit 7", "").await?;
        assert_eq!((failed.code, failed.stderr.as_str()), (Some(7), "command terminated with exit code 7\n"));
        let sent = "line\n".repeat(50_000);
        let cat = run("exec -i p -- cat", &sent).await?;
        assert!(cat.code == Some(0) && cat.stdout == sent, "{} of {} bytes came back", cat.stdout.len(), sent.len());
        let broken = run("exec p -- nonsense", "").await?;
        assert!(broken.code == Some(1) && broken.stderr.contains("no such command"), "{broken:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_221_what_is_wrong_with_an_exec_is_told_as_a_status() -> TestResult {
    let Some(shell) = Shell::open().await? else { return Ok(()) };
    shell.run("run p --image=busybox").await?;
    let unscheduled = shell.run_with("exec p -- echo", &[], "").await?;
    assert!(unscheduled.stderr.contains("pod p does not have a host assigned"), "{unscheduled:?}");
    let missing = shell.run_with("exec q -- echo", &[], "").await?;
    assert!(missing.stderr.contains("pods \"q\" not found"), "{missing:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_those_of_the_container() -> TestResult {
    let Some(shell) = Shell::open().await? else { return Ok(()) };
    shell.bound_pod("p").await?;
    assert_eq!(shell.run("logs p --tail=2").await?, "p line 4\np line 5\n");
    let wrong = shell.run_with("logs p -c x", &[], "").await?;
    assert!(wrong.stderr.contains("container x is not valid for pod p"), "{wrong:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_and_delete_end_when_the_object_is_gone() -> TestResult {
    let Some(shell) = Shell::open().await? else { return Ok(()) };
    shell.run("run p --image=busybox").await?;
    // From 1.33 on kubectl names the namespace too.
    let deleted = shell.run("delete pod p").await?;
    assert!(deleted.starts_with("pod \"p\" deleted"), "{deleted}");
    shell.run("run q --image=busybox").await?;
    let waiting = shell.run("wait --for=delete pod/q --timeout=30s");
    let deleting = shell.run("delete pod q --wait=false");
    let (waited, deleted) = tokio::join!(waiting, deleting);
    deleted?;
    waited?;
    let label = shell.run("get pods -o name").await?;
    assert_eq!(label, "");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_200_a_service_account_sees_what_its_roles_allow() -> TestResult {
    let Some(shell) = Shell::open().await? else { return Ok(()) };
    let token = shell.run("create token default").await?;
    let line = |verb: &str| {
        format!(
            "--token={} --kubeconfig=/dev/null --server=https://{} --insecure-skip-tls-verify {verb}",
            token.trim(),
            shell.server.address
        )
    };
    let refused = shell.run_with(&line("get pods"), &[], "").await?;
    let text = "pods is forbidden: User \"system:serviceaccount:default:default\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"";
    assert!(refused.stderr.contains(text), "{refused:?}");
    shell.run("create rolebinding b --clusterrole=view --serviceaccount=default:default").await?;
    assert_eq!(shell.run(&line("get pods -o name")).await?, "");
    let whoami = shell.run(&line("auth whoami -o jsonpath={.status.userInfo.username}")).await?;
    assert_eq!(whoami, "system:serviceaccount:default:default");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn port_forward_reaches_the_pod_over_both_transports() -> TestResult {
    let Some(shell) = Shell::open().await? else { return Ok(()) };
    shell.bound_pod("p").await?;
    for websockets in ["true", "false"] {
        let echoed = crate::support::forward_and_echo(&shell.kubectl, &shell.server, websockets).await?;
        assert_eq!(echoed, "hello through the tunnel", "websockets: {websockets}");
    }
    Ok(())
}
