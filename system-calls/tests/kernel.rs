//! The table against the kernel: calls are made with all pointers into memory that is compared before and after. What the kernel has written there,
//! and the table does not say, is wrong.

use bugnet_system_calls::written::{Buffer, written};
use bugnet_system_calls::{SystemCall, all};
use std::ffi::CString;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

/// Bytes of the memory, and between what lies in it.
const SIZE: usize = 1 << 16;
const GAP: usize = 256;
/// What is in it: a byte that the kernel writes is seen if it is another one than either.
const PATTERNS: [u8; 2] = [0xa5, 0x5a];

/// Memory that calls get pointers into.
struct Arena {
    bytes: Vec<u8>,
    used: usize,
}

impl Arena {
    fn new(pattern: u8) -> Self {
        Self { bytes: vec![pattern; SIZE], used: GAP }
    }

    /// Room for so many bytes.
    fn room(&mut self, len: usize) -> u64 {
        let at = self.used.next_multiple_of(16);
        self.used = at + len + GAP;
        assert!(self.used < SIZE, "the arena is full");
        self.bytes.as_mut_ptr() as u64 + at as u64
    }

    /// Room in which these bytes are.
    fn holds(&mut self, bytes: &[u8]) -> u64 {
        let at = self.room(bytes.len());
        let offset = (at - self.bytes.as_ptr() as u64) as usize;
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        at
    }

    fn words(&mut self, words: &[u64]) -> u64 {
        self.holds(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
    }

    fn text(&mut self, text: &str) -> u64 {
        self.holds(CString::new(text).unwrap().as_bytes_with_nul())
    }

    /// A vector of buffers with these lengths, and how many.
    fn vector(&mut self, lengths: &[usize]) -> (u64, u64) {
        let words: Vec<u64> = lengths.iter().flat_map(|len| [self.room(*len), *len as u64]).collect();
        (self.words(&words), lengths.len() as u64)
    }

    /// A message header with room for an address, two buffers and control data.
    fn message(&mut self) -> Vec<u64> {
        let (vector, count) = self.vector(&[3, 40]);
        let (name, control) = (self.room(128), self.room(64));
        vec![name, 128, vector, count, control, 64, 0]
    }

    /// The 8 bytes at an address, which may be anywhere in this process, as far as the call has been given it.
    fn word(&self, at: u64) -> u64 {
        let offset = at.wrapping_sub(self.bytes.as_ptr() as u64) as usize;
        self.bytes
            .get(offset..offset.saturating_add(8))
            .map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
    }
}

/// A way to make a call: its name, and its arguments.
type Case = (&'static str, fn(&mut Arena, &Files) -> Vec<u64>);

/// What calls are about.
struct Files {
    folder: tempfile::TempDir,
    /// A file of 5,000 bytes.
    file: u64,
    /// One end of a pair of sockets, at which something waits to be read.
    socket: u64,
    /// The same, of datagrams.
    datagrams: u64,
    /// A socket that listens, to which somebody has connected.
    listener: u64,
    /// The end of a pipe at which something waits to be read, and its other end.
    pipe: [u64; 2],
    folder_fd: u64,
    timer_fd: u64,
    epoll: u64,
    terminal: u64,
}

fn leak(file: impl IntoRawFd) -> u64 {
    file.into_raw_fd() as u64
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 5000]).unwrap();
        std::os::unix::fs::symlink("file", folder.path().join("link")).unwrap();
        let file = leak(std::fs::File::options().read(true).write(true).open(&path).unwrap());
        let (one, mut other) = UnixStream::pair().unwrap();
        std::io::Write::write_all(&mut other, b"something to be read").unwrap();
        let (datagrams, sender) = UnixDatagram::pair().unwrap();
        (0..8).for_each(|_| assert_eq!(sender.send(b"a datagram").unwrap(), 10));
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let connect = || leak(UnixStream::connect(folder.path().join("socket")).unwrap());
        (0..4).for_each(|_| assert!(connect() > 0));
        let mut pipe = [0; 2];
        // SAFETY: system calls, with memory that lives.
        let (timer_fd, epoll, terminal) = unsafe {
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            assert_eq!(libc::write(pipe[1], b"in the pipe".as_ptr().cast(), 11), 11);
            let epoll = libc::epoll_create1(0);
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
            assert_eq!(libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, pipe[0], &raw mut event), 0);
            let name = c"/dev/ptmx";
            (libc::timerfd_create(libc::CLOCK_MONOTONIC, 0), epoll, libc::open(name.as_ptr(), libc::O_RDWR))
        };
        let folder_fd = leak(std::fs::File::open(folder.path()).unwrap());
        let number = |fd: i32| fd as u64;
        let socket = number(one.as_raw_fd());
        std::mem::forget((one, other, sender));
        Self {
            folder,
            file,
            socket,
            datagrams: leak(datagrams),
            listener: leak(listener),
            pipe: pipe.map(number),
            folder_fd,
            timer_fd: number(timer_fd),
            epoll: number(epoll),
            terminal: number(terminal),
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }
}

