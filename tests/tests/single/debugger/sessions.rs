//! `bugnet debug` with the real gdb: from crashes to what caused them, backwards as forwards, on a machine that has neither the
//! program nor its files.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Workshop, binary, new_gdb, printed, run};
use bugnet_tests::debugged::{line_with, recorded, source};
use bugnet_tests::machine::Machine;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Whether the gdb is the new one.
fn is_new() -> bool {
    module_path!().ends_with("::new")
}

fn gdb() -> Result<PathBuf> {
    if is_new() { new_gdb() } else { Ok("gdb".into()) }
}

fn workshop(name: &str) -> Result<Workshop> {
    Workshop::new(&if is_new() { format!("new-{name}") } else { name.to_owned() })
}

/// What gdb says where there is nothing in the direction in which it is sent; new versions have other words.
const NOTHING: &str = "No more reverse-execution history";

/// What gdb prints for a script.
fn session(workshop: &Workshop, log: &Path, options: &[&str], script: &[&str]) -> Result<String> {
    let file = workshop.path.join("script");
    fs::write(&file, script.join("\n"))?;
    let mut command = Command::new(binary()?);
    command.arg("debug").args(options).arg("--gdb").arg(gdb()?).arg(log);
    command.args(["--", "-nx", "-batch", "-x"]).arg(&file);
    let output = run(command.env("LC_ALL", "C").stdin(Stdio::null()))?;
    let said = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Ok(said.replace("Reached end of recorded history; stopping", NOTHING))
}

/// From a crash, a watchpoint and one step back lead to the line that caused it.
fn leads_to_cause(name: &str, watch: &str, function: &str) -> Result<()> {
    let workshop = workshop(&format!("debugger-{name}"))?;
    let log = recorded(&workshop, name, &[])?;
    let script = [&format!("watch -l {watch}"), "reverse-continue", "echo here:\\n", "frame", "when"];
    let said = session(&workshop, &log, &[], &script)?;
    let (before, after) = said.split_once("here:").with_context(|| said.clone())?;
    ensure!(before.contains("where SIGSEGV killed thread"), "{said}");
    let cause = format!("{name}.c:{}", line_with(name, "CULPRIT")?);
    ensure!(after.contains(&format!("{function} (")) && after.contains(&cause), "not {function} at {cause}:\n{said}");
    // The position that it says is one for other commands.
    let place = after.lines().find_map(|line| line.split_once(" (time")).context("no position")?.0;
    let at = run(Command::new(binary()?).args(["at", place]).arg(&log))?;
    ensure!(printed(&at).contains(&cause), "{}", printed(&at));
    workshop.done()
}

#[test]
fn a_heap_overflow() -> Result<()> {
    leads_to_cause("heap_overflow", "entry->text", "fill")
}

#[test]
fn a_use_after_free() -> Result<()> {
    leads_to_cause("use_after_free", "list->next", "take")
}

#[test]
fn a_smashed_stack() -> Result<()> {
    leads_to_cause("stack_smash", "*(long *)$rsp", "fill")
}

#[test]
fn a_data_race() -> Result<()> {
    leads_to_cause("data_race", "shared", "clear")
}

#[test]
fn a_pointer_that_was_never_set() -> Result<()> {
    leads_to_cause("uninitialised", "pair->second", "before")
}

#[test]
fn generated_code() -> Result<()> {
    leads_to_cause("generated", "*(int *)($pc + 3)", "emit")
}

/// The lines of source text that gdb shows where it stops, by their numbers. One that is shown twice in a row counts once: where a
/// line has several pieces of code, gdb stops at each on the way back.
fn stops(said: &str, name: &str) -> Result<Vec<usize>> {
    let text = fs::read_to_string(source(name))?;
    let texts: Vec<&str> = text.lines().collect();
    let number = |line: &str| {
        let (number, shown) = line.split_once('\t')?;
        let number: usize = number.parse().ok()?;
        (texts.get(number - 1)? == &shown).then_some(number)
    };
    let mut stops: Vec<usize> = said.lines().filter_map(number).collect();
    stops.dedup();
    Ok(stops)
}

