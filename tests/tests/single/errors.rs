//! What the user sees when a log is not what it should be, and when the disk is full while recording.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, binary, bugnet, must_pass, printed, run, same_bytes};
use bugnet_tests::many_loads;
use fastrand::Rng;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// `bugnet`'s exit status for a log that breaks a rule, or a replay that went another way.
const WRONG: i32 = 1;
/// Its exit status for no log, a damaged one, or one of another version.
const BAD_LOG: i32 = 3;

/// Records a program of several intervals into `log`.
fn record(workshop: &Workshop) -> Result<PathBuf> {
    let log = workshop.path.join("log");
    let job = Job::new(&workshop.path, ["/bin/echo", "recorded"]);
    let output = run(&mut job.recorded(&log, &["--interval", "50k", "--check-every", "5k"])?)?;
    ensure!(output.status.success(), "recording: {}\n{}", output.status, printed(&output));
    must_pass(&["check"], &log)?;
    must_pass(&["replay"], &log)?;
    ensure!(intervals(&log)?.len() > 2, "a log of several intervals is needed");
    Ok(log)
}

/// All files below a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(self::files(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn with_extension(log: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    Ok(files(log)?.into_iter().filter(|path| path.extension().is_some_and(|e| e == extension)).collect())
}

fn intervals(log: &Path) -> Result<Vec<PathBuf>> {
    with_extension(log, "bni")
}

fn of(command: &str, log: &Path) -> Result<Output> {
    let output = bugnet([command.as_ref(), log.as_os_str()])?;
    let text = printed(&output);
    ensure!(output.status.code().is_some_and(|code| code <= 5), "{command}: {}\n{text}", output.status);
    ensure!(!text.contains("panicked"), "{command} panicked\n{text}");
    Ok(output)
}

/// `command` must fail with `code`, and its message must contain all of `words`.
fn must_fail(command: &str, log: &Path, code: i32, words: &[&str]) -> Result<()> {
    let output = of(command, log)?;
    let text = printed(&output);
    ensure!(output.status.code() == Some(code), "{command}: {}, expected {code}\n{text}", output.status);
    for word in words {
        ensure!(text.contains(word), "{command} does not say {word:?}\n{text}");
    }
    Ok(())
}

#[test]
fn not_a_log() -> Result<()> {
    let workshop = Workshop::new("errors-not-a-log")?;
    let empty = workshop.folder("empty")?;
    let file = workshop.path.join("file");
    fs::write(&file, "no log")?;
    let garbage = workshop.folder("garbage")?;
    fs::write(garbage.join("recording.json"), [0, 159, 146, 150])?;
    for command in ["replay", "info", "dump", "check"] {
        must_fail(command, &workshop.path.join("nowhere"), BAD_LOG, &["nowhere"])?;
        must_fail(command, &empty, BAD_LOG, &["empty", "not a bugnet log"])?;
        must_fail(command, &file, BAD_LOG, &["file"])?;
        must_fail(command, &garbage, BAD_LOG, &["garbage", "recording.json"])?;
    }
    workshop.done()
}

#[test]
fn another_version() -> Result<()> {
    let workshop = Workshop::new("errors-version")?;
    let log = record(&workshop)?;
    let interval = intervals(&log)?.swap_remove(1);
    let whole = fs::read(&interval)?;
    let mut other = whole.clone();
    other[8..12].copy_from_slice(&77u32.to_le_bytes());
    fs::write(&interval, other)?;
    let replay = of("replay", &log)?;
    ensure!(!replay.status.success() && printed(&replay).contains("version 77"), "{}", printed(&replay));
    let check = of("check", &log)?;
    ensure!(!check.status.success() && printed(&check).contains("version 77"), "{}", printed(&check));
    fs::write(&interval, whole)?;
    let meta = log.join("recording.json");
    let json = fs::read_to_string(&meta)?;
    let changed =
        json.replace(&format!("\"format_version\": {}", bugnet_format::FORMAT_VERSION), "\"format_version\": 999");
    ensure!(changed != json, "recording.json has no format_version");
    fs::write(&meta, changed)?;
    for command in ["replay", "info", "dump", "check"] {
        must_fail(command, &log, BAD_LOG, &["version 999", "use the bugnet that made it"])?;
    }
    workshop.done()
}

