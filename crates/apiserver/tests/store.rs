//! The store's rules, on both backends.

use std::collections::BTreeMap;

use apiserver::store::{Change, Expected, ListQuery, ObjectKey, Store, StoreError, StoreOptions, Write};
use serde_json::{Value, json};

type TestResult = Result<(), Box<dyn std::error::Error>>;

fn key(name: &str) -> ObjectKey {
    ObjectKey { resource: "configmaps".to_owned(), namespace: "default".to_owned(), name: name.to_owned() }
}

fn put(name: &str, data: &str, expected: Expected) -> Write {
    Write::Put { key: key(name), object: json!({"metadata": {"name": name}, "data": data}), expected }
}

fn list_of(store: &Store, at: Option<u64>) -> Result<Vec<(String, String)>, StoreError> {
    let snapshot =
        store.list(ListQuery { resource: "configmaps", namespace: Some("default"), at, ..ListQuery::default() })?;
    let text = |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
    Ok(snapshot.objects.iter().map(|it| (text(&it.object, "/metadata/name"), text(&it.object, "/data"))).collect())
}

#[tokio::test]
async fn every_write_moves_one_revision_counter_and_sets_the_resource_version() -> TestResult {
    let store = Store::in_memory();
    let first = store.write(put("a", "1", Expected::Absent)).await?.into_object();
    let second = store.write(put("b", "1", Expected::Absent)).await?.into_object();
    assert_eq!((first.revision, second.revision, store.revision()), (1, 2, 2));
    assert_eq!(second.object.pointer("/metadata/resourceVersion"), Some(&json!("2")));
    Ok(())
}

#[tokio::test]
async fn a_101_a_write_that_changes_nothing_is_no_write() -> TestResult {
    let store = Store::in_memory();
    store.write(put("a", "1", Expected::Absent)).await?;
    let mut cursor = store.watch("configmaps", 1)?;
    let again = store.write(put("a", "1", Expected::Revision(1))).await?.into_object();
    assert_eq!((again.revision, store.revision(), cursor.poll()?.events), (1, 1, vec![]));
    Ok(())
}

#[tokio::test]
async fn a_write_with_a_stale_expectation_is_refused() -> TestResult {
    let store = Store::in_memory();
    store.write(put("a", "1", Expected::Absent)).await?;
    store.write(put("a", "2", Expected::Revision(1))).await?;
    let stale = store.write(put("a", "3", Expected::Revision(1))).await;
    assert!(matches!(stale, Err(StoreError::Conflict { expected: 1, actual: 2, .. })));
    let taken = store.write(put("a", "3", Expected::Absent)).await;
    assert!(matches!(taken, Err(StoreError::AlreadyExists(_))));
    let missing = store.write(Write::Delete { key: key("b"), revision: 1 }).await;
    assert!(matches!(missing, Err(StoreError::NotFound(_))));
    Ok(())
}

#[tokio::test]
async fn a_73_a_watch_from_a_lists_revision_brings_every_later_change_once() -> TestResult {
    let store = Store::in_memory();
    store.write(put("a", "1", Expected::Absent)).await?;
    let mut cursor = store.watch("configmaps", store.revision())?;
    store.write(put("b", "1", Expected::Absent)).await?;
    store.write(put("b", "2", Expected::Revision(2))).await?;
    store.write(Write::Delete { key: key("b"), revision: 3 }).await?;
    let events = cursor.next().await?.events;
    let seen: Vec<_> = events.iter().map(|event| (event.revision, event.change)).collect();
    assert_eq!(seen, [(2, Change::Added), (3, Change::Modified), (4, Change::Deleted)]);
    let versions: Vec<_> =
        events.iter().map(|event| event.object.pointer("/metadata/resourceVersion").cloned()).collect();
    assert_eq!(versions, [Some(json!("2")), Some(json!("3")), Some(json!("4"))]);
    assert_eq!(cursor.poll()?.events, []);
    Ok(())
}

#[tokio::test]
async fn a_80_a_watch_from_before_the_history_is_compacted() -> TestResult {
    let store = Store::in_memory_with(StoreOptions { history_events: 2 });
    let mut cursor = store.watch("configmaps", 0)?;
    for name in ["a", "b", "c"] {
        store.write(put(name, "1", Expected::Absent)).await?;
    }
    assert!(matches!(store.watch("configmaps", 0), Err(StoreError::Compacted { requested: 0, oldest: 1 })));
    assert!(matches!(cursor.next().await, Err(StoreError::Compacted { .. })));
    assert_eq!(store.watch("configmaps", 1)?.poll()?.events.len(), 2);
    assert!(matches!(store.watch("configmaps", 9), Err(StoreError::Future { requested: 9, current: 3 })));
    Ok(())
}

#[tokio::test]
async fn a_74_a_list_at_a_past_revision_gives_that_state() -> TestResult {
    let store = Store::in_memory();
    store.write(put("a", "1", Expected::Absent)).await?;
    store.write(put("b", "1", Expected::Absent)).await?;
    let past = store.revision();
    store.write(put("a", "2", Expected::Revision(1))).await?;
    store.write(Write::Delete { key: key("b"), revision: 2 }).await?;
    store.write(put("c", "1", Expected::Absent)).await?;
    let pair = |name: &str, data: &str| (name.to_owned(), data.to_owned());
    assert_eq!(list_of(&store, Some(past))?, [pair("a", "1"), pair("b", "1")]);
    assert_eq!(list_of(&store, None)?, [pair("a", "2"), pair("c", "1")]);
    Ok(())
}

#[tokio::test]
async fn an_opened_store_has_what_was_written_and_its_revision() -> TestResult {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store.redb");
    {
        let store = Store::open(&path, StoreOptions::default())?;
        store.write(put("a", "1", Expected::Absent)).await?;
        store.write(put("b", "1", Expected::Absent)).await?;
        store.write(Write::Delete { key: key("b"), revision: 2 }).await?;
    }
    let store = Store::open(&path, StoreOptions::default())?;
    assert_eq!((store.revision(), list_of(&store, None)?), (3, vec![("a".to_owned(), "1".to_owned())]));
    assert_eq!(store.get(&key("a")).map(|stored| stored.revision), Some(1));
    assert!(matches!(store.watch("configmaps", 2), Err(StoreError::Compacted { requested: 2, oldest: 3 })));
    Ok(())
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_with_its_path() -> TestResult {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store.redb");
    std::fs::write(&path, "certainly not a database, whatever its name may say")?;
    let error = Store::open(&path, StoreOptions::default()).err().map(|error| error.to_string());
    assert_eq!(error, Some(format!("the database failed at {}", path.display())));
    Ok(())
}

#[tokio::test]
async fn one_of_many_writers_of_one_name_wins_on_the_disk_too() -> TestResult {
    let directory = tempfile::tempdir()?;
    let store = Store::open(&directory.path().join("store.redb"), StoreOptions::default())?;
    let writers = (0..64).map(|number| {
        let store = store.clone();
        tokio::spawn(async move { store.write(put("a", &number.to_string(), Expected::Absent)).await.is_ok() })
    });
    let mut won = BTreeMap::new();
    for writer in writers.collect::<Vec<_>>() {
        *won.entry(writer.await?).or_insert(0) += 1;
    }
    assert_eq!((won, store.revision()), (BTreeMap::from([(true, 1), (false, 63)]), 1));
    Ok(())
}
