//! What a run that was killed leaves behind, and who takes it away.

use crate::support::{Place, TestResult, text};

const SLEEPER: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: sleeper}\nspec:\n  containers:\n  - name: main\n    image: busybox:1.36\n    command: [\"sh\", \"-c\", \"echo up; exec sleep 3600\"]\n    volumeMounts: [{name: memory, mountPath: /memory}]\n  volumes: [{name: memory, emptyDir: {medium: Memory}}]\n";
const QUICK: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: quick}\nspec:\n  restartPolicy: Never\n  containers:\n  - {name: main, image: \"busybox:1.36\", command: [\"true\"]}\n";

#[test]
fn the_next_run_takes_away_what_a_killed_one_left() -> TestResult {
    let place = Place::with_images(&["busybox.tar"])?;
    let mut killed = place.start(&["run", &place.write("sleeper.yaml", SLEEPER)?])?;
    killed.wait_for("sleeper main | up")?;
    killed.signal("KILL")?;
    killed.end()?;
    let output = place.monopod(&["run", &place.write("quick.yaml", QUICK)?])?;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    place.assert_nothing_left()
}

#[test]
fn reset_takes_everything_away() -> TestResult {
    let place = Place::with_images(&["busybox.tar"])?;
    let mut killed = place.start(&["run", &place.write("sleeper.yaml", SLEEPER)?])?;
    killed.wait_for("sleeper main | up")?;
    killed.signal("KILL")?;
    killed.end()?;
    let output = place.monopod(&["reset", "--yes"])?;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    place.assert_nothing_left()?;
    assert!(!place.data_dir().exists());
    Ok(())
}

#[test]
fn two_data_directories_and_two_runs_work_side_by_side() -> TestResult {
    let (left, right) = (Place::with_images(&["busybox.tar"])?, Place::with_images(&["busybox.tar"])?);
    let mut runs = Vec::new();
    for place in [&left, &left, &right] {
        let mut run = place.start(&["run", &place.write("sleeper.yaml", SLEEPER)?])?;
        run.wait_for("sleeper main | up")?;
        runs.push(run);
    }
    for run in runs {
        run.kill_pods()?;
    }
    left.assert_nothing_left()?;
    right.assert_nothing_left()
}
