//! What functions of the program itself called: how much that executed, in `bugnet stats`, and where from, in `bugnet slice`.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, binary, must_pass, printed, run};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each function is called by one other alone, but for `twice`, which calls itself: what each executed with all that it called follows from the others.
const PROGRAM: &str = r#"#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jmp_buf back;
static int table[400];
static volatile int handled;

__attribute__((noinline)) static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) static void sort(void)
{
    for (int i = 0; i < 400; i++)
        table[i] = (i * 7919) % 401;
    qsort(table, 400, sizeof *table, compare);
}

__attribute__((noinline)) static long twice(int depth)
{
    char text[64];
    memset(text, depth, sizeof text);
    return depth == 0 ? text[3] : text[5] + twice(depth - 1);
}

__attribute__((noinline)) static void leave(int depth)
{
    if (depth == 0)
        longjmp(back, 1);
    leave(depth - 1);
}

__attribute__((noinline)) static void jump(void)
{
    if (setjmp(back) == 0)
        leave(20);
}

__attribute__((noinline)) static void on_signal(int number)
{
    for (int i = 0; i < 50; i++)
        handled += number;
}

__attribute__((noinline)) static void interrupted(void)
{
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
}

int main(int argc, char **argv)
{
    sort();
    long sum = twice(300);
    jump();
    interrupted();
    size_t length = strlen(argv[1]);
    char *copy = malloc(length + 1);
    strcpy(copy, argv[1]);
    printf("%ld %d\n", sum, copy[1]);
    return copy[0] == 'x' ? argc : 0;
}
"#;

fn build(workshop: &Workshop) -> Result<PathBuf> {
    let (source, program) = (workshop.path.join("program.c"), workshop.path.join("program"));
    std::fs::write(&source, PROGRAM)?;
    let built = run(Command::new("gcc").args(["-g", "-O0", "-o"]).arg(&program).arg(&source))?;
    ensure!(built.status.success(), "{}", printed(&built));
    Ok(program)
}

/// What a function executed: with all that it called, with the libraries, and alone.
fn executed(stats: &Value, name: &str) -> Result<[u64; 3]> {
    let all = stats["hottest"]["calling"].as_array().context("no functions")?;
    let found = all.iter().find(|one| one["name"] == name).with_context(|| format!("no {name} in {all:#?}"))?;
    let parts = ["total", "with_libraries", "instructions"].map(|part| found[part].as_u64());
    let [Some(total), Some(with), Some(alone)] = parts else { anyhow::bail!("{found}") };
    Ok([total, with, alone])
}

fn add_up(stats: &Value) -> Result<()> {
    let of = |name: &str| executed(stats, name);
    let [sort, compare, main] = [of("sort")?, of("compare")?, of("main")?];
    let [twice, leave, jump] = [of("twice")?, of("leave")?, of("jump")?];
    let [interrupted, handler] = [of("interrupted")?, of("on_signal")?];
    // What `qsort` executed is `sort`'s, but for what it called back.
    ensure!(sort[0] == sort[1] + compare[0] && compare[0] == compare[2], "sort {sort:?}, compare {compare:?}");
    ensure!(sort[1] > sort[2] + 1000, "qsort is not in sort: {sort:?}");
    // However deep, it counts once.
    ensure!(twice[0] == twice[1] && twice[1] > twice[2] + 300, "twice {twice:?}");
    // Frames that are jumped out of are gone.
    ensure!(jump[0] == jump[1] + leave[0] && leave[0] == leave[1], "jump {jump:?}, leave {leave:?}");
    // A handler is not called, but comes while somebody else runs.
    ensure!(interrupted[0] == interrupted[1] + handler[0], "interrupted {interrupted:?}, on_signal {handler:?}");
    let called = sort[0] + twice[0] + jump[0] + interrupted[0];
    ensure!(main[0] == main[1] + called, "main {main:?}, which called {called}");
    let all = stats["hottest"]["calling"].as_array().context("no functions")?;
    let sum: u64 = all.iter().filter_map(|one| one["with_libraries"].as_u64()).sum();
    let of = stats["hottest"]["of"].as_u64().context("no count")?;
    ensure!(sum <= of && sum > of / 4, "{sum} of {of}");
    for one in all {
        let [total, with, alone] = executed(stats, one["name"].as_str().unwrap_or("?"))?;
        ensure!(total >= with && with >= alone && total <= of, "{one}");
    }
    Ok(())
}

/// Wherever intervals end, the same adds up.
#[test]
fn functions_with_what_they_called() -> Result<()> {
    let workshop = Workshop::new("called-stats")?;
    let program = build(&workshop)?;
    let mut counts = Vec::new();
    for interval in ["100M", "700", "97"] {
        let log = workshop.path.join(format!("log-{interval}"));
        let job = Job::new(&workshop.path, [&*program.to_string_lossy(), "abc"]);
        let output = run(&mut job.recorded(&log, &["--interval", interval])?)?;
        ensure!(output.status.success(), "{}", printed(&output));
        let stats: Value = serde_json::from_slice(&must_pass(&["stats", "--json"], &log)?.stdout)?;
        add_up(&stats).with_context(|| format!("intervals of {interval}"))?;
        counts.push(["sort", "twice", "leave", "on_signal"].map(|name| executed(&stats, name).map(|all| all[0]).ok()));
    }
    ensure!(counts.iter().all(|other| *other == counts[0]), "{counts:?}");
    let log = workshop.path.join("log-700");
    let text = String::from_utf8(must_pass(&["stats"], &log)?.stdout)?;
    ensure!(text.contains("WITH LIBRARIES") && text.contains("  main"), "{text}");
    workshop.done()
}

fn slice(log: &Path, options: &[&str]) -> Result<String> {
    let output = run(Command::new(binary()?).arg("slice").args(options).arg(log))?;
    ensure!(output.status.success(), "{}", printed(&output));
    Ok(String::from_utf8(output.stdout)?)
}

/// Steps within libraries are one line, which says where the program called them; and the program's own lines behind them have their values.
#[test]
fn where_libraries_were_called() -> Result<()> {
    let workshop = Workshop::new("called-slice")?;
    let (program, log) = (build(&workshop)?, workshop.path.join("log"));
    let job = Job::new(&workshop.path, [&*program.to_string_lossy(), "xyz"]);
    run(&mut job.recorded(&log, &[])?)?;
    let at = |text: &str| PROGRAM.lines().position(|line| line.contains(text)).map(|at| at + 1).context("no such line");
    let copied = slice(&log, &["--at", &format!("program.c:{}", at("printf")?), "--var", "copy[1]"])?;
    let wanted = format!(", called at program.c:{} in main", at("strcpy")?);
    ensure!(copied.contains(&wanted), "there is no {wanted:?} in\n{copied}");
    // Of as few lines as are shown, each has its values.
    let length =
        slice(&log, &["--at", &format!("program.c:{}", at("char *copy")?), "--var", "length", "--lines", "1"])?;
    ensure!(length.contains(&format!("program.c:{} in main", at("size_t length")?)), "{length}");
    ensure!(length.contains("-> length = 3") || length.contains("-> rax = 0x3"), "{length}");
    workshop.done()
}
