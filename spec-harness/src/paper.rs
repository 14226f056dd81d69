//! What the paper measures of bugs, measured again ("Software Profiling for Deterministic Replay Debugging of User Code", sections 6.1 to 6.3): how long
//! before a failure a wrong run parts from a right one, how much of that is in the slice of the failure, how large a log of it is, and how much
//! memory it touches. The programs are those with a fault in `tests/programs/slices`, and old libraries in `spec-harness/real`.

use crate::machine::Machine;
use crate::table::{Style, count, lines, size};
use crate::why::real;
use anyhow::{Context, Result, ensure};
use bugnet_replay::log::{Log, Selection};
use bugnet_tests::bugnet::{Job, Workshop, binary, must_pass, printed, run};
use bugnet_tests::faulty::Fails;
use bugnet_tests::slices::bugs::Faulty;
use plotters::prelude::*;
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Instructions of an interval: small, so that few of those before the window are in the log that is counted.
const INTERVAL: u64 = 10_000;
/// How the published libraries are called in the table, in place of how they are optimised.
const PUBLISHED: &str = "real";
/// The program whose differences are drawn over time, as the paper's Figure 3 has them for gzip.
const DRAWN: &str = "deep_recursion";

/// The distance of a failure from its cause.
#[derive(Debug, Serialize)]
struct Bug {
    name: String,
    optimisation: &'static str,
    /// What is wrong, and where.
    description: String,
    line: u32,
    /// How it fails.
    fails: String,
    /// Instructions of the run.
    instructions: u64,
    /// Instructions from the first difference to the end.
    window: u64,
    /// From the first 10,000 on in which more than 30 stores differ; none if there are not so many.
    deviation: Option<u64>,
    thin: Share,
    full: Share,
    /// Bytes of memory that instructions of the window access.
    touched: u64,
    /// Bytes of the records of the intervals that the window lies in.
    records: u64,
    /// The same, compressed.
    log: u64,
}

/// A slice's part of the window.
#[derive(Clone, Copy, Debug, Serialize)]
struct Share {
    instructions: u64,
    touched: u64,
}

/// A run's differences over time.
#[derive(Debug, Serialize)]
struct Curve {
    instructions: u64,
    /// From which instruction on, and how many stores differ in [`INTERVAL`] instructions.
    points: Vec<(u64, u64)>,
}

/// Measures all programs, and writes table, figures and plots to a folder; how many could not be measured.
pub fn run_all(folder: &Path, only: &[String]) -> Result<usize> {
    std::fs::create_dir_all(folder)?;
    let (mut bugs, mut failed) = (Vec::new(), 0);
    let is_chosen = |name: &str| only.is_empty() || only.iter().any(|part| name.contains(part.as_str()));
    let mut measured = |name: &str, optimisation: &'static str, bug: Result<Bug>| match bug {
        Ok(bug) => bugs.push(bug),
        Err(e) => {
            failed += 1;
            eprintln!("{name} {optimisation}: NOT MEASURED: {e:#}");
        }
    };
    for faulty in Faulty::all()?.iter().filter(|faulty| is_chosen(&faulty.name())) {
        for optimisation in ["-O0", "-O2"] {
            eprintln!("{} {optimisation} ...", faulty.name());
            measured(&faulty.name(), optimisation, of_tests(faulty, optimisation, folder));
        }
    }
    for path in real::all()? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if is_chosen(&name) {
            eprintln!("{name} ...");
            match published(&path, folder).transpose() {
                Some(bug) => measured(&name, PUBLISHED, bug),
                None => eprintln!("{name}: it does not end, or no version of the library with the mend is published"),
            }
        }
    }
    ensure!(!bugs.is_empty(), "no program was measured");
    let report = table(&bugs);
    print!("{report}");
    std::fs::write(folder.join("paper.md"), report)?;
    let figures = serde_json::json!({ "machine": Machine::here(), "bugs": bugs });
    std::fs::write(folder.join("paper.json"), serde_json::to_vec_pretty(&figures)?)?;
    draw_windows(&folder.join("windows.svg"), &bugs)?;
    Ok(failed)
}

