//! Programs with threads that rarely go wrong, `programs/rare/*.c`: one for each classic kind of fault. They fail by a signal.

use crate::bugnet::{printed, run, source_tree};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that fails rarely.
#[derive(Clone, Debug)]
pub struct Rare {
    /// Its name.
    pub name: String,
    /// What is wrong with it: its first line.
    pub description: String,
    source: PathBuf,
}

impl Rare {
    /// All of them, by their names.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn all() -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(source_tree().join("tests/programs/rare"))? {
            let source = entry?.path();
            if source.extension().is_some_and(|extension| extension == "c") {
                let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let text = fs::read_to_string(&source)?;
                let first = text.lines().next().and_then(|line| line.strip_prefix("// "));
                let description = first.with_context(|| format!("{name} does not say what is wrong"))?.to_owned();
                all.push(Self { name, description, source });
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// The one of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn named(name: &str) -> Result<Self> {
        Self::all()?.into_iter().find(|rare| rare.name == name).with_context(|| format!("there is no program {name}"))
    }

    /// Builds it in a folder.
    ///
    /// # Errors
    /// There is no compiler, or it complains.
    pub fn build(&self, folder: &Path) -> Result<PathBuf> {
        let program = folder.join(&self.name);
        let output =
            run(Command::new("gcc").args(["-O1", "-g", "-pthread", "-Wall", "-o"]).arg(&program).arg(&self.source))?;
        ensure!(output.status.success(), "compiling {}\n{}", self.source.display(), printed(&output));
        Ok(program)
    }
}
