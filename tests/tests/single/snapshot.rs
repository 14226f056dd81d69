//! Memory as it is at the end of a process: what the log holds of it, compared with what the program itself wrote out of its memory
//! just before, and with what replay leads to; limits; real programs.

use anyhow::{Context, Result, ensure};
use bugnet_format::record::Record;
use bugnet_format::types::Addr;
use bugnet_replay::cursor::{Cursor, Seek};
use bugnet_replay::log::{IntervalId, Log};
use bugnet_replay::memory::{Memory, Snapshots};
use bugnet_replay::tools::Tools;
use bugnet_tests::bugnet::{Job, Workshop, binary, must_pass, printed, run, source_tree};
use bugnet_tests::programs::compile;
use bugnet_tests::sample::some_of;
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Output;

/// A recording of a program in a folder of its own.
struct Recorded {
    folder: PathBuf,
    log: PathBuf,
    output: Output,
}

/// Compiles a program of `programs/ending` and records it.
fn record(workshop: &Workshop, name: &str, program: &str, args: &[&str], options: &[&str]) -> Result<Recorded> {
    let source = fs::read_to_string(source_tree().join("tests/programs/ending").join(program).with_extension("c"))?;
    let folder = workshop.folder(&format!("{name}-folder"))?;
    let path = folder.join(program);
    compile(&["gcc", "-g", "-O0", "-pthread"], &source, &path)?;
    let command = [&[path.to_str().context("path")?], args].concat();
    record_job(workshop, name, &Job::new(&folder, command), options)
}

fn record_job(workshop: &Workshop, name: &str, job: &Job, options: &[&str]) -> Result<Recorded> {
    let log = workshop.path.join(name);
    let output = run(&mut job.recorded(&log, options)?)?;
    Ok(Recorded { folder: job.dir.clone(), log, output })
}

impl Recorded {
    /// Its log is whole, and replays, each thread alone and all together. Returns what `info` says, as JSON.
    fn verify(&self) -> Result<Value> {
        must_pass(&["check"], &self.log)?;
        must_pass(&["replay"], &self.log)?;
        must_pass(&["replay", "--merged"], &self.log)?;
        Ok(serde_json::from_slice(&must_pass(&["info", "--json"], &self.log)?.stdout)?)
    }

    fn open(&self) -> Result<Log> {
        Log::open(&self.log).context("the log")
    }

    /// Memory at the end of the only process.
    fn snapshots(&self) -> Result<Snapshots> {
        let log = self.open()?;
        let process = log.threads().next().context("no thread")?.pid;
        Ok(Snapshots::of_process(&log, process)?)
    }

    /// The pieces that the program wrote out of its memory.
    fn written(&self) -> Result<Vec<(u64, Vec<u8>)>> {
        let bytes = fs::read(self.folder.join("pieces"))?;
        let (mut rest, mut pieces) = (&bytes[..], Vec::new());
        while let Some((head, behind)) = rest.split_at_checked(16) {
            let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| head[at + n]));
            let (piece, behind) = behind.split_at_checked(number(8) as usize).context("cut off")?;
            pieces.push((number(0), piece.to_owned()));
            rest = behind;
        }
        Ok(pieces)
    }

    /// The log has all of this, and nothing else there.
    fn agrees(&self) -> Result<()> {
        let mut snapshots = self.snapshots()?;
        let pieces = self.written()?;
        ensure!(pieces.len() >= 13, "{} pieces", pieces.len());
        for (address, bytes) in pieces {
            let kept = snapshots.read_memory(Addr(address), bytes.len() as u64)?;
            let same = kept.iter().zip(&bytes).take_while(|(a, b)| a == b).count();
            ensure!(kept == bytes, "{} bytes at {address:#x}: {} kept, {same} the same", bytes.len(), kept.len());
        }
        Ok(())
    }

    /// What is known at the end of the replay of all threads, in their order, is what the log holds. Returns how many bytes that are.
    fn agrees_with_replay(&self) -> Result<usize> {
        let log = self.open()?;
        let process = log.threads().next().context("no thread")?.pid;
        let tools = Tools::locate_for(&binary()?, None)?;
        let mut cursor = Cursor::open(&tools, &log, process)?;
        cursor.seek(Seek::Time(cursor.end()))?;
        let mut compared = 0;
        for thread in log.threads() {
            let interval = *log.intervals(thread)?.last().context("no interval")?;
            let interval = log.interval(IntervalId { thread, interval })?;
            for placed in interval.ending().flatten() {
                let zeros;
                let (addr, bytes) = match placed.record {
                    Record::Snapshot { addr, bytes } => (addr, bytes),
                    Record::Zeros { addr, len } => {
                        zeros = vec![0; len.min(1 << 20) as usize];
                        (addr, &zeros[..])
                    }
                    _ => continue,
                };
                let known = cursor.read_known(addr, bytes.len() as u64)?;
                for (at, (known, kept)) in known.iter().zip(bytes).enumerate() {
                    let Some(known) = known else { continue };
                    ensure!(known == kept, "{known:#x} by replay, {kept:#x} kept at {:#x}", addr.0 + at as u64);
                    compared += 1;
                }
            }
        }
        Ok(compared)
    }

    /// The sums of what `info` says of all threads: kept, zeros, left out.
    fn amounts(info: &Value) -> Result<[u64; 3]> {
        let threads = info["threads"].as_array().context("threads")?;
        let sum = |name: &str| threads.iter().filter_map(|thread| thread["memory"][name].as_u64()).sum();
        Ok(["kept", "zeros", "omitted"].map(sum))
    }

    fn info(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&must_pass(&["info"], &self.log)?.stdout).into_owned())
    }
}

