//! Programs that are captured while signals come at random: that their handlers take, every half millisecond, and that kill them. What is captured is made into a log that
//! fits in every call and every byte that was written, and replays. A few runs of some; with `--include-ignored`, as many of each as the README's table has.

use anyhow::{Context, Result, bail, ensure};
use bugnet_tests::bugnet::{
    INCOMPLETE, Job, Workshop, bugnet, must_pass, printed, run, same_bytes, source_tree, take_messages,
};
use bugnet_tests::programs::compile;
use fastrand::Rng;
use libtest_mimic::{Failed, Trial};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Programs that are done soon, as bash is to execute them; `text` and `bytes` are files of some 100 KB.
const STORMED: [(&str, &str); 20] = [
    ("gzip", "exec gzip -9 -c text"),
    ("bzip2", "exec bzip2 -c text"),
    ("xz", "exec xz -T1 -0 -c text"),
    ("md5sum", "exec md5sum text bytes"),
    ("sha256sum", "exec sha256sum bytes"),
    ("wc", "exec wc text"),
    ("sed", "exec sed s/int/INT/g text"),
    ("grep", "exec grep -c 'define.*x' text"),
    ("awk", "exec awk '{n += NF; a[$1]++} END {print n, length(a)}' text"),
    ("bc", "echo 'scale=200; 4*a(1)' | exec bc -l"),
    (
        "sqlite3",
        "exec sqlite3 :memory: 'create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<9000) insert into t select x,x*7%1003 from c; select sum(b) from t'",
    ),
    (
        "perl",
        "exec perl -e 'my %h; for (1..60000) { $h{$_%777} .= chr($_%64+32) } print length(join(q(), map { $h{$_} } sort keys %h))'",
    ),
    (
        "python3",
        "exec python3 -c 'import json,hashlib; print(hashlib.md5(json.dumps({i:str(i*i) for i in range(20000)}).encode()).hexdigest())'",
    ),
    ("find", "exec find /usr/include -name '*.h'"),
    ("tar", "exec tar cf - /usr/include/linux"),
    ("diff", "exec diff /usr/include/stdio.h /usr/include/stdlib.h"),
    (
        "cc1",
        "for i in $(seq 40); do echo \"int f$i(int x) { int s = 0; for (int j = 0; j < x; j++) s += j * $i ^ x; return s; }\"; done > f.c; exec $(gcc -print-prog-name=cc1) -quiet -O1 f.c -o -",
    ),
    ("od", "exec od -x bytes"),
    ("base64", "exec base64 bytes"),
    ("ls", "exec ls -lR /usr/include/linux"),
];

/// Programs that compute until they are killed.
const COMPUTING: [&str; 10] = [
    "i=0; while :; do i=$((i+1)); done",
    "exec perl -e 'my $x = 1; while (1) { $x = ($x*7+3)%1000003; $h{$x%100} .= q(a) if $x%1000 == 0 }'",
    "exec python3 -c 'import json,re\nwhile 1:\n s = json.dumps([{\"a\": i, \"b\": str(i)} for i in range(200)]); json.loads(s); re.findall(\"[0-9]+\", s)'",
    "exec gzip -9 -c < /dev/zero",
    "exec bzip2 -c < /dev/zero",
    "exec awk 'BEGIN { while (1) { x = (x*7+3)%1000003; a[x%100] = x \"b\" } }'",
    "echo 'x=0; while (1) { x = (x*7+3)%1000003 }' > loop.bc; exec bc -l loop.bc",
    "exec sqlite3 :memory: 'create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c) insert into t select x, x*7%1003 from c'",
    "exec find / -name '*x*y*z*'",
    "exec tar cf /dev/null /usr/share",
];

/// Programs that wait until they are killed.
const WAITING: [&str; 10] = [
    "exec sleep 100",
    "exec cat",
    "read x",
    "sleep 100 & wait",
    "exec perl -e 'select(undef, undef, undef, 100)'",
    "exec perl -e 'my $p = fork; if (!$p) { sleep 100; exit } waitpid($p, 0)'",
    "exec python3 -c 'import time; time.sleep(100)'",
    "exec python3 -c 'import selectors, os; r, w = os.pipe(); s = selectors.DefaultSelector(); s.register(r, 1); s.select()'",
    "exec bc",
    "while :; do sleep 0.01; done",
];

