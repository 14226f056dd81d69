//! Hand-made intervals, and a replay process for each.

use bugnet_format::control::{self, CONTROL_FD, Hit, Hits, PACKAGE_FD, Request, Response, Stop, Target};
use bugnet_format::package::PACKAGE_MAGIC;
use bugnet_format::record::{EndReason, LoadValue, OutputStream, Record, RegisterUpdates, SpecialKind, tag};
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::{Addr, CodeSeq};
use iced_x86::code_asm::CodeAssembler;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{IoSlice, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Where the tests' code lies.
pub const CODE: u64 = 0x5555_5555_4000;
/// Where the tests' data lies.
pub const DATA: u64 = 0x7fff_f7fc_0000;
/// The tests' stack pointer.
pub const STACK: u64 = 0x7fff_ffff_e000;

/// Host, `libdynamorio.so` and client of the profile that the test was built for, built if need be.
fn tools() -> &'static [PathBuf; 3] {
    static TOOLS: OnceLock<[PathBuf; 3]> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
        let status = Command::new(env!("CARGO"))
            // As `make test` has built it: with fewer packages, all that they are made of would be built once more.
            .args(["build", "--quiet", "--profile", profile, "--workspace", "--all-targets"])
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the replay process does not build");
        // target/PROFILE/deps/TEST
        let test = std::env::current_exe().expect("the test's own path");
        let target = test.parent().and_then(Path::parent).expect("cargo's target folder").to_owned();
        let newest = std::fs::read_dir(target.join("build"))
            .expect("build folder")
            .flatten()
            .map(|entry| entry.path().join("out/build/lib64/release/libdynamorio.so"))
            .filter(|path| path.exists())
            .max_by_key(|path| path.metadata().and_then(|m| m.modified()).ok())
            .expect("libdynamorio.so");
        [target.join("replay-host"), newest, target.join("libbugnet_replayer.so")]
    })
}

/// An interval in the making.
#[derive(Clone)]
pub struct Interval {
    /// Code pictures before it.
    pictures: u64,
    first: Vec<(u64, Vec<u8>)>,
    later: Vec<(u64, Vec<u8>)>,
    stream: Vec<u8>,
    position: u64,
}

/// Registers as most tests begin.
pub fn start() -> RegisterFile {
    let mut regs = RegisterFile { rip: CODE, rflags: 0x202, ..RegisterFile::default() };
    for (i, gpr) in regs.gpr.iter_mut().enumerate() {
        *gpr = 0x1111_1111_1111_1111 * i as u64;
    }
    regs.gpr[4] = STACK;
    for (i, ymm) in regs.ymm.iter_mut().enumerate() {
        ymm.fill(i as u8 + 0x40);
    }
    regs.mxcsr = 0x1fa0;
    regs.fcw = 0x27f;
    regs
}

/// Assembles for address `at`.
pub fn assemble(at: u64, code: impl FnOnce(&mut CodeAssembler) -> Result<(), iced_x86::IcedError>) -> Vec<u8> {
    let mut assembler = CodeAssembler::new(64).expect("64 bits");
    code(&mut assembler).expect("instructions");
    assembler.assemble(at).expect("encodes")
}

fn pages(at: u64, code: &[u8]) -> impl Iterator<Item = (u64, Vec<u8>)> {
    code.chunks(4096).enumerate().map(move |(i, bytes)| {
        let mut page = bytes.to_vec();
        page.resize(4096, 0xcc);
        (at + 4096 * i as u64, page)
    })
}

impl Interval {
    /// Code at [`CODE`], and the registers at the start.
    pub fn new(code: &[u8], regs: &RegisterFile) -> Self {
        let mut interval = Self { pictures: 0, first: Vec::new(), later: Vec::new(), stream: Vec::new(), position: 0 };
        interval.code(CODE, code);
        Record::Checkpoint { tsc: 1, unix_nanos: 2, regs: Box::new(regs.clone()) }.encode(&mut interval.stream);
        interval
    }

    /// Code pages are numbered from this one on; all code has to be stated behind this.
    pub fn numbered_behind(mut self, pictures: u64) -> Self {
        self.pictures = pictures;
        self
    }

    /// Code that is in the picture from the start on.
    pub fn code(&mut self, at: u64, code: &[u8]) -> &mut Self {
        self.first.extend(pages(at, code));
        self
    }

    /// Code that [`Self::new_code`] brings.
    pub fn later_code(&mut self, at: u64, code: &[u8]) -> &mut Self {
        self.later.extend(pages(at, code));
        self
    }

