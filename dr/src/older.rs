//! What Rust's library, and the unwinder, ask of libc in the clients, and of which older versions have nothing, or have it in another library: glibc 2.31,
//! Debian 11's, has threads' keys in libpthread alone. DynamoRIO's loader does not look there, and ends the program at the first call.

use std::ffi::{c_char, c_int, c_void};

/// In place of libc's function (since 2.35): nothing is known about any code. The clients are never unwound; a panic ends them.
#[unsafe(no_mangle)]
extern "C" fn _dl_find_object(_address: *mut c_void, _result: *mut c_void) -> c_int {
    -1
}

/// In place of libc's functions (since 2.34): Rust's library takes a key for what is to be done when a thread ends. No thread ends in libc's way in a
/// client, so that nothing is ever done. Those of a test do.
#[cfg(not(test))]
mod keys {
    use std::ffi::{c_int, c_uint, c_void};
    use std::sync::atomic::{AtomicU32, Ordering};

    #[unsafe(no_mangle)]
    unsafe extern "C" fn pthread_key_create(key: *mut c_uint, _destructor: *mut c_void) -> c_int {
        static LAST: AtomicU32 = AtomicU32::new(0);
        // SAFETY: the caller has room for a key there.
        unsafe { key.write(LAST.fetch_add(1, Ordering::Relaxed) + 1) };
        0
    }

    #[unsafe(no_mangle)]
    extern "C" fn pthread_key_delete(_key: c_uint) -> c_int {
        0
    }

    /// Nobody asks for a thread's value.
    #[unsafe(no_mangle)]
    extern "C" fn pthread_setspecific(_key: c_uint, _value: *const c_void) -> c_int {
        0
    }
}

/// In place of libc's function (since 2.33), as are the next ones.
#[unsafe(no_mangle)]
unsafe extern "C" fn stat64(path: *const c_char, found: *mut libc::stat64) -> c_int {
    // SAFETY: the caller's promises are those of the kernel, and the structure is.
    unsafe { libc::syscall(libc::SYS_newfstatat, libc::AT_FDCWD, path, found, 0) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn lstat64(path: *const c_char, found: *mut libc::stat64) -> c_int {
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_newfstatat, libc::AT_FDCWD, path, found, libc::AT_SYMLINK_NOFOLLOW) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fstat64(descriptor: c_int, found: *mut libc::stat64) -> c_int {
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_fstat, descriptor, found) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fstat(descriptor: c_int, found: *mut libc::stat) -> c_int {
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_fstat, descriptor, found) as c_int }
}
