//! What `bugnet record` says of a recording is true.

use anyhow::{Context, Result, ensure};
use bugnet_tests::alike::{Place, namespace};
use bugnet_tests::bugnet::{Workshop, must_pass, printed, run};
use object::Object;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `bugnet record` says at the end of a program that is given as a shell line.
fn said(place: &Place, line: &str) -> Result<String> {
    let recorded = place.alike(&format!("exec $RECORD {line}"))?;
    // The warnings are part of the summary, which quiet recordings do not have.
    let _ = fs::remove_dir_all(&place.log);
    let mut shell = Command::new("bash");
    let record = format!("{} record -o {} --", place.bugnet.display(), place.log.display());
    let output = run(shell.args(["-c", &format!("exec {record} {line}")]).current_dir(&place.folder))?;
    ensure!(output.status == recorded.status, "{}", printed(&output));
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn ends_that_are_no_failures() -> Result<()> {
    let workshop = Workshop::new("messages-ends")?;
    let place = Place::new(&workshop)?;
    let killed = "perl -e 'pipe R, W; if (!($child = fork)) { syswrite W, 1; sleep 1 while 1 } sysread R, $_, 1; \
                  kill KILL, $child; wait; print $?'";
    let outlives = "perl -e 'if (!fork) { close STDOUT; close STDERR; sleep 3; exit } exit 4'";
    for line in [killed, outlives] {
        let text = said(&place, line)?;
        ensure!(!text.contains("warning") && !text.contains("failed"), "{line}: {text}");
        ensure!(text.contains("exit status"), "{line}: {text}");
    }
    fs::write(workshop.path.join("program.c"), EXECUTES)?;
    let built =
        run(Command::new("gcc").args(["-O1", "-pthread", "-o", "program", "program.c"]).current_dir(&workshop.path))?;
    ensure!(built.status.success(), "{}", printed(&built));
    let text = said(&place, "./program")?;
    ensure!(!text.contains("warning") && !text.contains("failed"), "execve by a thread: {text}");
    let replayed = must_pass(&["replay"], &place.log)?;
    let text = String::from_utf8_lossy(&replayed.stdout);
    ensure!(text.matches("another thread executed a program, which ends all others").count() == 2, "{text}");
    workshop.done()
}

/// A thread executes another program while the first one and another wait.
const EXECUTES: &str = r#"
    #include <pthread.h>
    #include <unistd.h>
    static void *waits(void *unused) { pause(); return unused; }
    static void *executes(void *unused) {
        execl("/bin/sh", "sh", "-c", "echo executed; exit 5", (char *)0);
        return unused;
    }
    int main(void) {
        pthread_t one, other;
        pthread_create(&one, 0, waits, 0);
        pthread_create(&other, 0, executes, 0);
        pthread_join(one, 0);
        return 1;
    }
"#;

/// Builds a static program that ends with status 9, once the file is there that it is given the name of, if it is.
fn build(workshop: &Workshop, name: &str, flags: &[&str]) -> Result<PathBuf> {
    let source = "#include <unistd.h>
        int main(int count, char **names) { while (count > 1 && access(names[1], F_OK)) usleep(1000); return 9; }";
    let path = workshop.path.join(name);
    let code = path.with_extension("c");
    fs::write(&code, source)?;
    let built = run(Command::new("gcc").args(["-static", "-o"]).arg(&path).args(flags).arg(&code))?;
    ensure!(built.status.success(), "{}", printed(&built));
    Ok(path)
}

/// Name of the copy of an ELF file in a log.
fn copy_of(path: &Path) -> Result<String> {
    let data = fs::read(path)?;
    let file = object::File::parse(&*data)?;
    let id = file.build_id()?.with_context(|| format!("{} has no build id", path.display()))?;
    Ok(id.iter().map(|byte| format!("{byte:02x}")).chain([".zst".into()]).collect())
}

#[test]
fn copies_of_odd_files() -> Result<()> {
    let workshop = Workshop::new("messages-odd")?;
    let place = Place::new(&workshop)?;
    build(&workshop, "plain", &[])?;
    build(&workshop, "far", &["-Wl,-z,separate-code,--section-start=.note.gnu.build-id=0x600000"])?;
    build(&workshop, "none", &["-Wl,--build-id=none"])?;
    for program in ["./plain", "./far", "./none"] {
        let text = said(&place, program)?;
        ensure!(!text.contains("no copy"), "{program}: {text}");
        let copies = fs::read_dir(place.log.join("elf"))?.count();
        ensure!(copies == 1, "{program}: {copies} copies");
    }
    workshop.done()
}

#[test]
fn copies_of_what_only_the_program_sees() -> Result<()> {
    let workshop = Workshop::new("messages-mounted")?;
    let place = Place::new(&workshop)?;
    let here = build(&workshop, "program", &["-DHERE"])?;
    let there = build(&workshop, "there", &["-g", "-DTHERE", "-O2"])?;
    ensure!(copy_of(&here)? != copy_of(&there)?, "both are the same");
    // The program has another file mounted over its name, and runs until that is copied.
    let line = format!(
        "exec timeout 100 '{}' record -o log -- {} sh -c 'mount --bind there program && exec ./program log/elf/{}'",
        place.bugnet.display(),
        namespace(),
        copy_of(&there)?
    );
    let output = run(Command::new("bash").args(["-c", &line]).current_dir(&workshop.path))?;
    ensure!(output.status.code() == Some(9), "{}\n{}", output.status, printed(&output));
    ensure!(!printed(&output).contains("no copy"), "{}", printed(&output));
    workshop.done()
}

#[test]
fn messages_name_the_systems_reason() -> Result<()> {
    let workshop = Workshop::new("messages-reason")?;
    let place = Place::new(&workshop)?;
    // All descriptors up to the hard limit are taken, and then a child begins.
    let script = "import os, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))\ntry:\n    \
        while True: os.dup(0)\nexcept OSError: pass\nif os.fork() == 0: os._exit(3)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))\n";
    fs::write(workshop.path.join("script.py"), script)?;
    let recorded = place.alike("exec prlimit --nofile=60:60 $RECORD python3 script.py")?;
    let text = String::from_utf8_lossy(&recorded.stderr);
    for word in ["disk", "No space"] {
        ensure!(!text.contains(word), "there is room on the disk: {text}");
    }
    place.bugnet("check").map(drop)?;
    workshop.done()
}
