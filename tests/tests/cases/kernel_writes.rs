//! What the table of system calls says that the kernel writes, against what it does write: programs run under ptrace, and at each call all memory that they can write to is
//! compared with what it was before. Bytes that changed and that the table does not speak of fail the test: a light log would lack them.

use anyhow::{Context, Result, bail, ensure};
use bugnet_system_calls::kernel::ioctl;
use bugnet_system_calls::written::written;
use bugnet_system_calls::{IOCTLS, of};
use bugnet_tests::bugnet::{Job, Workshop, source_tree};
use bugnet_tests::programs::compile;
use libtest_mimic::{Failed, Trial};
use nix::sys::ptrace::{self, Event, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;

/// Programs, as bash is to start them.
const PROGRAMS: [(&str, &str); 16] = [
    (
        "files",
        "mkdir d; cd d; for i in 1 2 3; do echo $i > f$i; done; ln -s f1 l; ls -la; stat f1 l; find . -type f; cp -a f1 g; mv g h; rm h; df .; du -s .; touch -d 2001-01-01 f2; cat f1 f2; truncate -s 5 f3; readlink l; sync f1; getfattr f1 2>/dev/null; chmod 600 f1; dd if=f1 of=k bs=1 status=none; mkfifo p; split -b 2 f3; tail -c 1 f3; tee t < f1; flock f1 true; fallocate -l 100 z; cmp f1 f1",
    ),
    (
        "processes",
        "(exit 3); echo $?; sleep 0.01 & wait; true | cat; ps -o args= | wc -l; kill -0 $$; nice true; timeout 5 true; nohup true; env -i true; taskset -c 0 true; chrt -p $$; ionice -p $$; prlimit; ulimit -a; times; setsid -w true; pstree $$ >/dev/null; uptime; free; lscpu; nproc; id; who; uname -a; hostname; date; getconf -a >/dev/null; prlimit --nofile=100 true; unshare -r true",
    ),
    (
        "sockets",
        "python3 -c 'import socket,os,select\na,b=socket.socketpair(); a.send(b\"x\"*100); print(b.recv(10)); a.sendmsg([b\"ab\",b\"cd\"]); print(b.recvmsg(200)); s=socket.socket(); s.bind((\"127.0.0.1\",0)); s.listen(); c=socket.create_connection(s.getsockname()); d,_=s.accept(); c.sendall(b\"hello\"); print(d.recv(9), d.getpeername()[0], c.getsockopt(socket.SOL_SOCKET,socket.SO_RCVBUF)>0); u=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); u.bind((\"127.0.0.1\",0)); u.sendto(b\"q\",u.getsockname()); print(u.recvfrom(5)[0]); r,w=os.pipe(); p=select.poll(); p.register(r); p.poll(1); e=select.epoll(); e.register(r); e.poll(0.001); select.select([r],[],[],0.001); os.write(w,b\"1\"); print(p.poll(1)!=[], e.poll(1)!=[], select.select([r],[],[],1)[0]!=[]); v=bytearray(4); print(socket.getaddrinfo(\"127.0.0.1\",80)[0][4]); t,o=socket.socketpair(); socket.send_fds(t,[b\"f\"],[r]); print(len(socket.recv_fds(o,10,2)[1])); x=bytearray(50); b.setblocking(False)\ntry: b.recv_into(x)\nexcept BlockingIOError: print(1)'; ip addr | wc -l; ip route; ss -a | wc -l",
    ),
    (
        "python",
        "python3 -c 'import os,time,resource,signal,tempfile,mmap,fcntl,termios,pty,sys,struct,array\nprint(os.stat(\"/\").st_mode, len(os.listdir(\"/etc\"))>5); os.getrandom(5); os.urandom(3); resource.getrusage(0); resource.getrlimit(resource.RLIMIT_NOFILE); os.times(); os.getgroups(); os.getresuid(); os.sched_getaffinity(0); os.getloadavg(); os.statvfs(\"/\"); os.uname(); time.clock_getres(time.CLOCK_MONOTONIC); os.get_terminal_size(pty.openpty()[0]); m,s=pty.openpty(); termios.tcgetattr(s); fcntl.ioctl(s,termios.TIOCGWINSZ,b\"\\0\"*8); os.ttyname(s); os.write(m,b\"hello\\n\"); os.read(s,100); f=tempfile.TemporaryFile(); f.write(b\"abc\"*1000); f.seek(0); f.read(10); os.preadv(f.fileno(),[bytearray(5),bytearray(7)],1); os.pread(f.fileno(),9,3); fcntl.fcntl(f,fcntl.F_GETLK,struct.pack(\"hhllhh\",fcntl.F_WRLCK,0,0,0,0,0)); fcntl.fcntl(f,fcntl.F_GETFL); os.sendfile(os.open(\"/dev/null\",1),f.fileno(),0,100); os.copy_file_range(f.fileno(),os.memfd_create(\"x\"),100,0); signal.setitimer(signal.ITIMER_REAL,5,1); signal.getitimer(signal.ITIMER_REAL); signal.setitimer(signal.ITIMER_REAL,0); signal.sigpending(); signal.pthread_sigmask(signal.SIG_BLOCK,[10]); os.kill(os.getpid(),10); signal.sigwaitinfo([10]); signal.sigtimedwait([10],0.001); os.setxattr(f.fileno(),\"user.a\",b\"v\") if 0 else 0; time.sleep(0.001); p=os.fork()\nif p==0: os._exit(3)\nprint(os.waitid(os.P_PID,p,os.WEXITED).si_status); a=array.array(\"i\",[0]); r,w=os.pipe(); os.write(w,b\"xyz\"); fcntl.ioctl(r,termios.FIONREAD,a); print(a[0]); os.splice(r,w,2) if 0 else 0; os.posix_fallocate(f.fileno(),0,10); e=os.eventfd(3); print(os.eventfd_read(e)); os.pidfd_open(os.getpid()); print(len(os.listxattr(\"/\")))'",
    ),
    (
        "perl",
        "perl -MPOSIX -MTime::HiRes=ualarm,clock_gettime -MSocket -e 'my @s=stat(\"/etc/passwd\"); opendir D,\"/etc\"; my @f=readdir D; $SIG{ALRM}=sub{$n++}; ualarm 2000,2000; 1 while $n<3; ualarm 0; pipe R,W; syswrite W,\"abc\"; sysread R,$b,2; my $r=\"\"; vec($r,fileno(R),1)=1; select($o=$r,undef,undef,0.01); my ($u)=POSIX::uname(); my @t=POSIX::times(); print scalar(@f)>3, $b, $u, \"\\n\"; open F,\"<\",\"/etc/group\"; flock F,1; ioctl(F,0x5401,$x=\"\\0\"x60); my $t=POSIX::Termios->new; $t->getattr(0); POSIX::nanosleep(0,1000) if 0; shmget(1,1,0); msgget(1,0); my $q=msgget(0,0600|01000); msgsnd($q,pack(\"l! a*\",1,\"hi\"),0); msgrcv($q,$m,10,0,0); msgctl($q,2,$d); msgctl($q,0,0); my $e=semget(0,1,0600|01000); semctl($e,0,2,$z); semop($e,pack(\"s!3\",0,1,0)); semctl($e,0,13,$z); semctl($e,0,0,0)'",
    ),
    (
        "tools",
        "gzip -c /etc/services | gunzip | md5sum; xz -T1 -c /etc/group | xz -dc | wc; tar cf - /etc/hosts 2>/dev/null | tar tvf -; sqlite3 a.db 'pragma journal_mode=wal; create table t(a); insert into t values(1),(2); select sum(a) from t; vacuum'; bc -l <<< 'a(1)'; awk 'BEGIN{print 5; \"date\" | getline x}'; sed s/a/b/ /etc/group | sort | uniq -c | wc -l; diff /etc/group /etc/passwd | head -2; file /bin/ls; strings /bin/true | head -3; openssl rand 5 | wc -c; git init -q r; cd r; git config user.email a; git config user.name b; echo x > f; git add f; git commit -qm c; git log --oneline; git status -s; git gc -q; git grep x",
    ),
    (
        "compiler",
        "printf 'int main(){return 3;}' > a.c; gcc -O2 a.c -o a; ./a; echo $?; make -s -f /dev/null 2>&1; ar cr l.a a.c; strip a; ld --version | head -1; gdb --version | head -1",
    ),
    (
        "terminal",
        "script -qec 'stty -a; stty size; tty; bash -c \"set -m; sleep 0.01 & wait\"' /dev/null; (sleep 0.4; printf 'Gq') | TERM=xterm script -qec 'less /etc/passwd' /dev/null | wc -c",
    ),
    (
        "network",
        "getent hosts localhost; getent passwd root; curl -s file:///etc/hostname; curl -s http://127.0.0.1:1/; ssh -V; ping -c 1 -W 1 127.0.0.1",
    ),
    (
        "signals",
        "trap 'echo u' USR1; kill -USR1 $$; (sleep 0.02; kill -ALRM $$) & trap 'echo a' ALRM; sleep 0.2; read -t 0.05 x < <(sleep 0.2); wait",
    ),
    ("clocks", "./clocks 3"),
    ("event_fds", "./event_fds"),
    ("scattered_io", "./scattered_io"),
    ("prctl", "./prctl"),
    ("rlimits", "./rlimits"),
    ("storm", "./storm 20"),
];
/// Programs of ours among them: where their sources are.
const OWN: [(&str, &str); 6] = [
    ("clocks", "clocks.c"),
    ("event_fds", "kernel/event_fds.c"),
    ("scattered_io", "kernel/scattered_io.c"),
    ("prctl", "kernel/prctl.c"),
    ("rlimits", "kernel/rlimits.c"),
    ("storm", "light/storm.c"),
];
/// Calls that make or remove memory, or whose effects are another process's: mmap, munmap, brk, mremap, madvise, clone, fork, vfork, execve, exit,
/// rt_sigreturn, shmat, exit_group, remap_file_pages, execveat, clone3.
const OTHERWISE: [u64; 17] = [9, 11, 12, 15, 25, 28, 30, 56, 57, 58, 59, 60, 67, 216, 231, 322, 435];
/// More memory than this of a process is not compared.
const MOST: u64 = 48 << 20;

/// A process at a call.
struct AtCall {
    number: u64,
    args: [u64; 6],
    memory: Vec<(u64, Vec<u8>)>,
}

/// What a process is known for.
#[derive(Default)]
struct Process {
    at: Option<AtCall>,
    /// It has memory with others, who write to it at any time.
    shares: bool,
}

/// Memory that a process can write to, by itself alone.
fn writable(pid: Pid) -> Result<Vec<Range<u64>>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let mut found = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw") && line.contains("p ")) {
        let range = line.split(' ').next().and_then(|range| range.split_once('-')).context("no range")?;
        found.push(u64::from_str_radix(range.0, 16)?..u64::from_str_radix(range.1, 16)?);
    }
    Ok(found)
}

