//! `bugnet why` names the symptom, and ranks the faulty line among the first: over the programs with real classes of faults, for a share of them
//! that is counted (with `--include-ignored`, over all of them twice); with right runs; and it says so where nothing tells that a run failed.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, must_pass, printed, run};
use bugnet_tests::causes::{self, Cause};
use bugnet_tests::faulty::{self, Fails};
use bugnet_tests::sample::{one_of, some_of};
use bugnet_tests::slices::bugs::Faulty;
use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Of 100 programs (50, each not optimised and optimised), so many at least have the faulty line among the first three, and so many as the first one; 61 and 43 did when this was written. The
/// goal is 80 and 50. Those that miss, and why:
///
/// | programs | why |
/// |---|---|
/// | map_key, missing_return, wild_call, wrong_operator, all optimised | the compiler has left nothing of the line (`gone` in their sources) |
/// | use_after_free, stale_pointer, uninitialised | a block is used that has become another one, or of which an earlier one left the bytes: no memory error that is known |
/// | missing_case, format_mismatch, off_by_one | right output takes the same line, or the line is one that decides, far from the value |
/// | swapped_arguments, wrong_constant, map_key | the line only copies, and lines that compute are nearer |
/// | deep_recursion, thrown | lines of the recursion, and those of a loop that is unrolled, are nearer |
const AMONG_THREE: usize = 60;
const FIRST: usize = 40;

fn why(args: &[&str], log: &Path) -> Result<Value> {
    let output = must_pass(&[&["why", "--json"], args].concat(), log)?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn text<'a>(value: &'a Value, at: &str) -> &'a str {
    value.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

/// The rank of a line, from 1.
fn rank(report: &Value, file: &Path, line: u32) -> Option<usize> {
    let suspects = report["suspects"].as_array()?;
    let is_it = |one: &Value| text(one, "/file") == file.to_string_lossy() && one["line"] == line;
    Some(suspects.iter().position(is_it)? + 1)
}

/// What is told about a faulty program: the rank of its line.
fn judged(faulty: &Faulty, optimisation: &str) -> Result<Option<usize>> {
    let workshop = Workshop::new(&format!("why-{}{optimisation}", faulty.name()))?;
    let [program, repaired] = faulty.build(optimisation, &workshop.path)?;
    let job = |program: &Path| Job::new(&workshop.path, [program.to_string_lossy()]);
    let right = run(&mut job(&repaired).native()?)?;
    ensure!(right.status.success(), "repaired, it is still wrong\n{}", printed(&right));
    let expected = workshop.path.join("expected");
    fs::write(&expected, &right.stdout)?;
    let log = workshop.path.join("log");
    let failed = run(&mut job(&program).recorded(&log, &[])?)?;
    faulty.question(&failed, &right)?;
    let expected = expected.to_string_lossy();
    let args: &[&str] = if faulty.signal.is_some() { &[] } else { &["--expect", &expected] };
    // However busy the machine is.
    let report = why(&[args, &["--top", "1000", "--thorough"]].concat(), &log)?;
    let symptom = text(&report, "/symptom/symptom");
    match &faulty.signal {
        Some(signal) => {
            let what = text(&report, "/symptom/what");
            ensure!(symptom == "crash" && what.contains(signal.as_str()), "{symptom}: {what}");
        }
        None => ensure!(symptom == "output", "{symptom}"),
    }
    workshop.done()?;
    Ok(rank(&report, &faulty.source, faulty.line))
}

