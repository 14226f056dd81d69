//! Files that commands make: there are none of them before they are whole, and none is written over but a page of bugnet's own.

use crate::ending::Ends;
use crate::failure::Failure;
use bugnet_replay::new_file::NewFile;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

/// Fails if there is something at the path: known before all the work.
pub fn check_free(path: &Path) -> Result<(), Failure> {
    match path.symlink_metadata() {
        Ok(_) => Err(Failure::Usage(format!("{} is there already", path.display()))),
        Err(_) => Ok(()),
    }
}

/// What the beginning of a page says that a command has made.
const PAGE: &[u8] = b"<meta name=\"generator\" content=\"bugnet\">";

/// Whether there is a page of bugnet's, of which another one may take the place.
fn is_page(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let file = path.symlink_metadata().ok().filter(std::fs::Metadata::is_file).and_then(|_| File::open(path).ok());
    file.is_some_and(|file| file.take(512).read_to_end(&mut beginning).is_ok())
        && beginning.windows(PAGE.len()).any(|bytes| bytes == PAGE)
}

/// Whether a page may be made here: there is nothing, or another one.
pub fn check_page(path: &Path) -> Result<(), Failure> {
    if is_page(path) { Ok(()) } else { check_free(path) }
}

/// Makes a file of what `write` writes, or makes a page anew.
pub fn make<T>(path: &Path, write: impl FnOnce(&mut BufWriter<&File>) -> Result<T, Failure>) -> Result<T, Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = || Failure::system(format!("write {}", path.display()));
    let (file, ends) = Ends::with(|| NewFile::create(folder).map_err(failed()), NewFile::other_name)?;
    let mut to = BufWriter::new(file.file());
    let done = write(&mut to)?;
    to.flush().map_err(failed())?;
    drop(to);
    if is_page(path) { file.replace(path) } else { file.persist(path) }.map_err(failed())?;
    drop(ends);
    Ok(done)
}
