//! What gdb sees: threads, registers and memory where a cursor is.

use crate::asked::Asked;
use crate::files::Files;
use crate::image::Image;
use crate::registers::{Recorded, X86_64};
use crate::resume::{Later, Plan};
use crate::siginfo::SigInfo;
use crate::stops::Stops;
use bugnet_format::types::{Addr, ProcessId, Tid};
use bugnet_replay::ReplayError;
use bugnet_replay::cursor::{Cursor, Interrupter, Seek, Stopped, Thread};
use bugnet_replay::log::Log;
use bugnet_replay::mappings::Mappings;
use bugnet_replay::memory::Memory;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use gdbstub::common::{Pid, Tid as GdbTid};
use gdbstub::target::ext::auxv::{Auxv, AuxvOps};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{MultiThreadBase, MultiThreadResumeOps};
use gdbstub::target::ext::breakpoints::BreakpointsOps;
use gdbstub::target::ext::catch_syscalls::CatchSyscallsOps;
use gdbstub::target::ext::exec_file::{ExecFile, ExecFileOps};
use gdbstub::target::ext::extended_mode::{
    Args, AttachKind, CurrentActivePid, CurrentActivePidOps, ExtendedMode, ExtendedModeOps, ShouldTerminate,
};
use gdbstub::target::ext::host_io::HostIoOps;
use gdbstub::target::ext::libraries::{LibrariesSvr4, LibrariesSvr4Ops};
use gdbstub::target::ext::monitor_cmd::MonitorCmdOps;
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use std::num::NonZeroUsize;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

/// Most bytes of a log of which all records are read, without being asked for, to know what is mapped elsewhere than at its end: a second
/// or two.
const QUICK: u64 = 256 << 20;
/// The same for its end, where nearly all is mapped that ever was.
const AT_ONCE: u64 = 32 << 20;

/// A recorded process at a moment, as gdb sees it.
#[derive(Debug)]
pub struct Debuggee<'a> {
    pub(crate) tools: &'a Tools,
    pub(crate) log: &'a Log,
    pub(crate) cursor: Cursor<'a>,
    pub(crate) symbols: Symbolizer,
    pub(crate) image: Image,
    pub(crate) files: Files,
    /// The thread in which something happened last.
    pub(crate) focus: Tid,
    pub(crate) stops: Stops,
    pub(crate) plan: Plan,
    pub(crate) later: Later,
    /// Whether this is where a seek has ended, of which the protocol knows nothing.
    pub(crate) sought: bool,
    pub(crate) asked: Asked,
    /// The signal at which it is stopped, and the thread that got it, for the connection to answer.
    pub(crate) siginfo: Arc<Mutex<Option<(Tid, SigInfo)>>>,
    /// The threads where the cursor is, the focus first; found when first asked for.
    threads: Option<Vec<Thread>>,
}

/// The number by which gdb knows a thread.
pub(crate) fn to_gdb(tid: Tid) -> GdbTid {
    NonZeroUsize::new(tid.0 as usize).unwrap_or(NonZeroUsize::MIN)
}

/// The thread that gdb means.
pub(crate) fn from_gdb(tid: GdbTid) -> Option<Tid> {
    u32::try_from(tid.get()).ok().map(Tid)
}

/// Copies a part of an answer that gdb fetches piece by piece.
pub(crate) fn piece(of: &[u8], offset: u64, length: usize, buf: &mut [u8]) -> usize {
    let rest = usize::try_from(offset).ok().and_then(|offset| of.get(offset..)).unwrap_or_default();
    let len = rest.len().min(length).min(buf.len());
    buf[..len].copy_from_slice(&rest[..len]);
    len
}

impl<'a> Debuggee<'a> {
    /// What a cursor shows of its process.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn new(tools: &'a Tools, log: &'a Log, mut cursor: Cursor<'a>) -> Result<Self, ReplayError> {
        let image = Image::of(log, cursor.pid())?;
        let files = Files::new(log, cursor.pid(), &image)?;
        let focus = cursor.focus()?;
        let (stops, plan, later, asked) = (Stops::default(), Plan::default(), Later::default(), Asked::default());
        let symbols = Symbolizer::new(log, cursor.pid())?;
        let most = if cursor.time() == cursor.end() { AT_ONCE } else { QUICK };
        // Of a log that is damaged elsewhere, there is much to see all the same.
        let _ = cursor.know_mappings_within(most);
        let (sought, threads, siginfo) = (true, None, Arc::default());
        let mut debuggee = Self {
            tools,
            log,
            cursor,
            symbols,
            image,
            files,
            focus,
            stops,
            plan,
            later,
            sought,
            asked,
            siginfo,
            threads,
        };
        debuggee.look_for_signal()?;
        Ok(debuggee)
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> ProcessId {
        self.cursor.pid()
    }

