//! A real export: PostgreSQL, PgBouncer as the native sidecar, pg_dump through it.

use crate::support::{Place, TestResult, example, postgres_images, read_all};

#[test]
fn a_database_is_exported_through_a_pooler_and_the_job_completes() -> TestResult {
    let place = Place::empty()?;
    for archive in ["postgres.tar", "pgbouncer.tar", "postgres-client.tar"] {
        place.load(&postgres_images()?.join(archive))?;
    }
    let export = place.path().join("export");
    let manifest = read_all(example("postgres-export.yaml").as_ref())?;
    let manifest = manifest.replace("/tmp/monopod-export", export.to_str().ok_or("a path that is no text")?);
    let file = place.write("export.yaml", &manifest)?;
    let (status, lines) = place.start(&["run", "--timeout", "100s", &file])?.end()?;
    assert_eq!(status.code(), Some(0), "{lines:#?}");
    let dump = read_all(&export.join("shop.sql"))?;
    let rows = dump.lines().filter(|line| line.contains("\titem ")).count();
    assert_eq!(rows, 10_000);
    assert!(dump.contains("-- PostgreSQL database dump complete"), "the dump is cut");
    place.assert_nothing_left()
}
