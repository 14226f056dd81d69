//! `bugnet why` names the symptom, and ranks the faulty line among the first: over the programs with real classes of faults, for a share of them
//! that is counted; with right runs; and it says so where nothing tells that a run failed.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, must_pass, printed, run};
use bugnet_tests::slices::bugs::Faulty;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Of 100 programs, so many at least have the faulty line among the first three, and so many as the first one; 64 and 42 did when this was written. The
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
    let report = why(&[args, &["--top", "1000"]].concat(), &log)?;
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

/// The ranks of all programs, several at a time.
fn ranks() -> Result<()> {
    let all = Faulty::all()?;
    let cases: Vec<_> =
        all.iter().flat_map(|faulty| ["-O0", "-O2"].map(|optimisation| (faulty, optimisation))).collect();
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
    let source = workshop.path.join("calculator.c");
    fs::write(&source, CALCULATOR)?;
    let program = workshop.path.join("calculator");
    let built = run(Command::new("gcc").args(["-O0", "-g", "-o"]).arg(&program).arg(&source))?;
    ensure!(built.status.success(), "{}", printed(&built));
    let line = CALCULATOR.lines().position(|line| line.ends_with("// BUG")).context("no line")?;
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
    workshop.done()
}

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let failed = |error: anyhow::Error| Failed::from(format!("{error:?}"));
    let trials = vec![
        Trial::test("ranks", move || ranks().map_err(failed)),
        Trial::test("right_runs", move || right_runs().map_err(failed)),
        Trial::test("named_output", move || named_output().map_err(failed)),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}