#[test]
fn is_what_the_program_had() -> Result<()> {
    let workshop = Workshop::new("snapshot-agrees")?;
    let kept = ["--interval", "300k", "--keep", "1"];
    for (how, threads) in [("crash", "0"), ("abort", "0"), ("raise", "0"), ("crash", "5"), ("abort", "5")] {
        let recorded = record(&workshop, &format!("{how}-{threads}"), "memory", &[how, threads], &kept)?;
        ensure!(recorded.output.status.signal().is_some(), "{}", printed(&recorded.output));
        recorded.agrees().with_context(|| format!("{how} with {threads} threads"))?;
        recorded.agrees_with_replay().with_context(|| format!("{how} with {threads} threads"))?;
        let [kept, zeros, omitted] = Recorded::amounts(&recorded.verify()?)?;
        ensure!((300_000..16 << 20).contains(&kept), "{kept} bytes are kept");
        ensure!(zeros > 1 << 30 && omitted == 0, "{zeros} zeros, {omitted} left out");
    }
    workshop.done()
}

#[test]
fn at_every_end_if_that_is_wanted() -> Result<()> {
    let workshop = Workshop::new("snapshot-exit")?;
    for (how, status) in [("exit", 7), ("syscall", 3)] {
        let without = record(&workshop, &format!("{how}-without"), "memory", &[how, "0"], &[])?;
        ensure!(without.snapshots()?.is_empty(), "memory is kept without a crash");
        let recorded = record(&workshop, how, "memory", &[how, "0"], &["--snapshot"])?;
        ensure!(recorded.output.status.code() == Some(status), "{}", printed(&recorded.output));
        recorded.agrees()?;
        recorded.verify()?;
    }
    let recorded = record(&workshop, "threads", "memory", &["exit", "3"], &["--snapshot=64M"])?;
    recorded.agrees()?;
    recorded.verify()?;
    workshop.done()
}

#[test]
fn variables_far_from_the_last_interval() -> Result<()> {
    let workshop = Workshop::new("snapshot-variables")?;
    let kept = ["--interval", "300k", "--keep", "1"];
    let recorded = record(&workshop, "kept", "memory", &["crash", "2"], &kept)?;
    recorded.verify()?;
    let info = recorded.info()?;
    for known in ["\"long ago\"", "memory at its end: ", "argument  seed = 0x64", "argument  seed = 0x65", "own = \""] {
        ensure!(info.contains(known), "there is no `{known}` in\n{info}");
    }
    ensure!(!info.contains("not found out"), "{info}");
    let without = record(&workshop, "without", "memory", &["crash", "2"], &[&kept[..], &["--no-snapshot"]].concat())?;
    without.verify()?;
    ensure!(without.snapshots()?.is_empty());
    let info = without.info()?;
    ensure!(!info.contains("memory at its end"), "{info}");
    workshop.done()
}