/// The ranks of all programs, several at a time: each optimised or not, in turn, or both.
fn ranks(both: bool) -> Result<()> {
    let all = Faulty::all()?;
    let each = |(number, faulty)| [(number, faulty, "-O0"), (number + 1, faulty, "-O2")];
    let wanted = |(number, faulty, optimisation)| (both || number % 2 == 0).then_some((faulty, optimisation));
    let cases = all.iter().enumerate().flat_map(each).filter_map(wanted);
    let cases: Vec<(&Faulty, &str)> = some_of(4, cases).collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZeroUsize::get) {
            scope.spawn(|| {
                while let Some((faulty, optimisation)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let name = format!("{}{optimisation}", faulty.name());
                    let rank = judged(faulty, optimisation).with_context(|| name.clone());
                    println!("{name}: {rank:?}");
                    found.lock().expect("nobody panics").push(rank);
                }
            });
        }
    });
    let ranks = found.into_inner().expect("nobody panics").into_iter().collect::<Result<Vec<_>>>()?;
    let count = |most: usize| ranks.iter().flatten().filter(|rank| **rank <= most).count();
    let (all, among, first) = (ranks.len(), count(3), count(1));
    println!("of {all} programs, {among} have the faulty line among the first three, {first} as the first");
    ensure!(among * 100 >= all * AMONG_THREE, "{among} of {all} among the first three");
    ensure!(first * 100 >= all * FIRST, "{first} of {all} as the first");
    Ok(())
}

const CALCULATOR: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int limit(int value) {
    if (value > 100)
        value = value % 100; // BUG
    return value;
}

int main(int argc, char **argv) {
    int sum = 0;
    for (int i = 1; i < argc; i++)
        sum += limit(atoi(argv[i]));
    printf("sum %d\n", sum);
    return sum < 100 && argc > 2 ? 3 : 0;
}
"#;

/// A program with a fault.
struct Calculator {
    source: PathBuf,
    /// The faulty line, from 1.
    line: u32,
    program: PathBuf,
    folder: PathBuf,
}

impl Calculator {
    /// Records it with arguments.
    fn record(&self, name: &str, args: &[&str]) -> Result<PathBuf> {
        let log = self.folder.join(name);
        let command = std::iter::once(self.program.to_string_lossy().into_owned());
        let job = Job::new(&self.folder, command.chain(args.iter().map(|arg| (*arg).to_owned())));
        run(&mut job.recorded(&log, &[])?)?;
        Ok(log)
    }
}

fn calculator(workshop: &Workshop) -> Result<Calculator> {
    compiled(workshop, CALCULATOR)
}

fn compiled(workshop: &Workshop, text: &str) -> Result<Calculator> {
    let source = workshop.path.join("calculator.c");
    fs::write(&source, text)?;
    let program = workshop.path.join("calculator");
    let built = run(Command::new("gcc").args(["-O0", "-g", "-o"]).arg(&program).arg(&source))?;
    ensure!(built.status.success(), "{}", printed(&built));
    let line = text.lines().position(|line| line.ends_with("// BUG")).context("no line")?;
    Ok(Calculator { source, line: line as u32 + 1, program, folder: workshop.path.clone() })
}

/// Right runs tell more: the line that only the run that failed executed comes first, with its coefficients.
fn right_runs() -> Result<()> {
    let workshop = Workshop::new("why-right-runs")?;
    let calculator = calculator(&workshop)?;
    let (source, line) = (&calculator.source, calculator.line);
    let record = |name: &str, args: &[&str]| calculator.record(name, args);
    let (bad, one, other) =
        (record("bad", &["50", "150"])?, record("one", &["50", "60"])?, record("other", &["90", "99"])?);
    let (one, other) = (one.to_string_lossy(), other.to_string_lossy());
    let report = why(&["--good", &one, "--good", &other], &bad)?;
    // 50 + 50 is 100: it exits with 0, so nothing shows it.
    ensure!(text(&report, "/symptom/symptom") == "none", "{report}");
    let bad = record("worse", &["20", "150"])?;
    let report = why(&["--good", &one, "--good", &other], &bad)?;
    ensure!(report["symptom"]["symptom"] == "exit" && report["symptom"]["status"] == 3, "{report}");
    ensure!(rank(&report, source, line) == Some(1), "{report}");
    let spectrum = &report["suspects"][0]["spectrum"];
    ensure!(spectrum["passed"] == 0 && spectrum["all"] == 2 && spectrum["ochiai"] == 1.0, "{spectrum}");
    ensure!(spectrum["dstar"].is_null(), "{spectrum}");
    ensure!(!report["differs"].as_array().context("nothing differs")?.is_empty(), "{report}");
    workshop.done()
}