#[test]
fn lines_go_by_backwards_as_forwards() -> Result<()> {
    let workshop = workshop("debugger-mirror")?;
    let name = "there_and_back";
    let log = recorded(&workshop, name, &[])?;
    // Through recursion and over a signal.
    let first = format!("break {}", line_with(name, "signal(SIGUSR1")?);
    let mut script = vec!["handle SIGUSR1 nostop noprint", &first, "continue", "delete", "echo forwards\\n"];
    script.extend(["next"; 4]);
    script.push("echo backwards\\n");
    script.extend(["reverse-next"; 5]);
    let said = session(&workshop, &log, &["--start"], &script)?;
    let (_, said) = said.split_once("forwards").with_context(|| said.clone())?;
    let (forwards, backwards) = said.split_once("backwards").context("no way back")?;
    let (forwards, mut backwards) = (stops(forwards, name)?, stops(backwards, name)?);
    let begin = line_with(name, "signal(SIGUSR1")?;
    ensure!(forwards == [begin + 1, begin + 2, begin + 3, begin + 4], "{forwards:?}: {said}");
    backwards.reverse();
    ensure!(backwards.ends_with(&[begin, begin + 1, begin + 2, begin + 3]), "{backwards:?}: {said}");
    // In the middle of the recursion, over what is called there.
    let inside = format!("break {} if n == 2", line_with(name, "if (n < 2)")?);
    let mut script = vec![&*inside, "continue", "delete", "echo forwards\\n"];
    script.extend(["next"; 3]);
    script.push("echo backwards\\n");
    script.extend(["reverse-next"; 3]);
    script.push("backtrace");
    let said = session(&workshop, &log, &["--start"], &script)?;
    let (_, said) = said.split_once("forwards").with_context(|| said.clone())?;
    let (forwards, backwards) = said.split_once("backwards").context("no way back")?;
    let (forwards, mut backwards) = (stops(forwards, name)?, stops(backwards, name)?);
    backwards.reverse();
    ensure!(forwards.len() == 3, "{forwards:?}: {said}");
    ensure!(backwards.ends_with(&forwards[..forwards.len() - 1]), "{forwards:?} and {backwards:?}: {said}");
    ensure!(said.contains("#3") && said.contains("factorial (n=5)"), "{said}");
    workshop.done()
}

#[test]
fn what_gdb_asks_for() -> Result<()> {
    let workshop = workshop("debugger-questions")?;
    let log = recorded(&workshop, "there_and_back", &[])?;
    let said = session(
        &workshop,
        &log,
        &["--start"],
        &[
            "catch syscall getppid",
            "continue",
            "echo signal:\\n",
            "info threads",
            "continue",
            "continue",
            "delete",
            "info proc mappings",
            "info auxv",
            "info sharedlibrary",
            "print $xmm1",
            "print $ymm1",
            "info registers eflags cs fs_base mxcsr",
            "up",
            "last-write total",
            "monitor last-write total",
            "monitor events 3",
            "monitor output",
            "monitor code-versions $pc",
            "continue",
            "stepi",
            "reverse-stepi",
            "seek @1000",
            "seek end",
            "seek nowhere",
            "monitor threads",
            "monitor",
            "monitor seek factorial",
            "backtrace",
        ],
    )?;
    for wanted in [
        "Program received signal SIGUSR1",
        "(call to syscall getppid)",
        "(returned from syscall getppid)",
        "libc.so.6",
        "AT_ENTRY",
        "v4_float",
        "v8_float",
        "cs             0x33",
        "in main at",
        "  after   135",
        NOTHING,
        "(time @1000 of ",
        "nowhere",
        "monitor last-write ADDR",
        "write",
        "monitor code-versions takes an address",
        "factorial (n=1) at",
    ] {
        ensure!(said.contains(wanted), "no {wanted} in:\n{said}");
    }
    workshop.done()
}

/// Whether a line begins with a number.
fn starts_with(line: &str, number: u64) -> bool {
    let first = line.split_whitespace().next().and_then(|word| word.strip_prefix("0x"));
    first.and_then(|word| u64::from_str_radix(word, 16).ok()) == Some(number)
}

/// The ranges of memory that `info proc mappings` lists, and the libraries of `info sharedlibrary`.
fn is_listed(said: &str, start: u64, end: u64) -> bool {
    said.lines().any(|line| {
        let mut words = line.split_whitespace().map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
        words.next() == Some(Some(start)) && words.next() == Some(Some(end))
    })
}

