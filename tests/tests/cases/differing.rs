//! `bugnet diff` and `bugnet window` say of a right and a wrong run of a program where they part and what they store, whatever addresses,
//! environment, intervals and timing they had; `bugnet delta`, who accessed the memory that a function used; and that runs which do the same do so.

use anyhow::{Context, Result, ensure};
use bugnet_tests::alike::namespace;
use bugnet_tests::bugnet::{Job, Workshop, bugnet, headers, must_pass, printed, run};
use bugnet_tests::sample::{one_of, some_of};
use bugnet_tests::slices::bugs::Faulty;
use bugnet_tests::small::build_named;
use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How a run is recorded.
#[derive(Clone, Copy, Default)]
struct How {
    /// Options for `bugnet record`.
    options: &'static [&'static str],
    /// Without address space randomization.
    fixed: bool,
    /// With a larger environment.
    large: bool,
    /// In a namespace in which this many ids of processes and threads are left before the system begins anew with low ones.
    left: Option<u64>,
}

const PLAIN: How = How { options: &[], fixed: false, large: false, left: None };

/// Records a command into a folder of the workshop.
fn record(workshop: &Workshop, name: &str, command: &[&str], how: How) -> Result<PathBuf> {
    let log = workshop.path.join(name);
    let prefix: &[&str] = if how.fixed { &["setarch", "-R"] } else { &[] };
    let job = Job::new(&workshop.path, prefix.iter().chain(command).copied());
    let mut recorded = job.recorded(&log, how.options)?;
    if how.large {
        recorded.env("LARGE", "x".repeat(3001));
    }
    if let Some(left) = how.left {
        // A namespace may have a limit of its own.
        let last = format!("$(($(cat /proc/sys/kernel/pid_max) - {left}))");
        let script = format!("echo {last} >/proc/sys/kernel/ns_last_pid && \"$@\"");
        let mut inside = Command::new("sh");
        inside.args([
            "-c",
            &format!("exec {} --pid --fork --mount-proc sh -c '{script}' sh \"$@\"", namespace()),
            "sh",
        ]);
        inside.arg(recorded.get_program()).args(recorded.get_args()).current_dir(&workshop.path).stdin(Stdio::null());
        recorded = inside;
    }
    let output = run(&mut recorded)?;
    ensure!(log.exists(), "{}", printed(&output));
    Ok(log)
}

/// Both runs of a program with these arguments.
fn pair(workshop: &Workshop, program: &Path, args: [&str; 2], how: [How; 2]) -> Result<[PathBuf; 2]> {
    let program = program.to_string_lossy();
    let good = record(workshop, "good", &[&program, args[0]], how[0])?;
    Ok([good, record(workshop, "bad", &[&program, args[1]], how[1])?])
}

/// A program of `programs/differing`, not optimized, with canaries on its stack.
fn build(workshop: &Workshop, name: &str) -> Result<PathBuf> {
    build_named(&format!("differing/{name}.c"), &["-O0", "-fstack-protector-all", "-pthread"], &workshop.path)
}

fn diff(logs: &[PathBuf; 2], more: &[&str]) -> Result<Value> {
    let mut args = vec!["diff", "--json"];
    args.extend(more);
    let good = logs[0].to_string_lossy();
    args.push(&good);
    Ok(serde_json::from_slice(&must_pass(&args, &logs[1])?.stdout)?)
}

/// The number of the first line of a program's source that has this text.
fn line(name: &str, text: &str) -> Result<u64> {
    let path = bugnet_tests::bugnet::source_tree().join(format!("tests/programs/differing/{name}.c"));
    let source = std::fs::read_to_string(path)?;
    let at = source.lines().position(|line| line.contains(text)).with_context(|| format!("no {text} in {name}.c"))?;
    Ok(at as u64 + 1)
}

fn text<'a>(value: &'a Value, at: &str) -> &'a str {
    value.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, at: &str) -> Option<u64> {
    value.pointer(at).and_then(Value::as_u64)
}

