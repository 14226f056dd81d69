//! `bugnet memcheck` finds the errors of programs that have one each, at their lines, as Valgrind does, and nothing in programs that have none.
//!
//! The comment lines that a program of `programs/memcheck/` begins with say:
//!
//! | line | meaning |
//! |---|---|
//! | `finds: KIND SIDE DISTANCE` | the error that is reported at the line that ends with `/* HERE */`, and where its block is from it; `nothing` |
//! | `frame: DISTANCE VARIABLE FUNCTION` | the function, which has returned, in whose variable it is then, and how far behind its start |
//! | `part: NAME` | what the source calls the first byte that is accessed, where nothing is optimised |
//! | `valgrind: no` | Valgrind does not find it there |
//! | `flags: ...` | further arguments for the compiler |

use anyhow::{Context, Result, bail, ensure};
use bugnet_tests::bugnet::{Job, Workshop, bugnet, must_pass, printed, run, source_tree};
use bugnet_tests::correct::{CORRECT, Correct};
use bugnet_tests::sample::one_of;
use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `memcheck`'s exit statuses.
const NONE: i32 = 0;
const FOUND: i32 = 6;

/// Other allocators, whose packages are among those of the tests.
const ALLOCATORS: &[(&str, &str)] =
    &[("jemalloc", "libjemalloc.so.2"), ("tcmalloc", "libtcmalloc_minimal.so.4"), ("mimalloc", "libmimalloc.so.2")];
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// A program that has an error, or none.
#[derive(Clone)]
struct Faulty {
    source: PathBuf,
    /// Kind, side and distance.
    finds: Option<(String, String, u64)>,
    /// Distance, variable and function.
    frame: Option<(u64, String, String)>,
    part: Option<String>,
    by_valgrind: bool,
    flags: Vec<String>,
    /// From 1.
    line: Option<u64>,
}

impl Faulty {
    fn read(source: &Path) -> Result<Self> {
        let text = fs::read_to_string(source)?;
        let said = |key: &str| {
            let mut comments = text.lines().map_while(|line| line.strip_prefix("// "));
            comments.find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
        };
        let finds = match said("finds").context("it does not say what is found")?.split(' ').collect::<Vec<_>>()[..] {
            ["nothing"] => None,
            [kind, side, distance] => Some((kind.to_owned(), side.to_owned(), distance.parse()?)),
            ref other => bail!("{other:?} says nothing"),
        };
        let frame = match said("frame").map(|said| said.split(' ').collect::<Vec<_>>()).as_deref() {
            None => None,
            Some([distance, variable, function]) => {
                Some((distance.parse()?, (*variable).to_owned(), (*function).to_owned()))
            }
            Some(other) => bail!("{other:?} says no frame"),
        };
        let mut marked = text.lines().zip(1..).filter(|(line, _)| line.ends_with("/* HERE */"));
        let line = marked.next().map(|(_, number)| number);
        ensure!(line.is_some() == finds.is_some() && marked.next().is_none(), "one line is to be marked");
        let flags = said("flags").unwrap_or_default().split_whitespace().map(ToOwned::to_owned).collect();
        let by_valgrind = said("valgrind") != Some("no");
        let part = said("part").map(ToOwned::to_owned);
        Ok(Self { source: source.to_owned(), finds, frame, part, by_valgrind, flags, line })
    }

    fn all() -> Result<Vec<Self>> {
        let folder = source_tree().join("tests/programs/memcheck");
        let mut sources = fs::read_dir(&folder)?.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
        sources.sort();
        sources.iter().map(|source| Self::read(source).with_context(|| source.display().to_string())).collect()
    }

