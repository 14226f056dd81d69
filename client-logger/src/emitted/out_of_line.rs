//! Slow paths that lie apart from their blocks: what seldom runs does not thin out what the processor fetches all the time,
//! and DynamoRIO has shorter blocks to emit.
//!
//! ```text
//!     block                                         apart
//!     sub  [counter], n ; js LIMIT
//!     mov  rax, [rbx+8]
//!     cmp  rax, fs:[rbx+8] ; jne ───────────────▶   callout
//!     ...                          ◀── Slot::Return ──┘
//!     LIMIT: callout ; jmp back
//! ```
//!
//! Nobody tells where DynamoRIO puts a block, so such a callout cannot know where it returns to when it is made. But its own
//! address stands in the jump that leads to it: when it is first used, the block's code is looked through for that jump. For
//! this, a block has to tell where it is, and does when it first runs: it calls out at its start whatever the counter says,
//! by way of a conditional jump that is one byte away from the true one, and gets that byte then.

use crate::base::failure::fail;
use crate::emitted::by_rip;
use crate::emitted::callout;
use crate::emitted::lies::{Home, Way, Where};
use crate::emitted::machine::{BEFORE_LIMIT, over_limit};
use crate::emitted::reclaim;
use crate::emitted::site::{CALLOUT, Site};
use bugnet_dr::decode::{self, MAX_LEN};
use iced_x86::{Decoder, DecoderOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// `jno`, the second byte: always taken behind the subtraction from the counter, which never overflows.
const JNO: u8 = 0x81;
/// `js`, the second byte.
const JS: u8 = 0x88;
/// Bytes of a jump, of a short one, and of a conditional one.
const JUMP: u64 = 5;
const SHORT_JUMP: u64 = 2;
/// See [`JUMP`].
pub const CONDITIONAL: u64 = 6;
/// A block that so many thresholds meet runs often: to rewrite it takes the time of some hundred instructions.
const OFTEN: u8 = 2;
/// More bytes than any block has.
const LONGEST_BLOCK: u64 = 256 << 10;

impl Where {
    /// A callout at a block's start is about to return to `back`. If the block runs for the first time, it says where it
    /// is.
    ///
    /// # Safety
    /// In the callout, with what is in [`crate::base::slots::Slot::Return`].
    pub unsafe fn first_run(&self, back: u64) {
        let Self::AtStart { home, way, .. } = self else { return };
        if home.start.load(Ordering::Acquire) != 0 {
            return;
        }
        // SAFETY: the block, to which the caller returns, is there and as it was made. Another thread that executes it meets
        // either instruction, and both have the same length.
        unsafe {
            let (byte, before, now, start) = match way {
                Way::Jump => {
                    let distance = (back as *const u8).add(1).cast::<i32>().read_unaligned();
                    let start = (back + JUMP).wrapping_add_signed(distance.into());
                    (start - CONDITIONAL + 1, JNO, JS, start)
                }
                Way::Over => (back - CALLOUT as u64 - BEFORE_LIMIT - 1, 0, over_limit(), back),
            };
            let byte = &*(byte as *const AtomicU8);
            let found = byte.load(Ordering::Relaxed);
            if found != before && found != now {
                fail("a block in the code cache does not begin as it was made");
            }
            // Another thread that does not come here any more finds where the block is.
            home.start.store(start, Ordering::Release);
            byte.store(now, Ordering::Release);
        }
    }

    /// A threshold has met the block that calls out at its start. If that happens often, lets the block address its slots, the
    /// first of which lies at `slots`, relative to RIP. Returns whether it was not known yet that the block runs often.
    ///
    /// # Safety
    /// In the callout, on the only thread that ever executes the block.
    pub unsafe fn met(&self, slots: u64) -> bool {
        let Self::AtStart { home, way, before } = self else { return false };
        let start = home.start.load(Ordering::Relaxed);
        let met = home.met.load(Ordering::Relaxed);
        if start == 0 || met == OFTEN {
            return false;
        }
        home.met.store(met + 1, Ordering::Relaxed);
        if met + 1 < OFTEN {
            return true;
        }
        // Behind the jump over the callout, which DynamoRIO takes for a part of the block.
        let checks = start + if *way == Way::Over { SHORT_JUMP } else { 0 };
        // SAFETY: the block is there, with the instrumentation's code before its home.
        unsafe {
            by_rip::rewrite(start - *before as u64, Some(start), slots);
            by_rip::rewrite(checks, None, slots);
        }
        true
    }

    /// Where a callout apart from its block returns to.
    ///
    /// # Safety
    /// In this callout, whose block is there.
    pub unsafe fn back(&self) -> Option<u64> {
        let Self::Apart { home, entry, jumps, back } = self else { return None };
        let known = back.load(Ordering::Relaxed);
        if known != 0 {
            return Some(known);
        }
        let start = home.start.load(Ordering::Acquire);
        let (mut at, mut left) = (start, *jumps);
        while left > 0 {
            // SAFETY: the block has jumped here: it is there, from its start up to that jump and to the other ones.
            let (length, code) = unsafe { (length_at(at), (at as *const [u8; CONDITIONAL as usize]).read()) };
            if length == 0 || at - start > LONGEST_BLOCK {
                fail("a block in the code cache has no jump to a callout that it has come to");
            }
            at += length;
            if let [0x0f, 0x80..=0x8f, distance @ ..] = code {
                left -= u32::from(at.wrapping_add_signed(i32::from_le_bytes(distance).into()) == *entry);
            }
        }
        back.store(at, Ordering::Relaxed);
        Some(at)
    }
}

/// The length of the instruction at an address.
///
/// # Safety
/// An instruction is there, and more of the code cache behind it.
unsafe fn length_at(at: u64) -> u64 {
    // SAFETY: the caller's promise.
    let (known, code) = unsafe { (decode::length_at(at as *const u8), (at as *const [u8; MAX_LEN]).read()) };
    // The other decoder makes its tables when it is first asked, which takes as long as hundreds of blocks.
    known.unwrap_or_else(|| Decoder::new(64, &code, DecoderOptions::NONE).decode().len()) as u64
}

/// Makes a callout apart from its block, to which `jumps` conditional jumps will lead, and returns its address.
pub fn make(home: &Arc<Home>, jumps: u32, site: Site) -> u64 {
    let entry = reclaim::room_apart();
    let lies = Where::Apart { home: home.clone(), entry, jumps, back: AtomicU64::new(0) };
    let code = callout::inline(Site { lies, ..site });
    // SAFETY: this room is for it.
    unsafe { (entry as *mut u8).copy_from_nonoverlapping(code.as_ptr(), CALLOUT) };
    entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::slots::{Slot, pretend_slots};
    use crate::emitted::machine;
    use crate::emitted::site::Kind;
    use bugnet_dr::assembled;

    /// A block: count, a jump to its end, two jumps to a callout apart, and at the end one for thresholds. Returns the code,
    /// the address of the callout apart, the offset of the second byte of the first jump, and that behind the callout at the
    /// end.
    fn block() -> (Vec<u8>, u64, usize, usize) {
        pretend_slots();
        let mut code = machine::count(Slot::Left(0), 3).bytes().to_vec();
        let jump = code.len();
        code.extend([0x0f, JNO, 0, 0, 0, 0]);
        code.reserve(200);
        let start = code.as_ptr() as u64;
        let entry = start - 1000;
        for _ in 0..2 {
            code.extend(&*assembled!("cmp rax, fs:[rbx]", "jne 2f", ".skip 200", "2:"; 204));
            let next = start + code.len() as u64 + 4;
            code.extend((entry.wrapping_sub(next) as i32).to_le_bytes());
        }
        code.extend(&*assembled!("mov rcx, rax"));
        let limit = code.len();
        code[jump + 2..jump + 6].copy_from_slice(&((limit - jump - 6) as i32).to_le_bytes());
        code.extend([0x90; CALLOUT]);
        let end = code.len();
        code.push(0xe9);
        code.extend(((jump + 6) as i32 - (end + 5) as i32).to_le_bytes());
        assert_eq!(code.as_ptr() as u64, start, "moved");
        // What comes behind a block in the code cache.
        code.extend([0xcc; 16]);
        (code, entry, jump + 1, end)
    }

    #[test]
    fn a_block_says_where_it_is_once_and_callouts_find_the_last_jump_to_them() {
        let (code, entry, byte, end) = block();
        let start = code.as_ptr() as u64;
        let home = Arc::new(Home::default());
        let limit = Where::AtStart { home: home.clone(), way: Way::Jump, before: 0 };
        let kind = Kind::Limit { flags: 0, saved: false };
        let site = Site { pc: 0, back: 3, kind, lies: limit };
        // SAFETY: the block is where it says, and its code ends with instructions, not with the memory.
        unsafe {
            site.lies.first_run(start + end as u64);
            assert_eq!((code[byte - 1], code[byte]), (0x0f, JS));
            site.lies.first_run(start + end as u64);
        }
        assert_eq!((code[byte - 1], code[byte]), (0x0f, JS));
        assert_eq!(home.start.load(Ordering::Relaxed), start + byte as u64 + 5);
        let at = |jumps| Where::Apart { home: home.clone(), entry, jumps, back: AtomicU64::new(0) };
        let first = start + byte as u64 + 5 + 10;
        // SAFETY: as above: what is looked for is there.
        let found = unsafe { [at(1).back(), at(2).back()] };
        assert_eq!(found, [Some(first), Some(first + 10)]);
    }
}