/// What people do all day, many processes each: scripts of `tests/programs/light/sessions`, with the shortest one first.
const SESSIONS: [&str; 5] = ["git", "make", "cmake", "configure", "python"];

/// So long a program may go on behind a signal.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is said of a process of which nothing tells how it ended.
const BY_SIGKILL: &str = "which SIGKILL ended";

/// Makes the log of what was captured, and replays it; how many moments looked like others.
pub fn look(log: &Path) -> Result<usize> {
    let expanded = must_pass(&["expand"], log)?;
    let said = String::from_utf8_lossy(&expanded.stderr).into_owned();
    ensure!(!said.contains("does not fit"), "{said}");
    // Of a program that had not begun, there is nothing to be replayed.
    let is_early = said.contains("it ended before its program began");
    let replayed = bugnet([OsStr::new("replay"), log.as_os_str()])?;
    let printed_lines = printed(&replayed);
    let missing: Vec<&str> = printed_lines.lines().filter(|line| line.starts_with("missing")).collect();
    let fits = match replayed.status.code() {
        Some(0) => missing.is_empty(),
        Some(INCOMPLETE) => {
            let is_known = |line: &&str| line.contains(BY_SIGKILL) || is_early && line.ends_with(", the first one");
            !missing.is_empty() && missing.iter().all(is_known)
        }
        _ => false,
    };
    ensure!(fits, "{said}\n{printed_lines}");
    let looked = said.lines().filter_map(|line| line.split_once(" of the moments at which").map(|(before, _)| before));
    Ok(looked.filter_map(|before| before.rsplit(' ').next()?.parse::<usize>().ok()).sum())
}

fn storm(name: &str, command: &str, rounds: usize) -> Result<()> {
    let workshop = Workshop::new(&format!("light-campaign-{name}"))?;
    let library = workshop.path.join("storming.so");
    let source = fs::read_to_string(source_tree().join("tests/programs/light/storming.c"))?;
    compile(&["gcc", "-O1", "-g", "-shared", "-fPIC"], &source, &library)?;
    let (mut signals, mut looked) = (0, 0);
    for round in 0..rounds {
        let folder = workshop.folder(&format!("round-{round}"))?;
        let text: Vec<u8> =
            (0..20_000).flat_map(|n| format!("int x{} = {};\n", n % 777, n * 7919 % 1013).into_bytes()).collect();
        fs::write(folder.join("text"), text)?;
        fs::write(folder.join("bytes"), Rng::with_seed(7).u8(..).to_le_bytes().repeat(100_000))?;
        let script = format!("export LD_PRELOAD={}; {command}", library.display());
        let job = Job::new(&folder, ["/bin/bash", "-c", &script]);
        let log = workshop.path.join(format!("log-{round}"));
        let mut output = run(&mut job.recorded(&log, &["--light"])?)?;
        let messages = take_messages(&mut output);
        ensure!(messages.is_empty(), "{messages}");
        let info = must_pass(&["info", "--json"], &log)?.stdout;
        let info: serde_json::Value = serde_json::from_slice(&info)?;
        let processes = info["processes"].as_array().context("processes")?;
        signals += processes.iter().filter_map(|process| process["signals"].as_u64()).sum::<u64>();
        looked += look(&log)?;
        let replayed = must_pass(&["replay", "--output"], &log)?;
        same_bytes("replayed standard output", &output.stdout, &replayed.stdout)?;
        fs::remove_dir_all(&log)?;
        fs::remove_dir_all(&folder)?;
    }
    ensure!(signals > 0, "no signal has come");
    eprintln!("{name}: {rounds} runs, {signals} signals, {looked} moments that looked like others");
    workshop.done()
}

/// Everything that a session starts is captured, to its end.
fn session(name: &str) -> Result<()> {
    let workshop = Workshop::new(&format!("light-session-{name}"))?;
    let script = source_tree().join("tests/programs/light/sessions").join(format!("{name}.sh"));
    let script = script.to_str().context("a path")?;
    let native = run(&mut Job::new(&workshop.folder("native")?, ["/bin/bash", script]).native()?)?;
    ensure!(native.status.success(), "{}", printed(&native));
    let job = Job::new(&workshop.folder("recorded")?, ["/bin/bash", script]);
    let log = workshop.path.join("log");
    let mut output = run(&mut job.recorded(&log, &["--light"])?)?;
    let messages = take_messages(&mut output);
    ensure!(output.status.success() && messages.is_empty(), "{messages}{}", printed(&output));
    let processes: Vec<serde_json::Value> = serde_json::from_slice(&must_pass(&["ps", "--json"], &log)?.stdout)?;
    let looked = look(&log)?;
    eprintln!("{name}: {} programs, {looked} moments that looked like others", processes.len());
    workshop.done()
}