fn read(pid: Pid) -> Result<Vec<(u64, Vec<u8>)>> {
    let ranges = writable(pid)?;
    if ranges.iter().map(|range| range.end - range.start).sum::<u64>() > MOST {
        return Ok(Vec::new());
    }
    let file = File::open(format!("/proc/{pid}/mem"))?;
    let mut memory = Vec::new();
    for range in ranges {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        // What has no pages that can be read is left out.
        if file.read_exact_at(&mut bytes, range.start).is_ok() {
            memory.push((range.start, bytes));
        }
    }
    Ok(memory)
}

/// The ranges of bytes that differ.
fn changed(before: &[(u64, Vec<u8>)], after: &[(u64, Vec<u8>)]) -> Vec<Range<u64>> {
    let after: HashMap<u64, &Vec<u8>> = after.iter().map(|(at, bytes)| (*at, bytes)).collect();
    let mut found: Vec<Range<u64>> = Vec::new();
    for (start, old) in before {
        let Some(new) = after.get(start) else { continue };
        if old == *new {
            continue;
        }
        for (at, _) in (*start..).zip(old.iter().zip(new.iter())).filter(|(_, (old, new))| old != new) {
            match found.last_mut() {
                Some(last) if last.end == at => last.end += 1,
                _ => found.push(at..at + 1),
            }
        }
    }
    found
}

