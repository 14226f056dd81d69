//! Processes of a recording that outlive its first one.

use bugnet_format::folder::{Recording, process_folder};
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
    let mut processes = Recording::open(log).and_then(|recording| recording.processes()).unwrap_or_default();
    processes.retain(|process| {
        let folder = log.join(process_folder(*process));
        let Some(folder) = folder.to_str() else { return false };
        let maps = std::fs::read(format!("/proc/{}/maps", process.pid)).unwrap_or_default();
        String::from_utf8_lossy(&maps).contains(&format!("{folder}/"))
    });
    processes.into_iter().map(|process| process.pid.0).collect()
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
