//! The core that the kernel writes of a recorded program.

use anyhow::{Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, printed, run};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// Runs a command in a shell that lets cores be written. Returns the size of the core; none if the system puts cores elsewhere.
fn core_of(command: &Command, workshop: &Workshop, folder: &str) -> Result<Option<u64>> {
    let folder = workshop.folder(folder)?;
    let mut shell = Command::new("bash");
    shell
        .args(["-c", "ulimit -c unlimited && exec \"$@\"", "bash"])
        .arg(command.get_program())
        .args(command.get_args());
    let output = run(shell.current_dir(&folder))?;
    ensure!(output.status.signal() == Some(libc::SIGSEGV), "{}\n{}", output.status, printed(&output));
    let mut sizes = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("core") {
            sizes.push(entry.metadata()?.len());
        }
    }
    Ok(sizes.into_iter().max())
}

#[test]
fn the_shadow_is_not_in_it() -> Result<()> {
    let workshop = Workshop::new("cores")?;
    let job = Job::new(&workshop.path, ["/bin/sh", "-c", "kill -SEGV $$"]);
    let Some(native) = core_of(&job.native()?, &workshop, "native")? else {
        eprintln!("left out: the system writes no core here");
        return workshop.done();
    };
    let log = workshop.path.join("log");
    let recorded = core_of(&job.recorded(&log, &[])?, &workshop, "recorded")?;
    // The size that the file has, and not what it takes up on the disk.
    ensure!(recorded.is_some_and(|size| size < native + (128 << 20)), "{recorded:?} bytes, and {native} natively");
    workshop.done()
}
