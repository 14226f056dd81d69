//! The dynamic loader's code: there is much of it in the start of every program, and hardly any of it runs often. To
//! translate it takes longer than to run it, most of all to translate what leads to slow paths out of the way. In this code
//! they lie where they are wanted, in one piece with the check, which jumps over them.

use bugnet_dr::process::{main_module, module_at};
use std::ops::Range;
use std::sync::OnceLock;

/// Where the dynamic loader is; nowhere in a program without one.
static LOADER: OnceLock<Range<u64>> = OnceLock::new();

/// Whether code at `pc` is the dynamic loader's. The program's first block is asked for first: it is the loader's, or there
/// is none.
pub(super) fn has(pc: u64) -> bool {
    LOADER.get_or_init(|| module_but_program(pc)).contains(&pc)
}

/// The module in which an address is, unless that is the program itself.
fn module_but_program(pc: u64) -> Range<u64> {
    let [found, program] = [module_at(pc), main_module()].map(|module| module.map(|module| module.range));
    if found == program { Range::default() } else { found.unwrap_or_default() }
}