fn number(value: &Value, path: &str) -> Result<u64> {
    value.pointer(path).and_then(Value::as_u64).with_context(|| format!("no {path} in {value}"))
}

fn json(args: &[&str], log: &Path) -> Result<Value> {
    Ok(serde_json::from_slice(&must_pass(args, log)?.stdout)?)
}

/// A program with a fault.
struct Subject {
    name: String,
    optimisation: &'static str,
    description: String,
    line: u32,
    fails: String,
    /// As it is, and as it should be.
    programs: [PathBuf; 2],
}

/// One of the small ones of the tests.
fn of_tests(faulty: &Faulty, optimisation: &'static str, folder: &Path) -> Result<Bug> {
    let workshop = Workshop::new(&format!("paper-{}{optimisation}", faulty.name()))?;
    let subject = Subject {
        name: faulty.name(),
        optimisation,
        description: faulty.description.clone(),
        line: faulty.line,
        fails: faulty.signal.clone().unwrap_or_else(|| "output".to_owned()),
        programs: faulty.build(optimisation, &workshop.path)?,
    };
    let bug = measure(subject, &workshop.path, folder, |failed, right| faulty.question(failed, right))?;
    workshop.done()?;
    Ok(bug)
}

/// A known fault in a published library; none if one cannot compare it.
fn published(path: &Path, folder: &Path) -> Result<Option<Bug>> {
    let Some(real::Pair { name, what: description, fails, line, programs }) = real::pair(path)? else {
        return Ok(None);
    };
    let workshop = Workshop::new(&format!("paper-{name}"))?;
    let said = match &fails {
        Fails::Output => "output".to_owned(),
        Fails::Signal(signal) => signal.clone(),
        _ => return Ok(None),
    };
    let question = |failed: &Output, right: &Output| -> Result<Vec<String>> {
        if fails != Fails::Output {
            ensure!(failed.status.signal().is_some(), "{}\n{}", failed.status, printed(failed));
            return Ok(Vec::new());
        }
        let first = failed.stdout.iter().zip(&right.stdout).position(|(is, should_be)| is != should_be);
        let first = first.unwrap_or(failed.stdout.len().min(right.stdout.len()));
        ensure!(first < failed.stdout.len(), "no byte of the output is wrong");
        Ok(vec!["--output".to_owned(), (failed.stderr.len() + first).to_string()])
    };
    let subject = Subject { name, optimisation: PUBLISHED, description, line, fails: said, programs };
    let bug = measure(subject, &workshop.path, folder, question)?;
    workshop.done()?;
    Ok(Some(bug))
}

