//! `bugnet code` on a program of which every answer follows from its source: which versions there are, at which
//! instruction each was first run, and what wrote it.

use anyhow::{Context, Result, ensure};
use bugnet_tests::asm::symbols;
use bugnet_tests::bugnet::{Job, Workshop, must_pass, printed, run, source_tree};
use bugnet_tests::trace::{Step, trace};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: u64 = 0x2_0000_0000;

fn build(folder: &Path) -> Result<PathBuf> {
    let (programs, program) = (source_tree().join("tests/programs"), folder.join("versions"));
    let mut command = Command::new("gcc");
    command.args(["-nostdlib", "-static", "-I"]).arg(&programs).arg("-o").arg(&program);
    let output = run(command.arg(programs.join("code/versions.s")))?;
    ensure!(output.status.success(), "{}", printed(&output));
    Ok(program)
}

/// The program as it ran natively: where its labels are, and when they were executed.
struct Truth {
    symbols: HashMap<String, u64>,
    steps: Vec<Step>,
}

impl Truth {
    /// How many instructions were executed before the one at a label, the first time.
    fn label(&self, name: &str) -> Result<u64> {
        let pc = *self.symbols.get(name).with_context(|| format!("no label {name}"))?;
        self.steps.iter().position(|step| step.pc == pc).map(|at| at as u64).with_context(|| format!("{name} not run"))
    }

    /// How many before run number `n` of the function, from 0.
    fn run(&self, n: usize) -> Result<u64> {
        let mut runs = self.steps.iter().enumerate().filter(|(_, step)| step.pc == PAGE);
        runs.nth(n).map(|(at, _)| at as u64).context("not run so often")
    }
}

/// What `bugnet code` must say of a version: the run at which it was new, which version it equals, its first
/// instruction, and what wrote it: a label and how, several for the first.
type Expected = (usize, Option<u64>, &'static str, &'static [(&'static str, &'static str)]);

const VERSIONS: [Expected; 5] = [
    (0, None, "mov eax, 0x11", &[("store_whole", "store")]),
    (2, None, "mov eax, 0x22", &[("patch", "store")]),
    (3, Some(1), "mov eax, 0x11", &[("patch_back", "store")]),
    (5, None, "mov eax, 0x4411", &[("kernel_reads", "system-call")]),
    (6, None, "mov eax, 0x55", &[("string_move", "store")]),
];

fn number(value: &Value, field: &str) -> Result<u64> {
    value[field].as_u64().with_context(|| format!("no number {field} in {value}"))
}

/// A position as instructions since the program's start.
fn since_start(value: &Value, intervals: &HashMap<u64, u64>) -> Result<u64> {
    let before = intervals.get(&number(value, "interval")?).context("no such interval")?;
    Ok(before + number(value, "position")?)
}

fn check(history: &Value, truth: &Truth, intervals: &HashMap<u64, u64>) -> Result<()> {
    let versions = history["versions"].as_array().context("no versions")?;
    ensure!(versions.len() == VERSIONS.len(), "{} versions", versions.len());
    for (version, (run, same_as, text, writers)) in versions.iter().zip(VERSIONS) {
        let at = since_start(version, intervals)?;
        ensure!(at == truth.run(run)?, "first run at {at}, not at {}: {version}", truth.run(run)?);
        ensure!(version["same_as"].as_u64() == same_as, "same as {}: {version}", version["same_as"]);
        ensure!(version["code"][0]["text"] == text, "not {text}: {version}");
        let written = version["written_by"].as_array().context("no writers")?;
        ensure!(written.len() == writers.len(), "{} writers: {version}", written.len());
        for (writer, (label, what)) in written.iter().zip(writers) {
            ensure!(writer["what"] == *what, "not {what}: {writer}");
            ensure!(since_start(writer, intervals)? == truth.label(label)?, "not at {label}: {writer}");
        }
    }
    Ok(())
}

/// Instructions before each interval, from its header.
fn intervals(log: &Path) -> Result<HashMap<u64, u64>> {
    let recording = bugnet_format::folder::Recording::open(log)?;
    let mut before = HashMap::new();
    for thread in recording.threads()? {
        for number in thread.intervals.clone() {
            before.insert(number.0, thread.interval(number)?.header.instructions_before);
        }
    }
    Ok(before)
}

