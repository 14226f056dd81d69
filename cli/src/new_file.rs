//! Files that commands make: there are none of them before they are whole, and none is written over.

use crate::ending::Ends;
use crate::failure::Failure;
use bugnet_replay::new_file::NewFile;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Fails if there is something at the path: known before all the work.
pub fn check_free(path: &Path) -> Result<(), Failure> {
    match path.symlink_metadata() {
        Ok(_) => Err(Failure::Usage(format!("{} is there already", path.display()))),
        Err(_) => Ok(()),
    }
}

/// Makes a file of what `write` writes.
pub fn make<T>(path: &Path, write: impl FnOnce(&mut BufWriter<&File>) -> Result<T, Failure>) -> Result<T, Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = || Failure::system(format!("write {}", path.display()));
    let (file, ends) = Ends::with(|| NewFile::create(folder).map_err(failed()), NewFile::other_name)?;
    let mut to = BufWriter::new(file.file());
    let done = write(&mut to)?;
    to.flush().map_err(failed())?;
    drop(to);
    file.persist(path).map_err(failed())?;
    drop(ends);
    Ok(done)
}
