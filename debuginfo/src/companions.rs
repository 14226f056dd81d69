//! The files that hold the debug information of an ELF file, on the machine where it runs: they have to be found while it is
//! recorded, since nobody has them where the recording is looked at.
//!
//! | what | where it is looked for |
//! |---|---|
//! | debug information that was split off | by build id below `/usr/lib/debug/.build-id` and in debuginfod's cache; by `.gnu_debuglink` next to the file, in `.debug` there, and below `/usr/lib/debug` |
//! | what several of such files share | by `.gnu_debugaltlink`'s path and build id |
//! | split units | by the paths that the compiler has written down, and next to the file |
//! | a package of split units | the file's name with `.dwp` behind it |

use crate::section::{build_id, hex};
use crate::split::{split_id, split_units};
use object::Object;
use std::env;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where distributions put debug information.
const DEBUG_FOLDER: &str = "/usr/lib/debug";
/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 4 << 30;
/// Most split units of one file.
const MAX_SPLIT: usize = 1 << 16;
/// `O_NONBLOCK | O_NOCTTY`: what turns out to be no regular file is not waited for.
const NOT_WAITING: i32 = 0o4000 | 0o400;

/// What a file is to the ELF file that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It has its debug information.
    Debug,
    /// It has a part of it that other files refer to, too.
    Shared {
        /// Its own build id.
        build_id: String,
    },
    /// It is the split unit with this id.
    Split {
        /// See [`crate::split::Wanted::id`].
        id: u64,
    },
    /// It is the package of its split units.
    Package,
}

/// A file that belongs to an ELF file.
#[derive(Clone, Debug)]
pub struct Companion {
    /// What it is.
    pub kind: Kind,
    /// Where it was found.
    pub path: PathBuf,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// Hands `found` each file that belongs to the ELF file at `path` (as the program sees it, whose root folder is `root`), of which
/// `bytes` are the contents. Only files that are certain to belong to it: by build id, checksum, or unit id.
pub fn find(root: &Path, path: &Path, bytes: &[u8], found: &mut dyn FnMut(Companion)) {
    let Ok(file) = object::File::parse(bytes) else { return };
    let has_info = file.section_by_name(".debug_info").is_some();
    let debug = if has_info { None } else { debug_file(root, path, bytes, &file) };
    let holder = debug.as_ref().map_or((path, bytes), |(path, bytes)| (path, bytes));
    if debug.is_some() || has_info {
        if let Some((id, path, bytes)) = shared(root, holder.0, holder.1) {
            found(Companion { kind: Kind::Shared { build_id: id }, path, bytes });
        }
        split(root, path, holder, found);
    }
    if let Some((path, bytes)) = debug {
        found(Companion { kind: Kind::Debug, path, bytes });
    }
}

/// `path` below another root folder.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// The file with the debug information of one from which it was split off.
fn debug_file(root: &Path, path: &Path, bytes: &[u8], file: &object::File<'_>) -> Option<(PathBuf, Vec<u8>)> {
    let id = build_id(bytes);
    // debuginfod keeps empty files of what no server has: others are looked at all the same.
    let mut by_id = by_build_id(root, &id).into_iter().filter_map(|path| Some((read_regular(&path)?, path)));
    if let Some((bytes, path)) = by_id.find(|(bytes, _)| build_id(bytes) == id) {
        return Some((path, bytes));
    }
    let (name, checksum) = file.gnu_debuglink().ok()??;
    let name = Path::new(std::str::from_utf8(name).ok()?).file_name()?;
    let folder = path.parent()?;
    let places =
        [folder.join(name), folder.join(".debug").join(name), below(Path::new(DEBUG_FOLDER), folder).join(name)];
    places.into_iter().filter(|place| place != path).find_map(|place| {
        let place = below(root, &place);
        let bytes = read_regular(&place)?;
        let own = build_id(&bytes);
        let fits = if id.is_empty() || own.is_empty() { crc32(&bytes) == checksum } else { own == id };
        fits.then_some((place, bytes))
    })
}

/// Where a file with debug information may be that has this build id.
fn by_build_id(root: &Path, id: &str) -> Vec<PathBuf> {
    if id.len() < 3 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Vec::new();
    }
    let system = Path::new(DEBUG_FOLDER).join(".build-id").join(&id[..2]).join(format!("{}.debug", &id[2..]));
    let mut all = vec![below(root, &system)];
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let caches = [
        variable("DEBUGINFOD_CACHE_PATH"),
        variable("XDG_CACHE_HOME").map(|cache| cache.join("debuginfod_client")),
        variable("HOME").map(|home| home.join(".cache/debuginfod_client")),
        // Where it was at first, and still is where that folder is there.
        variable("HOME").map(|home| home.join(".debuginfod_client_cache")),
    ];
    all.extend(caches.into_iter().flatten().map(|cache| cache.join(id).join("debuginfo")));
    all
}