#[test]
fn what_is_mapped_is_what_was_mapped_then() -> Result<()> {
    let workshop = workshop("debugger-libraries")?;
    let name = "libraries";
    let log = recorded(&workshop, name, &[])?;
    let place = |comment: &str| Ok::<_, anyhow::Error>(format!("seek {name}.c:{}", line_with(name, comment)?));
    let look = ["info sharedlibrary", "info proc mappings", "output cosine", "echo \\n"];
    let mut script = vec!["seek end", "info sharedlibrary"];
    let places = [place("/* closed */")?, place("/* mapped */")?, place("/* opened */")?, place("/* before */")?];
    // Back, and on again.
    for place in places.iter().chain([&places[2], &places[0]]) {
        script.extend(["echo STOP\\n", place]);
        script.extend(look);
        script.extend(["printf \"memory %#lx heap %#lx\\n\", memory, heap"]);
    }
    let said = session(&workshop, &log, &[], &script)?;
    let stops: Vec<&str> = said.split("STOP").collect();
    ensure!(stops.len() == 7, "{said}");
    let number = |text: &str, name: &str| -> Result<u64> {
        let found = text.split_once(&format!("{name} 0x")).context("no number")?.1;
        Ok(u64::from_str_radix(found.split_whitespace().next().unwrap_or_default(), 16)?)
    };
    // Three of five pages, the second one by itself, and then the last one.
    let old = number(stops[2], "memory")?;
    let (new, heap) = (number(stops[1], "memory")?, number(stops[1], "heap")?);
    let page = 4096;
    for (stop, is_open, is_mapped, is_moved) in [
        (stops[1], false, false, true),
        (stops[2], true, true, false),
        (stops[3], true, false, false),
        (stops[4], false, false, false),
        (stops[5], true, false, false),
        (stops[6], false, false, true),
    ] {
        ensure!((stop.matches("libm.so.6").count() >= 4) == is_open && stop.contains("libc.so.6"), "{is_open}: {stop}");
        ensure!(!is_open || stop.contains("<__cos") || stop.contains("<cos"), "no symbols: {stop}");
        ensure!(!is_open || stop.contains("[heap]"), "{stop}");
        ensure!(stop.contains("[stack]") && stop.contains("r-xp"), "{stop}");
        ensure!(is_listed(stop, old, old + page) == is_mapped, "{old:#x} {is_mapped}: {stop}");
        let is_there = is_mapped || is_moved;
        ensure!(is_listed(stop, old + page, old + 2 * page) == is_there, "{old:#x} {is_mapped}: {stop}");
        let moved = |line: &str| starts_with(line, new) && line.contains("rw-p");
        ensure!(stop.lines().any(moved) == is_moved || new == old, "{new:#x} {is_moved}: {stop}");
    }
    ensure!(heap > 0 && !stops[0].contains("libm.so.6"), "{said}");
    workshop.done()
}

/// Of a log whose beginning was not kept, what was mapped then is not made up, and that it may be missing is said.
#[test]
fn what_was_mapped_before_the_log_begins() -> Result<()> {
    let workshop = workshop("debugger-window")?;
    let log = recorded(&workshop, "output", &["--interval", "20k", "--keep", "2"])?;
    let said = session(&workshop, &log, &[], &["info sharedlibrary", "monitor mappings"])?;
    ensure!(said.contains("the log does not have the beginning of the process"), "{said}");
    ensure!(said.contains("libc.so.6") && said.contains("[stack]") && !said.contains("[heap]"), "{said}");
    workshop.done()
}

/// gdb knows from the beginning what killed the process, and goes anywhere from there all the same.
#[test]
fn the_first_stop_has_its_signal() -> Result<()> {
    let workshop = workshop("debugger-why")?;
    let log = recorded(&workshop, "heap_overflow", &[])?;
    let script = ["info program", "reverse-stepi", "echo back:\\n", "info program", "continue", "reverse-next"];
    let said = session(&workshop, &log, &[], &script)?;
    let (first, back) = said.split_once("back:").with_context(|| said.clone())?;
    ensure!(first.contains("It stopped with signal SIGSEGV"), "{said}");
    ensure!(!back.contains("stopped with signal") && back.contains("Program received signal SIGSEGV"), "{said}");
    // Where it starts elsewhere, no signal has come yet.
    let said = session(&workshop, &log, &["--start"], &["info program"])?;
    ensure!(!said.contains("SIGSEGV"), "{said}");
    workshop.done()
}

