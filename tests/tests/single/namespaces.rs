//! Programs in namespaces of their own: they run as natively, whether or not they can be recorded there.

use anyhow::{Context, Result, ensure};
use bugnet_tests::alike::{Place, namespace};
use bugnet_tests::bugnet::{Workshop, must_pass, printed};
use bugnet_tests::small::build_named;

/// What hangs is ended, and then is not as natively.
const PATIENTLY: &str = "exec timeout -k 5 60";
/// Forks, and executes programs in a child and in its own place.
const SCRIPT: &str = "(exit 4); echo $?; /bin/echo one; exec /bin/echo two";
const FOREIGN_PROC: &str = "/proc belongs to another process id namespace";

#[test]
fn with_a_proc_that_is_not_its_own() -> Result<()> {
    let workshop = Workshop::new("namespaces-foreign-proc")?;
    let place = Place::new(&workshop)?;
    let own = format!("{} --pid --fork", namespace());
    let recorded = place.alike(&format!("{PATIENTLY} $RECORD {own} sh -c \"{SCRIPT}\""))?;
    place.is_unrecorded(&recorded, FOREIGN_PROC)?;
    // The second program is the one in whose namespace the first has left no process.
    let without_fork = format!("{} --pid", namespace());
    let recorded = place.alike(&format!("{PATIENTLY} $RECORD {without_fork} sh -c '/bin/echo one; /bin/echo two'"))?;
    place.is_unrecorded(&recorded, FOREIGN_PROC)?;
    // bugnet itself, too.
    let recorded = place.alike(&format!("{PATIENTLY} {own} $RECORD sh -c \"{SCRIPT}\""))?;
    place.is_unrecorded(&recorded, FOREIGN_PROC)?;
    workshop.done()
}

#[test]
fn with_a_proc_of_its_own() -> Result<()> {
    let workshop = Workshop::new("namespaces-own-proc")?;
    let place = Place::new(&workshop)?;
    let user = "unshare --user --map-root-user";
    for options in ["", "--pid --fork --mount-proc"] {
        let recorded = place.alike(&format!("{PATIENTLY} $RECORD {user} {options} sh -c \"{SCRIPT}\""))?;
        place.is_whole(&recorded).with_context(|| options.to_owned())?;
    }
    let own = format!("{} --pid --fork --mount-proc", namespace());
    let recorded = place.alike(&format!("{PATIENTLY} $RECORD {own} sh -c \"{SCRIPT}\""))?;
    place.is_whole(&recorded)?;
    let recorded = place.alike(&format!("{PATIENTLY} {own} $RECORD sh -c \"{SCRIPT}\""))?;
    place.is_whole(&recorded)?;
    workshop.done()
}

#[test]
fn a_program_that_another_file_hides() -> Result<()> {
    let workshop = Workshop::new("namespaces-hidden")?;
    let place = Place::new(&workshop)?;
    let program = build_named("processes/hidden_program.c", &[], &workshop.folder("hidden")?)?;
    ensure!(program == workshop.path.join("hidden/program"), "{}", program.display());
    let recorded = place.alike(&format!("{PATIENTLY} $RECORD hidden/program"))?;
    place.is_unrecorded(&recorded, "it has no path")?;
    workshop.done()
}

#[test]
fn the_end_of_a_namespace_cuts_logs_off() -> Result<()> {
    let workshop = Workshop::new("namespaces-end")?;
    let place = Place::new(&workshop)?;
    let program = build_named("processes/namespace_ends.c", &["-pthread"], &workshop.path)?;
    place.alike(&format!("{PATIENTLY} $RECORD {}", program.display()))?;
    let check = place.bugnet("check")?;
    ensure!(check.contains("cut off, sound up to there"), "{check}");
    let ps = place.bugnet("ps")?;
    let killed = ps.lines().filter(|line| line.contains("still running, or killed from outside")).count();
    ensure!(killed == 1 && ps.contains("exit status 5"), "{ps}");
    place.bugnet("replay")?;
    workshop.done()
}

#[test]
fn a_child_with_its_parents_id_has_a_log_of_its_own() -> Result<()> {
    let workshop = Workshop::new("namespaces-same-id")?;
    let place = Place::new(&workshop)?;
    let program = build_named("processes/nested_namespaces.c", &["-pthread"], &workshop.path)?;
    let recorded = place.alike(&format!("{PATIENTLY} $RECORD {}", program.display()))?;
    place.is_whole(&recorded)?;
    let ps = place.bugnet("ps")?;
    ensure!(ps.contains("exit status 3") && ps.contains("exit status 5"), "{ps}");
    let replayed = must_pass(&["replay", "--output"], &place.log)?;
    let lines = |bytes: &[u8]| {
        let mut lines: Vec<String> = String::from_utf8_lossy(bytes).lines().map(ToOwned::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    ensure!(lines(&replayed.stdout) == lines(&recorded.stdout), "{}", printed(&replayed));
    // The program that is lent the memory finds no /proc of its own.
    let recorded = place.alike(&format!("{PATIENTLY} $RECORD {} spawns", program.display()))?;
    place.is_unrecorded(&recorded, FOREIGN_PROC)?;
    let ps = place.bugnet("ps")?;
    ensure!(ps.contains("exit status 5"), "{ps}");
    must_pass(&["replay"], &place.log)?;
    workshop.done()
}
