//! `bugnet info` of a crash or a hang: arguments and local variables of all stacks, whose code is whose, locks. Of programs that are
//! gone by then, with their sources and the files of their debug information.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, must_pass, run, source_tree};
use bugnet_tests::programs::compile;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// Compiles the program in a folder of its own.
fn program(workshop: &Workshop, name: &str, flags: &[&str]) -> Result<Job> {
    let source = fs::read_to_string(source_tree().join("tests/programs/variables.c"))?;
    let folder = workshop.folder(&format!("{name}-program"))?;
    let path = folder.join("variables");
    let compiler = [&["gcc", "-pthread"], flags].concat();
    compile(&compiler, &source, &path)?;
    Ok(Job::new(&folder, [path.to_string_lossy()]))
}

/// Records the program as it dies in this way, takes its folder away, and returns what `info` says, as text.
fn info_of(workshop: &Workshop, name: &str, job: &Job, how: &str) -> Result<String> {
    let log = workshop.path.join(name);
    let mut job = job.clone();
    job.command.push(how.to_owned());
    run(&mut job.recorded(&log, &[])?)?;
    fs::remove_dir_all(&job.dir)?;
    info(&log)
}

fn info(log: &Path) -> Result<String> {
    must_pass(&["replay"], log)?;
    Ok(String::from_utf8_lossy(&must_pass(&["info"], log)?.stdout).into_owned())
}

fn has(text: &str, expected: &[&str]) -> Result<()> {
    for expected in expected {
        ensure!(text.contains(expected), "there is no `{expected}` in\n{text}");
    }
    Ok(())
}

/// The variables of the crash by the list.
const LIST: [&str; 6] = [
    "local     at = 0x0\n",
    "local     sum = 42\n",
    "argument  argc = 2\n",
    "local     how = 0x",
    "\"list\"\n",
    "local     second = {next = 0x0, name = 0x",
];

fn shows_the_list(name: &str, flags: &[&str], prepare: impl Fn(&Path) -> Result<()>) -> Result<()> {
    let workshop = Workshop::new(&format!("variables-{name}"))?;
    let job = program(&workshop, name, flags)?;
    prepare(Path::new(&job.command[0]))?;
    let text = info_of(&workshop, name, &job, "list")?;
    has(&text, &LIST)?;
    has(&text, &["\"second\", value = 2, zero = 0}\n", "next:\n  bugnet why -p "])?;
    workshop.done()
}

