//! DynamoRIO's decoder outside of DynamoRIO.

use bugnet_dr::decode;
use bugnet_dr::ir::Instr;
use dynamorio_sys as sys;

/// DynamoRIO's standalone mode.
struct Standalone;

impl Drop for Standalone {
    fn drop(&mut self) {
        // SAFETY: undoes what `Decoder::new` did.
        unsafe { sys::dr_standalone_exit() };
    }
}

pub struct Decoder {
    decoder: decode::Decoder,
    /// Dropped last.
    _standalone: Standalone,
}

impl Decoder {
    /// At most one at a time.
    pub fn new() -> Self {
        // SAFETY: nothing else of DynamoRIO is in use; the context lasts until the standalone mode ends.
        let decoder = unsafe {
            let context = sys::dr_standalone_init();
            assert!(!context.is_null(), "DynamoRIO's standalone mode failed");
            decode::Decoder::new(context)
        };
        Self { decoder, _standalone: Standalone }
    }

    /// The instruction at `pc` with these bytes, and its length; valid until the next call.
    pub fn decode(&mut self, pc: u64, bytes: &[u8]) -> Option<(Instr, usize)> {
        self.decoder.decode(pc, bytes)
    }
}

/// The length of an instruction, where [`decode::length_at`] finds it.
pub fn length(bytes: &[u8]) -> Option<usize> {
    let mut copy = [0; 2 * decode::MAX_LEN];
    let given = bytes.len().min(decode::MAX_LEN);
    copy[..given].copy_from_slice(&bytes[..given]);
    // SAFETY: an instruction's bytes, and more than it can have.
    unsafe { decode::length_at(copy.as_ptr()) }
}
