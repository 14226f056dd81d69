//! How the cost of recording grows: with instructions, with threads, with touched memory.

use crate::machine::Machine;
use crate::measure::{Cost, Plan, Row, measure};
use crate::way::Way;
use crate::workloads::Workload;
use anyhow::{Context, Result};
use bugnet_tests::bugnet::Job;
use bugnet_tests::programs::compile;
use clap::ValueEnum;
use plotters::prelude::*;
use std::path::Path;

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Growth {
    /// Instructions that are executed, from 0.1 to 100 billion.
    Instructions,
    /// Threads, from 1 to 64, each with 1 MB of its own.
    Threads,
    /// Memory that is touched, from 8 MB to 8 GB.
    Memory,
}

/// One thing that grows while the others stay.
struct Sweep {
    of: Growth,
    name: &'static str,
    axis: &'static str,
    /// What the axis is divided by, again and again.
    base: f64,
    /// Values of the axis, and the program's arguments for each: millions of steps, threads, megabytes.
    points: &'static [(f64, [u64; 3])],
    /// How many of the points `--quick` measures.
    quick: usize,
}

const SWEEPS: [Sweep; 3] = [
    Sweep {
        of: Growth::Instructions,
        name: "instructions",
        axis: "billions of instructions",
        base: 10.0,
        points: &[(0.1, [6, 1, 8]), (1.0, [60, 1, 8]), (10.0, [600, 1, 8]), (100.0, [6000, 1, 8])],
        quick: 2,
    },
    Sweep {
        of: Growth::Threads,
        name: "threads",
        axis: "threads",
        base: 2.0,
        points: &[
            (1.0, [400, 1, 1]),
            (2.0, [400, 2, 2]),
            (4.0, [400, 4, 4]),
            (8.0, [400, 8, 8]),
            (16.0, [400, 16, 16]),
            (32.0, [400, 32, 32]),
            (64.0, [400, 64, 64]),
        ],
        quick: 2,
    },
    Sweep {
        of: Growth::Memory,
        name: "memory",
        axis: "megabytes touched",
        base: 2.0,
        points: &[
            (8.0, [100, 1, 8]),
            (64.0, [100, 1, 64]),
            (512.0, [100, 1, 512]),
            (4096.0, [100, 1, 4096]),
            (8192.0, [100, 1, 8192]),
        ],
        quick: 2,
    },
];

/// Measures how cost grows with each of `what` (with all, if there is none), and writes a plot and the figures of each
/// into `folder`. Returns how many points failed.
///
/// # Errors
/// The folder cannot be written, or a plot cannot be drawn.
pub fn run(folder: &Path, what: &[Growth], quick: bool, runs: usize) -> Result<usize> {
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let plan = Plan { runs, interval: None, ways: vec![Way::Native, Way::Record] };
    let mut failed = 0;
    for sweep in SWEEPS.iter().filter(|sweep| what.is_empty() || what.contains(&sweep.of)) {
        let points = if quick { &sweep.points[..sweep.quick] } else { sweep.points };
        let mut rows: Vec<(f64, Row)> = Vec::new();
        for (value, args) in points {
            let name = format!("growth-{}-{value}", sweep.name);
            eprintln!("{name} ...");
            match measure(&workload(name.clone(), *args), &plan) {
                Ok(row) => {
                    let ratio = |f: fn(&Cost) -> f64| row.ratio(Way::Record, Way::Native, f).unwrap_or(0.0);
                    println!("{name:<28} CPU {:6.2}x  memory {:5.2}x", ratio(|c| c.cpu), ratio(|c| c.memory as f64));
                    rows.push((*value, row));
                }
                Err(e) => {
                    failed += 1;
                    eprintln!("{name}: NOT MEASURED: {e:#}");
                }
            }
        }
        let figures = serde_json::json!({ "machine": Machine::here(), "points": rows });
        std::fs::write(folder.join(format!("{}.json", sweep.name)), serde_json::to_vec_pretty(&figures)?)?;
        plot(&folder.join(format!("{}.svg", sweep.name)), sweep, &rows)?;
    }
    Ok(failed)
}

fn workload(name: String, args: [u64; 3]) -> Workload {
    let prepare = move |dir: &Path| {
        compile(&["gcc", "-O2", "-pthread"], include_str!("../programs/growth.c"), &dir.join("growth"))?;
        let command = std::iter::once("./growth".to_owned()).chain(args.map(|n| n.to_string())).collect();
        Ok(Job { command, dir: dir.to_owned(), stdin: None })
    };
    // The disk shall not be what grows.
    Workload { name, group: "growth", has_threads: false, job: Box::new(prepare), options: &["--keep", "4"] }
}

/// Draws slowdown and memory over the axis, which is logarithmic.
fn plot(file: &Path, sweep: &Sweep, rows: &[(f64, Row)]) -> Result<()> {
    let series = |f: fn(&Cost) -> f64| -> Vec<(f64, f64)> {
        rows.iter().filter_map(|(x, row)| Some((*x, row.ratio(Way::Record, Way::Native, f)?))).collect()
    };
    draw(file, sweep, series(|c| c.cpu), series(|c| c.memory as f64))
}

fn draw(file: &Path, sweep: &Sweep, cpu: Vec<(f64, f64)>, memory: Vec<(f64, f64)>) -> Result<()> {
    let (Some(first), Some(last)) = (cpu.first(), cpu.last()) else { return Ok(()) };
    let top = cpu.iter().chain(&memory).map(|(_, y)| *y).fold(1.0, f64::max) * 1.4;
    let drawing = SVGBackend::new(file, (720, 420)).into_drawing_area();
    drawing.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&drawing)
        .caption(format!("Recording relative to native, by {}", sweep.axis), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(52)
        .build_cartesian_2d((first.0 * 0.8..last.0 * 1.25).log_scale().base(sweep.base), 0.0..top)?;
    let mut mesh = chart.configure_mesh();
    mesh.max_light_lines(1).x_labels(14).x_label_formatter(&|x| x.to_string());
    mesh.x_desc(sweep.axis).y_desc("times native").draw()?;
    for (name, colour, points) in [("CPU time", BLUE, cpu), ("memory", RED, memory)] {
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(4))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    let mut labels = chart.configure_series_labels();
    labels.position(SeriesLabelPosition::UpperRight).background_style(WHITE).border_style(BLACK).draw()?;
    drawing.present()?;
    Ok(())
}