/// The output may be named by a byte, or by a text; what nothing tells is said.
fn named_output() -> Result<()> {
    let workshop = Workshop::new("why-named-output")?;
    let calculator = calculator(&workshop)?;
    let (source, line) = (&calculator.source, calculator.line);
    let record = |name: &str, args: &[&str]| calculator.record(name, args);
    let log = record("log", &["150"])?;
    let page = String::from_utf8(must_pass(&["why"], &log)?.stdout)?;
    ensure!(page.starts_with("Nothing tells that it failed: exit status 0."), "{page}");
    ensure!(page.contains("--expect") && !page.contains("Lines to look at"), "{page}");
    let by_byte = why(&["--wrong", "4"], &log)?;
    ensure!(by_byte["symptom"]["symptom"] == "output" && by_byte["symptom"]["byte"] == 4, "{by_byte}");
    let by_text = why(&["--wrong", "m 50"], &log)?;
    ensure!(by_text["symptom"]["byte"] == 2, "{by_text}");
    ensure!(rank(&by_byte, source, line).is_some(), "{by_byte}");
    let page = String::from_utf8(must_pass(&["why", "--wrong", "4"], &log)?.stdout)?;
    ensure!(
        page.starts_with("Symptom: byte 4 of the output is wrong") && page.contains("Made by, the last first:"),
        "{page}"
    );
    ensure!(page.contains("Lines to look at first:") && page.contains("   bugnet debug --at "), "{page}");
    ensure!(page.lines().filter(|line| line.starts_with("   bugnet debug")).count() <= 3, "{page}");
    let expected = workshop.path.join("expected");
    fs::write(&expected, "sum 50\n")?;
    let report = why(&["--expect", &expected.to_string_lossy()], &log)?;
    ensure!(report["symptom"]["symptom"] == "none" && report["symptom"]["is_compared"] == true, "{report}");
    fs::write(&expected, "sum 50\nmore\n")?;
    let report = why(&["--expect", &expected.to_string_lossy()], &log)?;
    ensure!(report["symptom"]["symptom"] == "short" && report["symptom"]["missing"] == "more", "{report}");
    ensure!(text(&report, "/asked").starts_with("the last condition before the end, in main at "), "{report}");
    workshop.done()
}

/// What a change means is said in terms of the line; the instructions are a detail behind that.
fn source_terms() -> Result<()> {
    let text = CALCULATOR.replace("value > 100", "value >= 100").replace("sum < 100", "sum < 0");
    let workshop = Workshop::new("why-source-terms")?;
    let calculator = compiled(&workshop, &text)?;
    let log = calculator.record("log", &["100"])?;
    let expected = workshop.path.join("expected");
    fs::write(&expected, "sum 100\n")?;
    let report = why(&["--expect", &expected.to_string_lossy(), "--top", "10"], &log)?;
    let suspects = report["suspects"].as_array().context("no suspects")?;
    let line = text.lines().position(|line| line.contains("value >= 100")).context("no line")? as u64 + 1;
    let suspect = suspects.iter().find(|one| one["line"] == line).with_context(|| format!("{report:#}"))?;
    let why: Vec<&str> = suspect["why"].as_array().context("no reasons")?.iter().filter_map(Value::as_str).collect();
    let tried = why.iter().find(|why| why.contains("that was tried")).with_context(|| format!("{why:?}"))?;
    let is_said = ["a constant greater by 1", "`value > 100` instead of `value >= 100`", "`value >= 100` always false"];
    ensure!(
        is_said.iter().any(|said| tried.starts_with(&format!("with {said}, the output is as it should be"))),
        "{tried}"
    );
    ensure!(tried.ends_with("`)"), "{tried}");
    workshop.done()
}

/// A small program that fails in a way of its own, its compiler, and what is told of that.
struct Kind {
    name: &'static str,
    compiler: &'static [&'static str],
    text: &'static str,
    /// How it is recorded.
    record: &'static [&'static str],
    symptom: &'static str,
    /// What the page has, whatever else.
    says: &'static [&'static str],
    /// The line that ends with `// BUG` is among so many; 0 if there is none.
    among: usize,
}

