//! Programs that run natively while what comes to them from outside is kept (`record --light`): they behave as without that, and the log that is made
//! of it replays with zero divergences to the same output. It is the same log each time that it is made.

use anyhow::{Context, Result, bail, ensure};
use bugnet_format::light::{self, Parts, Record, layout};
use bugnet_tests::bugnet::{
    INCOMPLETE, Job, Workshop, binary, must_end_with, must_pass, printed, run, same_behaviour, same_bytes, same_files,
    source_tree, take_messages, verify_log,
};
use bugnet_tests::parallel::{PARALLEL, PARALLEL_LONG};
use bugnet_tests::programs::{PROGRAMS, Program, Scale, compile};
use bugnet_tests::sample::one_of;
use libtest_mimic::{Failed, Trial};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A program of the table of those without threads that makes one.
const THREADED: &str = "qemu";

/// What each of these shells and interpreters does is one kind of what the table of real programs does not have.
const SCRIPTS: [(&str, &[&str]); 19] = [
    ("forks", &["/bin/bash", "-c", "for i in 1 2 3; do (echo $i; exit $i) | cat; done; /bin/echo end; exit 3"]),
    (
        "redirected",
        &[
            "/bin/bash",
            "-c",
            "echo a; echo b >&2; /bin/echo c >/dev/null; exec 5>&1; echo d >&5; cat </etc/hostname >copy; sed s/^/x/ copy",
        ],
    ),
    (
        "shebang",
        &[
            "/bin/sh",
            "-c",
            "printf '#!/bin/sh -e\\necho script $0 $1\\n' >s; chmod +x s; ./none; echo $?; ./s one; PATH=.:$PATH s two",
        ],
    ),
    (
        "spawns",
        &[
            "/usr/bin/python3",
            "-c",
            "import subprocess,os; print(subprocess.run(['echo','x'],capture_output=True).stdout); print(os.spawnv(os.P_WAIT,'/bin/false',['false']))",
        ],
    ),
    (
        "alarm-in-call",
        &["/usr/bin/perl", "-e", "$|=1; $SIG{ALRM}=sub{print qq(alarm\\n)}; alarm 1; sleep 5; print qq(after\\n)"],
    ),
    (
        "child-signal",
        &[
            "/usr/bin/perl",
            "-e",
            "$SIG{CHLD}=sub{print qq(child\\n)}; my $p=fork; if(!$p){exit 4} waitpid($p,0); print $?>>8, qq(\\n)",
        ],
    ),
    ("killed", &["/bin/sh", "-c", "kill -TERM $$"]),
    (
        "killed-computing",
        &[
            "/bin/bash",
            "-c",
            "exec 2>/dev/null; while :; do :; done & sleep 0.3; kill -TERM $!; wait $!; echo $?; sleep 90 & sleep 0.3; kill -HUP $!; wait $!; echo $?",
        ],
    ),
    ("killed-by-own-alarm", &["/usr/bin/perl", "-e", "alarm 1; while (1) {}"]),
    (
        "alarms-computing",
        &[
            "/usr/bin/perl",
            "-e",
            "use Time::HiRes qw(ualarm); my ($n, $x) = (0, 0); $SIG{ALRM} = sub { $n++; ualarm 2000 if $n < 20 }; ualarm 2000; while ($n < 20) { $x = ($x * 7 + 3) % 1000003 } print qq($n\n)",
        ],
    ),
    ("handled-fault", &["/usr/bin/perl", "-e", "$SIG{SEGV}=sub{print qq(segv\\n); exit 5}; kill 'SEGV', $$; sleep 1"]),
    (
        "temporary",
        &[
            "/usr/bin/python3",
            "-c",
            "import tempfile,os; f=tempfile.NamedTemporaryFile(); f.write(b'x'*100000); f.flush(); print(os.stat(f.name).st_size)",
        ],
    ),
    ("large", &["/bin/dd", "if=/dev/zero", "of=/dev/null", "bs=8M", "count=20", "status=none"]),
    ("no-files", &["/bin/bash", "-c", "ulimit -n 8; /bin/true; echo $?; /bin/cat /etc/hostname"]),
    (
        "own-name",
        &[
            "/bin/sh",
            "-c",
            "readlink /proc/self/exe; cat /proc/self/comm; ln -s /usr/bin/readlink link; ./link /proc/self/exe; rm link; cd /usr/bin; ./../bin/readlink /proc/self/exe",
        ],
    ),
    (
        "reserves",
        &[
            "/usr/bin/python3",
            "-c",
            // Places that a program chooses, some of which an expansion needs itself.
            "import ctypes\nc = ctypes.CDLL(None)\nc.mmap.restype = ctypes.c_void_p\nfor at in range(0x2d0000000000, 0x7f0000000000, 0x050000000000):\n r = c.mmap(ctypes.c_void_p(at), ctypes.c_size_t(1 << 30), 0, 0x100022, -1, ctypes.c_long(0))\n print(r == at)\n if r == at:\n  print(c.mprotect(ctypes.c_void_p(at + 0x1000), 4096, 3)); ctypes.memset(at + 0x1000, 7, 100); print(ctypes.string_at(at + 0x1000, 3))",
        ],
    ),
    (
        "processes",
        &[
            "/usr/bin/python3",
            "-c",
            // A pool of processes, and some that share a number, a lock and a queue.
            "import multiprocessing as m\ndef square(x): return x * x\ndef work(q, v):\n for i in range(40):\n  with v.get_lock(): v.value += 1\n  q.put(i)\nwith m.Pool(3) as pool: print(sum(pool.map(square, range(200))))\nq, v = m.Queue(), m.Value('i', 0)\nall = [m.Process(target=work, args=(q, v)) for _ in range(3)]\n[p.start() for p in all]\nprint(sum(q.get() for _ in range(120)))\n[p.join() for p in all]\nprint(v.value)",
        ],
    ),
    (
        "opened-memory",
        &[
            "/usr/bin/python3",
            "-c",
            // Processes that open the memory by its name.
            "import multiprocessing as m\nfrom multiprocessing.shared_memory import SharedMemory as S\ndef work(name, n, lock):\n s = S(name=name)\n for i in range(300):\n  with lock: s.buf[i % 100] = (s.buf[i % 100] + n) % 251\n s.close()\ns = S(create=True, size=4096)\nlock = m.Lock()\nall = [m.Process(target=work, args=(s.name, n, lock)) for n in range(1, 4)]\nfor p in all: p.start()\nfor p in all: p.join()\nprint(sum(s.buf[:100]))\ns.close()\ns.unlink()",
        ],
    ),
    (
        "maps-a-file",
        &[
            "/usr/bin/python3",
            "-c",
            "import mmap; f=open('/etc/passwd','rb'); m=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ,flags=mmap.MAP_PRIVATE); print(m[:10], len(m))",
        ],
    ),
];

