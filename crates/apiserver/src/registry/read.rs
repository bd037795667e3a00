//! Reading: one object, a list of them, and a watch.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use super::{Registry, Selection, laws};
use crate::error::ApiError;
use crate::resource::ResourceType;
use crate::store::{Change, Cursor, Event, ListQuery, StoreError};

/// How a list relates to the revision given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionMatch {
    /// At least as new.
    #[default]
    NotOlderThan,
    /// Exactly that state.
    Exact,
}

/// What a list is to give.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Which objects.
    pub selection: Selection,
    /// At most so many at once; all if absent.
    pub limit: Option<usize>,
    /// The `continue` of the page before.
    pub continue_token: Option<String>,
    /// The revision to relate to; the newest state if absent.
    pub resource_version: Option<u64>,
    /// How to relate to it.
    pub version_match: VersionMatch,
}

impl ListOptions {
    /// Every object that is selected, now.
    pub fn select(selection: Selection) -> Self {
        Self { selection, ..Self::default() }
    }
}

/// Objects, all of one revision.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// The revision: a watch from here misses nothing.
    pub revision: u64,
    /// The objects, by namespace and name.
    pub objects: Vec<Arc<Value>>,
    /// Asks for the next page, if there is one.
    pub continue_token: Option<String>,
    /// How many follow, where that is known.
    pub remaining: Option<usize>,
}

/// What a watch is to tell.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// Which objects.
    pub selection: Selection,
    /// Every change after this revision. Absent or 0: first an `Added` for every object that is there.
    pub resource_version: Option<u64>,
    /// True to get an `Added` for every object at a state at least as new as `resource_version` and then
    /// [`WatchEvent::InitialEnd`].
    pub send_initial_events: bool,
}

/// What a watch tells.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent {
    /// An object is there, or begins to match.
    Added(Arc<Value>),
    /// An object has changed.
    Modified(Arc<Value>),
    /// An object is gone, or no longer matches.
    Deleted(Arc<Value>),
    /// Every object that was there at the beginning has been told; the state was that of this revision.
    InitialEnd(u64),
}

impl Registry {
    /// One object. Fails with 404 if it is not there.
    pub fn get(&self, resource: &ResourceType, namespace: &str, name: &str) -> Result<Arc<Value>, ApiError> {
        Ok(laws::from_storage(resource, self.stored(resource, namespace, name)?.object))
    }

