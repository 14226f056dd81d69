//! The program's stack is executable if its ELF file asks for that. The kernel has looked at DynamoRIO's file instead.

use crate::base::maps;
use crate::base::memory::read_memory;
use bugnet_dr::process::main_module;
use bugnet_dr::space::{self, Protection};
use object::Endianness;
use object::elf::{FileHeader64, PF_X, PT_GNU_STACK};
use object::read::elf::{FileHeader, ProgramHeader};

/// Gives the stack the protection that the program would have found; at the process's start.
pub fn protect() {
    if wants_executable()
        && let Some((start, end)) = stack()
    {
        // SAFETY: the stack keeps its contents and stays readable and writable.
        if !unsafe { space::protect(start, (end - start) as usize, Protection::ALL) } {
            crate::base::warn("the program's stack cannot be made executable");
        }
    }
}

/// Whether the program's file asks for an executable stack.
pub fn wants_executable() -> bool {
    let Some(module) = main_module() else { return false };
    let base = module.range.start;
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