/// What a log tells of its calls and of the output.
#[derive(PartialEq)]
struct Told {
    /// Name, arguments and result of each call, process by process.
    calls: Vec<Vec<[Value; 3]>>,
    output: Vec<u8>,
    errors: Vec<u8>,
}

impl Told {
    /// Reads it; `more`: what `bugnet syscalls` gets.
    fn read(log: &Path, more: &[&str]) -> Result<Self> {
        let processes: Vec<Value> = serde_json::from_slice(&must_pass(&["ps", "--json"], log)?.stdout)?;
        let calls = processes.iter().map(|process| {
            let number = |field: &str| process[field].as_u64().context("an id");
            let id = format!("{}.{}", number("pid")?, number("program")?);
            let listed = must_pass(&[&["syscalls", "--json", "-p", &id], more].concat(), log)?;
            let fields = |call: Value| ["name", "args", "result"].map(|field| call[field].clone());
            let thread = |call: &Value| {
                Some(&call["thread"]).filter(|thread| !thread.is_null()).unwrap_or(&call["place"]["tid"]).as_u64()
            };
            let calls = serde_json::Deserializer::from_slice(&listed.stdout).into_iter::<Value>();
            let mut all: Vec<Value> = calls.collect::<serde_json::Result<_>>()?;
            // Records are listed thread by thread; of one thread alone, what was captured does not say which.
            all.sort_by_key(thread);
            // In which call a thread was as others ended the process, is not captured.
            let returns = |[name, _, result]: &[Value; 3]| {
                !result.is_null() || name == "exit" || name == "exit_group" || process["threads"] == 1
            };
            let mut calls: Vec<[Value; 3]> = all.into_iter().map(fields).filter(returns).collect();
            // A log that is made has the second return of a `vfork` as a change of registers.
            let lent: Vec<Value> = calls
                .iter()
                .filter(|[name, _, result]| name == "vfork" && result == 0)
                .map(|[_, args, _]| args.clone())
                .collect();
            calls.retain(|[name, args, result]| name != "vfork" || result == 0 || !lent.contains(args));
            Ok(calls)
        });
        let calls = calls.collect::<Result<_>>()?;
        let output = must_pass(&["replay", "--output=stdout"], log)?.stdout;
        let errors = must_pass(&["replay", "--output=stderr"], log)?.stderr;
        Ok(Self { calls, output, errors })
    }
}