#[test]
fn versions_are_those_of_the_source() -> Result<()> {
    let workshop = Workshop::new("code-versions")?;
    let program = build(&workshop.path)?;
    let truth = Truth { symbols: symbols(&program)?, steps: trace(&program)? };
    let job = Job::new(&workshop.path, [program.to_string_lossy()]);
    // In one interval, and in so many that writers lie in other intervals than runs.
    for options in [&[][..], &["--interval", "40"], &["--interval", "7"]] {
        let log = workshop.path.join(format!("log{}", options.last().unwrap_or(&"")));
        let recorded = run(&mut job.recorded(&log, options)?)?;
        ensure!(recorded.status.success(), "{}", printed(&recorded));
        let output = must_pass(&["code", "--at", "0x200000000", "--length", "8", "--json"], &log)?;
        let history: Value = serde_json::from_slice(&output.stdout)?;
        check(&history, &truth, &intervals(&log)?).with_context(|| format!("{options:?}"))?;
    }
    let text = must_pass(&["code", "--at", "200000000", "--length", "8"], &workshop.path.join("log"))?;
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for part in [
        "0x200000000: 5 versions of the code\n",
        "instruction 339: version 1 again\n",
        "  > 0x0000000200000000  b8 22 00 00 00  mov eax, 0x22\n",
        "  written by mov byte ptr [rbx+1], 0x22 at 0x",
        ", patch+0x0 (interval 0, instruction ",
        "  written by read(3, 0x200000002, 1) = 1 (interval 0, instruction ",
    ] {
        ensure!(text.contains(part), "the text lacks {part:?}:\n{text}");
    }
    workshop.done()
}

const POINTERS: &str = r#"#include <stdio.h>

static int add(int a) { return a + 1; }
static int twice(int a) { return a * 2; }

struct operations { int (*first)(int); int (*second)(int); };
struct operations operations = { add, twice };
struct operations *chosen = &operations;
int (*table[2])(int) = { twice, add };
int total;
int (*never)(int);

int main(void)
{
    total = chosen->first(table[0](3)) + operations.second(1);
    printf("%d\n", total);
    return 0;
}
"#;

/// What points at a function means that function; what is no code is said to be what it is.
#[test]
fn pointers_to_code() -> Result<()> {
    let workshop = Workshop::new("code-pointers")?;
    let (source, program, log) =
        (workshop.path.join("program.c"), workshop.path.join("program"), workshop.path.join("log"));
    std::fs::write(&source, POINTERS)?;
    let built = run(Command::new("gcc").args(["-g", "-O0", "-no-pie", "-o"]).arg(&program).arg(&source))?;
    ensure!(built.status.success(), "{}", printed(&built));
    run(&mut Job::new(&workshop.path, [program.to_string_lossy()]).recorded(&log, &[])?)?;
    let symbols = symbols(&program)?;
    let code = |at: &str| run(Command::new(bugnet_tests::bugnet::binary()?).args(["code", "--at", at]).arg(&log));
    for (pointer, function) in [
        ("chosen->first", "add"),
        ("*chosen->first", "add"),
        ("operations.second", "twice"),
        ("table[0]", "twice"),
        ("*table[1]", "add"),
        ("table", "?"),
        ("total", "?"),
        ("never", "?"),
    ] {
        let output = code(pointer)?;
        let said = printed(&output);
        if function == "?" {
            ensure!(
                output.status.code() == Some(2) && said.contains(" is no code: it is data at 0x"),
                "{pointer}: {said}"
            );
            continue;
        }
        let to = symbols.get(function).context("no such function")?;
        ensure!(
            said.contains(&format!("{pointer} is a pointer: in the end it points at {to:#x}, {function} at ")),
            "{pointer}: {said}"
        );
        ensure!(said.contains(&format!("{to:#x}: 1 version of the code")), "{pointer}: {said}");
    }
    let address = |name: &str| Ok::<_, anyhow::Error>(format!("{:#x}", symbols.get(name).context("no symbol")?));
    let (total, table) = (address("total")?, address("table")?);
    let said = printed(&code(&total)?);
    ensure!(
        said.contains(&format!("{total} is no code but data: total")) && said.contains("bugnet last-write"),
        "{said}"
    );
    let said = printed(&code(&table)?);
    ensure!(said.contains("is no code but data: table") && said.contains(", twice at "), "{said}");
    let said = printed(&code("0x10000")?);
    ensure!(said.contains("nothing is mapped there in the end"), "{said}");
    ensure!(printed(&code("nothing")?).contains("nothing"), "a name that nothing has");
    workshop.done()
}