    fn name(&self) -> String {
        self.source.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn build(&self, compiler: &str, flags: &[&str], folder: &Path) -> Result<PathBuf> {
        let program = folder.join(self.name());
        let mut command = Command::new(compiler);
        command.args(["-g", "-w"]).args(flags).arg(&self.source).args(&self.flags).arg("-o").arg(&program);
        let built = run(&mut command)?;
        ensure!(built.status.success(), "{}", printed(&built));
        Ok(program)
    }

    /// Whether a report's error is the one that is to be found.
    fn is_it(&self, error: &Value) -> bool {
        let Some((kind, side, distance)) = &self.finds else { return false };
        let block = &error["block"];
        let fits =
            if side == "none" { block.is_null() } else { block["side"] == **side && block["distance"] == *distance };
        let of = &error["frame"];
        let is_of_frame = match &self.frame {
            None => of.is_null(),
            Some((distance, variable, function)) => {
                of["variable"][0] == **variable
                    && of["variable"][1] == *distance
                    && of["returned"]["function"] == **function
            }
        };
        error["kind"] == **kind && fits && is_of_frame && self.is_at_line(error)
    }

    /// Whether the first of the frames of the program's own source is in the line.
    fn is_at_line(&self, error: &Value) -> bool {
        let frames = error["stack"].as_array().map_or(&[][..], Vec::as_slice);
        let own = frames.iter().find(|frame| frame["file"].as_str().is_some_and(|file| Path::new(file) == self.source));
        own.is_some_and(|own| own["line"].as_u64() == self.line)
    }
}

/// What `memcheck` says of a recording, which is to end with this status.
fn report(log: &Path, options: &[&str], status: i32) -> Result<Value> {
    let args = [&["memcheck", "--json"], options, &[log.to_str().context("path")?]].concat();
    let output = bugnet(args)?;
    let (is, all) = (output.status, printed(&output));
    ensure!(is.code() == Some(status), "status {is} and not {status}\n{all}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The same, whether replay processes look at accesses or each is followed.
fn memcheck(log: &Path, options: &[&str], status: i32) -> Result<Value> {
    let mut looked = report(log, options, status)?;
    let mut followed = report(log, &[&["--follow"], options].concat(), status)?;
    // What an outline tells of a stub with one instruction, another trace has no room for: then, copies are not followed whose functions are not known.
    for report in [&mut looked, &mut followed] {
        report["counts"]["unchecked_copies"].take();
        if let Some(notes) = report["notes"].as_array_mut() {
            notes.retain(|note| !note.as_str().is_some_and(|note| note.contains("copies overlap")));
        }
    }
    ensure!(looked == followed, "looked at: {looked:#}\nfollowed: {followed:#}");
    Ok(looked)
}

fn errors(report: &Value) -> Result<&Vec<Value>> {
    report["errors"].as_array().context("no errors")
}

/// The recording of a program.
fn record(program: &Path, options: &[&str], workshop: &Workshop) -> Result<PathBuf> {
    let log = workshop.path.join("log");
    let job = Job::new(&workshop.path, [program.to_string_lossy()]);
    let recorded = run(&mut job.recorded(&log, options)?)?;
    ensure!(log.exists(), "{}", printed(&recorded));
    Ok(log)
}

/// A faulty program, built and recorded in a way.
#[derive(Clone)]
struct Case {
    faulty: Faulty,
    compiler: &'static str,
    flags: &'static [&'static str],
    /// An allocator that is not the C library's, and its file.
    allocator: Option<(&'static str, &'static str)>,
}

impl Case {
    fn new(faulty: &Faulty, compiler: &'static str, flags: &'static [&'static str]) -> Self {
        Self { faulty: faulty.clone(), compiler, flags, allocator: None }
    }

    fn with(faulty: &Faulty, allocator: (&'static str, &'static str)) -> Self {
        Self { allocator: Some(allocator), ..Self::new(faulty, "gcc", &["-O0"]) }
    }

    fn name(&self) -> String {
        let library = if self.compiler == "musl-gcc" { "_musl" } else { "" };
        let how = self.allocator.map_or_else(|| self.flags.concat(), |(allocator, _)| format!("_{allocator}"));
        format!("{}{library}{how}", self.faulty.name())
    }

    fn record(&self, workshop: &Workshop) -> Result<PathBuf> {
        let program = self.faulty.build(self.compiler, self.flags, &workshop.path)?;
        let Some((_, library)) = self.allocator else { return record(&program, &[], workshop) };
        let library = Path::new(LIBRARIES).join(library);
        ensure!(library.exists(), "{} is not there", library.display());
        let (log, preload) = (workshop.path.join("log"), format!("LD_PRELOAD={}", library.display()));
        let job = Job::new(&workshop.path, ["/usr/bin/env", &preload, &program.to_string_lossy()]);
        let recorded = run(&mut job.recorded(&log, &[])?)?;
        ensure!(log.exists(), "{}", printed(&recorded));
        Ok(log)
    }

    /// The error is found, where it is, and no other is found before it. What a position says is what there is.
    fn finds(&self) -> Result<()> {
        let workshop = Workshop::new(&format!("memcheck-{}", self.name()))?;
        let log = self.record(&workshop)?;
        let part = self.faulty.part.as_deref().filter(|_| self.flags.contains(&"-O0") && self.allocator.is_none());
        finds_in(&self.faulty, part, &log)?;
        workshop.done()
    }

    /// However it is looked for, it is the same.
    fn same(&self) -> Result<()> {
        let workshop = Workshop::new(&format!("memcheck-same-{}", self.name()))?;
        let log = self.record(&workshop)?;
        let (options, status): (&[&str], _) =
            if self.faulty.finds.is_none() { (&[], NONE) } else { (&["--no-leaks"], FOUND) };
        memcheck(&log, options, status)?;
        workshop.done()
    }
}

fn finds_in(faulty: &Faulty, part: Option<&str>, log: &Path) -> Result<()> {
    if faulty.finds.is_none() {
        ensure!(errors(&report(log, &[], NONE)?)?.is_empty(), "there is an error");
        return Ok(());
    }
    let report = report(log, &["--no-leaks"], FOUND)?;
    let errors = errors(&report)?;
    let first = errors.first().context("no error is reported")?;
    ensure!(faulty.is_it(first), "the first error is another one: {first:#}");
    ensure!(part.is_none_or(|part| first["block"]["part"] == *part), "{report:#}");
    // The same access may be wrong again, but nothing else in another line may be.
    let is_of_system = |error: &Value| error["kind"] == "read" && faulty.name() == "copy_too_much";
    let other = errors.iter().find(|error| !faulty.is_at_line(error) && !is_of_system(error));
    ensure!(other.is_none(), "there are others: {errors:#?}");
    let place = &first["place"];
    let place = format!("{}/{}/{}", place["tid"], place["interval"], place["position"]);
    let output = must_pass(&["at", &place, "--json"], log)?;
    let there: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(
        first["instruction"].is_null() || there["registers"]["rip"] == first["stack"][0]["address"],
        "at {place} is {}, not {}",
        there["registers"]["rip"],
        first["stack"][0]["address"]
    );
    Ok(())
}

/// Valgrind says something about the same line, or nothing, as the program says.
fn valgrind(faulty: &Faulty) -> Result<()> {
    let workshop = Workshop::new(&format!("memcheck-{}-valgrind", faulty.name()))?;
    let program = faulty.build(compiler(faulty), &["-O0"], &workshop.path)?;
    let mut command = Command::new("valgrind");
    command.args(["-q", "--leak-check=no", "--undef-value-errors=no"]).arg(&program).stdin(std::process::Stdio::null());
    let output = run(&mut command)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let file = faulty.source.file_name().unwrap_or_default().to_string_lossy();
    let at = format!("({file}:{})", faulty.line.unwrap_or(0));
    ensure!(said.contains(&at) == faulty.by_valgrind, "Valgrind, about {at}:\n{said}");
    workshop.done()
}

fn compiler(faulty: &Faulty) -> &'static str {
    if faulty.source.extension().is_some_and(|extension| extension == "cpp") { "g++" } else { "gcc" }
}

fn correct(program: &Correct) -> Result<()> {
    let workshop = Workshop::new(&format!("memcheck-correct-{}", program.name))?;
    let log = program.record(&workshop)?;
    let report = memcheck(&log, &[], NONE)?;
    ensure!(report["counts"]["allocations"].as_u64() > Some(5), "there is nothing to check: {}", report["counts"]);
    ensure!(report["counts"]["unknown_allocations"] == 0, "{}", report["counts"]);
    workshop.done()
}

/// gcc's own compiler.
fn correct_cc1() -> Result<()> {
    let workshop = Workshop::new("memcheck-correct-cc1")?;
    fs::write(workshop.path.join("h.c"), "#include <stdio.h>\nint main(void) { puts(\"x\"); return 0; }\n")?;
    let log = workshop.path.join("log");
    let recorded = run(&mut Job::new(&workshop.path, ["/usr/bin/gcc", "-O2", "-c", "h.c"]).recorded(&log, &[])?)?;
    ensure!(recorded.status.success(), "{}", printed(&recorded));
    let report = memcheck(&log, &["-p", "cc1", "--no-leaks"], NONE)?;
    ensure!(report["counts"]["allocations"].as_u64() > Some(5000), "{}", report["counts"]);
    workshop.done()
}

/// What is lost, and in which way, is what Valgrind says.
fn leaks(flags: &[&str]) -> Result<()> {
    let workshop = Workshop::new(&format!("memcheck-leaks{}", flags.concat()))?;
    let faulty = Faulty::read(&source_tree().join("tests/programs/memcheck/leaks.c"))?;
    let program = faulty.build("gcc", flags, &workshop.path)?;
    let mut command = Command::new("valgrind");
    let native = run(command.args(["--leak-check=full"]).arg(&program).stdin(std::process::Stdio::null()))?;
    let said = String::from_utf8_lossy(&native.stderr);
    let log = record(&program, &["--interval", "20k"], &workshop)?;
    let report = memcheck(&log, &[], NONE)?;
    let leaks = report["leaks"].as_array().context("no leaks")?;
    for (loss, words) in [
        ("definite", "definitely lost"),
        ("indirect", "indirectly lost"),
        ("possible", "possibly lost"),
        ("reachable", "still reachable"),
    ] {
        let all = leaks.iter().filter(|leak| leak["loss"] == loss);
        // libc's own buffer of standard output goes with its end in Valgrind.
        let own = all.filter(|leak| {
            leak["allocated"]["callers"][0]["file"].as_str().is_some_and(|file| file.ends_with("leaks.c"))
        });
        let (blocks, bytes) = own.fold((0, 0), |(blocks, bytes), leak| {
            (blocks + leak["blocks"].as_u64().unwrap_or(0), bytes + leak["bytes"].as_u64().unwrap_or(0))
        });
        let expected = format!("{words}: {bytes} bytes in {blocks} blocks");
        ensure!(said.contains(&expected), "{expected}, but Valgrind says\n{said}");
    }
    workshop.done()
}

/// Builds a program of a test's own, with debug information.
fn built(workshop: &Workshop, text: &str, flags: &[&str]) -> Result<PathBuf> {
    let (source, program) = (workshop.path.join("program.c"), workshop.path.join("program"));
    fs::write(&source, text)?;
    let output = run(Command::new("gcc").arg("-g").args(flags).arg("-o").arg(&program).arg(&source))?;
    ensure!(output.status.success(), "{}", printed(&output));
    Ok(program)
}

const THREADS: &str = "#include <pthread.h>
static __thread long own;
static void *count(void *all) {
    return (void *)(own += *(long *)all);
}
int main(void) {
    pthread_t threads[3];
    long one = 1;
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, count, &one);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    return 0;
}
";

/// What libc keeps of threads that have ended is not lost.
fn leaks_of_threads() -> Result<()> {
    let workshop = Workshop::new("memcheck-leaks-threads")?;
    let program = built(&workshop, THREADS, &["-pthread"])?;
    let report = memcheck(&record(&program, &[], &workshop)?, &[], NONE)?;
    let leaks = report["leaks"].as_array().context("no leaks")?;
    let known: Vec<_> = leaks.iter().filter(|leak| leak["loss"] == "reachable").collect();
    ensure!(!known.is_empty() && known.len() == leaks.len(), "{leaks:#?}");
    workshop.done()
}

const LATE: &str = "#include <stdio.h>
#include <stdlib.h>
static volatile long sum;
int main(void) {
    long *old = malloc(64);
    old[0] = old[5] = 1;
    for (long i = 0; i < 2000000; i++)
        sum += i;
    volatile long *stale = old;
    free(old);
    long *block = malloc(100), *other = malloc(24);
    other[0] = block[0] = 2;
    sum += stale[0];
    ((volatile char *)block)[101] = 1;
    printf(\"%ld\\n\", sum > 0);
    free(other);
    return 0;
}
";

/// Where the log does not have the beginning, what is done with blocks from before is found once they are given back.
fn window() -> Result<()> {
    let workshop = Workshop::new("memcheck-window")?;
    let program = built(&workshop, LATE, &["-O0", "-fno-builtin"])?;
    let log = record(&program, &["--interval", "200k", "--keep", "2"], &workshop)?;
    let report = memcheck(&log, &[], FOUND)?;
    let errors = errors(&report)?;
    let what = |error: &Value| {
        (error["kind"].clone(), error["stack"][0]["line"].clone(), error["block"]["allocated"].is_null())
    };
    let found: Vec<_> = errors.iter().map(what).collect();
    ensure!(found == [("read".into(), 13.into(), true), ("write".into(), 14.into(), false)], "{found:?}");
    let notes = report["notes"].to_string();
    ensure!(notes.contains("does not have the beginning"), "{notes}");
    workshop.done()
}

const POOL: &str = "#include <stdio.h>
static char pool[1 << 16];
static unsigned long used;
__attribute__((noipa)) void *pool_get(int which, unsigned long size) {
    void *got = pool + used;
    used += (size + which + 15) & ~15UL;
    return got;
}
__attribute__((noipa)) void pool_put(void *block) { *(void **)block = 0; }
int main(void) {
    char *one = pool_get(0, 20), *other = pool_get(0, 20);
    one[19] = other[19] = 1;
    one[20] = 1;
    pool_put(one);
    other[0] = one[3];
    puts(\"done\");
    return 0;
}
";

/// Functions that a file names count as an allocator's.
fn named() -> Result<()> {
    let workshop = Workshop::new("memcheck-named")?;
    let names = workshop.path.join("names");
    let program = built(&workshop, POOL, &["-O0"])?;
    fs::write(&names, "pool_get allocate 1 pool\npool_put release 0 pool\n")?;
    let log = record(&program, &[], &workshop)?;
    memcheck(&log, &[], NONE)?;
    let report = memcheck(&log, &["--allocator", names.to_str().context("path")?], FOUND)?;
    let errors = errors(&report)?;
    let what: Vec<_> = errors.iter().map(|error| (error["kind"].clone(), error["stack"][0]["line"].clone())).collect();
    ensure!(what == [("write".into(), 13.into()), ("read".into(), 15.into())], "{what:?}");
    ensure!(errors[1]["block"]["freed"]["function"] == "pool_put", "{:#}", errors[1]);
    fs::write(&names, "pool_get gives\n")?;
    let wrong = bugnet(["memcheck", "--allocator", names.to_str().context("path")?, log.to_str().context("path")?])?;
    ensure!(wrong.status.code() == Some(2), "{}\n{}", wrong.status, printed(&wrong));
    workshop.done()
}

const FAR: &str = "#include <stdio.h>
#include <sys/mman.h>
static unsigned long used[2];
__attribute__((noipa)) void *pool_get(unsigned which, unsigned long size) {
    unsigned long at = used[which];
    used[which] += (size + 31) & ~15UL;
    return (char *)((which + 1UL) << 40) + at;
}
int main(void) {
    for (unsigned long which = 1; which < 3; which++)
        if (mmap((void *)(which << 40), 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
            return 1;
    for (int i = 0; i < 50; i++) {
        char *one = pool_get(0, 20), *other = pool_get(1, 20);
        one[19] = other[19] = i;
    }
    char *last = pool_get(1, 20);
    last[20] = 1;
    puts(\"done\");
    return 0;
}
";

/// What is found in a program with an allocator of its own: which errors, and in which lines.
fn with_own(name: &str, source: &str, flag: &str, names: &str) -> Result<Vec<(Value, Value)>> {
    let workshop = Workshop::new(&format!("memcheck-{name}{flag}"))?;
    let file = workshop.path.join("names");
    fs::write(&file, names)?;
    let log = record(&built(&workshop, source, &[flag])?, &[], &workshop)?;
    let report = memcheck(&log, &["--allocator", file.to_str().context("path")?, "--no-leaks"], FOUND)?;
    workshop.done()?;
    Ok(errors(&report)?.iter().map(|error| (error["kind"].clone(), error["stack"][0]["line"].clone())).collect())
}

/// Blocks whose addresses have the same lower half: what is kept of one has no place beside what is kept of the other, so the allocator's return is one
/// of the moments at which memory gets other places.
fn far() -> Result<()> {
    for flag in ["-O0", "-O2"] {
        let what = with_own("far", FAR, flag, "pool_get allocate 1 pool\n")?;
        ensure!(what == [("write".into(), 18.into())], "{flag}: {what:?}");
    }
    Ok(())
}

const CONSTANT: &str = "#include <stdio.h>
static char pool[1 << 20];
__attribute__((noipa)) int get(void) { return pool[1 << 19 | 20]; }
__attribute__((noipa)) void *pool_get(unsigned long size) { return pool + (1 << 19); }
int main(void) {
    int sum = get();
    char *block = pool_get(20);
    block[19] = 1;
    printf(\"%d\\n\", sum + get());
    return 0;
}
";

/// An access at an address that no register changes, in code that has been executed before that memory was a block's end.
fn constant() -> Result<()> {
    let what = with_own("constant", CONSTANT, "-O2", "pool_get allocate 0 pool\n")?;
    ensure!(what == [("read".into(), 3.into())], "{what:?}");
    Ok(())
}

/// The programs with errors that have them with other C libraries, too.
const ELSEWHERE: &[&str] = &[
    "background",
    "heap_write_behind",
    "heap_before",
    "heap_read_behind",
    "use_after_free",
    "double_free",
    "free_inside",
    "stale_after_realloc",
    "leaks",
];

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let trial = |name: String, body: Box<dyn FnOnce() -> Result<()> + Send>| {
        Trial::test(name, move || body().map_err(|error| Failed::from(format!("{error:?}"))))
    };
    let (mut plain, mut elsewhere, mut by_valgrind) = (Vec::new(), Vec::new(), Vec::new());
    for faulty in Faulty::all()? {
        plain.extend([&["-O0"], &["-O2"]].map(|flags| Case::new(&faulty, compiler(&faulty), flags)));
        if ELSEWHERE.contains(&&*faulty.name()) {
            elsewhere.extend(ALLOCATORS.iter().map(|allocator| Case::with(&faulty, *allocator)));
            elsewhere.extend([&["-O0"][..], &["-O0", "-static"]].map(|flags| Case::new(&faulty, "musl-gcc", flags)));
        }
        if faulty.finds.is_some() {
            by_valgrind.push(trial(format!("valgrind_{}", faulty.name()), Box::new(move || valgrind(&faulty))));
        }
    }
    let same: Vec<Case> = plain.iter().chain(&elsewhere).cloned().collect();
    let finds = |case: Case| trial(format!("finds_{}", case.name()), Box::new(move || case.finds()));
    let same = same.into_iter().map(|case| trial(format!("same_{}", case.name()), Box::new(move || case.same())));
    // gzip allocates nothing.
    let right = CORRECT.iter().filter(|program| program.name != "gzip");
    let right = right.map(|program| trial(format!("correct_{}", program.name), Box::new(move || correct(program))));
    let right = right.chain([trial("correct_cc1".to_owned(), Box::new(correct_cc1))]);
    let leaking = [&["-O0"], &["-O2"]].map(|flags| trial(format!("leaks{}", flags[0]), Box::new(move || leaks(flags))));
    let others = vec![
        trial("leaks-of-threads".to_owned(), Box::new(leaks_of_threads)),
        trial("window".to_owned(), Box::new(window)),
        trial("named".to_owned(), Box::new(named)),
        trial("far".to_owned(), Box::new(far)),
        trial("constant".to_owned(), Box::new(constant)),
    ];
    let tables = [
        others,
        one_of(2, plain.into_iter().map(finds).collect()),
        one_of(5, elsewhere.into_iter().map(finds).collect()),
        one_of(9, same.collect()),
        // What Valgrind says was the same when the programs were written.
        one_of(9, by_valgrind),
        one_of(7, right.collect()),
        one_of(2, leaking.into()),
    ];
    Ok(tables.into_iter().flatten().collect())
}
