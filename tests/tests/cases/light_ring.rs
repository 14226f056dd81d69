//! `record --light --keep`: of what ran for some seconds, the log has the end, from an epoch on, and replays as what ran.

use crate::light_campaigns::{look, program_of};
use anyhow::{Context, Result, ensure};
use bugnet_format::light::Parts;
use bugnet_format::types::ProcessId;
use bugnet_tests::bugnet::{
    INCOMPLETE, Job, Workshop, binary, bugnet, must_pass, printed, run, same_bytes, source_tree, take_messages,
};
use bugnet_tests::programs::compile;
use fastrand::Rng;
use libtest_mimic::{Failed, Trial};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// What is recorded, and what it prints ends with this line.
type Case = (&'static str, &'static [&'static str], &'static str);

/// Programs of the system's, with forks.
const SCRIPTS: [Case; 5] = [
    // One of which forks come and go.
    (
        "forks",
        &["/bin/bash", "-c", "for i in {1..40}; do (echo $i $((i * 7))); /bin/sleep 0.1; done; echo over"],
        "over",
    ),
    // One that waits for a fork, which goes on for long, and executes others.
    ("waits", &["/bin/bash", "-c", "(for i in {1..40}; do echo $i; /bin/sleep 0.1; done; echo over) & wait"], "over"),
    (
        "python",
        &[
            "/usr/bin/python3",
            "-c",
            "import time, hashlib, threading\n\
             known = {}\n\
             def work(name):\n\
             \x20   end = time.time() + 4\n\
             \x20   while time.time() < end:\n\
             \x20       known[name] = hashlib.sha256(repr(known).encode()).hexdigest(); print(name, known[name], flush=True)\n\
             \x20       time.sleep(0.01)\n\
             threads = [threading.Thread(target=work, args=(n,)) for n in 'abc']\n\
             [t.start() for t in threads]; [t.join() for t in threads]; print('over')",
        ],
        "over",
    ),
    // A server that gives up its rights, to those of who may not look into the log's folder; and closes all that it does not know.
    (
        "rights",
        &[
            "/usr/bin/python3",
            "-c",
            "import os, time\n\
             if os.getuid() == 0:\n\
             \x20   os.setgroups([])\n\
             \x20   os.setgid(65534)\n\
             \x20   os.setuid(65534)\n\
             os.closerange(3, 100000)\n\
             for n in range(3, 9000):\n\
             \x20   try: os.close(n)\n\
             \x20   except OSError: pass\n\
             zero = os.open('/dev/zero', os.O_RDONLY)\n\
             print(zero, os.dup2(zero, 1000), flush=True)\n\
             end, read = time.time() + 5, 0\n\
             while time.time() < end:\n\
             \x20   read += len(os.read(zero, 65536))\n\
             \x20   if read % (400 << 16) == 0:\n\
             \x20       pid = os.fork()\n\
             \x20       if pid == 0: os._exit(len(os.read(zero, 7)))\n\
             \x20       print(os.waitpid(pid, 0)[1], flush=True)\n\
             print('over')",
        ],
        "over",
    ),
    // Processes that share memory of less than a page, and of files; one has threads, the others come and go, fork, and execute programs.
    (
        "pool",
        &[
            "/usr/bin/python3",
            "-c",
            "import multiprocessing, os, subprocess, time\n\
             def begin(given):\n\
             \x20   global total\n\
             \x20   total = given\n\
             def work(n):\n\
             \x20   with total.get_lock(): total.value += n\n\
             \x20   if n == 3: subprocess.run(['/bin/false'])\n\
             \x20   if n == 4:\n\
             \x20       pid = os.fork()\n\
             \x20       if pid == 0: os.execv('/bin/sleep', ['sleep', '0.2'])\n\
             \x20       os.waitpid(pid, 0)\n\
             \x20   return n * n\n\
             total = multiprocessing.Value('i', 0)\n\
             with multiprocessing.Pool(2, initializer=begin, initargs=(total,), maxtasksperchild=3) as pool:\n\
             \x20   end = time.time() + 5\n\
             \x20   while time.time() < end:\n\
             \x20       print(sum(pool.map(work, range(8))), total.value % 7, flush=True)\n\
             \x20       time.sleep(0.05)\n\
             print('over')",
        ],
        "over",
    ),
];

fn recorded(workshop: &Workshop, command: &[&str], keep: &str, log: &Path) -> Result<Output> {
    let job = Job::new(&workshop.folder("recorded")?, command.iter().copied());
    run(&mut job.recorded(log, &["--light", "--keep", keep])?)
}

/// What was kept begins at an epoch, has its processes' ends, and replays, each process's threads together, too.
fn verify(log: &Path, output: &Output, last: &str) -> Result<()> {
    let late: Vec<ProcessId> = Parts::all(log)?
        .into_iter()
        .filter(|parts| !parts.is_left_out)
        .filter_map(|parts| parts.beginning(log).transpose().map(|begun| begun.map(|_| parts.header.process)))
        .collect::<Result<_, _>>()?;
    ensure!(!late.is_empty(), "no log begins at an epoch: {:?}", fs::read_dir(log.join("light"))?.collect::<Vec<_>>());
    let said = printed(&must_pass(&["expand"], log)?);
    ensure!(!said.contains("does not fit"), "{said}");
    must_pass(&["check"], log)?;
    must_pass(&["replay"], log)?;
    let whole = String::from_utf8(output.stdout.clone())?;
    ensure!(whole.trim_end().ends_with(last), "{whole}");
    for process in &late {
        let of = process.to_string();
        must_pass(&["replay", "--merged", "-p", &of], log)?;
    }
    Ok(())
}

/// The end of what was printed, as a log has it.
fn kept_output(log: &Path) -> Result<Vec<u8>> {
    Ok(must_pass(&["replay", "--output"], log)?.stdout)
}

/// The parts from which on the logs of processes are made, one after the other.
fn made_from(log: &Path) -> Result<Vec<u64>> {
    let made = fs::read_to_string(log.join("light/expanded"))?;
    let part = |line: &str| -> Result<(String, u64)> {
        let (process, part) = line.split_once(' ').with_context(|| made.clone())?;
        Ok((process.to_owned(), part.parse()?))
    };
    let mut parts = made.lines().map(part).collect::<Result<Vec<_>>>()?;
    parts.sort_unstable();
    Ok(parts.into_iter().map(|(_, part)| part).collect())
}

/// The position at which a log ends.
fn end_of(log: &Path) -> Result<String> {
    let shown = String::from_utf8(must_pass(&["at", "end"], log)?.stdout)?;
    let position = shown.split_whitespace().nth(1).with_context(|| shown.clone())?;
    Ok(position.to_owned())
}

fn own(name: &str, dies: bool) -> Result<()> {
    const SIGSEGV: i32 = 11;
    let workshop = Workshop::new(&format!("light-ring-{name}"))?;
    let program = workshop.path.join("epochs");
    let source = source_tree().join("tests/programs/light/epochs.c");
    compile(&["gcc", "-O1", "-g", "-pthread"], &fs::read_to_string(source)?, &program)?;
    let program = program.to_string_lossy().into_owned();
    let command = [program.as_str(), "5", "x"];
    let log = workshop.path.join("log");
    let mut output = recorded(&workshop, &command[..if dies { 3 } else { 2 }], "2s", &log)?;
    let messages = take_messages(&mut output);
    let ended = if dies { output.status.signal() == Some(SIGSEGV) } else { output.status.success() };
    ensure!(ended, "{messages}{}", printed(&output));
    // Of the end alone the log is made first; positions stay the same when all of it is. (What `why` says of a crash, [`group`] looks at: this program computes for too long.)
    let position = end_of(&log)?;
    let first = made_from(&log)?;
    verify(&log, &output, "1")?;
    ensure!(made_from(&log)? < first, "all was made before it was asked");
    ensure!(end_of(&log)? == position, "the end is elsewhere");
    let kept = kept_output(&log)?;
    ensure!(output.stdout.ends_with(&kept) && kept.len() > 20, "{}", String::from_utf8_lossy(&kept));
    ensure!(kept.len() < output.stdout.len(), "all of it was kept");
    workshop.done()
}

/// Processes that share memory begin epochs together, and their logs are made together; that of the last epoch alone if the end of one is asked.
fn group() -> Result<()> {
    let workshop = Workshop::new("light-ring-group")?;
    let program = workshop.path.join("group");
    let source = source_tree().join("tests/programs/light/group.c");
    compile(&["gcc", "-O1", "-g", "-pthread"], &fs::read_to_string(source)?, &program)?;
    let program = program.to_string_lossy().into_owned();
    let log = workshop.path.join("log");
    let mut output = recorded(&workshop, &[&program, "6", "x"], "2s", &log)?;
    let messages = take_messages(&mut output);
    ensure!(output.status.code() == Some(1), "{messages}{}", printed(&output));
    let packed = workshop.path.join("packed");
    let mut pack = Command::new(binary()?);
    let done = run(pack.arg("pack").arg("-o").arg(&packed).arg(&log))?;
    ensure!(done.status.success(), "{}", printed(&done));
    let position = end_of(&log)?;
    let first = made_from(&log)?;
    let why = printed(&must_pass(&["why"], &log)?);
    ensure!(why.contains("SIGSEGV") && why.contains("round_of(worker) = 1"), "{why}");
    verify(&log, &output, "1 1")?;
    ensure!(made_from(&log)? < first, "all was made before it was asked");
    ensure!(end_of(&log)? == position, "the end is elsewhere");
    let (kept, all) = (String::from_utf8(kept_output(&log)?)?, String::from_utf8(output.stdout)?);
    let was_printed = kept.lines().all(|line| all.lines().any(|other| other == line));
    ensure!(was_printed && kept.lines().count() > 4 && kept.len() < all.len(), "{kept}\nof\n{all}");
    must_pass(&["replay"], &packed)?;
    same_bytes("what is made of a packed log", kept.as_bytes(), &must_pass(&["replay", "--output"], &packed)?.stdout)?;
    workshop.done()
}

/// However a program is killed, or who records it, what is kept is sound: it replays, up to where it was killed.
fn killed(name: &str, rounds: Range<usize>) -> Result<()> {
    let workshop = Workshop::new(&format!("light-ring-killed-{name}-{}", rounds.len()))?;
    let program = workshop.path.join(name);
    let source = source_tree().join(format!("tests/programs/light/{name}.c"));
    compile(&["gcc", "-O1", "-g", "-pthread"], &fs::read_to_string(source)?, &program)?;
    let program = program.to_string_lossy().into_owned();
    let mut random = Rng::new();
    for round in rounds {
        let log = workshop.path.join(format!("log-{round}"));
        let job = Job::new(&workshop.folder(&format!("round-{round}"))?, [program.as_str(), "60"]);
        let mut recorded = job.recorded(&log, &["--light", "--keep", "1s"])?;
        recorded.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut recorder = recorded.spawn()?;
        let (own, all) = (program_of(&recorder)?, Pid::from_raw(recorder.id().cast_signed()));
        sleep(Duration::from_millis(random.u64(1500..5000)));
        match round % 3 {
            0 => kill(own, Signal::SIGKILL)?,
            1 => kill(all, Signal::SIGKILL)?,
            _ => killpg(all, Signal::SIGTERM)?,
        }
        sleep(Duration::from_millis(random.u64(1..600)));
        let _ = killpg(all, Signal::SIGKILL);
        recorder.wait()?;
        look(&log).with_context(|| format!("round {round}, in {}", log.display()))?;
        let checked = bugnet([OsStr::new("check"), log.as_os_str()])?;
        ensure!(matches!(checked.status.code(), Some(0 | INCOMPLETE)), "{}", printed(&checked));
        fs::remove_dir_all(&log)?;
    }
    workshop.done()
}

/// A log that begins at an epoch is sent as it is, and made where it is looked at.
fn script((name, command, last): Case) -> Result<()> {
    let workshop = Workshop::new(&format!("light-ring-{name}"))?;
    let log = workshop.path.join("log");
    let mut output = recorded(&workshop, command, "1s", &log)?;
    let messages = take_messages(&mut output);
    ensure!(output.status.success() && messages.is_empty(), "{messages}{}", printed(&output));
    let packed = workshop.path.join("packed");
    let mut pack = Command::new(binary()?);
    let done = run(pack.arg("pack").arg("-o").arg(&packed).arg(&log))?;
    ensure!(done.status.success(), "{}", printed(&done));
    verify(&log, &output, last)?;
    must_pass(&["replay"], &packed)?;
    let kept = kept_output(&log)?;
    same_bytes("what is made of a packed log", &kept, &must_pass(&["replay", "--output"], &packed)?.stdout)?;
    let lines = String::from_utf8(kept)?;
    ensure!(lines.lines().any(|line| line == last), "{lines}");
    workshop.done()
}

pub fn trials() -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for (name, dies) in [("ring-threads", false), ("ring-crash", true)] {
        let body = move || own(name, dies).map_err(|e| Failed::from(format!("{e:?}")));
        trials.push(Trial::test(name, body));
    }
    for (number, name) in ["epochs", "group", "respawn"].into_iter().enumerate() {
        // Each in another one of the ways.
        for rounds in [number..number + 1, 0..60] {
            let (many, title) = (rounds.len() > 1, format!("ring-killed-{name}-{}", rounds.len()));
            let body = move || killed(name, rounds).map_err(|e| Failed::from(format!("{e:?}")));
            trials.push(Trial::test(title, body).with_ignored_flag(many));
        }
    }
    trials.push(Trial::test("ring-group", || group().map_err(|e| Failed::from(format!("{e:?}")))));
    for case in SCRIPTS {
        let body = move || script(case).map_err(|e| Failed::from(format!("{e:?}")));
        trials.push(Trial::test(format!("ring-{}", case.0), body));
    }
    Ok(trials)
}