fn list<'a>(value: &'a Value, at: &str) -> &'a [Value] {
    value.pointer(at).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The line that `bugnet at` shows at a position.
fn line_at(position: &str, log: &Path) -> Result<Option<u64>> {
    let shown: Value = serde_json::from_slice(&must_pass(&["at", "--json", position], log)?.stdout)?;
    Ok(number(&shown, "/backtrace/0/source/0/line"))
}

/// The wrong run goes another way, stores another value before, and crashes in the end: each with its line, its values, and positions in both
/// logs.
fn a_list(how: [How; 2]) -> Result<()> {
    let workshop = Workshop::new(&format!("differing-list-{}{}{}", how[1].fixed, how[1].large, how[1].options.len()))?;
    let logs = pair(&workshop, &build(&workshop, "list")?, ["12345", "123z5"], how)?;
    let found = diff(&logs, &[])?;
    let threads = list(&found, "/threads");
    ensure!(threads.len() == 1, "{found:#}");
    let first = &threads[0]["parted"][0];
    ensure!(text(first, "/at") == "branch" && text(first, "/spot/function") == "weigh", "{first:#}");
    let parts = line("list", "the runs part here first")?;
    ensure!(number(first, "/spot/line") == Some(parts), "{first:#}");
    let operand = &first["decided"]["operands"][0];
    ensure!(text(operand, "/variable") == "n", "{first:#}");
    ensure!((number(operand, "/good/value"), number(operand, "/bad/value")) == (Some(4), Some(74)), "{first:#}");
    ensure!(list(first, "/variables").len() == 1 && text(first, "/variables/0/bad") == "74", "{first:#}");
    ensure!(
        number(first, "/good/to/line") == Some(parts + 2) && number(first, "/bad/to/line") == Some(parts + 1),
        "{first:#}"
    );
    ensure!(text(first, "/again/function") == "weigh", "{first:#}");
    for (run, log) in ["good", "bad"].into_iter().zip(&logs) {
        let position = text(&first[run], "/position");
        ensure!(line_at(position, log)? == Some(parts), "{position} of {run} is elsewhere");
    }
    let last = &threads[0]["last"];
    ensure!(number(last, "/spot/line") == Some(line("list", "they part for good here")?), "{last:#}");
    ensure!(last["again"].is_null(), "{last:#}");
    let value = &threads[0]["values"][0];
    ensure!(number(value, "/spot/line") == Some(line("list", "the first value that differs")?), "{value:#}");
    ensure!(
        (number(value, "/good/value/value"), number(value, "/bad/value/value")) == (Some(4), Some(74)),
        "{value:#}"
    );
    for (run, log) in ["good", "bad"].into_iter().zip(&logs) {
        let position = text(&value[run], "/position");
        ensure!(line_at(position, log)? == number(value, "/spot/line"), "{position} of {run} is elsewhere");
    }
    let lines = |run: &str| {
        let lines = list(&found, &format!("/only_{run}/lines")).iter().filter(|only| only["file"].is_string());
        lines.filter_map(|only| only["line"].as_u64()).collect::<Vec<_>>()
    };
    let crashes = line("list", "they part for good here")? + 1;
    ensure!(lines("bad") == [parts + 1, crashes], "{:?}", lines("bad"));
    ensure!(lines("good") == [crashes + 1, crashes + 2], "{:?}", lines("good"));
    // For people, the same.
    let good = logs[0].to_string_lossy();
    let shown = must_pass(&["diff", &good], &logs[1])?;
    let shown = String::from_utf8(shown.stdout)?;
    for part in
        ["They first part at a branch in weigh at ", "They part for good at a branch in main at ", "killed by SIGSEGV"]
    {
        ensure!(shown.contains(part), "no {part} in:\n{shown}");
    }
    workshop.done()
}

