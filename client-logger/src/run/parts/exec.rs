//! Programs that the program executes: the kernel is made to execute DynamoRIO in their place, which then runs them
//! with this logger, as `bugnet record` does with the first program.
//!
//! Where `execve` would fail, the kernel is left to say so. Where it would succeed but the program cannot be recorded
//! (it gains rights, it is for another processor), it runs without being recorded, and the log and a message say so.

use crate::base::capabilities::as_once_executed;
use crate::base::descriptors::{How, OwnFile, read_text, undisturbed};
use crate::base::memory::{read_memory, read_word};
use crate::base::options;
use crate::base::process;
use crate::kernel::arguments::string;
use crate::kernel::limits::{self, Limits};
use crate::kernel::streams;
use crate::kernel::streams::Streams;
use crate::kernel::substitute::Substitution;
use crate::log::files;
use crate::log::origin;
use crate::log::recording;
use bugnet_format::folder::process_folder;
use bugnet_format::process::ProcessInfo;
use bugnet_format::types::{Pid, ProcessId};
use bugnet_launch::{Program, ProgramError, obstacle, variables};
use std::ffi::{CString, OsStr, OsString, c_void};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// More arguments or variables than the kernel takes.
const MAX_STRINGS: u64 = 1 << 22;
/// The ELF magic number.
const ELF: &[u8] = b"\x7fELF";

/// An `execve` under way: what the kernel reads for it, and what is to be undone if it fails.
#[derive(Debug, Default)]
pub struct Exec {
    substitution: Option<Substitution>,
    path: CString,
    variables: Vec<CString>,
    arguments: Vec<CString>,
    argv: Vec<u64>,
    envp: Vec<u64>,
    /// Folder that says of the program that it is not recorded.
    unrecorded: Option<PathBuf>,
}

/// What to do about an `execve`.
enum Plan {
    /// The kernel makes it as it is: it fails.
    Fails,
    /// The program is recorded.
    Record(Program),
    /// The program runs unrecorded, for this reason. It may also fail.
    Unrecorded { why: String, warn: bool },
}

impl Plan {
    /// What Valgrind executes, with these variables, to run a program is not recorded: it wants the whole address space and all
    /// descriptors for itself, as the recorder does.
    fn but_for_valgrind(self, envp: u64) -> Self {
        const VARIABLE: &[u8] = b"VALGRIND_LAUNCHER=";
        let is_it = |variable: &u64| {
            let mut name = [0; VARIABLE.len()];
            read_memory(*variable, &mut name) && name == VARIABLE
        };
        match self {
            Self::Record(_) if pointers(envp).is_some_and(|all| all.iter().any(is_it)) => {
                Self::Unrecorded { why: "Valgrind, which runs programs itself, cannot be recorded".into(), warn: true }
            }
            plan => plan,
        }
    }
}

/// A null-terminated array of pointers in the program's memory, without the null.
fn pointers(address: u64) -> Option<Vec<u64>> {
    let mut found = Vec::new();
    if address == 0 {
        return Some(found);
    }
    for at in (address..).step_by(8).take(MAX_STRINGS as usize) {
        match read_word(at)? {
            0 => return Some(found),
            pointer => found.push(pointer),
        }
    }
    None
}

/// The path of the file that an `execve` or `execveat` executes.
fn path_argument(number: i64, args: &[u64; 6]) -> Option<PathBuf> {
    if number == libc::SYS_execve {
        return Some(PathBuf::from(OsString::from_vec(string(args[0])?)));
    }
    let path = OsString::from_vec(string(args[1])?);
    let (folder, flags) = (args[0] as i32, args[4] as i32);
    if flags & libc::AT_SYMLINK_NOFOLLOW != 0 && std::fs::symlink_metadata(&path).is_ok_and(|m| m.is_symlink()) {
        return None;
    }
    if folder == libc::AT_FDCWD || path.as_bytes().starts_with(b"/") {
        return Some(PathBuf::from(path));
    }
    let folder = PathBuf::from(format!("/proc/self/fd/{folder}"));
    match path.is_empty() {
        true => (flags & libc::AT_EMPTY_PATH != 0).then_some(folder),
        false => Some(folder.join(path)),
    }
}

/// Whether this process may do `mode` with a file, with the ids that count for `execve`.
fn may(path: &Path, mode: i32) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: a C string and flags.
    unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), mode, libc::AT_EACCESS) == 0 }
}

fn starts_with(path: &Path, magic: &[u8]) -> bool {
    let mut head = vec![0; magic.len()];
    let file = OwnFile::open(path, How::Read);
    file.and_then(|file| (&*file).read_exact(&mut head)).is_ok() && head == magic
}