    /// From here on, a person asks for the end of what takes long by making this readable; it does not block.
    pub fn asked_by(&mut self, person: UnixStream) {
        self.asked.person = Some(person);
    }

    /// By which a run can be interrupted.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        self.cursor.interrupter()
    }

    /// Makes this thread the one that gdb looks at first.
    ///
    /// # Errors
    /// There is no such thread here, or the replay process is lost.
    pub fn select(&mut self, tid: Tid) -> Result<(), ReplayError> {
        let here: Vec<Tid> = self.threads()?.iter().map(|thread| thread.place.tid).collect();
        if !here.contains(&tid) {
            let here: Vec<String> = here.iter().map(Tid::to_string).collect();
            let (place, here) = (self.cursor.place(), here.join(", "));
            return Err(ReplayError::OutOfRange(format!("there is no thread {tid} at {place}; there are {here}")));
        }
        (self.focus, self.threads) = (tid, None);
        Ok(())
    }

    /// Goes somewhere.
    pub(crate) fn seek(&mut self, to: Seek) -> Result<Stopped, ReplayError> {
        let stopped = self.cursor.seek(to)?;
        self.later = Later::Nothing;
        self.moved();
        self.focus = match to {
            Seek::Place(place) => place.tid,
            _ => self.cursor.focus()?,
        };
        self.sought = true;
        self.look_for_signal()?;
        Ok(stopped)
    }

    /// What the log has of the signal here, and the thread that got it.
    pub(crate) fn set_siginfo(&self, signal: Option<(Tid, SigInfo)>) {
        *self.siginfo.lock().unwrap_or_else(PoisonError::into_inner) = signal;
    }

    /// The same as it was said last.
    pub(crate) fn siginfo(&self) -> Option<(Tid, SigInfo)> {
        self.siginfo.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where all is over, the signal that killed the process is here, however one has come.
    pub(crate) fn look_for_signal(&mut self) -> Result<(), ReplayError> {
        let signal = if self.cursor.time() == self.cursor.end() { self.cursor.deadly_signal()? } else { None };
        self.set_siginfo(signal.map(|(tid, number, code, addr)| (tid, SigInfo::deadly(number, code, addr.0))));
        Ok(())
    }

    /// The cursor is somewhere else, where a thread goes on.
    pub(crate) fn moved(&mut self) {
        let _ = self.cursor.know_mappings_within(QUICK);
        (self.threads, self.sought) = (None, false);
        self.focus = self.cursor.place().tid;
    }

    /// The threads that there are, the one in focus first.
    pub(crate) fn threads(&mut self) -> Result<&[Thread], ReplayError> {
        if self.threads.is_none() {
            let mut threads = self.cursor.alive()?;
            threads.sort_by_key(|thread| thread.place.tid != self.focus);
            self.threads = Some(threads);
        }
        Ok(self.threads.as_deref().unwrap_or_default())
    }

    /// What is mapped here.
    pub(crate) fn mappings(&mut self) -> Result<Mappings, ReplayError> {
        self.cursor.mappings()
    }

    /// gdb's list of the libraries that are mapped here; of all that ever were, as long as that is not known.
    pub(crate) fn libraries(&self) -> String {
        let mapped = self.cursor.modules();
        self.image.libraries(|module| mapped.as_ref().is_none_or(|mapped| mapped.contains(module)))
    }

    fn thread(&mut self, tid: GdbTid) -> Result<Option<&Thread>, ReplayError> {
        let tid = from_gdb(tid);
        Ok(self.threads()?.iter().find(|thread| Some(thread.place.tid) == tid))
    }
}

