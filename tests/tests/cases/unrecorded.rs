//! Programs of which nothing is recorded, or only their beginning, since the disk is full: they behave as natively all the same.
//!
//! The recorder stays in such a process: what it and DynamoRIO do to signals, descriptors, limits and children has to be kept from the
//! program still, in code that is not instrumented any more, or never was. So every third small program is tried with one of the disks; with
//! `--include-ignored`, all are, with all disks.

use anyhow::{Context, Result, ensure};
use bugnet_tests::alike::namespace;
use bugnet_tests::bugnet::{ENVIRONMENT, Job, Workshop, printed, same_behaviour, take_messages};
use bugnet_tests::sample::one_of;
use bugnet_tests::small::{FOLDERS, Header, SKIP, build, build_parent, run_limited, sources};
use bugnet_tests::threaded::programs;
use libtest_mimic::{Failed, Trial};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Of so many programs, one is tried each time, with one of the disks.
const SOME: usize = 3;

const LIMIT: Duration = Duration::from_secs(60);
/// File systems by how much they hold: a folder, in which nothing can be created; a log in which no thread has room; and one that ends at
/// some time, or is whole.
const DISKS: [(&str, &str); 3] =
    [("folder", "size=20m,nr_inodes=4"), ("process", "size=60k"), ("beginning", "size=1300k")];
/// Intervals that soon fill the last one.
const SHORT: [&str; 2] = ["--interval", "5k"];

/// A program to try.
enum Program {
    /// Of [`FOLDERS`].
    Small(PathBuf),
    /// One that starts others.
    Parent(PathBuf),
    /// One with threads.
    Threaded(Box<bugnet_tests::threaded::Threaded>),
}

impl Program {
    /// The command that runs it, built in a folder.
    fn build(&self, folder: &Path) -> Result<Vec<String>> {
        let shown = |path: PathBuf| path.to_string_lossy().into_owned();
        Ok(match self {
            Self::Small(source) => vec![shown(build(source, &Header::of(source)?, folder)?)],
            Self::Parent(source) => build_parent(source, folder)?,
            Self::Threaded(program) => [&[shown(program.build("O1", folder)?)], &program.test[..]].concat(),
        })
    }

    /// Options to record it with.
    fn options(&self) -> Result<Vec<String>> {
        Ok(match self {
            Self::Small(source) => Header::of(source)?.record,
            _ => Vec::new(),
        })
    }

    fn run(&self, name: &str, (disk, room): (&str, &str)) -> Result<()> {
        let workshop = Workshop::new(&format!("unrecorded-{}", name.replace('/', "-")))?;
        let command = self.build(&workshop.path)?;
        let job = |name: &str| Ok::<_, anyhow::Error>(Job::new(&workshop.folder(name)?, command.iter().cloned()));
        let native = run_limited(&mut job("native")?.native()?, &workshop.path, "native-run", LIMIT)?;
        if native.status.code() == Some(SKIP) {
            eprintln!(
                "{name}: left out: {}",
                String::from_utf8_lossy(&native.stdout).lines().last().unwrap_or_default()
            );
            return workshop.done();
        }
        let options = self.options()?;
        let options: Vec<&str> = options.iter().map(String::as_str).chain(SHORT).collect();
        let variables = BTreeMap::from(ENVIRONMENT);
        let mount = workshop.folder("disk")?;
        let job = job(disk)?;
        let recorded = job.recorded(&mount.join("log"), &options)?;
        let mut there = Command::new(namespace().split(' ').next().unwrap_or_default());
        there.args(namespace().split(' ').skip(1)).args(["sh", "-c"]);
        there.arg(format!("mount -t tmpfs -o noexec,{room} tmpfs \"$0\" && exec env -i \"$@\"")).arg(&mount);
        // The shell adds to the environment, and sorts it.
        there.args(variables.iter().map(|(name, value)| format!("{name}={value}")));
        there.arg(recorded.get_program()).args(recorded.get_args()).current_dir(&job.dir);
        there.env_clear().envs(ENVIRONMENT).stdin(std::process::Stdio::null());
        let mut output = run_limited(&mut there, &workshop.path, disk, LIMIT)?;
        let about = || format!("room for {disk}");
        let said = take_messages(&mut output);
        let is_said = said.contains("No space left on device") || disk == "beginning";
        ensure!(is_said, "{}: {said}{}", about(), printed(&output));
        same_behaviour(&native, &output).with_context(|| format!("{}: {said}", about()))?;
        workshop.done()
    }
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let mut all = Vec::new();
    for folder in FOLDERS {
        all.extend(sources(folder)?.into_iter().map(|(name, source)| (name, Program::Small(source))));
    }
    all.extend(sources("children")?.into_iter().map(|(name, source)| (name, Program::Parent(source))));
    all.extend(
        programs()?
            .into_iter()
            .map(|program| (format!("threads/{}", program.name), Program::Threaded(Box::new(program)))),
    );
    let trials = all.into_iter().flat_map(|(name, program)| {
        let program = Arc::new(program);
        DISKS.into_iter().map(move |with| {
            let (title, program) = (format!("{name}-{}", with.0), program.clone());
            let name = title.clone();
            let body = move || program.run(&name, with).map_err(|e| Failed::from(format!("{e:?}")));
            Trial::test(title, body)
        })
    });
    Ok(one_of(SOME * DISKS.len(), trials.collect()))
}