/// Runs that do the same are the same, however they were recorded: pointers, secrets of the system and intervals do not count.
/// Returns whether a thread of the second one has a lower id than its process.
fn the_same(name: &'static str, args: [&str; 2], how: [How; 2]) -> Result<bool> {
    let workshop = Workshop::new(&format!("differing-same-{name}-{}{:?}", how[1].options.len(), how[1].left))?;
    let logs = pair(&workshop, &build(&workshop, name)?, args, how)?;
    let found = diff(&logs, &[])?;
    for pair in list(&found, "/threads") {
        ensure!(list(pair, "/parted").is_empty() && pair["last"].is_null(), "{pair:#}");
        // The process id is the kernel's affair, and how far the other thread has come by then, timing's.
        let by_chance = |value: &&Value| text(value, "/spot/function") != "idle" && text(value, "/variable") != "done";
        let other = list(pair, "/values").iter().find(by_chance);
        ensure!(other.is_none(), "{pair:#}");
    }
    ensure!(!list(&found, "/threads").is_empty() && list(&found, "/only_good_threads").is_empty(), "{found:#}");
    for run in ["good", "bad"] {
        let only = &found[format!("only_{run}")];
        ensure!(list(only, "/lines").is_empty() && list(only, "/functions").is_empty(), "{only:#}");
    }
    let came_round = headers(&logs[1])?.iter().any(|header| header.tid.id() < header.pid.0);
    workshop.done().map(|()| came_round)
}

/// Threads are paired by the order in which they were made, also where the system has given low ids to the later ones.
fn ids_come_round(all: bool) -> Result<()> {
    let mut round = 0;
    for left in 3..12 {
        if round > 0 && !all {
            break;
        }
        let late = How { left: Some(left), ..PLAIN };
        let came_round = the_same("threads", ["200", "200"], [PLAIN, late]);
        round += usize::from(came_round.with_context(|| format!("{left} ids were left"))?);
    }
    ensure!(round > 0, "no thread had a lower id than its process");
    Ok(())
}

/// Where the runs of `ways.c` part first: at what, in which function, and the value that decided in each.
fn a_way(good: &str, bad: &str, at: &str, expected: &str) -> Result<()> {
    let workshop = Workshop::new(&format!("differing-way-{at}-{bad}"))?;
    let logs = pair(&workshop, &build(&workshop, "ways")?, [good, bad], [PLAIN, PLAIN])?;
    let found = diff(&logs, &[])?;
    let first = &found["threads"][0]["parted"][0];
    let mark = line("ways", expected)?;
    ensure!(text(first, "/at") == at && number(first, "/spot/line") == Some(mark), "{first:#}");
    if at != "library" {
        let differs = |operand: &Value| operand["differs"] == Value::Bool(true);
        ensure!(list(first, "/decided/operands").iter().any(differs), "{first:#}");
    }
    // All of these come together again, and end alike.
    ensure!(found["threads"][0]["last"].is_null(), "{found:#}");
    workshop.done()
}

/// One of several threads does more; the others do not, however they took turns.
fn threads() -> Result<()> {
    let workshop = Workshop::new("differing-threads")?;
    let how = How { fixed: true, ..PLAIN };
    let logs = pair(&workshop, &build(&workshop, "threads")?, ["200", "77"], [PLAIN, how])?;
    let found = diff(&logs, &[])?;
    let pairs = list(&found, "/threads");
    ensure!(pairs.len() == 4, "{} pairs", pairs.len());
    let parts: Vec<&Value> = pairs.iter().filter(|pair| !list(pair, "/parted").is_empty()).collect();
    ensure!(parts.len() == 1, "{} pairs part and come together again", parts.len());
    let first = &parts[0]["parted"][0];
    ensure!(number(first, "/spot/line") == Some(line("threads", "one thread parts here")?), "{first:#}");
    ensure!(number(first, "/times") == Some(1), "{first:#}");
    // The first thread finds out, and aborts.
    let last: Vec<&Value> = pairs.iter().filter(|pair| !pair["last"].is_null()).collect();
    ensure!(last.len() == 1 && text(last[0], "/last/spot/function") == "main", "{last:#?}");
    // What the kernel returned is said to be that.
    let called = pairs.iter().find(|pair| text(pair, "/returned/call") == "getpid").context("no getpid")?;
    let line = line("threads", "what the kernel returned")?;
    ensure!(number(called, "/values/0/spot/line") == Some(line), "{called:#}");
    workshop.done()
}

