//! How many runs it takes until a program fails that rarely does: natively, plainly recorded, recorded with `--chaos`, and lightly with that. The programs are those of
//! `tests/programs/rare`.

use crate::machine::Machine;
use crate::table::{Style, lines};
use anyhow::{Context, Result, bail, ensure};
use bugnet_tests::bugnet::{ENVIRONMENT, Job, Workshop, binary, printed, run};
use bugnet_tests::rare::Rare;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Way {
    Native,
    Recorded,
    Chaos,
    LightChaos,
}

/// How often is tried how many times.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Plan {
    /// Tries of each.
    pub tries: usize,
    /// Runs after which a try is given up.
    pub most: u64,
}

/// What one try has come to.
#[derive(Clone, Copy, Debug, Serialize)]
struct Try {
    way: Way,
    /// Runs up to the one that failed, that included; none if none did.
    runs: Option<u64>,
    seconds: f64,
}

/// What was measured of a program.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    description: String,
    tries: Vec<Try>,
}

/// Measures all programs, and writes table and figures to a folder; how many could not be measured.
pub fn run_all(folder: &Path, only: &[String], plan: Plan) -> Result<usize> {
    std::fs::create_dir_all(folder)?;
    let (mut rows, mut failed) = (Vec::new(), 0);
    for rare in Rare::all()? {
        if !only.is_empty() && !only.iter().any(|part| rare.name.contains(part.as_str())) {
            continue;
        }
        eprintln!("{} ...", rare.name);
        match measure(&rare, plan) {
            Ok(row) => rows.push(row),
            Err(e) => {
                failed += 1;
                eprintln!("{}: NOT MEASURED: {e:#}", rare.name);
            }
        }
        write(folder, &rows, plan)?;
    }
    ensure!(!rows.is_empty(), "no program was measured");
    print!("{}", table(&rows, plan));
    Ok(failed)
}

fn write(folder: &Path, rows: &[Row], plan: Plan) -> Result<()> {
    std::fs::write(folder.join("chaos.md"), table(rows, plan))?;
    let figures = serde_json::json!({ "machine": Machine::here(), "plan": plan, "programs": rows });
    Ok(std::fs::write(folder.join("chaos.json"), serde_json::to_vec_pretty(&figures)?)?)
}

fn measure(rare: &Rare, plan: Plan) -> Result<Row> {
    let workshop = Workshop::new(&format!("chaos-{}", rare.name))?;
    let program = rare.build(&workshop.path)?;
    let mut tries = Vec::new();
    for number in 0..plan.tries {
        // In turn: what else the machine does changes with time.
        for way in [Way::Native, Way::Recorded, Way::Chaos, Way::LightChaos] {
            let begun = Instant::now();
            let runs = match way {
                Way::Native => natively(&workshop.path, &program, plan.most)?,
                _ => recorded(&workshop.path.join(format!("{way:?}-{number}")), &program, way, plan.most)?,
            };
            tries.push(Try { way, runs, seconds: begun.elapsed().as_secs_f64() });
        }
    }
    workshop.done()?;
    Ok(Row { name: rare.name.clone(), description: rare.description.clone(), tries })
}

fn natively(folder: &Path, program: &Path, most: u64) -> Result<Option<u64>> {
    let job = Job::new(folder, [program.to_string_lossy()]);
    for number in 1..=most {
        if !run(&mut job.native()?)?.status.success() {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

fn recorded(out: &PathBuf, program: &Path, way: Way, most: u64) -> Result<Option<u64>> {
    let mut command = Command::new(binary()?);
    command.args(["record", "--until-fail", "--passing", "0", "--no-pack", "--runs", &most.to_string(), "-o"]).arg(out);
    if way != Way::Recorded {
        command.arg("--chaos");
    }
    if way == Way::LightChaos {
        command.arg("--light");
    }
    let output = run(command.arg("--").arg(program).env_clear().envs(ENVIRONMENT).stdin(Stdio::null()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains(" has failed, in ") {
        return Ok(None);
    }
    let number = text.lines().find_map(|line| line.strip_prefix("bugnet: run ")?.split_once(" has failed, after "));
    match number {
        Some((number, _)) => Ok(Some(number.parse().context("the number of a run")?)),
        None => bail!("{}", printed(&output)),
    }
}

fn table(rows: &[Row], plan: Plan) -> String {
    let heads = ["program", "natively", "recorded", "--chaos", "s", "--light --chaos", "s", "what is wrong"];
    let mut all = vec![heads.map(str::to_owned).to_vec()];
    for row in rows {
        let of = |way| row.tries.iter().filter(move |one| one.way == way);
        let runs = |way| {
            let mut runs: Vec<u64> = of(way).map(|one| one.runs.unwrap_or(u64::MAX)).collect();
            runs.sort_unstable();
            match runs.get((runs.len().max(1) - 1) / 2) {
                Some(&u64::MAX) | None => format!("> {}", plan.most),
                Some(median) => median.to_string(),
            }
        };
        let seconds = |way| {
            let mut seconds: Vec<f64> = of(way).map(|one| one.seconds).collect();
            seconds.sort_by(f64::total_cmp);
            format!("{:.1}", seconds.get((seconds.len().max(1) - 1) / 2).copied().unwrap_or_default())
        };
        let mut line = vec![row.name.clone()];
        line.extend([Way::Native, Way::Recorded].map(runs));
        line.extend([Way::Chaos, Way::LightChaos].into_iter().flat_map(|way| [runs(way), seconds(way)]));
        line.push(row.description.clone());
        all.push(line);
    }
    format!(
        "Runs until a program fails that rarely does: natively, recorded (`bugnet record --until-fail`), recorded with `--chaos`, and lightly with that. Medians of tries \
         ({} of each, in turn), each given up after {} runs; s: how long a try took, in seconds, with up to 10 where the failure is a hang.\n\n{}",
        plan.tries,
        plan.most,
        lines(&all, Style::Markdown)
    )
}
