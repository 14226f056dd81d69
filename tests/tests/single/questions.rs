//! The commands that answer questions about an execution: `at`, `hits`, `last-write`, `syscalls`, `core`, `code`. On programs that are
//! gone by then.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, bugnet, must_end_with, printed, run, source_tree};
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The exit status for wrong use.
const WRONG_USE: i32 = 2;

/// The log of a program that was compiled and recorded, and is gone.
struct Recorded {
    workshop: Workshop,
    source: String,
    log: PathBuf,
}

impl Recorded {
    /// Compiles one of the small programs in these ways; it aborts at its end.
    fn new(name: &str, program: &str, flags: &[&str]) -> Result<Self> {
        let workshop = Workshop::new(&format!("questions-{name}"))?;
        let source = fs::read_to_string(source_tree().join("tests/programs/travel").join(program))?;
        let folder = workshop.folder("program")?;
        fs::write(folder.join(program), &source)?;
        let binary = folder.join("program");
        let compiled = run(Command::new("gcc").args(flags).arg("-g").arg("-o").arg(&binary).arg(folder.join(program)))?;
        ensure!(compiled.status.success(), "{}", printed(&compiled));
        let log = workshop.path.join("log");
        let recorded = run(&mut Job::new(&folder, [&*binary.to_string_lossy()]).recorded(&log, &[])?)?;
        ensure!(recorded.status.signal() == Some(libc::SIGABRT), "{}", printed(&recorded));
        // Debuggers want the program beside a core file.
        fs::rename(&binary, workshop.path.join("kept"))?;
        fs::remove_dir_all(&folder)?;
        Ok(Self { workshop, source, log })
    }

    /// The number of the line with this comment.
    fn line(&self, comment: &str) -> Result<usize> {
        let at = self.source.lines().position(|line| line.contains(&format!("/* {comment} */")));
        Ok(at.with_context(|| format!("no line {comment}"))? + 1)
    }

