//! Applies this program's own relocations, as there is no dynamic linker that would.

use core::arch::asm;

const DT_NULL: usize = 0;
const DT_RELA: usize = 7;
const DT_RELASZ: usize = 8;
const R_X86_64_RELATIVE: usize = 8;

/// Adds the address at which the kernel mapped the program to each pointer in its data.
///
/// Called first of all: until it returns, nothing may use a table of pointers.
#[inline(never)]
pub fn relocate() {
    let base: usize;
    let mut dynamic: *const [usize; 2];
    // SAFETY: both symbols are the linker's: start of the ELF header, which is linked at 0, and of the dynamic section.
    unsafe {
        asm!(
            "lea {base}, [rip + __ehdr_start]",
            "lea {dynamic}, [rip + _DYNAMIC]",
            base = out(reg) base,
            dynamic = out(reg) dynamic,
            options(nomem, nostack, preserves_flags),
        );
    }
    let (mut rela, mut size) = (0, 0);
    loop {
        // SAFETY: the dynamic section ends with a DT_NULL entry, and nothing behind it is read.
        let [tag, value] = unsafe { dynamic.read() };
        match tag {
            DT_NULL => break,
            DT_RELA => rela = base + value,
            DT_RELASZ => size = value,
            _ => {}
        }
        // SAFETY: as above, there is a further entry.
        dynamic = unsafe { dynamic.add(1) };
    }
    for entry in 0..size / 24 {
        // SAFETY: DT_RELA and DT_RELASZ describe a table of entries of 24 bytes; the linker makes only relative ones for
        // a program without imports, each naming a pointer in the writable data.
        unsafe {
            let [offset, info, addend] = ((rela + entry * 24) as *const [usize; 3]).read();
            if info & 0xffff_ffff == R_X86_64_RELATIVE {
                ((base + offset) as *mut usize).write(base + addend);
            }
        }
    }
}