fn plan(path: PathBuf) -> Plan {
    let unrecorded = |why: String| Plan::Unrecorded { why, warn: true };
    // Of a script, only what the kernel puts before the program's own arguments is asked for.
    let program = match undisturbed(|| Program::at(path.clone(), vec![OsString::new()])) {
        Ok(program) => program,
        Err(ProgramError::WrongFormat { path, found }) => {
            // What is neither an ELF file nor a script fails, unless the system was told how to run it.
            let warn = starts_with(&path, ELF);
            return Plan::Unrecorded { why: format!("{} is {found}", path.display()), warn };
        }
        Err(ProgramError::Privileged { path, what }) => return unrecorded(format!("{} is {what}", path.display())),
        Err(ProgramError::Unreadable { path, .. }) if path.starts_with("/proc/self/fd") && may(&path, libc::X_OK) => {
            return unrecorded("it has no path: it is in memory only, or deleted, or not mounted".into());
        }
        Err(ProgramError::Unreadable { path, source }) if may(&path, libc::X_OK) => {
            return unrecorded(format!("{} cannot be read: {source}", path.display()));
        }
        Err(_) => return Plan::Fails,
    };
    let beginning = origin::beginning();
    if program.elf == beginning.dynamorio {
        return unrecorded("it is another recording".into());
    }
    match as_once_executed(|| out_of_reach(&program.elf)).or_else(obstacle).or_else(traced) {
        Some(why) => unrecorded(why),
        None => Plan::Record(program),
    }
}

/// What the recorder cannot get at here, if there is something.
fn out_of_reach(program: &Path) -> Option<String> {
    let (dynamorio, log) = (&origin::beginning().dynamorio, &options::get().log);
    if !may(dynamorio, libc::X_OK) {
        return Some(format!("{} cannot be reached from here", dynamorio.display()));
    }
    if !may(log, libc::W_OK | libc::X_OK) {
        return Some(format!("the log in {} cannot be written from here", log.display()));
    }
    (!may(program, libc::R_OK)).then(|| format!("{} cannot be read", program.display()))
}

/// Who among those that are recorded traces this process, if somebody does: what a tracer finds and changes in a process that is
/// recorded is DynamoRIO's, and not the program's.
fn traced() -> Option<String> {
    let status = read_text("/proc/self/status").ok()?;
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?.trim().parse().ok()?;
    let id = ProcessId { pid: Pid(tracer), program: 0 };
    let recorded = tracer != 0 && options::get().log.join(process_folder(id)).exists();
    recorded.then(|| format!("process {tracer}, which is recorded itself, traces it"))
}

fn c_string(bytes: impl AsRef<OsStr>) -> CString {
    CString::new(bytes.as_ref().as_bytes()).unwrap_or_default()
}

fn assignment(name: &str, value: impl AsRef<OsStr>) -> CString {
    let mut text = OsString::from(name);
    text.push("=");
    text.push(value);
    c_string(text)
}

impl Exec {
    /// Before an `execve` or `execveat`: sees to it that the program is recorded. `None` if the kernel is to make the
    /// call as it is. A child of `vfork` has limits and streams of its own.
    ///
    /// # Errors
    /// The call's result, if its arguments cannot be read, which DynamoRIO would not survive.
    pub fn prepare(
        drcontext: *mut c_void,
        number: i64,
        args: &[u64; 6],
        (own_limits, own_streams): (Option<Limits>, Option<&Streams>),
    ) -> Result<Option<Self>, i64> {
        let fault = -i64::from(libc::EFAULT);
        let path_at = if number == libc::SYS_execve { args[0] } else { args[1] };
        if string(path_at).is_none() {
            return Err(fault);
        }
        let own_limits = Limits::of(own_limits);
        let Some(mut path) = path_argument(number, args) else {
            limits::hand_over(&own_limits);
            return Ok(None);
        };
        let is_itself =
            path.starts_with("/proc") && path.canonicalize().is_ok_and(|path| path == origin::beginning().dynamorio);
        let (argv, envp) = if number == libc::SYS_execve { (args[1], args[2]) } else { (args[2], args[3]) };
        // To the system, what runs now is DynamoRIO.
        let mut itself = None;
        if is_itself {
            path = PathBuf::from(origin::beginning().program());
            itself = Some((c_string(&path), [argv, envp]));
        }
        if !options::get().follow {
            if !matches!(plan(path), Plan::Fails) {
                limits::hand_over(&own_limits);
            }
            return Ok(itself.map(|itself| Self::default().instead(drcontext, itself)));
        }
        match plan(path.clone()).but_for_valgrind(envp) {
            Plan::Fails => Ok(None),
            _ if pointers(argv).is_none() || pointers(envp).is_none() => Err(fault),
            Plan::Unrecorded { why, warn } => {
                limits::hand_over(&own_limits);
                let exec = Self::unrecorded(&path, argv, why, warn);
                Ok(Some(match itself {
                    Some(itself) => exec.instead(drcontext, itself),
                    None => exec,
                }))
            }
            Plan::Record(program) => {
                let streams = own_streams.map_or_else(|| streams::of_process().encode(), Streams::encode);
                let Some(mut exec) = Self::recorded(&program, argv, envp) else { return Ok(None) };
                exec.pass([(variables::STREAMS, streams), (variables::LIMITS, own_limits.encode())]);
                let argv = if exec.argv.is_empty() { argv } else { exec.argv.as_ptr() as u64 };
                let executed = (c_string(&origin::beginning().dynamorio), [argv, exec.envp.as_ptr() as u64]);
                Ok(Some(exec.instead(drcontext, executed)))
            }
        }
    }

