//! Finds the log that the user means, and the tools to replay it.

use crate::args::TimeArg;
use crate::failure::Failure;
use crate::record::{LATEST, default_folder};
use bugnet_format::folder::META_FILE;
use bugnet_replay::ReplayError;
use bugnet_replay::tools::Tools;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What replay needs, and how long it may take.
pub fn tools(time: &TimeArg) -> Result<Tools, ReplayError> {
    let mut tools = Tools::locate()?;
    tools.time_limit = time.timeout.map(Duration::from_secs);
    Ok(tools)
}

/// The folder of the log that `given` names: a path, or the name of a log where logs lie by default; without a name,
/// the latest there.
pub fn find_log(given: Option<&Path>) -> Result<PathBuf, Failure> {
    find_in(given, default_folder(|name| std::env::var_os(name)))
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
        let named = default_folder.map(|folder| folder.join(given)).filter(|path| path.join(META_FILE).is_file());
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
