//! How a run ends: exit codes, time-outs, Ctrl-C, and the forms of its output.

use std::time::{Duration, Instant};

use crate::support::{Place, TestResult, output_of, text};

/// A pod of one container, which runs this shell command.
fn pod(name: &str, rest: &str, command: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: Never\n{rest}  containers:\n  - name: main\n    image: busybox:1.36\n    command: [\"sh\", \"-c\", {}]\n",
        serde_json::Value::from(command)
    )
}

#[test]
fn the_exit_code_of_a_failed_container_is_the_runs() -> TestResult {
    let place = Place::with_images(&["busybox.tar"])?;
    let file = place.write("pod.yaml", &pod("fails", "", "echo working; exit 7"))?;
    let output = place.monopod(&["run", &file])?;
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    place.assert_nothing_left()
}

#[test]
fn quiet_prints_the_output_of_containers_only() -> TestResult {
    let place = Place::with_images(&["busybox.tar"])?;
    let file = place.write("pod.yaml", &pod("speaks", "", "echo out; echo err >&2"))?;
    let output = place.monopod(&["run", "--quiet", &file])?;
    let mut lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["speaks main | err", "speaks main | out"]);
    assert_eq!(text(&output.stderr), "");
    place.assert_nothing_left()
}

#[test]
fn manifests_are_read_from_standard_input() -> TestResult {
    use std::io::Write as _;
    let place = Place::with_images(&["busybox.tar"])?;
    let mut child = place
        .command(&["run", "--no-logs", "-"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    child.stdin.take().ok_or("no stdin")?.write_all(pod("piped", "", "echo hidden").as_bytes())?;
    let output = child.wait_with_output()?;
    assert_eq!(output.status.code(), Some(0));
    assert!(!text(&output.stdout).contains("hidden") && text(&output.stdout).contains("Completed"));
    place.assert_nothing_left()
}

#[test]
fn json_output_is_one_object_per_change() -> TestResult {
    let place = Place::with_images(&["busybox.tar"])?;
    let file = place.write("pod.yaml", &pod("speaks", "", "echo out"))?;
    let output = place.monopod(&["run", "--output", "json", &file])?;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut phases = Vec::new();
    let mut said = Vec::new();
    for line in text(&output.stdout).lines() {
        let change: serde_json::Value = serde_json::from_str(line)?;
        let text =
            |pointer: &str| change.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        match text("/kind").as_str() {
            "Pod" => phases.push(text("/object/status/phase")),
            "Log" => said.push(text("/line")),
            _ => {}
        }
    }
    phases.dedup();
    assert_eq!(
        (phases, said),
        (["Pending", "Running", "Succeeded"].map(str::to_owned).to_vec(), vec!["out".to_owned()])
    );
    place.assert_nothing_left()
}

#[test]
fn a_timeout_ends_the_pods_and_exits_with_124() -> TestResult {
    let place = Place::with_images(&["busybox.tar"])?;
    let command = "trap 'echo asked to stop; exit 0' TERM; sleep 3600 & wait";
    let file = place.write("pod.yaml", &pod("sleeps", "", command))?;
    let (status, lines) = place.start(&["run", "--timeout", "2s", &file])?.end()?;
    assert_eq!(status.code(), Some(124), "{lines:#?}");
    assert_eq!(output_of(&lines, "main"), ["asked to stop"], "{lines:#?}");
    place.assert_nothing_left()
}

#[test]
fn ctrl_c_ends_pods_by_the_rules_and_a_second_one_kills() -> TestResult {
    let place = Place::with_images(&["busybox.tar"])?;
    let command = "trap 'echo not yet' TERM; echo up; while :; do sleep 0.1; done";
    let file = place.write("pod.yaml", &pod("stubborn", "  terminationGracePeriodSeconds: 600\n", command))?;
    let mut run = place.start(&["run", &file])?;
    run.wait_for("stubborn main | up")?;
    let asked = Instant::now();
    run.signal("INT")?;
    run.wait_for("stubborn main | not yet")?;
    run.signal("INT")?;
    let (status, lines) = run.end()?;
    assert_eq!(status.code(), Some(130), "{lines:#?}");
    assert!(asked.elapsed() < Duration::from_secs(30), "{lines:#?}");
    place.assert_nothing_left()
}
