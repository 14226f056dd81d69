//! ELF files that are mapped into the program, for symbols.

use crate::code::read_memory;
use crate::fs_base::Guard;
use crate::process;
use bugnet_dr::sys;
use bugnet_format::folder::{MODULES_FILE, Module};
use object::Endianness;
use object::elf::{FileHeader64, NT_GNU_BUILD_ID, PT_NOTE};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader};
use std::ffi::{CStr, c_void};
use std::io::Write;

/// The GNU build id of the ELF file that is mapped from `base` on, in hexadecimal; empty without one.
fn build_id(base: u64) -> String {
    let mut page = vec![0; 4096];
    if !read_memory(base, &mut page) {
        return String::new();
    }
    let Ok(header) = FileHeader64::<Endianness>::parse(&*page) else { return String::new() };
    let endian = Endianness::Little;
    let Ok(programs) = header.program_headers(endian, &*page) else { return String::new() };
    for program in programs.iter().filter(|p| p.p_type(endian) == PT_NOTE) {
        let size = program.p_filesz(endian).min(1 << 16) as usize;
        let mut bytes = vec![0; size];
        if !read_memory(base + program.p_offset(endian), &mut bytes) {
            continue;
        }
        let Ok(mut notes) = NoteIterator::<FileHeader64<Endianness>>::new(endian, program.p_align(endian), &bytes)
        else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            if note.n_type(endian) == NT_GNU_BUILD_ID && note.name() == b"GNU" {
                return note.desc().iter().map(|b| format!("{b:02x}")).collect();
            }
        }
    }
    String::new()
}

/// A module is mapped.
///
/// # Safety
/// DynamoRIO's module load event.
pub unsafe extern "C" fn on_load(_context: *mut c_void, info: *const sys::module_data_t, _loaded: sys::bool_) {
    let _own = Guard::new();
    // SAFETY: the event hands out a valid description.
    let info = unsafe { &*info };
    if info.full_path.is_null() {
        return;
    }
    // SAFETY: a string of DynamoRIO's, and a union of which both fields are the same address.
    let (path, base) = unsafe { (CStr::from_ptr(info.full_path), info.__bindgen_anon_1.start as u64) };
    let path = path.to_string_lossy().into_owned();
    // DynamoRIO and this client are mapped, too, but are no part of the program.
    let own = |name: &str| path.rsplit('/').next().is_some_and(|file| file == name);
    if !path.starts_with('/') || own("libdynamorio.so") || own("libbugnet_logger.so") {
        return;
    }
    let module = Module { base, size: info.end as u64 - base, path, build_id: build_id(base) };
    let file = process::get().folder.join(MODULES_FILE);
    let written = serde_json::to_string(&module).map_err(std::io::Error::from).and_then(|line| {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&file)?;
        file.write_all((line + "\n").as_bytes())
    });
    if let Err(e) = written {
        crate::warn(&format!("cannot write {}: {e}", file.display()));
    }
}
