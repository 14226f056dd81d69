//! Database servers, recorded under a small load: clients get the right answers, the log is whole, each thread of each
//! process replays alone with zero divergences, and all threads of a process together in one order that explains every
//! load. In long runs only, as root: what this needs is not installed otherwise.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{ENVIRONMENT, Workshop, binary, must_pass, printed, run};
use bugnet_tests::small::run_limited;
use libtest_mimic::{Failed, Trial};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// After so long, a server or client counts as hanging.
const PATIENCE: Duration = Duration::from_secs(300);
const CLIENTS: u32 = 3;

/// A database server, whose folders are below a test's.
struct Database {
    name: &'static str,
    /// Makes its data below a folder.
    install: fn(&Path) -> Result<()>,
    /// Program and arguments.
    server: fn(&Path) -> Result<Vec<String>>,
    /// User whom it runs as, if not the one that runs the test.
    user: Option<&'static str>,
    /// File with its process id in the first line.
    pid: &'static str,
    /// What asks it to end.
    stop: Signal,
    /// Client with arguments, to which the statements are added.
    client: fn(&Path) -> Command,
    /// Statements of the client with a number.
    statements: fn(u32) -> String,
}

const DATABASES: &[Database] = &[
    Database {
        name: "mariadb",
        install: |folder| {
            let mut command = Command::new("/usr/bin/mariadb-install-db");
            command.args(["--no-defaults", "--user=root", "--auth-root-authentication-method=normal"]);
            succeed(command.arg(format!("--datadir={}", folder.join("data").display())))
        },
        server: |folder| {
            let path = |option: &str, file: &str| format!("--{option}={}", folder.join(file).display());
            let options = ["--skip-networking".to_owned(), "--innodb-buffer-pool-size=8M".to_owned()];
            let paths = [path("datadir", "data"), path("socket", "socket"), path("pid-file", "pid")];
            let program = ["/usr/sbin/mariadbd".to_owned(), "--no-defaults".to_owned(), "--user=root".to_owned()];
            Ok([program.as_slice(), &paths, &options].concat())
        },
        user: None,
        pid: "pid",
        stop: Signal::SIGTERM,
        client: |folder| {
            let mut command = Command::new("/usr/bin/mariadb");
            command.args(["--no-defaults", "--batch", "--skip-column-names", "--socket"]);
            command.arg(folder.join("socket")).arg("--execute");
            command
        },
        statements: |number| {
            format!(
                "create database d{number}; use d{number}; create table t(a int primary key, b text) engine=innodb; \
                 insert into t select seq, repeat('x', seq % 50) from seq_1_to_1000; select sum(length(b)) from t;"
            )
        },
    },
    Database {
        name: "postgresql",
        install: |folder| {
            let programs = postgresql()?;
            succeed(Command::new("chown").arg("postgres").arg(folder))?;
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(programs.join("initdb"));
            succeed(command.arg("-D").arg(folder.join("data")))
        },
        server: |folder| {
            let program = postgresql()?.join("postgres").display().to_string();
            let data = folder.join("data").display().to_string();
            let sockets = format!("unix_socket_directories={}", folder.display());
            Ok([&program, "-D", &data, "-c", "listen_addresses=", "-c", &sockets].map(ToOwned::to_owned).to_vec())
        },
        user: Some("postgres"),
        pid: "data/postmaster.pid",
        stop: Signal::SIGINT,
        client: |folder| {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--", "/usr/bin/psql", "-qtA", "-h"]).arg(folder).arg("-c");
            command
        },
        statements: |number| {
            format!(
                "create table t{number} as select i, repeat('x', i % 50) as b from generate_series(1, 1000) as i; \
                 select sum(length(b)) from t{number};"
            )
        },
    },
];

/// The folder of PostgreSQL's programs, which has its version in its name.
fn postgresql() -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").context("postgresql is not installed")?;
    let mut versions: Vec<_> = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).collect();
    versions.sort();
    versions.pop().context("postgresql is not installed")
}

fn succeed(command: &mut Command) -> Result<()> {
    let output = run(command)?;
    ensure!(output.status.success(), "{}\n{}", command.get_program().display(), printed(&output));
    Ok(())
}

/// The recorded server; killed if the test fails.
struct Recorded(Child);

impl Recorded {
    fn start(database: &Database, folder: &Path) -> Result<Self> {
        let mut command = match database.user {
            Some(user) => {
                let mut command = Command::new("runuser");
                command.args(["-u", user, "--"]).arg(binary()?);
                command
            }
            None => Command::new(binary()?),
        };
        command.args(["record", "--quiet", "--check-every", "10k", "-o"]).arg(folder.join("log"));
        command.arg("--").args((database.server)(folder)?);
        command.current_dir(folder).env_clear().envs(ENVIRONMENT);
        command.stdout(File::create(folder.join("stdout"))?).stderr(File::create(folder.join("stderr"))?);
        Ok(Self(command.spawn().context("starting the server")?))
    }

    /// Waits until it answers.
    fn wait(&mut self, database: &Database, folder: &Path) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !run((database.client)(folder).arg("select 1"))?.status.success() {
            ensure!(self.0.try_wait()?.is_none(), "the server ended");
            ensure!(Instant::now() < end, "the server does not answer");
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    /// Asks it to end, and waits for it.
    fn stop(mut self, database: &Database, folder: &Path) -> Result<()> {
        let file = folder.join(database.pid);
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let pid = text.lines().next().unwrap_or_default().trim().parse().context("the server's process id")?;
        kill(Pid::from_raw(pid), database.stop)?;
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait()? {
                ensure!(status.success(), "the server ended with {status}");
                return Ok(());
            }
            ensure!(Instant::now() < end, "the server does not end");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.0.id())).unwrap_or_default();
            for child in children.split_whitespace().filter_map(|pid| pid.parse().ok()) {
                let _ = kill(Pid::from_raw(child), Signal::SIGKILL);
            }
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn run_database(database: &Database) -> Result<()> {
    // Other users must get there, and the path of a socket is short.
    let folder = std::env::temp_dir().join(format!("bugnet-test-{}", database.name));
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    let workshop = Workshop::new(&format!("database-{}", database.name))?;
    (database.install)(&folder)?;
    let mut server = Recorded::start(database, &folder)?;
    server.wait(database, &folder)?;
    std::thread::scope(|scope| {
        let client = |number| {
            let mut command = (database.client)(&folder);
            command.arg((database.statements)(number));
            let output = run_limited(&mut command, &workshop.path, &format!("client-{number}"), PATIENCE)?;
            ensure!(output.stdout == b"24500\n", "client {number}\n{}", printed(&output));
            Ok(())
        };
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
        clients.into_iter().try_for_each(|client| match client.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    server.stop(database, &folder)?;
    let log = folder.join("log");
    must_pass(&["check"], &log)?;
    must_pass(&["replay"], &log)?;
    for process in fs::read_dir(&log)? {
        let name = process?.file_name().to_string_lossy().into_owned();
        if let Some(process) = name.strip_prefix('p').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
            must_pass(&["replay", "--merged", "--process", process], &log)?;
        }
    }
    fs::remove_dir_all(&folder)?;
    workshop.done()
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let trial = |database: &'static Database| {
        let body = move || run_database(database).map_err(|e| Failed::from(format!("{e:?}")));
        Trial::test(database.name, body).with_ignored_flag(true)
    };
    Ok(DATABASES.iter().map(trial).collect())
}
