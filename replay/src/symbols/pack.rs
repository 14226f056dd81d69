//! Copies of the recorded program's ELF files in the log, so that symbols and unwinding need nothing else.

use super::shared::Shared;
use crate::error::Result;
use bugnet_debuginfo::companions::{self, Companion, Kind};
use bugnet_debuginfo::section::build_id;
use bugnet_format::FormatError;
use bugnet_format::folder::{ELF_FOLDER, Module};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How hard copies are compressed: they are made while the user waits. Level 1 takes almost twice as long for a fifth less.
const LEVEL: i32 = -3;

/// At most so many files are copied at a time.
const THREADS: usize = 8;

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
/// A file that cannot be read, or is not the one that was mapped, is skipped and listed.
///
/// # Errors
/// The folder for the copies cannot be made.
pub fn pack_elf(folder: &Path, modules: &[Module]) -> Result<Packed> {
    pack_elf_below(Path::new("/"), folder, None, modules)
}

/// Files that were kept as they were mapped, by the modules' paths: several where what had the path was replaced.
pub type Kept = HashMap<String, Vec<PathBuf>>;

/// The same, of files that were kept.
///
/// # Errors
/// As for [`pack_elf`].
pub fn pack_kept_elf(kept: &Kept, folder: &Path, modules: &[Module]) -> Result<Packed> {
    pack_from(&Origin::Kept(kept), folder, None, modules)
}

/// Where the modules' files are.
enum Origin<'a> {
    /// Below this root folder.
    Root(&'a Path),
    Kept(&'a Kept),
}

impl Origin<'_> {
    fn root(&self) -> &Path {
        match self {
            Self::Root(root) => root,
            Self::Kept(_) => Path::new("/"),
        }
    }

    /// The bytes of a module's file.
    fn read(&self, module: &Module) -> io::Result<Vec<u8>> {
        let paths = match self {
            Self::Root(root) => vec![root.join(module.path.trim_start_matches('/'))],
            Self::Kept(kept) => kept.get(&module.path).cloned().unwrap_or_default(),
        };
        let mut why = io::Error::other("the log has no file of that name");
        for path in paths {
            match read_regular(&path) {
                Ok(bytes) if build_id(&bytes) == module.build_id => return Ok(bytes),
                // Replaced, or seen in another root folder.
                Ok(_) => why = io::Error::other("the file of that name is another one: its build id differs"),
                Err(error) => why = error,
            }
        }
        Err(why)
    }
}

fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.is_file() { fs::read(path) } else { Err(io::Error::other("not a regular file")) }
}

/// The same, with the modules' files below another root folder, as a process has it. Where there is a folder of copies that logs
/// share, a copy that is there gets a second name in the log, and a new one gets one there.
///
/// # Errors
/// As for [`pack_elf`].
pub fn pack_elf_below(root: &Path, folder: &Path, shared: Option<&Path>, modules: &[Module]) -> Result<Packed> {
    pack_from(&Origin::Root(root), folder, shared, modules)
}

fn pack_from(origin: &Origin<'_>, folder: &Path, shared: Option<&Path>, modules: &[Module]) -> Result<Packed> {
    let elf = folder.join(ELF_FOLDER);
    fs::create_dir_all(&elf).map_err(FormatError::io(&elf))?;
    let mut seen = HashSet::new();
    let copies = modules.iter().map(|module| (module, copy_path(folder, module)));
    // The vdso is no file.
    let wanted = |(module, copy): &(&Module, PathBuf)| {
        module.path.starts_with('/') && seen.insert(copy.clone()) && !copy.exists()
    };
    let mut wanted: Vec<_> = copies.filter(wanted).collect();
    // The largest ones first: the others fit beside them.
    wanted.sort_by_key(|(module, _)| Reverse(module.size));
    let mut packed = Packed::default();
    for ((module, _), done) in wanted.iter().zip(pack_all(origin, folder, shared, &wanted)) {
        match done {
            Ok(bytes) => {
                packed.copied += 1;
                packed.bytes += bytes;
            }
            Err(why) => packed.skipped.push(Skipped { path: module.path.clone(), why: why.to_string() }),
        }
    }
    Ok(packed)
}

