//! Programs in namespaces of their own: they run as natively, whether or not they can be recorded there.

use anyhow::{Context, Result, ensure};
use bugnet_tests::alike::{Place, namespace};
use bugnet_tests::bugnet::Workshop;
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
