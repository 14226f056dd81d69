//! Finds the log that the user means, and the tools to replay it.

use crate::args::{LogArg, ProcessArg, TimeArg};
use crate::encrypted::{decrypt, is_encrypted};
use crate::ending::heed;
use crate::expand::{Asked, From, has, is_made};
use crate::failure::Failure;
use crate::light::Light;
use crate::pack::beside;
use crate::recordings::{LATEST, default_folder, lock};
use crate::terminal::Bar;
use bugnet_format::FormatError;
use bugnet_format::folder::META_FILE;
use bugnet_format::light;
use bugnet_format::pack::ReadAt;
use bugnet_format::source::{Source, open_file};
use bugnet_replay::ReplayError;
use bugnet_replay::cursor;
use bugnet_replay::location::Location;
use bugnet_replay::tools::Tools;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// So many bytes tell whether a file is encrypted.
const START: u64 = 64;

/// What replay needs, and how long it may take.
pub fn tools(time: &TimeArg) -> Result<Tools, ReplayError> {
    let mut tools = Tools::locate()?;
    tools.time_limit = time.timeout.map(Duration::from_secs);
    Ok(tools)
}

/// The same for a command that takes long: it tells what it knows where Ctrl-C ends it.
pub fn tools_that_tell(time: &TimeArg) -> Result<Tools, Failure> {
    let tools = tools(time)?;
    heed(&tools.work)?;
    Ok(tools)
}

/// The same for one that shows what it does by the instructions that it goes through.
pub fn tools_that_show(time: &TimeArg) -> Result<Tools, Failure> {
    let tools = tools_that_tell(time)?;
    tools.work.watch_by(Bar::new());
    Ok(tools)
}

/// The log that the user means, opened: a folder or a packed file, by its path or its name where logs lie by default; without a
/// name, the latest there. Until this process ends, nobody removes it.
pub fn find_log(arg: &LogArg) -> Result<Source, Failure> {
    find_log_asked(arg, Asked::All)
}

/// The same for a command that looks at one process.
pub fn find_log_of_one(arg: &LogArg, process: &ProcessArg) -> Result<Source, Failure> {
    find_log_asked(arg, one(process))
}

/// What such a command asks of a light log.
pub fn one(process: &ProcessArg) -> Asked<'_> {
    Asked::One(process.process.as_deref())
}

/// The same, from this location on at least; without one, its end.
pub fn find_log_from(arg: &LogArg, process: &ProcessArg, location: Option<&Location>) -> Result<Source, Failure> {
    let name = process.process.as_deref();
    let asked = match location {
        None | Some(Location::Position(cursor::Seek::End)) => Asked::End(name, From::Last),
        Some(Location::Position(cursor::Seek::Place(place))) => {
            Asked::End(name, From::Part(place.interval.0 / light::layout::INTERVALS))
        }
        Some(_) => Asked::One(name),
    };
    find_log_asked(arg, asked)
}

/// The same for a command that looks at the processes that the user selects, or all.
pub fn find_log_of(arg: &LogArg, process: &ProcessArg) -> Result<Source, Failure> {
    find_log_asked(arg, some(process))
}

/// What such a command asks of a light log.
pub fn some(process: &ProcessArg) -> Asked<'_> {
    process.process.as_deref().map_or(Asked::All, Asked::Some)
}

/// The same, of which a light one stays as it is.
pub fn find_log_as_it_is(arg: &LogArg) -> Result<Source, Failure> {
    open(&locked(arg)?, arg)
}

/// The same, of which a light one is made as far as is asked.
pub fn find_log_asked(arg: &LogArg, asked: Asked<'_>) -> Result<Source, Failure> {
    let path = locked(arg)?;
    let source = open(&path, arg)?;
    let folder = if source.pack().is_some() { beside(&source, arg)? } else { Some(path) };
    let Some(folder) = folder else { return Ok(source) };
    crate::expand::ensure(&folder, asked)?;
    Ok(folder.as_path().into())
}

/// The folder, or the packed file, at a path.
fn open(path: &Path, arg: &LogArg) -> Result<Source, Failure> {
    let Some(mut file) = open_file(path)? else { return Ok(path.into()) };
    let mut start = Vec::new();
    (&mut file).take(START).read_to_end(&mut start).map_err(FormatError::io(path))?;
    file.rewind().map_err(FormatError::io(path))?;
    let bytes: Arc<dyn ReadAt> =
        if is_encrypted(&start) { Arc::new(decrypt(path, file, &arg.identity)?) } else { Arc::new(file) };
    Ok(Source::packed(path, bytes)?)
}

/// The log that the user means, if it is a light one of which what is asked has not been made yet.
pub fn find_light(arg: &LogArg, asked: Asked<'_>) -> Result<Option<Light>, Failure> {
    let path = locked(arg)?;
    let folder = if path.is_file() { beside(&open(&path, arg)?, arg)? } else { Some(path) };
    let light = folder.filter(|folder| !is_made(folder)).map(|folder| Light::read(&folder)).transpose()?;
    Ok(light.filter(|light| !has(light, asked)))
}

/// Where the log lies that the user means; until this process ends, nobody removes it.
fn locked(arg: &LogArg) -> Result<PathBuf, Failure> {
    let path = find_in(arg.log.as_deref(), default_folder(|name| std::env::var_os(name)))?;
    // Other than the path, the lock lasts as long as this process.
    std::mem::forget(lock::using(&path));
    Ok(path)
}

fn find_in(given: Option<&Path>, default_folder: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let Some(given) = given else {
        let folder = default_folder.ok_or(Failure::NoPlace)?;
        // The folder's own name says more than the link's.
        let link = folder.join(LATEST);
        return link.canonicalize().map_err(|_| match link.read_link() {
            Ok(to) => Failure::LatestGone(folder.join(to)),
            Err(_) => Failure::NoLatest(folder),
        });
    };
    let is_name = given.file_name() == Some(given.as_os_str());
    if is_name && !given.exists() {
        let is_log = |path: &PathBuf| path.is_file() || path.join(META_FILE).is_file();
        let named = default_folder.map(|folder| folder.join(given)).filter(is_log);
        if let Some(named) = named {
            return Ok(named);
        }
    }
    Ok(given.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_names_and_paths() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let find = |given: Option<&str>| find_in(given.map(Path::new), Some(folder.clone()));
        assert!(matches!(find(None), Err(Failure::NoLatest(_))));
        std::fs::create_dir(folder.join("ls-0")).unwrap();
        std::fs::write(folder.join("ls-0").join(META_FILE), "{}").unwrap();
        std::os::unix::fs::symlink("ls-0", folder.join(LATEST)).unwrap();
        assert_eq!(find(None).unwrap(), folder.join("ls-0"));
        assert_eq!(find(Some("ls-0")).unwrap(), folder.join("ls-0"));
        assert_eq!(find(Some("ls-1")).unwrap(), Path::new("ls-1"));
        assert_eq!(find(Some("./ls-0")).unwrap(), Path::new("./ls-0"));
        assert!(matches!(find_in(None, None), Err(Failure::NoPlace)));
    }
}