fn measure(
    subject: Subject,
    workshop: &Path,
    folder: &Path,
    question: impl Fn(&Output, &Output) -> Result<Vec<String>>,
) -> Result<Bug> {
    let Subject { name, optimisation, description, line, fails, programs: [program, repaired] } = subject;
    let [good, bad] = ["good", "bad"].map(|name| workshop.join(name));
    let record = |program: &Path, log: &Path| {
        let job = Job::new(workshop, [program.to_string_lossy()]);
        run(&mut job.recorded(log, &["--interval", &INTERVAL.to_string()])?)
    };
    let right = record(&repaired, &good)?;
    ensure!(right.status.success(), "repaired, it is still wrong\n{}", printed(&right));
    let failed = record(&program, &bad)?;
    let question = question(&failed, &right)?;
    let question: Vec<&str> = question.iter().map(String::as_str).collect();

    let mut compare = Command::new(binary()?);
    let output = run(compare.args(["window", "--json", "--other-build", "--good"]).arg(&good).arg("--bad").arg(&bad))?;
    let window: Value = serde_json::from_slice(&output.stdout).with_context(|| printed(&output))?;
    let begin = window["first"]["position"].as_str().with_context(|| format!("no difference: {window}"))?.to_owned();
    let slice = |more: &[&str]| -> Result<(Share, u64)> {
        let args = [&["slice", "--json", "--lines", "0", "--touched", "--until", &begin], &question[..], more].concat();
        let report = json(&args, &bad)?;
        let instructions = number(&report, "/counts/executed")?;
        let touched = number(&report, "/counts/touched/slice")?;
        Ok((Share { instructions, touched }, number(&report, "/counts/touched/walked")?))
    };
    let ((thin, touched), (full, _)) = (slice(&[])?, slice(&["--full"])?);
    let length = number(&window, "/first/length")?;
    let (instructions, records, log) = of_window(&bad, length)?;
    if name == DRAWN && optimisation == "-O0" {
        let points = window["pieces"].as_array().into_iter().flatten();
        let points = points.map(|piece| Ok((number(piece, "/from")?, number(piece, "/differing")?)));
        let curve = Curve { instructions, points: points.collect::<Result<_>>()? };
        draw_curve(&folder.join("differences.svg"), &curve)?;
    }
    Ok(Bug {
        name,
        optimisation,
        description,
        line,
        fails,
        instructions,
        window: length,
        deviation: window.pointer("/deviation/length").and_then(Value::as_u64),
        thin,
        full,
        touched,
        records,
        log,
    })
}

/// Instructions of a run, and the bytes of the records, and of the files, of the intervals in which the last ones of it lie.
fn of_window(log: &Path, window: u64) -> Result<(u64, u64, u64)> {
    let log = Log::open(log)?;
    let mut intervals = Vec::new();
    let selection = Selection {
        processes: log.threads().map(|thread| Some(vec![thread.pid])).next().flatten(),
        ..Selection::default()
    };
    for id in selection.intervals_of(&log)? {
        let interval = log.interval(id)?;
        let end = interval.records().flatten().last().map_or(0, |placed| placed.position.0);
        intervals.push((end, interval.stream.len() as u64, interval.file_size));
    }
    let instructions: u64 = intervals.iter().map(|(len, ..)| len).sum();
    let (mut left, mut records, mut files) = (window, 0, 0);
    for (len, stream, file) in intervals.iter().rev() {
        (records, files) = (records + stream, files + file);
        left = left.saturating_sub(*len);
        if left == 0 {
            break;
        }
    }
    Ok((instructions, records, files))
}

