//! Finds the program to execute, as `execvp` and the kernel would: through PATH, and through `#!` lines.

use crate::error::ProgramError;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat, getegid, geteuid};
use object::elf;
use object::read::elf::FileHeader;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{Error, ErrorKind, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of a file's start that the kernel looks at for a `#!` line.
const SCRIPT_HEAD: usize = 256;
/// How many interpreters in a row the kernel follows before it gives up with ELOOP.
const MAX_INTERPRETERS: usize = 5;
/// Where programs are looked for when there is no PATH, as glibc does.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// What to execute.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// The file that the user named: for a script, the script. As `execvp` found it, so perhaps relative.
    pub file: PathBuf,
    /// The ELF file to run: absolute, without symbolic links.
    pub elf: PathBuf,
    /// Its whole argument vector.
    pub argv: Vec<OsString>,
}

impl Program {
    /// Finds `command[0]`, follows `#!` lines, and checks that the result can be recorded.
    ///
    /// # Errors
    /// There is no such program, or it cannot be recorded.
    pub fn find(command: &[OsString], path: Option<&OsStr>) -> Result<Self, ProgramError> {
        let name = command.first().ok_or(ProgramError::NotFound { name: OsString::new() })?;
        Self::at(search(name, path)?, command.to_vec())
    }

    /// What `execve` of `file` with these arguments executes.
    ///
    /// # Errors
    /// There is nothing to execute, or it cannot be recorded.
    pub fn at(file: PathBuf, mut argv: Vec<OsString>) -> Result<Self, ProgramError> {
        let mut elf = file.clone();
        for _ in 0..=MAX_INTERPRETERS {
            let metadata = executable(&elf)?;
            let head = read_head(&elf)?;
            if !head.starts_with(b"#!") {
                check_elf(&elf, &head)?;
                check_privileges(&elf, &metadata)?;
                let unreadable = |source| ProgramError::Unreadable { path: elf.clone(), source };
                let found = elf.canonicalize().map_err(unreadable)?;
                // Of a descriptor, the path is the one that the file had: another one may be there by now, or something be mounted over it.
                if !is_at(&metadata, &found).map_err(unreadable)? {
                    return Err(unreadable(Error::other("another file is where it was")));
                }
                return Ok(Self { file, elf: found, argv });
            }
            let line =
                Interpreter::parse(&head).ok_or_else(|| ProgramError::BadInterpreterLine { script: elf.clone() })?;
            // The kernel replaces argv[0] by the interpreter, its argument and the script's path.
            let mut vector = vec![line.path.clone().into_os_string()];
            vector.extend(line.argument);
            vector.push(elf.into_os_string());
            vector.extend(argv.drain(argv.len().min(1)..));
            argv = vector;
            elf = line.path;
            if !elf.exists() {
                return Err(ProgramError::NoInterpreter { script: file, interpreter: elf });
            }
        }
        Err(ProgramError::InterpreterLoop { script: file })
    }

    /// The name that the kernel gives the process (`comm`): that of the file, not of its interpreter or of what a link leads to.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        self.file.file_name().unwrap_or(self.file.as_os_str())
    }
}

/// Looks for a program as `execvp` does: a name with a slash is a path, all others are looked for in PATH, where a
/// file that may not be executed is passed over for a later one that may.
fn search(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, ProgramError> {
    if name.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(name));
    }
    let not_found = || ProgramError::NotFound { name: name.to_owned() };
    if name.is_empty() {
        return Err(not_found());
    }
    let mut refused = None;
    for folder in path.unwrap_or(OsStr::new(DEFAULT_PATH)).as_bytes().split(|b| *b == b':') {
        // An empty entry is the working directory.
        let file = Path::new(OsStr::from_bytes(folder)).join(name);
        match executable(&file) {
            Ok(_) => return Ok(file),
            Err(ProgramError::NotFound { .. }) => {}
            Err(other) => refused = refused.or(Some(other)),
        }
    }
    Err(refused.unwrap_or_else(not_found))
}

