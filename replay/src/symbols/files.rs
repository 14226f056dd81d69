//! The files of a module: from the log's own copies, else from this machine.

use super::pack::{copy_path, debug_copy, package_copy, shared_copy, split_copy};
use bugnet_debuginfo::companions::{self, Companion, Kind, read_regular};
use bugnet_debuginfo::image::{Files, Image};
use bugnet_debuginfo::section::{alternate_id, build_id};
use bugnet_debuginfo::split::{SplitFiles, Wanted};
use bugnet_format::files;
use bugnet_format::folder::Module;
use bugnet_format::source::Source;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// Largest ELF file that is read, in bytes; a log's copy could decompress to anything.
const MAX_ELF: u64 = 4 << 30;

/// Bytes at the start of an ELF file that are enough for its headers.
const HEAD: u64 = 64 << 10;

/// The ELF file of a module, and what else holds its debug information.
#[derive(Debug)]
pub struct ModuleFiles {
    /// The file that was mapped.
    pub main: Vec<u8>,
    /// The file into which its debug information was split off.
    pub debug: Option<Vec<u8>>,
    /// What it shares with others (dwz), by its build id in lower-case hexadecimal.
    pub shared: Option<(String, Vec<u8>)>,
}

/// A log, a path on the recording machine and a build id: what makes an image what it is.
type Key = (PathBuf, String, String);

thread_local! {
    /// Images that somebody in this thread holds.
    static HELD: RefCell<HashMap<Key, Weak<Image>>> = RefCell::default();
}

/// The file of a module with its split units, the same one for all in this thread who look at it at the same time: an analysis goes through
/// a log several times, with symbols each time, and that of libc alone takes longer to read than a short program to replay.
pub(super) fn open(log: &Source, module: &Module) -> Option<Rc<Image>> {
    // Without a build id, the same name may be another file.
    if module.build_id.is_empty() {
        return read_image(log, module).map(Rc::new);
    }
    let key = (log.path().to_owned(), module.path.clone(), module.build_id.clone());
    if let Some(image) = HELD.with_borrow(|held| held.get(&key).and_then(Weak::upgrade)) {
        return Some(image);
    }
    let image = Rc::new(read_image(log, module)?);
    HELD.with_borrow_mut(|held| {
        held.retain(|_, image| image.strong_count() > 0);
        held.insert(key, Rc::downgrade(&image));
    });
    Some(image)
}

fn read_image(log: &Source, module: &Module) -> Option<Image> {
    let ModuleFiles { main, debug, shared } = module_files(log, module)?;
    let split = Split { log: log.clone(), module: module.clone(), package: OnceCell::new() };
    Image::parse(Files { main, debug, shared: shared.map(|(_, bytes)| bytes), split: Rc::new(split) })
}

/// The first bytes of a module's ELF file, which hold its program headers.
#[must_use]
pub fn module_head(log: &Source, module: &Module) -> Option<Vec<u8>> {
    let copy = files::open(log, &copy_path(log.path(), module), MAX_ELF).ok();
    let mut head = Vec::new();
    if let Some(file) = copy {
        zstd::Decoder::new(file).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
        return Some(head);
    }
    let mut main = module_files(log, module)?.main;
    main.truncate(HEAD as usize);
    Some(main)
}

/// The files of a module: the log's copy, else the file of the same path and build id on this machine; with it what holds its debug
/// information.
#[must_use]
pub fn module_files(log: &Source, module: &Module) -> Option<ModuleFiles> {
    let matching = |bytes: &Vec<u8>| build_id(bytes) == module.build_id;
    let main = main_file(log, module)?;
    let mut here = Here::default();
    let debug =
        read_copy(log, &debug_copy(log.path(), module)).filter(|bytes| matching(bytes) || build_id(bytes).is_empty());
    let debug = debug.or_else(|| here.look(module, &main).debug.take());
    let shared = alternate_id(debug.as_ref().unwrap_or(&main)).and_then(|id| {
        let copy = read_copy(log, &shared_copy(log.path(), &id));
        copy.or_else(|| here.look(module, &main).shared.take()).map(|bytes| (id, bytes))
    });
    Some(ModuleFiles { main, debug, shared })
}

/// The same without what holds debug information.
#[must_use]
pub fn main_file(log: &Source, module: &Module) -> Option<Vec<u8>> {
    let matching = |bytes: &Vec<u8>| build_id(bytes) == module.build_id;
    // A copy of a file without build id was made by the recorder when it recorded; a file of this machine
    // without one might be anything.
    let main =
        read_copy(log, &copy_path(log.path(), module)).filter(|bytes| matching(bytes) || module.build_id.is_empty());
    main.or_else(|| {
        let own = (!module.build_id.is_empty()).then(|| read_regular(Path::new(&module.path)))?;
        own.filter(matching)
    })
}

/// What this machine has.
#[derive(Default)]
struct Here {
    looked: bool,
    debug: Option<Vec<u8>>,
    shared: Option<Vec<u8>>,
}

impl Here {
    fn look(&mut self, module: &Module, main: &[u8]) -> &mut Self {
        if !std::mem::replace(&mut self.looked, true) && !module.build_id.is_empty() {
            let mut take = |companion: Companion| match companion.kind {
                Kind::Debug => self.debug = Some(companion.bytes),
                Kind::Shared { .. } => self.shared = Some(companion.bytes),
                Kind::Split { .. } | Kind::Package => {}
            };
            companions::find(Path::new("/"), Path::new(&module.path), main, &mut take);
        }
        self
    }
}

/// The split units of a module.
struct Split {
    log: Source,
    module: Module,
    package: OnceCell<Option<Arc<[u8]>>>,
}

impl SplitFiles for Split {
    fn unit(&self, wanted: &Wanted) -> Option<Vec<u8>> {
        read_copy(&self.log, &split_copy(self.log.path(), wanted.id)).or_else(|| {
            // That it is the right one is checked by its id.
            let name = wanted.name.as_ref()?;
            read_regular(&wanted.folder.as_ref().map_or_else(|| name.into(), |folder| Path::new(folder).join(name)))
        })
    }

    fn package(&self) -> Option<Arc<[u8]>> {
        let read = || {
            let beside = || read_regular(Path::new(&format!("{}.dwp", self.module.path)));
            let copy = read_copy(&self.log, &package_copy(self.log.path(), &self.module));
            copy.or_else(beside).map(Arc::from)
        };
        self.package.get_or_init(read).clone()
    }
}

/// A compressed copy in the log.
fn read_copy(log: &Source, path: &Path) -> Option<Vec<u8>> {
    let file = files::open(log, path, MAX_ELF).ok()?;
    read_bounded(zstd::Decoder::new(file).ok()?)
}

fn read_bounded(from: impl Read) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = from.take(MAX_ELF + 1).read_to_end(&mut bytes).ok()?;
    (read as u64 <= MAX_ELF).then_some(bytes)
}
