//! The database beside the memory: a write is on the disk before it is answered.
//!
//! One thread owns the database. It takes every write that waits, plans them one after the other,
//! puts them into one transaction with one fsync (group commit), applies them to the memory, and answers them.
//! A crash loses only what was not answered: redb commits are atomic.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::state::{Pending, State, Step};
use super::{Change, ObjectKey, StoreError, StoreOptions, StoredObject, Write, Written, read};

/// Key: resource, namespace and name, divided by zero bytes. Value: the revision as eight bytes, then JSON.
const OBJECTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("objects");
/// `revision`: that of the last write. `format`: [`FORMAT`].
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
const FORMAT: u64 = 1;
/// Writes that share one fsync at most: bounds the memory and the wait of a batch.
const BATCH_WRITES_MAX: usize = 512;
/// The database serves only the start, so a page cache is of little use.
const CACHE_SIZE_BYTES: usize = 8 * 1024 * 1024;

/// The thread that owns the database.
pub(super) struct Journal {
    requests: Option<mpsc::Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

struct Request {
    write: Write,
    answer: oneshot::Sender<Result<Written, StoreError>>,
}

impl Journal {
    /// Opens the database, reads everything, starts the thread.
    pub(super) fn open(path: &Path, options: StoreOptions) -> Result<(Self, Arc<RwLock<State>>), StoreError> {
        let disk = Disk::open(path)?;
        let state = Arc::new(RwLock::new(disk.load(options)?));
        let (requests, receiver) = mpsc::channel(BATCH_WRITES_MAX);
        let shared = Arc::clone(&state);
        let thread = std::thread::Builder::new()
            .name("store-journal".to_owned())
            .spawn(move || run(&disk, &shared, receiver))
            .map_err(|error| database_error(path, redb::Error::Io(error)))?;
        Ok((Self { requests: Some(requests), thread: Some(thread) }, state))
    }

    /// Hands a write to the thread and waits until it is on the disk.
    pub(super) async fn write(&self, write: Write) -> Result<Written, StoreError> {
        let (answer, answered) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or(StoreError::Closed)?;
        requests.send(Request { write, answer }).await.map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }
}

impl Drop for Journal {
    /// Waits for the thread, so that the file is closed when the store is.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's journal thread panicked");
        }
    }
}

/// The thread: batch after batch until the store is dropped.
fn run(disk: &Disk, state: &RwLock<State>, mut requests: mpsc::Receiver<Request>) {
    let mut batch = Vec::with_capacity(BATCH_WRITES_MAX);
    while requests.blocking_recv_many(&mut batch, BATCH_WRITES_MAX) > 0 {
        commit(disk, state, std::mem::take(&mut batch));
    }
}

/// Plans, stores, applies and answers one batch.
fn commit(disk: &Disk, state: &RwLock<State>, batch: Vec<Request>) {
    let mut pending = Pending::default();
    let planned: Vec<_> = {
        let state = read(state);
        batch.into_iter().map(|request| (state.plan(request.write, Some(&mut pending)), request.answer)).collect()
    };
    let stored = disk.store(planned.iter().filter_map(|(step, _)| step.as_ref().ok()));
    let mut state = state.write().unwrap_or_else(PoisonError::into_inner);
    for (step, answer) in planned {
        let result = match (&stored, step) {
            (_, Err(error)) => Err(error),
            (Err(error), Ok(_)) => Err(error.clone()),
            (Ok(()), Ok(step)) => Ok(state.apply(step)),
        };
        // Whoever asked may have gone away; the write stands all the same.
        drop(answer.send(result));
    }
}

/// The database file.
struct Disk {
    path: PathBuf,
    database: Database,
}

impl Disk {
    fn open(path: &Path) -> Result<Self, StoreError> {
        let mut builder = redb::Builder::new();
        builder.set_cache_size(CACHE_SIZE_BYTES);
        let database = builder.create(path).map_err(|error| database_error(path, error.into()))?;
        let disk = Self { path: path.to_owned(), database };
        disk.check_format()?;
        Ok(disk)
    }

    /// Makes the tables of a new file, and refuses a file of another format.
    fn check_format(&self) -> Result<(), StoreError> {
        let found = self.prepare().map_err(|error| database_error(&self.path, error))?;
        if found == FORMAT {
            return Ok(());
        }
        Err(self.damaged(format!("its format is {found}, this program writes {FORMAT}")))
    }