/// Where intervals end changes nothing.
fn intervals() -> Result<()> {
    let workshop = Workshop::new("differing-intervals")?;
    let program = build(&workshop, "ways")?;
    let program = program.to_string_lossy();
    let summary = |found: &Value| {
        let parted = list(found, "/threads/0/parted").iter();
        let parted: Vec<_> = parted.map(|one| (one["spot"].clone(), one["at"].clone(), one["times"].clone())).collect();
        let values = list(found, "/threads/0/values").iter();
        let values: Vec<_> = values.map(|one| (one["spot"].clone(), one["bad"]["value"].clone())).collect();
        (parted, values, found["threads"][0]["times"].clone())
    };
    let mut all = Vec::new();
    for (name, options) in [("whole", &[][..]), ("short", &["--interval", "700"]), ("other", &["--interval", "1031"])] {
        let how = How { options, ..PLAIN };
        let good = record(&workshop, &format!("good-{name}"), &[&program, "0000"], how)?;
        let bad = record(&workshop, &format!("bad-{name}"), &[&program, "1311"], how)?;
        all.push([good, bad]);
    }
    let expected = summary(&diff(&all[0], &["--top", "50"])?);
    ensure!(expected.0.len() >= 4 && !expected.1.is_empty(), "{expected:#?}");
    for logs in [&all[1], &all[2], &[all[1][0].clone(), all[2][1].clone()]] {
        let found = summary(&diff(logs, &["--top", "50"])?);
        ensure!(found == expected, "{found:#?}\nnot {expected:#?}");
    }
    workshop.done()
}

/// Of real programs, with nothing known of their source: they part where their input differs, come together again, and do not part from
/// themselves.
fn real(name: &str, good: &[&str], bad: &[&str], library: Option<&str>) -> Result<()> {
    let workshop = Workshop::new(&format!("differing-real-{name}"))?;
    std::fs::write(workshop.path.join("numbers"), (0..9000).map(|n| format!("{n}\n")).collect::<String>())?;
    std::fs::write(workshop.path.join("others"), (0..9000).map(|n| format!("{}\n", n + n / 4567)).collect::<String>())?;
    std::fs::write(workshop.path.join("right.bc"), "2^20+3; 7/2\n")?;
    std::fs::write(workshop.path.join("wrong.bc"), "2^20+3; 7/0\n")?;
    let own: Vec<&str> = library.into_iter().flat_map(|file| ["--own", file]).collect();
    let [good, again] = [record(&workshop, "good", good, PLAIN)?, record(&workshop, "again", good, PLAIN)?];
    let bad = record(&workshop, "bad", bad, PLAIN)?;
    let found = diff(&[good.clone(), bad.clone()], &own)?;
    let pair = &found["threads"][0];
    ensure!(number(pair, "/times") > Some(0) && !list(pair, "/parted").is_empty(), "{pair:#}");
    let first = &pair["parted"][0];
    for (run, log) in ["good", "bad"].into_iter().zip([&good, &bad]) {
        // The position is one of the log's, in the same function and file.
        let shown: Value =
            serde_json::from_slice(&must_pass(&["at", "--json", text(&first[run], "/position")], log)?.stdout)?;
        let module = text(&shown, "/backtrace/0/module/path");
        ensure!(module == text(first, "/spot/object"), "{module}: {first:#}");
    }
    let same = diff(&[good, again], &own)?;
    let pair = &same["threads"][0];
    ensure!(number(pair, "/times") == Some(0) && pair["last"].is_null(), "{pair:#}");
    workshop.done()
}

