//! Whether flags are dead behind a block: looks on from its end, through jumps and calls, at what comes next.
//!
//! What is found there holds as long as the code does: the block has to go when one of the pages that were looked at
//! changes.

use crate::code::Code;
use crate::instruction;
use bugnet_dr::access::classify;
use bugnet_dr::decode::Decoder;
use bugnet_dr::ir::{ARITHMETIC, Block, Instr};
use bugnet_dr::liveness;
use bugnet_format::types::Addr;

/// Instructions that are looked at on each way.
const STEPS: usize = 12;

/// Where a block may go on.
#[derive(Default)]
struct Ways(Vec<u64>);

impl Ways {
    /// Behind the block's last instruction; none if it is not known.
    fn behind(last: Instr, next: u64) -> Self {
        match (last.is_cti(), last.direct_target()) {
            (false, _) => Self(vec![next]),
            (true, Some(target)) if last.is_conditional() => Self(vec![target, next]),
            (true, Some(target)) => Self(vec![target]),
            (true, None) => Self::default(),
        }
    }
}

/// Flags, bits of [`ARITHMETIC`], that may be read behind a block that ends with `last`, behind which `next` is, and the pages whose code says
/// that others are not.
pub fn live_behind(block: &Block, last: Instr, next: u64, code: &Code) -> (u32, Vec<u64>) {
    let Ways(ways) = Ways::behind(last, next);
    if ways.is_empty() {
        return (ARITHMETIC, Vec::new());
    }
    // SAFETY: the thread's own context, in an event of DynamoRIO's.
    let mut decoder = unsafe { Decoder::new(block.context) };
    let mut pages = Vec::new();
    let live = ways.into_iter().fold(0, |live, way| live | live_at(&mut decoder, way, code, &mut pages));
    (live, pages)
}

fn live_at(decoder: &mut Decoder, start: u64, code: &Code, pages: &mut Vec<u64>) -> u32 {
    let (mut pc, mut live, mut open) = (start, 0, ARITHMETIC);
    for _ in 0..STEPS {
        if open == 0 {
            return live;
        }
        let Some((instr, len)) = decoder.decode(pc, &code.instruction(pc)) else { break };
        let len = len as u64;
        if !code.has(pc, len) || !instruction::runs(&classify(instr)) {
            break;
        }
        for at in [pc, pc + len - 1].map(|at| Addr(at).page().0) {
            if !pages.contains(&at) {
                pages.push(at);
            }
        }
        let effects = liveness::effects(instr);
        live |= effects.read.flags & open;
        open &= !effects.read.flags & !effects.overwritten.flags;
        pc = match (instr.is_cti(), instr.direct_target()) {
            (false, _) => pc + len,
            (true, Some(target)) if !instr.is_conditional() => target,
            _ => break,
        };
    }
    live | open
}