impl Target for Debuggee<'_> {
    type Arch = X86_64;
    type Error = ReplayError;

    fn base_ops(&mut self) -> BaseOps<'_, X86_64, ReplayError> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_catch_syscalls(&mut self) -> Option<CatchSyscallsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_extended_mode(&mut self) -> Option<ExtendedModeOps<'_, Self>> {
        Some(self)
    }

    fn support_exec_file(&mut self) -> Option<ExecFileOps<'_, Self>> {
        Some(self)
    }

    fn support_auxv(&mut self) -> Option<AuxvOps<'_, Self>> {
        Some(self)
    }

    fn support_libraries_svr4(&mut self) -> Option<LibrariesSvr4Ops<'_, Self>> {
        Some(self)
    }

    fn support_host_io(&mut self) -> Option<HostIoOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Debuggee<'_> {
    fn read_registers(&mut self, regs: &mut Recorded, tid: GdbTid) -> TargetResult<(), Self> {
        let thread = self.thread(tid).map_err(TargetError::Fatal)?.ok_or(TargetError::NonFatal)?;
        regs.0 = thread.regs.clone();
        Ok(())
    }

    /// A recording cannot be changed.
    fn write_registers(&mut self, _: &Recorded, _: GdbTid) -> TargetResult<(), Self> {
        Err(TargetError::NonFatal)
    }

    /// Up to the first byte that is not known.
    fn read_addrs(&mut self, addr: u64, data: &mut [u8], _: GdbTid) -> TargetResult<usize, Self> {
        let bytes = self.cursor.read_memory(Addr(addr), data.len() as u64).map_err(TargetError::Fatal)?;
        if bytes.is_empty() && !data.is_empty() {
            return Err(TargetError::NonFatal);
        }
        let len = bytes.len().min(data.len());
        data[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    /// A recording cannot be changed.
    fn write_addrs(&mut self, _: u64, _: &[u8], _: GdbTid) -> TargetResult<(), Self> {
        Err(TargetError::NonFatal)
    }

    fn list_active_threads(&mut self, register: &mut dyn FnMut(GdbTid)) -> Result<(), ReplayError> {
        self.threads()?.iter().for_each(|thread| register(to_gdb(thread.place.tid)));
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl ThreadExtraInfo for Debuggee<'_> {
    fn thread_extra_info(&self, tid: GdbTid, buf: &mut [u8]) -> Result<usize, ReplayError> {
        let tid = from_gdb(tid);
        let threads = self.threads.as_deref().unwrap_or_default();
        let thread = threads.iter().find(|thread| Some(thread.place.tid) == tid);
        let text = thread.map(|thread| format!("at {}", thread.place)).unwrap_or_default();
        Ok(piece(text.as_bytes(), 0, text.len(), buf))
    }
}

/// gdb needs the process's id for `/proc/PID/maps`. Nothing can be started or attached to here.
impl ExtendedMode for Debuggee<'_> {
    fn run(&mut self, _: Option<&[u8]>, _: Args<'_, '_>) -> TargetResult<Pid, Self> {
        Err(TargetError::NonFatal)
    }

    fn attach(&mut self, _: Pid) -> TargetResult<(), Self> {
        Err(TargetError::NonFatal)
    }

    fn query_if_attached(&mut self, _: Pid) -> TargetResult<AttachKind, Self> {
        Ok(AttachKind::Attach)
    }

    fn kill(&mut self, _: Option<Pid>) -> TargetResult<ShouldTerminate, Self> {
        Ok(ShouldTerminate::Yes)
    }

    fn restart(&mut self) -> Result<(), ReplayError> {
        self.seek(Seek::Start).map(drop)
    }

    fn support_current_active_pid(&mut self) -> Option<CurrentActivePidOps<'_, Self>> {
        Some(self)
    }
}

impl CurrentActivePid for Debuggee<'_> {
    fn current_active_pid(&mut self) -> Result<Pid, ReplayError> {
        Ok(NonZeroUsize::new(self.pid().pid.0 as usize).unwrap_or(NonZeroUsize::MIN))
    }
}

impl ExecFile for Debuggee<'_> {
    fn get_exec_file(&self, _: Option<Pid>, offset: u64, length: usize, buf: &mut [u8]) -> TargetResult<usize, Self> {
        Ok(piece(self.image.program.as_bytes(), offset, length, buf))
    }
}

impl Auxv for Debuggee<'_> {
    fn get_auxv(&self, offset: u64, length: usize, buf: &mut [u8]) -> TargetResult<usize, Self> {
        Ok(piece(&self.image.auxv, offset, length, buf))
    }
}

impl LibrariesSvr4 for Debuggee<'_> {
    fn get_libraries_svr4(&self, offset: u64, length: usize, buf: &mut [u8]) -> TargetResult<usize, Self> {
        Ok(piece(self.libraries().as_bytes(), offset, length, buf))
    }
}
