//! What becomes of a thread in which the recorder itself fails: a panic, memory that there is none of, what cannot be.
//!
//! Nothing is unwound in a client of DynamoRIO's. So all that DynamoRIO and the code cache call has a *refuge*: where the recorder fails in
//! there, the thread says so, drops nothing, and goes on as if that had returned. Locks that it held are [taken over](crate::base::lock).
//! Nothing of the process is recorded from there on, and what the recorder knows may be half of what it was about to know.
//!
//! Panics, failed allocations and what else makes Rust give up all end in `abort`, which is ours.

use crate::base::lock::{self, Mutex};
use crate::base::slots::Slot;
use std::arch::naked_asm;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Where a thread goes on.
#[repr(C)]
struct Refuge {
    /// Its stack pointer there, set on the way in.
    stack: u64,
    /// The one before.
    before: *mut Self,
}

/// The refuge of the first thread, before there are thread-local slots.
static EARLY: AtomicPtr<Refuge> = AtomicPtr::new(std::ptr::null_mut());
/// What is done about a failure: it is told what has failed.
static ON_FAILURE: OnceLock<fn(&str)> = OnceLock::new();
/// What panics have said, and in which threads, until these give up.
static SAID: Mutex<Vec<(i32, String)>> = Mutex::new(Vec::new());

/// From here on, `on_failure` is told what has failed.
pub fn start(on_failure: fn(&str)) {
    let _ = ON_FAILURE.set(on_failure);
    std::panic::set_hook(Box::new(|info| {
        let said = info.to_string().replace('\n', " ");
        SAID.lock().push((thread(), said));
    }));
}

/// The calling thread's id.
fn thread() -> i32 {
    // SAFETY: asks for a number.
    unsafe { libc::gettid() }
}

fn refuge() -> *mut Refuge {
    if Slot::are_there() { Slot::Refuge.read() as *mut Refuge } else { EARLY.load(Ordering::Relaxed) }
}

fn set_refuge(refuge: *mut Refuge) {
    if Slot::are_there() {
        // SAFETY: the calling thread's own slot, which only this module uses.
        unsafe { Slot::Refuge.write(refuge as u64) };
    } else {
        EARLY.store(refuge, Ordering::Relaxed);
    }
}

/// Calls a function with an argument. Returns 0 behind it, or 1 where [`flee`] has led here instead.
#[unsafe(naked)]
unsafe extern "C" fn enter(
    refuge: *mut Refuge,
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
) -> u64 {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "mov [rdi], rsp",
        "mov rdi, rdx",
        "call rsi",
        "xor eax, eax",
        "jmp {leave}",
        leave = sym leave_frame,
    )
}

/// How [`enter`] returns.
#[unsafe(naked)]
unsafe extern "C" fn leave_frame() {
    naked_asm!("add rsp, 8", "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx", "ret",)
}

/// Goes on where [`enter`] has been called with a refuge.
#[unsafe(naked)]
unsafe extern "C" fn flee(refuge: *mut Refuge) -> ! {
    naked_asm!(
        "mov rsp, [rdi]",
        "mov eax, 1",
        "cld",
        "jmp {leave}",
        leave = sym leave_frame,
    )
}

/// A function to call, and what it returns.
struct Call<T, F> {
    function: Option<F>,
    result: MaybeUninit<T>,
}

unsafe extern "C" fn call<T, F: FnOnce() -> T>(argument: *mut c_void) {
    // SAFETY: `attempt` has made it.
    let call = unsafe { &mut *argument.cast::<Call<T, F>>() };
    if let Some(function) = call.function.take() {
        call.result.write(function());
    }
}

/// What a function returns; `None` if the recorder fails in it, whose values are then there for ever.
pub fn attempt<T, F: FnOnce() -> T>(function: F) -> Option<T> {
    let before = refuge();
    let mut own = Refuge { stack: 0, before };
    let mut argument = Call { function: Some(function), result: MaybeUninit::uninit() };
    set_refuge(&raw mut own);
    // SAFETY: the function gets what it expects, which lives as long as the call. Where it is left for good, nothing refers to what
    // lies on its part of the stack but locks, which are taken over.
    let fled = unsafe { enter(&raw mut own, call::<T, F>, (&raw mut argument).cast()) };
    set_refuge(before);
    // SAFETY: the function has returned, and its result been written.
    (fled == 0).then(|| unsafe { argument.result.assume_init() })
}

/// The recorder cannot go on, and says why: the thread goes on where it can.
pub fn fail(why: &str) -> ! {
    lock::let_go();
    let refuge = refuge();
    let told = attempt(|| ON_FAILURE.get().map(|on_failure| on_failure(why)));
    if told.flatten().is_none() {
        bugnet_dr::process::say(&format!("bugnet: {why}\n"));
    }
    if !refuge.is_null() {
        // SAFETY: a refuge of the calling thread, in a frame that has not been left.
        unsafe {
            set_refuge((*refuge).before);
            flee(refuge)
        }
    }
    bugnet_dr::process::abort(125)
}

/// In place of libc's function, in which everything ends by which Rust gives up.
#[cfg(not(test))]
#[unsafe(no_mangle)]
extern "C" fn abort() -> ! {
    let mut all = SAID.lock();
    let said = all.iter().position(|(of, _)| *of == thread()).map(|place| all.swap_remove(place).1);
    drop(all);
    let what = said.unwrap_or_else(|| "it gave up, as where there is no memory left".into());
    fail(&format!("the recorder failed, which is a defect of bugnet: {what}"))
}

/// The calling thread leaves its refuges for good, and goes on with the program.
pub fn leave() {
    set_refuge(std::ptr::null_mut());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_fails_goes_on_in_its_innermost_refuge() {
        // DynamoRIO may not be there yet to say it.
        let _ = ON_FAILURE.set(|_| ());
        let after = |depth: u32| {
            fn fails(depth: u32) {
                if depth == 0 {
                    fail("on purpose");
                }
                fails(std::hint::black_box(depth - 1));
            }
            attempt(|| fails(depth)).is_none()
        };
        let outer = attempt(|| {
            let failed = [after(0), after(100)];
            (failed, attempt(|| "not at all"))
        });
        assert_eq!(outer, Some(([true, true], Some("not at all"))));
    }
}