#[test]
fn what_is_left_out_is_said() -> Result<()> {
    let workshop = Workshop::new("snapshot-limit")?;
    let source = fs::read_to_string(source_tree().join("tests/programs/ending/memory.c"))?;
    let folder = workshop.folder("folder")?;
    compile(&["gcc", "-g", "-O0", "-pthread"], &source, &folder.join("memory"))?;
    for limit in [0u64, 16 << 10, 200 << 10] {
        let log = workshop.path.join(format!("log-{limit}"));
        let mut command = std::process::Command::new(binary()?);
        command.arg("record").arg(format!("--snapshot={limit}")).arg("-o").arg(&log).arg(folder.join("memory"));
        let output = run(command.args(["crash", "2"]).current_dir(&folder))?;
        let recorded = Recorded { folder: folder.clone(), log, output };
        let said = String::from_utf8_lossy(&recorded.output.stderr);
        ensure!(said.contains("left out, of which record --snapshot=LIMIT keeps more"), "{said}");
        let [kept, zeros, omitted] = Recorded::amounts(&recorded.verify()?)?;
        ensure!(kept <= limit && kept + (64 << 10) > limit, "{kept} bytes are kept");
        ensure!(zeros > 1 << 30 && omitted > 300_000, "{zeros} zeros, {omitted} left out");
        // What there is of it is right, and all of the rest is known to be left out.
        let mut snapshots = recorded.snapshots()?;
        for (address, bytes) in recorded.written()? {
            let mut at = 0;
            while at < bytes.len() {
                let here = Addr(address + at as u64);
                let kept = snapshots.read_memory(here, (bytes.len() - at) as u64)?;
                ensure!(bytes[at..].starts_with(&kept), "other bytes at {here}");
                ensure!(!kept.is_empty() || snapshots.lacks(here), "{here} is neither kept nor left out");
                at += kept.len().max(1);
            }
        }
        ensure!(recorded.info()?.contains("bytes of memory at the end, of which"), "it is not said in the report");
    }
    workshop.done()
}

/// Other threads run on until the memory is kept: what it holds is what their logs lead to, in the order of all of them.
#[test]
fn agrees_with_the_replay_of_all_threads() -> Result<()> {
    let workshop = Workshop::new("snapshot-writers")?;
    for round in 0..3 {
        let recorded = record(&workshop, &format!("round-{round}"), "writers", &[], &[])?;
        ensure!(recorded.output.status.signal() == Some(libc::SIGSEGV), "{}", printed(&recorded.output));
        recorded.verify()?;
        let compared = recorded.agrees_with_replay()?;
        ensure!(compared > 100_000, "{compared} bytes were compared");
    }
    workshop.done()
}

#[test]
fn of_an_interpreter() -> Result<()> {
    let workshop = Workshop::new("snapshot-python")?;
    let crashes =
        ["import os; os.abort()", "import ctypes; ctypes.string_at(0)", "import os; os.kill(os.getpid(), 11)"];
    for (number, crash) in some_of(crashes.len(), crashes.iter().enumerate()) {
        let program = format!("numbers = [n * n for n in range(50000)]; text = 'a' * 100000\n{crash}");
        let folder = workshop.folder(&format!("folder-{number}"))?;
        let job = Job::new(&folder, ["/usr/bin/python3", "-c", &program]);
        let recorded = record_job(&workshop, &format!("log-{number}"), &job, &["--interval", "20M"])?;
        ensure!(recorded.output.status.signal().is_some(), "{}", printed(&recorded.output));
        let [kept, _, omitted] = Recorded::amounts(&recorded.verify()?)?;
        ensure!(kept > 1 << 20 && omitted == 0, "{kept} bytes kept, {omitted} left out");
        let compared = recorded.agrees_with_replay()?;
        ensure!(compared > 100_000, "{compared} bytes were compared");
    }
    workshop.done()
}

/// A limit of file sizes that the memory at the end meets: the log says how the program ended all the same.
#[test]
fn where_there_is_no_room() -> Result<()> {
    let workshop = Workshop::new("snapshot-room")?;
    let folder = workshop.folder("folder")?;
    let log = workshop.path.join("log");
    let program = "import os; os.urandom(1); data = os.urandom(20 << 20); os.abort()";
    let record = format!(
        "ulimit -f 4096; exec {} record -o {} /usr/bin/python3 -c '{program}'",
        binary()?.display(),
        log.display()
    );
    let output = run(std::process::Command::new("bash").args(["-c", &record]).current_dir(&folder))?;
    let recorded = Recorded { folder, log, output };
    ensure!(recorded.output.status.signal() == Some(libc::SIGABRT), "{}", printed(&recorded.output));
    let said = String::from_utf8_lossy(&recorded.output.stderr);
    ensure!(said.contains("the log lacks some of the memory at the end: "), "{said}");
    let [kept, ..] = Recorded::amounts(&recorded.verify()?)?;
    ensure!(kept > 1 << 20, "{kept} bytes are kept");
    workshop.done()
}
