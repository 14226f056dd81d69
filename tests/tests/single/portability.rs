//! A log replays from itself alone: after the program, its library and its input are gone, in another folder, as
//! another user, in another address space layout, and with another libc. bugnet itself can be moved as one folder.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{
    Workshop, binary, built, must_pass, printed, run, same_behaviour, same_bytes, source_tree, verify_log,
};
use bugnet_tests::inputs;
use bugnet_tests::moved::{Moved, copy};
use bugnet_tests::programs::compile;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

/// A program with a library and an input file of its own, all in one folder.
struct Victim {
    folder: PathBuf,
}

impl Victim {
    fn new(workshop: &Workshop) -> Result<Self> {
        let folder = workshop.folder("victim")?;
        let library = folder.join("libdigest.so");
        compile(&["gcc", "-O1", "-g", "-shared", "-fPIC"], include_str!("../../programs/library.c"), &library)?;
        let path = folder.display().to_string();
        let flags = ["gcc", "-O1", "-g", &format!("-L{path}"), &format!("-Wl,-rpath,{path},--no-as-needed,-ldigest")];
        compile(&flags, include_str!("../../programs/uses_library.c"), &folder.join("program"))?;
        inputs::text(&folder.join("input"), 30_000)?;
        Ok(Self { folder })
    }

    fn command(&self) -> [PathBuf; 2] {
        [self.folder.join("program"), self.folder.join("input")]
    }

    fn native(&self) -> Result<Output> {
        let [program, input] = self.command();
        let output = run(Command::new(program).arg(input))?;
        ensure!(output.status.code() == Some(5), "native run\n{}", printed(&output));
        Ok(output)
    }

    /// Records under `wrapper` (a command that runs its arguments), in small intervals.
    fn record(&self, wrapper: &[&str], bugnet: &Path, log: &Path) -> Result<Output> {
        run(wrapped(wrapper, bugnet)
            .args(["record", "--quiet", "--interval", "100k", "--check-every", "1k", "-o"])
            .arg(log)
            .arg("--")
            .args(self.command()))
    }

    /// Removes the program, its library and its input.
    fn remove(&self) -> Result<()> {
        fs::remove_dir_all(&self.folder).context("removing the recorded program")
    }
}

fn wrapped(wrapper: &[&str], bugnet: &Path) -> Command {
    match wrapper.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(bugnet);
            command
        }
        None => Command::new(bugnet),
    }
}

fn replay_under(wrapper: &[&str], bugnet: &Path, log: &Path, native: &Output) -> Result<()> {
    let replay = run(wrapped(wrapper, bugnet).arg("replay").arg(log).current_dir("/"))?;
    ensure!(replay.status.success(), "replay under {wrapper:?}: {}\n{}", replay.status, printed(&replay));
    let output = run(wrapped(wrapper, bugnet).args(["replay", "--output"]).arg(log).current_dir("/"))?;
    same_bytes("replayed standard output", &native.stdout, &output.stdout)?;
    same_bytes("replayed standard error", &native.stderr, &output.stderr)
}

#[test]
fn program_library_and_input_are_gone() -> Result<()> {
    let workshop = Workshop::new("portability-gone")?;
    let victim = Victim::new(&workshop)?;
    let native = victim.native()?;
    let log = workshop.path.join("log");
    same_behaviour(&native, &victim.record(&[], &binary()?, &log)?)?;
    victim.remove()?;
    verify_log(&log, &native)?;
    let elsewhere = workshop.folder("another folder, with spaces")?.join("log");
    fs::rename(&log, &elsewhere)?;
    verify_log(&elsewhere, &native)?;
    // Nor are the copies of ELF files needed, which are for symbols.
    fs::remove_dir_all(elsewhere.join("elf"))?;
    verify_log(&elsewhere, &native)?;
    workshop.done()
}

#[test]
fn other_address_space_layouts() -> Result<()> {
    let workshop = Workshop::new("portability-layouts")?;
    let victim = Victim::new(&workshop)?;
    let native = victim.native()?;
    let bugnet = binary()?;
    // With randomisation; without; with mappings from the bottom upwards.
    let layouts: [&[&str]; 3] = [&[], &["setarch", "-R"], &["setarch", "-L"]];
    let mut logs = Vec::new();
    for (number, layout) in layouts.iter().enumerate() {
        let log = workshop.path.join(format!("log-{number}"));
        same_behaviour(&native, &victim.record(layout, &bugnet, &log)?).with_context(|| format!("{layout:?}"))?;
        logs.push(log);
    }
    victim.remove()?;
    for (log, recorded) in logs.iter().zip(layouts) {
        for layout in layouts {
            let what = || format!("recorded under {recorded:?}, replayed under {layout:?}");
            replay_under(layout, &bugnet, log, &native).with_context(what)?;
        }
    }
    workshop.done()
}

