//! Which instructions read or write memory that other threads may have, as far as their bytes tell: all but what lies on the stack, is a thread's own (TLS, by FS), or says
//! where to go (calls and jumps by tables). For `--chaos`, which may err.

/// Prefixes of an instruction: sizes, repetition, segments; and `lock`.
const PREFIXES: [u8; 7] = [0x66, 0x67, 0xf2, 0xf3, 0x64, 0x65, 0xf0];
const FS: u8 = 0x64;
const RSP: u8 = 4;
const RBP: u8 = 5;

/// Whether an instruction, of which these are the first bytes, does.
pub fn is_access(bytes: &[u8; 15]) -> bool {
    let prefixes = bytes.iter().take_while(|byte| PREFIXES.contains(byte)).count();
    if bytes[..prefixes].contains(&FS) {
        return false;
    }
    let mut rest = &bytes[prefixes..];
    let mut rex = 0;
    if let [first, behind @ ..] = rest
        && first & 0xf0 == 0x40
    {
        (rex, rest) = (*first, behind);
    }
    match rest {
        // VEX: two or three bytes in the place of prefixes and of 0F.
        [0xc5, _, _, modrm, sib, ..] | [0xc4, _, _, _, modrm, sib, ..] => is_memory(0, *modrm, *sib),
        // EVEX.
        [0x62, _, _, _, _, modrm, sib, ..] => is_memory(0, *modrm, *sib),
        [0x0f, opcode, modrm, sib, ..] => {
            let has_none = matches!(opcode, 0x05..=0x0e | 0x18..=0x1f | 0x30..=0x3f | 0x77 | 0x80..=0x8f | 0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf);
            !has_none && is_memory(rex, *modrm, *sib)
        }
        [0xff, modrm, ..] if (2..6).contains(&(modrm >> 3 & 7)) => false,
        // Strings.
        [0xa4..=0xa7 | 0xaa..=0xaf, ..] => true,
        [opcode, modrm, sib, ..] => {
            let has_modrm = match opcode {
                0x00..=0x3f => opcode & 7 < 4,
                0x63
                | 0x69
                | 0x6b
                | 0x80..=0x8c
                | 0x8e..=0x8f
                | 0xc0
                | 0xc1
                | 0xc6
                | 0xc7
                | 0xd0..=0xd3
                | 0xd8..=0xdf => true,
                0xf6 | 0xf7 | 0xfe | 0xff => true,
                _ => false,
            };
            has_modrm && is_memory(rex, *modrm, *sib)
        }
        _ => false,
    }
}

/// Whether an operand is memory that is not on the stack, which RSP or RBP points at.
fn is_memory(rex: u8, modrm: u8, sib: u8) -> bool {
    let (mode, register) = (modrm >> 6, modrm & 7);
    let is_low = rex & 1 == 0;
    match (mode, register) {
        (3, _) => false,
        (_, 4) => !(is_low && (sib & 7 == RSP || sib & 7 == RBP && mode != 0)),
        (1 | 2, RBP) => !is_low,
        _ => true,
    }
}