const CASES: &[Case] = &[
    ("read", |a, f| vec![f.file, a.room(100), 100]),
    ("pread64", |a, f| vec![f.file, a.room(6000), 6000, 0]),
    ("readv", |a, f| {
        let (vector, count) = a.vector(&[10, 3, 200]);
        vec![f.file, vector, count]
    }),
    ("preadv", |a, f| {
        let (vector, count) = a.vector(&[10, 3, 200]);
        vec![f.file, vector, count, 0, 0]
    }),
    ("preadv2", |a, f| {
        let (vector, count) = a.vector(&[1, 5000]);
        vec![f.file, vector, count, 0, 0, 0]
    }),
    ("stat", |a, f| vec![a.text(&f.path("file")), a.room(400)]),
    ("stat", |a, f| vec![a.text(&f.path("nowhere")), a.room(400)]),
    ("fstat", |a, f| vec![f.file, a.room(400)]),
    ("lstat", |a, f| vec![a.text(&f.path("link")), a.room(400)]),
    ("newfstatat", |a, f| vec![f.folder_fd, a.text("file"), a.room(400), 0]),
    ("statx", |a, f| vec![f.folder_fd, a.text("file"), 0, 0xfff, a.room(600)]),
    ("statfs", |a, f| vec![a.text(&f.path("file")), a.room(400)]),
    ("fstatfs", |a, f| vec![f.file, a.room(400)]),
    ("poll", |a, f| {
        let list = [f.pipe[0] | 1 << 32, f.pipe[1] | 4 << 32, 999 | 1 << 32];
        vec![a.words(&list), 3, 0]
    }),
    ("ppoll", |a, f| vec![a.words(&[f.pipe[0] | 1 << 32]), 1, a.words(&[0, 0]), 0, 8]),
    ("select", |a, f| {
        let set = |fd: u64| [1_u64 << (fd % 64), 0];
        assert!(f.pipe[0] < 64 && f.pipe[1] < 64);
        let (reads, writes, errors) = (a.words(&set(f.pipe[0])), a.words(&set(f.pipe[1])), a.words(&[0, 0]));
        vec![f.pipe[1].max(f.pipe[0]) + 1, reads, writes, errors, a.words(&[0, 0])]
    }),
    ("pselect6", |a, f| {
        let reads = a.words(&[1 << f.pipe[0], 0]);
        vec![f.pipe[0] + 1, reads, 0, 0, a.words(&[0, 0]), 0]
    }),
    ("epoll_wait", |a, f| vec![f.epoll, a.room(120), 10, 0]),
    ("epoll_pwait", |a, f| vec![f.epoll, a.room(120), 10, 0, 0, 8]),
    ("epoll_pwait2", |a, f| vec![f.epoll, a.room(120), 10, a.words(&[0, 0]), 0, 8]),
    ("pipe", |a, _| vec![a.room(64)]),
    ("pipe2", |a, _| vec![a.room(64), 0]),
    ("socketpair", |a, _| vec![1, 1, 0, a.room(64)]),
    ("getsockname", |a, f| vec![f.listener, a.room(200), a.words(&[200])]),
    ("getpeername", |a, f| vec![f.socket, a.room(200), a.words(&[200])]),
    ("accept", |a, f| vec![f.listener, a.room(200), a.words(&[200])]),
    ("accept4", |a, f| vec![f.listener, a.room(200), a.words(&[200]), 0]),
    ("recvfrom", |a, f| vec![f.datagrams, a.room(100), 100, 0, a.room(200), a.words(&[200])]),
    ("recvfrom", |a, f| vec![f.socket, a.room(4), 4, 0, 0, 0]),
    ("recvmsg", |a, f| {
        let message = a.message();
        vec![f.datagrams, a.words(&message), 0]
    }),
    ("recvmmsg", |a, f| {
        let messages: Vec<u64> = (0..2).flat_map(|_| a.message().into_iter().chain([0])).collect();
        vec![f.datagrams, a.words(&messages), 2, 0x40, 0]
    }),
    ("getsockopt", |a, f| vec![f.socket, 1, 7, a.room(64), a.words(&[64])]),
    ("getsockopt", |a, f| vec![f.socket, 1, 17, a.room(64), a.words(&[64])]),
    ("getsockopt", |a, f| vec![f.socket, 1, 20, a.room(64), a.words(&[64])]),
    ("uname", |a, _| vec![a.room(600)]),
    ("getcwd", |a, _| vec![a.room(4096), 4096]),
    ("gettimeofday", |a, _| vec![a.room(64), a.room(64)]),
    ("time", |a, _| vec![a.room(64)]),
    ("times", |a, _| vec![a.room(64)]),
    ("getrusage", |a, _| vec![0, a.room(400)]),
    ("sysinfo", |a, _| vec![a.room(400)]),
    ("getrlimit", |a, _| vec![7, a.room(64)]),
    ("prlimit64", |a, _| vec![0, 7, 0, a.room(64)]),
    ("getitimer", |a, _| vec![0, a.room(64)]),
    ("setitimer", |a, _| vec![0, a.words(&[0; 4]), a.room(64)]),
    ("clock_gettime", |a, _| vec![1, a.room(64)]),
    ("clock_getres", |a, _| vec![1, a.room(64)]),
    ("nanosleep", |a, _| vec![a.words(&[0, 1]), a.room(64)]),
    ("clock_nanosleep", |a, _| vec![1, 0, a.words(&[0, 1]), a.room(64)]),
    ("timer_create", |a, _| vec![1, 0, a.room(64)]),
    ("timerfd_settime", |a, f| vec![f.timer_fd, 0, a.words(&[0, 0, 1000, 0]), a.room(64)]),
    ("timerfd_gettime", |a, f| vec![f.timer_fd, a.room(64)]),
    ("rt_sigaction", |a, _| vec![12, 0, a.room(200), 8]),
    ("rt_sigprocmask", |a, _| vec![0, 0, a.room(64), 8]),
    ("rt_sigpending", |a, _| vec![a.room(64), 8]),
    ("rt_sigtimedwait", |a, _| vec![a.words(&[1 << 9]), a.room(200), a.words(&[0, 0]), 8]),
    ("sigaltstack", |a, _| vec![0, a.room(64)]),
    ("wait4", |a, _| vec![u64::MAX, a.room(64), 1, a.room(300)]),
    ("waitid", |a, _| vec![0, 0, a.room(200), 5, a.room(300)]),
    ("getresuid", |a, _| vec![a.room(16), a.room(16), a.room(16)]),
    ("getresgid", |a, _| vec![a.room(16), a.room(16), a.room(16)]),
    ("getgroups", |a, _| vec![64, a.room(400)]),
    ("sched_getaffinity", |a, _| vec![0, 128, a.room(200)]),
    ("sched_getparam", |a, _| vec![0, a.room(64)]),
    ("sched_getattr", |a, _| vec![0, a.room(200), 56, 0]),
    ("sched_rr_get_interval", |a, _| vec![0, a.room(64)]),
    ("getdents64", |a, f| vec![f.folder_fd, a.room(4000), 4000]),
    ("getdents", |a, f| vec![f.folder_fd, a.room(4000), 4000]),
    ("readlink", |a, f| vec![a.text(&f.path("link")), a.room(100), 100]),
    ("readlinkat", |a, f| vec![f.folder_fd, a.text("link"), a.room(100), 100]),
    ("listxattr", |a, f| vec![a.text(&f.path("file")), a.room(500), 500]),
    ("getxattr", |a, f| vec![a.text(&f.path("file")), a.text("user.nothing"), a.room(100), 100]),
    ("getrandom", |a, _| vec![a.room(100), 100, 0]),
    ("get_robust_list", |a, _| vec![0, a.room(16), a.room(16)]),
    ("capget", |a, _| vec![a.words(&[0x2008_0522]), a.room(64)]),
    ("capget", |a, _| vec![a.words(&[1]), a.room(64)]),
    ("mincore", |a, _| {
        let at = a.room(9000) & !4095;
        vec![at, 8192, a.room(64)]
    }),
    ("prctl", |a, _| vec![16, a.room(64)]),
    ("prctl", |a, _| vec![2, a.room(64)]),
    ("arch_prctl", |a, _| vec![0x1003, a.room(64)]),
    ("ioctl", |a, f| vec![f.pipe[0], 0x541b, a.room(64)]),
    ("ioctl", |a, f| vec![f.terminal, 0x5413, a.room(64)]),
    ("ioctl", |a, f| vec![f.terminal, 0x5401, a.room(100)]),
    ("ioctl", |a, f| vec![f.terminal, 0x802c_542a, a.room(100)]),
    ("ioctl", |a, f| vec![f.terminal, 0x8004_5430, a.room(64)]),
    ("fcntl", |a, f| vec![f.file, 5, a.words(&[1, 0, 0, 0])]),
    ("fcntl", |a, f| vec![f.pipe[0], 16, a.room(64)]),
    ("fcntl", |_, f| vec![f.file, 3, 0]),
    ("getcpu", |a, _| vec![a.room(16), a.room(16), 0]),
    ("sendfile", |a, f| vec![f.pipe[1], f.file, a.words(&[0]), 8]),
    ("copy_file_range", |a, f| vec![f.file, a.words(&[0]), f.file, a.words(&[6000]), 8, 0]),
    ("splice", |a, f| vec![f.file, a.words(&[0]), f.pipe[1], 0, 8, 0]),
    ("name_to_handle_at", |a, f| {
        let handle = a.holds(&[128, 0, 0, 0]);
        a.used += 200;
        vec![f.folder_fd, a.text("file"), handle, a.room(16), 0]
    }),
    ("adjtimex", |a, _| vec![a.holds(&[0; 208])]),
    ("clock_adjtime", |a, _| vec![0, a.holds(&[0; 208])]),
    ("ustat", |a, _| vec![0, a.room(64)]),
    ("move_pages", |a, _| {
        let page = a.room(8192) & !4095;
        vec![0, 1, a.words(&[page]), 0, a.room(16), 0]
    }),
    ("cachestat", |a, f| vec![f.file, a.words(&[0, 0]), a.room(100), 0]),
    ("msgctl", |a, _| vec![message_queue(), 2, a.room(300)]),
    ("msgctl", |a, _| vec![0, 3, a.room(300)]),
    ("msgctl", |a, _| vec![0, 12, a.room(300)]),
    ("msgrcv", |a, _| {
        let queue = message_queue();
        let message = [1_u64, 2];
        // SAFETY: a system call with memory that lives.
        assert_eq!(unsafe { libc::msgsnd(queue as i32, message.as_ptr().cast(), 8, 0) }, 0);
        vec![queue, a.room(64), 16, 0, 0o4000]
    }),
    ("shmctl", |a, _| {
        // SAFETY: a system call on numbers.
        let memory = unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, 0o600) };
        vec![memory as u64, 2, a.room(300)]
    }),
    ("shmctl", |a, _| vec![0, 3, a.room(300)]),
    ("shmctl", |a, _| vec![0, 14, a.room(300)]),
    ("semctl", |a, _| vec![semaphores(), 0, 2, a.room(300)]),
    ("semctl", |a, _| vec![semaphores(), 0, 13, a.room(300)]),
    ("semctl", |a, _| vec![0, 0, 3, a.room(300)]),
    ("semctl", |a, _| vec![0, 0, 19, a.room(300)]),
    ("semop", |a, _| vec![semaphores(), a.holds(&[0, 0, 1, 0, 0, 0]), 1]),
    ("io_setup", |a, _| vec![4, a.words(&[0])]),
    ("futex", |a, _| vec![a.words(&[5]), 0x81, 1]),
    ("perf_event_open", |a, _| vec![a.holds(&[0, 0, 0, 0, 200, 0, 0, 0]), 0, u64::MAX, u64::MAX, 0]),
    ("io_uring_setup", |a, _| vec![4, a.holds(&[0; 120])]),
];

