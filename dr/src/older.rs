//! What the unwinder asks of libc, which versions before 2.35 lack, and of which DynamoRIO's loader complains then.

use std::ffi::{c_int, c_void};

/// In place of libc's function: nothing is known about any code. The clients are never unwound; a panic ends them.
#[unsafe(no_mangle)]
extern "C" fn _dl_find_object(_address: *mut c_void, _result: *mut c_void) -> c_int {
    -1
}
