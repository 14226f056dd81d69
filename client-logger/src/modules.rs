//! ELF files that are mapped into the program, for symbols.

use crate::code::read_memory;
use crate::files;
use crate::fs_base::Guard;
use crate::process;
use bugnet_dr::sys;
use bugnet_format::folder::{MODULES_FILE, Module};
use object::Endianness;
use object::elf::{FileHeader64, NT_GNU_BUILD_ID, PT_NOTE};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader};
use std::ffi::{CStr, c_void};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The list of a process: each line once, at the place where it came last.
struct List {
    file: PathBuf,
    lines: Vec<String>,
    /// Lines in the file, with those that came again.
    written: usize,
}

/// The list is written anew with so many lines more than twice those that there are.
const SPARE: usize = 64;

static LIST: Mutex<List> = Mutex::new(List { file: PathBuf::new(), lines: Vec::new(), written: 0 });

impl List {
    /// Appends a line to the list in `file`.
    fn append(&mut self, file: &Path, line: String) -> io::Result<()> {
        if self.file != file {
            // A forked child has a list of its own.
            *self = Self { file: file.to_owned(), lines: Vec::new(), written: 0 };
        }
        self.lines.retain(|known| *known != line);
        self.lines.push(line.clone());
        if self.written > 2 * self.lines.len() + SPARE {
            files::replace(file, self.lines.concat().as_bytes())?;
            self.written = self.lines.len();
            return Ok(());
        }
        self.written += 1;
        files::append(file, line.as_bytes())
    }
}

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
    let mut list = LIST.lock().unwrap_or_else(|e| e.into_inner());
    let written =
        serde_json::to_string(&module).map_err(io::Error::from).and_then(|line| list.append(&file, line + "\n"));
    drop(list);
    if let Err(e) = written {
        crate::warn(&format!("cannot write {}: {e}", file.display()));
    }
}