#[test]
fn output_is_what_had_been_written() -> Result<()> {
    let workshop = workshop("debugger-output")?;
    let log = recorded(&workshop, "output", &["--interval", "20k"])?;
    let between = format!("seek output.c:{}", line_with("output", "BETWEEN")?);
    // What bugnet says is not on gdb's standard output.
    let output = |what: &str| format!("python print(gdb.execute(\"monitor output{what}\", to_string=True))");
    let (here, all) = (output(""), output(" all"));
    let script = [&*here, "echo between:\\n", &between, &here, "echo all:\\n", &all];
    let said = session(&workshop, &log, &["--start"], &script)?;
    let (start, said) = said.split_once("between:").with_context(|| said.clone())?;
    let (between, all) = said.split_once("all:").context("no end")?;
    ensure!(!start.contains("first") && !start.contains("second"), "{start}");
    ensure!(between.contains("first\n") && !between.contains("second"), "{between}");
    ensure!(all.contains("first\n") && all.contains("second\n"), "{all}");
    workshop.done()
}

/// What threads wrote comes in the order in which they did, of whichever intervals.
#[test]
fn output_of_threads_is_in_their_order() -> Result<()> {
    let workshop = workshop("debugger-turns")?;
    let log = recorded(&workshop, "turns", &["--interval", "20k"])?;
    let said = session(&workshop, &log, &[], &["python print(gdb.execute(\"monitor output\", to_string=True))"])?;
    let lines: Vec<&str> = said.lines().filter(|line| line.ends_with('.') && line.len() < 5).collect();
    let expected: Vec<String> = (0..20).flat_map(|i| [format!("a{i}."), format!("b{i}.")]).collect();
    ensure!(lines == expected, "{said}");
    workshop.done()
}

/// A signal that kills is said once where it is delivered; whoever goes on from there hears of the end each time.
#[test]
fn behind_the_last_signal_there_is_nothing() -> Result<()> {
    let workshop = workshop("debugger-end")?;
    let log = recorded(&workshop, "heap_overflow", &[])?;
    let on = ["continue", "continue", "stepi", "next", "continue"];
    let back = ["echo back:\\n", "reverse-stepi", "continue", "echo on:\\n"];
    let script: Vec<&str> = on.iter().chain(&back).chain(&on).copied().collect();
    let said = session(&workshop, &log, &[], &script)?;
    let (first, rest) = said.split_once("back:").with_context(|| said.clone())?;
    let (back, on) = rest.split_once("on:").context("not on")?;
    for part in [first, on] {
        ensure!(part.matches(NOTHING).count() == 5, "{said}");
        ensure!(!part.contains("received signal"), "{said}");
    }
    ensure!(back.matches("received signal SIGSEGV").count() == 1, "{said}");
    workshop.done()
}

/// The first instruction is reached by a step back; only the next step back finds nothing before it.
#[test]
fn a_step_back_to_the_first_instruction() -> Result<()> {
    let workshop = workshop("debugger-first")?;
    let log = recorded(&workshop, "there_and_back", &[])?;
    for watch in ["echo none\\n", "watch *(long *)16"] {
        let script = [watch, "stepi", "reverse-stepi", "when", "echo again:\\n", "reverse-stepi"];
        let said = session(&workshop, &log, &["--start"], &script)?;
        let (first, again) = said.split_once("again:").with_context(|| said.clone())?;
        ensure!(!first.contains(NOTHING) && first.matches("(time @0 of").count() == 2, "{said}");
        ensure!(again.contains(NOTHING), "{said}");
    }
    workshop.done()
}