#[test]
fn another_user_and_a_moved_bugnet() -> Result<()> {
    let workshop = Workshop::new("portability-user")?;
    let victim = Victim::new(&workshop)?;
    let native = victim.native()?;
    let moved = Moved::new("user")?;
    let log = workshop.path.join("log");
    same_behaviour(&native, &victim.record(&[], &moved.bugnet(), &log)?)?;
    victim.remove()?;
    let copied = moved.folder.join("log");
    copy(&log, &copied)?;
    replay_under(&[], &moved.bugnet(), &copied, &native)?;
    replay_under(&["setpriv", "--no-new-privs"], &moved.bugnet(), &copied, &native)?;
    // Only root can become another user; that the log is read-only for its reader is what is left otherwise.
    if nix::unistd::geteuid().is_root() {
        let nobody = [&["setpriv"], NOBODY.as_slice(), &["--no-new-privs"]].concat();
        replay_under(&nobody, &moved.bugnet(), &copied, &native)?;
    } else {
        for entry in fs::read_dir(&copied)? {
            let path = entry?.path();
            fs::set_permissions(&path, fs::Permissions::from_mode(if path.is_dir() { 0o555 } else { 0o444 }))?;
        }
        replay_under(&[], &moved.bugnet(), &copied, &native)?;
    }
    workshop.done()
}

#[test]
fn recording_needs_no_privilege() -> Result<()> {
    let moved = Moved::new("unprivileged")?;
    let log = moved.folder.join("logs/log");
    fs::create_dir(moved.folder.join("logs"))?;
    fs::set_permissions(moved.folder.join("logs"), fs::Permissions::from_mode(0o777))?;
    let wrapper = match nix::unistd::geteuid().is_root() {
        true => [&["setpriv"], NOBODY.as_slice(), &["--no-new-privs"]].concat(),
        false => vec!["setpriv", "--no-new-privs"],
    };
    let command = ["/bin/ls", "-l", "/usr/include"];
    let native = run(Command::new(command[0]).args(&command[1..]))?;
    let mut record = wrapped(&wrapper, &moved.bugnet());
    record.args(["record", "--quiet", "-o"]).arg(&log).arg("--").args(command).current_dir("/");
    same_behaviour(&native, &run(&mut record)?)?;
    replay_under(&wrapper, &moved.bugnet(), &log, &native)?;
    must_pass(&["check"], &log)?;
    Ok(())
}

/// What the clients ask of libc is there in Debian 11's: DynamoRIO's loader lets them begin without it, and ends the program at the first call.
#[test]
fn the_clients_need_no_newer_libc() -> Result<()> {
    const OLDEST: u32 = 31;
    for name in ["libbugnet_logger.so", "libbugnet_replayer.so"] {
        let client = built(name);
        let listed = run(Command::new("readelf").args(["--dyn-syms", "--wide"]).arg(&client))?;
        ensure!(listed.status.success(), "{}", printed(&listed));
        let text = String::from_utf8(listed.stdout)?;
        // Number, value, size, type, binding, visibility, section, name. Who asks for what may be missing looks whether it is there.
        let fields = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let needed = fields.filter(|fields| fields.get(4) == Some(&"GLOBAL") && fields.get(6) == Some(&"UND"));
        let needed: Vec<&str> = needed.filter_map(|fields| fields.get(7).copied()).collect();
        let is_newer = |symbol: &&&str| {
            let version =
                symbol.split_once("@GLIBC_2.").and_then(|(_, version)| version.split('.').next()?.parse().ok());
            version.is_some_and(|version: u32| version > OLDEST)
        };
        let newer: Vec<_> = needed.iter().filter(is_newer).collect();
        ensure!(needed.len() > 20 && newer.is_empty(), "{name}, of {} symbols: {newer:?}", needed.len());
    }
    Ok(())
}

#[test]
#[ignore = "makes chroots of other Debian releases: make soak"]
fn another_libc() -> Result<()> {
    let output = run(Command::new(source_tree().join("scripts/test-dist.sh")).current_dir(source_tree()))?;
    ensure!(output.status.success(), "scripts/test-dist.sh: {}\n{}", output.status, printed(&output));
    Ok(())
}