fn message_queue() -> u64 {
    // SAFETY: a system call on numbers.
    unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) as u64 }
}

fn semaphores() -> u64 {
    // SAFETY: a system call on numbers.
    unsafe { libc::semget(libc::IPC_PRIVATE, 3, 0o600) as u64 }
}

/// Makes a call. What it has changed that the table does not say, as offsets in the arena; and its result.
fn unsaid(
    call: &SystemCall,
    make: fn(&mut Arena, &Files) -> Vec<u64>,
    files: &Files,
    pattern: u8,
) -> (Vec<usize>, i64) {
    let mut arena = Arena::new(pattern);
    let mut args = [0; 6];
    let given = make(&mut arena, files);
    args[..given.len()].copy_from_slice(&given);
    let before = arena.bytes.clone();
    // SAFETY: a system call whose pointers are into the arena, which lives; it does nothing to other memory of this process.
    let result = unsafe {
        let [a, b, c, d, e, f] = args;
        match libc::syscall(call.number.into(), a, b, c, d, e, f) {
            -1 => -i64::from(*libc::__errno_location()),
            result => result,
        }
    };
    let start = arena.bytes.as_ptr() as u64;
    let said: Vec<Buffer> = written(call, &args, result, &|at| arena.word(at)).unwrap_or_default();
    let is_said = |offset: usize| said.iter().any(|(at, len)| (start + offset as u64).wrapping_sub(*at) < *len);
    let changed = (0..SIZE).filter(|offset| before[*offset] != arena.bytes[*offset]);
    (changed.filter(|offset| !is_said(*offset)).map(|offset| offset - offset % 8).collect(), result)
}