const C: &[&str] = &["gcc", "-O0", "-g", "-w", "-pthread", "-xc"];

const KINDS: [Kind; 14] = [
    Kind {
        name: "panic",
        compiler: &["rustc", "-g"],
        text: "fn pick(all: &[i32], at: usize) -> i32 {\n    all[at]\n}\nfn main() {\n    let all = [3, 5, 8];\n    \
               let at = std::env::args().count() + 6; // BUG\n    println!(\"{}\", pick(&all, at));\n}\n",
        record: &[],
        symptom: "exit",
        says: &[
            "exit status 101, after a panic",
            "index out of bounds: the len is 3 but the index is 7",
            "in program::pick",
        ],
        among: 3,
    },
    Kind {
        name: "thrown",
        compiler: &["g++", "-O0", "-g", "-xc++"],
        text: "#include <stdexcept>\nstatic int half(int value) {\n    if (value % 2)\n        throw std::runtime_error(\"odd\");\n    \
               return value / 2;\n}\nint main(int argc, char **) {\n    int value = argc * 3 + 2; // BUG\n    return half(value);\n}\n",
        record: &[],
        symptom: "crash",
        says: &["an exception that nobody catches", "  |   what():  odd", "by which __cxa_throw was called"],
        among: 3,
    },
    Kind {
        name: "exits",
        compiler: C,
        text: "#include <stdio.h>\n#include <stdlib.h>\nint main(int argc, char **argv) {\n    int left = argc - 2; // BUG\n    \
               if (left < 0) {\n        fprintf(stderr, \"%d left\\n\", left);\n        exit(3);\n    }\n    return 0;\n}\n",
        record: &[],
        symptom: "exit",
        says: &["Symptom: exit status 3\n", "  | -1 left"],
        among: 3,
    },
    Kind {
        name: "endless",
        compiler: C,
        text: "#include <sys/time.h>\nstatic int step(int n) {\n    return n > 5 ? n - 2 : n; // BUG\n}\nstatic int count(int n) {\n    \
               int steps = 0;\n    while (n != 0) {\n        n = step(n);\n        steps++;\n    }\n    return steps;\n}\n\
               int main(int argc, char **argv) {\n    struct itimerval soon = {{0, 0}, {0, 100000}};\n    \
               setitimer(ITIMER_REAL, &soon, 0);\n    return count(argc + 8);\n}\n",
        record: &[],
        symptom: "hang",
        says: &["SIGALRM ended it", "it was in count at ", "the condition by which the loop goes on, in count at "],
        among: 3,
    },
    Kind {
        name: "endless_for_long",
        compiler: C,
        text: "#include <sys/time.h>\nstatic int step(int n) {\n    return n > 5 ? n - 2 : n; // BUG\n}\nstatic int count(int n) {\n    \
               int steps = 0;\n    while (n != 0) {\n        n = step(n);\n        steps++;\n    }\n    return steps;\n}\n\
               int main(int argc, char **argv) {\n    struct itimerval soon = {{0, 0}, {0, 400000}};\n    \
               setitimer(ITIMER_REAL, &soon, 0);\n    return count(argc + 8);\n}\n",
        record: &["--interval", "200k"],
        symptom: "hang",
        says: &[
            "SIGALRM ended it",
            "it was in count at ",
            "the condition by which the loop goes on, in count at ",
            "where it executed the same code as at the end",
        ],
        among: 3,
    },
    Kind {
        name: "deadlock",
        compiler: C,
        text: "#include <pthread.h>\n#include <unistd.h>\nstatic pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;\n\
               static pthread_barrier_t both;\nstatic void *other(void *none) {\n    pthread_mutex_lock(&b);\n    \
               pthread_barrier_wait(&both);\n    pthread_mutex_lock(&a); // BUG\n    return none;\n}\nint main(void) {\n    pthread_t thread;\n    \
               alarm(2);\n    pthread_barrier_init(&both, 0, 2);\n    pthread_create(&thread, 0, other, 0);\n    pthread_mutex_lock(&a);\n    \
               pthread_barrier_wait(&both);\n    pthread_mutex_lock(&b);\n    return 0;\n}\n",
        record: &[],
        symptom: "hang",
        says: &["2 threads wait for each other: a deadlock", "waits for a\n", "took b, which it holds"],
        among: 2,
    },
    Kind {
        name: "deadlock_alone",
        compiler: C,
        text: "#include <pthread.h>\n#include <unistd.h>\nstatic pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n\
               static void inner(void) {\n    pthread_mutex_lock(&lock); // BUG\n}\nint main(void) {\n    alarm(1);\n    \
               pthread_mutex_lock(&lock);\n    inner();\n    return 0;\n}\n",
        record: &[],
        symptom: "hang",
        says: &["a thread waits for itself: a deadlock", "waits for lock\n", "Note: Races were not looked for"],
        among: 1,
    },
    Kind {
        name: "published",
        compiler: C,
        text: "#include <pthread.h>\n#include <stdatomic.h>\nstatic atomic_long ready, seen;\nstatic long value;\nstatic void fill(void) {\n    \
               while (!seen)\n        ;\n    value = 7;\n}\nstatic void *other(void *none) {\n    ready = 1; // BUG\n    fill();\n    \
               return none;\n}\nint main(void) {\n    pthread_t thread;\n    pthread_create(&thread, 0, other, 0);\n    while (!ready)\n        ;\n    \
               int found = value;\n    seen = 1;\n    pthread_join(thread, 0);\n    return found == 7 ? 0 : 3;\n}\n",
        record: &[],
        symptom: "exit",
        says: &["Symptom: exit status 3\n", "it told another thread, which then read at main at "],
        among: 1,
    },
    Kind {
        name: "silent",
        compiler: C,
        text: "#include <stdlib.h>\nint main(void) {\n    int *all = malloc(4 * sizeof *all);\n    for (int i = 0; i <= 4; i++)\n        \
               all[i] = i; // BUG\n    return all[0];\n}\n",
        record: &[],
        symptom: "silent",
        says: &[
            "it did something illegal",
            "behind the end of a block of 16 bytes",
            ", allocated by main at program.c:3",
        ],
        among: 1,
    },
    Kind {
        name: "recursion",
        compiler: C,
        text: "struct node {\n    struct node *next;\n};\nstatic int depth(struct node *node) {\n    char room[200];\n    room[0] = 1;\n    \
               if (!node)\n        return 0;\n    return room[0] + depth(node->next);\n}\nint main(void) {\n    static struct node all[2];\n    \
               all[0].next = &all[1];\n    all[1].next = &all[0]; // BUG\n    return depth(all);\n}\n",
        record: &[],
        symptom: "crash",
        says: &["stack overflow", "the condition by which depth was called"],
        among: 4,
    },
    Kind {
        name: "references",
        compiler: C,
        text: "#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nstruct text {\n    long refs;\n    \
               char name[56];\n};\nstatic struct text *get(struct text *t, int late) {\n    long refs = t->refs + 1;\n    usleep(late);\n    \
               t->refs = refs; // BUG\n    return t;\n}\nstatic void put(struct text *t) {\n    if (--t->refs == 0)\n        free(t);\n}\n\
               static void *slow(void *t) {\n    put(get(t, 300000));\n    return NULL;\n}\nstatic void *quick(void *t) {\n    \
               usleep(100000);\n    struct text *own = get(t, 0);\n    usleep(500000);\n    put(own);\n    return NULL;\n}\n\
               int main(void) {\n    struct text *t = calloc(1, sizeof *t);\n    t->refs = 1;\n    pthread_t one, two;\n    \
               pthread_create(&one, NULL, slow, t);\n    pthread_create(&two, NULL, quick, t);\n    pthread_join(one, NULL);\n    \
               pthread_join(two, NULL);\n    printf(\"%s\\n\", t->name);\n    return 0;\n}\n",
        record: &[],
        symptom: "silent",
        says: &[
            "was given back",
            "came between two of one call (RWW: ",
            "without an order, before the block was given back",
        ],
        among: 1,
    },
    Kind {
        name: "index",
        compiler: C,
        text: "#include <stdlib.h>\nint main(int argc, char **argv) {\n    long *all = malloc(10 * sizeof *all);\n    \
               int at = (argc + 9) * 2; // BUG\n    all[at] = 1;\n    free(all);\n    return 0;\n}\n",
        record: &[],
        symptom: "silent",
        says: &["invalid write of 8 bytes", "a pointer into the block"],
        among: 3,
    },
    Kind {
        name: "member",
        compiler: C,
        text: "#include <stdlib.h>\n#include <string.h>\nstruct entry {\n    char name[16];\n    struct entry *next;\n    long value;\n};\n\
               static struct entry *all;\nstatic void add(const char *name, long value) {\n    struct entry *e = malloc(sizeof *e);\n    \
               e->next = all;\n    e->value = value;\n    strcpy(e->name, name); // BUG\n    all = e;\n}\nint main(void) {\n    \
               add(\"short\", 1);\n    add(\"one_of_21_characters_\", 2);\n    add(\"other\", 3);\n    long sum = 0;\n    \
               for (struct entry *e = all; e; e = e->next)\n        sum += e->value;\n    return sum != 6;\n}\n",
        record: &[],
        symptom: "crash",
        says: &["what it calls overwrites a part of a value that program.c:11 had stored whole"],
        among: 1,
    },
    Kind {
        name: "no_lines",
        compiler: &["gcc", "-O0", "-w", "-xc"],
        text: "int main(int argc, char **argv) {\n    int *at = argc > 9 ? &argc : 0;\n    return *at;\n}\n",
        record: &[],
        symptom: "crash",
        says: &["SIGSEGV reading 0x0", "program has no line information, so no lines can be named: build it with -g"],
        among: 0,
    },
];

