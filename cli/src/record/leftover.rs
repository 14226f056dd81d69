//! Processes of a recording that outlive its first one.

use bugnet_format::folder::{Recording, process_folder};
use bugnet_format::light::{LIGHT_FOLDER, Parts};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long processes have to end by themselves.
pub const GRACE: Duration = Duration::from_secs(5);
/// So often it is looked whether they have.
const PAUSE: Duration = Duration::from_millis(10);

/// Those that still write this log, each of which has files of it mapped.
pub fn of(log: &Path) -> Vec<u32> {
    let recorded = Recording::open(log).and_then(|recording| recording.processes()).unwrap_or_default();
    let recorded = recorded.into_iter().map(|process| (process.pid, format!("{}/", process_folder(process))));
    let captured = Parts::all(log).unwrap_or_default();
    let captured = captured.iter().map(|parts| (parts.header.process.pid, format!("{LIGHT_FOLDER}/")));
    let mut processes: Vec<u32> = recorded
        .chain(captured)
        .filter(|(pid, files)| {
            let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
            log.join(files).to_str().is_some_and(|files| String::from_utf8_lossy(&maps).contains(files))
        })
        .map(|(pid, _)| pid.0)
        .collect();
    processes.sort_unstable();
    processes.dedup();
    processes
}

/// Ends them, by SIGTERM, and those that stay by SIGKILL.
pub fn end(log: &Path) {
    let send = |signal| {
        for process in of(log) {
            // Where it has just ended, there is nothing to do.
            let _ = kill(Pid::from_raw(process.cast_signed()), signal);
        }
    };
    send(Signal::SIGTERM);
    let start = Instant::now();
    while !of(log).is_empty() && start.elapsed() < GRACE {
        sleep(PAUSE);
    }
    send(Signal::SIGKILL);
}