#[test]
fn the_kernel_writes_what_is_said() {
    let (mut wrong, mut made) = (Vec::new(), 0);
    // SAFETY: a system call on a number.
    let first = unsafe { libc::dup(0) } as u32;
    for (name, make) in CASES {
        let call = all().iter().find(|call| call.name == *name).unwrap_or_else(|| panic!("{name} is not in the table"));
        assert!(call.writes.is_some() || *name == "ioctl", "{name}: it is not known what it writes");
        for pattern in PATTERNS {
            // Signals, children and what is in a pipe are used up.
            let files = Files::new();
            // SAFETY: system calls on numbers: a child that ends at once, and a signal that waits.
            let child = unsafe {
                libc::sigprocmask(libc::SIG_BLOCK, &{ signals() }, std::ptr::null_mut());
                libc::raise(libc::SIGUSR1);
                let child = if ["wait4", "waitid"].contains(name) { libc::fork() } else { -1 };
                if child == 0 {
                    libc::_exit(7);
                }
                child
            };
            if child > 0 {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            let is_ioctl = *name == "ioctl";
            let call = if is_ioctl { &SystemCall { writes: Some(IOCTL_WRITES), ..*call } } else { call };
            let (mut unsaid, result) = unsaid(call, *make, &files, pattern);
            unsaid.dedup();
            drop(files);
            // What cases have opened. SAFETY: nobody uses these descriptors, the first of which is this function's.
            assert_eq!(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) }, 0);
            made += i32::from(result >= 0);
            if !unsaid.is_empty() {
                wrong.push(format!("{name} = {result}: also at {unsaid:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(made > CASES.len() as i32, "only {made} calls have succeeded");
}

/// By its command, of which the table has a list.
const IOCTL_WRITES: &[(usize, bugnet_system_calls::Kernel)] =
    &[(2, bugnet_system_calls::Kernel::Command(1, bugnet_system_calls::IOCTLS))];

fn signals() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: the set is made empty, which fills it, before anything is put into it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGUSR1);
        set.assume_init()
    }
}
