//! Which descriptors refer to the files that were standard output and error when the recording began.

use crate::base::lock::{Mutex, MutexGuard};
use crate::base::process::OfProcess;
use crate::kernel::arrivals::{self, Arrival};
use bugnet_format::record::OutputStream;
use hashbrown::HashMap;

/// `close_range` only marks descriptors, to be closed by `execve`.
const CLOSE_RANGE_CLOEXEC: u32 = 4;

/// Descriptors of a process that refer to the recording's standard output or error.
#[derive(Clone, Debug)]
pub struct Streams(HashMap<u64, OutputStream>);

static STREAMS: OfProcess<Mutex<Streams>> = OfProcess::none();

/// Those of the process.
pub fn of_process() -> MutexGuard<'static, Streams> {
    STREAMS.get().lock()
}

/// Which standard stream of the program's a descriptor of the process refers to.
pub fn of(fd: u64) -> OutputStream {
    of_process().of(fd)
}

/// A process begins, or a forked child goes on, with these.
pub fn begin(streams: Streams) {
    STREAMS.set(Mutex::new(streams));
}

/// A descriptor and the stream that it refers to, as `3=1`.
fn pair(text: &str) -> Option<(i32, OutputStream)> {
    let (fd, stream) = text.split_once('=')?;
    let stream = OutputStream::ALL.into_iter().find(|s| (*s as u8).to_string() == stream)?;
    Some((fd.parse().ok()?, stream))
}

impl Streams {
    /// Those of a process that begins: with nothing from the process before it, the first one's.
    pub fn begin(inherited: &str) -> Self {
        if inherited.is_empty() {
            return Self([(1, OutputStream::Stdout), (2, OutputStream::Stderr)].into_iter().collect());
        }
        // `execve` has closed some.
        // SAFETY: asks about a number.
        let open = |(fd, _): &(i32, OutputStream)| unsafe { libc::fcntl(*fd, libc::F_GETFD) } != -1;
        Self(inherited.split(',').filter_map(pair).filter(open).map(|(fd, stream)| (fd as u64, stream)).collect())
    }

    /// Those that are listed, whether or not they are open here.
    pub fn listed(text: &str) -> Self {
        Self(text.split(',').filter_map(pair).map(|(fd, stream)| (fd as u64, stream)).collect())
    }

    /// What [`Self::begin`] takes, in a program that this process executes.
    pub fn encode(&self) -> String {
        let pairs = self.0.iter().map(|(fd, stream)| format!("{fd}={}", *stream as u8));
        // Never empty, which would stand for the first process.
        pairs.chain(["-".into()]).collect::<Vec<_>>().join(",")
    }

    /// What a descriptor refers to.
    pub fn of(&self, fd: u64) -> OutputStream {
        self.0.get(&(fd & 0xffff_ffff)).copied().unwrap_or(OutputStream::None)
    }

    /// A system call that may change descriptors has succeeded.
    pub fn follow(&mut self, number: i64, args: &[u64; 6], result: i64) {
        let copy = match number {
            libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => true,
            libc::SYS_fcntl => matches!(args[1] as i32, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC),
            _ => false,
        };
        if copy {
            match self.of(args[0]) {
                OutputStream::None => self.0.remove(&(result as u64)),
                stream => self.0.insert(result as u64, stream),
            };
        }
        for arrival in arrivals::of(number, args, result) {
            match self.of_arrival(&arrival) {
                OutputStream::None => self.0.remove(&arrival.fd),
                stream => self.0.insert(arrival.fd, stream),
            };
        }
        match number {
            libc::SYS_close => {
                self.0.remove(&(args[0] & 0xffff_ffff));
            }
            libc::SYS_close_range if args[2] as u32 & CLOSE_RANGE_CLOEXEC == 0 => {
                self.0.retain(|fd, _| *fd < args[0] || *fd > args[1]);
            }
            _ => {}
        }
    }

    /// What a descriptor refers to that has come from elsewhere.
    fn of_arrival(&self, arrival: &Arrival) -> OutputStream {
        // Where both streams are one file, the one that was meant.
        let mut known: Vec<u64> = self.0.keys().copied().filter(|fd| *fd != arrival.fd).collect();
        known.sort_unstable_by_key(|fd| (Some(*fd) != arrival.number, *fd));
        known.into_iter().find(|fd| arrival.is_like(*fd)).map_or(OutputStream::None, |fd| self.of(fd))
    }
}