/// What the kernel has written of which the table does not speak; `bytes` counts all that it has.
fn unsaid(pid: Pid, at: &AtCall, result: i64, bytes: &mut u64) -> Result<Option<Vec<Range<u64>>>> {
    let AtCall { number, args, memory } = at;
    let file = File::open(format!("/proc/{pid}/mem"))?;
    let word = |at: u64| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, at).map_or(0, |()| u64::from_le_bytes(bytes))
    };
    let Some(call) = of(*number) else { return Ok(None) };
    let said = match *number {
        16 => ioctl(IOCTLS, args[1]).map(|bytes| vec![(args[2], bytes)]),
        _ => written(call, args, result, &word),
    };
    let Some(said) = said else { return Ok(None) };
    let mut found = changed(memory, &read(pid)?);
    *bytes += found.iter().map(|range| range.end - range.start).sum::<u64>();
    found.retain(|range| {
        let is_said = |at: u64| said.iter().any(|(start, len)| at.wrapping_sub(*start) < *len);
        !(range.start..range.end).all(is_said)
    });
    Ok(Some(found))
}

/// Runs a program to its end, with all that it starts; returns what was written unsaid, and the calls of which the table knows nothing.
fn watch(command: &mut std::process::Command) -> Result<(BTreeMap<String, usize>, BTreeSet<u64>)> {
    // SAFETY: a system call alone, in a child that executes.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    let first = Pid::from_raw(command.spawn()?.id().cast_signed());
    waitpid(first, None)?;
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_EXITKILL
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXEC;
    ptrace::setoptions(first, options)?;
    let mut processes: HashMap<Pid, Process> = HashMap::from([(first, Process::default())]);
    let (mut wrong, mut unknown, mut bytes) = (BTreeMap::new(), BTreeSet::new(), 0);
    let mut early = HashSet::new();
    ptrace::syscall(first, None)?;
    while let Ok(status) = waitpid(Pid::from_raw(-1), Some(WaitPidFlag::__WALL)) {
        let mut signal = None;
        let Some(pid) = status.pid() else { continue };
        // What a new one shares is known once its parent has told of it: until then, it waits.
        if !processes.contains_key(&pid) && matches!(status, WaitStatus::Stopped(_, Signal::SIGSTOP)) {
            early.insert(pid);
            continue;
        }
        let process = processes.entry(pid).or_default();
        match status {
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => {
                processes.remove(&pid);
                continue;
            }
            WaitStatus::PtraceSyscall(_) => {
                let Ok(regs) = ptrace::getregs(pid) else { continue };
                let number = regs.orig_rax;
                match process.at.take() {
                    None => {
                        let args = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
                        let is_compared = !process.shares && !OTHERWISE.contains(&number);
                        let memory = if is_compared { read(pid)? } else { Vec::new() };
                        process.at = Some(AtCall { number, args, memory });
                    }
                    Some(at) if !at.memory.is_empty() && !process.shares => {
                        match unsaid(pid, &at, regs.rax.cast_signed(), &mut bytes)? {
                            None => drop(unknown.insert(at.number)),
                            Some(ranges) => {
                                for range in ranges {
                                    let which = at.args.iter().position(|arg| range.start.wrapping_sub(*arg) < 1 << 16);
                                    let place = which.map_or_else(
                                        || "elsewhere".to_owned(),
                                        |arg| {
                                            format!("{} behind argument {arg}", range.start.wrapping_sub(at.args[arg]))
                                        },
                                    );
                                    let (name, bytes) =
                                        (of(at.number).map_or("?", |call| call.name), range.end - range.start);
                                    let what = format!(
                                        "{name}({:x?}) = {}: {bytes} bytes {place}",
                                        at.args,
                                        regs.rax.cast_signed()
                                    );
                                    *wrong.entry(what).or_default() += 1;
                                }
                            }
                        }
                    }
                    Some(_) => {}
                }
            }
            WaitStatus::PtraceEvent(_, _, event) => {
                let is_clone = event == Event::PTRACE_EVENT_CLONE as i32;
                if event == Event::PTRACE_EVENT_EXEC as i32 {
                    process.shares = false;
                } else if let Ok(child) = ptrace::getevent(pid) {
                    // A thread, or a child that has its parent's memory until it executes; the parent waits meanwhile.
                    process.shares |= is_clone;
                    let child = Pid::from_raw(child as i32);
                    let shares = is_clone || event == Event::PTRACE_EVENT_VFORK as i32;
                    processes.insert(child, Process { at: None, shares });
                    if early.remove(&child) {
                        let _ = ptrace::syscall(child, None);
                    }
                }
            }
            WaitStatus::Stopped(_, Signal::SIGSTOP | Signal::SIGTRAP) => {}
            WaitStatus::Stopped(_, other) => signal = Some(other),
            _ => {}
        }
        // One that is gone by now is none of our business.
        let _ = ptrace::syscall(pid, signal);
    }
    ensure!(bytes > 0, "the kernel has written nothing, in all calls together");
    Ok((wrong, unknown))
}

