//! A log is a stranger's: gdb runs nothing that lies in it.

use anyhow::{Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, binary, new_gdb, printed, run};
use bugnet_tests::debugged::source;
use std::fs;
use std::process::{Command, Stdio};

/// The program, or the file that holds its debug information and lies where gdb looks for those, has scripts for gdb. Nobody's configuration is needed
/// to be safe, and one that trusts all folders does not mean the log's.
#[test]
fn no_script_of_a_log_runs() -> Result<()> {
    let workshop = Workshop::new("debugger-scripts")?;
    let (program, escaped) = (workshop.path.join("program"), workshop.path.join("escaped"));
    let made = "gcc -g -o program \"$SOURCE\" && cp program whole && objcopy --only-keep-debug program program.debug \
         && strip program && objcopy --add-gnu-debuglink=program.debug program && mv program split && mv whole program";
    let made = run(Command::new("sh").args(["-c", made]).env("SOURCE", source("scripts")).current_dir(&workshop.path))?;
    ensure!(made.status.success(), "{}", printed(&made));
    for name in ["program", "split"] {
        fs::rename(workshop.path.join(name), &program)?;
        let log = workshop.path.join(format!("log-{name}"));
        run(&mut Job::new(&workshop.path, [&*program.to_string_lossy()]).recorded(&log, &[])?)?;
        fs::remove_file(&program)?;
        for (gdb, trusted) in [("gdb".into(), false), ("gdb".into(), true), (new_gdb()?, false), (new_gdb()?, true)] {
            let mut command = Command::new(binary()?);
            command.arg("debug").arg("--gdb").arg(&gdb).arg(&log).args(["--", "-nx", "-batch", "-ex", "bt"]);
            if trusted {
                command.args(["-iex", "set auto-load safe-path /"]);
            }
            command.env("ESCAPED", &escaped).env("HOME", &workshop.path).stdin(Stdio::null());
            let output = run(&mut command)?;
            let said = printed(&output);
            ensure!(said.contains("in main () at "), "the file with the scripts was not read:\n{said}");
            ensure!(!escaped.exists(), "{name}, {}, {trusted}: a script has run\n{said}", gdb.display());
            // It would say how to have them run. (Of Guile, one that was built without it says that it has none.)
            ensure!(!said.contains("has been declined"), "gdb advises to trust the log:\n{said}");
        }
    }
    workshop.done()
}
