//! A process that is made from a log does what the recorded one did, natively, as long as nothing is changed; and something else when it is.

use anyhow::{Context, Result, ensure};
use bugnet_format::control::Conditions;
use bugnet_replay::cursor::{Cursor, Direction, Seek};
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_tests::bugnet::{Job, Workshop, binary, printed, run, source_tree};
use bugnet_tests::programs::{PROGRAMS, Scale};
use bugnet_tests::sample::some_of;
use bugnet_what_if::{Change, Ended, Outcome, Pool, Seed, Set, Spot, Trial, Turn, Until};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// To the end.
const ALL: Until = Until { time: Duration::from_secs(60), output: None };

/// Runs to the end with a difference that can be made.
fn tried(seed: &Seed, trial: &Trial) -> Result<Outcome> {
    seed.run(trial, &ALL)?.context("there is nothing to change")
}

struct Opened {
    log: Log,
    tools: Tools,
}

impl Opened {
    fn new(path: &Path) -> Result<Self> {
        Ok(Self { log: Log::open(path)?, tools: Tools::locate_for(&binary()?, None)? })
    }

    fn cursor(&self) -> Result<Cursor<'_>> {
        Ok(Cursor::open(&self.tools, &self.log, self.log.last_of_first_process()?.context("no process")?)?)
    }

    fn seed(&self, cursor: &mut Cursor<'_>) -> Result<Seed> {
        Ok(Seed::new((&self.tools, &self.log), cursor)?)
    }
}

/// Runs a program of the suite on from several places; each time, what it writes has to be what it wrote from there on.
fn runs_on(name: &str) -> Result<()> {
    let workshop = Workshop::new(&format!("what-if-{name}"))?;
    let program = PROGRAMS.iter().find(|program| program.name == name).context("no such program")?;
    let job = program.job(&workshop.path, Scale::Small)?;
    let path = workshop.path.join("log");
    let recorded = run(&mut job.recorded(&path, &[])?)?;
    ensure!(recorded.status.success(), "{}", printed(&recorded));
    let opened = Opened::new(&path)?;
    let mut cursor = opened.cursor()?;
    for share in [5, 50, 90] {
        let time = cursor.end() / 100 * share;
        cursor.seek(Seek::Time(time))?;
        let seed = opened.seed(&mut cursor)?;
        ensure!(cursor.time() == time, "the cursor has moved");
        // Once more: the first one has changed nothing.
        for _ in 0..2 {
            let outcome = tried(&seed, &Trial::Nothing)?;
            ensure!(outcome.ended == Ended::Exited(0), "{share} %: {:?}", outcome.ended);
            let same = recorded.stdout.ends_with(&outcome.stdout) && !outcome.stdout.is_empty();
            ensure!(same, "{share} %: other output, {} bytes", outcome.stdout.len());
        }
    }
    workshop.done()
}

#[test]
fn bc() -> Result<()> {
    runs_on("bc")
}

#[test]
fn bash() -> Result<()> {
    runs_on("bash")
}

#[test]
fn xz() -> Result<()> {
    runs_on("xz")
}

#[test]
fn sqlite() -> Result<()> {
    runs_on("sqlite")
}

/// What it asks of the kernel does not get there, whatever is changed: files stay as they are, nobody is sent a signal.
const ASKS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <signal.h>
int main(int count, char **arguments) {
    volatile int sign = 5;
    char line[64];
    if (!fgets(line, sizeof line, stdin))
        return 2;
    int number = atoi(line);
    if (number + sign > 100) {
        unlink(arguments[1]);
        puts("removed");
    } else if (number + sign < 0) {
        kill(getppid(), SIGTERM);
    }
    char *block = malloc(1 << 20);
    block[number] = 'x';
    printf("%s has %d and %c\n", arguments[count - 1], number + sign, block[number]);
    free(block);
    return 0;
}
"#;

#[test]
fn changes() -> Result<()> {
    let workshop = Workshop::new("what-if-changes")?;
    let source = workshop.path.join("asks.c");
    std::fs::write(&source, ASKS)?;
    let (program, kept) = (workshop.path.join("asks"), workshop.path.join("kept"));
    built(&source, &program, &[])?;
    std::fs::write(&kept, "mine")?;
    std::fs::write(workshop.path.join("input"), "37\n")?;
    let job = Job {
        command: vec![program.to_string_lossy().into(), kept.to_string_lossy().into()],
        dir: workshop.path.clone(),
        stdin: Some("input".into()),
    };
    let written = format!("{} has 42 and x\n", kept.display());
    at_main_of(&job, written.as_bytes(), |seed, main| changed(seed, main, &written, &kept))?;
    workshop.done()
}