/// What a light log tells at once is what the log tells that is made of it.
fn expand(log: &Path) -> Result<Output> {
    let before = Told::read(log, &[])?;
    must_pass(&["check"], log)?;
    ensure!(processes(log)?.next().is_none(), "something is expanded that nobody asked for");
    let expanded = must_pass(&["expand"], log)?;
    ensure!(processes(log)?.next().is_some(), "nothing is expanded");
    let after = Told::read(log, &["--records"])?;
    ensure!(before.calls.len() == after.calls.len());
    for (one, other) in before.calls.iter().flatten().zip(after.calls.iter().flatten()) {
        ensure!(one == other, "captured {one:?}, made {other:?}");
    }
    ensure!(before.calls == after.calls, "calls are missing");
    same_bytes("standard output", &before.output, &after.output)?;
    same_bytes("standard error", &before.errors, &after.errors)?;
    must_pass(&["check"], log)?;
    Ok(expanded)
}

/// The folders of processes in a log.
fn processes(log: &Path) -> Result<impl Iterator<Item = PathBuf>> {
    let entries = fs::read_dir(log)?.flatten();
    Ok(entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"p")).map(|entry| entry.path()))
}

/// Records lightly, and looks at what came of it; what the expansion said.
fn look(job: &Job, native: &Output, (recorded, options): (&Job, &[&str]), log: &Path) -> Result<String> {
    let mut output = run(&mut recorded.recorded(log, &[&["--light"], options].concat())?)?;
    let messages = take_messages(&mut output);
    ensure!(messages.is_empty(), "{messages}");
    same_behaviour(native, &output).context("captured instead of natively run")?;
    same_files(&job.dir, &recorded.dir)?;
    let expanded = expand(log)?;
    verify_log(log, native)?;
    Ok(String::from_utf8_lossy(&expanded.stderr).into_owned())
}

fn program(program: &Program, scale: Scale, test: &str) -> Result<()> {
    let workshop = Workshop::new(test)?;
    let job = program.job(&workshop.folder("native")?, scale)?;
    let native = run(&mut job.native()?)?;
    let recorded = program.job(&workshop.folder("recorded")?, scale)?;
    let said = look(&job, &native, (&recorded, program.options), &workshop.path.join("log"))?;
    ensure!(said.lines().count() == 1, "{said}");
    workshop.done()
}

