//! Recordings that are kept and sent: a crash loop shares its copies, and one file is all that another place needs.

use age::secrecy::ExposeSecret;
use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Workshop, binary, printed, run};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CRASHES: &str = "#include <stdio.h>
__attribute__((noinline)) static int falls_over(volatile int *p) {
    return *p; /* line 3 */
}
int main(int count, char **names) {
    printf(\"%d\\n\", count);
    fflush(stdout);
    return falls_over((volatile int *)(long)count);
}
";

/// A workshop with a program that crashes, and a default folder for recordings.
struct Place {
    workshop: Workshop,
    program: PathBuf,
}

impl Place {
    fn new(name: &str) -> Result<Self> {
        let workshop = Workshop::new(name)?;
        let source = workshop.path.join("crashes.c");
        fs::write(&source, CRASHES)?;
        let program = workshop.path.join("crashes");
        let built = run(Command::new("gcc").args(["-g", "-O1", "-o"]).arg(&program).arg(&source))?;
        ensure!(built.status.success(), "{}", printed(&built));
        Ok(Self { workshop, program })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.workshop.path.join(name)
    }

    fn logs(&self) -> PathBuf {
        self.path("logs")
    }

    fn bugnet(&self, args: &[&str]) -> Result<Output> {
        let mut command = Command::new(binary()?);
        command.args(args).current_dir(&self.workshop.path).env("BUGNET_DIR", self.logs());
        // What whoever runs the tests has is of no use here.
        command.env("HOME", "/nonexistent").env_remove("BUGNET_IDENTITY").env_remove("XDG_CONFIG_HOME");
        run(&mut command)
    }

    fn passes(&self, args: &[&str]) -> Result<String> {
        let output = self.bugnet(args)?;
        ensure!(output.status.success(), "bugnet {args:?}: {}\n{}", output.status, printed(&output));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn record(&self) -> Result<()> {
        let output = self.bugnet(&["record", "--quiet", "--", "./crashes"])?;
        ensure!(output.status.signal() == Some(11), "{}\n{}", output.status, printed(&output));
        Ok(())
    }
}

/// The copies of ELF files of all recordings in a folder: how many there are, and how many different files.
fn copies(logs: &Path) -> Result<(usize, usize)> {
    let mut all = Vec::new();
    for log in fs::read_dir(logs)?.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        for copy in fs::read_dir(log.path().join("elf")).into_iter().flatten() {
            all.push(copy?.metadata()?.ino());
        }
    }
    Ok((all.len(), all.iter().collect::<HashSet<_>>().len()))
}

/// All that a report of the crash has to say.
fn assert_report(report: &str) -> Result<()> {
    for words in ["SIGSEGV", "falls_over", "crashes.c:3", "main"] {
        ensure!(report.contains(words), "no {words} in {report}");
    }
    Ok(())
}

#[test]
fn a_crash_loop_keeps_one_copy_of_each_file() -> Result<()> {
    const TIMES: usize = 12;
    let place = Place::new("kept-loop")?;
    for _ in 0..TIMES {
        place.record()?;
    }
    let (all, different) = copies(&place.logs())?;
    ensure!(different >= 3 && all == TIMES * different, "{all} copies, {different} different ones");
    let list: serde_json::Value = serde_json::from_str(&place.passes(&["ls", "--json"])?)?;
    let recordings = list["recordings"].as_array().context("no recordings")?;
    ensure!(recordings.len() == TIMES, "{list}");
    let sum: u64 = recordings.iter().filter_map(|entry| entry["size"].as_u64()).sum();
    ensure!(list["size"].as_u64().is_some_and(|size| size < sum / 2), "{list}");

    // A copy of one is whole, whatever becomes of the others and of the program.
    let latest = fs::canonicalize(place.logs().join("latest"))?;
    let moved = place.path("moved");
    let tar = format!("mkdir {0} && tar -C {1} -c . | tar -C {0} -x", moved.display(), latest.display());
    ensure!(run(Command::new("sh").args(["-c", &tar]))?.status.success(), "tar has failed");
    let copied = run(Command::new("cp").arg("-r").arg(&latest).arg(place.path("copied")))?;
    ensure!(copied.status.success(), "{}", printed(&copied));
    place.passes(&["rm", "--keep-last", "1"])?;
    ensure!(copies(&place.logs())? == (different, different), "{:?}", copies(&place.logs())?);
    assert_report(&place.passes(&["info"])?)?;
    // What a command has found out about it goes with it.
    place.passes(&["replay", "--index"])?;
    let is_index = |name: &str| name.starts_with('.') && name.ends_with(".index");
    let names = fs::read_dir(&latest)?.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
    ensure!(names.iter().any(|name| name.to_str().is_some_and(is_index)), "no index: {names:?}");
    fs::remove_file(&place.program)?;
    place.passes(&["rm", "--all"])?;
    ensure!(fs::read_dir(place.logs().join(".elf"))?.count() == 0, "copies that nobody has are still there");
    for log in ["moved", "copied"] {
        assert_report(&place.passes(&["info", log])?)?;
        place.passes(&["check", log])?;
    }
    place.workshop.done()
}

#[test]
fn recordings_at_the_same_time_share_too() -> Result<()> {
    let place = Place::new("kept-parallel")?;
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..6).map(|_| scope.spawn(|| place.record())).collect();
        all.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow::anyhow!("a panic"))?)
    })?;
    let (all, different) = copies(&place.logs())?;
    ensure!(all == 6 * different, "{all} copies, {different} different ones");
    place.passes(&["rm", "--keep-last", "1"])?;
    assert_report(&place.passes(&["info"])?)?;
    place.workshop.done()
}