#[test]
fn nothing_can_be_changed() -> Result<()> {
    let workshop = workshop("debugger-changes")?;
    let log = recorded(&workshop, "heap_overflow", &[])?;
    let refused = [
        ("print entry->text = 0", "Writing to memory is not allowed"),
        ("print $rax = 1", "Writing to registers is not allowed"),
        ("print fill(entry, entry->name)", "Cannot call functions in the program"),
        ("print *entry->text", "Cannot access memory at address 0x4141414141414141"),
        ("print nothing", "No symbol \"nothing\" in current context"),
    ];
    for (command, answer) in refused {
        let said = session(&workshop, &log, &[], &[command])?;
        ensure!(said.contains(answer), "{command}: {said}");
    }
    // What is wrong with the command itself.
    for (options, answer) in [
        (&["--at", "1/2/3"][..], "the log does not hold 1/2/3"),
        (&["--thread", "1"], "has no thread 1; it has"),
        (&["--gdb", "/nowhere/gdb"], "there is no /nowhere/gdb; install gdb"),
    ] {
        let output = run(Command::new(binary()?).arg("debug").args(options).arg(&log).stdin(Stdio::null()))?;
        ensure!(!output.status.success() && printed(&output).contains(answer), "{options:?}: {}", printed(&output));
    }
    workshop.done()
}