    /// Objects of one namespace, or of all.
    ///
    /// Fails with 410 if the revision or the page asked for is not kept any more, 504 if it has not happened yet.
    pub fn list(
        &self,
        resource: &ResourceType,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<List, ApiError> {
        let from = options.continue_token.as_deref().map(PageStart::parse).transpose()?;
        let at = match (&from, options.version_match, options.resource_version) {
            (Some(from), _, _) => Some(from.revision),
            (None, VersionMatch::Exact, at) => at,
            (None, VersionMatch::NotOlderThan, at) => {
                self.check_happened(resource, at.unwrap_or(0))?;
                None
            }
        };
        let storage = resource.storage();
        let after = from.as_ref().map(|from| (from.namespace.as_str(), from.name.as_str()));
        let query = ListQuery { resource: &storage, namespace, after, at };
        let snapshot = self.store.list(query).map_err(|error| list_error(&error, resource, options))?;
        let selected = snapshot.objects.into_iter().map(|stored| laws::from_storage(resource, stored.object));
        let selected: Vec<_> = selected.filter(|object| options.selection.matches(object)).collect();
        Ok(cut_page(selected, snapshot.revision, options))
    }

    /// Tells every change to the objects of a resource, in one namespace or in all.
    ///
    /// Fails with 410 if the history does not reach back to the revision given.
    pub fn watch(
        &self,
        resource: &'static ResourceType,
        namespace: Option<&str>,
        options: WatchOptions,
    ) -> Result<Watch, ApiError> {
        let error = |error: StoreError| ApiError::from_store(&error, resource, "");
        let from = options.resource_version.unwrap_or(0);
        let initial = options.send_initial_events || from == 0;
        self.check_happened(resource, from)?;
        let mut queue = VecDeque::new();
        let after = if initial {
            let list = self.list(resource, namespace, &ListOptions::select(options.selection.clone()))?;
            queue.extend(list.objects.into_iter().map(WatchEvent::Added));
            if options.send_initial_events {
                queue.push_back(WatchEvent::InitialEnd(list.revision));
            }
            list.revision
        } else {
            from
        };
        let cursor = self.store.watch(&resource.storage(), after).map_err(error)?;
        let namespace = namespace.map(str::to_owned);
        Ok(Watch { resource, namespace, selection: options.selection, cursor, queue })
    }

    fn check_happened(&self, resource: &ResourceType, revision: u64) -> Result<(), ApiError> {
        let current = self.store.revision();
        if revision <= current {
            return Ok(());
        }
        Err(ApiError::from_store(&StoreError::Future { requested: revision, current }, resource, ""))
    }
}

/// A watch. Dropping it ends it.
pub struct Watch {
    resource: &'static ResourceType,
    namespace: Option<String>,
    selection: Selection,
    cursor: Cursor,
    queue: VecDeque<WatchEvent>,
}

impl Watch {
    /// The next event; waits for it. Cancelling the wait loses nothing.
    ///
    /// Fails with 410 if the watch fell behind what is kept; it has ended then.
    pub async fn next(&mut self) -> Result<WatchEvent, ApiError> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Ok(event);
            }
            let progress = self.cursor.next().await.map_err(|error| ApiError::from_store(&error, self.resource, ""))?;
            self.take(&progress.events);
        }
    }

    /// The next event if there is one, without waiting.
    ///
    /// Fails as [`Watch::next`] does.
    pub fn try_next(&mut self) -> Result<Option<WatchEvent>, ApiError> {
        if self.queue.is_empty() {
            let progress = self.cursor.poll().map_err(|error| ApiError::from_store(&error, self.resource, ""))?;
            self.take(&progress.events);
        }
        Ok(self.queue.pop_front())
    }

    /// Everything up to this revision has been told, provided that [`Watch::try_next`] gave nothing: for bookmarks.
    pub fn revision(&self) -> u64 {
        self.cursor.revision()
    }

    /// The watch as a stream that ends after the first error.
    pub fn into_stream(self) -> impl futures::Stream<Item = Result<WatchEvent, ApiError>> + Send {
        futures::stream::unfold(Some(self), |watch| async move {
            let mut watch = watch?;
            match watch.next().await {
                Ok(event) => Some((Ok(event), Some(watch))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    fn take(&mut self, events: &[Arc<Event>]) {
        for event in events {
            if self.namespace.as_ref().is_none_or(|namespace| *namespace == event.key.namespace) {
                self.queue.extend(self.translate(event));
            }
        }
    }

    /// What an event is to this watch, by whether the object matched before and matches after.
    fn translate(&self, event: &Event) -> Option<WatchEvent> {
        let object = laws::from_storage(self.resource, Arc::clone(&event.object));
        if self.selection.selects_all() {
            return Some(match event.change {
                Change::Added => WatchEvent::Added(object),
                Change::Modified => WatchEvent::Modified(object),
                Change::Deleted => WatchEvent::Deleted(object),
            });
        }
        let before =
            event.previous.as_ref().map(|previous| laws::from_storage(self.resource, Arc::clone(&previous.object)));
        let matched = before.as_ref().is_some_and(|before| self.selection.matches(before));
        let matches = event.change != Change::Deleted && self.selection.matches(&object);
        match (matched, matches) {
            (false, false) => None,
            (false, true) => Some(WatchEvent::Added(object)),
            (true, true) => Some(WatchEvent::Modified(object)),
            (true, false) => Some(WatchEvent::Deleted(last_match(before?, event.revision))),
        }
    }
}

/// The last state that matched, with the revision at which it stopped to.
fn last_match(before: Arc<Value>, revision: u64) -> Arc<Value> {
    let mut object = Arc::unwrap_or_clone(before);
    crate::value::set(&mut object, &["metadata", "resourceVersion"], Value::String(revision.to_string()));
    object.into()
}

fn list_error(error: &StoreError, resource: &ResourceType, options: &ListOptions) -> ApiError {
    match error {
        StoreError::Compacted { .. } if options.continue_token.is_some() => ApiError::expired(
            "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.",
        ),
        error => ApiError::from_store(error, resource, ""),
    }
}

/// Where a page begins: after this object, in the state of this revision.
struct PageStart {
    revision: u64,
    namespace: String,
    name: String,
}

impl PageStart {
    /// Reads a token: opaque to clients, here revision, namespace and name (which can't contain a slash).
    fn parse(token: &str) -> Result<Self, ApiError> {
        use base64::Engine;
        let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(token).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let parsed = text.as_deref().and_then(|text| {
            let mut parts = text.splitn(3, '/');
            let revision = parts.next()?.parse().ok()?;
            Some(Self { revision, namespace: parts.next()?.to_owned(), name: parts.next()?.to_owned() })
        });
        parsed.ok_or_else(|| ApiError::bad_request("continue key is not valid: it was not made by this server"))
    }

    fn token(&self) -> String {
        use base64::Engine;
        let text = format!("{}/{}/{}", self.revision, self.namespace, self.name);
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
    }
}

fn cut_page(mut objects: Vec<Arc<Value>>, revision: u64, options: &ListOptions) -> List {
    let limit = options.limit.filter(|limit| *limit > 0 && *limit < objects.len());
    let Some(limit) = limit else {
        return List { revision, objects, continue_token: None, remaining: None };
    };
    let rest = objects.len() - limit;
    objects.truncate(limit);
    let part =
        |pointer| objects.last().and_then(|last| crate::value::text(last, pointer)).unwrap_or_default().to_owned();
    let start = PageStart { revision, namespace: part("/metadata/namespace"), name: part("/metadata/name") };
    let remaining = options.selection.selects_all().then_some(rest);
    List { revision, continue_token: Some(start.token()), remaining, objects }
}
