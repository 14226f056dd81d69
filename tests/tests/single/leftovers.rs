//! Commands that a signal ends leave nothing behind: no temporary folder, no file that is half made, no gdb.

use anyhow::{Context, Result, bail, ensure};
use bugnet_tests::bugnet::{Job, Workshop, binary, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// A recording of a program, and an empty folder for temporary files.
fn setting(workshop: &Workshop, command: &[&str], options: &[&str]) -> Result<(PathBuf, PathBuf)> {
    let log = workshop.path.join("log");
    let status = run(&mut Job::new(&workshop.path, command.iter().copied()).recorded(&log, options)?)?.status;
    ensure!(status.success(), "{status}");
    Ok((log, workshop.folder("tmp")?))
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.collect::<std::io::Result<_>>().context("reading a folder")
}

fn wait_until(what: &str, mut test: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + LIMIT;
    while !test()? {
        ensure!(Instant::now() < end, "{what} takes too long");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn send(child: &Child, signal: Signal) -> Result<()> {
    Ok(kill(Pid::from_raw(child.id().try_into()?), signal)?)
}

/// `bugnet debug` whose gdb waits for commands, and that gdb's process id.
fn debugging(log: &Path, temporary: &Path) -> Result<(Child, i32)> {
    let mut bugnet = Command::new(binary()?)
        .arg("debug")
        .arg(log)
        .args(["--", "-nx", "-i=mi", "-ex", "python import os; print('gdb is', os.getpid())"])
        .env("TMPDIR", temporary)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    for line in BufReader::new(bugnet.stdout.as_mut().context("no stdout")?).lines() {
        if let Some((_, number)) = line?.split_once("gdb is ") {
            let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
            return Ok((bugnet, digits.parse()?));
        }
    }
    bail!("gdb ended")
}

fn is_there(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

#[test]
fn debug_ends_with_its_gdb_and_its_folder() -> Result<()> {
    let workshop = Workshop::new("leftovers-debug")?;
    let (log, temporary) = setting(&workshop, &["/bin/true"], &[])?;
    for signal in [Signal::SIGHUP, Signal::SIGTERM] {
        let (mut bugnet, gdb) = debugging(&log, &temporary)?;
        ensure!(names(&temporary)?.len() == 1 && is_there(gdb), "no folder, or no gdb");
        send(&bugnet, signal)?;
        let status = bugnet.wait()?;
        ensure!(status.signal() == Some(signal as i32), "{signal}: {status}");
        ensure!(names(&temporary)?.is_empty(), "{signal} leaves {:?}", names(&temporary)?);
        ensure!(!is_there(gdb), "{signal} leaves gdb");
    }
    workshop.done()
}

/// While gdb starts and the folder is filled, all signals end it.
#[test]
fn debug_that_has_just_begun() -> Result<()> {
    let workshop = Workshop::new("leftovers-debug-begun")?;
    let (log, temporary) = setting(&workshop, &["/bin/true"], &[])?;
    for signal in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP] {
        let mut command = Command::new(binary()?);
        command.arg("debug").arg(&log).env("TMPDIR", &temporary).current_dir(&workshop.path);
        // Should it come after gdb has started: that then ends, since its input does.
        let mut bugnet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        wait_until("making a folder", || Ok(!names(&temporary)?.is_empty() || bugnet.try_wait()?.is_some()))?;
        send(&bugnet, signal)?;
        bugnet.wait()?;
        ensure!(names(&temporary)?.is_empty(), "{signal} leaves {:?}", names(&temporary)?);
    }
    workshop.done()
}

/// What a SIGKILL leaves goes with the next one; what another one uses stays.
#[test]
fn debug_that_was_killed() -> Result<()> {
    let workshop = Workshop::new("leftovers-killed")?;
    let (log, temporary) = setting(&workshop, &["/bin/true"], &[])?;
    let (mut other, _) = debugging(&log, &temporary)?;
    let (mut bugnet, gdb) = debugging(&log, &temporary)?;
    send(&bugnet, Signal::SIGKILL)?;
    bugnet.wait()?;
    kill(Pid::from_raw(gdb), Signal::SIGKILL)?;
    ensure!(names(&temporary)?.len() == 2, "{:?}", names(&temporary)?);
    let (mut next, _) = debugging(&log, &temporary)?;
    ensure!(names(&temporary)?.len() == 2, "{:?}", names(&temporary)?);
    for bugnet in [&mut next, &mut other] {
        send(bugnet, Signal::SIGTERM)?;
        bugnet.wait()?;
    }
    ensure!(names(&temporary)?.is_empty(), "{:?}", names(&temporary)?);
    workshop.done()
}

#[test]
fn pack_and_unpack() -> Result<()> {
    let workshop = Workshop::new("leftovers-pack")?;
    let command = ["/usr/bin/env", "LC_ALL=C", "/usr/bin/perl", "-e", "1"];
    let (log, temporary) = setting(&workshop, &command, &["--no-pack"])?;
    let (packed, unpacked) = (workshop.path.join("packed"), workshop.path.join("unpacked"));
    for signal in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP] {
        let mut command = Command::new(binary()?);
        command.arg("pack").arg(&log).arg("-o").arg(&packed).env("TMPDIR", &temporary).current_dir(&temporary);
        let mut bugnet = command.stderr(Stdio::null()).spawn()?;
        wait_until("packing", || Ok(!names(&temporary)?.is_empty() || bugnet.try_wait()?.is_some()))?;
        send(&bugnet, signal)?;
        let status = bugnet.wait()?;
        ensure!(names(&temporary)?.is_empty(), "{signal} leaves {:?}", names(&temporary)?);
        ensure!(packed.exists() == status.success(), "{signal}: {status}");
        let _ = fs::remove_file(&packed);
    }
    let status = run(Command::new(binary()?).arg("pack").arg(&log).arg("-o").arg(&packed))?.status;
    ensure!(status.success(), "{status}");
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let mut command = Command::new(binary()?);
        let mut bugnet = command.arg("unpack").arg(&packed).arg("-o").arg(&unpacked).spawn()?;
        let has_begun = || names(&unpacked).is_ok_and(|names| !names.is_empty());
        wait_until("unpacking", || Ok(has_begun() || bugnet.try_wait()?.is_some()))?;
        send(&bugnet, signal)?;
        let status = bugnet.wait()?;
        ensure!(unpacked.exists() == status.success(), "{signal}: {status}");
        let _ = fs::remove_dir_all(&unpacked);
    }
    workshop.done()
}