    fn delta(&mut self, position: u64) -> u64 {
        let delta = position - self.position;
        self.position = position;
        delta
    }

    fn put(&mut self, record: &Record<'_>) -> &mut Self {
        record.encode(&mut self.stream);
        self
    }

    pub fn load(&mut self, position: u64, ordinal: u8, value: &[u8]) -> &mut Self {
        self.load_at(position, ordinal, 0, value)
    }

    pub fn load_at(&mut self, position: u64, ordinal: u8, offset: u64, value: &[u8]) -> &mut Self {
        let delta = self.delta(position);
        self.put(&Record::Load { delta, ordinal, offset, value: LoadValue::new(value) })
    }

    pub fn memory(&mut self, position: u64, addr: u64, bytes: &[u8]) -> &mut Self {
        let delta = self.delta(position);
        self.put(&Record::Memory { delta, addr: Addr(addr), bytes })
    }

    pub fn registers(&mut self, position: u64, values: &[(u8, u64)]) -> &mut Self {
        let delta = self.delta(position);
        self.put(&Record::Registers { delta, updates: RegisterUpdates { values: values.to_vec() } })
    }

    pub fn syscall(
        &mut self,
        position: u64,
        number: u64,
        result: i64,
        args: [u64; 6],
        stream: OutputStream,
        values: &[(u8, u64)],
    ) -> &mut Self {
        let delta = self.delta(position);
        let updates = RegisterUpdates { values: values.to_vec() };
        self.put(&Record::Syscall { delta, number, result, args, stream, order: 0, updates })
    }

    pub fn special(&mut self, position: u64, kind: SpecialKind, values: &[(u8, u64)]) -> &mut Self {
        let delta = self.delta(position);
        self.put(&Record::Special { delta, kind, updates: RegisterUpdates { values: values.to_vec() } })
    }

    /// From here on, this many pages of [`Self::later_code`] are in force. All code has to be stated before.
    pub fn new_code(&mut self, position: u64, pages: u64) -> &mut Self {
        let delta = self.delta(position);
        let seq = CodeSeq(self.pictures + self.first.len() as u64 + pages);
        self.put(&Record::Code { delta, seq })
    }

    pub fn check(&mut self, position: u64, regs: &RegisterFile) -> &mut Self {
        let delta = self.delta(position);
        let rflags_known = regs.rflags_known;
        self.put(&Record::Check { delta, rflags_known, hash: regs.hash(rflags_known) })
    }

    pub fn end(&mut self, position: u64, regs: &RegisterFile) -> &mut Self {
        let delta = self.delta(position);
        self.put(&Record::End { delta, reason: EndReason::Full, regs: Box::new(regs.clone()) })
    }

    /// The package's bytes.
    pub fn package(&self) -> Vec<u8> {
        Self::package_of(&[self], &[(0, u64::MAX)])
    }

    /// A package of several threads with the same code, which run in turn: index of the thread, and up to where.
    pub fn package_of(threads: &[&Self], segments: &[(u64, u64)]) -> Vec<u8> {
        let Self { first, later, pictures, .. } = threads[0];
        let streams: Vec<Vec<u8>> =
            threads.iter().map(|thread| [&thread.stream[..], &[tag::END_OF_STREAM]].concat()).collect();
        let mut out = PACKAGE_MAGIC.to_vec();
        out.extend_from_slice(&bugnet_format::FORMAT_VERSION.to_le_bytes());
        for count in [first.len() + later.len(), threads.len(), threads.len()] {
            out.extend_from_slice(&(count as u32).to_le_bytes());
        }
        out.extend_from_slice(&(segments.len() as u64).to_le_bytes());
        for (i, (at, bytes)) in first.iter().chain(later).enumerate() {
            out.extend_from_slice(&(pictures + i as u64 + 1).to_le_bytes());
            out.extend_from_slice(&at.to_le_bytes());
            out.extend_from_slice(bytes);
        }
        for tid in 41..41 + threads.len() as u32 {
            // With one interval.
            [tid, 1].iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
            out.extend_from_slice(&u64::MAX.to_le_bytes());
        }
        for stream in &streams {
            let interval = [0, pictures + first.len() as u64, 0, stream.len() as u64];
            interval.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        }
        for (thread, until) in segments {
            [thread, until].iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        }
        streams.iter().for_each(|stream| out.extend_from_slice(stream));
        out
    }

    /// A replay process, ready to run.
    pub fn replay(&self) -> Replay {
        let mut replay = Replay::start(&self.package());
        assert_eq!(replay.receive(), Response::Ready);
        replay
    }
}