/// A program that makes threads, which run in turns.
fn threaded(program: &Program) -> Result<()> {
    const THREADS: u32 = 3;
    let workshop = Workshop::new(&format!("light-threaded-{}", program.name))?;
    let job = program.job_with_threads(&workshop.folder("native")?, Scale::Small, THREADS)?;
    let native = run(&mut job.native()?)?;
    let recorded = program.job_with_threads(&workshop.folder("recorded")?, Scale::Small, THREADS)?;
    let log = workshop.path.join("log");
    let said = look(&job, &native, (&recorded, program.options), &log)?;
    // Where threads compute at the same time, they have moments, of which some may look alike.
    let told = said.lines().filter(|line| !line.contains("of the moments at which"));
    ensure!(told.count() == 1, "{said}");
    must_pass(&["replay", "--merged"], &log)?;
    workshop.done()
}

fn script(name: &str, command: &[&str]) -> Result<()> {
    let workshop = Workshop::new(&format!("light-{name}"))?;
    let job = Job::new(&workshop.folder("native")?, command.iter().copied());
    let native = run(&mut job.native()?)?;
    let recorded = Job { dir: workshop.folder("recorded")?, ..job.clone() };
    let log = workshop.path.join("log");
    let said = look(&job, &native, (&recorded, &[]), &log)?;
    ensure!(said.lines().count() == 1, "{said}");
    // Made again, it is the same: each call is at the same position, with the same results. (What is watched of memory for a full list takes long.)
    let calls = must_pass(&["syscalls", "--records"], &log)?.stdout;
    processes(&log)?.try_for_each(fs::remove_dir_all)?;
    fs::remove_file(log.join("light/expanded"))?;
    must_pass(&["expand"], &log)?;
    same_bytes("calls of the log that was made again", &calls, &must_pass(&["syscalls", "--records"], &log)?.stdout)?;
    workshop.done()
}

/// What a command asks about is expanded, and no more; `ps` and `info` need nothing of it.
fn one_process() -> Result<()> {
    let workshop = Workshop::new("light-one-process")?;
    let script = "/bin/ls /dev/null; /bin/cat /dev/null; (exit 3); echo end";
    let job = Job::new(&workshop.folder("recorded")?, ["/bin/bash", "-c", script]);
    let log = workshop.path.join("log");
    run(&mut job.recorded(&log, &["--light"])?)?;
    let processes = || -> Result<usize> { Ok(processes(&log)?.count()) };
    let listed = String::from_utf8(must_pass(&["ps"], &log)?.stdout)?;
    must_pass(&["info"], &log)?;
    // The shell, its forks, and what two of them execute.
    ensure!(listed.lines().count() == 7 && listed.contains("exit status 3"), "{listed}");
    ensure!(processes()? == 0, "ps or info has expanded something");
    must_pass(&["at", "end", "-p", "ls"], &log)?;
    ensure!(processes()? == 1, "{} processes instead of ls", processes()?);
    must_pass(&["at", "end"], &log)?;
    ensure!(processes()? == 5, "{} processes instead of ls, the shell and its forks", processes()?);
    must_pass(&["expand"], &log)?;
    ensure!(processes()? == 6, "{} processes", processes()?);
    must_pass(&["check"], &log)?;
    must_pass(&["replay"], &log)?;
    workshop.done()
}

/// Records a program of our own lightly, whose output no other run may have: what is replayed is that of the run that was captured. One whose light
/// part ends, for a reason that is said, or without a word where it is killed, replays as far as it was captured, and ends as natively.
fn own(test: &str, name: &str, (arguments, options): (&[&str], &[&str]), ends: Option<&str>) -> Result<()> {
    let workshop = Workshop::new(&format!("light-own-{test}"))?;
    let program = workshop.path.join(name);
    let source = source_tree().join("tests/programs/light").join(format!("{name}.c"));
    compile(&["gcc", "-O1", "-g"], &fs::read_to_string(source)?, &program)?;
    let program = program.to_string_lossy().into_owned();
    let command = std::iter::once(program.as_str()).chain(arguments.iter().copied());
    let job = Job::new(&workshop.folder("recorded")?, command);
    let log = workshop.path.join("log");
    let mut output = run(&mut job.recorded(&log, &[&["--light"], options].concat())?)?;
    let messages = take_messages(&mut output);
    ensure!(output.status.success(), "{messages}{}", printed(&output));
    if let Some(why) = ends {
        must_pass(&["expand"], &log)?;
        ensure!(messages.contains(why) && messages.is_empty() == why.is_empty(), "{messages}");
        must_end_with(INCOMPLETE, &["replay"], &log)?;
    } else {
        expand(&log)?;
        ensure!(messages.is_empty(), "{messages}");
        verify_log(&log, &output)?;
    }
    if name == "features" && arguments.is_empty() {
        let told = printed(&must_pass(&["info"], &log)?);
        ensure!(told.contains("SIGILL handled, at"), "{told}");
    }
    workshop.done()
}

