//! Machine code of an instruction, with another displacement.

use smallvec::SmallVec;

/// Most bytes of an instruction.
const LONGEST: usize = 15;

/// The bytes.
pub type Displaced = SmallVec<[u8; 24]>;

/// An instruction whose operand in memory, of which there must be one, is so many bytes further: what the sum may be beyond 32 bits is for the
/// caller to look at. `None` if the operand has no register, or a segment or 32 bits of address, or if there is no room for two more prefixes.
#[must_use]
pub fn displaced(bytes: &[u8], more: i32) -> Option<Displaced> {
    let prefixes = bytes.iter().take_while(|byte| matches!(byte, 0x66 | 0xf2 | 0xf3)).count();
    // Up to the opcode, and how many bytes of that there are in any case.
    let (start, opcode) = match bytes.get(prefixes)? {
        0x26 | 0x2e | 0x36 | 0x3e | 0x62 | 0x64 | 0x65 | 0x67 | 0xf0 => return None,
        0xc5 => (prefixes + 2, 1),
        0xc4 => (prefixes + 3, 1),
        0x40..=0x4f => (prefixes + 1, 0),
        _ => (prefixes, 0),
    };
    let opcode = match (opcode, bytes.get(start)?) {
        // An address without ModRM, and XOP.
        (0, 0xa0..=0xa3 | 0x8f) => return None,
        (0, 0x0f) if matches!(bytes.get(start + 1)?, 0x38 | 0x3a) => 3,
        (0, 0x0f) => 2,
        _ => 1,
    };
    let at = start + opcode;
    let modrm = *bytes.get(at)?;
    let has_sib = modrm & 7 == 4;
    let base = if has_sib { *bytes.get(at + 1)? & 7 } else { modrm & 7 };
    let behind = at + 1 + usize::from(has_sib);
    let (disp, len) = match modrm >> 6 {
        0 if base == 5 => return None,
        0 => (0, 0),
        1 => (i32::from(bytes.get(behind)?.cast_signed()), 1),
        2 => (i32::from_le_bytes(bytes.get(behind..behind + 4)?.try_into().ok()?), 4),
        _ => return None,
    };
    let disp = disp.wrapping_add(more).to_le_bytes();
    let mut moved = Displaced::new();
    for part in [&bytes[..at], &[modrm & 0x3f | 0x80], &bytes[at + 1..behind], &disp, bytes.get(behind + len..)?] {
        moved.extend_from_slice(part);
    }
    (moved.len() <= LONGEST - 2).then_some(moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_move() {
        let moved = |bytes: &[u8]| displaced(bytes, 0x140).map(|moved| moved.to_vec());
        // mov [rax], ecx; mov [rsp + 8], r9; mov word ptr [rbp - 2], 7; movups [r13 + r12 * 4 + 0x100], xmm1
        assert_eq!(moved(&[0x89, 0x08]), Some(vec![0x89, 0x88, 0x40, 1, 0, 0]));
        assert_eq!(moved(&[0x4c, 0x89, 0x4c, 0x24, 8]), Some(vec![0x4c, 0x89, 0x8c, 0x24, 0x48, 1, 0, 0]));
        assert_eq!(moved(&[0x66, 0xc7, 0x45, 0xfe, 7, 0]), Some(vec![0x66, 0xc7, 0x85, 0x3e, 1, 0, 0, 7, 0]));
        assert_eq!(
            moved(&[0x43, 0x0f, 0x11, 0x8c, 0xa5, 0, 1, 0, 0]),
            Some(vec![0x43, 0x0f, 0x11, 0x8c, 0xa5, 0x40, 2, 0, 0])
        );
        // vmovdqu [rdi], ymm0; vmovdqu [r8], ymm0
        assert_eq!(moved(&[0xc5, 0xfe, 0x7f, 0x07]), Some(vec![0xc5, 0xfe, 0x7f, 0x87, 0x40, 1, 0, 0]));
        assert_eq!(moved(&[0xc4, 0xc1, 0x7e, 0x7f, 0]), Some(vec![0xc4, 0xc1, 0x7e, 0x7f, 0x80, 0x40, 1, 0, 0]));
        // mov [rip + 4], eax; mov [0x10], eax; mov ecx, eax; mov fs:[rax], ecx; vmovdqu8 [rdi], ymm16
        let others: [&[u8]; 6] = [
            &[0x89, 0x05, 4, 0, 0, 0],
            &[0x89, 0x04, 0x25, 0x10, 0, 0, 0],
            &[0x89, 0xc1],
            &[0x64, 0x89, 0x08],
            &[0x62, 0xe1, 0x7f, 0x28, 0x7f, 0x07],
            // mov rax, [0x88], with an address of 8 bytes
            &[0x48, 0xa1, 0x88, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert!(others.into_iter().all(|bytes| moved(bytes).is_none()));
    }
}