/// Checks that `path` is a file that this process may execute.
fn executable(path: &Path) -> Result<Metadata, ProgramError> {
    let metadata = path.metadata().map_err(|source| match source.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => ProgramError::NotFound { name: path.into() },
        _ => ProgramError::Unreadable { path: path.to_owned(), source },
    })?;
    if metadata.is_dir() {
        return Err(ProgramError::Directory { path: path.to_owned() });
    }
    // With the effective ids, as execve checks; also false on a file system mounted noexec.
    if !metadata.is_file() || faccessat(AT_FDCWD, path, AccessFlags::X_OK, AtFlags::AT_EACCESS).is_err() {
        return Err(ProgramError::NotExecutable { path: path.to_owned() });
    }
    Ok(metadata)
}

/// Whether the file of which this is known is at a path.
fn is_at(known: &Metadata, path: &Path) -> std::io::Result<bool> {
    let found = path.metadata()?;
    Ok((found.dev(), found.ino()) == (known.dev(), known.ino()))
}

fn read_head(path: &Path) -> Result<Vec<u8>, ProgramError> {
    let mut head = Vec::with_capacity(SCRIPT_HEAD);
    File::open(path)
        .and_then(|file| file.take(SCRIPT_HEAD as u64).read_to_end(&mut head))
        .map_err(|source| ProgramError::Unreadable { path: path.to_owned(), source })?;
    Ok(head)
}

/// A `#!` line.
#[derive(Debug, PartialEq, Eq)]
struct Interpreter {
    path: PathBuf,
    /// All that follows the path, in one piece: the kernel does not split it.
    argument: Option<OsString>,
}

impl Interpreter {
    /// Reads the `#!` line at the start of `head`, by the kernel's rules (`fs/binfmt_script.c`); `None` if the kernel
    /// would refuse it.
    fn parse(head: &[u8]) -> Option<Self> {
        let blank = |b: &u8| matches!(b, b' ' | b'\t');
        let (line, cut_off) = match head.iter().position(|b| *b == b'\n') {
            Some(end) => (&head[2..end], false),
            None => (&head[2..], head.len() == SCRIPT_HEAD),
        };
        let line = &line[line.iter().position(|b| !blank(b))?..];
        let end = line.iter().position(|b| blank(b) || *b == 0);
        // A path that does not end within the bytes that the kernel reads may be cut off.
        if end.is_none() && cut_off {
            return None;
        }
        let (path, rest) = line.split_at(end.unwrap_or(line.len()));
        let rest = rest.split(|b| *b == 0).next().unwrap_or_default();
        let first = rest.iter().position(|b| !blank(b));
        let last = rest.iter().rposition(|b| !blank(b));
        let argument = first.zip(last).map(|(first, last)| OsString::from_vec(rest[first..=last].to_vec()));
        (!path.is_empty()).then(|| Self { path: OsStr::from_bytes(path).into(), argument })
    }
}

/// Checks that `head` is the start of an ELF file for x86-64 that can be executed.
fn check_elf(path: &Path, head: &[u8]) -> Result<(), ProgramError> {
    let wrong = |found: String| Err(ProgramError::WrongFormat { path: path.to_owned(), found });
    if !head.starts_with(&elf::ELFMAG) {
        return wrong("neither an ELF file nor a script with a #! line".into());
    }
    match head.get(4).copied() {
        Some(class) if class == elf::ELFCLASS64.0 => {}
        Some(class) if class == elf::ELFCLASS32.0 => return wrong("a 32-bit program".into()),
        _ => return wrong("a damaged ELF file".into()),
    }
    let Ok(header) = elf::FileHeader64::<object::Endianness>::parse(head) else {
        return wrong("a damaged ELF file".into());
    };
    let Ok(endian) = header.endian() else { return wrong("a damaged ELF file".into()) };
    let machine = header.e_machine(endian);
    if machine != elf::EM_X86_64 {
        return wrong(format!("a program for another processor ({})", machine.name().unwrap_or("unknown")));
    }
    match header.e_type(endian) {
        elf::ET_EXEC | elf::ET_DYN => Ok(()),
        elf::ET_CORE => wrong("a core dump".into()),
        elf::ET_REL => wrong("an object file that is not linked".into()),
        other => wrong(format!("an ELF file of type {other}")),
    }
}