#[test]
fn a_missing_interval() -> Result<()> {
    let workshop = Workshop::new("errors-missing")?;
    let log = record(&workshop)?;
    fs::remove_file(&intervals(&log)?[1])?;
    for command in ["replay", "check"] {
        let output = of(command, &log)?;
        let text = printed(&output);
        ensure!(!output.status.success() && text.contains("missing"), "{command}: {}\n{text}", output.status);
    }
    workshop.done()
}

#[test]
fn truncated() -> Result<()> {
    let workshop = Workshop::new("errors-truncated")?;
    let log = record(&workshop)?;
    let all = intervals(&log)?;
    let (first, last) = (&all[0], &all[all.len() - 1]);
    let mut rng = Rng::with_seed(1);
    for (file, is_last) in [(first, false), (last, true)] {
        let whole = fs::read(file)?;
        let lengths = [0, 8, 64, whole.len() - 1].into_iter().chain((0..4).map(|_| rng.usize(..whole.len())));
        for length in lengths.collect::<Vec<_>>() {
            fs::write(file, &whole[..length])?;
            for command in ["check", "replay"] {
                let output = of(command, &log)?;
                let text = printed(&output);
                // Only the last interval can have been cut off by a kill; then all that is said must say so.
                let said = is_last && text.contains("cut off");
                ensure!(
                    !output.status.success() || said,
                    "{command} takes {} cut to {length} of {} bytes for whole\n{text}",
                    file.display(),
                    whole.len()
                );
            }
        }
        fs::write(file, whole)?;
    }
    must_pass(&["replay"], &log)?;
    workshop.done()
}

#[test]
fn altered_bytes() -> Result<()> {
    let workshop = Workshop::new("errors-altered")?;
    let log = record(&workshop)?;
    let mut rng = Rng::with_seed(2);
    for file in files(&log)? {
        let whole = fs::read(&file)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Every byte of these is under a checksum. The others are text and copies for people.
        let guarded = name.ends_with(".bni") || name == "code.bnc";
        for turn in 0..6 {
            let at = if turn == 0 { 0 } else { rng.usize(..whole.len()) };
            let mut altered = whole.clone();
            altered[at] ^= 1 << rng.u32(..8);
            fs::write(&file, altered)?;
            let check = of("check", &log)?;
            let replay = of("replay", &log)?;
            if guarded {
                let case = format!("byte {at} of {name} altered");
                ensure!(!check.status.success(), "check does not see it: {case}\n{}", printed(&check));
                ensure!(!replay.status.success(), "replay does not see it: {case}\n{}", printed(&replay));
            }
            of("info", &log)?;
        }
        fs::write(&file, whole)?;
    }
    must_pass(&["replay"], &log)?;
    workshop.done()
}

#[test]
fn a_damaged_interval_is_named_and_the_others_replay() -> Result<()> {
    let workshop = Workshop::new("errors-named")?;
    let log = record(&workshop)?;
    let file = intervals(&log)?.swap_remove(1);
    let mut bytes = fs::read(&file)?;
    bytes[100] ^= 0x40;
    fs::write(&file, bytes)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    must_fail("check", &log, WRONG, &[&name])?;
    must_pass(&["replay", "--intervals", "0..1"], &log)?;
    must_pass(&["replay", "--intervals", "2.."], &log)?;
    workshop.done()
}

