//! The process in which an interval is replayed: makes room for the recorded program, then becomes DynamoRIO.
//!
//! `replay-host [window=HEX] LIBDYNAMORIO CLIENT [CLIENT OPTIONS]`
//!
//! A recorded program may have had something at every address that the kernel hands out, so nothing of ours may stay
//! there. This program moves itself into a *window* of the address space ([`layout`]): it maps `libdynamorio.so` there
//! ([`image`]), builds the stack that the kernel would have built ([`stack`]), unmaps and reserves everything outside
//! ([`depart`]), and jumps to DynamoRIO's entry. From then on whatever DynamoRIO or the client maps falls into the
//! window, for lack of any other free address.
//!
//! DynamoRIO then runs an application: this same file, to which an empty argument vector says so (the kernel never
//! makes one). It consists of the *gate*, an instruction at a fixed distance from the entry point, at which the client
//! takes over.
#![no_std]
#![no_main]

mod builtins;
mod depart;
mod image;
mod kernel;
mod layout;
mod relocate;
mod report;
mod stack;

use core::arch::global_asm;
use core::ffi::CStr;
use core::fmt::Write;
use layout::Layout;
use report::{Failure, Text};

// The entry point, and the gate right behind it, which the client knows to be at +2.
global_asm!(
    ".globl _start",
    ".type _start, @function",
    "_start:",
    "jmp 2f", // 2 bytes
    "3:",
    "ud2",
    "2:",
    "cmp qword ptr [rsp], 0",
    "je 3b",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {main}",
    "ud2",
    main = sym main,
);

/// Sets everything up; ends in DynamoRIO, or with a message and exit status 127.
///
/// # Safety
/// `initial` is the stack as the kernel built it.
unsafe extern "C" fn main(initial: *const usize) -> ! {
    relocate::relocate();
    // SAFETY: the caller's promise is the same.
    let kernel = unsafe { stack::Kernel::new(initial) };
    match run(&kernel) {
        Ok(never) => match never {},
        Err(failure) => failure.exit(),
    }
}

fn run(kernel: &stack::Kernel) -> Result<core::convert::Infallible, Failure> {
    let mut args = kernel.args().skip(1).peekable();
    let window = match args.peek().and_then(|arg| arg.to_bytes().strip_prefix(b"window=")) {
        Some(hex) => {
            let window = layout::parse_window(hex)?;
            args.next();
            window
        }
        None => layout::DEFAULT_WINDOW,
    };
    let layout = Layout::new(window);
    let (Some(library), Some(client)) = (args.next(), args.next()) else {
        return Err(Failure::new("usage: replay-host [window=HEX] LIBDYNAMORIO CLIENT [CLIENT OPTIONS]", 0));
    };
    let options = options(&layout, client, args)?;
    let entry = image::map(library, layout.library)?;
    let stack_pointer = stack::build(&layout, kernel, &options)?;
    depart::depart(&layout, entry, stack_pointer)
}

/// What DynamoRIO reads from `DYNAMORIO_OPTIONS`.
///
/// * `-stack_size`, `-signal_stack_size`: the client's code runs on DynamoRIO's stacks.
/// * `-max_bb_instrs`: keeps what is in front of the next look at the count short.
/// * `-disable_traces`: traces take longer to make than they save, and the client jumps into blocks.
/// * `-private_bb_ibl_targets_init`, `-private_bb_ibl_targets_load`: as for recording.
/// * `-heap_commit_increment`, `-cache_commit_increment`, `-protect_mask`, `-no_guard_pages`: as for recording; what a process has of mappings, its copies
///   have to have, too.
/// * `-thread_private`: there is one thread; blocks can be deleted one by one.
/// * `-no_finite_bb_cache`: no block leaves the code cache for want of room.
/// * `-no_follow_children`, `-no_multi_thread_exit`: there is one process and one thread.
fn options<'a>(layout: &Layout, client: &CStr, rest: impl Iterator<Item = &'a CStr>) -> Result<Text, Failure> {
    let mut text = Text::new();
    let client = core::str::from_utf8(client.to_bytes()).map_err(|_| Failure::new("client's path is not UTF-8", 0))?;
    let overflow = |_| Failure::new("arguments too long", 0);
    write!(
        text,
        "DYNAMORIO_OPTIONS=-code_api -stack_size 256K -signal_stack_size 128K -disable_traces -thread_private -no_finite_bb_cache -separate_private_stubs -max_bb_instrs 128 \
         -private_bb_ibl_targets_init 10 -private_bb_ibl_targets_load 20 \
         -protect_mask 0 -no_guard_pages -heap_commit_increment 64K -cache_commit_increment 64K \
         -no_follow_children -no_vm_base_near_app -vm_base {:#x} -client_lib '{client};0;window={:#x}",
        layout.heap, layout.window,
    )
    .map_err(overflow)?;
    for arg in rest {
        let arg = core::str::from_utf8(arg.to_bytes()).map_err(|_| Failure::new("option is not UTF-8", 0))?;
        write!(text, " {arg}").map_err(overflow)?;
    }
    text.write_str("'").map_err(overflow)?;
    Ok(text)
}