/// Refuses a program that would run with other rights than this process has: DynamoRIO is loaded in its place and
/// gets no such rights, so that the program would behave otherwise.
fn check_privileges(path: &Path, metadata: &Metadata) -> Result<(), ProgramError> {
    let capabilities = matches!(xattr::get(path, "security.capability"), Ok(Some(_)));
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    match gained_rights(metadata.mode(), (metadata.uid(), metadata.gid()), capabilities, (user, group)) {
        Some(what) => Err(ProgramError::Privileged { path: path.to_owned(), what }),
        None => Ok(()),
    }
}

/// What gives rights to a file of this mode, owner and group, with or without file capabilities, that a process of
/// these effective ids does not have.
fn gained_rights(mode: u32, owner: (u32, u32), capabilities: bool, own: (u32, u32)) -> Option<&'static str> {
    // Without group execute permission the bit means mandatory locking.
    let setgid = libc::S_ISGID | libc::S_IXGRP;
    if mode & libc::S_ISUID != 0 && owner.0 != own.0 {
        Some("setuid")
    } else if mode & setgid == setgid && owner.1 != own.1 {
        Some("setgid")
    } else if capabilities && own.0 != 0 {
        // Root has every capability already.
        Some("privileged (it has file capabilities)")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[u8]) -> Option<(String, Option<String>)> {
        let text = |os: OsString| os.into_string().unwrap();
        Interpreter::parse(line).map(|i| (text(i.path.into_os_string()), i.argument.map(text)))
    }

    fn line(path: &str, argument: Option<&str>) -> Option<(String, Option<String>)> {
        Some((path.into(), argument.map(Into::into)))
    }

    #[test]
    fn interpreter_lines() {
        assert_eq!(parse(b"#!/bin/sh\necho"), line("/bin/sh", None));
        assert_eq!(parse(b"#! \t/bin/sh  -e  -u \t\n"), line("/bin/sh", Some("-e  -u")));
        assert_eq!(parse(b"#!/bin/sh"), line("/bin/sh", None));
        assert_eq!(parse(b"#!/bin/sh -x"), line("/bin/sh", Some("-x")));
        assert_eq!(parse(b"#!sh\r\n"), line("sh\r", None));
        assert_eq!(parse(b"#!\n/bin/sh"), None);
        assert_eq!(parse(b"#!   \n"), None);
        assert_eq!(parse(b"#!"), None);
        assert_eq!(parse(b"#!\0/bin/sh\n"), None);
    }

    #[test]
    fn interpreter_lines_longer_than_the_kernel_reads() {
        let head = |text: String| text.into_bytes()[..SCRIPT_HEAD].to_vec();
        assert_eq!(parse(&head(format!("#!/{}", "x".repeat(300)))), None);
        let (path, argument) = parse(&head(format!("#!/bin/sh {}", "x".repeat(300)))).unwrap();
        assert_eq!((path.as_str(), argument.unwrap().len()), ("/bin/sh", SCRIPT_HEAD - "#!/bin/sh ".len()));
    }

    #[test]
    fn rights() {
        let user = (1000, 1000);
        assert_eq!(gained_rights(0o755, (0, 0), false, user), None);
        assert_eq!(gained_rights(0o4755, (0, 0), false, user), Some("setuid"));
        assert_eq!(gained_rights(0o4755, (0, 0), false, (0, 0)), None);
        assert_eq!(gained_rights(0o4755, (5, 0), false, (0, 0)), Some("setuid"));
        assert_eq!(gained_rights(0o2755, (1000, 42), false, user), Some("setgid"));
        assert_eq!(gained_rights(0o2745, (1000, 42), false, user), None);
        assert_eq!(gained_rights(0o6755, user, false, user), None);
        assert!(gained_rights(0o755, user, true, user).is_some());
        assert_eq!(gained_rights(0o755, (0, 0), true, (0, 0)), None);
    }
}
