//! The state of x87 and vector registers as XSAVE puts it into memory.

use bugnet_dr::fpu;
use bugnet_format::regs::RegisterFile;

/// Bytes that say of what there is something, behind those that FXSAVE writes.
const COMPONENTS: usize = 512;
/// Where the registers' lower halves are, and the upper ones.
const LOWER: usize = 160;
const UPPER: usize = 576;
const X87: u64 = 1;
const SSE: u64 = 2;
const AVX: u64 = 4;

/// Takes the state from memory. What it has nothing of is as at a program's start; nor has it, where it is short.
pub fn unpack(state: &[u8], regs: &mut RegisterFile) {
    let mut image = fpu::Image::default();
    let Some(legacy) = state.get(..COMPONENTS) else { return };
    image.bytes_mut().copy_from_slice(legacy);
    let known = state.get(COMPONENTS..COMPONENTS + 8).and_then(|word| word.try_into().ok());
    let known = known.map_or(X87 | SSE, u64::from_le_bytes);
    image.unpack(regs);
    if known & X87 == 0 {
        let RegisterFile { fcw, fsw, ftw, st, .. } = RegisterFile::default();
        (regs.fcw, regs.fsw, regs.ftw, regs.st) = (fcw, fsw, ftw, st);
    }
    for (i, register) in regs.ymm.iter_mut().enumerate() {
        *register = [0; 32];
        for (half, (component, start)) in register.chunks_exact_mut(16).zip([(SSE, LOWER), (AVX, UPPER)]) {
            if let Some(there) = state.get(start + 16 * i..start + 16 * (i + 1)).filter(|_| known & component != 0) {
                half.copy_from_slice(there);
            }
        }
    }
}
