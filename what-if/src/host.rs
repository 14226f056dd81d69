//! A process that does nothing but what it is told, by ptrace.

use crate::confine::filter;
use crate::xstate;
use bugnet_format::regs::{ALIGNMENT_CHECK, COMPARED_FLAGS, GPR_NAMES, RegisterFile};
use bugnet_replay::{ReplayError, Result};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options, regset};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// `syscall; int3`
const TRAMPOLINE: [u8; 3] = [0x0f, 0x05, 0xcc];
/// How long its system call is.
const SYSCALL: u64 = 2;
/// Addresses from here on are the kernel's, and one page that it maps everywhere.
const USER_END: u64 = 1 << 47;
const PAGE: u64 = 4096;

/// The process. It ends when this is dropped, or with the process that made it.
#[derive(Debug)]
pub(crate) struct Host {
    pid: Pid,
    memory: File,
    /// Where its trampoline is, by which it makes system calls.
    trampoline: u64,
    /// A page for code that is not the program's.
    room: Option<u64>,
    /// Whether the processor time that it was given is over.
    is_late: Cell<bool>,
}

/// Turns what the operating system refused into an error.
pub(crate) fn refused(what: &'static str) -> impl Fn(Errno) -> ReplayError {
    move |errno| ReplayError::System { what: what.to_owned(), source: io::Error::from(errno) }
}