/// A position of the only thread; `u64::MAX` for the end.
pub fn target(at: u64) -> Target {
    if at == u64::MAX { Target::End } else { Target::Place { thread: 0, at } }
}

/// A replay process.
pub struct Replay {
    /// None for a copy of another one.
    child: Option<Child>,
    control: UnixStream,
}

/// How a run ended.
#[derive(Debug)]
pub struct Stopped {
    pub stop: Stop,
    pub thread: u32,
    pub position: u64,
    pub time: u64,
    pub hit: Option<Hit>,
    pub regs: RegisterFile,
    pub counts: control::Counts,
    pub output: Vec<(OutputStream, Vec<u8>)>,
}

impl Replay {
    /// Starts a process on these bytes.
    pub fn start(package: &[u8]) -> Self {
        Self::start_with(&[], package)
    }

    /// The same, with these options for the host.
    pub fn start_with(options: &[&str], package: &[u8]) -> Self {
        let memfd = rustix::fs::memfd_create("package", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
        let mut file = File::from(memfd);
        file.write_all(package).expect("package fits memory");
        let (control, theirs) = UnixStream::pair().expect("socket pair");
        let [host, library, client] = tools();
        let mut command = Command::new(host);
        command.args(options).arg(library).arg(client).env_clear().stdin(Stdio::null());
        let (package_fd, control_fd) = (file.as_raw_fd(), theirs.as_raw_fd());
        // SAFETY: only async-signal-safe calls between fork and exec.
        unsafe {
            command.pre_exec(move || {
                // First out of the way of the two numbers, then to them.
                let package = libc::fcntl(package_fd, libc::F_DUPFD_CLOEXEC, 10);
                let control = libc::fcntl(control_fd, libc::F_DUPFD_CLOEXEC, 10);
                if libc::dup2(package, PACKAGE_FD) < 0 || libc::dup2(control, CONTROL_FD) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().expect("replay-host starts");
        Self { child: Some(child), control }
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.as_ref().expect("a process of ours").id()
    }

    pub fn receive(&mut self) -> Response {
        match control::receive(&mut self.control) {
            Ok(response) => response,
            Err(e) => panic!("replay process hung up ({e}): {:?}", self.child.as_mut().map(Child::wait)),
        }
    }

    pub fn send(&mut self, request: &Request) {
        control::send(&mut self.control, request).expect("replay process takes requests");
    }

    /// Gives the process another interval.
    pub fn next(&mut self, interval: &Interval) {
        let package = interval.package();
        self.send(&Request::Next { len: package.len() as u64 });
        self.control.write_all(&package).expect("replay process takes a package");
        assert_eq!(self.receive(), Response::Ready);
    }

    pub fn run_to(&mut self, position: u64) -> Stopped {
        self.run_until(target(position), Hits::Ignore)
    }

    pub fn run_until(&mut self, target: Target, hits: Hits) -> Stopped {
        self.send(&Request::RunTo { target, hits, output: true });
        self.stopped()
    }

    /// What answers a request to run.
    pub fn stopped(&mut self) -> Stopped {
        let mut output = Vec::new();
        loop {
            match self.receive() {
                Response::Output { stream, bytes } => output.push((stream, bytes)),
                Response::Stopped { stop, thread, at: position, time, hit, regs, counts, .. } => {
                    return Stopped { stop, thread, position, time, hit, regs: *regs, counts, output };
                }
                other => panic!("unexpected response {other:?}"),
            }
        }
    }

    /// A copy of the process.
    pub fn fork(&mut self) -> Self {
        let (control, theirs) = UnixStream::pair().expect("socket pair");
        self.send(&Request::Fork);
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [theirs.as_fd()];
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(&self.control, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::empty()).expect("takes a socket");
        drop(theirs);
        assert_eq!(self.receive(), Response::Forked);
        let mut copy = Self { child: None, control };
        assert_eq!(copy.receive(), Response::Ready);
        copy
    }

    /// Another end of the socket, for another thread.
    pub fn control(&self) -> UnixStream {
        self.control.try_clone().expect("another descriptor")
    }

    pub fn run(&mut self) -> Stopped {
        self.run_to(u64::MAX)
    }

    pub fn read(&mut self, addr: u64, len: u64) -> Vec<u8> {
        self.send(&Request::ReadMemory { addr, len });
        match self.receive() {
            Response::Memory(bytes) => bytes,
            other => panic!("unexpected response {other:?}"),
        }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
