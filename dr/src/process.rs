//! The process: its modules, how it ends, and what it says.

use crate::sys;
use std::ffi::{CStr, CString, c_void};
use std::ops::Range;

/// The version of DynamoRIO's interface that the clients are built against.
pub const VERSION: i32 = sys::_USES_DR_VERSION_;

/// An ELF file that is mapped.
pub struct Module {
    /// Where.
    pub range: Range<u64>,
    /// The address of its first instruction.
    pub entry: u64,
    /// Its path; `None` where DynamoRIO knows none.
    pub path: Option<CString>,
}

impl Module {
    /// # Safety
    /// Null or a description of DynamoRIO's.
    pub(crate) unsafe fn of(data: *const sys::module_data_t) -> Option<Self> {
        // SAFETY: the caller's promise; the union's members are one address.
        unsafe {
            let data = data.as_ref()?;
            let path = (!data.full_path.is_null()).then(|| CStr::from_ptr(data.full_path).to_owned());
            let start = data.__bindgen_anon_1.start as u64;
            Some(Self { range: start..data.end as u64, entry: data.entry_point as u64, path })
        }
    }

    /// # Safety
    /// Null or a copy that DynamoRIO has made, which is freed.
    unsafe fn take(data: *mut sys::module_data_t) -> Option<Self> {
        // SAFETY: the caller's promise.
        unsafe {
            let module = Self::of(data);
            if !data.is_null() {
                sys::dr_free_module_data(data);
            }
            module
        }
    }
}

/// The program's.
#[must_use]
pub fn main_module() -> Option<Module> {
    // SAFETY: a copy.
    unsafe { Module::take(sys::dr_get_main_module()) }
}

/// The one in which an address is.
#[must_use]
pub fn module_at(address: u64) -> Option<Module> {
    // SAFETY: asks about an address; a copy.
    unsafe { Module::take(sys::dr_lookup_module(address as *mut u8)) }
}

/// The id of the thread that a context of DynamoRIO's is of.
///
/// # Safety
/// It is one.
#[must_use]
pub unsafe fn thread_id(context: *mut c_void) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { sys::dr_get_thread_id(context) as u32 }
}

/// Ends the process at once, from any state, with this status.
pub fn abort(status: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { sys::dr_abort_with_code(status) };
    std::process::abort()
}

/// Writes to DynamoRIO's standard error, whose descriptor the program cannot close.
pub fn say(text: &str) {
    // SAFETY: DynamoRIO's own descriptor, and a buffer of the given length.
    unsafe { sys::dr_write_file(sys::dr_stderr(), text.as_ptr().cast(), text.len()) };
}

/// Sets a client's interval timer to nothing, for which DynamoRIO puts the program's to what it was when it last looked.
pub fn restore_timer(which: i32) {
    // SAFETY: a client's timer without an interval and a function is none.
    unsafe { sys::dr_set_itimer(which, 0, None) };
}