fn table(bugs: &[Bug]) -> String {
    let percent = |part: u64, all: u64| {
        if all == 0 { "-".to_owned() } else { format!("{:.1} %", part as f64 * 100.0 / all as f64) }
    };
    let heads = [
        "program",
        "",
        "fails",
        "line",
        "instructions",
        "window",
        "deviation",
        "thin",
        "full",
        "touched",
        "thin",
        "full",
        "log",
        "compressed",
    ];
    let mut all = vec![heads.map(str::to_owned).to_vec()];
    for bug in bugs {
        all.push(vec![
            bug.name.clone(),
            bug.optimisation.to_owned(),
            bug.fails.clone(),
            bug.line.to_string(),
            count(bug.instructions),
            count(bug.window),
            bug.deviation.map_or("-".to_owned(), count),
            percent(bug.thin.instructions, bug.window),
            percent(bug.full.instructions, bug.window),
            size(bug.touched as f64),
            percent(bug.thin.touched, bug.touched),
            percent(bug.full.touched, bug.touched),
            size(bug.records as f64),
            size(bug.log as f64),
        ]);
    }
    let mut text = String::from(
        "Replay windows of programs with a fault (the paper's Table 1 and Figures 4 to 7). window: instructions from the first difference between the\n\
         wrong run and one of the repaired program to the end; deviation: from the first 10,000 instructions on in which more than 30 stores differ, as the\n\
         paper has it; thin, full: the slices' parts of the window's instructions, and of the bytes of memory that these touch; log: records of the window\n\
         with intervals of 10,000 instructions, of which the last ones have what becomes known at the end. Where the optimising compiler has put code of the\n\
         repaired program in another order, the window seems to begin earlier than the fault. What libraries do is not compared: a fault that shows in strcpy()\n\
         alone has no window before the program goes wrong itself. real: published versions of libraries with known faults; the right run is that of the\n\
         version with the mend, in which more may differ.\n\n",
    );
    text += &lines(&all, Style::Markdown);
    let median = |of: &dyn Fn(&Bug) -> f64| {
        let mut all: Vec<f64> = bugs.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let part = |part: u64, all: u64| part as f64 / all.max(1) as f64;
    let _ = write!(
        text,
        "\n{} runs; medians: window {}, of its instructions {:.2} in the thin slice and {:.2} in the full one, of its bytes {:.2} and {:.2}.\n\
         The paper: most windows of small programs within 1 million instructions, of large ones within 10 million, one of 100 million; its slices (data and\n\
         control) have some two thirds of the window's instructions and half of the bytes; 10 MB of log, not compressed, for 100 million instructions.\n\n",
        bugs.len(),
        count(median(&|bug| bug.window as f64) as u64),
        median(&|bug| part(bug.thin.instructions, bug.window)),
        median(&|bug| part(bug.full.instructions, bug.window)),
        median(&|bug| part(bug.thin.touched, bug.touched)),
        median(&|bug| part(bug.full.touched, bug.touched)),
    );
    for bug in bugs.iter().filter(|bug| bug.optimisation != "-O2") {
        let _ = writeln!(text, "- {}, line {}: {}", bug.name, bug.line, bug.description);
    }
    text
}

/// How many of the programs need a window of at most so many instructions.
fn draw_windows(file: &Path, bugs: &[Bug]) -> Result<()> {
    let mut windows: Vec<f64> = bugs.iter().map(|bug| bug.window.max(1) as f64).collect();
    windows.sort_by(f64::total_cmp);
    let most = windows.last().copied().unwrap_or(1.0).max(10.0);
    let share = |nth: usize| (nth + 1) as f64 * 100.0 / bugs.len() as f64;
    let points: Vec<(f64, f64)> = windows.iter().enumerate().map(|(nth, window)| (*window, share(nth))).collect();
    let drawing = SVGBackend::new(file, (720, 420)).into_drawing_area();
    drawing.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&drawing)
        .caption("Programs whose replay window is no longer", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(52)
        .build_cartesian_2d((1.0..most * 2.0).log_scale(), 0.0..105.0)?;
    chart.configure_mesh().max_light_lines(1).x_desc("instructions").y_desc("per cent").draw()?;
    chart.draw_series(LineSeries::new(points, BLUE.stroke_width(2)).point_size(3))?;
    drawing.present()?;
    Ok(())
}

/// Stores that differ over a run.
fn draw_curve(file: &Path, curve: &Curve) -> Result<()> {
    let most = curve.points.iter().map(|(_, differing)| *differing).max().unwrap_or(1) as f64;
    let drawing = SVGBackend::new(file, (720, 420)).into_drawing_area();
    drawing.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&drawing)
        .caption(format!("Stores that differ from the right run's ({DRAWN})"), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..curve.instructions as f64 * 1.02, 0.0..most * 1.2)?;
    let mut mesh = chart.configure_mesh();
    mesh.max_light_lines(1).x_desc("instructions").y_desc("of 10,000 instructions").draw()?;
    let bars = curve.points.iter().map(|(from, differing)| {
        Rectangle::new([(*from as f64, 0.0), ((*from + INTERVAL) as f64, *differing as f64)], BLUE.filled())
    });
    chart.draw_series(bars)?;
    drawing.present()?;
    Ok(())
}
