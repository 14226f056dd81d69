//! Programs of Go, which bring a runtime of their own: it moves goroutines between threads, and stacks in memory, and gives memory out without a call.

use bugnet_format::types::ProcessId;
use bugnet_replay::Result;
use bugnet_replay::crash::is_system;
use bugnet_replay::log::Log;
use bugnet_replay::symbols::main_file;
use object::Object as _;

/// What only files have that Go's linker has made, stripped or not: the runtime needs it.
const SECTION: &str = ".gopclntab";
/// What is not followed of such a program.
pub const UNFOLLOWED: &str =
    "goroutines, their stacks, and what Go's runtime gives out; what belongs to the runtime is left out";
/// What the names of functions begin with that belong to the runtime.
const RUNTIME: [&str; 7] =
    ["runtime.", "runtime/", "internal/runtime", "internal/bytealg", "internal/cpu", "sync/atomic", "_rt0_"];

/// Whether a process has such a program, or a library of Go.
///
/// # Errors
/// The list of its files cannot be read.
pub fn is_there(log: &Log, pid: ProcessId) -> Result<bool> {
    let modules = log.modules(pid)?;
    let own = modules.iter().filter(|module| !is_system(&module.path));
    Ok(own.filter_map(|module| main_file(log.source(), module)).any(|bytes| {
        let file = object::File::parse(&*bytes);
        file.is_ok_and(|file| file.section_by_name(SECTION).is_some())
    }))
}

/// Whether a function of a program of Go belongs to the runtime, as far as it has a name; one without does.
pub fn is_runtimes(function: Option<&str>) -> bool {
    function.is_none_or(|name| RUNTIME.iter().any(|start| name.starts_with(start)))
}
