//! The one line in which `bugnet info` says how a program died: what it did, to which address, in which source line.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, must_pass, printed, run, source_tree};
use bugnet_tests::programs::compile;
use std::os::unix::process::ExitStatusExt;

/// The argument, the signal, and the line; `@name` stands for the file and line with the comment `name`.
const DEATHS: [(&str, i32, &str); 13] = [
    ("read", 11, "SIGSEGV reading 0x8 at @reading in list_pop"),
    ("write", 11, "SIGSEGV writing 0x8 at @writing in list_set"),
    ("wild", 11, "SIGSEGV reading 0x1234567812345680, which is no address, at @reading in list_pop"),
    ("divide", 8, "SIGFPE, divide by zero at @dividing in divide"),
    ("quotient", 8, "SIGFPE, the quotient does not fit at @dividing in divide"),
    ("illegal", 4, "SIGILL, illegal instruction at @illegal in illegal"),
    ("trap", 5, "SIGTRAP, breakpoint"),
    ("overflow", 11, "SIGSEGV, stack overflow at "),
    ("abort", 6, "SIGABRT, abort() called from give_up at "),
    ("assert", 6, "SIGABRT, abort() called from check at "),
    ("jump", 11, "SIGSEGV executing 0x0"),
    ("text", 11, "SIGSEGV writing 0x"),
    ("kill", 15, "killed by SIGTERM"),
];

#[test]
fn info_says_what_happened() -> Result<()> {
    let workshop = Workshop::new("headlines")?;
    let source = std::fs::read_to_string(source_tree().join("tests/programs/crash.c"))?;
    let program = workshop.path.join("crash");
    compile(&["gcc", "-g", "-O1", "-w"], &source, &program)?;
    for (how, signal, expected) in DEATHS {
        let mut expected = expected.to_owned();
        if let Some((_, name)) = expected.split_once('@') {
            let name = name.split(' ').next().unwrap_or(name);
            let comment = format!("// {name}");
            let line = source.lines().position(|line| line.ends_with(&comment)).context(comment)?;
            expected = expected.replace(&format!("@{name}"), &format!("crash.c:{}", line + 1));
        }
        let log = workshop.path.join(how);
        let job = Job::new(&workshop.path, [&program.to_string_lossy(), how]);
        let recorded = run(&mut job.recorded(&log, &[])?)?;
        ensure!(recorded.status.signal() == Some(signal), "{how}: {}\n{}", recorded.status, printed(&recorded));
        let info = must_pass(&["info"], &log)?;
        let text = String::from_utf8_lossy(&info.stdout);
        let line = text.lines().find_map(|line| line.strip_prefix("crash ")).map_or("nothing", str::trim);
        ensure!(line.starts_with(&expected), "{how}: info says: {line}\nexpected: {expected}");
    }
    workshop.done()
}