#[test]
fn one_file_is_all_it_takes() -> Result<()> {
    let place = Place::new("kept-packed")?;
    place.record()?;
    place.passes(&["pack", "--sources", "-o", "crash.bugnet"])?;
    let whole = place.passes(&["replay", "--output"])?;
    fs::remove_file(&place.program)?;
    fs::remove_file(place.path("crashes.c"))?;
    place.passes(&["rm", "--all"])?;
    fs::create_dir(place.path("elsewhere"))?;
    fs::rename(place.path("crash.bugnet"), place.path("elsewhere/sent"))?;
    let sent = "elsewhere/sent";
    let report = place.passes(&["info", sent])?;
    assert_report(&report)?;
    ensure!(report.contains("return *p; /* line 3 */"), "the source text is not shown: {report}");
    for command in ["check", "replay", "ps", "dump", "order"] {
        place.passes(&[command, sent])?;
    }
    place.passes(&["replay", "--merged", sent])?;
    ensure!(place.passes(&["replay", "--output", sent])? == whole, "another output");
    // The sources are with it.
    place.passes(&["unpack", sent, "-o", "unpacked"])?;
    let source = place.path("crashes.c").canonicalize().unwrap_or_else(|_| place.path("crashes.c"));
    let inside = place.path("unpacked/sources").join(source.strip_prefix("/")?);
    ensure!(fs::read_to_string(&inside)? == CRASHES, "{}", inside.display());
    assert_report(&place.passes(&["info", "unpacked"])?)?;
    ensure!(!place.logs().join(".elf").exists() || copies(&place.logs())?.0 == 0, "reading leaves nothing behind");
    place.workshop.done()
}

#[test]
fn a_log_without_copies_gets_them_when_it_is_packed() -> Result<()> {
    let place = Place::new("kept-no-pack")?;
    // Its debug information lies beside it.
    let split = "objcopy --only-keep-debug crashes crashes.debug && strip --strip-debug crashes && \
                 objcopy --add-gnu-debuglink=crashes.debug crashes";
    let split = run(Command::new("sh").args(["-c", split]).current_dir(&place.workshop.path))?;
    ensure!(split.status.success(), "{}", printed(&split));
    let output = place.bugnet(&["record", "--quiet", "--no-pack", "-o", "log", "./crashes"])?;
    ensure!(output.status.signal() == Some(11), "{}", printed(&output));
    place.passes(&["pack", "log", "-o", "packed"])?;
    fs::remove_file(&place.program)?;
    fs::remove_file(place.path("crashes.debug"))?;
    assert_report(&place.passes(&["info", "packed"])?)?;
    ensure!(!place.path("log/elf").exists(), "packing has changed the log");
    place.workshop.done()
}

#[test]
fn an_encrypted_file_replays_for_who_has_the_key() -> Result<()> {
    let place = Place::new("kept-encrypted")?;
    place.record()?;
    let key = age::x25519::Identity::generate();
    fs::write(place.path("key"), key.to_string().expose_secret())?;
    place.passes(&["pack", "--encrypt-to", &key.to_public().to_string(), "-o", "secret"])?;
    fs::remove_file(&place.program)?;
    let bytes = fs::read(place.path("secret"))?;
    ensure!(!bytes.windows(10).any(|window| window == b"falls_over"), "it is not encrypted");
    let refused = place.bugnet(&["replay", "secret"])?;
    ensure!(refused.status.code() == Some(4) && printed(&refused).contains("--identity"), "{}", printed(&refused));
    assert_report(&place.passes(&["info", "secret", "--identity", "key"])?)?;
    for command in ["check", "replay"] {
        place.passes(&[command, "secret", "--identity", "key"])?;
    }
    place.workshop.done()
}
