//! Small changes of an instruction: what a programmer may have meant instead. They are the classes of faults that mutation testing knows (Offutt et al.,
//! *An Experimental Determination of Sufficient Mutant Operators*): relational, arithmetic and logical operators, constants, and what is left out.

use super::meant::Changed;
use iced_x86::{
    ConstantOffsets, Decoder, DecoderOptions, FlowControl, Formatter, Instruction, IntelFormatter, Mnemonic, OpKind,
    Register,
};

/// An instruction in place of another one, as long as that.
#[derive(Clone, Debug)]
pub struct Variant {
    pub bytes: Vec<u8>,
    /// Both, in words.
    pub what: String,
    /// What it says of the line.
    pub changed: Changed,
    pub kind: Kind,
    /// What is meant by it, where a line may mean the same in several places.
    pub meant: Option<Meant>,
}

/// Something else that a programmer meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Meant {
    /// Another operator: by their instructions.
    Operator(Mnemonic, Mnemonic),
    /// A difference instead of a sum, whatever makes that.
    Difference,
    /// Another field or element: so far behind where a pointer points.
    Field(u64, u64),
}

impl Meant {
    /// What one instruction means in place of another one.
    fn of(was: &Instruction, other: &Instruction) -> Option<Self> {
        if was.mnemonic() != other.mnemonic() {
            return Some(Self::Operator(was.mnemonic(), other.mnemonic()));
        }
        let field = |one: &Instruction| one.memory_displacement64();
        let is_field = ![Register::RBP, Register::RSP, Register::None].contains(&was.memory_base());
        (is_field && field(was) != field(other)).then(|| Self::Field(field(was), field(other)))
    }
}

/// Factors above this are no constants of the program's.
const LARGE: u64 = 1 << 24;

/// What takes the place of a condition, by its number: what differs in equality, then in sign; and for equality, order.
const CONDITIONS: [&[u8]; 16] = [
    &[],
    &[],
    &[6, 12],
    &[7, 13],
    &[14, 13, 6, 3],
    &[12, 15, 2, 7],
    &[2, 14],
    &[3, 15],
    &[14],
    &[15],
    &[],
    &[],
    &[14, 2],
    &[15, 3],
    &[12, 6],
    &[13, 7],
];

/// Changes of the instruction that these bytes are.
pub fn variants(bytes: &[u8], ip: u64) -> Vec<Variant> {
    let mut decoder = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE);
    let instruction = decoder.decode();
    if instruction.is_invalid() || instruction.len() != bytes.len() {
        return Vec::new();
    }
    let offsets = decoder.get_constant_offsets(&instruction);
    let mut all = Changes { bytes, instruction, all: Vec::new() };
    all.condition();
    if instruction.flow_control() == FlowControl::Next && !moves_stack(&instruction) {
        all.immediate(&offsets);
        all.displacement(&offsets);
        all.operator();
    }
    all.left_out();
    all.all
}

/// Whether it makes room on the stack, or pushes and pops.
fn moves_stack(instruction: &Instruction) -> bool {
    instruction.is_stack_instruction()
        || instruction.op_count() > 0
            && instruction.op0_kind() == OpKind::Register
            && [Register::RSP, Register::RBP].contains(&instruction.op0_register())
}

/// Where the opcode begins, behind prefixes; none for VEX and what follows it.
fn opcode(bytes: &[u8]) -> Option<usize> {
    let is_prefix =
        |byte: u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3);
    let at = bytes.iter().position(|byte| !is_prefix(*byte))?;
    (!matches!(bytes[at], 0x62 | 0xc4 | 0xc5)).then_some(at)
}

/// What kind of change it is; the likelier ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Another operator or constant.
    Small,
    /// Another variable, field, or element.
    Beside,
    /// The opposite condition.
    Turned,
    /// The opposite way, at one execution alone.
    Once,
    /// A jump whatever the condition.
    Always,
    /// Nothing.
    Out,
    /// A variable that is set back before it.
    SetBack,
}

struct Changes<'a> {
    bytes: &'a [u8],
    instruction: Instruction,
    all: Vec<Variant>,
}