/// Runs of [`ASKS`] from its `main`, which writes this if nothing is changed, and may not remove the file that it keeps.
fn changed(seed: &Seed, main: u64, written: &str, kept: &Path) -> Result<()> {
    let outcome = tried(seed, &Trial::Nothing)?;
    ensure!(outcome.stdout == written.as_bytes() && outcome.ended == Ended::Exited(0), "{outcome:?}");
    // `mov dword ptr [sign], 5` gets other numbers.
    let code: Vec<u8> = (main..main + 200)
        .scan(main, |at, _| {
            let instruction = seed.instruction(*at);
            *at += instruction.len() as u64;
            Some(instruction)
        })
        .flatten()
        .collect();
    let five = code.windows(4).position(|bytes| bytes == [5, 0, 0, 0]).context("no 5")? as u64;
    let with = |sign: i32| {
        tried(seed, &Trial::Changes(vec![Change::Code { addr: main + five, bytes: sign.to_le_bytes().to_vec() }]))
    };
    let outcome = with(6)?;
    let expected = written.replace("42", "43");
    ensure!(outcome.stdout == expected.as_bytes() && outcome.ended == Ended::Exited(0), "{outcome:?}");
    let outcome = with(1000)?;
    ensure!(outcome.ended == Ended::Asked(libc::SYS_unlink as u64), "{outcome:?}");
    let outcome = with(-1000)?;
    ensure!(outcome.ended == Ended::Asked(libc::SYS_getppid as u64), "{outcome:?}");
    ensure!(std::fs::read(kept)? == b"mine", "the file was changed");
    // There is a limit of memory: `mov edi, 0x100000` asks for 2 GB, gets none, and the program does not look.
    let size = code.windows(5).position(|bytes| bytes == [0xbf, 0, 0, 0x10, 0]).context("no 1 MB")? as u64;
    let change = Change::Code { addr: main + size + 1, bytes: i32::MAX.to_le_bytes().to_vec() };
    let outcome = tried(seed, &Trial::Changes(vec![change]))?;
    ensure!(outcome.ended == Ended::Signal(libc::SIGSEGV), "{outcome:?}");
    // An endless loop is ended, and so is a run that nobody wants to see more of.
    let change = Change::Code { addr: main, bytes: vec![0xeb, 0xfe] };
    let outcome = seed.run(&Trial::Changes(vec![change]), &Until { time: Duration::from_millis(200), output: None })?;
    ensure!(outcome.is_some_and(|outcome| outcome.ended == Ended::Late), "an endless loop has an end");
    let outcome = seed.run(&Trial::Nothing, &Until { output: Some(b"nothing of the kind".to_vec()), ..ALL })?;
    ensure!(outcome.is_some_and(|outcome| outcome.ended == Ended::Stopped), "it writes what it should not");
    let change = Change::Code { addr: main, bytes: vec![0x0f, 0x0b] };
    let outcome = tried(seed, &Trial::Changes(vec![change]))?;
    ensure!(outcome.ended == Ended::Signal(libc::SIGILL), "{outcome:?}");
    Ok(())
}

/// Counts what is odd, three times.
const COUNTS: &str = r#"
#include <stdio.h>
int main(void) {
    for (int i = 0; i < 3; i++) {
        if (i & 1)
            putchar('a' + i);
        else
            putchar('A' + i);
    }
    putchar('\n');
    return 0;
}
"#;

/// Records a program without arguments, of this source, and hands over what it is where `main` begins, and where that is.
fn at_main(
    workshop: &Workshop,
    (name, source): (&str, &str),
    written: &[u8],
    look: impl FnOnce(&Seed, u64) -> Result<()>,
) -> Result<()> {
    let (file, program) = (workshop.path.join(name).with_extension("c"), workshop.path.join(name));
    std::fs::write(&file, source)?;
    built(&file, &program, &[])?;
    at_main_of(&Job::new(&workshop.path, [program.to_string_lossy()]), written, look).map(drop)
}