    /// The kernel executes this absolute path, with these vectors of arguments and variables.
    fn instead(mut self, drcontext: *mut c_void, (path, [argv, envp]): (CString, [u64; 2])) -> Self {
        self.path = path;
        // `execveat` with a path from the root is `execve`, which alone DynamoRIO knows.
        let arguments = [(0, self.path.as_ptr() as u64), (1, argv), (2, envp)];
        self.substitution = Substitution::make(drcontext, libc::SYS_execve, &arguments);
        self
    }

    fn recorded(program: &Program, argv: u64, envp: u64) -> Option<Self> {
        let beginning = origin::beginning();
        let mut exec = Self::default();
        if program.argv.len() > 1 {
            // A script: the interpreter, its argument and the script come before the program's own.
            exec.arguments = program.argv.iter().map(c_string).collect();
            exec.argv = exec.arguments.iter().map(|s| s.as_ptr() as u64).collect();
            exec.argv.extend(pointers(argv)?.into_iter().skip(1));
            exec.argv.push(0);
        }
        let origin = serde_json::to_string(&recording::origin_of_executed()).ok()?;
        exec.variables = vec![
            assignment(variables::PROGRAM, &program.elf),
            assignment(variables::NAME, program.name()),
            assignment(variables::RUN_UNDER, "1"),
            assignment(variables::OPTIONS, without_stack_limit(&beginning.options)),
            assignment(variables::ORIGIN, origin),
        ];
        exec.envp = pointers(envp)?;
        exec.envp.retain(|variable| {
            let mut name = [0; variables::PREFIX.len()];
            !read_memory(*variable, &mut name) || name != variables::PREFIX
        });
        Some(exec)
    }

    /// Ends the variables of a program that is recorded, with these behind the others.
    fn pass(&mut self, more: [(&str, String); 2]) {
        self.variables.extend(more.map(|(name, value)| assignment(name, value)));
        self.envp.extend(self.variables.iter().map(|variable| variable.as_ptr() as u64));
        self.envp.push(0);
    }

    /// The program will run without being recorded.
    fn unrecorded(path: &Path, argv: u64, why: String, warn: bool) -> Self {
        if warn {
            crate::base::warn(&format!("{} is not recorded: {why}", path.display()));
        }
        let text = |pointer| Some(String::from_utf8_lossy(&string(pointer)?).into_owned());
        let info = ProcessInfo {
            program: path.to_string_lossy().into_owned(),
            args: pointers(argv).unwrap_or_default().into_iter().filter_map(text).collect(),
            unrecorded: Some(why),
            ..origin::beginning().describe(recording::origin_of_executed())
        };
        // Where that is not possible, the message has to do.
        let made = origin::make_folder(&options::get().log, process::current_pid(), &info);
        Self { unrecorded: made.ok().map(|(_, folder)| folder), ..Self::default() }
    }

    /// The call has failed: all is as if it had been made as it was.
    pub fn failed(self, drcontext: *mut c_void) {
        if let Some(substitution) = self.substitution {
            substitution.undo(drcontext);
        }
        if let Some(folder) = self.unrecorded {
            files::remove_folder(&folder);
        }
    }
}
/// The options without the logger's about the limit of the stack, which was for the first program only.
fn without_stack_limit(options: &OsStr) -> OsString {
    const NAME: &[u8] = b" -stack-limit ";
    let bytes = options.as_bytes();
    let Some(start) = bytes.windows(NAME.len()).position(|window| window == NAME) else { return options.to_owned() };
    let digits = bytes[start + NAME.len()..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    OsString::from_vec([&bytes[..start], &bytes[start + NAME.len() + digits..]].concat())
}