/// A process goes on whose light part has ended: nobody keeps the log from being removed.
fn goes_on() -> Result<()> {
    let workshop = Workshop::new("light-goes-on")?;
    let program = "import mmap, threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); m = mmap.mmap(-1, 4096); m.resize(8192)";
    let script =
        format!("python3 -c '{program}' >/dev/null 2>said & echo $!; while ! grep -q memory said; do sleep 0.05; done");
    let job = Job::new(&workshop.folder("recorded")?, ["/bin/bash", "-c", &script]);
    let log = workshop.path.join("log");
    let output = run(&mut job.recorded(&log, &["--light"])?)?;
    let process = Pid::from_raw(String::from_utf8(output.stdout)?.trim().parse()?);
    let removed = must_pass(&["rm"], &log);
    kill(process, Signal::SIGKILL)?;
    removed?;
    workshop.done()
}

/// AddressSanitizer has the memory that it wants, and finds what there is; ThreadSanitizer would not, so that all is recorded.
fn sanitizers() -> Result<()> {
    let workshop = Workshop::new("light-sanitizers")?;
    let source = r#"#include <stdio.h>
#include <stdlib.h>
int main(int count, char **arguments) {
    char *block = malloc(10);
    block[3] = 7;
    printf("%d\n", block[3]);
    fflush(stdout);
    free(block);
    return count > 1 ? block[3] : 0;
}
"#;
    for (name, option) in [("address", "-fsanitize=address"), ("thread", "-fsanitize=thread")] {
        let program = workshop.path.join(name);
        compile(&["gcc", "-O1", "-g", option], source, &program)?;
        let program = program.to_string_lossy().into_owned();
        let command: &[&str] = if name == "address" { &[&program, "x"] } else { &[&program] };
        let job = Job::new(&workshop.folder(&format!("recorded-{name}"))?, command.iter().copied());
        let log = workshop.path.join(format!("log-{name}"));
        let mut output = run(&mut job.recorded(&log, &["--light"])?)?;
        let messages = take_messages(&mut output);
        if name == "address" {
            ensure!(printed(&output).contains("heap-use-after-free"), "{messages}{}", printed(&output));
            expand(&log)?;
        } else {
            let why = "all is recorded: ThreadSanitizer wants memory to lie where this would not put it";
            ensure!(messages.contains(why) && !log.join("light").exists(), "{messages}");
        }
        ensure!(output.stdout == b"7\n", "{}", printed(&output));
        must_pass(&["replay"], &log)?;
        same_bytes("its output", &output.stdout, &must_pass(&["replay", "--output"], &log)?.stdout)?;
    }
    workshop.done()
}