fn built(source: &Path, program: &Path, flags: &[&str]) -> Result<()> {
    let built = run(Command::new("gcc").args(["-g", "-O0"]).args(flags).arg("-o").arg(program).arg(source))?;
    ensure!(built.status.success(), "{}", printed(&built));
    Ok(())
}

/// The same of a program that is there; the log that was made of it.
fn at_main_of(job: &Job, written: &[u8], look: impl FnOnce(&Seed, u64) -> Result<()>) -> Result<PathBuf> {
    at(job, "main", written, look)
}

/// What it is where something of this name begins.
fn at(job: &Job, name: &str, written: &[u8], look: impl FnOnce(&Seed, u64) -> Result<()>) -> Result<PathBuf> {
    let path = job.dir.join("log");
    let recorded = run(&mut job.recorded(&path, &[])?)?;
    ensure!(recorded.stdout == written, "{}", printed(&recorded));
    let opened = Opened::new(&path)?;
    let mut cursor = opened.cursor()?;
    let addresses: Vec<u64> = Symbolizer::new(&opened.log, cursor.pid())?.functions(&[name]).into_keys().collect();
    let [place] = addresses[..] else { anyhow::bail!("{addresses:x?}") };
    cursor.seek(Seek::Start)?;
    cursor.run(Direction::Forward, &Conditions { addresses, ..Conditions::default() })?;
    look(&opened.seed(&mut cursor)?, place)?;
    drop(cursor);
    Ok(path)
}

/// Has something in all of a vector register where `here` begins.
const VECTORS: &str = r#"
#include <immintrin.h>
#include <stdio.h>
int main(int count, char **arguments) {
    __m256i all = _mm256_set1_epi8('a' + count - 1);
    __asm__ volatile("nop\n.globl here\nhere: nop" : "+x"(all));
    char text[33] = {0};
    _mm256_storeu_si256((__m256i *)text, all);
    puts(text);
    return arguments == NULL;
}
"#;

#[test]
fn vector_registers() -> Result<()> {
    let workshop = Workshop::new("what-if-vectors")?;
    let (file, program) = (workshop.path.join("vectors.c"), workshop.path.join("vectors"));
    std::fs::write(&file, VECTORS)?;
    // Optimised, the value stays in its register.
    built(&file, &program, &["-O1", "-mavx2"])?;
    let written = [&[b'a'; 32][..], b"\n"].concat();
    at(&Job::new(&workshop.path, [program.to_string_lossy()]), "here", &written, |seed, _| {
        let outcome = tried(seed, &Trial::Nothing)?;
        ensure!(outcome.stdout == written && outcome.ended == Ended::Exited(0), "{outcome:?}");
        Ok(())
    })?;
    workshop.done()
}

/// Code that a recorded program puts where a process that is made from its log has its own cannot call the kernel.
#[test]
fn nothing_escapes() -> Result<()> {
    let workshop = Workshop::new("what-if-escape")?;
    let program = workshop.path.join("escape");
    built(&source_tree().join("tests/programs/strangers/escape.c"), &program, &[])?;
    let expected = workshop.path.join("expected");
    std::fs::write(&expected, "1\n")?;
    let mut logs = Vec::new();
    for way in ["mremap", "mmap", "munmap", "mprotect", "read"] {
        let folder = workshop.folder(way)?;
        let job = Job::new(&folder, [&*program.to_string_lossy(), way]);
        let log = at_main_of(&job, b"0\n", |seed, _| {
            // It goes on, beyond what it has tried.
            let outcome = tried(seed, &Trial::Nothing)?;
            ensure!(outcome.ended == Ended::Exited(0) && outcome.stdout == b"0\n", "{way}: {outcome:?}");
            Ok(())
        })?;
        logs.push((way, folder, log));
    }
    for (way, folder, log) in some_of(logs.len(), logs) {
        let why = ["why", "--no-races", "--expect", &expected.to_string_lossy()];
        let why = run(Command::new(binary()?).args(why).arg(&log).current_dir(&folder))?;
        ensure!(why.status.success(), "{}", printed(&why));
        let names = std::fs::read_dir(&folder)?.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
        ensure!(names == ["log"], "{way}: {names:?}");
    }
    workshop.done()
}