/// Logs of different programs, and of other builds of one, are told apart.
fn others() -> Result<()> {
    let workshop = Workshop::new("differing-others")?;
    let list = record(&workshop, "list", &[&build(&workshop, "list")?.to_string_lossy(), "12"], PLAIN)?;
    let other = workshop.folder("other")?;
    let program = build_named("differing/list.c", &["-O2"], &other)?;
    let rebuilt = record(&workshop, "rebuilt", &[&program.to_string_lossy(), "12"], PLAIN)?;
    let alien = record(&workshop, "alien", &["/bin/true"], PLAIN)?;
    for (log, what) in [(&rebuilt, "another build"), (&alien, "/bin/true")] {
        for args in [["diff", "", ""], ["window", "--good", "--bad"], ["delta", "", ""]] {
            let [command, good, bad] = args;
            let log = log.to_string_lossy();
            let line: Vec<String> = [command, good, &list.to_string_lossy(), bad, &log].map(String::from).into();
            let output = bugnet(line.iter().filter(|word| !word.is_empty()))?;
            let message = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.code() == Some(2), "{}", printed(&output));
            ensure!(message.contains("different programs") && message.contains(what), "{message}");
        }
    }
    let output = bugnet(["diff", &*list.to_string_lossy(), &*list.to_string_lossy(), "--own", "libnone.so"])?;
    ensure!(output.status.code() == Some(2), "{}", printed(&output));
    workshop.done()
}

/// Of a program and a repaired build of it, the window begins where the fault is.
fn two_builds() -> Result<()> {
    let workshop = Workshop::new("differing-builds")?;
    let programs =
        [("off_by_one", "-O0"), ("wrong_operator", "-O0"), ("integer_overflow", "-O0"), ("missing_case", "-O0")];
    for (name, optimisation) in some_of(programs.len(), programs) {
        let all = Faulty::all()?;
        let faulty = all.iter().find(|faulty| faulty.name() == name).context("no such program")?;
        let folder = workshop.folder(&format!("{name}{optimisation}"))?;
        let [wrong, right] = faulty.build(optimisation, &folder)?;
        let [good, bad] = [("good", &right), ("bad", &wrong)].map(|(kind, program)| {
            record(&workshop, &format!("{name}{optimisation}-{kind}"), &[&*program.to_string_lossy()], PLAIN)
        });
        let (good, bad) = (good?, bad?);
        let compared =
            ["window", "--json", "--other-build", "--good", &good.to_string_lossy(), "--bad"].map(String::from);
        let window: Value = serde_json::from_slice(&must_pass(&compared.each_ref().map(String::as_str), &bad)?.stdout)?;
        let position = text(&window["first"], "/position");
        let shown: Value = serde_json::from_slice(&must_pass(&["at", "--json", position], &bad)?.stdout)?;
        let line = number(&shown, "/backtrace/0/place/source/0/line").or(number(&shown, "/backtrace/0/source/0/line"));
        ensure!(line == Some(faulty.line.into()), "{name} {optimisation}: {line:?}, not {}: {window:#}", faulty.line);
        // The same builds have the same way, and the other one's stores are not all different.
        let same: Value = serde_json::from_slice(&must_pass(&compared.each_ref().map(String::as_str), &good)?.stdout)?;
        ensure!(same["first"].is_null() && number(&same, "/differing") == Some(0), "{same:#}");
        ensure!(number(&window, "/differing") < number(&window, "/stores").map(|all| all / 2), "{window:#}");
    }
    workshop.done()
}

