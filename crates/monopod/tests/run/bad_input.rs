//! Bad input gives one clear error that names file, line, field and remedy, and leaves nothing behind.

use crate::support::{Place, TestResult, text};

/// Runs a manifest that can't be taken; every one of `wanted` must be in what is said on stderr.
fn check(manifest: &str, wanted: &[&str]) -> TestResult {
    let place = Place::empty()?;
    let file = place.write("pod.yaml", manifest)?;
    let output = place.monopod(&["run", &file])?;
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in wanted {
        assert!(said.contains(part), "no `{part}` in:\n{said}");
    }
    assert!(!said.contains("panicked") && !said.contains("stack backtrace"), "{said}");
    assert_eq!(text(&output.stdout), "");
    place.assert_nothing_left()
}

#[test]
fn an_empty_file_holds_nothing_to_run() -> TestResult {
    check("", &["pod.yaml", "hint"])
}

#[test]
fn broken_yaml_is_shown_with_its_line() -> TestResult {
    check("apiVersion: v1\nkind: Pod\nmetadata: {name: a\nspec: {}\n", &["pod.yaml:", "hint"])
}

#[test]
fn a_tab_is_named_as_such() -> TestResult {
    check("apiVersion: v1\nkind: Pod\nmetadata:\n\tname: a\n", &["pod.yaml:4", "tab"])
}

#[test]
fn an_unknown_kind_is_refused() -> TestResult {
    check("apiVersion: v1\nkind: Pood\nmetadata: {name: a}\n", &["pod.yaml:2", "Pood", "Pod"])
}

#[test]
fn an_unknown_field_is_refused_with_the_nearest_known_name() -> TestResult {
    let manifest =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - {name: a, image: b, comand: [x]}\n";
    check(manifest, &["pod.yaml:6", "comand", "command"])
}

#[test]
fn a_wrong_value_is_shown_with_its_field() -> TestResult {
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  restartPolicy: Sometimes\n  containers:\n  - {name: a, image: b}\n";
    check(manifest, &["pod.yaml:5", "spec.restartPolicy", "Unsupported value: \"Sometimes\""])
}

#[test]
fn two_pods_of_one_name_are_refused() -> TestResult {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: twin}\nspec: {containers: [{name: a, image: b}]}\n";
    check(&format!("{pod}---\n{pod}"), &["pod.yaml:8", "twin", "pod.yaml:3"])
}

#[test]
fn a_file_that_is_not_there_is_named() -> TestResult {
    let place = Place::empty()?;
    let output = place.monopod(&["run", "/nowhere/pod.yaml"])?;
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/nowhere/pod.yaml"), "{}", text(&output.stderr));
    Ok(())
}

#[test]
fn an_image_that_must_be_pulled_says_the_two_ways_out() -> TestResult {
    let place = Place::with_images(&["proxy.tar"])?;
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: puller}\nspec: {restartPolicy: Never, containers: [{name: a, image: cloud-sql-proxy}]}\n";
    let mut run = place.start(&["run", &place.write("pod.yaml", manifest)?])?;
    run.wait_for("Failed to pull image")?;
    run.wait_for("--pull missing")?;
    run.wait_for("ErrImagePull")?;
    run.signal("INT")?;
    assert_eq!(run.end()?.0.code(), Some(130));
    place.assert_nothing_left()
}

#[test]
fn without_root_the_error_says_so() -> TestResult {
    let place = Place::empty()?;
    let file = place.write(
        "pod.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: b}]}\n",
    )?;
    // The test's own directory is root's: give the data directory and the program to everybody.
    std::os::unix::fs::chown(place.path(), Some(65534), Some(65534))?;
    let program = place.path().join("monopod");
    std::fs::copy(env!("CARGO_BIN_EXE_monopod"), &program)?;
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(&program)
        .args(["run", "--data-dir"])
        .arg(place.path().join("data"))
        .arg(&file)
        .output()?;
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("root") && said.contains("hint"), "{said}");
    Ok(())
}
