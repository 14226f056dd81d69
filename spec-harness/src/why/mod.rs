//! How well `bugnet why` finds faults: the rank of the faulty line among those that it names, of programs with a known fault. These are those of
//! `tests/programs/faulty`, and known faults of libraries (`real`).

mod case;
mod peers;
pub mod real;
mod table;

use crate::machine::Machine;
use crate::measure::timed;
use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::Workshop;
use bugnet_tests::faulty::Program;
use case::Case;
use peers::Peer;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What one question has come to.
#[derive(Clone, Copy, Debug, Serialize)]
struct Answer {
    /// The rank of the faulty line, from 1; none if it is not named.
    rank: Option<usize>,
    /// Lines that are named.
    named: usize,
    /// Seconds that it took.
    seconds: f64,
    /// Bytes of memory that the largest process of it used.
    memory: u64,
}

/// What was measured of a program.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    class: &'static str,
    what: String,
    optimisation: &'static str,
    /// Lines of its source, if it has one file.
    length: Option<usize>,
    /// What `bugnet why` takes for the symptom.
    symptom: String,
    /// From the recording alone, with what the output should be.
    alone: Answer,
    /// With logs of right runs, and how many.
    with_good: Option<Answer>,
    good: usize,
    /// The rank among the lines that others print.
    peers: BTreeMap<Peer, Option<usize>>,
}

/// Measures all programs, and writes table and figures to a folder; how many could not be measured.
pub fn run_all(folder: &Path, only: &[String], optimisations: &[&'static str]) -> Result<usize> {
    std::fs::create_dir_all(folder)?;
    let is_chosen = |class: &str, name: &str| {
        only.is_empty() || only.iter().any(|part| format!("{class}/{name}").contains(part.as_str()))
    };
    let (mut rows, mut failed) = (Vec::new(), 0);
    let mut add = |name: String, row: Result<Row>| -> Result<()> {
        match row {
            Ok(row) => {
                eprintln!("{name}: {}", table::brief(&row));
                rows.push(row);
            }
            Err(e) => {
                failed += 1;
                eprintln!("{name}: NOT MEASURED: {e:#}");
            }
        }
        write(folder, &rows)
    };
    for program in Program::all()? {
        for optimisation in optimisations.iter().filter(|_| is_chosen(program.class, &program.name())) {
            let name = format!("{}/{}{optimisation}", program.class, program.name());
            let row = in_workshop(&name, |path| Case::of_tests(&program, optimisation, path));
            add(name, row)?;
        }
    }
    for path in real::all()? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if is_chosen("real", &name) {
            let name = format!("real/{name}");
            let row = in_workshop(&name, |folder| real::case(&path, folder));
            add(name, row)?;
        }
    }
    ensure!(!rows.is_empty(), "no program was measured");
    print!("{}", table::table(&rows));
    Ok(failed)
}

fn write(folder: &Path, rows: &[Row]) -> Result<()> {
    std::fs::write(folder.join("why.md"), table::table(rows))?;
    let figures = serde_json::json!({ "machine": Machine::here(), "programs": rows });
    Ok(std::fs::write(folder.join("why.json"), serde_json::to_vec_pretty(&figures)?)?)
}

fn in_workshop(name: &str, case: impl FnOnce(&Path) -> Result<Case>) -> Result<Row> {
    let workshop = Workshop::new(&format!("ranks-{}", name.replace('/', "-")))?;
    let row = measure(&case(&workshop.path)?, &workshop.path)?;
    workshop.done()?;
    Ok(row)
}

fn measure(case: &Case, folder: &Path) -> Result<Row> {
    let (log, good) = case.record(folder)?;
    let (alone, symptom) = ask(case, &log, &[], folder)?;
    let with_good = if good.is_empty() { None } else { Some(ask(case, &log, &good, folder)?.0) };
    let peers = Peer::of(case).into_iter().map(|peer| Ok((peer, peer.rank(case)?))).collect::<Result<_>>()?;
    Ok(Row {
        name: case.name.clone(),
        class: case.class,
        what: case.what.clone(),
        optimisation: case.optimisation,
        length: case.length,
        symptom,
        alone,
        with_good,
        good: good.len(),
        peers,
    })
}

/// Asks for the lines; the symptom, too.
fn ask(case: &Case, log: &Path, good: &[PathBuf], folder: &Path) -> Result<(Answer, String)> {
    let (cost, outcome) = timed(case.why(log, good)?, folder)?;
    let [out, err] = ["stdout", "stderr"].map(|name| std::fs::read(folder.join(name)).unwrap_or_default());
    ensure!(outcome.is_success(), "bugnet why: {}\n{}", outcome.status, String::from_utf8_lossy(&err));
    let report: Value = serde_json::from_slice(&out)?;
    let suspects = report["suspects"].as_array().context("no suspects")?;
    let is_it = |suspect: &Value| {
        let (file, line) = (suspect["file"].as_str(), suspect["line"].as_u64());
        file.zip(line).is_some_and(|(file, line)| case.is_fault(file, line))
    };
    let rank = suspects.iter().position(is_it).map(|at| at + 1);
    let symptom = report["symptom"]["symptom"].as_str().unwrap_or_default().to_owned();
    Ok((Answer { rank, named: suspects.len(), seconds: cost.wall, memory: cost.memory }, symptom))
}
