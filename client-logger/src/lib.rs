//! The DynamoRIO client that records a program.
//!
//! Its modules are on floors, and import from those below their own only (`floors`, a test, sees to that):
//!
//! | floor | what is there |
//! |---|---|
//! | `calls` | the system calls that the program makes |
//! | `run` | what runs: threads, callouts, signals, faults, processes |
//! | `kernel` | what the program asks of the kernel and gets otherwise: descriptors, limits, its break |
//! | `emitted` | what is emitted: blocks, checks, machine code |
//! | `picture` | the picture of the replayer's memory: shadow, permissions, coherence |
//! | `log` | interval files and tails, the code store, whether anything is recorded |
//! | `base` | what all of these stand on |
//!
//! Each folder's `mod.rs` says what its modules are about. Here, at the top, DynamoRIO's events are led to them.

mod base;
mod calls;
mod emitted;
#[cfg(test)]
mod floors;
mod kernel;
mod log;
mod picture;
mod run;

use base::failure::{self, attempt};
use base::fs_base::Guard;
use base::{die, maps, options, slots};
use bugnet_dr::events::{Bool, Events, Loaded};
use bugnet_dr::process::VERSION;
use calls::{helper, syscall};
use emitted::reclaim;
use kernel::{executing, lending, turns};
use log::{modules, recording};
use picture::stack;
use run::parts::chaos;
use run::{blocks, fault, lifetime, signals, thread};
use std::ffi::{CStr, c_char, c_int, c_void};

/// The version of DynamoRIO's interface that this client was built against; DynamoRIO looks the symbol up.
#[unsafe(no_mangle)]
pub static _USES_DR_VERSION_: c_int = VERSION;

/// DynamoRIO's entry point into the client.
///
/// # Safety
/// Called by DynamoRIO, once, with an argument vector of `argc` strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dr_client_main(_id: u32, argc: c_int, argv: *const *const c_char) {
    failure::start(recording::end);
    let args: Vec<String> = (0..argc as usize)
        // SAFETY: DynamoRIO hands over `argc` strings.
        .map(|i| unsafe { CStr::from_ptr(*argv.add(i)) }.to_string_lossy().into_owned())
        .collect();
    let options = match options::Options::parse(&args[1..]) {
        Ok(options) => options,
        Err(why) => die(&why),
    };
    maps::start();
    signals::start();
    if let Some(path) = &options.expand
        && let Err(why) = base::light::start(path)
    {
        die(&why);
    }
    syscall::answer_by((syscall::expand::before, syscall::expand::after_call));
    lifetime::start(options);
    stack::protect();
    slots::start();
    let events = Events {
        thread_start: Some(on_thread_start),
        thread_end: Some(on_thread_exit),
        exit: Some(on_exit),
        fork: Some(on_fork),
        block: Some(blocks::on_block),
        block_deleted: Some(reclaim::on_delete),
        restore: Some(fault::on_restore_state),
        signal: Some(fault::on_signal),
        call_filter: Some(syscall::on_filter),
        before_call: Some(syscall::on_before),
        after_call: Some(syscall::on_after),
        module: Some(on_module_load),
        transfer: Some(fault::handlers::on_kernel_transfer),
    };
    // SAFETY: in the client's entry.
    unsafe { events.register() };
}

unsafe extern "C" fn on_thread_start(context: *mut c_void) {
    let start = || thread::Thread::start(context);
    // Where nothing is recorded, a thread needs less.
    if attempt(start).or_else(|| attempt(start)).is_none() {
        die("there is no room for another thread");
    }
    base::fs_base::leave_client();
}

unsafe extern "C" fn on_thread_exit(context: *mut c_void) {
    let _own = Guard::new();
    // SAFETY: in the event.
    attempt(|| unsafe { thread::Thread::exit(context) });
}

unsafe extern "C" fn on_fork(context: *mut c_void) {
    let _own = Guard::new();
    // SAFETY: in the event.
    let forked = attempt(|| unsafe {
        lending::forget();
        executing::forget();
        turns::forget();
        helper::look();
        thread::Thread::forked(context);
    });
    if forked.is_none() {
        // SAFETY: in the event.
        attempt(|| unsafe { thread::Thread::leave_parents_log(context) });
    }
}

unsafe extern "C" fn on_module_load(_context: *mut c_void, found: *const Loaded, _loaded: Bool) {
    let _own = Guard::new();
    attempt(|| {
        // SAFETY: the event's description.
        let module = unsafe { &*found }.module();
        if let Some((path, range)) = modules::add(module) {
            chaos::note_library(&path, range);
        }
    });
}

unsafe extern "C" fn on_exit() {
    let _own = Guard::new();
    attempt(lifetime::finish);
}
