//! The DynamoRIO client that replays checkpoint intervals, one after another.
//!
//! [`bugnet_format::package`] comes in as a descriptor, [`bugnet_format::control`] goes over another one, and nothing
//! else comes from outside. The parts:
//!
//! - `block`: instruments blocks so that `engine::Engine` is called at each position at which something is due
//! - `stub`: how blocks call the client; `light`: how such a call saves the registers; `slots`: thread-local words that the two share
//! - `counter`: how blocks count in a register that the program may use, too; `ahead`: where they may change flags
//! - `site`: the places in blocks from which they call; `tags`: names for copies of blocks
//! - `due`: what is due at most positions, `LOAD` records, without DynamoRIO's help
//! - `engine`: what else is due: applies records, changes threads, stops, answers requests
//! - `context`: a recorded thread: its records, and where it is in them
//! - `loaded`: the package
//! - `machine`: the registers, in DynamoRIO's form and in the log's
//! - `memory`: the recorded program's memory; `code`: its code, in all versions
//! - `instruction`: where an instruction reads, so that a `LOAD` record finds its place
//! - `signal`: faults: memory on demand, and those that mean divergence
//! - `output`: what a system call wrote
//! - `watch`: what was run at an address, and what wrote it
//! - `accesses`: what an instruction is going to read and write
//! - `conditions`: what an execution is watched for; `glance`: whether it is worth watching; `fork`: copies of the process, to go back to
//! - `touched`: which bytes of memory are known; `marks`: how the code cache says which it has accessed; `marking`: where in a
//!   block it does; `fs_base`: the register that it takes; `executed`: which code was run; `ranges`: sets of addresses
//! - `trace`: what is executed, written down for analyses
//! - `shades`: which memory must not be accessed; `shading`: how the code cache looks at accesses for that
//! - `keeper`: the heap of a process that has one thread, kept along with an outline
//! - `confine`: the system calls that the process keeps
//! - `compare`: whether the memory of all threads explains what each of them read; `comparing`: how the code cache finds out by itself;
//!   `places`: where it finds bytes of its own; `place`, `operand`: machine code for that, by `assembler`
//!
//! The threads of a package, one or all of a process, run one after the other on the one thread of the replay process. All
//! state is in one `engine::Engine`, which the events reach through `state`.

mod accesses;
mod ahead;
mod assembler;
mod block;
mod code;
mod compare;
mod comparing;
mod conditions;
mod confine;
mod context;
mod counter;
mod due;
mod engine;
mod executed;
mod expression;
mod fork;
mod fs_base;
mod glance;
mod instruction;
mod jumps;
mod keeper;
mod light;
mod lines;
mod loaded;
mod looks;
mod machine;
mod marking;
mod marks;
mod memory;
mod operand;
mod output;
mod place;
mod places;
mod ranges;
mod shades;
mod shading;
mod signal;
mod site;
mod slots;
mod spare;
mod state;
mod stub;
mod tags;
mod touched;
mod trace;
mod watch;

use bugnet_dr::process::VERSION;
use std::ffi::{CStr, c_char, c_int};

/// DynamoRIO's version for which the client was built; DynamoRIO looks for the symbol.
#[unsafe(no_mangle)]
pub static _USES_DR_VERSION_: c_int = VERSION;

/// Prefix of the option by which the replay host tells where its window begins.
const WINDOW_OPTION: &str = "window=";

/// DynamoRIO's entry into the client.
///
/// # Safety
/// DynamoRIO calls it once, with `argc` strings in `argv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dr_client_main(_id: u32, argc: c_int, argv: *mut *const c_char) {
    std::panic::set_hook(Box::new(|info| state::die(&info.to_string())));
    let args = (0..usize::try_from(argc).unwrap_or(0)).map(|i| {
        // SAFETY: the caller's promise.
        unsafe { CStr::from_ptr(argv.add(i).read()) }.to_string_lossy().into_owned()
    });
    let window = args
        .filter_map(|arg| u64::from_str_radix(arg.strip_prefix(WINDOW_OPTION)?.trim_start_matches("0x"), 16).ok())
        .next();
    let Some(window) = window else { state::die("the replay host did not say where its window is") };
    if let Err(why) = state::start(window) {
        state::die(&why);
    }
}
