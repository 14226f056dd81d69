//! Every instruction in many encodings: prefixes, opcodes, operand forms and immediates are combined, and what is no
//! instruction is left out later. That finds redundant encodings too, which a program may as well contain.

/// The bytes behind a ModRM byte's `mod` and `rm`, and these two.
struct Operand {
    modrm: u8,
    behind: &'static [u8],
}

const fn memory(modrm: u8, behind: &'static [u8]) -> Operand {
    Operand { modrm, behind }
}

/// `[rbx]`, `[rsp + 0x10]`, `[rdi + rsi * 4 - 8]`, `[rip + 0x1234]`, `[-8]`.
const MEMORY: [Operand; 5] = [
    memory(0x03, &[]),
    memory(0x44, &[0x24, 0x10]),
    memory(0x44, &[0xb7, 0xf8]),
    memory(0x05, &[0x34, 0x12, 0, 0]),
    memory(0x04, &[0x25, 0xf8, 0xff, 0xff, 0xff]),
];

/// What stands behind, as immediates: counts that are small, that are zero, and that are zero for 32 bits only.
const IMMEDIATES: [[u8; 8]; 3] = [[3, 0, 2, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0, 0], [0x20, 0, 0, 0, 0, 0, 0, 0]];

const LEGACY: [&[u8]; 10] = [
    &[],
    &[0x66],
    &[0xf2],
    &[0xf3],
    &[0x66, 0xf2],
    &[0x66, 0xf3],
    &[0xf0],
    &[0x66, 0xf0],
    &[0xf2, 0xf0],
    &[0xf3, 0xf0],
];

const ADDRESSING: [&[u8]; 4] = [&[0x64], &[0x65], &[0x67], &[0x65, 0x67]];

/// None, W, RXB, WRXB.
const REX: [&[u8]; 4] = [&[], &[0x48], &[0x47], &[0x4f]];

const MAPS: [&[u8]; 4] = [&[], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]];

/// Calls `visit` for each, with more bytes than an instruction has; it returns the instruction's length, if it is one.
pub fn each(mut visit: impl FnMut(&[u8]) -> Option<usize>) {
    for head in heads() {
        for opcode in 0..=255 {
            // Prefixes and the escapes to what else is enumerated here are no opcodes of their own.
            let escape = head.first_map
                && matches!(opcode, 0x0f | 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x62 | 0x64..=0x67 | 0xc4 | 0xc5
                    | 0xf0 | 0xf2 | 0xf3);
            if !escape {
                operands(&head, opcode, &mut visit);
            }
        }
    }
}

fn operands(head: &Head, opcode: u8, visit: &mut impl FnMut(&[u8]) -> Option<usize>) {
    let mut bytes = Vec::with_capacity(32);
    let (forms, registers) = if head.all_forms { (MEMORY.len(), 8) } else { (2, 2) };
    let registers = (0xc0..0xc0 + registers).map(|modrm| memory(modrm, &[]));
    for operand in MEMORY.into_iter().take(forms).chain(registers) {
        for reg in 0..8 {
            for immediate in IMMEDIATES {
                bytes.clear();
                bytes.extend_from_slice(&head.bytes);
                bytes.extend_from_slice(&[opcode, operand.modrm | reg << 3]);
                bytes.extend_from_slice(operand.behind);
                let behind = bytes.len();
                bytes.extend_from_slice(&immediate);
                match visit(&bytes) {
                    // Neither ModRM byte nor immediate: once is enough.
                    Some(len) if len == head.bytes.len() + 1 => return,
                    Some(len) if len > behind => {}
                    // Without an immediate, or no instruction.
                    _ => break,
                }
            }
        }
    }
}

/// All that stands before an opcode.
struct Head {
    bytes: Vec<u8>,
    first_map: bool,
    /// Whether all forms of operands are worth the time behind it.
    all_forms: bool,
}

fn heads() -> Vec<Head> {
    let mut heads = Vec::new();
    let mut legacy = |prefixes: &[&[u8]], all_forms| {
        for map in MAPS {
            let bytes = [prefixes.concat(), map.to_vec()].concat();
            heads.push(Head { bytes, first_map: map.is_empty(), all_forms });
        }
    };
    for prefix in LEGACY {
        for rex in REX {
            legacy(&[prefix, rex], rex.is_empty());
        }
    }
    for addressing in ADDRESSING {
        for prefix in LEGACY {
            legacy(&[addressing, prefix], prefix.is_empty());
        }
        legacy(&[addressing, REX[1]], true);
    }
    let mut vex = |addressing: &[u8], rxb: u8| {
        for map in 1..=3 {
            // W, L and pp; vvvv is none or register 5, both inverted.
            for fields in 0..16 {
                for vvvv in [0x78, 0x50] {
                    let fields = (fields & 8) << 4 | fields & 7 | vvvv;
                    let bytes = [addressing, &[0xc4, rxb | map, fields]].concat();
                    heads.push(Head { bytes, first_map: false, all_forms: vvvv == 0x78 && !addressing.is_empty() });
                }
            }
        }
    };
    vex(&[], 0xe0);
    vex(&[], 0x00);
    vex(ADDRESSING[0], 0xe0);
    vex(ADDRESSING[2], 0xe0);
    for fields in 0..8 {
        heads.push(Head { bytes: vec![0xc5, 0xf8 | fields], first_map: false, all_forms: true });
    }
    // EVEX: map, W with pp, and L'L.
    for map in 1..=3 {
        for fields in 0..8 {
            for length in [0x08, 0x28, 0x48] {
                let fields = (fields & 4) << 5 | 0x7c | fields & 3;
                let bytes = vec![0x62, 0xf0 | map, fields, length];
                heads.push(Head { bytes, first_map: false, all_forms: false });
            }
        }
    }
    heads
}
