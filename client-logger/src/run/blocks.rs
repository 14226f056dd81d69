//! DynamoRIO's event for each block that it builds.

use crate::base::failure::{attempt, fail};
use crate::base::fs_base::Guard;
use crate::base::light;
use crate::emitted::instrument;
use crate::run::thread;
use bugnet_dr::events::{Bool, EMIT, EMIT_TRANSLATIONS, Emit};
use bugnet_dr::ir::{Block, List};
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
    let tag = tag as u64;
    if light::comes_before(tag) {
        return EMIT;
    }
    let observe = |start, len| {
        // SAFETY: in the event.
        let thread = unsafe { thread::of(context) };
        thread.map_or(CodeSeq(0), |thread| thread.observe_code(start, len))
    };
    // SAFETY: in the event.
    let rewrite = || unsafe { instrument::rewrite(context, tag, list, translating != 0, observe) };
    if let Some(emit) = attempt(rewrite) {
        return emit;
    }
    // What is half done goes. Nothing is recorded any more, which takes less.
    // SAFETY: in the event.
    let block = unsafe { Block::new(context, list) };
    let begin_anew = || {
        if !block.begin_anew(tag) {
            fail("the recorder failed where it translated code that is gone");
        }
    };
    begin_anew();
    // SAFETY: in the event.
    let again = || unsafe { instrument::rewrite(context, tag, list, translating != 0, |_, _| CodeSeq(0)) };
    if attempt(again).is_none() {
        begin_anew();
    }
    // DynamoRIO cannot have the same block made again.
    EMIT_TRANSLATIONS
}