/// What is told of each kind of failure, on a page, or in a report with the symptom.
fn kind(kind: &Kind, for_symptom: bool) -> Result<()> {
    let workshop = Workshop::new(&format!("why-kind-{}-{for_symptom}", kind.name))?;
    let extension = if kind.compiler[0] == "rustc" { "rs" } else { "c" };
    let (source, program) = (workshop.path.join("program").with_extension(extension), workshop.path.join("program"));
    fs::write(&source, kind.text)?;
    let built = run(Command::new(kind.compiler[0]).args(&kind.compiler[1..]).arg("-o").arg(&program).arg(&source))?;
    ensure!(built.status.success(), "{}", printed(&built));
    let log = workshop.path.join("log");
    let mut recorded = Job::new(&workshop.path, [program.to_string_lossy()]).recorded(&log, kind.record)?;
    // With it, the panic's own report is most of what is executed.
    run(recorded.env("RUST_BACKTRACE", "0"))?;
    let line = kind.text.lines().position(|line| line.ends_with("// BUG")).map(|before| before + 1);
    if for_symptom {
        let report = why(&["--top", "4"], &log)?;
        ensure!(text(&report, "/symptom/symptom") == kind.symptom, "{report:#}");
        let rank = line.map(|line| rank(&report, &source, line as u32));
        ensure!(rank.is_none_or(|rank| rank.is_some_and(|rank| rank <= kind.among)), "{rank:?} in {report:#}");
        return workshop.done();
    }
    let page = String::from_utf8(must_pass(&["why", "--top", "4"], &log)?.stdout)?;
    for says in kind.says {
        ensure!(page.contains(says), "no {says:?} in\n{page}");
    }
    if let Some(line) = line {
        let rank = causes::rank(&page, &source, line);
        ensure!(rank.is_some_and(|rank| rank <= kind.among), "line {line} has rank {rank:?} in\n{page}");
    }
    workshop.done()
}

