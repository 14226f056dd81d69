//! What is recorded to travel through.

use bugnet_tests::bugnet::Job;
use bugnet_tests::inputs;
use bugnet_tests::programs::{Program, Scale, program};
use std::fs;
use std::path::Path;

/// A workload.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The program, with its sizes for `--quick` (some 0.3 billion instructions) and without (some 10 billion).
    program: Program,
    /// How many threads do the work, if it takes a number of them.
    threads: u32,
    /// Whether `--quick` leaves it out.
    pub only_full: bool,
}

const fn workload(program: Program) -> Workload {
    Workload { program, threads: 1, only_full: false }
}

const GZIP: &[&str] = &["/bin/gzip", "-9nc", "text"];

/// All, in the order of the table.
pub const WORKLOADS: [Workload; 5] = [
    workload(program("gzip", "gzip", GZIP, [720 << 10, 22 << 20], text)),
    workload(program(
        "python3",
        "python3-minimal",
        &["/usr/bin/python3", "-IB", "travel.py", "{n}"],
        [12, 480],
        |dir, _| Ok(fs::write(dir.join("travel.py"), include_str!("../../programs/travel.py"))?),
    )),
    workload(Program {
        stdin: Some("script.sql"),
        ..program("sqlite3", "sqlite3", &["/usr/bin/sqlite3", ":memory:"], [5_200, 160_000], |dir, n| {
            Ok(inputs::sql(&dir.join("script.sql"), n)?)
        })
    }),
    Workload {
        threads: 4,
        ..workload(program(
            "pigz-4",
            "pigz",
            &["/usr/bin/pigz", "-p", "{t}", "-b", "128", "-nc", "text"],
            [1 << 20, 34 << 20],
            text,
        ))
    },
    Workload { only_full: true, ..workload(program("gzip-long", "gzip", GZIP, [300 << 20; 2], text)) },
];

/// Those of one thread that take some 10 billion instructions, here with sizes for 1 billion and for 10.
#[must_use]
pub fn one_and_ten() -> Vec<Workload> {
    let sizes = [[2_300 << 10, 22 << 20], [45, 480], [16_500, 160_000]];
    let sized = |(workload, sizes): (&Workload, [u64; 2])| Workload {
        program: Program { sizes, ..workload.program },
        ..*workload
    };
    WORKLOADS.iter().zip(sizes).map(sized).collect()
}

impl Workload {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.program.name
    }

    /// Puts its input into a folder, and says what to run there.
    ///
    /// # Errors
    /// The program is not installed, or the input cannot be written.
    pub fn job(&self, dir: &Path, is_quick: bool) -> anyhow::Result<Job> {
        let scale = if is_quick { Scale::Small } else { Scale::Full };
        self.program.job_with_threads(dir, scale, self.threads)
    }
}

fn text(dir: &Path, bytes: u64) -> anyhow::Result<()> {
    Ok(inputs::text(&dir.join("text"), bytes)?)
}
