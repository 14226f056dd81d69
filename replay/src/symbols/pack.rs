//! Copies of the recorded program's ELF files in the log, so that symbols and unwinding need nothing else.

use super::elf::build_id;
use crate::error::Result;
use bugnet_format::FormatError;
use bugnet_format::folder::{ELF_FOLDER, Module};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// How hard copies are compressed: they are made while the user waits.
const LEVEL: i32 = 3;

/// What [`pack_elf`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Files that were copied.
    pub copied: usize,
    /// Bytes that the copies take.
    pub bytes: u64,
    /// Files of which there is no copy.
    pub skipped: Vec<Skipped>,
}

/// A file that was not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The module's path.
    pub path: String,
    /// Why.
    pub why: String,
}

/// Copies the modules' ELF files, compressed, into the log in `folder`. What is there already stays.
///
/// A file that cannot be read, or is not the one any more that was mapped, is skipped and listed.
///
/// # Errors
/// The folder for the copies cannot be made.
pub fn pack_elf(folder: &Path, modules: &[Module]) -> Result<Packed> {
    let elf = folder.join(ELF_FOLDER);
    fs::create_dir_all(&elf).map_err(FormatError::io(&elf))?;
    let mut packed = Packed::default();
    let mut seen = HashSet::new();
    for module in modules {
        let copy = copy_path(folder, module);
        if !module.path.starts_with('/') || !seen.insert(copy.clone()) || copy.exists() {
            // The vdso is no file.
            continue;
        }
        match pack_one(module, &copy) {
            Ok(bytes) => {
                packed.copied += 1;
                packed.bytes += bytes;
            }
            Err(why) => packed.skipped.push(Skipped { path: module.path.clone(), why: why.to_string() }),
        }
    }
    Ok(packed)
}

fn pack_one(module: &Module, copy: &Path) -> io::Result<u64> {
    if !fs::metadata(&module.path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let bytes = fs::read(&module.path)?;
    if build_id(&bytes) != module.build_id {
        return Err(io::Error::other("it was replaced since it was recorded: its build id is another one"));
    }
    // Only a whole copy gets its name.
    let new = copy.with_extension("new");
    let written = File::create(&new).and_then(|file| {
        zstd::stream::copy_encode(bytes.as_slice(), &file, LEVEL)?;
        fs::rename(&new, copy)?;
        Ok(file.metadata()?.len())
    });
    written.inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Where the copy of a module's file lies: named by its build id, or if it has none by its path and size.
pub(crate) fn copy_path(folder: &Path, module: &Module) -> PathBuf {
    let id = &module.build_id;
    let name = if !id.is_empty() && id.bytes().all(|b| b.is_ascii_hexdigit()) {
        format!("{id}.zst")
    } else {
        let seed = module.size;
        format!("path-{:016x}.zst", xxhash_rust::xxh3::xxh3_64_with_seed(module.path.as_bytes(), seed))
    };
    folder.join(ELF_FOLDER).join(name)
}