impl Changes<'_> {
    fn add(&mut self, kind: Kind, change: impl FnOnce(&mut [u8])) {
        let mut bytes = self.bytes.to_vec();
        change(&mut bytes);
        let other = Decoder::with_ip(64, &bytes, self.instruction.ip(), DecoderOptions::NONE).decode();
        let is_sound = kind > Kind::Beside || !other.is_invalid() && other.len() == bytes.len();
        if bytes == self.bytes || !is_sound || self.all.iter().any(|known| known.bytes == bytes) {
            return;
        }
        let was = text(&self.instruction);
        let what = match kind {
            Kind::Small | Kind::Beside | Kind::Turned | Kind::Once => format!("`{}` instead of `{was}`", text(&other)),
            Kind::Always => format!("`{was}` always jumps"),
            Kind::Out if self.instruction.is_jcc_short_or_near() => format!("`{was}` never jumps"),
            Kind::Out | Kind::SetBack => format!("`{was}` left out"),
        };
        let is_other = matches!(kind, Kind::Small | Kind::Beside | Kind::Turned);
        let changed = Changed { was: self.instruction, other: is_other.then_some(other), kind, nth: None };
        let meant = if kind <= Kind::Beside { Meant::of(&self.instruction, &other) } else { None };
        self.all.push(Variant { bytes, what, changed, kind, meant });
    }

    fn byte(&mut self, at: usize, byte: u8) {
        self.add(Kind::Small, |bytes| bytes[at] = byte);
    }

    /// Jumps, `setcc` and `cmovcc`.
    fn condition(&mut self) {
        let Some(mut at) = opcode(self.bytes) else { return };
        let is_long = self.bytes[at] == 0x0f && at + 1 < self.bytes.len();
        at += usize::from(is_long);
        let byte = self.bytes[at];
        let is_conditional = match is_long {
            true => matches!(byte, 0x40..=0x4f | 0x80..=0x9f),
            false => matches!(byte, 0x70..=0x7f),
        };
        if !is_conditional {
            return;
        }
        for other in CONDITIONS[usize::from(byte & 15)] {
            self.byte(at, byte & 0xf0 | other);
        }
        self.add(Kind::Turned, |bytes| bytes[at] = byte ^ 1);
        match (is_long, byte) {
            (false, _) => self.add(Kind::Always, |bytes| bytes[at] = 0xeb),
            (true, 0x80..=0x8f) => self.add(Kind::Always, |bytes| (bytes[at - 1], bytes[at]) = (0x90, 0xe9)),
            _ => {}
        }
    }

    /// Other constants: one more and less, twice and half as much, one bit more.
    fn immediate(&mut self, offsets: &ConstantOffsets) {
        let (at, size) = (offsets.immediate_offset(), offsets.immediate_size());
        if !offsets.has_immediate() || !matches!(size, 1 | 4 | 8) {
            return;
        }
        let value = number(&self.bytes[at..at + size]);
        // Multiplying by a large number is how compilers divide.
        if self.instruction.mnemonic() == Mnemonic::Imul && value.unsigned_abs() > LARGE {
            return;
        }
        let others =
            [value.wrapping_add(1), value.wrapping_sub(1), value.wrapping_mul(2), value / 2, value.wrapping_mul(2) + 1];
        for other in others.into_iter().filter(|other| size > 1 || i8::try_from(*other).is_ok()) {
            self.add(Kind::Small, |bytes| bytes[at..at + size].copy_from_slice(&other.to_le_bytes()[..size]));
        }
    }

    /// The element, field or variable beside.
    fn displacement(&mut self, offsets: &ConstantOffsets) {
        let (at, size) = (offsets.displacement_offset(), offsets.displacement_size());
        if !offsets.has_displacement() || !matches!(size, 1 | 4) || self.instruction.is_ip_rel_memory_operand() {
            return;
        }
        let value = number(&self.bytes[at..at + size]);
        let own = self.instruction.memory_size().size() as i64;
        let steps: &[i64] = if own == 0 { &[1, 4, 8] } else { &[own] };
        for other in steps.iter().flat_map(|step| [value + step, value - step]) {
            if size > 1 || i8::try_from(other).is_ok() {
                self.add(Kind::Beside, |bytes| bytes[at..at + size].copy_from_slice(&other.to_le_bytes()[..size]));
            }
        }
    }

    /// Other operators.
    fn operator(&mut self) {
        let Some(at) = opcode(self.bytes) else { return };
        let byte = self.bytes[at];
        match byte {
            0x0f if at + 1 < self.bytes.len() => self.long_operator(at + 1),
            // add, or, and, sub, xor, cmp: between registers and memory
            0x00..=0x3f if byte & 7 < 4 => {
                let others: &[u8] = match byte >> 3 {
                    0 => &[5],
                    1 => &[4, 6],
                    4 => &[1],
                    5 => &[0],
                    6 => &[1],
                    _ => &[],
                };
                others.iter().for_each(|other| self.byte(at, other << 3 | byte & 7));
                if byte >> 3 == 7 || byte >> 3 == 5 {
                    // The other way round.
                    self.byte(at, byte ^ 2);
                }
            }
            // and with a constant, in the group and in AL or EAX
            0x80 | 0x81 | 0x83 if at + 1 < self.bytes.len() => {
                let others: &[u8] = match self.bytes[at + 1] >> 3 & 7 {
                    0 => &[5],
                    1 => &[4],
                    4 => &[1],
                    5 => &[0],
                    _ => &[],
                };
                others.iter().for_each(|other| self.byte(at + 1, self.bytes[at + 1] & 0xc7 | other << 3));
            }
            // To memory: what is there stays in part, or is added to.
            0x88 | 0x89 if self.instruction.op0_kind() == OpKind::Memory => {
                self.byte(at, byte & 1 | 0x08);
                self.byte(at, byte & 1);
            }
            0xc0 | 0xc1 | 0xd0..=0xd3 if at + 1 < self.bytes.len() => {
                let modrm = self.bytes[at + 1];
                let others: &[u8] = match modrm >> 3 & 7 {
                    4 => &[5, 7],
                    5 => &[7, 4],
                    7 => &[5, 4],
                    _ => &[],
                };
                others.iter().for_each(|other| self.byte(at + 1, modrm & 0xc7 | other << 3));
            }
            // inc and dec; div and idiv
            0xfe | 0xff if at + 1 < self.bytes.len() && self.bytes[at + 1] >> 3 & 7 < 2 => {
                self.byte(at + 1, self.bytes[at + 1] ^ 8);
            }
            0xf6 | 0xf7 if at + 1 < self.bytes.len() && self.bytes[at + 1] >> 3 & 7 >= 6 => {
                self.byte(at + 1, self.bytes[at + 1] ^ 8);
            }
            _ => {}
        }
    }

    /// Those of two bytes: arithmetic of SSE, and what widens a number.
    fn long_operator(&mut self, at: usize) {
        let byte = self.bytes[at];
        let is_scalar = self.bytes[..at].iter().any(|byte| matches!(byte, 0xf2 | 0xf3));
        let other = match byte {
            0xb6 | 0xb7 | 0xbe | 0xbf => byte ^ 8,
            0x58 => 0x5c,
            0x5c => 0x58,
            0x59 => 0x5e,
            0x5e => 0x59,
            0x5d => 0x5f,
            0x5f => 0x5d,
            // to a whole number: cut off or rounded
            0x2c if is_scalar => 0x2d,
            0x2d if is_scalar => 0x2c,
            _ => return,
        };
        self.byte(at, other);
    }

    /// Nothing at all: a jump that is never taken, a store or call that is not made, an operation on a register.
    fn left_out(&mut self) {
        let is_store = self.instruction.op_count() > 0 && self.instruction.op0_kind() == OpKind::Memory;
        let flow = self.instruction.flow_control();
        let computes = opcode(self.bytes).is_some_and(|at| {
            matches!(self.bytes[at], 0x00..=0x37 | 0x80 | 0x81 | 0x83 | 0xc0 | 0xc1 | 0xd0..=0xd3 | 0x69 | 0x6b | 0x98 | 0x99)
        });
        if matches!(flow, FlowControl::ConditionalBranch | FlowControl::Call)
            || flow == FlowControl::Next && (is_store || computes) && !moves_stack(&self.instruction)
        {
            self.add(Kind::Out, |bytes| bytes.fill(0x90));
        }
    }
}

