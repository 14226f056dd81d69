//! Servers with threads, natively and recorded under the same load: clients get the same replies, the log is whole, each
//! thread replays alone with zero divergences, and all of them together in one order that explains every load. With
//! `--include-ignored`, ten runs under more load.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Workshop, must_pass};
use bugnet_tests::servers::{SERVERS, Server};
use libtest_mimic::{Failed, Trial};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// After so long, a server counts as hanging.
const PATIENCE: Duration = Duration::from_secs(120);
const CLIENTS: u32 = 4;

/// A started server; killed if the test fails.
struct Running(Child);

impl Running {
    fn start(command: &mut Command, folder: &Path) -> Result<Self> {
        command.stdout(File::create(folder.join("stdout"))?).stderr(File::create(folder.join("stderr"))?);
        Ok(Self(command.spawn().with_context(|| format!("starting {}", command.get_program().display()))?))
    }

    /// Its only child, or itself if it has none: what `bugnet record` runs, or else the server.
    fn server(&self) -> Pid {
        let pid = self.0.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let child = children.split_whitespace().next().and_then(|child| child.parse().ok());
        Pid::from_raw(child.unwrap_or(pid.cast_signed()))
    }

    /// Asks the server to end, and waits for it.
    fn stop(mut self) -> Result<Option<i32>> {
        kill(self.server(), Signal::SIGTERM)?;
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status.code());
            }
            ensure!(Instant::now() < end, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = kill(self.server(), Signal::SIGKILL);
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn serve(server: &Server, command: &mut Command, folder: &Path, rounds: u32) -> Result<Option<i32>> {
    let mut running = Running::start(command, folder)?;
    server.load(folder, &mut running.0, CLIENTS, rounds, PATIENCE)?;
    running.stop()
}

fn run_server(server: &Server, rounds: u32, runs: u32, test: &str) -> Result<()> {
    let workshop = Workshop::new(test)?;
    let folder = workshop.folder("native")?;
    let native = serve(server, &mut server.job(&folder)?.native()?, &folder, rounds).context("natively")?;
    for number in 0..runs {
        let folder = workshop.folder(&format!("recorded-{number}"))?;
        let log = workshop.path.join(format!("log-{number}"));
        let mut command = server.job(&folder)?.recorded(&log, &["--check-every", "10k"])?;
        let recorded = serve(server, &mut command, &folder, rounds).context("recorded")?;
        ensure!(native == recorded, "status: {native:?} natively, {recorded:?} recorded");
        must_pass(&["check"], &log)?;
        must_pass(&["replay"], &log)?;
        must_pass(&["replay", "--merged"], &log)?;
        fs::remove_dir_all(&log)?;
    }
    workshop.done()
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for server in SERVERS {
        for (suffix, rounds, runs) in [("", 20, 1), ("-ten", 200, 10)] {
            let name = format!("{}{suffix}", server.name);
            let test = format!("server-{name}");
            let body = move || run_server(server, rounds, runs, &test).map_err(|e| Failed::from(format!("{e:?}")));
            trials.push(Trial::test(name, body).with_ignored_flag(!suffix.is_empty()));
        }
    }
    Ok(trials)
}
