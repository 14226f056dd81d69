//! ELF files that are mapped into the program, for symbols.

use crate::base::light;
use crate::base::lock::Mutex;
use crate::base::memory::read_memory;
use crate::log::files;
use crate::log::recording;
use bugnet_dr::process::Module;
use bugnet_format::folder::{self, MODULES_FILE};
use object::Endianness;
use object::elf::{FileHeader64, NT_GNU_BUILD_ID, PT_LOAD, PT_NOTE, ProgramHeader64};
use object::pod::slice_from_bytes;
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

type Program = ProgramHeader64<Endianness>;

/// The list of a process: each line once, at the place where it came last.
struct List {
    file: PathBuf,
    lines: Vec<String>,
    /// Lines in the file, with those that came again.
    written: usize,
}

/// The list is written anew with so many lines more than twice those that there are.
const SPARE: usize = 64;

/// Whether the list cannot be written any more, which the user was told.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

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
    let endian = Endianness::Little;
    let read = |address: u64, len: u64| {
        let mut bytes = vec![0; len.min(1 << 16) as usize];
        read_memory(address, &mut bytes).then_some(bytes)
    };
    let Some(programs) = read(base, size_of::<FileHeader64<Endianness>>() as u64).and_then(|bytes| {
        let header = FileHeader64::<Endianness>::parse(&*bytes).ok()?;
        let count = usize::from(header.e_phnum(endian));
        // They may lie behind everything else, where `patchelf` puts them.
        let bytes = read(base.checked_add(header.e_phoff(endian))?, (count * size_of::<Program>()) as u64)?;
        let (programs, _) = slice_from_bytes::<Program>(&bytes, count).ok()?;
        Some(programs.to_vec())
    }) else {
        return String::new();
    };
    let start = programs.iter().filter(|p| p.p_type(endian) == PT_LOAD).map(|p| p.p_vaddr(endian)).min().unwrap_or(0);
    for program in programs.iter().filter(|p| p.p_type(endian) == PT_NOTE) {
        let address = base.wrapping_add(program.p_vaddr(endian)).wrapping_sub(start & !4095);
        let Some(bytes) = read(address, program.p_filesz(endian)) else { continue };
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

/// A module is mapped. Its path and where it is, if it is one of the program's that is in the list then.
pub fn add(module: Module) -> Option<(String, Range<u64>)> {
    // The list is for symbols of what was recorded.
    if recording::over() || GIVEN_UP.load(Ordering::Relaxed) {
        return None;
    }
    let path = module.path?.to_string_lossy().into_owned();
    // An expansion maps the light log's copies, and begins by a program of its own.
    let path = match light::of_process() {
        Some(light) => light.origin(&path)?.clone(),
        None => path,
    };
    // DynamoRIO and this client are mapped, too, but are no part of the program.
    let own = |name: &str| path.rsplit('/').next().is_some_and(|file| file == name);
    if !path.starts_with('/') || own("libdynamorio.so") || own("libbugnet_logger.so") {
        return None;
    }
    list(&path, &module.range);
    Some((path, module.range))
}

/// The program of a light log begins: what is mapped by then.
pub fn add_first() {
    let modules = light::of_process().map(|light| light.modules.clone()).unwrap_or_default();
    modules.iter().for_each(|(path, range)| list(path, range));
}

/// Appends a module to the list.
fn list(path: &str, range: &Range<u64>) {
    let base = range.start;
    let module = folder::Module { base, size: range.end - base, path: path.to_owned(), build_id: build_id(base) };
    let file = recording::folder().join(MODULES_FILE);
    let mut list = LIST.lock();
    let written =
        serde_json::to_string(&module).map_err(io::Error::from).and_then(|line| list.append(&file, line + "\n"));
    drop(list);
    if let Err(e) = written {
        GIVEN_UP.store(true, Ordering::Relaxed);
        crate::base::warn(&format!("symbols will be missing: cannot write {}: {e}", file.display()));
    }
}
