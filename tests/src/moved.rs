//! A bugnet that was moved as one folder.

use crate::bugnet::{binary, install, printed, run};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Copies a folder; everybody may read the copy.
///
/// # Errors
/// The operating system's.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let output = run(Command::new("cp").arg("-r").arg(from).arg(to))?;
    ensure!(output.status.success(), "cp\n{}", printed(&output));
    readable_by_all(to)
}

/// A folder with a bugnet in it, laid out as installed, that any user can run. It is removed when this is dropped.
#[derive(Debug)]
pub struct Moved {
    /// The folder.
    pub folder: PathBuf,
}

impl Moved {
    /// Makes it, in the folder for temporary files.
    ///
    /// # Errors
    /// bugnet is not built, or the operating system's.
    pub fn new(name: &str) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("bugnet-test-{name}-{}", std::process::id()));
        let (bin, lib) = (folder.join("bin"), folder.join("lib/bugnet"));
        fs::create_dir_all(&bin)?;
        fs::create_dir_all(lib.parent().context("lib/bugnet has a parent")?)?;
        install(&binary()?, &bin.join("bugnet"))?;
        let built = binary()?.parent().context("bugnet lies in a folder")?.to_owned();
        let installed = built.join("../lib/bugnet");
        if installed.is_dir() {
            copy(&installed, &lib)?;
        } else {
            fs::create_dir_all(&lib)?;
            for name in ["libbugnet_logger.so", "libbugnet_replayer.so", "replay-host", "bugnet-capture"] {
                install(&built.join(name), &lib.join(name))?;
            }
            fs::copy(dynamorio(&built)?, lib.join("libdynamorio.so"))?;
        }
        readable_by_all(&folder)?;
        Ok(Self { folder })
    }

    /// The executable.
    #[must_use]
    pub fn bugnet(&self) -> PathBuf {
        self.folder.join("bin/bugnet")
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        // A folder that stays behind in the temporary folder harms nobody.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn readable_by_all(folder: &Path) -> Result<()> {
    let output = run(Command::new("chmod").args(["-R", "a+rX"]).arg(folder))?;
    ensure!(output.status.success(), "chmod\n{}", printed(&output));
    Ok(())
}

/// The newest libdynamorio.so that cargo built, below the folder that has bugnet.
///
/// # Errors
/// There is none.
pub fn dynamorio(built: &Path) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(built.join("build"))? {
        let path = entry?.path().join("out/build/lib64/release/libdynamorio.so");
        if let Ok(metadata) = path.metadata() {
            found.push((metadata.modified()?, path));
        }
    }
    found.sort();
    Ok(found.pop().with_context(|| format!("no libdynamorio.so below {}", built.display()))?.1)
}
