//! Starting `bugnet`, and the folders in which tests work.

use crate::hang::Watch;
use anyhow::{Context, Result, bail, ensure};
use bugnet_format::folder::{Recording, interval_file};
use bugnet_format::frame::IntervalHeader;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

/// The top folder of the source tree.
#[must_use]
pub fn source_tree() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    source_tree().join(target)
}

/// A program that this crate builds.
#[must_use]
pub fn built(name: &str) -> PathBuf {
    target().join("release").join(name)
}

/// A gdb that can be a debug adapter.
///
/// # Errors
/// `make test-deps` has not installed it.
pub fn new_gdb() -> Result<PathBuf> {
    let path = target().join("gdb/bin/gdb");
    ensure!(path.exists(), "{} is not there: run `make test-deps` first", path.display());
    Ok(path)
}

/// The `bugnet` under test: `$BUGNET`, else the release build.
///
/// # Errors
/// It has not been built.
pub fn binary() -> Result<PathBuf> {
    let path = match std::env::var_os("BUGNET") {
        Some(path) => PathBuf::from(path),
        None => target().join("release/bugnet"),
    };
    ensure!(path.is_file(), "{} is not there: run `make build` first, or set BUGNET", path.display());
    path.canonicalize().context("path of bugnet")
}

/// A folder for one test, which stays where it is when the test fails and is removed when [`Self::done`] is called.
#[derive(Debug)]
pub struct Workshop {
    /// The folder, absolute and empty at first.
    pub path: PathBuf,
    /// Locked as long as the folder is in use: another run of the same test waits.
    _lock: File,
}

impl Workshop {
    /// Makes `target/test-logs/NAME`; what an earlier run left there is removed, one that still goes on is waited for.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new(name: &str) -> Result<Self> {
        let all = target().join("test-logs");
        let path = all.join(name);
        let lock = all.join(".locks").join(name.replace('/', "_"));
        fs::create_dir_all(all.join(".locks")).context("creating the folder of locks")?;
        let lock = File::create(&lock).with_context(|| format!("creating {}", lock.display()))?;
        lock.lock().with_context(|| format!("locking {name}"))?;
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| format!("removing {}", path.display()))?;
        }
        fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Self { path, _lock: lock })
    }

    /// A new folder in it.
    ///
    /// # Errors
    /// The operating system's.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(path)
    }

    /// The test has passed: removes everything.
    ///
    /// # Errors
    /// The operating system's.
    pub fn done(self) -> Result<()> {
        fs::remove_dir_all(&self.path).with_context(|| format!("removing {}", self.path.display()))
    }
}

/// A program to run, natively or recorded.
#[derive(Clone, Debug)]
pub struct Job {
    /// Program (absolute path) and arguments.
    pub command: Vec<String>,
    /// Working directory.
    pub dir: PathBuf,
    /// File for standard input, relative to `dir`; nothing otherwise.
    pub stdin: Option<String>,
}

/// The environment of every program, so that neither the user's settings nor the locale change what it prints.
pub const ENVIRONMENT: [(&str, &str); 4] = [
    ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"),
    ("LC_ALL", "C"),
    ("TZ", "UTC"),
    ("HOME", "/nonexistent"),
];

impl Job {
    /// The program and `args` in `dir`, without input.
    pub fn new<S: Into<String>>(dir: &Path, command: impl IntoIterator<Item = S>) -> Self {
        Self { command: command.into_iter().map(Into::into).collect(), dir: dir.to_owned(), stdin: None }
    }

    fn prepare(&self, command: &mut Command) -> Result<()> {
        command.current_dir(&self.dir).env_clear().envs(ENVIRONMENT);
        command.stdin(match &self.stdin {
            Some(name) => {
                let path = self.dir.join(name);
                Stdio::from(fs::File::open(&path).with_context(|| format!("opening {}", path.display()))?)
            }
            None => Stdio::null(),
        });
        Ok(())
    }

    /// The command that runs it natively.
    ///
    /// # Errors
    /// There is no program, or its input cannot be opened.
    pub fn native(&self) -> Result<Command> {
        let (program, args) = self.command.split_first().context("empty command")?;
        let mut command = Command::new(program);
        command.args(args);
        self.prepare(&mut command)?;
        Ok(command)
    }

    /// The command that records it into `log` (which must not exist), quietly, with `options` for `bugnet record`.
    ///
    /// # Errors
    /// bugnet is not built, or the program's input cannot be opened.
    pub fn recorded(&self, log: &Path, options: &[&str]) -> Result<Command> {
        let mut command = Command::new(binary()?);
        command.args(["record", "--quiet", "-o"]).arg(log).args(options).arg("--").args(&self.command);
        self.prepare(&mut command)?;
        Ok(command)
    }
}

/// Runs a command to its end, collecting its output.
///
/// # Errors
/// It cannot be started.
pub fn run(command: &mut Command) -> Result<Output> {
    let _watch = Watch::begin();
    command.output().with_context(|| format!("starting {}", command.get_program().display()))
}

/// Copies a program, to be executed. Another process writes the copy: a file that this one has open for writing is so in what another of its threads
/// starts, too, until that executes something, and cannot be executed as long.
///
/// # Errors
/// It cannot be copied.
pub fn install(program: &Path, to: &Path) -> Result<()> {
    let output = run(Command::new("install").arg(program).arg(to))?;
    ensure!(output.status.success(), "copying {} to {}: {}", program.display(), to.display(), printed(&output));
    Ok(())
}

