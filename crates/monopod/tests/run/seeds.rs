//! The example manifests behave as Kubernetes has them behave.

use crate::support::{Place, TestResult, example, output_of, statuses};

#[test]
fn a_job_with_a_native_sidecar_completes() -> TestResult {
    let place = Place::with_images(&["proxy.tar", "exporter.tar"])?;
    let (status, lines) = place.start(&["run", "--pull", "missing", &example("export-native.yaml")])?.end()?;
    assert_eq!(status.code(), Some(0), "{lines:#?}");
    assert_eq!(statuses(&lines, "export-").last().map(String::as_str), Some("0/2 Completed"), "{lines:#?}");
    assert_eq!(
        output_of(&lines, "db-proxy"),
        ["proxy: ready for connections", "proxy: got SIGTERM, shutting down"],
        "{lines:#?}"
    );
    place.assert_nothing_left()
}

#[test]
fn a_native_sidecar_with_a_startup_probe_shows_the_statuses_of_kubernetes() -> TestResult {
    let place = Place::with_images(&["main.tar", "gce-proxy-1.33.13.tar"])?;
    let (status, lines) = place.start(&["run", &example("sidecar-test-native.yaml")])?.end()?;
    assert_eq!(status.code(), Some(0), "{lines:#?}");
    let mut seen = statuses(&lines, "sidecar-test-");
    seen.retain(|line| line != "0/2 Pending");
    assert_eq!(
        seen,
        ["0/2 Init:0/1", "0/2 PodInitializing", "1/2 PodInitializing", "2/2 Running", "1/2 Completed", "0/2 Completed"],
        "{lines:#?}"
    );
    assert_eq!(output_of(&lines, "main"), ["main: working", "main: done"]);
    place.assert_nothing_left()
}

#[test]
fn a_job_that_waits_for_a_proxy_is_explained_within_five_seconds() -> TestResult {
    let place = Place::with_images(&["proxy.tar", "exporter.tar"])?;
    let mut run = place.start(&["run", "--pull", "missing", &example("export-legacy.yaml")])?;
    run.wait_for("1/2     NotReady")?;
    let waited = run.wait_for("Job `export` can't end")?;
    assert!(waited.as_secs() < 5, "{waited:?}");
    run.wait_for("restartPolicy: Always")?;
    run.signal("INT")?;
    let (status, lines) = run.end()?;
    assert_eq!(status.code(), Some(130), "{lines:#?}");
    place.assert_nothing_left()
}

#[test]
fn the_flag_file_way_completes_as_written() -> TestResult {
    completes("sidecar-test-flagfile.yaml", "gce-proxy-1.33.13-alpine.tar")
}

#[test]
fn the_quit_endpoint_way_completes_as_written() -> TestResult {
    completes("sidecar-test-quitquitquit.yaml", "cloud-sql-proxy-2.7.2-alpine.tar")
}

fn completes(manifest: &str, proxy: &str) -> TestResult {
    let place = Place::with_images(&["main.tar", proxy])?;
    let (status, lines) = place.start(&["run", &example(manifest)])?.end()?;
    assert_eq!(status.code(), Some(0), "{lines:#?}");
    let main = output_of(&lines, "main");
    assert!(
        main.ends_with(&["main: working".to_owned(), "main: done".to_owned()])
            || main.contains(&"main: done".to_owned())
    );
    assert_eq!(statuses(&lines, "sidecar-test-").last().map(String::as_str), Some("0/2 Completed"), "{lines:#?}");
    place.assert_nothing_left()
}

#[test]
fn files_that_init_containers_write_are_read_by_the_app() -> TestResult {
    let place = Place::with_images(&["nginx.tar"])?;
    let mut run = place.start(&["run", &example("init-demo.yaml")])?;
    run.wait_for("init-demo init-data | init done")?;
    run.wait_for("init-demo app | init data")?;
    run.kill_pods()?;
    let mut run = place.start(&["run", &example("init-steps.yaml")])?;
    run.wait_for("init-steps app | step1")?;
    run.wait_for("init-steps app | step2")?;
    run.kill_pods()?;
    place.assert_nothing_left()
}

#[test]
fn a_log_reader_shows_what_the_app_writes() -> TestResult {
    let place = Place::with_images(&["nginx.tar"])?;
    let mut run = place.start(&["run", &example("sidecar-demo.yaml")])?;
    run.wait_for("sidecar-demo log-reader | request")?;
    run.kill_pods()?;
    place.assert_nothing_left()
}
