//! Signals that a thread sends to itself or its process, also in a signal handler.

/// `si_code` of `tgkill`.
pub const SI_TKILL: i32 = -6;

/// A system call in a signal handler, which has no thread-local storage for an error number.
///
/// # Safety
/// As for the system call.
pub unsafe fn raw_syscall(number: i64, args: [u64; 5]) -> i64 {
    let result;
    // SAFETY: the caller's promise; the kernel changes these registers only.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Sends the calling thread a signal with this description; for a signal handler.
///
/// # Safety
/// The description is one of the kernel's.
pub unsafe fn send_to_this_thread(signal: i32, info: *const i32) -> i64 {
    // SAFETY: ask for numbers; the description is the caller's promise.
    unsafe {
        let (pid, tid) = (raw_syscall(libc::SYS_getpid, [0; 5]), raw_syscall(libc::SYS_gettid, [0; 5]));
        raw_syscall(libc::SYS_rt_tgsigqueueinfo, [pid as u64, tid as u64, signal as u64, info as u64, 0])
    }
}

/// The same for the calling process.
///
/// # Safety
/// As there.
pub unsafe fn send_to_this_process(signal: i32, info: *const i32) -> i64 {
    // SAFETY: as there.
    unsafe {
        // By the thread's id: the kernel takes the description of another sender only from a process that sends to the id of its own
        // thread, and the signal is for the process all the same.
        let tid = raw_syscall(libc::SYS_gettid, [0; 5]);
        raw_syscall(libc::SYS_rt_sigqueueinfo, [tid as u64, signal as u64, info as u64, 0, 0])
    }
}

/// Sends the calling thread a signal, as `tgkill` does.
pub fn send_plain(signal: i32) {
    // SAFETY: ask for a number, and send a signal.
    unsafe {
        let pid = raw_syscall(libc::SYS_getpid, [0; 5]);
        raw_syscall(libc::SYS_tgkill, [pid as u64, this_thread().into(), signal as u64, 0, 0]);
    }
}

/// The calling thread's id.
pub fn this_thread() -> u32 {
    // SAFETY: asks for a number.
    unsafe { raw_syscall(libc::SYS_gettid, [0; 5]) as u32 }
}