/// The file that shares debug information with others, with its build id.
fn shared(root: &Path, holder: &Path, bytes: &[u8]) -> Option<(String, PathBuf, Vec<u8>)> {
    let file = object::File::parse(bytes).ok()?;
    let (name, id) = file.gnu_debugaltlink().ok()??;
    let (name, id) = (Path::new(std::str::from_utf8(name).ok()?), hex(id));
    let named = if name.is_absolute() { below(root, name) } else { holder.parent()?.join(name) };
    let mut places = vec![named];
    places.extend(by_build_id(root, &id));
    places.into_iter().find_map(|place| {
        let bytes = read_regular(&place)?;
        (build_id(&bytes) == id).then_some((id.clone(), place, bytes))
    })
}

/// Split units, and packages of them.
fn split(root: &Path, path: &Path, (holder, bytes): (&Path, &[u8]), found: &mut dyn FnMut(Companion)) {
    let wanted = split_units(bytes);
    if wanted.is_empty() {
        return;
    }
    let with_suffix = |path: &Path| {
        let mut name = path.as_os_str().to_owned();
        name.push(".dwp");
        PathBuf::from(name)
    };
    let packages = [with_suffix(&below(root, path)), with_suffix(holder)];
    if let Some((path, bytes)) = packages.into_iter().find_map(|path| Some((path.clone(), read_regular(&path)?))) {
        found(Companion { kind: Kind::Package, path, bytes });
    }
    for wanted in wanted.into_iter().take(MAX_SPLIT) {
        let Some(name) = wanted.name.as_deref().map(Path::new) else { continue };
        let named = wanted.folder.as_ref().map_or_else(|| name.to_owned(), |folder| Path::new(folder).join(name));
        let beside = path.parent().zip(name.file_name()).map(|(folder, name)| folder.join(name));
        for place in [Some(named), beside].into_iter().flatten() {
            let place = below(root, &place);
            let Some(bytes) = read_regular(&place) else { continue };
            if split_id(&bytes) == Some(wanted.id) {
                found(Companion { kind: Kind::Split { id: wanted.id }, path: place, bytes });
                break;
            }
        }
    }
}

/// Reads a regular file, through links; a path in a log may name anything.
#[must_use]
pub fn read_regular(path: &Path) -> Option<Vec<u8>> {
    if !fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return None;
    }
    let file = File::options().read(true).custom_flags(NOT_WAITING).open(path).ok()?;
    let metadata = file.metadata().ok().filter(|metadata| metadata.is_file() && metadata.len() <= MAX_FILE)?;
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).ok()?);
    let read = file.take(MAX_FILE + 1).read_to_end(&mut bytes).ok()?;
    (read as u64 <= MAX_FILE).then_some(bytes)
}

/// The checksum of `.gnu_debuglink`.
fn crc32(bytes: &[u8]) -> u32 {
    let table: [u32; 256] = std::array::from_fn(|number| {
        (0..8).fold(number as u32, |value, _| if value & 1 == 1 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 })
    });
    !bytes.iter().fold(u32::MAX, |crc, byte| table[usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn checksums() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
