//! Where bugnet's own programs and libraries lie.
//!
//! They are found relative to the running executable, so that an installation can be moved as one folder:
//!
//! 1. in the folder that `BUGNET_LIB` names, if it is set (and then nowhere else);
//! 2. in `../lib/bugnet` from the executable, as in an unpacked distribution (`bin/bugnet`);
//! 3. in the executable's own folder, or that folder's parent for cargo's test programs (`target/debug/deps`);
//!    `libdynamorio.so` then lies where `dynamorio-sys` was built.

use crate::error::{ReplayError, Result};
use crate::work::Work;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the environment variable that overrides where the tools are looked for.
pub const LIB_VARIABLE: &str = "BUGNET_LIB";

/// One of bugnet's own files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// The program in which an interval is replayed.
    ReplayHost,
    /// DynamoRIO itself.
    DynamoRio,
    /// The client that records.
    Logger,
    /// The client that replays.
    Replayer,
    /// The program that captures others.
    Capture,
}

impl Tool {
    /// All tools.
    pub const ALL: [Self; 5] = [Self::ReplayHost, Self::DynamoRio, Self::Logger, Self::Replayer, Self::Capture];

    /// File name.
    #[must_use]
    pub fn file_name(self) -> &'static str {
        match self {
            Self::ReplayHost => "replay-host",
            Self::DynamoRio => "libdynamorio.so",
            Self::Logger => "libbugnet_logger.so",
            Self::Replayer => "libbugnet_replayer.so",
            Self::Capture => "bugnet-capture",
        }
    }
}

/// The folders in which bugnet's own files lie, how long what is run of them may take, and what is done with them.
#[derive(Clone, Debug)]
pub struct Tools {
    folders: Vec<PathBuf>,
    /// How long the replay of an interval may take, or of all threads together; none for as long as it takes.
    pub time_limit: Option<Duration>,
    /// For which they are used.
    pub work: Work,
}

impl Tools {
    /// Finds the folders for the running executable and environment. Which tools lie there is seen by [`Self::path`].
    ///
    /// # Errors
    /// The system does not tell where the executable lies.
    pub fn locate() -> Result<Self> {
        let exe = std::env::current_exe().map_err(ReplayError::system("find bugnet's own executable"))?;
        Self::locate_for(&exe, std::env::var_os(LIB_VARIABLE))
    }

    /// As [`Self::locate`], for an executable at `exe` and with `lib` as the value of `BUGNET_LIB`.
    ///
    /// # Errors
    /// The executable or the named folder cannot be resolved to an absolute path.
    pub fn locate_for(exe: &Path, lib: Option<OsString>) -> Result<Self> {
        let resolve = |path: &Path| {
            path.canonicalize().map_err(ReplayError::system(format!("find the folder {}", path.display())))
        };
        if let Some(lib) = lib.filter(|lib| !lib.is_empty()) {
            return Ok(Self { folders: vec![resolve(Path::new(&lib))?], time_limit: None, work: Work::default() });
        }
        let exe = resolve(exe)?;
        let own = exe.parent().unwrap_or(Path::new("/"));
        let own = match (own.file_name(), own.parent()) {
            (Some(name), Some(parent)) if name == "deps" => parent,
            _ => own,
        };
        let installed = own.parent().map(|prefix| prefix.join("lib/bugnet"));
        let mut folders: Vec<PathBuf> = installed.into_iter().filter(|folder| folder.is_dir()).collect();
        folders.push(own.to_owned());
        folders.extend(cargo_dynamorio(own));
        Ok(Self { folders, time_limit: None, work: Work::default() })
    }

    /// Absolute path of a tool.
    ///
    /// # Errors
    /// It is in none of the folders.
    pub fn path(&self, tool: Tool) -> Result<PathBuf> {
        let name = tool.file_name();
        let found = self.folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
        found.ok_or_else(|| ReplayError::ToolMissing { name, searched: self.folders.clone() })
    }
}

/// The folder of the newest `libdynamorio.so` that cargo built below `profile` (`target/debug`, for example).
fn cargo_dynamorio(profile: &Path) -> Option<PathBuf> {
    let builds = std::fs::read_dir(profile.join("build")).ok()?;
    let folders = builds.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"dynamorio-sys-"));
    let libraries = folders.filter_map(|entry| {
        let folder = entry.path().join("out/build/lib64/release");
        let built = folder.join(Tool::DynamoRio.file_name()).metadata().and_then(|m| m.modified()).ok()?;
        Some((built, folder))
    });
    libraries.max().map(|(_, folder)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::SystemTime;

    fn put(root: &Path, path: &str) -> PathBuf {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, path.to_str().unwrap()).unwrap();
        path
    }

    #[test]
    fn a_distribution_can_be_moved() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let exe = put(&root, "a/bin/bugnet");
        for tool in Tool::ALL {
            put(&root, &format!("a/lib/bugnet/{}", tool.file_name()));
        }
        let tools = Tools::locate_for(&exe, None).unwrap();
        assert_eq!(tools.path(Tool::Logger).unwrap(), root.join("a/lib/bugnet/libbugnet_logger.so"));
        fs::rename(root.join("a"), root.join("b")).unwrap();
        std::os::unix::fs::symlink(root.join("b/bin/bugnet"), root.join("link")).unwrap();
        let tools = Tools::locate_for(&root.join("link"), None).unwrap();
        for tool in Tool::ALL {
            assert_eq!(tools.path(tool).unwrap(), root.join("b/lib/bugnet").join(tool.file_name()));
        }
    }

    #[test]
    fn cargo_folder_takes_the_newest_dynamorio() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let exe = put(&root, "target/debug/deps/test-1234");
        put(&root, "target/debug/replay-host");
        let library = |hash: &str, age: u64| {
            let path =
                put(&root, &format!("target/debug/build/dynamorio-sys-{hash}/out/build/lib64/release/libdynamorio.so"));
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age)).unwrap();
            path
        };
        library("ffff", 500);
        let newest = library("aaaa", 1);
        library("cccc", 50);
        let tools = Tools::locate_for(&exe, None).unwrap();
        assert_eq!(tools.path(Tool::DynamoRio).unwrap(), newest);
        assert_eq!(tools.path(Tool::ReplayHost).unwrap(), root.join("target/debug/replay-host"));
    }

    #[test]
    fn the_variable_overrides_and_a_missing_tool_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let exe = put(&root, "bin/bugnet");
        put(&root, "lib/bugnet/replay-host");
        put(&root, "other/libdynamorio.so");
        let tools = Tools::locate_for(&exe, Some(root.join("other").into())).unwrap();
        assert!(tools.path(Tool::DynamoRio).is_ok());
        let error = tools.path(Tool::ReplayHost).unwrap_err().to_string();
        assert!(error.starts_with("replay-host is missing"), "{error}");
        assert!(error.contains(root.join("other").to_str().unwrap()), "{error}");
        let error = Tools::locate_for(&exe, Some(root.join("nowhere").into())).unwrap_err().to_string();
        assert!(error.contains("nowhere"), "{error}");
    }
}