#[test]
fn another_gdb_over_a_socket() -> Result<()> {
    let workshop = workshop("debugger-serve")?;
    let log = recorded(&workshop, "heap_overflow", &[])?;
    let mut server =
        Command::new(binary()?).args(["debug", "--serve", ":0"]).arg(&log).stderr(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(server.stderr.take().context("no stderr")?).read_line(&mut line)?;
    let address = line.trim().rsplit(' ').next().context("no address")?.to_owned();
    // One after another; the program's files come through the connection.
    for _ in 0..2 {
        let target = format!("target remote {address}");
        let said = run(Command::new(gdb()?).args(["-nx", "-q", "-batch", "-ex", &target]).args([
            "-ex",
            "backtrace",
            "-ex",
            "info proc mappings",
            "-ex",
            "detach",
        ]))?;
        let said = printed(&said);
        ensure!(said.contains("heap_overflow.c:21") && said.contains("libc.so.6"), "{said}");
    }
    server.kill()?;
    server.wait()?;
    workshop.done()
}

/// gdb's Ctrl-C may arrive together with its request to run, before anything runs, or between two runs of one command.
#[test]
fn an_interrupt_comes_while_nothing_runs() -> Result<()> {
    let workshop = workshop("debugger-at-once")?;
    let log = recorded(&workshop, "long", &["--interval", "10M"])?;
    let mut server = Command::new(binary()?)
        .args(["debug", "--start", "--serve", "127.0.0.1:0"])
        .arg(&log)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(server.stderr.take().context("no stderr")?).read_line(&mut line)?;
    let address = line.trim().rsplit(' ').next().context("no address")?;
    let mut gdb = TcpStream::connect(address)?;
    let packet = |text: &str| format!("${text}#{:02x}", text.bytes().fold(0_u8, u8::wrapping_add));
    // What stands at address 1 is watched, so that the run takes long.
    gdb.write_all(packet("Z4,1,1").as_bytes())?;
    let mut stops = Vec::new();
    for run in [format!("{}\x03", packet("vCont;c")), format!("\x03{}", packet("vCont;c"))] {
        gdb.write_all(run.as_bytes())?;
        let mut said = String::new();
        let mut bytes = [0; 100];
        while let Ok(len @ 1..) = gdb.read(&mut bytes) {
            said += &String::from_utf8_lossy(&bytes[..len]);
            if said.contains("$T") {
                break;
            }
        }
        stops.push(said);
    }
    server.kill()?;
    server.wait()?;
    // Signal 2: SIGINT.
    ensure!(stops.iter().all(|said| said.contains("$T02")), "{stops:?}");
    workshop.done()
}

/// A seek to where another thread runs, and the one that gdb shows does not exist; from there it goes on as anywhere.
#[test]
fn threads_come_and_go() -> Result<()> {
    let workshop = workshop("debugger-threads")?;
    let log = recorded(&workshop, "come_and_go", &[])?;
    let said = session(&workshop, &log, &[], &["when"])?;
    let end: u64 = said.split_once(" of ").and_then(|(_, rest)| rest.split_once(')')).context("no end")?.0.parse()?;
    // In one of the two, at the start, in the other one, before its end, and at the end.
    let times = [end / 3, 1000, end * 2 / 3, end / 3, end - 1000];
    let commands = times.map(|time| [format!("seek @{time}"), "reverse-stepi".into(), "when".into(), "stepi".into()]);
    let script: Vec<&str> = commands.iter().flatten().map(String::as_str).collect();
    let said = session(&workshop, &log, &[], &script)?;
    for time in times {
        ensure!(said.contains(&format!("(time @{} of", time - 1)), "not back from {time}: {said}");
    }
    ensure!(!said.contains("rror"), "{said}");
    workshop.done()
}

#[test]
fn as_an_ide_does() -> Result<()> {
    let workshop = workshop("debugger-mi")?;
    let log = recorded(&workshop, "heap_overflow", &[])?;
    let mut gdb = Machine::start(&gdb()?, &log, &[])?;
    gdb.until("where SIGSEGV killed thread")?;
    gdb.ask("-break-watch entry->text")?;
    gdb.until("^done,wpt=")?;
    gdb.ask("-exec-continue --reverse")?;
    let stopped = gdb.until("*stopped,reason=\"watchpoint-trigger\"")?;
    ensure!(stopped.contains("func=\"fill\"") || stopped.contains("func=\"main\""), "{stopped}");
    gdb.ask("-exec-step --reverse")?;
    gdb.until("*stopped")?;
    gdb.ask("-exec-next")?;
    gdb.until("*stopped")?;
    gdb.ask("-stack-list-variables --simple-values")?;
    gdb.until("^done,variables=")?;
    gdb.end()?;
    workshop.done()
}

#[test]
fn a_long_run_is_interrupted() -> Result<()> {
    let workshop = workshop("debugger-interrupt")?;
    let log = recorded(&workshop, "long", &["--interval", "10M"])?;
    let mut gdb = Machine::start(&gdb()?, &log, &["--start"])?;
    gdb.until("(time @0 of")?;
    // Which takes long, since each access is looked at.
    gdb.ask("-data-evaluate-expression $rsp")?;
    gdb.until("^done,value=")?;
    gdb.ask("-interpreter-exec console \"awatch *(char *)1\"")?;
    gdb.until("^done")?;
    gdb.ask("-exec-continue")?;
    gdb.until("*running")?;
    gdb.interrupt()?;
    let stopped = gdb.until("*stopped")?;
    ensure!(stopped.contains("signal-name=\"SIGINT\""), "{stopped}");
    // It goes on from there.
    gdb.ask("-exec-step-instruction")?;
    gdb.until("*stopped,reason=\"end-stepping-range\"")?;
    gdb.end()?;
    workshop.done()
}

/// gdb says nothing of a Ctrl-C while it waits for the answer to one of bugnet's commands; that ends all the same, and what gdb asks next is
/// answered by what belongs to it.
#[test]
fn a_long_command_is_interrupted() -> Result<()> {
    let workshop = workshop("debugger-command")?;
    let log = recorded(&workshop, "long", &["--interval", "10M"])?;
    let mut gdb = Machine::start(&gdb()?, &log, &[])?;
    let before = gdb.until("(time @")?;
    gdb.until("(gdb)")?;
    // Nothing has ever written there, but all the time beside it, so that it takes long to find that out, whatever an index knows.
    gdb.ask("-interpreter-exec console \"p/x (unsigned long)&'long.c'::sum + 8\"")?;
    let beside = gdb.until("$1 = 0x")?;
    let beside = beside.split(['=', '\\']).nth(1).context("no address")?.trim();
    gdb.until("^done")?;
    for (command, delay) in [("monitor last-write", 500), ("monitor last-write", 100), ("last-write", 200)] {
        gdb.ask(&format!("-interpreter-exec console \"{command} {beside}:8\""))?;
        std::thread::sleep(Duration::from_millis(delay));
        gdb.interrupt()?;
        gdb.until("^")?;
        // It is where it was.
        gdb.ask("-interpreter-exec console \"when\"")?;
        let after = gdb.until("(time @")?;
        ensure!(before == after, "{before} {after}");
        gdb.until("^done")?;
    }
    ensure!(gdb.said.contains("interrupted") && !gdb.said.contains("another way"), "{}", gdb.said);
    ensure!(!gdb.said.contains("Traceback") && !gdb.said.contains("KeyboardInterrupt"), "{}", gdb.said);
    gdb.ask("-interpreter-exec console \"monitor last-write sum\"")?;
    gdb.until("in main at ")?;
    gdb.until("^done")?;
    gdb.end()?;
    workshop.done()
}

#[test]
fn a_slice_from_where_gdb_is() -> Result<()> {
    let workshop = workshop("debugger-slice")?;
    let log = recorded(&workshop, "heap_overflow", &[])?;
    let script = [
        "monitor when",
        "monitor slice",
        "monitor slice --full",
        "monitor slice $rax",
        "monitor slice entry->text",
        "monitor slice $nothing",
        "monitor slice nothing_of_this_name",
        "monitor when",
    ];
    let said = session(&workshop, &log, &[], &script)?;
    // What gdb says itself comes elsewhere: reports begin with the question.
    let reports: Vec<&str> = said.split("Why: ").collect();
    let [before, crash, full, register, rest] = reports[..] else { anyhow::bail!("{said}") };
    let cause = format!("heap_overflow.c:{}", line_with("heap_overflow", "CULPRIT")?);
    ensure!(crash.contains("(SIGSEGV)") && crash.contains(&cause) && crash.contains("thin slice"), "{said}");
    ensure!(full.contains(&cause) && full.contains("full slice"), "{said}");
    ensure!(register.starts_with("rax = 0x") && rest.starts_with("entry->text ("), "{said}");
    ensure!(rest.contains("$nothing is no register") && rest.contains("nothing_of_this_name"), "{said}");
    // It is the same as `bugnet slice` says, and each position is one to go to.
    let alone = run(Command::new(binary()?).arg("slice").arg(&log))?;
    let alone = String::from_utf8_lossy(&alone.stdout).replace("Why: ", "");
    ensure!(alone.trim() == crash.trim(), "{alone}\n{crash}");
    let line = crash.lines().find(|line| line.contains(&cause)).context("no such line")?;
    let place = line.split_whitespace().next().context("no position")?;
    let there = session(&workshop, &log, &[], &[&format!("monitor seek {place}"), "frame"])?;
    ensure!(there.contains(&cause), "{there}");
    // gdb is where it was.
    let when = before.lines().rfind(|line| line.contains("(time @")).context("no position")?;
    ensure!(rest.contains(when), "{said}");
    workshop.done()
}

/// `$_siginfo` has what the log has of a signal: of one that killed, number, code and the address of a fault; of one with a handler
/// its number. The rest cannot be read.
#[test]
fn what_is_known_of_a_signal() -> Result<()> {
    let workshop = workshop("debugger-siginfo")?;
    let ask = ["p $_siginfo.si_signo", "p $_siginfo.si_code", "p $_siginfo._sifields._sigfault.si_addr"];
    let log = recorded(&workshop, "told_by_signal", &[])?;
    let answers = |said: &str| -> Vec<String> {
        let answers = said.lines().filter_map(|line| line.split_once(" = "));
        answers.filter(|(name, _)| name.starts_with('$')).map(|(_, value)| value.to_owned()).collect()
    };
    let fault = [libc::SIGSEGV.to_string(), "1".into(), "(void *) 0x2a24".into()];
    let said = session(&workshop, &log, &[], &ask)?;
    ensure!(answers(&said) == fault, "{said}");
    // At the handler's signal; and at the end again, where a run has led there.
    let said = session(&workshop, &log, &[], &["reverse-continue", ask[0], ask[1]])?;
    ensure!(answers(&said) == [libc::SIGUSR1.to_string()] && said.contains("Unable to read siginfo"), "{said}");
    let back = ["reverse-continue", "reverse-continue", "continue", "continue"];
    let said = session(&workshop, &log, &[], &[&back[..], &ask[..]].concat())?;
    ensure!(answers(&said) == fault, "{said}");
    // Where there is none.
    let said = session(&workshop, &log, &[], &["reverse-stepi", ask[0]])?;
    ensure!(answers(&said).is_empty() && said.contains("Unable to read siginfo"), "{said}");
    workshop.done()
}