/// Programs of `programs/faulty` of which each needs a way of its own to have the faulty line among the first three.
const FAULTY: [(&str, &str); 11] = [
    ("tree_remove", "a check for a null pointer is missing where it is used"),
    ("maze", "a check lets a wrong index pass"),
    ("machine", "a check lets a wrong index pass that finds a wrong function"),
    ("hex", "the size of a block is computed wrong, of which nothing shows"),
    ("picture", "the size of a block is computed wrong, and libc finds out"),
    ("print_queue", "a member is not set"),
    ("word_index", "a line that would have set a member is not executed"),
    ("split_pairs", "what is given back is no block"),
    ("digits", "a variable of a function's own is not set back"),
    ("ledger", "a member of a global variable is not set back"),
    ("journal", "a function that is called takes the same lock"),
];

fn faulty(name: &str) -> Result<()> {
    let all = faulty::Program::all()?;
    let program = all.iter().find(|program| program.name() == name).context("there is no such program")?;
    let workshop = Workshop::new(&format!("why-faulty-{name}"))?;
    let [wrong, right] = program.build("-O0", &workshop.path)?;
    let job = program.job(&wrong, &program.run, &workshop.path);
    let mut log = workshop.path.join("log");
    let expected = workshop.path.join("expected").to_string_lossy().into_owned();
    let mut args = vec!["--top", "3"];
    match program.fails {
        Fails::Hang => {
            run(&mut job.recorded(&log, &["--until-fail", "--fail-if", "timeout:5", "--no-pack"])?)?;
            log.push("failing");
        }
        _ => drop(run(&mut job.recorded(&log, &[])?)?),
    }
    if program.fails == Fails::Output {
        let right = run(&mut program.job(&right, &program.run, &workshop.path).native()?)?;
        fs::write(&expected, &right.stdout)?;
        args.extend(["--expect", &expected]);
    }
    let report = why(&args, &log)?;
    let ranks = program.lines.iter().filter_map(|line| rank(&report, &program.source, *line));
    ensure!(ranks.min().is_some(), "none of {:?} is among the first three: {report:#}", program.lines);
    workshop.done()
}

