//! Starts the program under DynamoRIO with the logger, in the environment that it would have alone.

use super::error::RecordError;
use super::inherited::Inherited;
use super::limits::Limits;
use super::low_layout;
use super::machine::CpuLevel;
use super::seed::{WHOLE_BLOCKS, longest_block};
use super::streams::Streams;
use bugnet_launch::{Program, variables};
use nix::sched::{CloneFlags, clone};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use std::convert::Infallible;
use std::ffi::{CStr, CString, OsStr, OsString, c_char};
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Longest option string that DynamoRIO takes, in bytes (`MAX_OPTIONS_STRING`, less its NUL byte).
const MAX_OPTIONS: usize = 2047;

/// DynamoRIO's own options. `-code_api`: without it clients see no blocks. `-stack_size` and, for what a client does
/// in its signal event, `-signal_stack_size`: a Rust client needs more than the defaults. `-sandbox_writable`: pages
/// that are executed and written stay writable, which the program can notice; for most, the logger sees to it without
/// that. `-disable_rseq`: restartable sequences would run twice, once uninstrumented. `-max_bb_instrs`, which is added to
/// these: instrumented blocks must not exceed DynamoRIO's limit. `-no_follow_children`: the logger itself takes care of programs that the
/// program executes. `-heap_commit_increment` and `-cache_commit_increment`: by single pages, a short run makes 500
/// system calls for that.
///
/// `-inline_bb_ibl`: each block looks up by itself where its indirect branch goes, at a place of its own, by which the
/// processor predicts it. It needs the logger's help: see `Block::save_for_look_up`.
///
/// `-private_bb_ibl_targets_init`, `-private_bb_ibl_targets_load`: with tables as small and as full as DynamoRIO's own, the look-up of a
/// program with many functions mostly goes on behind its first place: sqlite spends a tenth of its time there.
///
/// `-vmheap_size`: DynamoRIO's heap comes from a reservation that begins with the slots of the first thread. With less than the
/// usual 8 GB, the code cache above it mostly reaches them (`by_rip` in the logger). It has room for 5,000 threads, whose stacks are
/// no larger than need be for that: what does not fit comes from elsewhere, and costs time that grows with the square of their number.
/// `-no_guard_pages`: guards around each piece of the heap, not those of stacks, make three times as many mappings, of which a process
/// can have 65,530.
/// (With `-reachable_heap` it always would, but all threads' stacks would have to fit beside the code.) `-no_enable_reset`:
/// where a reservation is used up, DynamoRIO takes more, instead of throwing away what it has. `-protect_mask 0`: it would make
/// code of its own writable and read-only again for each change of the program's code, and look for it in `/proc/self/maps`.
///
/// `-disable_traces`: traces cost more than twice the time to translate, and take long to save it. Made late, of hot
/// code only, they save up to a third. But blocks must be reachable by indirect branches meanwhile (`-bb_ibl_targets`),
/// and with that, DynamoRIO crashes when it throws traces away, or, if threads share the look-up tables of traces, too
/// (`-shared_trace_ibt_tables`), never gets over a jump to address 0.
const DYNAMORIO_OPTIONS: &str = "-code_api -stack_size 128K -signal_stack_size 64K -sandbox_writable -disable_rseq \
    -disable_traces -inline_bb_ibl -no_follow_children -no_guard_pages -vmheap_size 1792M -no_enable_reset -protect_mask 0 -heap_commit_increment 64K -cache_commit_increment 64K \
    -private_bb_ibl_targets_init 10 -private_bb_ibl_targets_load 20";

/// What the logger is told.
#[derive(Clone, Copy, Debug)]
pub struct LoggerOptions<'a> {
    /// The log's folder, absolute.
    pub log: &'a Path,
    /// Instructions of a checkpoint interval.
    pub interval: u64,
    /// Only the last so many intervals of each thread are kept; 0 for all.
    pub keep: u64,
    /// A check at least every so many instructions; 0 for none but those of frames.
    pub check_every: u64,
    /// `--cpu`.
    pub cpu: &'a str,
    /// When memory is kept at the end of a process, as the logger calls it, and how many bytes at most.
    pub snapshot: (&'a str, u64),
    /// Whether the program's children are recorded, and programs that take its place.
    pub follow: bool,
    /// The limit of the stack in bytes, if the program starts in a low layout, which needs another.
    pub stack_limit: Option<u64>,
    /// `--chaos`.
    pub chaos: Option<u64>,
}

