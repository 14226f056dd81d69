//! Copies of ELF and debug files that a log lacks: they are made now, from the files of this machine.

use super::contents::Contents;
use crate::failure::Failure;
use crate::temporary::{Kind, Temporary};
use bugnet_format::folder::{ELF_FOLDER, Module, Recording};
use bugnet_replay::symbols::pack_elf;

/// The copies, in a folder that goes when this is dropped.
pub struct Copies(#[expect(dead_code, reason = "removed when it is dropped")] Temporary);

impl Copies {
    /// Makes them, and adds them to what goes into a packed file. Files that are not here, or are others by now, are left out.
    pub fn make(recording: &Recording, contents: &mut Contents) -> Result<Self, Failure> {
        let folder = Temporary::new(Kind::Pack)?;
        let mut modules: Vec<Module> = Vec::new();
        for process in recording.processes()? {
            modules.extend(recording.modules(process)?);
        }
        // Also those of which the log has a copy may lack the debug information that was split off. A file of this machine without a build
        // id might be anything.
        modules.retain(|module| !module.build_id.is_empty());
        if !modules.is_empty() {
            pack_elf(folder.path(), &modules)?;
            for entry in std::fs::read_dir(folder.path().join(ELF_FOLDER)).into_iter().flatten().flatten() {
                if let Some(name) = entry.file_name().to_str() {
                    contents.add(format!("{ELF_FOLDER}/{name}"), entry.path());
                }
            }
        }
        Ok(Self(folder))
    }
}