/// The window begins with the first value that differs, and is as long as what comes behind it.
fn window() -> Result<()> {
    let workshop = Workshop::new("differing-window")?;
    let logs = pair(&workshop, &build(&workshop, "list")?, ["12345", "123z5"], [PLAIN, PLAIN])?;
    let ask = |logs: &[PathBuf; 2]| -> Result<Value> {
        let good = logs[0].to_string_lossy();
        Ok(serde_json::from_slice(&must_pass(&["window", "--json", "--good", &good, "--bad"], &logs[1])?.stdout)?)
    };
    let found = ask(&logs)?;
    ensure!(text(&found, "/by") == "value", "{found:#}");
    ensure!(number(&found, "/value/spot/line") == Some(line("list", "the first value that differs")?), "{found:#}");
    ensure!(number(&found, "/control/spot/line") == Some(line("list", "the runs part here first")?), "{found:#}");
    let position = text(&found, "/first/position");
    let shown: Value = serde_json::from_slice(&must_pass(&["at", "--json", position], &logs[1])?.stdout)?;
    let length = number(&shown, "/end").zip(number(&shown, "/time")).map(|(end, time)| end - time);
    ensure!(number(&found, "/first/length") == length && length > Some(0), "{length:?}, {found:#}");
    ensure!(found["deviation"].is_null() && number(&found, "/differing") > Some(2), "{found:#}");
    let same = ask(&[logs[0].clone(), logs[0].clone()])?;
    ensure!(same["first"].is_null() && number(&same, "/differing") == Some(0), "{same:#}");
    ensure!(number(&same, "/stores") > Some(20), "{same:#}");
    workshop.done()
}

fn delta(logs: &[PathBuf; 2], more: &[&str]) -> Result<Value> {
    let good = logs[0].to_string_lossy();
    Ok(serde_json::from_slice(&must_pass(&[&["delta", "--json"], more, &[&*good]].concat(), &logs[1])?.stdout)?)
}

/// What only the wrong run did with memory that a function used: pattern, lines, and whether a handler took part.
fn only_bad(found: &Value, is_it: impl Fn(&Value) -> bool) -> Result<Vec<(String, Vec<u64>, bool)>> {
    let memory = list(found, "/memory").iter().find(|memory| is_it(&memory["object"]));
    let conflicts = list(memory.with_context(|| format!("{found:#}"))?, "/conflicts");
    let only = conflicts.iter().filter(|conflict| number(conflict, "/times/0") == Some(0));
    let told = |conflict: &Value| {
        let lines = list(conflict, "/spots").iter().filter_map(|spot| number(spot, "/line")).collect();
        (text(conflict, "/pattern").to_owned(), lines, conflict["by_handler"] == true)
    };
    Ok(only.map(told).collect())
}

