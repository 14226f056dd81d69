//! The program's stack is executable if its ELF file asks for that. The kernel has looked at DynamoRIO's file instead.

use crate::base::maps;
use crate::base::memory::read_memory;
use bugnet_dr::sys;
use object::Endianness;
use object::elf::{FileHeader64, PF_X, PT_GNU_STACK};
use object::read::elf::{FileHeader, ProgramHeader};

/// Gives the stack the protection that the program would have found; at the process's start.
pub fn protect() {
    if wants_executable()
        && let Some((start, end)) = stack()
    {
        let all = sys::DR_MEMPROT_READ | sys::DR_MEMPROT_WRITE | sys::DR_MEMPROT_EXEC;
        // SAFETY: the stack keeps its contents and stays readable and writable.
        if unsafe { sys::dr_memory_protect(start as *mut _, (end - start) as usize, all) } == 0 {
            crate::base::warn("the program's stack cannot be made executable");
        }
    }
}

/// Whether the program's file asks for an executable stack.
pub fn wants_executable() -> bool {
    // SAFETY: a description that is freed behind its last use; the union is one address under two names.
    let base = unsafe {
        let module = sys::dr_get_main_module();
        if module.is_null() {
            return false;
        }
        let base = (*module).__bindgen_anon_1.start as u64;
        sys::dr_free_module_data(module);
        base
    };
    let mut page = vec![0; 4096];
    if !read_memory(base, &mut page) {
        return false;
    }
    let Ok(header) = FileHeader64::<Endianness>::parse(&*page) else { return false };
    let endian = Endianness::Little;
    let Ok(programs) = header.program_headers(endian, &*page) else { return false };
    programs.iter().any(|p| p.p_type(endian) == PT_GNU_STACK && p.p_flags(endian).0 & PF_X.0 != 0)
}

/// The initial thread's stack.
fn stack() -> Option<(u64, u64)> {
    let region = maps::all().into_iter().find(|region| region.stack)?;
    Some((region.range.start, region.range.end))
}
