//! The death of a child of `vfork` by a signal.
//!
//! DynamoRIO has a record of such a child as of a thread of its parent's, and takes it out once the child has executed a program. One
//! that just dies is left there, and whenever the parent forks, DynamoRIO tries for almost a minute to stop it. So the child executes
//! a last program, which does nothing but let the signal in that then waits for it.

use crate::run::signals;
use bugnet_dr::assembled;
use bugnet_dr::assembled::Assembled;
use bugnet_dr::events::Signal;
use bugnet_format::regs::RAX;
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where it is mapped, and what it is: an ELF file of one segment.
const BASE: u64 = 0x1000_0000;
const HEADERS: u64 = 64 + 56;
/// `rt_sigprocmask(SIG_SETMASK, &0, NULL, 8)` and `exit_group(255)`.
const CODE: Assembled = assembled!(
    "xor eax, eax",
    "push rax",
    "mov rsi, rsp",
    "mov edi, 2",
    "xor edx, edx",
    "mov r10d, 8",
    "mov eax, 14",
    "syscall",
    "mov eax, 231",
    "mov edi, 255",
    "syscall",
    "nop",
    "nop",
    "nop"
);

/// Where the program has a system call instruction: the last one that made such a child.
static SYSCALL: AtomicU64 = AtomicU64::new(0);

/// The system call instruction at this address makes a child of `vfork`.
pub fn note_vfork(pc: u64) {
    SYSCALL.store(pc, Ordering::Relaxed);
}

/// What the kernel is given, until it has read it.
pub struct LastProgram {
    signal: i32,
    _path: CString,
    _arguments: Box<[u64; 2]>,
}

fn file() -> Vec<u8> {
    let size = HEADERS + CODE.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // An executable for x86-64.
    file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for word in [BASE + HEADERS, 64, 0] {
        file.extend(word.to_le_bytes());
    }
    // Flags; sizes and numbers of headers.
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
    // A segment to load, to read and execute.
    file.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    for word in [0, BASE, BASE, size, size, 4096] {
        file.extend(word.to_le_bytes());
    }
    file.extend(&*CODE);
    file
}

/// The file's path.
fn make() -> Option<CString> {
    let bytes = file();
    // SAFETY: a C string, and bytes of ours.
    let fd = unsafe {
        let fd = libc::memfd_create(c"bugnet".as_ptr(), libc::MFD_CLOEXEC);
        let written = libc::write(fd, bytes.as_ptr().cast(), bytes.len());
        (fd >= 0 && written == bytes.len() as isize).then_some(fd)?
    };
    CString::new(format!("/proc/self/fd/{fd}")).ok()
}

/// In the signal event of a child of `vfork` that the signal kills: changes its registers, so that it executes the last program.
/// `false` if that is not possible, as where it is the `last` one that is killed.
pub fn go(last: &mut Option<LastProgram>, info: &mut Signal) -> bool {
    let syscall = SYSCALL.load(Ordering::Relaxed);
    if syscall == 0 || last.is_some() {
        return false;
    }
    let Some(path) = make() else { return false };
    let arguments = Box::new([path.as_ptr() as u64, 0]);
    let signal = info.number();
    let machine = info.machine_mut();
    let argv = arguments.as_ptr() as u64;
    let none = argv + 8;
    for (register, value) in [(RAX, libc::SYS_execve as u64), (7, path.as_ptr() as u64), (6, argv), (2, none)] {
        *machine.gpr_mut(register) = value;
    }
    machine.set_pc(syscall);
    *last = Some(LastProgram { signal, _path: path, _arguments: arguments });
    true
}

impl LastProgram {
    /// Its `execve` is about to be made: the signal waits for it.
    pub fn before(&self) {
        signals::leave_pending(self.signal);
    }

    /// It has failed.
    pub fn after(&self) -> ! {
        signals::die_by(self.signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_is_what_it_is_called() {
        let expected = [
            0x31, 0xc0, 0x50, 0x48, 0x89, 0xe6, 0xbf, 2, 0, 0, 0, 0x31, 0xd2, 0x41, 0xba, 8, 0, 0, 0, 0xb8, 14, 0, 0,
            0, 0x0f, 5, 0xb8, 231, 0, 0, 0, 0xbf, 255, 0, 0, 0, 0x0f, 5, 0x90, 0x90, 0x90,
        ];
        assert_eq!(CODE.bytes(), expected);
    }
}