/// Another thread, or a handler, comes between a read and a write of a function, in the wrong run alone; each access is shown where it is.
fn shared(how: &str) -> Result<()> {
    let workshop = Workshop::new(&format!("differing-shared-{how}"))?;
    let logs = pair(&workshop, &build(&workshop, "shared")?, ["whole", how], [PLAIN, PLAIN])?;
    let found = delta(&logs, &["--function", "withdraw"])?;
    let allocates = line("shared", "/* ALLOCATES */")?;
    let is_block = |object: &Value| text(object, "/block").ends_with(&format!("shared.c:{allocates}"));
    let is_taken = |object: &Value| text(object, "/global") == "taken";
    let is_torn = |object: &Value| if how == "torn" { is_block(object) } else { is_taken(object) };
    let is_whole = |object: &Value| if how == "torn" { is_taken(object) } else { is_block(object) };
    let marks = if how == "torn" { ["READ", "TAKE", "WRITE"] } else { ["BEFORE", "COUNT", "AFTER"] };
    let lines = marks.map(|mark| line("shared", &format!("/* {mark} */"))).into_iter().collect::<Result<Vec<_>>>()?;
    let only = only_bad(&found, is_torn)?;
    let expected = ("RWW".to_owned(), lines.clone(), how == "handler");
    ensure!(only.first() == Some(&expected), "{expected:?}: {only:?}\n{found:#}");
    let only = only_bad(&found, is_whole)?;
    ensure!(only.is_empty(), "{only:?}");
    let memory = list(&found, "/memory").iter().find(|memory| is_torn(&memory["object"]));
    for (place, line) in list(memory.context("nothing")?, "/conflicts/0/places").iter().zip(&lines) {
        let position = place.as_str().unwrap_or_default();
        ensure!(line_at(position, &logs[1])? == Some(*line), "{position} is not at line {line}");
    }
    // The same run twice has nothing alone.
    let same = delta(&[logs[1].clone(), logs[1].clone()], &["--function", "withdraw"])?;
    ensure!(list(&same, "/memory").len() >= 2, "{same:#}");
    for memory in list(&same, "/memory") {
        ensure!(only_bad(&same, |object| *object == memory["object"])?.is_empty(), "{same:#}");
    }
    // The main function had returned where it ended; and a function that is not there is an error.
    for (more, says) in
        [(&[][..], "--function NAME says which"), (&["--function", "nowhere"], "function called nowhere")]
    {
        let logs = logs.each_ref().map(|log| log.to_string_lossy());
        let output = bugnet([&["delta"], more, &logs.each_ref().map(|log| &**log)].concat())?;
        let message = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(2) && message.contains(says), "{}", printed(&output));
    }
    workshop.done()
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let trial = |name: &str, body: Box<dyn Fn() -> Result<()> + Send>| {
        Trial::test(name, move || body().map_err(|e| Failed::from(format!("{e:#}"))))
    };
    let (fixed, large) = (How { fixed: true, ..PLAIN }, How { large: true, ..PLAIN });
    let short = How { options: &["--interval", "900"], ..PLAIN };
    let lists = vec![
        trial("list", Box::new(|| a_list([PLAIN, PLAIN]))),
        trial("list_fixed", Box::new(move || a_list([fixed, fixed]))),
        trial("list_large_environment", Box::new(move || a_list([PLAIN, large]))),
        trial("list_short_intervals", Box::new(move || a_list([PLAIN, short]))),
    ];
    let same = vec![
        trial("same_list", Box::new(move || the_same("list", ["123", "123"], [fixed, large]).map(drop))),
        trial("same_ways", Box::new(move || the_same("ways", ["1311", "1311"], [large, short]).map(drop))),
        trial("same_threads", Box::new(move || the_same("threads", ["200", "200"], [PLAIN, fixed]).map(drop))),
    ];
    let others = vec![
        trial("ids_come_round", Box::new(|| ids_come_round(false))),
        trial("ids_come_round_everywhere", Box::new(|| ids_come_round(true))).with_ignored_flag(true),
        trial("loop", Box::new(|| a_way("0000", "1000", "branch", "outer == 2"))),
        trial("switch", Box::new(|| a_way("0100", "0300", "jump", "switch (n)"))),
        trial("pointer", Box::new(|| a_way("0000", "0010", "call", "calls[way"))),
        trial("callback", Box::new(|| a_way("0000", "0001", "branch", "numbers[2] ="))),
        trial("threads", Box::new(threads)),
        trial("intervals", Box::new(intervals)),
        trial("others", Box::new(others)),
        trial("shared_torn", Box::new(|| shared("torn"))),
        trial("shared_handler", Box::new(|| shared("handler"))),
        trial("window", Box::new(window)),
        trial("two_builds", Box::new(two_builds)),
    ];
    let programs = vec![
        trial("bc", Box::new(|| real("bc", &["bc", "right.bc"], &["bc", "wrong.bc"], None))),
        trial("gzip", Box::new(|| real("gzip", &["gzip", "-c", "numbers"], &["gzip", "-c", "others"], None))),
        trial(
            "sqlite3",
            Box::new(|| {
                let good = ["sqlite3", ":memory:", "create table t(a); insert into t values(1); select sum(a) from t"];
                let bad = ["sqlite3", ":memory:", "create table t(a); insert into t values(1); select sum(b) from t"];
                real("sqlite3", &good, &bad, Some("libsqlite3.so.0.8.6"))
            }),
        ),
    ];
    let tables = [others, one_of(4, lists), one_of(3, same), one_of(3, programs)];
    Ok(tables.into_iter().flatten().collect())
}