fn tool(command: &mut Command) -> Result<()> {
    let output = run(command)?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[test]
fn locals_of_programs_that_are_gone() -> Result<()> {
    shows_the_list("plain", &["-O0", "-g"], |_| Ok(()))?;
    shows_the_list("dwarf4", &["-O0", "-g", "-gdwarf-4", "-no-pie"], |_| Ok(()))
}

#[test]
fn locals_by_a_debug_link() -> Result<()> {
    shows_the_list("link", &["-O0", "-g"], |path| {
        let debug = path.with_extension("debug");
        tool(Command::new("objcopy").arg("--only-keep-debug").arg(path).arg(&debug))?;
        tool(Command::new("strip").arg("-g").arg(path))?;
        tool(Command::new("objcopy").arg(format!("--add-gnu-debuglink={}", debug.display())).arg(path))
    })
}

#[test]
fn locals_from_the_cache_of_debuginfod() -> Result<()> {
    let workshop = Workshop::new("variables-debuginfod")?;
    let job = program(&workshop, "cache", &["-O0", "-g", "-Wl,--build-id=0x0123456789abcdef"])?;
    let path = Path::new(&job.command[0]);
    // What the client keeps of a file that no server has, and the file itself in another cache.
    let [empty, cache] = ["empty", "cache"].map(|name| workshop.path.join(name));
    for folder in [empty.clone(), cache.join("debuginfod_client")] {
        fs::create_dir_all(folder.join("0123456789abcdef"))?;
        fs::write(folder.join("0123456789abcdef/debuginfo"), "")?;
    }
    let debug = cache.join("debuginfod_client/0123456789abcdef/debuginfo");
    tool(Command::new("objcopy").arg("--only-keep-debug").arg(path).arg(&debug))?;
    tool(Command::new("strip").arg("-g").arg(path))?;
    let mut died = job.clone();
    died.command.push("list".to_owned());
    let log = workshop.path.join("log");
    run(died.recorded(&log, &[])?.env("DEBUGINFOD_CACHE_PATH", &empty).env("XDG_CACHE_HOME", &cache))?;
    fs::remove_dir_all(&job.dir)?;
    fs::remove_dir_all(&cache)?;
    has(&info(&log)?, &LIST)?;
    workshop.done()
}

#[test]
fn locals_in_split_units_and_shared_files() -> Result<()> {
    shows_the_list("split", &["-O0", "-g", "-gsplit-dwarf"], |_| Ok(()))?;
    shows_the_list("dwz", &["-O0", "-g"], |path| {
        let other = path.with_extension("other");
        fs::copy(path, &other)?;
        tool(Command::new("dwz").arg("-m").arg(path.with_extension("shared")).arg(path).arg(&other))
    })
}

#[test]
fn only_what_is_known_is_shown() -> Result<()> {
    let workshop = Workshop::new("variables-known")?;
    let job = program(&workshop, "known", &["-O0", "-g"])?;
    let text = info_of(&workshop, "known", &job, "heap")?;
    // What calloc has cleared was read as zero; nobody looked at the rest of the other object.
    has(&text, &["seen = {next = 0x0, name = 0x", "\"item\", value = 0, zero = 0}\n", "argument  count = 3\n"])?;
    workshop.done()
}

#[test]
fn the_users_own_frame() -> Result<()> {
    let workshop = Workshop::new("variables-own")?;
    let job = program(&workshop, "own", &["-O0", "-g"])?;
    let text = info_of(&workshop, "own", &job, "free")?;
    let own = text.lines().find(|line| line.starts_with("> #")).context("no frame is marked")?;
    ensure!(own.contains("give_back at "), "{own}");
    has(
        &text,
        &["> the first frame of the user's own: in ", "the program itself\n", "libc.so.6\n", "argument  memory = 0x"],
    )?;
    workshop.done()
}

#[test]
fn where_a_wild_jump_came_from() -> Result<()> {
    let workshop = Workshop::new("variables-jump")?;
    let job = program(&workshop, "jump", &["-O0", "-g"])?;
    let text = info_of(&workshop, "jump", &job, "jump")?;
    let mut lines = text.lines().skip_while(|line| !line.starts_with("last instructions before it:"));
    let last = lines.by_ref().take_while(|line| !line.is_empty()).last().context("no last instructions")?;
    ensure!(last.contains("call r") && last.contains("in call at "), "{last}");
    has(&text, &["argument  function = 0x1234567\n", "argument  why = 0x", "\"never\"\n"])?;
    workshop.done()
}

#[test]
fn who_holds_which_lock() -> Result<()> {
    let workshop = Workshop::new("variables-hang")?;
    let mut job = program(&workshop, "hang", &["-O0", "-g"])?;
    job.command.push("hang".into());
    let log = workshop.path.join("hang");
    let mut bugnet = job.recorded(&log, &[])?.stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    let mut output = std::io::BufReader::new(bugnet.stdout.take().context("its output")?);
    std::io::BufRead::read_line(&mut output, &mut line)?;
    // Both threads have to get into the kernel.
    std::thread::sleep(Duration::from_millis(500));
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", bugnet.id()))?;
    let pid: i32 = children.split_whitespace().next().context("no child")?.parse()?;
    // SAFETY: two numbers.
    ensure!(unsafe { libc::kill(pid, libc::SIGTERM) } == 0, "the process is gone");
    let begun = Instant::now();
    while bugnet.try_wait()?.is_none() {
        ensure!(begun.elapsed() < LIMIT, "bugnet record does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    fs::remove_dir_all(&job.dir)?;
    let text = info(&log)?;
    let waits: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with("waits for the mutex")).collect();
    ensure!(waits.len() == 2, "{text}");
    ensure!(waits[0].contains("mutex shared.lock at 0x") && waits[0].contains(", which thread "), "{}", waits[0]);
    let expected = format!(", which thread {pid} holds");
    ensure!(waits[1].contains("mutex first at 0x") && waits[1].ends_with(&expected), "{}", waits[1]);
    has(&text, &["meanwhile, ", "argument  argument = 0x4d\n", "local     number = 77\n"])?;
    let json = must_pass(&["info", "--json"], &log)?;
    let json: Value = serde_json::from_slice(&json.stdout)?;
    let crash = &json["crashes"][0];
    ensure!(crash["waiting"]["kind"] == "mutex" && crash["others"][0]["waiting"]["holder"] == pid, "{crash}");
    workshop.done()
}

#[test]
fn source_text_where_it_is_the_one_that_was_compiled() -> Result<()> {
    let workshop = Workshop::new("variables-source")?;
    let folder = &workshop.path;
    let source = folder.join("dies.c");
    fs::write(&source, "int main(void)\n{\n    volatile int *nothing = 0;\n    return *nothing; // dying\n}\n")?;
    let sum = run(Command::new("md5sum").arg(&source))?;
    let sum = String::from_utf8_lossy(&sum.stdout).split(' ').next().unwrap_or_default().to_owned();
    // The assembler of Debian 12 writes the number's lowest byte first, as it should not.
    let bytes: Vec<&str> = (0..16).filter_map(|n| sum.get(2 * n..2 * n + 2)).collect();
    let turned: String = bytes.into_iter().rev().collect();
    // gcc leaves it to the assembler to say which version of a file it was, and does not tell it.
    let assembly = folder.join("dies.s");
    tool(Command::new("gcc").args(["-S", "-g", "-gdwarf-5", "-o"]).arg(&assembly).arg(&source))?;
    let text = fs::read_to_string(&assembly)?;
    let path = folder.join("dies");
    let log = folder.join("log");
    let mut fits = false;
    for sum in [&sum, &turned] {
        let with_sum = |line: &str| {
            let is_numbered = line.trim_start().strip_prefix(".file").is_some_and(|rest| !rest.trim().starts_with('"'));
            if is_numbered { format!("{line} md5 0x{sum}\n") } else { format!("{line}\n") }
        };
        fs::write(&assembly, text.lines().map(with_sum).collect::<String>())?;
        tool(Command::new("gcc").arg("-o").arg(&path).arg(&assembly))?;
        let job = Job::new(folder, [path.to_string_lossy()]);
        run(&mut job.recorded(&log, &[])?)?;
        fs::remove_file(&path)?;
        let text = info(&log)?;
        has(&text, &[">     4      return *nothing; // dying\n"])?;
        if text.contains(&format!("\n\n{}:4\n", source.display())) {
            fits = true;
            break;
        }
        has(&text, &["dies.c:4 (not the file that was compiled: its checksum differs)\n"])?;
        fs::remove_dir_all(&log)?;
    }
    ensure!(fits, "no file is taken for the one that was compiled");
    fs::write(&source, "void other(void) {}\n".repeat(10))?;
    has(&info(&log)?, &["dies.c:4 (not the file that was compiled: its checksum differs)\n"])?;
    fs::remove_file(&source)?;
    ensure!(!info(&log)?.contains("checksum"), "source text of a file that is gone");
    workshop.done()
}