impl LoggerOptions<'_> {
    /// The client's option string. DynamoRIO splits it at spaces, so the path is percent-encoded.
    fn encode(&self) -> String {
        let mut options = format!(
            "-log {} -interval {} -keep {} -check-every {} -cpu {} -snapshot {} -snapshot-limit {} -follow {}",
            percent_encode(self.log),
            self.interval,
            self.keep,
            self.check_every,
            self.cpu,
            self.snapshot.0,
            self.snapshot.1,
            u8::from(self.follow)
        );
        if let Some(limit) = self.stack_limit {
            let _ = write!(options, " -stack-limit {limit}");
        }
        if let Some(seed) = self.chaos {
            let _ = write!(options, " -chaos {seed}");
        }
        options
    }
}

/// Every byte but ASCII letters, digits, `/`, `.`, `_` and `-` as `%` and two hexadecimal digits.
pub fn percent_encode(path: &Path) -> String {
    path.as_os_str().as_bytes().iter().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            out.push(char::from(*byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

/// The value of `DYNAMORIO_OPTIONS` for the logger at this path, with options of its own.
pub fn dynamorio_options_for(logger: &Path, options: &str) -> Result<OsString, RecordError> {
    join_options(logger, options, WHOLE_BLOCKS, logger)
}

/// The value of `DYNAMORIO_OPTIONS`. DynamoRIO splits a client's entry at `;` and has no way to escape a quote, but it
/// knows three kinds of them.
fn dynamorio_options(logger: &Path, options: &LoggerOptions) -> Result<OsString, RecordError> {
    let block = options.chaos.map_or(WHOLE_BLOCKS, longest_block);
    join_options(logger, &options.encode(), block, options.log)
}

fn join_options(logger: &Path, own: &str, block: u64, log: &Path) -> Result<OsString, RecordError> {
    let unusable = |why, hint| RecordError::UnusablePath { path: logger.to_owned(), why, hint };
    let path = logger.as_os_str().as_bytes();
    let quote = b"'\"`".iter().find(|quote| !path.contains(quote));
    let Some(quote) = quote.filter(|_| !path.contains(&b';')) else {
        return Err(unusable("has a semicolon or all three kinds of quotes in it", "install bugnet in another folder"));
    };
    let mut value = DYNAMORIO_OPTIONS.as_bytes().to_vec();
    value.extend_from_slice(format!(" -max_bb_instrs {block} -client_lib ").as_bytes());
    value.push(*quote);
    value.extend_from_slice(path);
    value.extend_from_slice(b";0;");
    value.extend_from_slice(own.as_bytes());
    value.push(*quote);
    if value.len() > MAX_OPTIONS {
        return Err(RecordError::UnusablePath {
            path: log.to_owned(),
            why: "is too long",
            hint: "choose a shorter one with -o",
        });
    }
    Ok(OsString::from_vec(value))
}

/// This process's environment as it is: in order, with duplicates and with entries that are no assignments.
fn own_environment() -> Vec<CString> {
    let mut variables = Vec::new();
    // SAFETY: `environ` is null or points to an array of pointers to strings that ends with a null pointer. This
    // program never changes its environment and has one thread here, so that all of it stays valid while it is read.
    unsafe {
        let mut entry: *const *const c_char = libc::environ.cast_const().cast();
        while !entry.is_null() && !(*entry).is_null() {
            variables.push(CStr::from_ptr(*entry).to_owned());
            entry = entry.add(1);
        }
    }
    variables
}

/// The user's environment and, behind it, what DynamoRIO needs to know. The logger hides the latter from the program.
fn environment(
    own: Vec<CString>,
    program: &Program,
    options: &OsStr,
    limits: &Limits,
) -> Result<Vec<CString>, RecordError> {
    let mut all = own;
    all.retain(|variable| !variable.as_bytes().starts_with(variables::PREFIX));
    let assignment = |name: &str, value: &OsStr| {
        let mut text = OsString::from(name);
        text.push("=");
        text.push(value);
        c_string(text)
    };
    all.push(assignment(variables::PROGRAM, program.elf.as_os_str())?);
    all.push(assignment(variables::NAME, program.name())?);
    all.push(assignment(variables::RUN_UNDER, OsStr::new("1"))?);
    all.push(assignment(variables::OPTIONS, options)?);
    all.push(assignment(variables::LIMITS, OsStr::new(&limits.encode()))?);
    Ok(all)
}

fn c_string(text: OsString) -> Result<CString, RecordError> {
    CString::new(text.into_vec()).map_err(|e| RecordError::Nul(OsString::from_vec(e.into_vec())))
}

/// A null-terminated array of pointers to `strings`, as `execve` takes it.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Bytes of the stack on which a child comes as far as to execute.
const STACK: usize = 64 << 10;

/// How the address space is laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// As the system does.
    Usual,
    /// Libraries lie low, as where the stack has no limit.
    Low,
    /// Libraries lie low, and the stack keeps its limit.
    Legacy,
}

/// What is executed.
pub struct Execution {
    path: PathBuf,
    file: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    recorded: bool,
    layout: Layout,
}

impl Execution {
    /// `dynamorio` itself with the program's arguments.
    pub fn recorded(
        program: &Program,
        dynamorio: &Path,
        logger: &Path,
        options: &LoggerOptions,
        limits: &Limits,
    ) -> Result<Self, RecordError> {
        let options_text = dynamorio_options(logger, options)?;
        Ok(Self {
            path: dynamorio.to_owned(),
            file: c_string(dynamorio.as_os_str().to_owned())?,
            arguments: program.argv.iter().cloned().map(c_string).collect::<Result<_, _>>()?,
            environment: environment(own_environment(), program, &options_text, limits)?,
            recorded: true,
            layout: if options.stack_limit.is_some() { Layout::Low } else { Layout::Usual },
        })
    }

    /// The program that captures it natively, into the log in this folder.
    pub fn captured(
        program: &Program,
        capture: &Path,
        log: &Path,
        cpu: CpuLevel,
        chaos: Option<u64>,
    ) -> Result<Self, RecordError> {
        let name = program.file.file_name().unwrap_or(program.file.as_os_str());
        // How it begins, by which process, what CPUID shows (`capture/src/special.rs`), and the seed of chaos; 0 for none.
        let level = match cpu {
            CpuLevel::Host | CpuLevel::V4 => 0,
            CpuLevel::V3 => 1,
            CpuLevel::V2 => 2,
        };
        let seed = chaos.map_or(0, |seed| seed as u32 | 1 << 31);
        let origin = format!("0.{}.0.0.{level}.{seed}", std::process::id());
        let [streams, answers] = [Path::new(""); 2];
        let own = [capture, log, Path::new(&origin), streams, answers, &program.elf, &program.file, Path::new(name)];
        let own = own.into_iter().map(|text| text.as_os_str().to_owned());
        Ok(Self {
            path: capture.to_owned(),
            file: c_string(capture.as_os_str().to_owned())?,
            arguments: own.chain(program.argv.iter().cloned()).map(c_string).collect::<Result<_, _>>()?,
            environment: own_environment(),
            recorded: false,
            layout: Layout::Legacy,
        })
    }

    /// The program, as if there were no bugnet.
    pub fn native(program: &Program, command: &[OsString]) -> Result<Self, RecordError> {
        Ok(Self {
            path: program.file.clone(),
            file: c_string(program.file.clone().into_os_string())?,
            arguments: command.iter().cloned().map(c_string).collect::<Result<_, _>>()?,
            environment: own_environment(),
            recorded: false,
            layout: Layout::Usual,
        })
    }

    /// Executes it in this process, with all that was `inherited`. Returns only if that fails.
    pub fn execute(&self, inherited: &Inherited) -> std::io::Result<Infallible> {
        self.prepare()(inherited)
    }

    /// The same, without an allocation once it is called.
    fn prepare(&self) -> impl Fn(&Inherited) -> std::io::Result<Infallible> {
        let (argv, envp) = (pointers(&self.arguments), pointers(&self.environment));
        move |inherited| {
            inherited.restore(self.recorded)?;
            match self.layout {
                Layout::Usual => {}
                Layout::Low => low_layout::ask()?,
                Layout::Legacy => low_layout::ask_by_personality(),
            }
            // SAFETY: the path and both arrays are alive and end with a NUL byte or a null pointer.
            unsafe { libc::execve(self.file.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
            Err(std::io::Error::last_os_error())
        }
    }
}

/// Executes a program in a child that has all that was `inherited`, but for some of its standard descriptors.
pub fn launch(execution: &Execution, inherited: &Inherited, streams: &Streams) -> Result<Pid, RecordError> {
    let exec = execution.prepare();
    let mut failed = None;
    let mut stack = vec![0; STACK];
    let in_child = || {
        failed = put_in_place(streams).and_then(|()| exec(inherited)).err();
        1
    };
    let failure = |source| RecordError::Launch { path: execution.path.clone(), source };
    // As `vfork`: the child has this process's memory, which waits until it has executed. A copy would take longer than all the
    // rest here.
    let flags = CloneFlags::CLONE_VM | CloneFlags::CLONE_VFORK;
    // SAFETY: this process has one thread, so the child is the only one that runs in its memory; the stack is large enough for
    // a few system calls, and the child executes or ends before it goes away.
    let child = unsafe { clone(Box::new(in_child), &mut stack, flags, Some(libc::SIGCHLD)) };
    let child = child.map_err(|errno| RecordError::NoProcess { source: errno.into() })?;
    match failed {
        None => Ok(child),
        Some(source) => {
            // It has ended, and is of no more interest.
            let _ = waitpid(child, None);
            Err(failure(source))
        }
    }
}

/// Gives the calling process, a child, these standard descriptors.
fn put_in_place(streams: &Streams) -> std::io::Result<()> {
    for (number, stream) in (0..).zip(streams) {
        // SAFETY: numbers only; what the child had there it uses no more.
        if stream.is_some_and(|stream| unsafe { libc::dup2(stream, number) } < 0) {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logger_options(log: &Path) -> LoggerOptions<'_> {
        let snapshot = ("crashes", 4096);
        LoggerOptions {
            log,
            interval: 10,
            keep: 2,
            check_every: 3,
            cpu: "host",
            snapshot,
            follow: true,
            stack_limit: None,
            chaos: None,
        }
    }

    fn options_for(logger: &str) -> Result<String, RecordError> {
        dynamorio_options(Path::new(logger), &logger_options(Path::new("/tmp/a b;é%")))
            .map(|o| o.into_string().unwrap())
    }

    #[test]
    fn options() {
        assert_eq!(
            options_for("/opt/my tools/liblogger.so").unwrap(),
            "-code_api -stack_size 128K -signal_stack_size 64K -sandbox_writable -disable_rseq \
             -disable_traces -inline_bb_ibl -no_follow_children -no_guard_pages -vmheap_size 1792M -no_enable_reset -protect_mask 0 -heap_commit_increment 64K -cache_commit_increment 64K \
             -private_bb_ibl_targets_init 10 -private_bb_ibl_targets_load 20 -max_bb_instrs 100 -client_lib '/opt/my tools/liblogger.so;0;-log /tmp/a%20b%3B%C3%A9%25 -interval 10 -keep 2 -check-every 3 -cpu host \
             -snapshot crashes -snapshot-limit 4096 -follow 1'"
        );
    }

    #[test]
    fn chaos() {
        let options = LoggerOptions { chaos: Some(4), ..logger_options(Path::new("/l")) };
        let text = dynamorio_options(Path::new("/l.so"), &options).unwrap().into_string().unwrap();
        assert!(text.ends_with("-follow 1 -chaos 4'") && text.contains("-max_bb_instrs 0 "), "{text}");
    }

    #[test]
    fn quotes_in_paths() {
        assert!(options_for("/it's/l.so").unwrap().contains("-client_lib \"/it's/l.so;0;-log"));
        assert!(options_for("/'\"/l.so").unwrap().contains("-client_lib `/'\"/l.so;0;-log"));
        for path in ["/a;b/l.so", "/'\"`/l.so"] {
            assert!(matches!(options_for(path), Err(RecordError::UnusablePath { .. })), "{path}");
        }
    }

    #[test]
    fn too_long() {
        let log = "/x".repeat(1000);
        let error = dynamorio_options(Path::new("/l.so"), &logger_options(Path::new(&log))).unwrap_err();
        assert!(matches!(&error, RecordError::UnusablePath { path, .. } if path == Path::new(&log)), "{error}");
    }

    #[test]
    fn environment_keeps_order_duplicates_and_oddities() {
        let own = ["B=1", "odd", "A=2", "DYNAMORIO_OPTIONS=x", "B=3", "=C:=D"].map(|v| CString::new(v).unwrap());
        let limits = Limits::raise().unwrap();
        let program = Program { file: "/x/a script".into(), elf: "/bin/true".into(), argv: Vec::new() };
        let variables = environment(own.into(), &program, OsStr::new("-o"), &limits).unwrap();
        let variables: Vec<_> = variables.iter().map(|v| v.to_str().unwrap()).collect();
        let limit = format!("DYNAMORIO_BUGNET_LIMITS={}", limits.encode());
        let name = "DYNAMORIO_BUGNET_NAME=a script";
        let ours = ["DYNAMORIO_EXE_PATH=/bin/true", name, "DYNAMORIO_RUNUNDER=1", "DYNAMORIO_OPTIONS=-o", &limit];
        assert_eq!(variables, [&["B=1", "odd", "A=2", "B=3", "=C:=D"][..], &ours].concat());
    }
}