impl Host {
    /// An empty one: nothing is mapped in it but a page at this address, and one for code, if there is one. From here on it can ask nothing else of the kernel
    /// than memory, up to so many bytes, a copy, and a timer.
    ///
    /// # Errors
    /// The operating system forbids it.
    pub fn start(trampoline: u64, room: Option<u64>, most: u64) -> Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: between fork and exec it makes one system call, which allocates nothing and takes no lock.
        unsafe { command.pre_exec(|| ptrace::traceme().map_err(io::Error::from)) };
        let child = command.spawn().map_err(ReplayError::system("start a process to try things in"))?;
        let pid = Pid::from_raw(child.id() as i32);
        let mut host = Self { pid, memory: memory_of(pid)?, trampoline: 0, room, is_late: Cell::new(false) };
        host.stopped_by(Signal::SIGTRAP)?;
        let children = Options::PTRACE_O_TRACEFORK | Options::PTRACE_O_TRACEVFORK | Options::PTRACE_O_TRACECLONE;
        let options = Options::PTRACE_O_EXITKILL | Options::PTRACE_O_TRACESYSGOOD | children;
        ptrace::setoptions(pid, options).map_err(refused("trace a process"))?;
        // It has executed the program, but not yet an instruction of it.
        host.trampoline = host.registers()?.rip;
        host.put(host.trampoline, &TRAMPOLINE)?;
        let prot = libc::PROT_READ | libc::PROT_EXEC;
        host.map(trampoline, PAGE, prot as u64)?;
        host.put(trampoline, &TRAMPOLINE)?;
        let mapped = std::fs::read_to_string(format!("/proc/{pid}/maps"));
        host.trampoline = trampoline;
        for line in mapped.map_err(ReplayError::system("read what a process has mapped"))?.lines() {
            let (start, end) = line.split_once(' ').and_then(|(range, _)| range.split_once('-')).unwrap_or_default();
            let address = |text: &str| u64::from_str_radix(text, 16).unwrap_or(USER_END);
            if address(start) < USER_END && address(start) != trampoline {
                host.call(libc::SYS_munmap, [address(start), address(end) - address(start), 0, 0, 0, 0])?;
            }
        }
        if let Some(room) = room {
            host.map(room, PAGE, prot as u64)?;
        }
        host.ignore_children()?;
        host.limit_memory(most)?;
        host.confine()?;
        Ok(host)
    }

    /// Nobody but this process waits for its copies, and it does not want to hear of them.
    fn ignore_children(&self) -> Result<()> {
        // Behind the trampoline, a `struct sigaction` of the kernel's: handler, flags, restorer, mask.
        let action = self.trampoline + 64;
        let words = [libc::SIG_IGN as u64, 0, 0, 0];
        self.put(action, &words.map(u64::to_le_bytes).concat())?;
        let args = [libc::SIGCHLD as u64, action, 0, 8, 0, 0];
        self.call(libc::SYS_rt_sigaction, args).map(drop)
    }

    /// Lets it and its copies have so much memory, in bytes, and no more.
    fn limit_memory(&self, most: u64) -> Result<()> {
        // Behind the trampoline, a `struct rlimit64`: the soft and the hard one.
        let limit = self.trampoline + 128;
        self.put(limit, &[most, most].map(u64::to_le_bytes).concat())?;
        self.call(libc::SYS_prlimit64, [0, u64::from(libc::RLIMIT_AS), limit, 0, 0, 0]).map(drop)
    }

    /// Takes away from it and its copies what they do not need, for good.
    fn confine(&self) -> Result<()> {
        let program = filter(self.trampoline + SYSCALL).map_err(|error| ReplayError::System {
            what: "make a filter for system calls".to_owned(),
            source: io::Error::other(error),
        })?;
        // Behind the trampoline, a `struct sock_fprog`, and what it points at.
        let [head, body] = [self.trampoline + 256, self.trampoline + 256 + 16];
        let instructions = program.iter().map(|one| {
            u64::from(one.code) | u64::from(one.jt) << 16 | u64::from(one.jf) << 24 | u64::from(one.k) << 32
        });
        let words = [program.len() as u64, body].into_iter().chain(instructions);
        let bytes = words.flat_map(u64::to_le_bytes).collect::<Vec<_>>();
        self.put(head, &bytes)?;
        let privileges = [libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0, 0];
        let filtered = [u64::from(libc::SECCOMP_SET_MODE_FILTER), 0, head, 0, 0, 0];
        for (number, args) in [(libc::SYS_prctl, privileges), (libc::SYS_seccomp, filtered)] {
            let answer = self.call(number, args)?;
            if answer != 0 {
                let source = io::Error::from_raw_os_error(answer.unsigned_abs() as i32);
                return Err(ReplayError::System { what: "confine a process".to_owned(), source });
            }
        }
        Ok(())
    }

    /// Whether memory is, or has some of, what is not the program's: the trampoline, and the room for code. Memory that is none is, too.
    pub fn is_own(&self, addr: u64, len: u64) -> bool {
        let meets = |end: u64| {
            [Some(self.trampoline), self.room].into_iter().flatten().any(|page| addr < page + PAGE && page < end)
        };
        addr.checked_add(len.max(1)).is_none_or(meets)
    }

    /// Lets it execute instructions of its own for so long and no longer: what the kernel does for it is not counted, which takes longer on one machine
    /// than on another.
    ///
    /// # Errors
    /// The process is lost.
    pub fn limit_time(&self, limit: Duration) -> Result<()> {
        // Behind the trampoline, a `struct itimerval`: the timer goes off once.
        let timer = self.trampoline + 160;
        let words = [0, 0, limit.as_secs(), u64::from(limit.subsec_micros())];
        self.put(timer, &words.map(u64::to_le_bytes).concat())?;
        self.call(libc::SYS_setitimer, [libc::ITIMER_VIRTUAL as u64, timer, 0, 0, 0, 0]).map(drop)
    }

    /// A copy of it.
    ///
    /// # Errors
    /// The operating system forbids it, or the process is lost.
    pub fn fork(&self) -> Result<Self> {
        let forked = self.calls(libc::SYS_fork, [0; 6])?;
        let WaitStatus::PtraceEvent(..) = forked else { return Err(lost(forked)) };
        let child = ptrace::getevent(self.pid).map_err(refused("copy a process"))?;
        let pid = Pid::from_raw(i32::try_from(child).unwrap_or(-1));
        self.go_on()?;
        let copy = Self {
            pid,
            memory: memory_of(pid)?,
            trampoline: self.trampoline,
            room: self.room,
            is_late: Cell::new(false),
        };
        self.stopped_by(Signal::SIGTRAP)?;
        copy.stopped_by(Signal::SIGSTOP)?;
        Ok(copy)
    }

    fn go_on(&self) -> Result<()> {
        ptrace::cont(self.pid, None).map_err(refused("let a process go on"))
    }

    /// Lets it run until it makes a system call, gets a signal, or ends; none if its time is over.
    pub fn run_to_call(&self) -> Result<Option<WaitStatus>> {
        ptrace::sysemu(self.pid, None).map_err(refused("let a process run on"))?;
        let status = self.wait()?;
        self.is_late.set(self.is_late.get() || is_timer(status));
        Ok((!self.is_late.get()).then_some(status))
    }

    /// Has it execute one instruction; whether it has, and nothing else came of that. A system call does not get to the kernel.
    pub fn step(&self) -> Result<bool> {
        let step = || ptrace::sysemu_step(self.pid, None).map_err(refused("have a process execute an instruction"));
        Ok(matches!(self.stops(&step)?, WaitStatus::Stopped(_, Signal::SIGTRAP)))
    }

    /// Waits until it stops.
    fn wait(&self) -> Result<WaitStatus> {
        waitpid(self.pid, Some(WaitPidFlag::__WALL)).map_err(refused("wait for a process"))
    }

    /// Lets it do something, until it stops for that; if its time is over meanwhile, it does that first.
    fn stops(&self, go_on: &dyn Fn() -> Result<()>) -> Result<WaitStatus> {
        loop {
            go_on()?;
            let status = self.wait()?;
            if !is_timer(status) {
                return Ok(status);
            }
            self.is_late.set(true);
        }
    }

    /// The processor time that it has used; none where the system does not tell, as of one that is gone.
    pub fn used(&self) -> Option<Duration> {
        clock_getcpuclockid(self.pid).and_then(ClockId::now).ok().map(Duration::from)
    }

    fn stopped_by(&self, signal: Signal) -> Result<()> {
        match self.wait()? {
            WaitStatus::Stopped(_, by) if by == signal => Ok(()),
            other => Err(lost(other)),
        }
    }

    /// Its registers.
    pub fn registers(&self) -> Result<libc::user_regs_struct> {
        ptrace::getregs(self.pid).map_err(refused("read a process's registers"))
    }

    /// Gives it registers.
    pub fn set_registers(&self, registers: libc::user_regs_struct) -> Result<()> {
        ptrace::setregs(self.pid, registers).map_err(refused("set a process's registers"))
    }

    /// Makes a system call in it, and waits until it stops for that; its registers are others afterwards.
    fn calls(&self, number: libc::c_long, args: [u64; 6]) -> Result<WaitStatus> {
        let mut registers = self.registers()?;
        let [rdi, rsi, rdx, r10, r8, r9] = args;
        // It is no call that the kernel may begin anew.
        registers.orig_rax = u64::MAX;
        (registers.rip, registers.rax) = (self.trampoline, number.cast_unsigned());
        (registers.rdi, registers.rsi, registers.rdx) = (rdi, rsi, rdx);
        (registers.r10, registers.r8, registers.r9) = (r10, r8, r9);
        self.set_registers(registers)?;
        self.stops(&|| self.go_on())
    }

    /// Makes a system call in it; its registers are others afterwards.
    ///
    /// # Errors
    /// The process is lost. What the call itself answers is returned.
    pub fn call(&self, number: libc::c_long, args: [u64; 6]) -> Result<i64> {
        match self.calls(number, args)? {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => Ok(self.registers()?.rax.cast_signed()),
            other => Err(lost(other)),
        }
    }

    /// Maps memory there in place of what there is: zeros.
    pub fn map(&self, start: u64, len: u64, prot: u64) -> Result<()> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let args = [start, len, prot, flags as u64, u64::MAX, 0];
        let mapped = self.call(libc::SYS_mmap, args)?.cast_unsigned();
        if mapped == start {
            return Ok(());
        }
        let source = io::Error::from_raw_os_error(mapped.wrapping_neg() as i32);
        Err(ReplayError::System { what: format!("map {len} bytes at {start:#x}"), source })
    }

    /// Writes to the program's memory, whether it may itself or not.
    ///
    /// # Errors
    /// There is none, or the trampoline is there.
    pub fn write(&self, addr: u64, bytes: &[u8]) -> Result<()> {
        let is_there = addr < self.trampoline + PAGE && addr.saturating_add(bytes.len() as u64) > self.trampoline;
        if is_there {
            return Err(ReplayError::OutOfRange(format!("{addr:#x} is not the program's memory")));
        }
        self.put(addr, bytes)
    }

    /// Writes to memory.
    fn put(&self, addr: u64, bytes: &[u8]) -> Result<()> {
        self.memory.write_all_at(bytes, addr).map_err(ReplayError::system("write to a process's memory"))
    }

    /// Reads its memory.
    pub fn read(&self, addr: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.memory.read_exact_at(&mut bytes, addr)?;
        Ok(bytes)
    }

    /// Gives it the registers of a recorded thread.
    pub fn become_thread(&self, thread: &RegisterFile) -> Result<()> {
        let mut registers = self.registers()?;
        registers.orig_rax = u64::MAX;
        for (name, value) in GPR_NAMES.iter().zip(thread.gpr) {
            *field(&mut registers, name) = value;
        }
        registers.rip = thread.rip;
        registers.eflags = thread.rflags & (COMPARED_FLAGS | ALIGNMENT_CHECK) | 0x202;
        (registers.fs_base, registers.gs_base) = (thread.fs_base, thread.gs_base);
        self.set_registers(registers)?;
        let what = "a process's vector registers";
        let mut vectors = ptrace::getregset::<regset::NT_PRFPREG>(self.pid).map_err(refused(what))?;
        (vectors.cwd, vectors.swd, vectors.ftw) = (thread.fcw, thread.fsw, u16::from(thread.ftw));
        vectors.mxcsr = thread.mxcsr;
        let words = |bytes: &[u8]| -> Vec<u32> {
            bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap_or_default())).collect()
        };
        for (to, st) in vectors.st_space.chunks_mut(4).zip(&thread.st) {
            let mut whole = [0; 16];
            whole[..st.len()].copy_from_slice(st);
            to.copy_from_slice(&words(&whole));
        }
        for (to, ymm) in vectors.xmm_space.chunks_mut(4).zip(&thread.ymm) {
            to.copy_from_slice(&words(&ymm[..16]));
        }
        ptrace::setregset::<regset::NT_PRFPREG>(self.pid, vectors).map_err(refused(what))?;
        let upper: Vec<u8> = thread.ymm.iter().flat_map(|ymm| &ymm[16..]).copied().collect();
        xstate::set_upper_halves(self.pid, &upper)
    }
}

