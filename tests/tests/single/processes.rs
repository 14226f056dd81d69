//! Programs that are started and cannot be recorded run natively, with a message; and what the commands say of the
//! processes of a recording.

use anyhow::{Context, Result, ensure};
use bugnet_tests::alike::{Place, namespace};
use bugnet_tests::bugnet::{Job, Workshop, binary, bugnet, install, must_pass, printed, run, same_bytes, source_tree};
use bugnet_tests::small::{self, Header};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn source(name: &str) -> PathBuf {
    source_tree().join("tests/programs/processes").join(name)
}

fn must(command: &mut Command) -> Result<()> {
    let output = run(command)?;
    ensure!(output.status.success(), "{command:?}\n{}", printed(&output));
    Ok(())
}

/// A program without a library, for processors with so many bits.
fn hello(workshop: &Workshop, bits: u32) -> Result<PathBuf> {
    let (object, program) = (workshop.path.join("hello.o"), workshop.path.join("hello"));
    let emulation = if bits == 32 { "elf_i386" } else { "elf_x86_64" };
    let source = source(&format!("bits{bits}.s"));
    must(Command::new("as").arg(format!("--{bits}")).arg("-o").arg(&object).arg(source))?;
    must(Command::new("ld").args(["-m", emulation, "-o"]).arg(&program).arg(&object))?;
    Ok(program)
}

/// Runs `start` with these arguments, natively and recorded; the same must come of it, and of its replay what the recorded
/// process printed. `None` where the machine lacks what is needed, else what recording said.
fn start(workshop: &Workshop, arguments: &[&Path]) -> Result<Option<String>> {
    let program = workshop.path.join("start");
    must(Command::new("gcc").args(["-O1", "-D_GNU_SOURCE", "-o"]).arg(&program).arg(source("start.c")))?;
    let command: Vec<_> =
        std::iter::once(&*program).chain(arguments.iter().copied()).map(|a| a.to_string_lossy().into_owned()).collect();
    let job = Job::new(&workshop.path, command);
    let native = run(&mut job.native()?)?;
    if native.status.code() == Some(77) || String::from_utf8_lossy(&native.stdout).contains("status 126") {
        eprintln!("left out: this machine does not allow it");
        return Ok(None);
    }
    let log = workshop.path.join("log");
    let recorded = run(&mut job.recorded(&log, &[])?)?;
    ensure!(native.status == recorded.status, "{} natively\n{}", native.status, printed(&recorded));
    same_bytes("standard output", &native.stdout, &recorded.stdout)?;
    let checked = must_pass(&["check"], &log)?;
    let replayed = must_pass(&["replay", "--output"], &log)?;
    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        said(&native).ends_with(&said(&replayed)) && said(&replayed).contains("exited 1"),
        "{}",
        printed(&replayed)
    );
    let ps = must_pass(&["ps"], &log)?;
    // Behind a chroot, there is no way to the log.
    let unrecorded = if arguments.len() > 1 { "note: the program that" } else { "note: process" };
    ensure!(said(&checked).contains(unrecorded), "{}", printed(&checked));
    let listed = if arguments.len() > 1 { "executed another program" } else { "not recorded: " };
    ensure!(said(&ps).contains(listed), "{}", printed(&ps));
    Ok(Some(String::from_utf8_lossy(&recorded.stderr).into_owned()))
}

#[test]
fn a_setuid_program_runs_natively() -> Result<()> {
    let workshop = Workshop::new("processes-setuid")?;
    let program = hello(&workshop, 64)?;
    // Only a program of another user's gives other rights.
    if std::os::unix::fs::chown(&program, Some(65534), None).is_err() {
        eprintln!("left out: only root can make such a program");
        return workshop.done();
    }
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755))?;
    if let Some(said) = start(&workshop, &[&program])? {
        ensure!(said.contains("setuid"), "{said}");
    }
    workshop.done()
}

#[test]
fn a_32_bit_program_runs_natively() -> Result<()> {
    let workshop = Workshop::new("processes-32")?;
    let program = hello(&workshop, 32)?;
    if let Some(said) = start(&workshop, &[&program])? {
        ensure!(said.contains("32-bit"), "{said}");
    }
    workshop.done()
}

#[test]
fn a_program_behind_a_chroot_runs_natively() -> Result<()> {
    let workshop = Workshop::new("processes-chroot")?;
    let program = hello(&workshop, 64)?;
    let root = workshop.folder("root")?;
    install(&program, &root.join("hello"))?;
    if let Some(said) = start(&workshop, &[Path::new("/hello"), &root])? {
        ensure!(said.contains("not recorded"), "{said}");
    }
    workshop.done()
}

#[test]
fn programs_without_a_path_run_natively() -> Result<()> {
    let workshop = Workshop::new("processes-nameless")?;
    let program = small::build(&source("nameless.c"), &Header::default(), &workshop.path)?;
    let place = Place::new(&workshop)?;
    let recorded =
        place.alike(&format!("rm -rf folder; exec timeout -k 5 60 {} $RECORD {}", namespace(), program.display()))?;
    place.is_unrecorded(&recorded, "it has no path")?;
    workshop.done()
}