    fn prepare(&self) -> Result<u64, redb::Error> {
        let transaction = self.database.begin_write()?;
        let found = {
            transaction.open_table(OBJECTS)?;
            let mut numbers = transaction.open_table(NUMBERS)?;
            let found = numbers.get("format")?.map(|number| number.value());
            if found.is_none() {
                numbers.insert("format", FORMAT)?;
                numbers.insert("revision", 0)?;
            }
            found.unwrap_or(FORMAT)
        };
        transaction.commit()?;
        Ok(found)
    }

    /// Reads everything into memory.
    fn load(&self, options: StoreOptions) -> Result<State, StoreError> {
        let (revision, rows) = self.rows().map_err(|error| database_error(&self.path, error))?;
        let mut state = State::new(revision, options);
        for (key, value) in rows {
            let (key, stored) = decode_row(&key, &value).map_err(|detail| self.damaged(detail))?;
            state.restore(key, stored);
        }
        Ok(state)
    }

    #[expect(clippy::type_complexity, reason = "a row is a pair of byte strings, used here alone")]
    fn rows(&self) -> Result<(u64, Vec<(Vec<u8>, Vec<u8>)>), redb::Error> {
        let transaction = self.database.begin_read()?;
        let revision = transaction.open_table(NUMBERS)?.get("revision")?.map_or(0, |number| number.value());
        let mut rows = Vec::new();
        for row in transaction.open_table(OBJECTS)?.iter()? {
            let (key, value) = row?;
            rows.push((key.value().to_vec(), value.value().to_vec()));
        }
        Ok((revision, rows))
    }

    /// Puts a batch on the disk: when it returns `Ok`, it is there.
    fn store<'a>(&self, steps: impl Iterator<Item = &'a Step>) -> Result<(), StoreError> {
        let events: Vec<_> = steps
            .filter_map(|step| match step {
                Step::Event(event) => Some(event),
                Step::Unchanged(_) => None,
            })
            .collect();
        let Some(last) = events.last() else { return Ok(()) };
        let rows = events.iter().map(|event| {
            let value = (event.change != Change::Deleted).then(|| encode_value(event.revision, &event.object));
            (encode_key(&event.key), value)
        });
        self.commit_rows(last.revision, rows).map_err(|error| database_error(&self.path, error))
    }

    fn commit_rows(
        &self,
        revision: u64,
        rows: impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)>,
    ) -> Result<(), redb::Error> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        {
            let mut objects = transaction.open_table(OBJECTS)?;
            for (key, value) in rows {
                match value {
                    Some(value) => objects.insert(key.as_slice(), value.as_slice())?,
                    None => objects.remove(key.as_slice())?,
                };
            }
            transaction.open_table(NUMBERS)?.insert("revision", revision)?;
        }
        transaction.commit()?;
        Ok(())
    }

    fn damaged(&self, detail: String) -> StoreError {
        StoreError::Damaged { path: self.path.display().to_string(), detail }
    }
}

fn database_error(path: &Path, source: redb::Error) -> StoreError {
    StoreError::Database { path: path.display().to_string(), source: Arc::new(source) }
}

fn encode_key(key: &ObjectKey) -> Vec<u8> {
    [key.resource.as_str(), key.namespace.as_str(), key.name.as_str()].join("\0").into_bytes()
}

fn encode_value(revision: u64, object: &Value) -> Vec<u8> {
    let mut bytes = revision.to_be_bytes().to_vec();
    bytes.extend_from_slice(object.to_string().as_bytes());
    bytes
}

fn decode_row(key: &[u8], value: &[u8]) -> Result<(ObjectKey, StoredObject), String> {
    let text = std::str::from_utf8(key).map_err(|error| format!("a key is not text: {error}"))?;
    let mut parts = text.split('\0').map(str::to_owned);
    let (Some(resource), Some(namespace), Some(name), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(format!("the key {text:?} does not have three parts"));
    };
    let key = ObjectKey { resource, namespace, name };
    let (revision, json) = value.split_first_chunk::<8>().ok_or_else(|| format!("the value of {key} is too short"))?;
    let object = serde_json::from_slice(json).map_err(|error| format!("the value of {key} is not JSON: {error}"))?;
    Ok((key, StoredObject { revision: u64::from_be_bytes(*revision), object: Arc::new(object) }))
}
