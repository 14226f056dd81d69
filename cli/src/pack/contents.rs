//! What goes into a packed file: all that bugnet has written into the log, and nothing that somebody else has put beside it.

use crate::expand::{EXPANDED, is_made};
use crate::failure::Failure;
use bugnet_format::files::{self, LogFile, MAX_BINARY_FILE};
use bugnet_format::folder::{ELF_FOLDER, META_FILE, SOURCES_FOLDER};
use bugnet_format::light::{KEPT, LIGHT_FILES, LIGHT_FOLDER};
use bugnet_format::pack::Kind;
use bugnet_format::source::Source;
use bugnet_format::types::ProcessId;
use bugnet_format::{FormatError, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Folders lie no deeper than this.
const DEEPEST: usize = 300;

/// Where the contents of a file are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The log itself.
    Log,
    /// A file of this machine.
    File(PathBuf),
    /// It is a folder with nothing in it.
    EmptyFolder,
}

/// The files of a packed file, by name.
#[derive(Debug, Default)]
pub struct Contents(BTreeMap<String, Place>);

impl Contents {
    /// Those of a log.
    pub fn of(log: &Source) -> Result<Self> {
        let mut contents = Self::default();
        match log.pack() {
            Some(pack) => {
                for (name, kind, _) in pack.entries().filter(|(name, ..)| belongs(name)) {
                    let from = if kind == Kind::Folder { Place::EmptyFolder } else { Place::Log };
                    contents.0.insert(name.to_owned(), from);
                }
            }
            None => {
                contents.walk(log.path(), "", 0)?;
                if is_made(log.path()) {
                    // All that a light log says is in the log that was made of it.
                    contents.0.retain(|name, _| !is_light(name));
                }
            }
        }
        Ok(contents)
    }

    fn walk(&mut self, folder: &Path, name: &str, depth: usize) -> Result<()> {
        let mut is_empty = true;
        for entry in std::fs::read_dir(folder).map_err(FormatError::io(folder))? {
            let entry = entry.map_err(FormatError::io(folder))?;
            let Some(own) = entry.file_name().to_str().map(str::to_owned) else { continue };
            let own = if name.is_empty() { own } else { format!("{name}/{own}") };
            let kind = entry.file_type().map_err(FormatError::io(&entry.path()))?;
            if !belongs(&own) {
                continue;
            }
            // Links and other things are not a log's.
            if kind.is_dir() && depth < DEEPEST {
                self.walk(&entry.path(), &own, depth + 1)?;
            } else if kind.is_file() {
                self.0.insert(own, Place::Log);
            } else {
                continue;
            }
            is_empty = false;
        }
        if is_empty && !name.is_empty() {
            self.0.insert(name.to_owned(), Place::EmptyFolder);
        }
        Ok(())
    }

    /// Adds a file of this machine, unless there is one of this name.
    pub fn add(&mut self, name: String, path: PathBuf) -> bool {
        // What was a folder with nothing in it is none any more.
        if let Some((folder, _)) = name.rsplit_once('/') {
            self.0.remove(folder);
        }
        let is_new = !self.0.contains_key(&name);
        if is_new {
            self.0.insert(name, Place::File(path));
        }
        is_new
    }

    /// All of them, ascending by name.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Place)> {
        self.0.iter().map(|(name, from)| (name.as_str(), from))
    }
}

/// Whether this is a part of a light log.
pub fn is_light(name: &str) -> bool {
    name.split('/').next() == Some(LIGHT_FOLDER)
}

/// Whether bugnet gives such a name to what is a part of a log, and to what is whole.
fn belongs(name: &str) -> bool {
    let mut parts = name.split('/');
    let first = parts.next().unwrap_or(name);
    if first == LIGHT_FOLDER {
        return match (parts.next(), parts.next()) {
            (None, _) => true,
            (Some(LIGHT_FILES), _) => !name.ends_with(".new"),
            (Some(file), None) => [EXPANDED, KEPT].contains(&file) || file.starts_with('p') && !file.ends_with(".new"),
            _ => false,
        };
    }
    let process = first.strip_prefix('p').is_some_and(|id| id.parse::<ProcessId>().is_ok());
    let sources = first == SOURCES_FOLDER;
    // A file that is being replaced has another name until it is whole.
    (process || sources || first == ELF_FOLDER || name == META_FILE) && (sources || !name.ends_with(".new"))
}

/// How a file of a log is kept: interval files and copies of ELF files are compressed already.
pub fn kind(name: &str) -> Kind {
    if name.ends_with(".bni") || name.ends_with(".zst") { Kind::Stored } else { Kind::Compressed }
}

/// Opens a file of a log, of whatever kind.
pub fn open(log: &Source, path: &Path) -> std::result::Result<LogFile, Failure> {
    Ok(files::open(log, path, MAX_BINARY_FILE)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_log() {
        for name in [
            "recording.json",
            "p1",
            "p1.2/t3.4/00000000.bni",
            "elf/x.zst",
            "sources/etc/x.new",
            "light/p1.0.1.zst",
            "light/expanded",
            "light/files/a-b",
        ] {
            assert!(belongs(name), "{name}");
        }
        for name in [
            "notes.txt",
            ".handover",
            "p1x/code.bnc",
            "recording.json.new",
            "p1/process.json.new",
            "px",
            "elf2",
            "light/unfinished/p1",
            "light/p1.0.zst.new",
        ] {
            assert!(!belongs(name), "{name}");
        }
    }
}
