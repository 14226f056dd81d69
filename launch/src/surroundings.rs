//! Whether the surroundings of a process leave room for the recorder.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use std::path::Path;

/// Descriptors that the recorder needs at least, beside those that the program has open.
const DESCRIPTORS: u64 = 16;
/// Bytes that a file of the log has to be able to have.
const FILE: u64 = 2 << 20;
/// What DynamoRIO and the logger find out about the process from.
const MAPS: &str = "/proc/self/maps";

/// Why a program that this process executes cannot be recorded, in a sentence; none if all is well. The kernel's limits count.
#[must_use]
pub fn obstacle() -> Option<String> {
    let limit = |resource| getrlimit(resource).unwrap_or((RLIM_INFINITY, RLIM_INFINITY));
    let (_, descriptors) = limit(Resource::RLIMIT_NOFILE);
    if descriptors < DESCRIPTORS {
        return Some(format!(
            "no more than {descriptors} descriptors can be open (ulimit -n), and the recorder needs some"
        ));
    }
    let (file, _) = limit(Resource::RLIMIT_FSIZE);
    if file < FILE {
        return Some(format!("no file can be larger than {file} bytes (ulimit -f), which is too little for a log"));
    }
    let memory = [(Resource::RLIMIT_AS, "address space (ulimit -v)"), (Resource::RLIMIT_DATA, "data (ulimit -d)")];
    for (resource, what) in memory {
        let (most, _) = limit(resource);
        if most != RLIM_INFINITY {
            return Some(format!("there can be no more than {most} bytes of {what}, and the recorder needs more"));
        }
    }
    if !Path::new(MAPS).exists() {
        return Some(format!("there is no {MAPS}, which the recorder needs: is /proc mounted?"));
    }
    // DynamoRIO asks by its number, as which it would see another process, or none.
    let own = std::fs::read_link("/proc/self").unwrap_or_default();
    let is_own = own == Path::new(&std::process::id().to_string());
    (!is_own)
        .then(|| "/proc belongs to another process id namespace, and the recorder needs the program's own".to_owned())
}
