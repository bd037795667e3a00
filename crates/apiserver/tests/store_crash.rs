//! A crash loses nothing that was answered: a real process writes under load and is killed with SIGKILL, again and again.
//!
//! `MONOPOD_CRASH_ROUNDS=1000 cargo test -p apiserver --test store_crash` repeats it a thousand times;
//! the default keeps the suite short.
//! The process is this program again, told by an environment variable where to write.
//! It says on its standard output what the store has answered, and what it is about to delete.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use apiserver::store::{Expected, ObjectKey, Store, StoreOptions, Write};
use serde_json::json;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const CHILD: &str = "MONOPOD_CRASH_CHILD";
const ROUNDS: &str = "MONOPOD_CRASH_ROUNDS";
const WRITERS: usize = 16;

fn main() -> ExitCode {
    let outcome = match std::env::var_os(CHILD) {
        Some(path) => write_until_killed(Path::new(&path)),
        None => kill_and_check(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "store_crash: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// What the killed processes were told.
#[derive(Default)]
struct Answered {
    /// The last value of each counter that was answered.
    counters: BTreeMap<String, u64>,
    /// Objects whose creation was answered and whose removal was not begun.
    standing: BTreeSet<String>,
    /// Objects whose removal was answered.
    gone: BTreeSet<String>,
    /// The highest revision that was answered.
    revision: u64,
}

impl Answered {
    fn read(&mut self, line: &str) -> Result<(), Failure> {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["counted", name, value, revision] => {
                self.counters.insert((*name).to_owned(), value.parse()?);
                self.revision = self.revision.max(revision.parse()?);
            }
            ["created", name] => {
                self.standing.insert((*name).to_owned());
            }
            ["deleting", name] => {
                self.standing.remove(*name);
            }
            ["deleted", name] => {
                self.gone.insert((*name).to_owned());
            }
            // The last line may have been cut by the kill: it says nothing.
            _ => {}
        }
        Ok(())
    }

    /// Compares with what the store has.
    fn check(&self, store: &Store) -> Result<(), Failure> {
        if store.revision() < self.revision {
            return Err(format!("revision {} was answered, the store is at {}", self.revision, store.revision()).into());
        }
        for (name, answered) in &self.counters {
            let found = store.get(&key(name)).and_then(|stored| stored.object.pointer("/data")?.as_u64());
            if found.is_none_or(|found| found < *answered) {
                return Err(format!("{name} was answered {answered}, the store has {found:?}").into());
            }
        }
        if let Some(name) = self.standing.iter().find(|name| store.get(&key(name)).is_none()) {
            return Err(format!("{name} was created and is gone").into());
        }
        if let Some(name) = self.gone.iter().find(|name| store.get(&key(name)).is_some()) {
            return Err(format!("{name} was deleted and is there").into());
        }
        Ok(())
    }
}

fn kill_and_check() -> Result<(), Failure> {
    let rounds: u64 = std::env::var(ROUNDS).map_or(Ok(12), |text| text.parse())?;
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store.redb");
    let mut answered = Answered::default();
    for round in 0..rounds {
        // Kills at different depths of a batch: a small prime steps through the counts.
        let lines_before_kill = 20 + usize::try_from(round * 37 % 211)?;
        run_and_kill(&path, lines_before_kill, &mut answered)?;
        let store = Store::open(&path, StoreOptions::default())?;
        answered.check(&store).map_err(|error| format!("round {round}: {error}"))?;
    }
    drop(writeln!(std::io::stdout(), "store_crash: {rounds} kills, {} writes answered, none lost", answered.revision));
    Ok(())
}

fn run_and_kill(path: &Path, lines_before_kill: usize, answered: &mut Answered) -> Result<(), Failure> {
    let mut child = Command::new(std::env::current_exe()?).env(CHILD, path).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().ok_or("the child has no output")?;
    let mut lines = 0;
    for line in BufReader::new(output).lines() {
        answered.read(&line?)?;
        lines += 1;
        if lines == lines_before_kill {
            child.kill()?;
        }
    }
    child.wait()?;
    if lines < lines_before_kill {
        return Err(format!("the writing process ended by itself after {lines} lines").into());
    }
    Ok(())
}

/// The child: sixteen writers, each with a counter and a trail of objects that come and go.
fn write_until_killed(path: &Path) -> Result<(), Failure> {
    let store = Store::open(path, StoreOptions::default())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    runtime.block_on(async {
        let writers: Vec<_> = (0..WRITERS).map(|writer| tokio::spawn(count(store.clone(), writer))).collect();
        for writer in writers {
            writer.await??;
        }
        Ok(())
    })
}

async fn count(store: Store, writer: usize) -> Result<(), Failure> {
    let name = format!("counter-{writer}");
    let trail = |value: u64| format!("trail-{writer}-{value}");
    loop {
        let current = store.get(&key(&name));
        let value = current.as_ref().and_then(|stored| stored.object.pointer("/data")?.as_u64()).unwrap_or(0) + 1;
        let expected = current.map_or(Expected::Absent, |stored| Expected::Revision(stored.revision));
        let written = store.write(put(&name, value, expected)).await?.into_object();
        say(&format!("counted {name} {value} {}", written.revision))?;
        // A trail object may be there already if the process was killed between it and the counter.
        if store.get(&key(&trail(value))).is_none() {
            store.write(put(&trail(value), value, Expected::Absent)).await?;
            say(&format!("created {}", trail(value)))?;
        }
        if let Some(old) = value.checked_sub(3).and_then(|value| store.get(&key(&trail(value)))) {
            let old_name = trail(value - 3);
            say(&format!("deleting {old_name}"))?;
            store.write(Write::Delete { key: key(&old_name), revision: old.revision }).await?;
            say(&format!("deleted {old_name}"))?;
        }
    }
}

fn put(name: &str, value: u64, expected: Expected) -> Write {
    Write::Put { key: key(name), object: json!({"metadata": {"name": name}, "data": value}), expected }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey { resource: "configmaps".to_owned(), namespace: "default".to_owned(), name: name.to_owned() }
}

fn say(line: &str) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    output.write_all(format!("{line}\n").as_bytes())?;
    output.flush()
}