/// A general purpose register by its name.
fn field<'a>(registers: &'a mut libc::user_regs_struct, name: &str) -> &'a mut u64 {
    match name {
        "rax" => &mut registers.rax,
        "rcx" => &mut registers.rcx,
        "rdx" => &mut registers.rdx,
        "rbx" => &mut registers.rbx,
        "rsp" => &mut registers.rsp,
        "rbp" => &mut registers.rbp,
        "rsi" => &mut registers.rsi,
        "rdi" => &mut registers.rdi,
        "r8" => &mut registers.r8,
        "r9" => &mut registers.r9,
        "r10" => &mut registers.r10,
        "r11" => &mut registers.r11,
        "r12" => &mut registers.r12,
        "r13" => &mut registers.r13,
        "r14" => &mut registers.r14,
        _ => &mut registers.r15,
    }
}

/// Whether it has stopped as its time is over.
fn is_timer(status: WaitStatus) -> bool {
    matches!(status, WaitStatus::Stopped(_, Signal::SIGVTALRM))
}

fn memory_of(pid: Pid) -> Result<File> {
    let opened = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"));
    opened.map_err(ReplayError::system("open a process's memory"))
}

fn lost(status: WaitStatus) -> ReplayError {
    let source = io::Error::other(format!("it did something else: {status:?}"));
    ReplayError::System { what: "have a process do as it is told".to_owned(), source }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended by itself, and been waited for.
        let _ = kill(self.pid, Signal::SIGKILL);
        while let Ok(status) = waitpid(self.pid, Some(WaitPidFlag::__WALL)) {
            if matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..)) {
                break;
            }
        }
    }
}
