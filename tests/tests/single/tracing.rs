//! Debuggers and their like as recorded programs: what they trace runs natively, as they expect it, and what they do is as natively.

use anyhow::Result;
use bugnet_tests::alike::Place;
use bugnet_tests::bugnet::Workshop;
use bugnet_tests::small::build_named;

/// What hangs is ended, and then is not as natively.
const PATIENTLY: &str = "exec timeout -k 5 120";

#[test]
fn breakpoints() -> Result<()> {
    let workshop = Workshop::new("tracing-breakpoints")?;
    let place = Place::new(&workshop)?;
    let program = build_named("processes/tracer.c", &["-no-pie"], &workshop.path)?;
    let recorded = place.alike(&format!("{PATIENTLY} $RECORD {}", program.display()))?;
    place.is_unrecorded(&recorded, "traces it")?;
    workshop.done()
}

#[test]
fn gdb() -> Result<()> {
    let workshop = Workshop::new("tracing-gdb")?;
    let place = Place::new(&workshop)?;
    let program = build_named("processes/tracer.c", &["-no-pie"], &workshop.path)?;
    let commands = "-ex 'break triple' -ex 'run traced' -ex backtrace -ex 'print x' -ex continue";
    // One line names the process by its number.
    let line = format!(
        "timeout -k 5 120 $RECORD gdb -nx -batch {commands} {} >printed; echo $?; grep -v process printed",
        program.display()
    );
    let recorded = place.alike(&line)?;
    place.is_unrecorded(&recorded, "traces it")?;
    workshop.done()
}

#[test]
fn strace() -> Result<()> {
    let workshop = Workshop::new("tracing-strace")?;
    let place = Place::new(&workshop)?;
    let line = "timeout -k 5 120 $RECORD strace -f -o calls -e trace=execve,exit_group sh -c '/bin/echo text; exit 5'; \
        echo $?; grep -c . calls";
    let recorded = place.alike(line)?;
    place.is_unrecorded(&recorded, "traces it")?;
    workshop.done()
}

#[test]
fn valgrind() -> Result<()> {
    let workshop = Workshop::new("tracing-valgrind")?;
    let place = Place::new(&workshop)?;
    let recorded = place.alike(&format!("{PATIENTLY} $RECORD valgrind -q sh -c '/bin/echo text; exit 5'"))?;
    place.is_unrecorded(&recorded, "Valgrind")?;
    workshop.done()
}