/// The program that a `bugnet record` has started, which has come so far as to be captured: before that, there is nothing to be looked at.
pub fn program_of(recorder: &Child) -> Result<Pid> {
    let (pid, until) = (recorder.id(), Instant::now() + Duration::from_secs(30));
    while Instant::now() < until {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let child = children.split_whitespace().next();
        let is_captured = |child: &&str| {
            let executed = fs::read_link(format!("/proc/{child}/exe"));
            executed.is_ok_and(|path| path.file_name() == Some(OsStr::new("bugnet-capture")))
        };
        if let Some(child) = child.filter(is_captured) {
            return Ok(Pid::from_raw(child.parse()?));
        }
        sleep(Duration::from_millis(5));
    }
    bail!("bugnet has started nothing")
}

fn killed(signal: Signal, kind: &str, commands: &[&str], rounds: usize) -> Result<()> {
    let workshop = Workshop::new(&format!("light-campaign-{kind}-{signal}"))?;
    let mut random = Rng::new();
    let mut looked = 0;
    for round in 0..rounds {
        let folder = workshop.folder(&format!("round-{round}"))?;
        let command = commands[round % commands.len()];
        let log = workshop.path.join(format!("log-{round}"));
        let mut recorded = Job::new(&folder, ["/bin/bash", "-c", command]).recorded(&log, &["--light"])?;
        recorded.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut recorder = recorded.spawn()?;
        let program = program_of(&recorder)?;
        sleep(Duration::from_millis(random.u64(1..400)));
        // It may have ended by itself; what it has started is killed behind it.
        let _ = kill(program, signal);
        let until = Instant::now() + PATIENCE;
        while recorder.try_wait()?.is_none() && Instant::now() < until {
            sleep(Duration::from_millis(5));
        }
        // One that has a handler goes on, as `bc` behind Ctrl-C.
        let _ = kill(program, Signal::SIGKILL);
        recorder.wait()?;
        let _ = killpg(Pid::from_raw(recorder.id().cast_signed()), Signal::SIGKILL);
        looked += look(&log).with_context(|| format!("{command}, in {}", log.display()))?;
        fs::remove_dir_all(&log)?;
        fs::remove_dir_all(&folder)?;
    }
    eprintln!("{kind}, {signal}: {rounds} runs, {looked} moments that looked like others");
    workshop.done()
}

/// The tests.
///
/// # Errors
/// None.
pub fn trials() -> Result<Vec<Trial>> {
    let failed = |e: anyhow::Error| Failed::from(format!("{e:?}"));
    let mut trials = Vec::new();
    for (number, (name, command)) in STORMED.into_iter().enumerate() {
        if number % 5 == 3 {
            trials.push(Trial::test(format!("storm-{name}"), move || storm(name, command, 1).map_err(failed)));
        }
        let many = move || storm(&format!("{name}-100"), command, 100).map_err(failed);
        trials.push(Trial::test(format!("storm-{name}-100"), many).with_ignored_flag(true));
    }
    for name in SESSIONS {
        let body = move || session(name).map_err(failed);
        trials.push(Trial::test(format!("session-{name}"), body).with_ignored_flag(name != SESSIONS[0]));
    }
    for (signal, many) in [(Signal::SIGKILL, 500), (Signal::SIGTERM, 100), (Signal::SIGINT, 100), (Signal::SIGHUP, 100)]
    {
        for (kind, commands) in [("computing", COMPUTING), ("waiting", WAITING)] {
            let name = format!("{kind}-{signal}");
            trials.push(Trial::test(&name, move || killed(signal, kind, &commands[..3], 3).map_err(failed)));
            let all = move || killed(signal, &format!("{kind}-many"), &commands, many).map_err(failed);
            trials.push(Trial::test(format!("{name}-{many}"), all).with_ignored_flag(true));
        }
    }
    Ok(trials)
}