/// Where files may not be as large as a program is, that runs without being recorded, as it would alone; the log of the others has parts that are as small.
fn small_files() -> Result<()> {
    let workshop = Workshop::new("light-small-files")?;
    let script = "ulimit -f 60; echo x >f; find /usr/include -name '*.h' | wc -l; for i in 1 2 3; do (exit $i); echo $?; done; echo {1..9000} | wc";
    let job = Job::new(&workshop.folder("native")?, ["/bin/bash", "-c", script]);
    let native = run(&mut job.native()?)?;
    let recorded = Job { dir: workshop.folder("recorded")?, ..job.clone() };
    let log = workshop.path.join("log");
    let mut output = run(&mut recorded.recorded(&log, &["--light"])?)?;
    let messages = take_messages(&mut output);
    let is_known = |line: &str| line.ends_with("a program is not recorded: the log has no room for its file");
    ensure!(!messages.is_empty() && messages.lines().all(is_known), "{messages}");
    same_behaviour(&native, &output)?;
    must_pass(&["expand"], &log)?;
    must_pass(&["replay"], &log)?;
    // So does the first program, of which no other log has a copy.
    let (bugnet, own, first) = (binary()?, workshop.path.join("own-bash"), workshop.path.join("first"));
    fs::copy("/bin/bash", &own)?;
    let [bugnet, own, first] = [&bugnet, &own, &first].map(|path| path.display());
    let script = format!("ulimit -f 60; exec {bugnet} record --light -o {first} -- {own} -c 'exit 3'");
    let output = run(Command::new("/bin/bash").args(["-c", &script]))?;
    let said = printed(&output);
    ensure!(
        output.status.code() == Some(3) && said.contains("a program is not recorded: the log has no room"),
        "{said}"
    );
    workshop.done()
}

/// A packed light log is made into a log beside it, of its own files alone; what is packed of that is an ordinary one.
fn packed() -> Result<()> {
    let workshop = Workshop::new("light-packed")?;
    // Programs whose originals are gone by then, one of which fails.
    let folder = workshop.folder("recorded")?;
    let script = "cp /bin/ls own-ls; cp /bin/cat own-cat; ./own-ls own-ls; ./own-cat none; rm own-ls own-cat; exit 3";
    let job = Job::new(&folder, ["/bin/bash", "-c", script]);
    let (log, packed) = (workshop.path.join("log"), workshop.path.join("packed"));
    let mut output = run(&mut job.recorded(&log, &["--light"])?)?;
    let messages = take_messages(&mut output);
    ensure!(messages.is_empty(), "{messages}");
    let pack = |from: &Path, to: &Path| -> Result<()> {
        must_pass(&["pack", "-o", to.to_str().context("a path")?], from).map(drop)
    };
    pack(&log, &packed)?;
    ensure!(processes(&log)?.next().is_none(), "packing has expanded something");
    fs::remove_dir_all(&log)?;
    let listed = String::from_utf8(must_pass(&["ps"], &packed)?.stdout)?;
    ensure!(listed.contains("exit status 3") && listed.contains("./own-cat none"), "{listed}");
    let told = String::from_utf8(must_pass(&["why"], &packed)?.stdout)?;
    ensure!(told.contains("A process that it had started failed before it") && told.contains("own-cat"), "{told}");
    let beside = workshop.path.join("packed.expanded");
    must_pass(&["expand"], &packed)?;
    verify_log(&beside, &output)?;
    // What names a function of the program comes from the copy of its file.
    let functions = String::from_utf8(must_pass(&["stats", "-p", "own-cat"], &packed)?.stdout)?;
    ensure!(functions.contains("own-cat"), "{functions}");
    let again = workshop.path.join("again");
    pack(&beside, &again)?;
    must_pass(&["replay"], &again)?;
    ensure!(!workshop.path.join("again.expanded").exists(), "an ordinary log is not made again");
    must_pass(&["rm"], &packed)?;
    ensure!(!packed.exists() && !beside.exists(), "what is made of a file goes with it");
    workshop.done()
}

