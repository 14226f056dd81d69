//! Which frame of a stack is the first one in the user's own code: judged by the ELF file that it is in.

use crate::backtrace::Frame;
use serde::Serialize;

/// Folders in which a system keeps the libraries that are not the user's.
const SYSTEM_FOLDERS: [&str; 8] =
    ["/lib/", "/lib64/", "/lib32/", "/usr/lib/", "/usr/lib64/", "/usr/lib32/", "/usr/libexec/", "/nix/store/"];

/// Where systems and compilers keep sources that are not the user's: of templates and inlined functions.
const SYSTEM_SOURCES: [&str; 5] = ["/usr/include/", "/usr/lib/", "/usr/local/include/", "/usr/src/", "/rustc/"];

/// The first frame that is not in a library of the system's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnFrame {
    /// Its number in the backtrace.
    pub frame: usize,
    /// The file that it is in.
    pub file: String,
    /// Why: what the file is.
    pub because: &'static str,
    /// The files of the frames inside it.
    pub behind: Vec<String>,
}

/// Whether a file is a library of the system's, or the kernel's.
#[must_use]
pub fn is_system(path: &str) -> bool {
    !path.starts_with('/') || SYSTEM_FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// Whether a source file is of the system or of the compiler.
#[must_use]
pub fn is_system_source(file: &str) -> bool {
    SYSTEM_SOURCES.iter().any(|folder| file.starts_with(folder))
}

/// The first frame in the user's own code; `program` is the path of the program's file.
pub(super) fn first(backtrace: &[Frame], program: &str) -> Option<OwnFrame> {
    let file = |frame: &Frame| frame.place.module.as_ref().map(|module| module.path.clone());
    let because = |path: &str| {
        if path == program {
            Some("the program itself")
        } else if !is_system(path) {
            Some("not in a folder of the system's libraries")
        } else {
            None
        }
    };
    let found = |(number, frame): (usize, &Frame)| Some((number, file(frame)?, because(&file(frame)?)?));
    let (frame, own, because) = backtrace.iter().enumerate().find_map(found)?;
    let mut behind: Vec<String> = backtrace[..frame].iter().filter_map(file).collect();
    behind.dedup();
    Some(OwnFrame { frame, file: own, because, behind })
}