/// Copies files, several at a time; the results are in their order.
fn pack_all(
    origin: &Origin<'_>,
    folder: &Path,
    shared: Option<&Path>,
    wanted: &[(&Module, PathBuf)],
) -> Vec<io::Result<u64>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((n, (module, copy))) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, wanted.get(n)?)))
        {
            done.push((n, pack_one(origin, folder, shared, module, copy)));
        }
        done
    };
    // The system looks into files to say how many run at a time.
    let most = if wanted.len() > 1 { thread::available_parallelism().map_or(1, usize::from) } else { 1 };
    let others = most.min(THREADS).min(wanted.len()).saturating_sub(1);
    let mut done = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..others).filter_map(|_| thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        let own = work();
        let rest = threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        own.into_iter().chain(rest).collect::<Vec<_>>()
    });
    done.sort_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, done)| done).collect()
}

fn pack_one(
    origin: &Origin<'_>,
    folder: &Path,
    shared: Option<&Path>,
    module: &Module,
    copy: &Path,
) -> io::Result<u64> {
    let (root, bytes) = (origin.root(), origin.read(module)?);
    let mut size = write_copy(&bytes, &module.build_id, shared, copy)?;
    // Without them there are fewer names in reports: no reason to complain.
    let mut keep = |companion: Companion| {
        let copy = match &companion.kind {
            Kind::Debug => debug_copy(folder, module),
            Kind::Shared { build_id } => shared_copy(folder, build_id),
            Kind::Split { id } => split_copy(folder, *id),
            Kind::Package => package_copy(folder, module),
        };
        if !copy.exists() {
            size += write_copy(&companion.bytes, &build_id(&companion.bytes), shared, &copy).unwrap_or(0);
        }
    };
    companions::find(root, Path::new(&module.path), &bytes, &mut keep);
    if !root.exists() {
        // That of a process, which has ended meanwhile: nothing is found below it any more.
        companions::find(Path::new("/"), Path::new(&module.path), &bytes, &mut keep);
    }
    Ok(size)
}

/// Makes the copy of a file with these bytes; how long that is, is the result.
pub(super) fn write_copy(bytes: &[u8], build_id: &str, shared: Option<&Path>, copy: &Path) -> io::Result<u64> {
    let shared = shared.map(|folder| Shared::of(folder, build_id, bytes));
    if let Some(len) = shared.as_ref().and_then(|shared| shared.link_to(copy)) {
        return Ok(len);
    }
    // Only a whole copy gets its name.
    let new = new_name(copy);
    let written = File::create(&new).and_then(|file| {
        (&file).write_all(&compress(bytes)?)?;
        fs::rename(&new, copy)?;
        Ok(file.metadata()?.len())
    });
    if let (Some(shared), Ok(_)) = (&shared, &written) {
        shared.offer(copy);
    }
    written.inspect_err(|_| drop(fs::remove_file(&new)))
}

/// What a copy is called until it is whole: several threads may make the same one, since modules share debug information.
pub(super) fn new_name(copy: &Path) -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    copy.with_extension(format!("{}.{number}.new", std::process::id()))
}

/// One zstd stream, which ends with a checksum of the bytes.
fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
    compressor.include_checksum(true)?;
    compressor.compress(bytes)
}

/// Where the copy of a module's file lies: named by its build id, or if it has none by its path and size.
pub(crate) fn copy_path(folder: &Path, module: &Module) -> PathBuf {
    folder.join(ELF_FOLDER).join(format!("{}.zst", copy_name(module)))
}

fn copy_name(module: &Module) -> String {
    let id = &module.build_id;
    if !id.is_empty() && id.bytes().all(|b| b.is_ascii_hexdigit()) {
        return id.clone();
    }
    format!("path-{:016x}", xxhash_rust::xxh3::xxh3_64_with_seed(module.path.as_bytes(), module.size))
}

/// Where the copy of the file lies that was split off a module's, with its debug information.
pub(super) fn debug_copy(folder: &Path, module: &Module) -> PathBuf {
    folder.join(ELF_FOLDER).join(format!("{}.debug.zst", copy_name(module)))
}

/// Where the copy of the package of a module's split units lies.
pub(super) fn package_copy(folder: &Path, module: &Module) -> PathBuf {
    folder.join(ELF_FOLDER).join(format!("{}.dwp.zst", copy_name(module)))
}

/// Where the copy of a file lies that shares debug information with others: named by its own build id.
pub(super) fn shared_copy(folder: &Path, build_id: &str) -> PathBuf {
    folder.join(ELF_FOLDER).join(format!("{build_id}.zst"))
}

/// Where the copy of a split unit lies.
pub(super) fn split_copy(folder: &Path, id: u64) -> PathBuf {
    folder.join(ELF_FOLDER).join(format!("dwo-{id:016x}.zst"))
}
