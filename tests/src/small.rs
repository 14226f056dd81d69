//! The small programs of `programs/*/`: what their first lines say, how they are built, and runs with a time limit.
//!
//! A program is one C or assembly file. It prints the same whenever it runs, and ends with status 77 (and a last line
//! that says why) where this machine cannot show what it is about. Its first line says what it is about; the comment
//! lines that follow may hold:
//!
//! | line | meaning |
//! |---|---|
//! | `flags: ...` | further arguments for the compiler |
//! | `record: ...` | further arguments for `bugnet record` |
//! | `info: ...` | text that `bugnet info` must print; may stand several times |
//! | `message: ...` | text of the warning with which exact replay ends early, or a limit is named; without it, none |
//! | `intervals: no` | only the default interval is tried |

use crate::bugnet::{run, source_tree};
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Where such programs are.
pub const FOLDERS: [&str; 5] = ["signals", "crashes", "instructions", "kernel", "code"];

/// Status with which a program says that the machine cannot show what it is about.
pub const SKIP: i32 = 77;

/// What a program's first lines say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// For the compiler.
    pub flags: Vec<String>,
    /// For `bugnet record`.
    pub record: Vec<String>,
    /// What `bugnet info` must print.
    pub info: Vec<String>,
    /// What a warning must say.
    pub message: Option<String>,
    /// Whether only the default interval is tried.
    pub one_interval: bool,
}

impl Header {
    /// The header of a source.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), or it cannot be read.
    pub fn of(source: &Path) -> Result<Self> {
        let about = || source.display().to_string();
        Self::parse(&fs::read_to_string(source).with_context(about)?).with_context(about)
    }

    /// Reads the comment lines that a source begins with, behind the first.
    ///
    /// # Errors
    /// A line with a key that is not known.
    pub fn parse(source: &str) -> Result<Self> {
        let mut header = Self::default();
        let comments =
            source.lines().skip(1).map_while(|line| line.strip_prefix("// ").or_else(|| line.strip_prefix("# ")));
        for line in comments {
            let Some((key, value)) = line.split_once(": ") else { continue };
            let words = || value.split_whitespace().map(ToOwned::to_owned);
            match key {
                "flags" => header.flags.extend(words()),
                "record" => header.record.extend(words()),
                "info" => header.info.push(value.trim().to_owned()),
                "message" => header.message = Some(value.trim().to_owned()),
                "intervals" => header.one_interval = value.trim() == "no",
                // A sentence with a colon in it.
                _ => ensure!(key.contains(' ') || key.starts_with(char::is_uppercase), "unknown key: {key}"),
            }
        }
        Ok(header)
    }
}

/// The sources in a folder of `tests/programs`, C, assembly and shell, by the names of their tests.
///
/// # Errors
/// The folder cannot be read, or there are none.
pub fn sources(folder: &str) -> Result<Vec<(String, PathBuf)>> {
    let path = source_tree().join("tests/programs").join(folder);
    let mut sources = Vec::new();
    for entry in fs::read_dir(&path).with_context(|| path.display().to_string())? {
        let source = entry?.path();
        if source.extension().is_some_and(|extension| ["c", "s", "sh"].iter().any(|known| extension == *known)) {
            let stem = source.file_stem().unwrap_or_default().to_string_lossy();
            sources.push((format!("{folder}/{stem}"), source));
        }
    }
    ensure!(!sources.is_empty(), "no programs in {}", path.display());
    sources.sort();
    Ok(sources)
}

/// Builds a program that starts others, if it is not a script: the command that runs it.
///
/// # Errors
/// As [`build`].
pub fn build_parent(source: &Path, folder: &Path) -> Result<Vec<String>> {
    if source.extension().is_some_and(|extension| extension == "sh") {
        return Ok(vec!["/bin/bash".into(), source.display().to_string()]);
    }
    let program = folder.join("program");
    let output = run(Command::new("cc").args(["-O1", "-g", "-pthread", "-w", "-o"]).arg(&program).arg(source))?;
    ensure!(output.status.success(), "{}", crate::bugnet::printed(&output));
    Ok(vec![program.display().to_string()])
}

/// Builds a program of `tests/programs`, with these flags.
///
/// # Errors
/// As [`build`].
pub fn build_named(name: &str, flags: &[&str], folder: &Path) -> Result<PathBuf> {
    let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    build(&source_tree().join("tests/programs").join(name), &Header { flags, ..Header::default() }, folder)
}

/// Builds a program: C against libc, assembly without it.
///
/// # Errors
/// The compiler is missing or complains.
pub fn build(source: &Path, header: &Header, folder: &Path) -> Result<PathBuf> {
    let program = folder.join("program");
    let mut command = Command::new("gcc");
    if source.extension().is_some_and(|extension| extension == "s") {
        command.args(["-nostdlib", "-static"]);
    } else {
        command.args(["-O1", "-g", "-D_GNU_SOURCE", "-Wall", "-Werror"]);
    }
    command.arg("-o").arg(&program).arg(source).args(&header.flags);
    let include = source.parent().and_then(Path::parent).context("folder of the programs")?;
    command.arg("-I").arg(include);
    let output = run(&mut command)?;
    ensure!(output.status.success(), "{}", crate::bugnet::printed(&output));
    Ok(program)
}

/// Runs a command to its end, output into files in `folder`.
///
/// # Errors
/// It cannot be started, or is not over after `limit`; then it and its process group are killed.
pub fn run_limited(command: &mut Command, folder: &Path, name: &str, limit: Duration) -> Result<Output> {
    use std::os::unix::process::CommandExt;
    let (out, err) = (folder.join(format!("{name}.out")), folder.join(format!("{name}.err")));
    command.stdout(File::create(&out)?).stderr(File::create(&err)?).process_group(0);
    let mut child = command.spawn().with_context(|| format!("starting {}", command.get_program().display()))?;
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() > end {
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    // Whatever the program has left behind, too.
    let group = nix::unistd::Pid::from_raw(child.id().cast_signed());
    let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
    let read = |path: &Path| fs::read(path).with_context(|| path.display().to_string());
    let (stdout, stderr) = (read(&out)?, read(&err)?);
    let Some(status) = status else {
        child.wait()?;
        let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
        anyhow::bail!("{name} is not over after {} s; it printed:\n{text}", limit.as_secs());
    };
    Ok(Output { status, stdout, stderr })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let source =
            "// Says: this.\n// flags: -lm -O2\n// info: SIGSEGV reading 0x0\n// info: in main\nint x;\n// flags: no\n";
        let header = Header::parse(source).unwrap();
        assert_eq!(header.flags, ["-lm", "-O2"]);
        assert_eq!(header.info, ["SIGSEGV reading 0x0", "in main"]);
        assert!(Header::parse("# A title.\n# flag: -lm\n").is_err());
    }
}
