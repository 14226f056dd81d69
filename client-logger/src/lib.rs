//! The DynamoRIO client that records a program.
//!
//! | module | what it does |
//! |---|---|
//! | `instrument` | rewrites a block: counts, checks loads, mirrors stores |
//! | `shadow` | the picture of the replayer's memory, a shadow of the address space |
//! | `density` | where first loads crowd |
//! | `fs_base` | the FS base, which leads to the shadow |
//! | `callout` | from the code cache into Rust and back |
//! | `pages` | memory of threads that comes straight from the system
//! | `stack_move` | moves the initial stack |
//! | `apart` | slow paths that lie apart from their blocks |
//! | `counter` | instructions until the next threshold, in several counters |
//! | `by_rip` | blocks that run often address slots relative to RIP |
//! | `site` | what a callout is about |
//! | `kept` | what blocks point to, as long as they can be executed |
//! | `thread` | a thread's position, interval and log |
//! | `writer` | interval files, frames, the tail |
//! | `code` | the code picture and the code store |
//! | `stack` | the stack's protection |
//! | `shared_code` | code that may change without a store to its address |
//! | `writable_code` | code that the program may write to |
//! | `coherence` | which thread may access what, and what that orders it behind |
//! | `peer` | what a thread shows to the others |
//! | `epochs` | all threads end their intervals together |
//! | `waiting` | how a thread waits for another one |
//! | `chaos` | perturbs when threads run |
//! | `births` | what parents had done when they created threads |
//! | `branches` | indirect branches, which may lead nowhere |
//! | `special` | CPUID, RDTSC and their like |
//! | `streams` | descriptors that are the recording's standard output and error |
//! | `limits` | resource limits of which the recorder needs more than the program may have |
//! | `descriptor_limit` | how many descriptors the program may have |
//! | `memory_limit` | how much memory the program may have |
//! | `substitute` | system calls that the kernel gets in another form |
//! | `answers` | system calls that are answered in the kernel's place |
//! | `syscall` | system calls, output streams |
//! | `retry` | waits that DynamoRIO has interrupted |
//! | `leave` | leaves the code cache now and then, for signals |
//! | `signals` | the program's signal masks and dispositions, made true in the kernel |
//! | `fault` | faults of the program, faults of the shadow, death by a signal |
//! | `snapshot` | memory as it is at the end of the process |
//! | `process` | what all threads share |
//! | `protections` | what the program may do with its code |
//! | `origin` | how a process began, its folder |
//! | `exec` | programs that take this one's place |
//! | `capabilities` | what the process may do beyond what its user may |
//! | `environment` | hides the recorder's own variables |
//! | `maps` | what is mapped where |
//! | `modules` | the list of mapped ELF files |
//! | `file_size_limit` | how large files may become |
//! | `files` | small files of the log |
//! | `lending` | forks and children of `vfork`, which DynamoRIO cannot have at the same time |
//! | `options` | the client's options |

mod answers;
mod apart;
mod births;
mod borrowers;
mod branches;
mod by_rip;
mod callout;
mod capabilities;
mod chaos;
mod claims;
mod code;
mod coherence;
mod counter;
mod density;
mod descriptor_limit;
mod descriptor_list;
mod environment;
mod epochs;
mod exchange;
mod exec;
mod fault;
mod file_size_limit;
mod files;
mod fs_base;
mod instrument;
mod kept;
mod leave;
mod lending;
mod limits;
mod made_ahead;
mod mapping_limit;
mod maps;
mod memory_limit;
mod modules;
mod options;
mod origin;
mod pages;
mod peer;
mod process;
mod program_break;
mod protections;
mod retry;
mod shadow;
mod shared_code;
mod signals;
mod site;
mod snapshot;
mod special;
mod stack;
mod stack_move;
mod streams;
mod stuck;
mod substitute;
mod syscall;
mod thread;
mod timers;
mod waiting;
mod writable_code;
mod writer;

use bugnet_dr::sys;
use fs_base::Guard;
use std::ffi::{CStr, c_char, c_int, c_void};

/// The version of DynamoRIO's interface that this client was built against; DynamoRIO looks the symbol up.
#[unsafe(no_mangle)]
pub static _USES_DR_VERSION_: c_int = sys::_USES_DR_VERSION_;

/// Prints to standard error through DynamoRIO, whose descriptor the program cannot close.
pub(crate) fn warn(message: &str) {
    let text = format!("bugnet: {message}\n");
    // SAFETY: DynamoRIO's own standard error, and a buffer of the given length.
    unsafe { sys::dr_write_file(sys::dr_stderr(), text.as_ptr().cast(), text.len()) };
}

/// Ends the process: the recorder itself is broken, and going on would record something wrong.
pub(crate) fn die(message: &str) -> ! {
    warn(message);
    // SAFETY: ends the process.
    unsafe { sys::dr_abort_with_code(125) };
    std::process::abort()
}

/// DynamoRIO's entry point into the client.
///
/// # Safety
/// Called by DynamoRIO, once, with an argument vector of `argc` strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dr_client_main(_id: sys::client_id_t, argc: c_int, argv: *const *const c_char) {
    std::panic::set_hook(Box::new(|info| {
        die(&format!("the logger failed, this is a defect of bugnet: {info}"));
    }));
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
    process::start(options);
    stack::protect();
    callout::start();
    // SAFETY: the functions have the signatures that the events ask for, and live as long as the process.
    unsafe {
        sys::dr_register_thread_init_event(Some(on_thread_start));
        sys::dr_register_thread_exit_event(Some(on_thread_exit));
        sys::dr_register_exit_event(Some(on_exit));
        sys::dr_register_fork_init_event(Some(on_fork));
        sys::dr_register_bb_event(Some(instrument::on_block));
        sys::dr_register_delete_event(Some(kept::on_delete));
        sys::dr_register_restore_state_ex_event(Some(fault::on_restore_state));
        sys::dr_register_signal_event(Some(fault::on_signal));
        sys::dr_register_filter_syscall_event(Some(syscall::on_filter));
        sys::dr_register_pre_syscall_event(Some(syscall::on_before));
        sys::dr_register_post_syscall_event(Some(syscall::on_after));
        sys::dr_register_module_load_event(Some(modules::on_load));
        sys::dr_register_kernel_xfer_event(Some(fault::on_kernel_transfer));
    }
}

unsafe extern "C" fn on_thread_start(context: *mut c_void) {
    thread::Thread::start(context);
    fs_base::leave_client();
}

unsafe extern "C" fn on_thread_exit(context: *mut c_void) {
    let _own = Guard::new();
    thread::Thread::exit(context);
}

unsafe extern "C" fn on_fork(context: *mut c_void) {
    let _own = Guard::new();
    lending::forget();
    thread::Thread::forked(context);
}

unsafe extern "C" fn on_exit() {
    let _own = Guard::new();
    process::finish();
}
