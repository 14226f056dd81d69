//! Runs the sessions of a chapter.

use super::alike::{alike, of_this_run};
use super::chapter::Command;
use anyhow::{Context, Result, bail, ensure};
use bugnet_tests::bugnet::{Workshop, binary, source_tree};
use std::collections::HashMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{self, Stdio};

/// Where the book's sessions take place, and at which port its server listens.
const HOME: &str = "/home/anna";
const PORT: &str = "7777";

/// A command that records, with what it prints, as it is if it records lightly.
pub(crate) fn lightly(command: &Command) -> Command {
    const RECORD: &str = "bugnet record ";
    if command.shell.starts_with("bugnet info") {
        // It would say what was captured.
        let expand = command.shell.replacen("info", "expand", 1);
        return Command { shell: format!("{expand} 2>/dev/null; {}", command.shell), ..command.clone() };
    }
    if !command.shell.contains(RECORD) {
        return command.clone();
    }
    let printed = |line: &String| match line.split_once(" instructions in ").and_then(|(_, rest)| rest.split_once(", "))
    {
        Some((_, rest)) if line.starts_with("bugnet: ") => Some(format!("bugnet: captured 1 process, {rest}")),
        // It says how the log is made.
        _ if line.starts_with("bugnet: next:") => None,
        _ => Some(line.clone()),
    };
    let prints = command.prints.iter().filter_map(printed).collect();
    Command { shell: command.shell.replacen(RECORD, "bugnet record --light ", 1), prints, ..command.clone() }
}

/// Runs the commands of the chapter called `name`.
///
/// # Errors
/// One of them does not print what the book says.
pub(crate) fn run(name: &str, commands: &[Command]) -> Result<()> {
    let workshop = Workshop::new(&format!("book-{name}"))?;
    let home = workshop.folder("anna")?;
    for folder in ["docs/examples", "demo"] {
        for entry in fs::read_dir(source_tree().join(folder))? {
            let entry = entry?;
            fs::copy(entry.path(), home.join(entry.file_name()))?;
        }
    }
    let mut known = HashMap::from([(PORT.to_owned(), free_port()?.to_string())]);
    for (number, command) in commands.iter().enumerate() {
        let printed = printed(command, &home, number, &known)?;
        compare(command, &printed, &mut known).with_context(|| format!("$ {}\nprinted:\n{printed}", command.shell))?;
    }
    workshop.done()
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// What a command prints, on standard output and error; both go to one file, which what it leaves in the background may keep.
fn printed(command: &Command, home: &Path, number: usize, known: &HashMap<String, String>) -> Result<String> {
    let home_now = home.to_string_lossy();
    let now = |text: &str| of_this_run(text, known).replace(HOME, &home_now);
    let [input, output] = ["input", "output"].map(|what| home.with_file_name(format!("{what}-{number}")));
    fs::write(&input, command.input.iter().map(|line| now(line) + "\n").collect::<String>())?;
    let file = File::create(&output)?;
    let bugnet = binary()?;
    // Beside the cargo that runs the tests lies the compiler.
    let cargo = std::env::var_os("CARGO").context("there is no cargo")?;
    let folder = |program: &Path| program.parent().map(|folder| folder.display().to_string());
    let [bugnet, rust] =
        [folder(&bugnet), folder(Path::new(&cargo))].map(|folder| folder.context("a program's folder"));
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin:{}", bugnet?, rust?);
    let mut shell = process::Command::new("timeout");
    shell.args(["120", "bash", "-c", &now(&command.shell)]).current_dir(home);
    shell.env_clear().envs([
        ("PATH", path.as_str()),
        ("HOME", &home_now),
        ("LC_ALL", "C.UTF-8"),
        ("TZ", "UTC"),
        ("TERM", "dumb"),
    ]);
    shell.stdin(Stdio::from(File::open(&input)?)).stdout(file.try_clone()?).stderr(file);
    shell.status().context("starting bash")?;
    let printed = fs::read(&output)?;
    Ok(String::from_utf8_lossy(&printed).replace(&*home_now, HOME).replace("(gdb) ", ""))
}

/// The lines that the book shows are among those that the command printed, in their order.
fn compare(command: &Command, printed: &str, known: &mut HashMap<String, String>) -> Result<()> {
    let is_meant = command.prints.iter().any(|shown| shown.contains("panicked at"));
    ensure!(is_meant || !printed.contains("panicked at"), "it panicked");
    let mut lines = printed.lines();
    for shown in &command.prints {
        if !lines.any(|is| alike(shown, is, known)) {
            bail!("the book shows this line, and here it does not follow:\n{shown}");
        }
    }
    Ok(())
}
