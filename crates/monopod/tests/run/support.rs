//! Drives the real binary, and looks at what it leaves behind.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

pub(crate) type Failure = Box<dyn std::error::Error>;
pub(crate) type TestResult = Result<(), Failure>;

/// How long a test waits for anything before it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A data directory of its own, with the images that a test asked for; taken away at the end, also of a failed test.
pub(crate) struct Place {
    root: tempfile::TempDir,
}

impl Place {
    /// An empty data directory.
    pub(crate) fn empty() -> Result<Place, Failure> {
        Ok(Place { root: tempfile::Builder::new().prefix("monopod-test-").tempdir()? })
    }

    /// A data directory with these archives of `hack/seed-images.sh` loaded.
    pub(crate) fn with_images(archives: &[&str]) -> Result<Place, Failure> {
        let place = Place::empty()?;
        for archive in archives {
            place.load(&seed_images()?.join(archive))?;
        }
        Ok(place)
    }

    pub(crate) fn load(&self, archive: &Path) -> TestResult {
        let archive = archive.to_str().ok_or("a path that is no text")?;
        let output = self.monopod(&["image", "load", archive])?;
        if output.status.success() { Ok(()) } else { Err(text(&output.stderr).into()) }
    }

    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.root.path().join("data")
    }

    /// Writes a file beside the data directory, and answers its path.
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<String, Failure> {
        let path = self.root.path().join(name);
        std::fs::write(&path, content)?;
        Ok(path.to_str().ok_or("a path that is no text")?.to_owned())
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monopod"));
        command.args(arguments).env("MONOPOD_DATA_DIR", self.data_dir()).env_remove("NO_COLOR").stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn monopod(&self, arguments: &[&str]) -> Result<Output, Failure> {
        Ok(self.command(arguments).output()?)
    }

    /// Starts a command whose output is read line by line.
    pub(crate) fn start(&self, arguments: &[&str]) -> Result<Running, Failure> {
        Running::start(self.command(arguments))
    }

    /// Fails if a process, a mount or a control group still belongs to this data directory.
    pub(crate) fn assert_nothing_left(&self) -> TestResult {
        let left = self.left_behind()?;
        if left.is_empty() { Ok(()) } else { Err(format!("left behind: {left:#?}").into()) }
    }

    fn left_behind(&self) -> Result<Vec<String>, Failure> {
        let data_dir = self.data_dir().to_str().ok_or("a path that is no text")?.to_owned();
        let mut left: Vec<String> = std::fs::read_to_string("/proc/self/mountinfo")?
            .lines()
            .filter(|line| line.contains(&data_dir))
            .map(|line| format!("mount {line}"))
            .collect();
        for entry in std::fs::read_dir("/proc")? {
            let entry = entry?;
            let command_line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command_line = text(&command_line).replace('\0', " ");
            if command_line.contains(&data_dir) {
                left.push(format!("process {}: {command_line}", entry.file_name().to_string_lossy()));
            }
        }
        let runs = std::fs::read_dir(self.data_dir().join("runs")).into_iter().flatten();
        left.extend(runs.flatten().map(|entry| format!("directory {}", entry.path().display())));
        Ok(left)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A failed test must not leave pods behind; a test that passed has proved that there are none.
        drop(self.monopod(&["reset", "--yes"]));
    }
}

/// A command that runs.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Running {
    fn start(mut command: Command) -> Result<Running, Failure> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (sender, lines) = channel();
        let stdout = child.stdout.take().ok_or("no stdout")?;
        let stderr = child.stderr.take().ok_or("no stderr")?;
        let errors = sender.clone();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        std::thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(Result::ok).try_for_each(|line| errors.send(line))
        });
        Ok(Running { child, lines, seen: Vec::new() })
    }

    /// Waits for a line that contains `wanted`, and answers how long it took.
    pub(crate) fn wait_for(&mut self, wanted: &str) -> Result<Duration, Failure> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let left = PATIENCE.saturating_sub(start.elapsed());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    let found = line.contains(wanted);
                    self.seen.push(line);
                    if found {
                        return Ok(start.elapsed());
                    }
                }
                Err(_) => break,
            }
        }
        Err(format!("no line with `{wanted}` in:\n{}", self.seen.join("\n")).into())
    }

    pub(crate) fn signal(&self, name: &str) -> TestResult {
        let status = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status()?;
        if status.success() { Ok(()) } else { Err(format!("kill: {status}").into()) }
    }

    /// Asks twice: the pods of most examples have a shell as PID 1, which a signal does not end before the grace is over.
    pub(crate) fn kill_pods(mut self) -> TestResult {
        self.signal("INT")?;
        self.wait_for("Terminating")?;
        self.signal("INT")?;
        let (status, lines) = self.end()?;
        if status.code() == Some(130) { Ok(()) } else { Err(format!("{status}: {lines:#?}").into()) }
    }

    /// Waits for the end, and answers the status and all lines.
    pub(crate) fn end(mut self) -> Result<(ExitStatus, Vec<String>), Failure> {
        let start = Instant::now();
        // Both readers end when the process has closed its output.
        while let Ok(line) = self.lines.recv_timeout(PATIENCE.saturating_sub(start.elapsed())) {
            self.seen.push(line);
        }
        if start.elapsed() >= PATIENCE {
            return Err(format!("does not end; said:\n{}", self.seen.join("\n")).into());
        }
        Ok((self.child.wait()?, std::mem::take(&mut self.seen)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended in a test that passed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The archives of `hack/seed-images.sh`, built once for all tests of this binary.
pub(crate) fn seed_images() -> Result<&'static Path, Failure> {
    built_images("seed-images.sh", &SEEDS)
}

/// The archives of `hack/postgres-images.sh`.
pub(crate) fn postgres_images() -> Result<&'static Path, Failure> {
    built_images("postgres-images.sh", &POSTGRES)
}

static SEEDS: OnceLock<Result<PathBuf, String>> = OnceLock::new();
static POSTGRES: OnceLock<Result<PathBuf, String>> = OnceLock::new();

fn built_images(script: &str, cell: &'static OnceLock<Result<PathBuf, String>>) -> Result<&'static Path, Failure> {
    let built = cell.get_or_init(|| {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(script);
        let script = repository().join("hack").join(script);
        let output = Command::new(script).arg(&out).output().map_err(|error| error.to_string())?;
        if output.status.success() { Ok(out) } else { Err(text(&output.stderr)) }
    });
    built.as_deref().map_err(|error| error.clone().into())
}

pub(crate) fn example(name: &str) -> String {
    repository().join("examples").join(name).display().to_string()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The READY and STATUS columns of the pods whose name starts so, in order.
pub(crate) fn statuses(lines: &[String], pod: &str) -> Vec<String> {
    lines
        .iter()
        .filter(|line| line.starts_with(pod))
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [_, ready, status, ..] if ready.contains('/') => Some(format!("{ready} {status}")),
                _ => None,
            }
        })
        .collect()
}

/// The lines that a container wrote.
pub(crate) fn output_of(lines: &[String], container: &str) -> Vec<String> {
    let mark = format!(" {container} | ");
    lines.iter().filter_map(|line| line.split_once(&mark)).map(|(_, said)| said.to_owned()).collect()
}

/// Everything that a reader gives, as text.
pub(crate) fn read_all(path: &Path) -> Result<String, Failure> {
    let mut content = String::new();
    std::fs::File::open(path)?.read_to_string(&mut content)?;
    Ok(content)
}
