//! Many objects and many watchers.

use apiserver::{ListOptions, Registry, ResourceType, Store, Watch, WatchEvent, WatchOptions, WriteOptions};
use serde_json::json;

use crate::support::Failure;

const OBJECTS: usize = 2_000;
const WATCHERS: usize = 500;
const PAGE: usize = 500;

/// Reads a watch until it has told of so many objects.
async fn told(mut watch: Watch, count: usize) -> Result<usize, Failure> {
    let mut seen = 0;
    while seen < count {
        match watch.next().await? {
            WatchEvent::Added(_) => seen += 1,
            other => return Err(format!("{other:?} was not expected").into()),
        }
    }
    Ok(seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_watchers_from_the_middle_miss_nothing() -> Result<(), Failure> {
    let registry = Registry::new(Store::in_memory(), std::sync::Arc::new(jiff::Timestamp::now));
    registry.bootstrap().await?;
    let config_maps = ResourceType::find("", "v1", "configmaps").ok_or("config maps are not served")?;
    let create = async |number: usize| {
        let object = json!({"metadata": {"name": format!("c-{number:05}")}, "data": {"key": "value"}});
        registry.create(config_maps, "default", object, &WriteOptions::default()).await
    };
    for number in 0..OBJECTS / 2 {
        create(number).await?;
    }
    let middle = Some(registry.revision());
    let watch = || {
        let options = WatchOptions { resource_version: middle, ..WatchOptions::default() };
        registry.watch(config_maps, Some("default"), options)
    };
    let mut watchers = tokio::task::JoinSet::new();
    for _ in 0..WATCHERS {
        watchers.spawn(told(watch()?, OBJECTS / 2));
    }
    for number in OBJECTS / 2..OBJECTS {
        create(number).await?;
    }
    while let Some(watcher) = watchers.join_next().await {
        assert_eq!(watcher??, OBJECTS / 2);
    }
    let (mut listed, mut continue_token) = (0, None);
    loop {
        let options = ListOptions { limit: Some(PAGE), continue_token, ..ListOptions::default() };
        let page = registry.list(config_maps, None, &options)?;
        listed += page.objects.len();
        continue_token = page.continue_token;
        if continue_token.is_none() {
            break;
        }
    }
    assert_eq!(listed, OBJECTS);
    Ok(())
}