/// Records `job` with the log in a file system of `size` (as for `mount -o size=`), in a mount namespace. The program must go
/// on as natively, the summary must say what happened, and what there is of the log must be sound. Returns the folder
/// with what `replay` (with its `.status`) and the end of `dump` printed.
fn record_on_a_small_disk(test: &str, size: &str, job: fn(&Path) -> Result<Job>) -> Result<Workshop> {
    const SCRIPT: &str = "mount -t tmpfs -o size=\"$SIZE\" tmpfs disk && \
        { \"$BUGNET\" record --no-pack -o disk/log --interval 10M --check-every 1k -- \"$@\" \
          >recorded.out 2>recorded.err; echo $? >status; \
          \"$BUGNET\" check disk/log >check 2>&1; echo $? >check.status; \
          \"$BUGNET\" replay disk/log >replay 2>&1; echo $? >replay.status; \
          \"$BUGNET\" info disk/log >info 2>&1; \
          \"$BUGNET\" dump disk/log 2>/dev/null | tail -n 1 >end; }";
    let workshop = Workshop::new(test)?;
    workshop.folder("disk")?;
    let job = job(&workshop.path)?;
    let native = run(&mut job.native()?)?;
    let flags: &[&str] = if nix::unistd::geteuid().is_root() { &["-m"] } else { &["-rm"] };
    let mut command = Command::new("unshare");
    command.args(flags).args(["sh", "-c", SCRIPT, "sh"]).args(&job.command).env("BUGNET", binary()?).env("SIZE", size);
    let output = run(command.current_dir(&workshop.path))?;
    ensure!(output.status.success(), "a mount namespace is needed: run this as root\n{}", printed(&output));
    let read = |name: &str| read(&workshop, name);
    ensure!(read("status")? == "0", "the program must go on: status {}", read("status")?);
    same_bytes("standard output", &native.stdout, &fs::read(workshop.path.join("recorded.out"))?)?;
    let summary = read("recorded.err")?;
    ensure!(summary.contains("No space left on device") || summary.contains("disk is full"), "summary: {summary}");
    ensure!(read("check.status")? == "5", "check: {}", read("check")?);
    ensure!(read("info")?.contains("exit status 0"), "info does not know how it ended: {}", read("info")?);
    Ok(workshop)
}

fn read(workshop: &Workshop, name: &str) -> Result<String> {
    let text = fs::read_to_string(workshop.path.join(name)).with_context(|| name.to_owned())?;
    Ok(text.trim().to_owned())
}

fn shell_loop(dir: &Path) -> Result<Job> {
    fs::write(dir.join("loop.sh"), include_str!("../../programs/loop.sh"))?;
    Ok(Job::new(dir, ["/bin/bash", "loop.sh", "300"]))
}

/// The log is one that ends where the disk was full, and replays up to there.
fn ends_with_the_disk(workshop: &Workshop) -> Result<()> {
    ensure!(read(workshop, "replay.status")? == "5", "replay: {}", read(workshop, "replay")?);
    // Where the disk was full just at an interval's end, that is the log's end, and the next interval is missing.
    let (end, check) = (read(workshop, "end")?, read(workshop, "check")?);
    ensure!(end.contains("the log could not go on") || end.contains("interval full"), "the log's last record: {end}");
    ensure!(check.contains("missing: ") && check.contains("not complete"), "check: {check}");
    Ok(())
}

#[test]
fn disk_full_while_recording() -> Result<()> {
    let workshop = record_on_a_small_disk("errors-disk-full", "2000k", shell_loop)?;
    ends_with_the_disk(&workshop)?;
    workshop.done()
}

#[test]
fn disk_full_while_bugnet_compresses() -> Result<()> {
    // Room for both tails of the thread, and for some frames.
    let workshop = record_on_a_small_disk("errors-disk-full-frames", "8000k", |dir| many_loads::job(dir, 300, 1, 0))?;
    ends_with_the_disk(&workshop)?;
    workshop.done()
}

#[test]
fn disk_full_before_a_fork() -> Result<()> {
    let workshop = record_on_a_small_disk("errors-disk-full-fork", "4000k", |dir| many_loads::job(dir, 80, 1, 1))?;
    ends_with_the_disk(&workshop)?;
    workshop.done()
}

#[test]
fn disk_full_from_the_start() -> Result<()> {
    record_on_a_small_disk("errors-disk-full-at-start", "600k", shell_loop)?.done()
}
