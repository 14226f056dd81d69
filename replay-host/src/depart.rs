//! The last steps: they run from a page in the window, since they unmap this program.

use crate::kernel::{MAP_FIXED_NOREPLACE, PROT_EXEC, PROT_READ, PROT_WRITE, map_zeros, protect};
use crate::layout::{Layout, USER_END, USER_START};
use crate::report::Failure;
use core::arch::{asm, global_asm};
use core::convert::Infallible;

// Unmaps and reserves what is below and above the window, and enters DynamoRIO. Position-independent; uses no memory.
// In: r12 window, r13 its end, r14 entry, r15 stack pointer, rbx USER_START, rbp USER_END.
global_asm!(
    "bugnet_depart:",
    // munmap(0, window)
    "xor edi, edi",
    "mov rsi, r12",
    "mov eax, 11",
    "syscall",
    "test rax, rax",
    "jnz 9f",
    // munmap(end, USER_END - end)
    "mov rdi, r13",
    "mov rsi, rbp",
    "sub rsi, r13",
    "mov eax, 11",
    "syscall",
    "test rax, rax",
    "jnz 9f",
    // mmap(USER_START, window - USER_START, PROT_NONE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    "mov rdi, rbx",
    "mov rsi, r12",
    "sub rsi, rbx",
    "xor edx, edx",
    "mov r10d, 0x4032",
    "mov r8, -1",
    "xor r9d, r9d",
    "mov eax, 9",
    "syscall",
    "cmp rax, rbx",
    "jne 9f",
    // The same for end, USER_END - end.
    "mov rdi, r13",
    "mov rsi, rbp",
    "sub rsi, r13",
    "mov eax, 9",
    "syscall",
    "cmp rax, r13",
    "jne 9f",
    // DynamoRIO relocates itself if rdi is 0.
    "mov rsp, r15",
    "xor edi, edi",
    "xor esi, esi",
    "xor edx, edx",
    "jmp r14",
    // exit_group(126): nothing is left that could write a message.
    "9:",
    "mov edi, 126",
    "mov eax, 231",
    "syscall",
    "ud2",
    "bugnet_depart_end:",
);

/// Frees all addresses outside the window and enters DynamoRIO; returns only if that cannot be begun.
///
/// Where the kernel refuses to give up the addresses (it seals its own mappings, or the address space is limited), the
/// process ends with status 126.
pub fn depart(layout: &Layout, entry: usize, stack_pointer: usize) -> Result<Infallible, Failure> {
    let (start, end): (usize, usize);
    // SAFETY: the symbols are those above.
    unsafe {
        asm!(
            "lea {start}, [rip + bugnet_depart]",
            "lea {end}, [rip + bugnet_depart_end]",
            start = out(reg) start,
            end = out(reg) end,
            options(nomem, nostack, preserves_flags),
        );
    }
    let failed = "cannot map a page at the window's start";
    let page = layout.window;
    // SAFETY: the kernel places nothing in the window by itself, and FIXED_NOREPLACE makes sure; the code between the
    // symbols is shorter than a page.
    unsafe {
        map_zeros(page, 4096, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE, failed)?;
        core::ptr::copy_nonoverlapping(start as *const u8, page as *mut u8, end - start);
        protect(page, 4096, PROT_READ | PROT_EXEC, failed)?;
    }
    // SAFETY: the page holds `bugnet_depart`, which takes these registers and never comes back; nothing on this stack
    // or in this program's memory is used any more. rbx and rbp cannot be named as operands, hence the moves.
    unsafe {
        asm!(
            "mov rbx, r10",
            "mov rbp, r11",
            "jmp rax",
            in("r10") USER_START,
            in("r11") USER_END,
            in("rax") page,
            in("r12") layout.window,
            in("r13") layout.end(),
            in("r14") entry,
            in("r15") stack_pointer,
            options(noreturn),
        )
    }
}