fn number(bytes: &[u8]) -> i64 {
    match bytes.len() {
        1 => bytes[0].cast_signed().into(),
        4 => i32::from_le_bytes(bytes.try_into().unwrap_or_default()).into(),
        _ => i64::from_le_bytes(bytes.try_into().unwrap_or_default()),
    }
}

/// The instruction that these bytes are.
pub fn instruction(bytes: &[u8], ip: u64) -> Instruction {
    Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE).decode()
}

/// The same, in words.
pub fn shown(bytes: &[u8], ip: u64) -> String {
    text(&instruction(bytes, ip))
}

fn text(instruction: &Instruction) -> String {
    let mut text = String::new();
    let mut formatter = IntelFormatter::new();
    formatter.options_mut().set_space_after_operand_separator(true);
    formatter.options_mut().set_branch_leading_zeros(false);
    formatter.options_mut().set_show_branch_size(false);
    formatter.options_mut().set_hex_prefix("0x");
    formatter.options_mut().set_hex_suffix("");
    formatter.format(instruction, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(bytes: &[u8]) -> Vec<String> {
        let all = variants(bytes, 0x1000);
        assert!(all.iter().all(|one| one.bytes.len() == bytes.len() && one.bytes != bytes), "{all:?}");
        all.into_iter().map(|one| one.what).collect()
    }

    fn has(bytes: &[u8], wanted: &[&str]) {
        let all = texts(bytes);
        for one in wanted {
            assert!(all.iter().any(|text| text == one), "{one:?} is not in {all:#?}");
        }
    }

    #[test]
    fn conditions() {
        has(
            &[0x7e, 0x10],
            &[
                "`jl 0x1012` instead of `jle 0x1012`",
                "`jbe 0x1012` instead of `jle 0x1012`",
                "`jg 0x1012` instead of `jle 0x1012`",
                "`jle 0x1012` always jumps",
                "`jle 0x1012` never jumps",
            ],
        );
        has(&[0x0f, 0x84, 0, 1, 0, 0], &["`jne 0x1106` instead of `je 0x1106`", "`je 0x1106` always jumps"]);
        has(&[0x0f, 0x9c, 0xc0], &["`setle al` instead of `setl al`", "`setge al` instead of `setl al`"]);
        has(&[0x0f, 0x4c, 0xc1], &["`cmovle eax, ecx` instead of `cmovl eax, ecx`"]);
    }

    #[test]
    fn constants_and_places() {
        has(&[0x83, 0xe0, 0x07], &["`and eax, 0xF` instead of `and eax, 7`", "`and eax, 8` instead of `and eax, 7`"]);
        has(&[0x83, 0x7d, 0xfc, 0x01], &["`cmp dword ptr [rbp-4], 0` instead of `cmp dword ptr [rbp-4], 1`"]);
        has(&[0x8b, 0x45, 0xf8], &["`mov eax, [rbp-4]` instead of `mov eax, [rbp-8]`"]);
        // What is as large as can be becomes no other sign.
        assert!(
            texts(&[0x83, 0xc0, 0x7f]).iter().all(|text| !text.contains("0x80")),
            "{:?}",
            texts(&[0x83, 0xc0, 0x7f])
        );
    }

    #[test]
    fn operators() {
        has(&[0x01, 0xd8], &["`sub eax, ebx` instead of `add eax, ebx`", "`add eax, ebx` left out"]);
        has(&[0x39, 0xd8], &["`cmp ebx, eax` instead of `cmp eax, ebx`"]);
        has(&[0x88, 0x10], &["`or [rax], dl` instead of `mov [rax], dl`", "`mov [rax], dl` left out"]);
        has(&[0xc1, 0xf8, 0x02], &["`shr eax, 2` instead of `sar eax, 2`", "`sar eax, 1` instead of `sar eax, 2`"]);
        has(&[0xf2, 0x0f, 0x58, 0xc1], &["`subsd xmm0, xmm1` instead of `addsd xmm0, xmm1`"]);
        has(&[0xf2, 0x48, 0x0f, 0x2c, 0xc0], &["`cvtsd2si rax, xmm0` instead of `cvttsd2si rax, xmm0`"]);
        has(&[0x0f, 0xb6, 0xc0], &["`movsx eax, al` instead of `movzx eax, al`"]);
        has(&[0xe8, 0, 1, 0, 0], &["`call 0x1105` left out"]);
    }

    #[test]
    fn what_is_no_instruction_or_keeps_the_stack() {
        assert_eq!(texts(&[0x06]), Vec::<String>::new());
        assert_eq!(texts(&[]), Vec::<String>::new());
        assert_eq!(texts(&[0x48, 0x83, 0xec, 0x10]), Vec::<String>::new());
        assert_eq!(texts(&[0x55]), Vec::<String>::new());
        assert_eq!(texts(&[0xc3]), Vec::<String>::new());
        // A compiler's way to divide.
        assert_eq!(texts(&[0x48, 0x69, 0xc0, 0x1f, 0x85, 0xeb, 0x51]).len(), 1);
    }
}
