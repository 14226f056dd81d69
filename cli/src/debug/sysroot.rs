//! The program's files in a folder, laid out as on the machine where it was recorded, for gdb to read.

use crate::failure::Failure;
use crate::temporary::{Kind, Temporary};
use bugnet_debugger::image::{Image, Loader};
use bugnet_format::files;
use bugnet_format::folder::{Module, SOURCES_FOLDER};
use bugnet_format::source::Source;
use bugnet_replay::log::Log;
use bugnet_replay::symbols::{MAX_SOURCE, ModuleFiles, module_files};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

/// Where gdb looks for files that hold debug information, below the folder.
const DEBUG: &str = "usr/lib/debug";
/// Where source files are that came with the log, below the folder.
const SOURCES: &str = "bugnet-sources";
/// Folders within each other in which source files are looked for.
const DEEPEST: usize = 64;

/// The folder, which is removed when this is dropped.
#[derive(Debug)]
pub struct Sysroot {
    folder: Temporary,
    /// Whether source files came with the log.
    has_sources: bool,
}

/// A path below a folder that an absolute path of another machine becomes; none for one that leads elsewhere.
fn below(folder: &Path, path: &Path) -> Option<PathBuf> {
    let mut out = folder.to_owned();
    for part in path.strip_prefix("/").ok()?.components() {
        match part {
            Component::Normal(name) => out.push(name),
            _ => return None,
        }
    }
    (out != folder).then_some(out)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = || Failure::system(format!("write {}", path.display()));
    make_room(path)?;
    fs::write(path, bytes).map_err(failed())
}

/// Makes the folder of a file.
fn make_room(path: &Path) -> Result<(), Failure> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(Failure::system(format!("make {}", parent.display())))
}

impl Sysroot {
    /// Writes the ELF files of a process, what holds their debug information, and the source files that the log has.
    pub fn of(log: &Log, image: Image) -> Result<Self, Failure> {
        let mut sysroot = Self { folder: Temporary::new(Kind::Debug)?, has_sources: false };
        let mut written = BTreeSet::new();
        for module in image.modules {
            if written.insert(module.path.clone()) {
                sysroot.add(log, &module)?;
            }
        }
        if let Some(Loader { asked, path }) = image.loader {
            // The program asks for the loader by a path that leads through links.
            let link = below(sysroot.folder.path(), Path::new(&asked)).filter(|link| !link.exists());
            if let (Some(link), Some(file)) = (link, sysroot.file(&path)) {
                make_room(&link)?;
                symlink(file, &link).map_err(Failure::system(format!("write {}", link.display())))?;
            }
        }
        sysroot.add_sources(log.source(), Path::new(""), 0)?;
        Ok(sysroot)
    }

    /// Writes the source files of a folder of the log's.
    fn add_sources(&mut self, log: &Source, folder: &Path, depth: usize) -> Result<(), Failure> {
        let there = log.path().join(SOURCES_FOLDER).join(folder);
        // A log without source files has no folder of them.
        let Ok(names) = files::names(log, &there) else { return Ok(()) };
        for name in names {
            let below_sources = folder.join(&name);
            match files::read(log, &there.join(&name), MAX_SOURCE) {
                Ok(text) => {
                    if let Some(path) = below(&self.path(SOURCES), &Path::new("/").join(below_sources)) {
                        write(&path, &text)?;
                        self.has_sources = true;
                    }
                }
                Err(_) if depth < DEEPEST => self.add_sources(log, &below_sources, depth + 1)?,
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn add(&self, log: &Log, module: &Module) -> Result<(), Failure> {
        let Some(path) = below(self.folder.path(), Path::new(&module.path)) else { return Ok(()) };
        let Some(ModuleFiles { main, debug, shared }) = module_files(log.source(), module) else { return Ok(()) };
        write(&path, &main)?;
        let debug = debug.map(|bytes| (module.build_id.clone(), bytes));
        for (id, bytes) in debug.into_iter().chain(shared) {
            // An id is hexadecimal, whatever the log says.
            if id.len() > 2 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                let name = format!(".build-id/{}/{}.debug", &id[..2], &id[2..]);
                write(&self.path(DEBUG).join(name), &bytes)?;
            }
        }
        Ok(())
    }

    /// A path below the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where a file of the program's machine is, if the log has it.
    pub fn file(&self, path: &str) -> Option<PathBuf> {
        below(self.folder.path(), Path::new(path)).filter(|path| path.is_file())
    }

    /// What makes gdb use it.
    pub fn commands(&self) -> Vec<String> {
        let root = self.folder.path().display();
        let mut commands =
            vec![format!("set sysroot {root}"), format!("set debug-file-directory {root}/{DEBUG}:/{DEBUG}")];
        if self.has_sources {
            commands.push(format!("directory {root}/{SOURCES}"));
        }
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_out() {
        let place = |path: &str| below(Path::new("/tmp/x"), Path::new(path));
        assert_eq!(place("/usr/bin/bc"), Some("/tmp/x/usr/bin/bc".into()));
        assert_eq!([place("/"), place("bc"), place("/usr/../../etc/passwd"), place("[vdso]")], [const { None }; 4]);
    }
}