/// The instructions of `main`, by their addresses.
fn code(seed: &Seed, main: u64, len: u64) -> Vec<(u64, Vec<u8>)> {
    let (mut at, mut all) = (main, Vec::new());
    while at < main + len {
        let instruction = seed.instruction(at);
        let next = at + instruction.len().max(1) as u64;
        all.push((at, instruction));
        at = next;
    }
    all
}

#[test]
fn turned_once() -> Result<()> {
    let workshop = Workshop::new("what-if-turned")?;
    at_main(&workshop, ("counts", COUNTS), b"AbC\n", |seed, main| {
        let turned = |addr: u64, nth: u64| seed.run(&Trial::Turn(Turn { addr, nth }), &ALL);
        ensure!(turned(main, 0)?.is_none(), "where a function begins is no jump");
        let mut found = Vec::new();
        for (at, _) in code(seed, main, 120) {
            let Some(same) = turned(at, u64::MAX)? else { continue };
            ensure!(same.stdout == b"AbC\n", "without a turn, it is {same:?}");
            for nth in 0..same.executions {
                let outcome = turned(at, nth)?.context("no jump")?;
                found.push((same.executions, nth, String::from_utf8(outcome.stdout)?));
            }
        }
        // The condition of each round, and those of the loop: it ends before its last round, or goes round once more.
        for (executions, nth, written) in
            [(3, 0, "abC\n"), (3, 1, "ABC\n"), (3, 2, "Abc\n"), (4, 0, "\n"), (4, 2, "Ab\n"), (4, 3, "AbCd\n")]
        {
            let wanted = (executions, nth, written.to_owned());
            ensure!(found.contains(&wanted), "no {wanted:?} in {found:?}");
        }
        Ok(())
    })?;
    workshop.done()
}

/// Counts up a variable of its own, by its name and by a pointer.
const SUMS: &str = r#"
#include <stdio.h>
struct sum { int before, value; };
int main(void) {
    struct sum sum = {7, 1};
    struct sum *all = &sum;
    for (int i = 0; i < 3; i++) {
        all->value += 1;
        putchar('0' + sum.value);
    }
    putchar('\n');
    return 0;
}
"#;

/// Before `add dword ptr [..], 1`, or what the compiler has for it, the variable is set to something else: by where it is in the frame, and by the
/// pointer to it; each time, or once.
#[test]
fn set_before() -> Result<()> {
    let workshop = Workshop::new("what-if-set")?;
    at_main(&workshop, ("sums", SUMS), b"234\n", |seed, main| {
        let all = code(seed, main, 150);
        // `mov dword ptr [rbp-..], 1` and `lea rax, [rbp-..]`, `mov [rbp-..], rax`; and what loads the pointer, at the beginning of each round.
        let value = all.iter().find(|(_, code)| matches!(code[..], [0xc7, 0x45, _, 1, 0, 0, 0])).context("no 1")?;
        let slot = all
            .iter()
            .find(|(_, code)| matches!(code[..], [0x48, 0x89, 0x45, at] if at != value.1[2]))
            .context("no pointer")?;
        let [value, slot] = [value.1[2], slot.1[3]].map(|byte| i64::from(byte.cast_signed()));
        let load = [0x48, 0x8b, 0x45, slot as u8];
        let (at, _) = all.iter().find(|(_, code)| *code == load).context("no load")?;
        for spot in [Spot::ByRbp(value), Spot::Through(slot, 4)] {
            let with = |nth: Option<u64>, value: u32| {
                let set = Set { at: *at, nth, spot, bytes: value.to_le_bytes().to_vec() };
                tried(seed, &Trial::Set(set))
            };
            let outcome = with(None, 4)?;
            ensure!(outcome.executions == 3, "{outcome:?}");
            ensure!(outcome.stdout == b"555\n" && outcome.ended == Ended::Exited(0), "{outcome:?}");
            let outcome = with(Some(1), 5)?;
            ensure!(outcome.stdout == b"267\n" && outcome.ended == Ended::Exited(0), "{outcome:?}");
            // It has this value by then: nothing would come of it.
            let outcome = with(Some(2), 3)?;
            ensure!(outcome.ended == Ended::Same, "{outcome:?}");
        }
        let nowhere = Set { at: *at, nth: None, spot: Spot::At(64), bytes: vec![1] };
        let outcome = tried(seed, &Trial::Set(nowhere))?;
        ensure!(outcome.stdout == b"234\n" && outcome.ended == Ended::Exited(0), "{outcome:?}");
        Ok(())
    })?;
    workshop.done()
}