    /// What a command prints of the log.
    fn says(&self, args: &[&str]) -> Result<String> {
        let output = bugnet(args.iter().map(Path::new).chain([self.log.as_path()]))?;
        ensure!(output.status.success(), "{args:?}: {}\n{}", output.status, printed(&output));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn json(&self, args: &[&str]) -> Result<Value> {
        Ok(serde_json::from_str(&self.says(&[args, &["--json"]].concat())?)?)
    }

    /// What a command says is wrong.
    fn refuses(&self, args: &[&str]) -> Result<String> {
        let output = must_end_with(WRONG_USE, args, &self.log)?;
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn has(text: &str, expected: &[&str]) -> Result<()> {
    for expected in expected {
        ensure!(text.contains(expected), "there is no `{expected}` in\n{text}");
    }
    Ok(())
}

/// The number behind ` name = ` in the first line that has it.
fn number_of(text: &str, name: &str) -> Option<u64> {
    let behind = text.split_once(&format!(" {name} = "))?.1.split_whitespace().next()?;
    match behind.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => behind.parse().ok(),
    }
}

/// Goes to functions and lines of the program with these flags.
fn goes_where_it_is_told(name: &str, flags: &[&str]) -> Result<()> {
    let recorded = Recorded::new(name, "questions.c", flags)?;
    let first = recorded.says(&["at", "--full", "--first", "add"])?;
    has(&first, &["add at ", "argument  name = 0x", "\"one\"\n", "argument  value = 1\n", "\nregisters point at:\n"])?;
    let last = recorded.says(&["at", "--full", "add"])?;
    has(&last, &["argument  name = 0x", "\"three\"\n", "argument  value = 3\n", "main at "])?;
    ensure!(last.lines().any(|line| line.starts_with("  rdi ") && line.ends_with("\"three\"")), "{last}");
    // The second of three nodes has become 40.
    let adds = format!("questions.c:{}", recorded.line("adds one")?);
    let at = recorded.says(&["at", &adds])?;
    let sums = number_of(&at, "sum");
    ensure!(sums == Some(43) || at.contains("sum = <optimized out>"), "{sums:?} in {at}");
    // A line without code, and a file's name with some of its path.
    let empty = recorded.line("sets the value")? + 1;
    let at = recorded.says(&["at", &format!("program/questions.c:{empty}")])?;
    has(&at, &[&format!("questions.c:{empty} has no code: this is program/questions.c:{}", empty + 1)])?;
    // What is printed can be pasted, with the same to see there.
    let json = recorded.json(&["at", "questions.c:add"])?;
    let place = &json["place"];
    let position = format!("{}/{}/{}", place["tid"], place["interval"], place["position"]);
    ensure!(recorded.says(&["at", "--full", &position])? == last, "{position} is elsewhere");
    let time = format!("@{}", json["time"]);
    ensure!(recorded.says(&["at", "--full", &time])? == last, "{time} is elsewhere");
    ensure!(json["backtrace"][0]["scopes"][0]["arguments"][1]["value"] == "3", "{json}");
    let address = format!("{:#x}", json["spot"]["address"].as_u64().context("no address")?);
    has(&recorded.says(&["at", &address])?, &["add at "])?;
    recorded.workshop.done()
}

#[test]
fn at_functions_and_lines() -> Result<()> {
    goes_where_it_is_told("plain", &["-O0"])?;
    goes_where_it_is_told("optimized", &["-O2"])
}

#[test]
fn what_is_not_there_has_neighbours() -> Result<()> {
    let recorded = Recorded::new("neighbours", "questions.c", &["-O0"])?;
    let thread = recorded.json(&["at", "end"])?["place"]["tid"].to_string();
    for (args, expected) in [
        (&["at", "chang"][..], "there is no function chang: did you mean change"),
        (&["at", "question.c:3"], "there is no code of question.c: did you mean questions.c"),
        (&["at", "questions.c:5000"], "questions.c has no code in line 5000, nor in any line behind it"),
        (&["at", "12"], "a line is FILE:LINE, as main.c:12"),
        (&["at", "fwide"], "never ran fwide while it was recorded"),
        (&["at", "add", "--thread", "1"], &format!("has no thread 1; it has {thread}")),
        (&["at", "end", "--first"], "a position is one moment"),
    ] {
        has(&recorded.refuses(args)?, &[expected])?;
    }
    recorded.workshop.done()
}

#[test]
fn who_wrote_a_variable() -> Result<()> {
    let recorded = Recorded::new("variables", "questions.c", &["-O0"])?;
    let written = |what: &str| recorded.json(&["last-write", what]);
    let total = written("total")?;
    ensure!(total["values"]["before"] == "6" && total["values"]["after"] == "44", "{total}");
    ensure!(total["asked"]["type"] == "long int" && total["asked"]["size"] == 8, "{total}");
    let part = written("items->next->value")?;
    ensure!(part["values"]["before"] == "2" && part["values"]["after"] == "40", "{part}");
    let changes = recorded.line("changes it")?;
    ensure!(part["moment"]["backtrace"][0]["source"][0]["line"] == changes, "{part}");
    // The value that it had before that, and names as they are elsewhere.
    let place = &part["place"];
    let before = format!("{}/{}/{}", place["tid"], place["interval"], place["position"]);
    let text = recorded.says(&["last-write", "item->value", "--before", &before])?;
    has(&text, &["  item->value: long int, 8 bytes at 0x", ", of #0 change\n", "  after   2\n", "add at "])?;
    let local = written("third")?;
    ensure!(local["asked"]["frame"][1] == "main", "{local}");
    // What a system call wrote, into memory that the program had looked at, and where it had not.
    let answer = written("answer")?;
    ensure!(answer["what"] == "outside" && answer["values"]["after"] == "\"yes\\000ing\"", "{answer}");
    let call = answer["inferred"]["call"].as_str().context("no call")?;
    ensure!(call.starts_with("read(3, 0x") && call.ends_with(", 4) = 4"), "{answer}");
    has(&recorded.says(&["last-write", "ends[1]"])?, &["Inferred: pipe2(0x", ", 0) = 0\n  at "])?;
    // The same without debug information of its type.
    let address = part["asked"]["address"].as_u64().context("no address")?;
    let bytes = recorded.says(&["last-write", &format!("{address:#x}:8")])?;
    has(&bytes, &["  before  02 00 00 00 00 00 00 00\n  after   28 00 00 00 00 00 00 00\n"])?;
    for (args, expected) in [
        (&["last-write", "no_such_thing"][..], "there is no variable no_such_thing here; the innermost functions are "),
        (&["last-write", "third->nothing"], "there is no field nothing in its type"),
        (&["last-write", "0x1000:0"], "1 to 65536 bytes"),
        (&["last-write", "&total"], "it is not in memory there"),
    ] {
        has(&recorded.refuses(args)?, &[expected])?;
    }
    recorded.workshop.done()
}

/// What stands in parentheses behind a name: where the value is.
fn home(text: &str) -> Result<&str> {
    let what = text.lines().next().and_then(|first| first.split_once('(')?.1.split_once(')'));
    Ok(what.with_context(|| format!("no place in {text}"))?.0)
}

#[test]
fn why_a_variable_in_a_register_is_what_it_is() -> Result<()> {
    let recorded = Recorded::new("registers", "registers.c", &["-O1"])?;
    let lines = |text: &str| -> Vec<String> { text.lines().skip(1).map(str::to_owned).collect() };
    let adds = format!("registers.c:{} in sum", recorded.line("adds")?);
    // In a register that the function inside leaves alone: it has three times 4 and 11.
    let left = recorded.says(&["slice", "--at", "leaves", "--var", "total"])?;
    let register = home(&left)?;
    let same = recorded.says(&["slice", "--at", "leaves", "--reg", register])?;
    has(&same, &[&format!("Why: {register} = 0x2d"), &adds])?;
    ensure!(lines(&left) == lines(&same), "{left}\nbut of {register}\n{same}");
    // One that has stored the register: it is there.
    let stored = recorded.says(&["slice", "--at", "inner", "--var", "total"])?;
    let place = home(&stored)?;
    let same = recorded.says(&["slice", "--at", "inner", "--mem", place])?;
    has(&same, &[&format!("Why: {place}"), &adds])?;
    ensure!(place.starts_with("0x") && lines(&stored) == lines(&same), "{stored}\nbut of {place}\n{same}");
    // Pieces, of which each is what it is for reasons of its own, and a vector register.
    let (two, both) = ("pair.two", "pair");
    for (name, expected) in [(two, "rsi"), (both, "rsi rdi"), ("by", "ymm0[0..8]")] {
        let text = recorded.says(&["slice", "--at", "scaled", "--var", name])?;
        ensure!(home(&text)? == expected, "{text}");
        ensure!(text.contains(&adds) == (name != two), "{text}");
    }
    let forward = recorded.says(&["slice", "--forward", "--at", "scaled", "--var", "pair.one"])?;
    has(&forward, &[&format!("registers.c:{} in scaled", recorded.line("takes a pair")?)])?;
    let refused = recorded.refuses(&["slice", "--at", "leaves", "--var", "constant"])?;
    has(&refused, &["constant: it is neither in memory there nor in a register"])?;
    recorded.workshop.done()
}

/// What the user calls so is meant, whatever libc has by that name where the process ends.
#[test]
fn names_are_the_programs_own() -> Result<()> {
    let recorded = Recorded::new("names", "list.c", &["-O0"])?;
    let adds = format!("list.c:{}", recorded.line("adds")?);
    has(&recorded.says(&["last-write", "list"])?, &[&adds])?;
    // `free` keeps its own list there.
    let freed = recorded.says(&["last-write", "list->next"])?;
    ensure!(freed.contains("list->next") && !freed.contains(&adds), "{freed}");
    has(&recorded.says(&["slice", "--var", "list"])?, &[&adds])?;
    recorded.workshop.done()
}

/// What is in one register of the x87 unit does not follow from another one, though a push gives all of them other names.
#[test]
fn why_a_long_double_is_what_it_is() -> Result<()> {
    let recorded = Recorded::new("long-doubles", "long_doubles.c", &["-O2"])?;
    let line = |comment: &str| Ok::<_, anyhow::Error>(format!("long_doubles.c:{} in compute", recorded.line(comment)?));
    let (adds, multiplies) = (line("adds")?, line("multiplies")?);
    for (name, own, others) in [("one", &adds, &multiplies), ("other", &multiplies, &adds)] {
        let text = recorded.says(&["slice", "--var", name])?;
        has(&text, &[own])?;
        ensure!(!text.contains(others), "{name} follows from {others}:\n{text}");
        let forward = recorded.says(&["slice", "--forward", "--at", &own[..own.find(' ').unwrap_or(own.len())]])?;
        ensure!(!forward.contains(others), "{own} has influenced {others}:\n{forward}");
    }
    recorded.workshop.done()
}

/// What another process has put into shared memory, or the kernel when a thread ended, does not follow from what was stored there before.
#[test]
fn what_somebody_else_has_put_there() -> Result<()> {
    let recorded = Recorded::new("elsewhere", "elsewhere.c", &["-O0"])?;
    let line = |comment: &str| Ok::<_, anyhow::Error>(format!("elsewhere.c:{} in", recorded.line(comment)?));
    let cases = [
        ("total", "total", "another process (by shared memory"),
        ("rest", "rest", "the kernel, which clears this word when thread "),
    ];
    for (name, comment, from) in cases {
        has(&recorded.says(&["slice", "--var", name])?, &[&line(comment)?, from])?;
    }
    // The lowest byte of the price is the child's; of the kernel's word, too. Whoever waits for the thread's end may have seen what it stored.
    for (name, stores) in [("total", &["own price"][..]), ("rest", &["waits", "lives"])] {
        let found = recorded.json(&["slice", "--var", name])?;
        let outside = found["outside"].as_array().context("no sources")?;
        let elsewhere: Vec<&Value> = outside.iter().filter(|one| one["origin"] == "elsewhere").collect();
        ensure!(elsewhere.len() == 1, "{name}: {outside:?}");
        let after = &elsewhere[0]["after"];
        let position = format!("{}/{}/{}", after["tid"], after["interval"], after["position"]);
        let at = recorded.says(&["at", &position])?;
        let lines = stores.iter().map(|comment| Ok(format!("elsewhere.c:{}", recorded.line(comment)?)));
        let lines: Vec<String> = lines.collect::<Result<_>>()?;
        ensure!(lines.iter().any(|line| at.contains(line.as_str())), "{name}: none of {lines:?} in\n{at}");
        ensure!(elsewhere[0]["bytes"][0][1] == 1, "{name}: {outside:?}");
    }
    // Before the child's, it was the process's own.
    let again = recorded.says(&["slice", "--var", "again"])?;
    has(&again, &[&line("own price")?])?;
    ensure!(!again.contains("another process (by"), "{again}");
    recorded.workshop.done()
}

#[test]
fn each_time_that_code_ran() -> Result<()> {
    for (name, flags) in [("hits-plain", "-O0"), ("hits-optimized", "-O2")] {
        let recorded = Recorded::new(name, "questions.c", &[flags])?;
        let hits = |args: &[&str]| -> Result<Vec<Value>> {
            let text = recorded.says(&[&["hits", "--json"], args].concat())?;
            Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
        };
        let values = |hits: &[Value]| -> Vec<String> {
            hits.iter().filter_map(|hit| Some(hit["arguments"][1]["value"].as_str()?.to_owned())).collect()
        };
        let all = hits(&["add"])?;
        ensure!(values(&all) == ["1", "2", "3"], "{all:?}");
        ensure!(values(&hits(&["add", "--last", "2"])?) == ["2", "3"], "the last two");
        ensure!(values(&hits(&["add", "--limit", "2"])?) == ["1", "2"], "the first two");
        ensure!(all.iter().all(|hit| hit["caller"].as_str().is_some_and(|it| it.starts_with("main at "))), "{all:?}");
        let adds = format!("questions.c:{}", recorded.line("adds one")?);
        let times: Vec<u64> = hits(&[&adds])?.iter().filter_map(|hit| hit["time"].as_u64()).collect();
        ensure!(times.len() >= 6 && times.is_sorted(), "{times:?}");
        let text = recorded.says(&["hits", "questions.c:add"])?;
        has(&text, &["  add(name=0x", " \"two\", value=2) at ", ", from main at "])?;
        // What stands first can be pasted.
        let position = text.split_whitespace().next().context("no position")?;
        has(&recorded.says(&["at", position])?, &["argument  value = 1\n"])?;
        has(&recorded.says(&["hits", "fwide"])?, &["fwide never ran while it was recorded\n"])?;
        recorded.workshop.done()?;
    }
    Ok(())
}

#[test]
fn system_calls_with_what_they_point_at() -> Result<()> {
    let recorded = Recorded::new("calls", "questions.c", &["-O0"])?;
    let text = recorded.says(&["syscalls"])?;
    let expected = [
        "openat(AT_FDCWD, \"/etc/ld.so.cache\", O_RDONLY|O_CLOEXEC) = ",
        "PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0x0) = 0x",
        "write(4, \"yes\\x00\", 4) = 4\n",
        "pipe2([3, 4], 0) = 0\n",
        "read(3, \"yes\\x00\", 4) = 4\n",
        "{st_mode=S_IF",
        "rt_sigprocmask(SIG_UNBLOCK, [SIGABRT], NULL, 8) = 0\n",
        " = -1 ENOENT (No such file or directory)\n",
        ", SIGABRT) = 0\n",
    ];
    has(&text, &expected)?;
    // In the order in which they were made, each with its position.
    let some = recorded.says(&["syscalls", "-e", "pipe2,read", "--json"])?;
    let some: Vec<Value> = some.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let last = some.last().context("no calls")?;
    ensure!(some.iter().all(|call| call["name"] == "pipe2" || call["name"] == "read"), "{some:?}");
    ensure!(last["result"] == 4 && last["call"] == "read(3, \"yes\\x00\", 4)", "{last}");
    let reads = text.lines().find(|line| line.contains("read(3, \"yes")).context("no such line")?;
    let position = reads.split_whitespace().next().context("no position")?;
    ensure!(recorded.json(&["at", position])?["time"] == last["time"], "{reads} and {last}");
    // The records alone have paths and numbers.
    let records = recorded.says(&["syscalls", "--records"])?;
    ensure!(records.lines().count() == text.lines().count(), "{records}");
    has(&records, &[expected[0], "read(3, 0x"])?;
    has(&recorded.refuses(&["syscalls", "-e", "raed"])?, &["there is no system call raed"])?;
    recorded.workshop.done()
}

#[test]
fn system_calls_of_a_real_program() -> Result<()> {
    let workshop = Workshop::new("questions-cat")?;
    let words = "What a program reads is known as far as it looks at it, and no further.\n";
    fs::write(workshop.path.join("words"), words.repeat(3))?;
    let log = workshop.path.join("log");
    let job = Job::new(&workshop.path, ["/usr/bin/sort", "words"]);
    let output = run(&mut job.recorded(&log, &[])?)?;
    ensure!(output.status.success(), "{}", printed(&output));
    let said = bugnet(["syscalls"].iter().map(Path::new).chain([log.as_path()]))?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    has(
        &text,
        &[
            "openat(AT_FDCWD, \"words\", O_RDONLY",
            "read(3, \"What a program reads is known as\"..., ",
            "write(1, \"What a program reads is known as\"..., ",
            "exit_group(0) = ?\n",
        ],
    )?;
    workshop.done()
}

#[test]
fn a_core_file_that_debuggers_read() -> Result<()> {
    let recorded = Recorded::new("core", "questions.c", &["-O0"])?;
    let (kept, core) = (recorded.workshop.path.join("kept"), recorded.workshop.path.join("core"));
    let name = core.to_string_lossy().into_owned();
    let gdb = |core: &Path| -> Result<String> {
        let commands = ["-nx", "-batch", "-ex", "bt", "-ex", "print *items", "-ex", "print total"];
        let output = run(Command::new("gdb").args(commands).arg("-c").arg(core).arg(&kept))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let held = recorded.json(&["core", "-o", &name])?;
    ensure!(held["threads"] == 1 && held["known"].as_u64() > Some(100_000), "{held}");
    has(
        &gdb(&core)?,
        &["terminated with signal SIGABRT", "abort", " main () at ", "\"three\", value = 3, next = 0x", "$2 = 44\n"],
    )?;
    let stack = run(Command::new("eu-stack").arg("--core").arg(&core).arg("-e").arg(&kept))?;
    has(&String::from_utf8_lossy(&stack.stdout), &["abort", " main\n", " _start\n"])?;
    has(&recorded.refuses(&["core", "-o", &name])?, &["is there already"])?;
    // In the middle, with the same stack and arguments as `at`.
    fs::remove_file(&core)?;
    let adds = format!("questions.c:{}", recorded.line("adds one")?);
    let said = recorded.says(&["core", "--at", &adds, "-o", &name])?;
    has(&said, &[": 1 thread, ", " bytes in these pages are not known, and read as zero\n"])?;
    let (text, at) = (gdb(&core)?, recorded.json(&["at", &adds])?);
    let first = at["backtrace"][0]["scopes"][0]["arguments"][0]["value"].as_str().context("no argument")?;
    has(&text, &[&format!("#0  sum (first={first}) at "), "questions.c:", "\n#1  0x", " in main () at ", "$2 = 6\n"])?;
    let caller = at["backtrace"][1]["pc"].as_u64().context("no caller")?;
    has(&text, &[&format!("{caller:#018x} in main")])?;
    recorded.workshop.done()
}

/// What only the first interval touched is in a core file of the last one, and what nothing is known of is counted.
#[test]
fn a_core_file_has_what_earlier_intervals_left() -> Result<()> {
    let workshop = Workshop::new("questions-early")?;
    let (program, log, core) = (workshop.path.join("early"), workshop.path.join("log"), workshop.path.join("core"));
    let source = source_tree().join("tests/programs/travel/early.c");
    let compiled = run(Command::new("gcc").args(["-g", "-O0", "-o"]).arg(&program).arg(source))?;
    ensure!(compiled.status.success(), "{}", printed(&compiled));
    let job = Job::new(&workshop.path, [&*program.to_string_lossy()]);
    run(&mut job.recorded(&log, &["--interval", "200k"])?)?;
    // Whatever it takes to know that is done.
    let made = bugnet([Path::new("core"), &log, Path::new("-o"), &core])?;
    has(&printed(&made), &[" pages that were mapped, and of which nothing is known, are left out"])?;
    let commands = ["-nx", "-batch", "-ex", "print early[199]", "-ex", "print early[3 * 4096]", "-ex", "print sum"];
    let said = run(Command::new("gdb").args(commands).arg("-c").arg(&core).arg(&program))?;
    // The log knows nothing of a page that nobody has touched.
    has(&printed(&said), &["$1 = 99 'c'\n", "Cannot access memory at address", "= 44999850000\n"])?;
    workshop.done()
}

#[test]
fn versions_of_code_by_name() -> Result<()> {
    let recorded = Recorded::new("code", "questions.c", &["-O0"])?;
    let sum = recorded.json(&["code", "--at", "sum"])?;
    ensure!(sum["versions"].as_array().map(Vec::len) == Some(1), "{sum}");
    let place = &sum["versions"][0];
    let position = format!("{}/{}/{}", place["tid"], place["interval"], place["position"]);
    ensure!(recorded.json(&["code", "--at", &position])? == sum, "{position} is elsewhere");
    has(&recorded.refuses(&["code", "--at", "sumn"])?, &["did you mean sum"])?;
    recorded.workshop.done()
}

/// The end is shown where the failure is: in the process that failed by itself, not in one that was sent a signal, and in the thread that did.
#[test]
fn the_end_is_where_the_failure_is() -> Result<()> {
    let recorded = Recorded::new("end-elsewhere", "end_elsewhere.c", &["-pthread"])?;
    let shown = recorded.json(&["at", "end"])?;
    let frames = shown["backtrace"].as_array().context("no backtrace")?;
    let functions: Vec<_> = frames.iter().filter_map(|frame| frame["source"][0]["function"].as_str()).collect();
    ensure!(functions.contains(&"fail"), "{shown:#}");
    has(&recorded.says(&["at", "--full", "end"])?, &["fail at ", "other threads:"])?;
    recorded.workshop.done()
}
