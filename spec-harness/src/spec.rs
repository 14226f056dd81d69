//! SPEC CPU 2006 and 2017, where someone has it.
//!
//! SPEC's own tools must have built the benchmarks and set up run folders (`runcpu --action setup --size test ...`).
//! Every `SPEC_DIR/benchspec/*/<benchmark>/run/run_*/speccmds.cmd` is taken, and each command in it is a workload
//! `<benchmark>/<run folder>/<number>`; choose among them with `--only`. A line of that file is options (`-C` folder,
//! `-i` input, `-o` output, `-e` errors), then the command and its arguments.

use crate::workloads::Workload;
use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::Job;
use std::fs;
use std::path::{Path, PathBuf};

/// A command of a `speccmds.cmd`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SpecCommand {
    command: Vec<String>,
    stdin: Option<String>,
}

/// The workloads of a SPEC CPU installation.
///
/// # Errors
/// It cannot be read, or has no run folders.
pub fn workloads(spec: &Path) -> Result<Vec<Workload>> {
    let mut all = Vec::new();
    for suite in folders(&spec.join("benchspec"))? {
        for benchmark in folders(&suite)? {
            for run in folders(&benchmark.join("run")).unwrap_or_default() {
                let Ok(text) = fs::read_to_string(run.join("speccmds.cmd")) else { continue };
                for (number, command) in commands(&text).into_iter().enumerate() {
                    all.push(workload(&benchmark, &run, number, command));
                }
            }
        }
    }
    ensure!(
        !all.is_empty(),
        "SPEC_DIR={} has no benchspec/*/*/run/run_*/speccmds.cmd: set up runs with `runcpu --action setup` first",
        spec.display()
    );
    Ok(all)
}

fn workload(benchmark: &Path, run: &Path, number: usize, spec: SpecCommand) -> Workload {
    let name = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = run.to_owned();
    Workload {
        name: format!("{}/{}/{number}", name(benchmark), name(run)),
        group: "spec",
        has_threads: false,
        job: Box::new(move |_| {
            let mut job = Job::new(&folder, spec.command.iter().map(String::as_str));
            job.stdin.clone_from(&spec.stdin);
            Ok(job)
        }),
        options: &[],
    }
}

fn folders(path: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(path).with_context(|| path.display().to_string())?;
    let mut folders: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.is_dir()).collect();
    folders.sort();
    Ok(folders)
}

fn commands(text: &str) -> Vec<SpecCommand> {
    text.lines().filter_map(command).collect()
}

/// One line; `None` if it sets options only. Redirections behind the command are left out: output goes to the harness.
fn command(line: &str) -> Option<SpecCommand> {
    let mut words = line.split_whitespace().peekable();
    let mut stdin = None;
    while let Some(option) = words.next_if(|word| word.starts_with('-')) {
        match option {
            "-i" => stdin = words.next().map(ToOwned::to_owned),
            "-E" => {
                words.nth(1)?;
            }
            "-r" | "-k" => {}
            _ => {
                words.next()?;
            }
        }
    }
    let mut command = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "<" => stdin = words.next().map(ToOwned::to_owned),
            ">" | ">>" | "2>" | "2>>" => {
                words.next();
            }
            word => command.push(word.to_owned()),
        }
    }
    (!command.is_empty()).then_some(SpecCommand { command, stdin })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_speccmds() {
        let text = "-E OMP_NUM_THREADS 1\n-r\n-N C\n-C /spec/run\n\
            -o test.out -e test.err ../run_base_test/xz_r_base cld.tar.xz 1 0a -1 > test.out 2>> test.err\n\
            -i graph.in -o out ./sjeng_base\n";
        let words = |line: &str| line.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>();
        assert_eq!(
            commands(text),
            [
                SpecCommand { command: words("../run_base_test/xz_r_base cld.tar.xz 1 0a -1"), stdin: None },
                SpecCommand { command: words("./sjeng_base"), stdin: Some("graph.in".to_owned()) },
            ]
        );
    }
}
