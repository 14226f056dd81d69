//! `bugnet memcheck --undefined` finds uses of values that nothing has set, at their lines, as Valgrind does, and none in correct programs.
//!
//! The comment lines that a program of `programs/undefined/` begins with say:
//!
//! | line | meaning |
//! |---|---|
//! | `finds: USE ORIGIN` | for what a value is used at the line that ends with `/* HERE */`, and where it comes from; `nothing` |
//! | `valgrind: no` | Valgrind does not find it there |

use anyhow::{Context, Result, bail, ensure};
use bugnet_tests::bugnet::{Job, Workshop, bugnet, printed, run, source_tree};
use bugnet_tests::correct::{CORRECT, Correct};
use bugnet_tests::sample::one_of;
use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `memcheck`'s exit statuses.
const NONE: i32 = 0;
const FOUND: i32 = 6;

/// A program that uses what is not set, or does not.
#[derive(Clone)]
struct Program {
    source: PathBuf,
    /// Use and origin.
    finds: Option<(String, String)>,
    by_valgrind: bool,
    /// From 1.
    line: Option<u64>,
}

impl Program {
    fn read(source: &Path) -> Result<Self> {
        let text = fs::read_to_string(source)?;
        let said = |key: &str| {
            let mut comments = text.lines().map_while(|line| line.strip_prefix("// "));
            comments.find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
        };
        let finds = match said("finds").context("it does not say what is found")?.split(' ').collect::<Vec<_>>()[..] {
            ["nothing"] => None,
            [kind, origin] => Some((format!("undefined-{kind}"), origin.to_owned())),
            ref other => bail!("{other:?} says nothing"),
        };
        let mut marked = text.lines().zip(1..).filter(|(line, _)| line.ends_with("/* HERE */"));
        let line = marked.next().map(|(_, number)| number);
        ensure!(line.is_some() == finds.is_some() && marked.next().is_none(), "one line is to be marked");
        Ok(Self { source: source.to_owned(), finds, by_valgrind: said("valgrind") != Some("no"), line })
    }

    fn all() -> Result<Vec<Self>> {
        let folder = source_tree().join("tests/programs/undefined");
        let mut sources = fs::read_dir(&folder)?.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
        sources.sort();
        sources.iter().map(|source| Self::read(source).with_context(|| source.display().to_string())).collect()
    }

    fn name(&self) -> String {
        self.source.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn build(&self, flag: &str, folder: &Path) -> Result<PathBuf> {
        let program = folder.join(self.name());
        let built = run(Command::new("gcc").args(["-g", "-w", flag]).arg(&self.source).arg("-o").arg(&program))?;
        ensure!(built.status.success(), "{}", printed(&built));
        Ok(program)
    }

    /// Whether the first of an error's frames of the program's own source is in the line.
    fn is_at_line(&self, error: &Value) -> bool {
        let frames = error["stack"].as_array().map_or(&[][..], Vec::as_slice);
        let own = frames.iter().find(|frame| frame["file"].as_str().is_some_and(|file| Path::new(file) == self.source));
        own.is_some_and(|own| own["line"].as_u64() == self.line)
    }
}

/// What `memcheck` says of a recording, which is to end with this status.
fn memcheck(log: &Path, options: &[&str], status: i32) -> Result<Value> {
    let path = log.to_str().context("path")?;
    let args = [&["memcheck", "--undefined", "--no-leaks", "--json"], options, &[path]].concat();
    let output = bugnet(args)?;
    ensure!(output.status.code() == Some(status), "status {} and not {status}\n{}", output.status, printed(&output));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The use is found, where it is, and no other.
fn finds(program: &Program, flag: &str) -> Result<()> {
    let workshop = Workshop::new(&format!("undefined-{}{flag}", program.name()))?;
    let built = program.build(flag, &workshop.path)?;
    let log = workshop.path.join("log");
    let recorded = run(&mut Job::new(&workshop.path, [built.to_string_lossy()]).recorded(&log, &[])?)?;
    ensure!(log.exists(), "{}", printed(&recorded));
    let Some((kind, origin)) = &program.finds else {
        memcheck(&log, &[], NONE)?;
        return workshop.done();
    };
    let report = memcheck(&log, &[], FOUND)?;
    let errors = report["errors"].as_array().context("no errors")?;
    let first = errors.first().context("no error is reported")?;
    let fits = first["kind"] == **kind && (origin == "any" || first["origin"]["kind"] == **origin);
    ensure!(fits && program.is_at_line(first), "the first error is another one: {first:#}");
    let other = errors.iter().find(|error| !program.is_at_line(error));
    ensure!(other.is_none(), "there are others: {errors:#?}");
    workshop.done()
}

/// Valgrind says something about the same line, or nothing, as the program says.
fn valgrind(program: &Program) -> Result<()> {
    let workshop = Workshop::new(&format!("undefined-{}-valgrind", program.name()))?;
    let built = program.build("-O0", &workshop.path)?;
    let mut command = Command::new("valgrind");
    let output = run(command.args(["-q", "--leak-check=no"]).arg(&built).stdin(Stdio::null()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let file = program.source.file_name().unwrap_or_default().to_string_lossy();
    let at = format!("({file}:{})", program.line.unwrap_or(0));
    ensure!(said.contains(&at) == (program.by_valgrind && program.finds.is_some()), "Valgrind, about {at}:\n{said}");
    ensure!(program.finds.is_some() || said.is_empty(), "Valgrind finds something:\n{said}");
    workshop.done()
}

/// Those of the correct programs that are looked at here, too.
const FOLLOWED: [&str; 7] = ["ls", "sort", "grep", "gzip", "bash", "sqlite3", "perl"];

fn correct(program: &Correct) -> Result<()> {
    let workshop = Workshop::new(&format!("undefined-correct-{}", program.name))?;
    let log = program.record(&workshop)?;
    let report = memcheck(&log, &[], NONE)?;
    ensure!(report["undefined"]["instructions"].as_u64() > Some(100), "nothing was followed: {}", report["undefined"]);
    workshop.done()
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    let mut trial = |name: String, body: Box<dyn FnOnce() -> Result<()> + Send>| {
        // What valgrind says was the same when the programs were written; `make soak` asks it again.
        let is_long = name.starts_with("valgrind_");
        let trial = Trial::test(name, move || body().map_err(|error| Failed::from(format!("{error:#}"))));
        trials.push(trial.with_ignored_flag(is_long));
    };
    for program in Program::all()? {
        for flag in ["-O0", "-O2"] {
            let program = program.clone();
            trial(format!("finds_{}{flag}", program.name()), Box::new(move || finds(&program, flag)));
        }
        trial(format!("valgrind_{}", program.name()), Box::new(move || valgrind(&program)));
    }
    for program in CORRECT.iter().filter(|program| FOLLOWED.contains(&program.name)) {
        trial(format!("correct_{}", program.name), Box::new(move || correct(program)));
    }
    Ok(one_of(3, trials))
}