/// A log in which something is not what the program does is told, and not taken for exact.
fn changed() -> Result<()> {
    const WRITE: u64 = 1;
    let workshop = Workshop::new("light-changed")?;
    let job = Job::new(&workshop.folder("recorded")?, ["/bin/echo", "hello"]);
    let log = workshop.path.join("log");
    run(&mut job.recorded(&log, &["--light"])?)?;
    let [parts] = &*Parts::all(&log)? else { bail!("one process") };
    let mut bytes = fs::read(&parts.paths[0])?;
    let mut at = layout::HEADER;
    while let Some((record, next)) = light::record(&bytes, at)? {
        if matches!(record, Record::Call(call) if call.number == WRITE) {
            // Of its number and arguments, the third one of these: how many bytes.
            bytes[at + layout::HEAD + 3 * 8] ^= 1;
        }
        at = next;
    }
    fs::write(&parts.paths[0], bytes)?;
    let said = printed(&must_end_with(1, &["expand"], &log)?);
    ensure!(said.contains("does not fit: the program makes system call 1 with"), "{said}");
    must_end_with(1, &["expand"], &log)?;
    must_end_with(INCOMPLETE, &["replay"], &log)?;
    workshop.done()
}

/// Light logs share copies of mapped files, but not of one that has become another, whatever its time of modification says; what no log has any more goes.
fn shared_copies() -> Result<()> {
    let workshop = Workshop::new("light-shared-copies")?;
    let (folder, default) = (workshop.folder("recorded")?, workshop.folder("default")?);
    // Each prints another number; the files have the same length, inode number and time of modification.
    let program = |number: u32| format!("#include <stdio.h>\nint main(void) {{ printf(\"%d\\n\", {number}); }}\n");
    let (own, other) = (folder.join("own"), folder.join("other"));
    let mut logs = Vec::new();
    for number in [11, 22] {
        compile(&["gcc", "-O1"], &program(number), &other)?;
        let modified = fs::metadata(&other)?.modified()?;
        fs::write(&own, fs::read(&other)?)?;
        fs::set_permissions(&own, fs::metadata(&other)?.permissions())?;
        fs::File::options().write(true).open(&own)?.set_modified(modified.min(std::time::UNIX_EPOCH))?;
        let log = default.join(format!("log-{number}"));
        let job = Job::new(&folder, [own.to_str().context("a path")?]);
        let mut output = run(job.recorded(&log, &["--light"])?.env("BUGNET_DIR", &default))?;
        ensure!(take_messages(&mut output).is_empty() && output.stdout == format!("{number}\n").as_bytes());
        ensure!(!log.join("light/shared").exists());
        logs.push((log, output));
    }
    let copies = |log: &Path| -> Result<Vec<(OsString, u64)>> {
        let entries = fs::read_dir(log.join("light/files"))?.flatten();
        entries.map(|entry| Ok((entry.file_name(), entry.metadata()?.ino()))).collect()
    };
    let [first, second] = [copies(&logs[0].0)?, copies(&logs[1].0)?];
    let shared = first.iter().filter(|copy| second.contains(copy)).count();
    // The program itself is another file than before; its libraries are not.
    ensure!(shared >= 2 && shared + 1 == first.len(), "{first:?}, {second:?}");
    for (log, output) in &logs {
        must_pass(&["expand"], log)?;
        verify_log(log, output)?;
    }
    let all = default.join(".captured");
    let left = || -> Result<[usize; 2]> {
        Ok([fs::read_dir(all.join("files"))?.count(), fs::read_dir(all.join("places"))?.count()])
    };
    ensure!(left()?[0] == first.len() + 1, "{:?}", left()?);
    for (log, files) in [(&logs[0].0, first.len()), (&logs[1].0, 0)] {
        ensure!(run(Command::new(binary()?).arg("rm").arg(log).env("BUGNET_DIR", &default))?.status.success());
        ensure!(left()?[0] == files, "{:?}", left()?);
    }
    ensure!(left()? == [0, 0], "{:?}", left()?);
    workshop.done()
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let mut programs = Vec::new();
    for (scale, suffix) in [(Scale::Small, ""), (Scale::Full, "-full")] {
        for one in PROGRAMS.iter().filter(|one| one.name != THREADED) {
            let name = format!("{}{suffix}", one.name);
            let test = format!("light-program-{name}");
            let body = move || program(one, scale, &test).map_err(|e| Failed::from(format!("{e:?}")));
            programs.push(Trial::test(name, body).with_ignored_flag(scale == Scale::Full));
        }
    }
    let mut trials = one_of(3, programs);
    let qemu: Vec<&Program> = PROGRAMS.iter().filter(|one| one.name == THREADED).collect();
    for (programs, long) in [(qemu, false), (PARALLEL.iter().collect(), false), (PARALLEL_LONG.iter().collect(), true)]
    {
        for one in programs {
            let body = move || threaded(one).map_err(|e| Failed::from(format!("{e:?}")));
            trials.push(Trial::test(one.name, body).with_ignored_flag(long));
        }
    }
    trials.push(Trial::test("sanitizers", || sanitizers().map_err(|e| Failed::from(format!("{e:?}")))));
    trials.push(Trial::test("small-files", || small_files().map_err(|e| Failed::from(format!("{e:?}")))));
    trials.push(Trial::test("changed", || changed().map_err(|e| Failed::from(format!("{e:?}")))));
    trials.push(Trial::test("shared-copies", || shared_copies().map_err(|e| Failed::from(format!("{e:?}")))));
    trials.push(Trial::test("packed", || packed().map_err(|e| Failed::from(format!("{e:?}")))));
    trials.push(Trial::test("one-process", || one_process().map_err(|e| Failed::from(format!("{e:?}")))));
    trials.push(Trial::test("goes-on", || goes_on().map_err(|e| Failed::from(format!("{e:?}")))));
    for (name, program, arguments, ends) in [
        ("storm", "storm", &["300"][..], None),
        ("storm-restarted", "storm", &["300", "restart"], None),
        ("features", "features", &[], None),
        ("features-thread", "features", &["thread"], None),
        ("crowd", "crowd", &["thread"], None),
        ("lent", "lent", &[], Some("the program traces another process")),
        ("shared", "shared", &[], None),
        ("shared-opens", "shared", &["opens"], Some("opens, maps or writes a file that it has mapped")),
        ("shared-writes", "shared", &["writes"], Some("opens, maps or writes a file that it has mapped")),
        ("shared-moves", "shared", &["moves"], Some("moves memory that other processes could write")),
        ("shared-drops", "shared", &["drops"], None),
        ("shared-protects", "shared", &["protects"], None),
        ("shared-forks", "shared", &["forks"], None),
        ("shared-other", "shared", &["other"], Some("another process opens a file that the program has mapped")),
        ("together", "together", &[], None),
        ("together-file", "together", &["file"], None),
        ("together-opened", "together", &["opened"], None),
        (
            "together-stranger",
            "together",
            &["stranger"],
            Some("another process opens a file that the program has mapped"),
        ),
        ("together-attached", "together", &["attached"], None),
        ("together-attached-twice", "together", &["twice"], Some("attaches memory that other processes can write")),
        ("together-threads", "together", &["threads"], None),
        ("ready", "ready", &[], None),
        ("together-executes", "together", &["executes"], None),
        ("together-ends", "together", &["ends"], Some("a process that it shares memory with is not recorded any more")),
        // Where the one that is killed was, the log does not say; what the others did, it does.
        ("together-killed", "together", &["killed"], Some("")),
    ] {
        let body = move || own(name, program, (arguments, &[]), ends).map_err(|e| Failed::from(format!("{e:?}")));
        trials.push(Trial::test(name, body));
    }
    // Turns of random length, by both ways in which they are.
    for (name, program, arguments, seed) in [
        ("together-chaos", "together", &[][..], "--chaos=2"),
        ("together-chaos-last", "together", &["threads"], "--chaos=3"),
        ("crowd-chaos", "crowd", &[], "--chaos=4"),
        ("ready-chaos", "ready", &[], "--chaos=5"),
    ] {
        let body = move || own(name, program, (arguments, &[seed]), None).map_err(|e| Failed::from(format!("{e:?}")));
        trials.push(Trial::test(name, body));
    }
    for (name, command) in SCRIPTS {
        let body = move || script(name, command).map_err(|e| Failed::from(format!("{e:?}")));
        trials.push(Trial::test(name, body));
    }
    Ok(trials)
}