/// A program of `programs/causes`.
fn cause(cause: &Cause, for_symptom: bool) -> Result<()> {
    let workshop = Workshop::new(&format!("why-cause-{}-{for_symptom}", cause.name()))?;
    cause.asked(&workshop.path, for_symptom)?;
    workshop.done()
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let failed = |error: anyhow::Error| Failed::from(format!("{error:?}"));
    let trials = vec![
        Trial::test("ranks", move || ranks(false).map_err(failed)),
        Trial::test("ranks-all", move || ranks(true).map_err(failed)).with_ignored_flag(true),
        Trial::test("right_runs", move || right_runs().map_err(failed)),
        Trial::test("named_output", move || named_output().map_err(failed)),
        Trial::test("source_terms", move || source_terms().map_err(failed)),
    ];
    let (mut kinds, mut reports, mut causes) = (Vec::new(), Vec::new(), Vec::new());
    for one in &KINDS {
        kinds.push(Trial::test(format!("kind_{}", one.name), move || kind(one, false).map_err(failed)));
        reports.push(Trial::test(format!("report_of_{}", one.name), move || kind(one, true).map_err(failed)));
    }
    for one in Cause::all()?.into_iter().map(Arc::new) {
        if one.has_symptom() {
            let (name, one) = (format!("report_of_cause_{}", one.name()), one.clone());
            reports.push(Trial::test(name, move || cause(&one, true).map_err(failed)));
        }
        causes.push(Trial::test(format!("cause_{}", one.name()), move || cause(&one, false).map_err(failed)));
    }
    // On Cascade Lake, the line of `digits` is the fourth: `k <= b->count` three lines below it makes the output right, too. Whether that was so before on such a
    // processor is not known, nor why it comes first there.
    let faulty = FAULTY.map(|(name, _)| {
        let trial = Trial::test(format!("faulty_{name}"), move || faulty(name).map_err(failed));
        trial.with_ignored_flag(name == "digits")
    });
    let tables = [trials, one_of(2, kinds), one_of(2, causes), one_of(6, reports), one_of(3, faulty.into())];
    Ok(tables.into_iter().flatten().collect())
}