/// Writes a letter and asks for its number, five times.
const LETTERS: &str = r#"
#include <stdio.h>
#include <unistd.h>
#include <sys/syscall.h>
int main(void) {
    for (int i = 0; i < 5; i++) {
        syscall(SYS_getpid);
        putchar('a');
    }
    putchar('\n');
    return 0;
}
"#;

/// Several processes at a time do what one does by itself, and what came of each is told in the order that was asked for; a run that asks the kernel for ever
/// comes to an end.
#[test]
fn many_at_a_time() -> Result<()> {
    let workshop = Workshop::new("what-if-many")?;
    at_main(&workshop, ("letters", LETTERS), b"aaaaa\n", |seed, main| {
        let all = code(seed, main, 120);
        let (at, letter) = all.iter().find(|(_, code)| matches!(code[..], [0xbf, b'a', 0, 0, 0])).context("no a")?;
        let with = |byte: u8| Trial::Changes(vec![Change::Code { addr: at + 1, bytes: vec![byte] }]);
        ensure!(letter[1] == b'a', "{letter:?}");
        let pool = Pool::new(seed, &ALL, NonZeroUsize::new(3).context("no number")?)?;
        ensure!(pool.width() == 3, "{} instead of 3", pool.width());
        let trials = (b'a'..=b'z').map(with).chain([Trial::Turn(Turn { addr: main, nth: 0 })]);
        let outcomes = pool.run(trials)?;
        for (byte, outcome) in (b'a'..=b'z').zip(&outcomes) {
            let outcome = outcome.as_ref().context("no run")?;
            let written = [&[byte; 5][..], b"\n"].concat();
            ensure!(outcome.stdout == written && outcome.ended == Ended::Exited(0), "{outcome:?}");
        }
        ensure!(outcomes.len() == 27 && outcomes[26].is_none(), "where a function begins is no jump");
        // The loop's jump back is always taken: the kernel is asked again and again, which takes no time of the program's own.
        let back = all.iter().rev().find(|(_, code)| matches!(code[..], [0x7e, _])).context("no jump back")?;
        let outcome = tried(seed, &Trial::Changes(vec![Change::Code { addr: back.0, bytes: vec![0xeb] }]))?;
        ensure!(outcome.ended == Ended::Late && outcome.took < ALL.time, "{:?} {:?}", outcome.ended, outcome.took);
        Ok(())
    })?;
    workshop.done()
}

/// Makes a sum of two loaded numbers, for which compilers take `lea`.
const SUM: &str = r#"
#include <stdio.h>
static int sums(const int *of) {
    return (of[0] + of[1]) - (of[2] + of[3]);
}
int main(void) {
    int of[] = {7, 2, 4, 1};
    putchar('0' + sums(of));
    putchar('\n');
    return 0;
}
"#;

#[test]
fn difference_for_sum() -> Result<()> {
    let workshop = Workshop::new("what-if-sum")?;
    at_main(&workshop, ("sum", SUM), b"4\n", |seed, main| {
        // The function lies before `main`, and begins with `push rbp; mov rbp, rsp`.
        let sums = (main - 100..main)
            .rev()
            .find(|at| seed.memory(*at, 4).is_some_and(|code| code == [0x55, 0x48, 0x89, 0xe5]));
        let sums = sums.context("no function")?;
        let all = code(seed, sums, main - sums);
        let found: Vec<Change> = all.iter().filter_map(|(at, _)| seed.difference(*at, None)).collect();
        // One after the other, and both at once.
        let [one, other] = &found[..] else { anyhow::bail!("{found:?}") };
        for (changes, written) in [(vec![one], b"0\n"), (vec![other], b"6\n"), (vec![one, other], b"2\n")] {
            let changes = changes.into_iter().cloned().collect();
            let outcome = tried(seed, &Trial::Changes(changes))?;
            ensure!(outcome.stdout == written && outcome.ended == Ended::Exited(0), "{outcome:?}");
        }
        Ok(())
    })?;
    workshop.done()
}
