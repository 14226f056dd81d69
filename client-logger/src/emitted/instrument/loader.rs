//! The dynamic loader's code: there is much of it in the start of every program, and hardly any of it runs often. To
//! translate it takes longer than to run it, most of all to translate what leads to slow paths out of the way. In this code
//! they lie where they are wanted, in one piece with the check, which jumps over them.

use bugnet_dr::sys;
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
    let extent = |module: *mut sys::module_data_t| {
        // SAFETY: null or a description of a module, which is ours to free; the union's fields are one address.
        unsafe {
            let range = module.as_ref().map(|data| data.__bindgen_anon_1.start as u64..data.end as u64);
            if !module.is_null() {
                sys::dr_free_module_data(module);
            }
            range
        }
    };
    // SAFETY: asks about an address, and for the main module; both answers are copies.
    let [found, program] = unsafe { [extent(sys::dr_lookup_module(pc as *mut u8)), extent(sys::dr_get_main_module())] };
    if found == program { Range::default() } else { found.unwrap_or_default() }
}
