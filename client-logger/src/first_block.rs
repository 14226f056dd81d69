//! The first block of a program of which nothing is recorded: what is the recorder's is hidden from it all the same.

use crate::environment;
use crate::fs_base::Guard;
use crate::process;
use crate::signals;
use crate::thread;
use crate::timers;
use bugnet_dr::ir::{Block, Gpr, Instr};
use bugnet_dr::{context, sys};

/// Calls out before the block's first instruction.
pub fn insert(block: &Block, first: Option<Instr>) {
    block.clean_call(first, begin, std::ptr::null());
}

/// The program is about to execute its first instruction.
unsafe extern "C" fn begin(_nothing: *const ()) {
    let _own = Guard::new();
    let Some(machine) = context::current() else { return };
    if !process::get().takes_first_instruction() {
        return;
    }
    signals::begin();
    timers::begin();
    environment::hide(context::register_file(&machine).gpr[usize::from(Gpr::RSP.0)]);
    // SAFETY: asks for the calling thread's context.
    if let Some(thread) = thread::of(unsafe { sys::dr_get_current_drcontext() }) {
        thread.mask.apply();
    }
}