/// Runs `bugnet` with these arguments.
///
/// # Errors
/// bugnet is not built or cannot be started.
pub fn bugnet<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Result<Output> {
    run(Command::new(binary()?).args(args).stdin(Stdio::null()))
}

/// `bugnet CHECK-OR-REPLAY... LOG`, which must succeed.
///
/// # Errors
/// It did not; the error holds what it printed.
pub fn must_pass(args: &[&str], log: &Path) -> Result<Output> {
    must_end_with(0, args, log)
}

/// `bugnet`'s exit status for a log that is exact as far as it goes, but not complete.
pub const INCOMPLETE: i32 = 5;

/// `bugnet CHECK-OR-REPLAY... LOG`, which must end with this exit status.
///
/// # Errors
/// It did not; the error holds what it printed.
pub fn must_end_with(status: i32, args: &[&str], log: &Path) -> Result<Output> {
    let output = bugnet(args.iter().map(OsStr::new).chain([log.as_os_str()]))?;
    if output.status.code() != Some(status) {
        bail!("`bugnet {} {}` ended with {}\n{}", args.join(" "), log.display(), output.status, printed(&output));
    }
    Ok(output)
}

/// Takes the messages of a recording off the program's standard error, and returns them: lines.
#[must_use]
pub fn take_messages(output: &mut Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let (said, rest): (Vec<_>, Vec<_>) = text.split_inclusive('\n').partition(|line| line.starts_with("bugnet: "));
    output.stderr = rest.concat().into_bytes();
    said.concat()
}

/// What a command printed, for an error message.
#[must_use]
pub fn printed(output: &Output) -> String {
    let text = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let start = text.len().saturating_sub(4000);
        text.get(start..).map_or_else(|| text.to_string(), ToOwned::to_owned)
    };
    format!("--- stdout\n{}\n--- stderr\n{}", text(&output.stdout), text(&output.stderr))
}

/// Compares two runs: exit status or signal, standard output, standard error.
///
/// # Errors
/// What differs, and where.
pub fn same_behaviour(native: &Output, other: &Output) -> Result<()> {
    ensure!(
        same_status(native.status, other.status),
        "status: {} natively, {} otherwise\n{}",
        native.status,
        other.status,
        printed(other)
    );
    same_bytes("standard error", &native.stderr, &other.stderr)?;
    same_bytes("standard output", &native.stdout, &other.stdout)
}

fn same_status(a: ExitStatus, b: ExitStatus) -> bool {
    (a.code(), a.signal()) == (b.code(), b.signal())
}

/// Compares bytes.
///
/// # Errors
/// Where they differ first, with what stands there.
pub fn same_bytes(what: &str, expected: &[u8], got: &[u8]) -> Result<()> {
    if expected == got {
        return Ok(());
    }
    let at = expected.iter().zip(got).position(|(a, b)| a != b).unwrap_or(expected.len().min(got.len()));
    let excerpt = |bytes: &[u8]| String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 200)]).into_owned();
    bail!(
        "{what} differs from byte {at} on ({} bytes expected, {} got)\n--- expected\n{}\n--- got\n{}",
        expected.len(),
        got.len(),
        excerpt(expected),
        excerpt(got)
    )
}

/// Compares the files of two folders (no folders below): names and contents.
///
/// # Errors
/// What differs.
pub fn same_files(native: &Path, other: &Path) -> Result<()> {
    let names = |folder: &Path| -> Result<Vec<_>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.push(entry.file_name());
            }
        }
        names.sort();
        Ok(names)
    };
    let files = names(native)?;
    ensure!(files == names(other)?, "not the same files: {files:?} natively, {:?} otherwise", names(other)?);
    for name in files {
        same_bytes(&name.to_string_lossy(), &fs::read(native.join(&name))?, &fs::read(other.join(&name))?)?;
    }
    Ok(())
}

/// `bugnet check` and `bugnet replay` succeed on a log, and `bugnet replay --output` gives what `native` printed.
///
/// # Errors
/// Which of these went wrong, and how.
pub fn verify_log(log: &Path, native: &Output) -> Result<()> {
    must_pass(&["check"], log)?;
    must_pass(&["replay"], log)?;
    let replayed = must_pass(&["replay", "--output"], log)?;
    same_bytes("replayed standard error", &native.stderr, &replayed.stderr)?;
    same_bytes("replayed standard output", &native.stdout, &replayed.stdout)
}

/// `bugnet replay` succeeds on a log that has no index, and says the same if it makes one on the way.
///
/// # Errors
/// It fails, or says something else.
pub fn verify_and_index(log: &Path) -> Result<()> {
    let alone = must_pass(&["replay", "--json"], log)?;
    let with_index = must_pass(&["replay", "--json", "--index"], log)?;
    same_bytes("the report of who made an index", &alone.stdout, &with_index.stdout)
}

/// The headers of all intervals of a log.
///
/// # Errors
/// They cannot be read.
pub fn headers(log: &Path) -> Result<Vec<IntervalHeader>> {
    let mut headers = Vec::new();
    for thread in Recording::open(log)?.threads()? {
        for interval in &thread.intervals {
            let path = thread.folder.join(interval_file(*interval));
            headers.push(IntervalHeader::decode(&fs::read(&path)?, &path)?);
        }
    }
    Ok(headers)
}
