//! DynamoRIO's event for each block that it builds.

use crate::base::fs_base::Guard;
use crate::emitted::instrument;
use crate::run::thread;
use bugnet_dr::events::{Bool, Emit};
use bugnet_dr::ir::List;
use bugnet_format::types::CodeSeq;
use std::ffi::c_void;

/// DynamoRIO builds a block.
///
/// # Safety
/// DynamoRIO's block event.
pub unsafe extern "C" fn on_block(
    context: *mut c_void,
    tag: *mut c_void,
    list: *mut List,
    _for_trace: Bool,
    translating: Bool,
) -> Emit {
    let _own = Guard::new();
    let observe = |start, len| {
        // SAFETY: in the event.
        let thread = unsafe { thread::of(context) };
        thread.map_or(CodeSeq(0), |thread| thread.observe_code(start, len))
    };
    // SAFETY: in the event.
    unsafe { instrument::rewrite(context, tag as u64, list, translating != 0, observe) }
}