fn check(name: &str, script: &str) -> Result<()> {
    let workshop = Workshop::new(&format!("kernel-writes-{name}"))?;
    let folder = workshop.folder("here")?;
    if let Some((_, source)) = OWN.iter().find(|(own, _)| *own == name) {
        let source = fs::read_to_string(source_tree().join("tests/programs").join(source))?;
        compile(
            &["gcc", "-O1", "-D_GNU_SOURCE", "-I", source_tree().join("tests/programs").to_str().context("a path")?],
            &source,
            &folder.join(name),
        )?;
    }
    let mut command = Job::new(&folder, ["/bin/bash", "-c", script]).native()?;
    // The kernel writes to that of libc's at its own times.
    command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    let output = File::create(workshop.path.join("output"))?;
    command.stdout(output.try_clone()?).stderr(output);
    let (wrong, unknown) = watch(&mut command)?;
    if !wrong.is_empty() {
        let list: String = wrong.iter().take(40).map(|(what, times)| format!("  {times}x {what}\n")).collect();
        bail!("the kernel wrote what the table does not say:\n{list}");
    }
    let printed = fs::metadata(workshop.path.join("output"))?.len();
    ensure!(printed > 0 || OWN.iter().any(|(own, _)| *own == name), "it has printed nothing");
    eprintln!("calls of which the table knows nothing: {unknown:?}");
    workshop.done()
}

/// The tests.
///
/// # Errors
/// None.
pub fn trials() -> Result<Vec<Trial>> {
    let trial = |(name, script): (&'static str, &'static str)| {
        Trial::test(name, move || check(name, script).map_err(|e| Failed::from(format!("{e:?}"))))
    };
    Ok(PROGRAMS.into_iter().map(trial).collect())
}