/// Records a shell that starts programs.
fn shell(workshop: &Workshop, options: &[&str]) -> Result<PathBuf> {
    let log = workshop.path.join("log");
    let job = Job::new(&workshop.path, ["/bin/bash", "-c", "(true); /bin/echo one; bash -c 'kill -9 $$'; exit 3"]);
    let output = run(&mut job.recorded(&log, options)?)?;
    ensure!(output.status.code() == Some(3) && output.stdout == b"one\n", "{}", printed(&output));
    Ok(log)
}

fn json(args: &[&str], log: &Path) -> Result<Value> {
    serde_json::from_slice(&must_pass(args, log)?.stdout).context("not JSON")
}

#[test]
fn without_follow_the_first_process_is_recorded_alone() -> Result<()> {
    let workshop = Workshop::new("processes-no-follow")?;
    let log = shell(&workshop, &["--no-follow"])?;
    let processes = json(&["ps", "--json"], &log)?;
    let processes = processes.as_array().context("an array")?;
    ensure!(processes.len() == 1, "{processes:?}");
    ensure!(processes[0]["end"]["how"] == "exited" && processes[0]["end"]["status"] == 3, "{processes:?}");
    must_pass(&["check"], &log)?;
    must_pass(&["replay"], &log)?;
    workshop.done()
}

#[test]
fn processes_are_listed_and_selected() -> Result<()> {
    let workshop = Workshop::new("processes-listed")?;
    let log = shell(&workshop, &[])?;
    let processes = json(&["ps", "--json"], &log)?;
    let processes = processes.as_array().context("an array")?;
    let find = |wanted: &dyn Fn(&Value) -> bool| processes.iter().filter(|process| wanted(process)).count();
    ensure!(find(&|p| p["info"]["origin"]["how"] == "start") == 1, "{processes:?}");
    ensure!(find(&|p| p["info"]["origin"]["how"] == "fork") >= 2, "{processes:?}");
    ensure!(find(&|p| p["info"]["origin"]["how"] == "exec") >= 2, "{processes:?}");
    ensure!(find(&|p| p["end"]["how"] == "exited" && p["end"]["status"] == 3) == 1, "{processes:?}");
    ensure!(find(&|p| p["end"]["how"] == "executed") >= 2, "{processes:?}");
    let echo = find(&|p| p["info"]["program"].as_str().is_some_and(|program| program.ends_with("/echo")));
    ensure!(echo == 1, "{processes:?}");
    ensure!(find(&|p| p["instructions"].as_u64().is_some_and(|n| n > 1000)) > 2, "{processes:?}");

    let all = json(&["check", "--json"], &log)?;
    let one = json(&["check", "--json", "-p", "echo"], &log)?;
    ensure!(one["sound"] == true && one["intervals"] == 1, "{one}");
    ensure!(one["instructions"].as_u64() < all["instructions"].as_u64(), "{one}\n{all}");
    let replayed = must_pass(&["replay", "--output", "-p", "echo"], &log)?;
    same_bytes("output of one process", b"one\n", &replayed.stdout)?;
    // Each has its own program, arguments and end.
    let info = |process: &str| -> Result<String> {
        let output = must_pass(&["info", "-p", process], &log)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let echo = info("echo")?;
    ensure!(echo.contains("ended         exit status 0") && echo.contains("arguments     /bin/echo one"), "{echo}");
    let killed = processes.iter().find(|p| p["info"]["args"][2] == "kill -9 $$").context("the one that is killed")?;
    let killed = info(&format!("{}.{}", killed["pid"], killed["program"]))?;
    ensure!(killed.contains("ended         still running, or killed from outside"), "{killed}");
    let first = info(&format!("{}", processes[0]["pid"]))?;
    ensure!(first.contains("ended         exit status 3") && first.contains("folder        "), "{first}");

    let wrong = bugnet(["check".as_ref(), "-p".as_ref(), "nothing".as_ref(), log.as_os_str()])?;
    ensure!(wrong.status.code() == Some(2), "{}", printed(&wrong));

    // What is wrong with another process is not this one's.
    let first = processes[0]["pid"].as_u64().context("pid")?;
    let store = log.join(format!("p{first}/code.bnc"));
    let mut bytes = fs::read(&store)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&store, bytes)?;
    let damaged = run(Command::new(binary()?).arg("check").arg(&log))?;
    ensure!(damaged.status.code() == Some(1), "{}", printed(&damaged));
    workshop.done()
}

/// A question about one process is about the program that was recorded, whatever that became, and not about one that it started.
#[test]
fn a_question_is_about_the_program_that_was_recorded() -> Result<()> {
    let workshop = Workshop::new("processes-meant")?;
    let log = workshop.path.join("log");
    let job = Job::new(&workshop.path, ["/bin/bash", "-c", "/bin/echo one; exec /bin/sort /dev/null"]);
    let recorded = run(&mut job.recorded(&log, &[])?)?;
    ensure!(recorded.status.success() && recorded.stdout == b"one\n", "{}", printed(&recorded));
    let asked = |options: &[&str]| -> Result<String> {
        let said = must_pass(&[&["at", "start", "--json"], options].concat(), &log)?;
        Ok(String::from_utf8_lossy(&said.stderr).into_owned())
    };
    let meant = asked(&[])?;
    ensure!(meant.contains("of 4 processes") && meant.contains("(/bin/sort /dev/null)"), "{meant}");
    // Where somebody has said which, nothing is to be said.
    ensure!(asked(&["-p", "sort"])?.is_empty() && asked(&["-p", "echo"])?.is_empty(), "{meant}");
    workshop.done()
}
