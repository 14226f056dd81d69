//! Parts of a thread's registers, as small as a slice tells them apart: bytes of general purpose and vector registers, single flags, and
//! a few more.

use iced_x86::{Register, RflagsBits};
use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Not, Sub};

const VECTORS: usize = 16 * 8;
const FLAGS: usize = VECTORS + 16 * 32;
/// Flags that are told apart, in the order of their atoms: the decoder's bit, the one in RFLAGS, and the name.
const FLAG_BITS: [(u32, u32, &str); 8] = [
    (RflagsBits::CF, 0, "CF"),
    (RflagsBits::PF, 2, "PF"),
    (RflagsBits::AF, 4, "AF"),
    (RflagsBits::ZF, 6, "ZF"),
    (RflagsBits::SF, 7, "SF"),
    (RflagsBits::DF, 10, "DF"),
    (RflagsBits::OF, 11, "OF"),
    (RflagsBits::AC, 18, "AC"),
];
const OTHERS: usize = FLAGS + FLAG_BITS.len();
/// What there is beside registers of which each byte counts.
const OTHER_NAMES: [&str; 17] = [
    "ST0",
    "ST1",
    "ST2",
    "ST3",
    "ST4",
    "ST5",
    "ST6",
    "ST7",
    "x87 conditions",
    "x87 C1",
    "x87 exceptions",
    "x87 stack",
    "x87 control",
    "MXCSR control",
    "MXCSR flags",
    "FS base",
    "GS base",
];
/// How many there are.
pub const COUNT: usize = OTHERS + OTHER_NAMES.len();
const WORDS: usize = COUNT.div_ceil(64);

/// A set of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Atoms([u64; WORDS]);

impl Atoms {
    /// None.
    pub const NONE: Self = Self([0; WORDS]);
    /// How many registers the x87 unit has.
    pub const X87_REGISTERS: usize = 8;
    /// All of them, in which MMX's are, too.
    pub const X87_VALUES: Self = Self::range(OTHERS, Self::X87_REGISTERS);
    /// What the unit has found by comparing: C0, C2 and C3 of its status word.
    pub const X87_CONDITIONS: Self = Self::one(OTHERS + 8);
    /// C1 of the status word, which many instructions change that compare nothing.
    pub const X87_C1: Self = Self::one(OTHERS + 9);
    /// What else the status word says of what was computed.
    pub const X87_EXCEPTIONS: Self = Self::one(OTHERS + 10);
    /// Where the top of the unit's stack is, and which registers are empty.
    pub const X87_STACK: Self = Self::one(OTHERS + 11);
    /// All that the unit knows but for its control word.
    pub const X87: Self = Self::range(OTHERS, 12);
    /// The x87 control word.
    pub const X87_CONTROL: Self = Self::one(OTHERS + 12);
    /// What MXCSR says of how to compute.
    pub const MXCSR_CONTROL: Self = Self::one(OTHERS + 13);
    /// What MXCSR says of what was computed.
    pub const MXCSR_FLAGS: Self = Self::one(OTHERS + 14);
    /// The base of FS.
    pub const FS_BASE: Self = Self::one(OTHERS + 15);
    /// The base of GS.
    pub const GS_BASE: Self = Self::one(OTHERS + 16);
    /// How units round, what they have noticed, where the x87 stack is, and in which direction strings go: nobody's value, but what values
    /// follow from.
    pub const MODES: Self = Self::range(OTHERS + 10, 5).or(Self::DIRECTION);
    /// RSP.
    pub const RSP: Self = Self::gpr(4);
    /// The flag that says in which direction strings go.
    pub const DIRECTION: Self = Self::one(FLAGS + 5);
    /// All flags.
    pub const ALL_FLAGS: Self = Self::range(FLAGS, FLAG_BITS.len());

    const fn one(at: usize) -> Self {
        Self::range(at, 1)
    }

    const fn range(at: usize, len: usize) -> Self {
        let mut set = [0; WORDS];
        let mut next = at;
        while next < at + len {
            set[next / 64] |= 1 << (next % 64);
            next += 1;
        }
        Self(set)
    }

    const fn or(self, other: Self) -> Self {
        let mut set = self.0;
        let mut next = 0;
        while next < WORDS {
            set[next] |= other.0[next];
            next += 1;
        }
        Self(set)
    }

    /// A register of the x87 unit, counted from the top of its stack, below [`Self::X87_REGISTERS`].
    #[must_use]
    pub const fn x87(from_top: i32) -> Self {
        Self::one(OTHERS + from_top as usize)
    }

    /// A whole general purpose register, by the processor's number.
    #[must_use]
    pub const fn gpr(number: usize) -> Self {
        Self::range(number * 8, 8)
    }

    /// A whole vector register, of 32 bytes.
    #[must_use]
    pub const fn vector(number: usize) -> Self {
        Self::range(VECTORS + number * 32, 32)
    }

    /// Flags, by the decoder's [`RflagsBits`]; of others than those that programs use, nothing.
    #[must_use]
    pub fn flags(bits: u32) -> Self {
        let named = FLAG_BITS.iter().enumerate().filter(|(_, (bit, _, _))| bits & bit != 0);
        named.fold(Self::NONE, |all, (number, _)| all | Self::one(FLAGS + number))
    }

    /// Flags, by bits of RFLAGS.
    #[must_use]
    pub fn rflags(bits: u64) -> Self {
        let named = FLAG_BITS.iter().enumerate().filter(|(_, (_, bit, _))| bits >> bit & 1 != 0);
        named.fold(Self::NONE, |all, (number, _)| all | Self::one(FLAGS + number))
    }

    /// A register as instructions name it; of 512 bits, the part that a recorded program can see. `None`: none of a program's.
    #[must_use]
    pub fn register(register: Register) -> Option<Self> {
        let number = register.full_register().number();
        Some(match register {
            Register::AH | Register::CH | Register::DH | Register::BH => {
                Self::one((register as usize - Register::AH as usize) * 8 + 1)
            }
            _ if register.is_gpr() => Self::range(number * 8, register.size()),
            _ if register.is_vector_register() && number < 16 => {
                Self::range(VECTORS + number * 32, register.size().min(32))
            }
            _ if register.is_st() => Self::x87(register.number() as i32),
            // Where in the stack it is depends on the top.
            _ if register.is_mm() => Self::X87_VALUES,
            Register::FS => Self::FS_BASE,
            Register::GS => Self::GS_BASE,
            _ => return None,
        })
    }

    /// Whether there are none.
    #[must_use]
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0.iter().fold(0, |all, word| all | word) == 0
    }

    /// Whether the two have any in common.
    #[must_use]
    #[inline]
    pub fn meets(self, other: Self) -> bool {
        self.0.iter().zip(&other.0).fold(0, |all, (a, b)| all | a & b) != 0
    }

    /// Whether all of the other's are in this.
    #[must_use]
    #[inline]
    pub fn has(self, other: Self) -> bool {
        self.0.iter().zip(&other.0).fold(0, |all, (a, b)| all | b & !a) == 0
    }

    /// Whether the one with this number, below [`COUNT`], is among them.
    #[must_use]
    #[inline]
    pub fn has_numbered(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 != 0
    }

    /// Without the one with this number, below [`COUNT`].
    #[inline]
    pub fn remove_numbered(&mut self, number: usize) {
        self.0[number / 64] &= !(1 << (number % 64));
    }

    /// How many there are.
    #[must_use]
    pub fn count(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Each alone, a register's lowest byte first.
    pub fn each(self) -> impl Iterator<Item = Self> {
        self.numbers().map(Self::one)
    }

    /// The number of each, below [`COUNT`], in the order of [`Self::each`].
    pub fn numbers(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().enumerate().flat_map(|(word, bits)| {
            let next = move |left: &u64| Some(left & left.wrapping_sub(1)).filter(|left| *left != 0);
            let lefts = std::iter::successors(Some(bits).filter(|bits| *bits != 0), next);
            lefts.map(move |left| word * 64 + left.trailing_zeros() as usize)
        })
    }

    /// The one with a number below [`COUNT`].
    #[must_use]
    pub const fn numbered(number: usize) -> Self {
        Self::one(number)
    }

    #[inline]
    fn zip(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|word| with(self.0[word], other.0[word])))
    }
}

impl BitOr for Atoms {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }
}

impl BitOrAssign for Atoms {
    #[inline]
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl BitAnd for Atoms {
    type Output = Self;

    #[inline]
    fn bitand(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }
}

impl Sub for Atoms {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }
}

impl Not for Atoms {
    type Output = Self;

    fn not(self) -> Self {
        Self::range(0, COUNT) - self
    }
}

impl FromIterator<Self> for Atoms {
    fn from_iter<T: IntoIterator<Item = Self>>(all: T) -> Self {
        all.into_iter().fold(Self::NONE, Self::bitor)
    }
}

impl fmt::Debug for Atoms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Atoms {
    /// As people name registers: `EAX`, `RCX[2..5]`, `XMM3`, `CF`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const GPRS: [&str; 16] = [
            "RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI", "R8", "R9", "R10", "R11", "R12", "R13", "R14",
            "R15",
        ];
        let mut names: Vec<String> = Vec::new();
        let mut bytes = |name: &dyn Fn(usize) -> Option<String>, whole: &str, start: usize, len: usize| {
            let mut at = 0;
            while at < len {
                let there = |at: usize| self.0[(start + at) / 64] >> ((start + at) % 64) & 1 != 0;
                let run = (at..len).take_while(|at| there(*at)).count();
                if run > 0 {
                    let named = (at == 0).then(|| name(run)).flatten();
                    names.push(named.unwrap_or_else(|| format!("{whole}[{at}..{}]", at + run)));
                }
                at += run + 1;
            }
        };
        for (number, whole) in GPRS.iter().enumerate() {
            let name = |len| match (len, number) {
                (8, _) => Some((*whole).to_owned()),
                (4, 0..8) => Some(format!("E{}", &whole[1..])),
                (2, 0..8) => Some(whole[1..].to_owned()),
                (4 | 2 | 1, 8..) => Some(format!(
                    "{whole}{}",
                    match len {
                        4 => "D",
                        2 => "W",
                        _ => "L",
                    }
                )),
                (1, 0..4) => Some(format!("{}L", &whole[1..2])),
                (1, _) => Some(format!("{}L", &whole[1..])),
                _ => None,
            };
            bytes(&name, whole, number * 8, 8);
        }
        for number in 0..16 {
            let name = |len| match len {
                32 => Some(format!("YMM{number}")),
                16 => Some(format!("XMM{number}")),
                _ => None,
            };
            bytes(&name, &format!("YMM{number}"), VECTORS + number * 32, 32);
        }
        for (at, name) in FLAG_BITS.iter().map(|(_, _, name)| name).chain(&OTHER_NAMES).enumerate() {
            if self.meets(Self::one(FLAGS + at)) {
                names.push((*name).to_owned());
            }
        }
        f.write_str(&names.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_registers_are_named() {
        let of = |register| Atoms::register(register).unwrap();
        let said = |register| of(register).to_string();
        let all =
            [Register::AH, Register::SIL, Register::R9D, Register::EAX, Register::BX, Register::XMM3, Register::ZMM7];
        assert_eq!(all.map(said), ["RAX[1..2]", "SIL", "R9D", "EAX", "BX", "XMM3", "YMM7"]);
        let set =
            (of(Register::RCX) - of(Register::CX)) | Atoms::flags(RflagsBits::CF | RflagsBits::ZF) | of(Register::ST3);
        assert_eq!(set.to_string(), "RCX[2..8] CF ZF ST3");
        assert_eq!((set.count(), set.each().count(), (!set & set).count()), (9, 9, 0));
        assert_eq!(set.numbers().map(Atoms::numbered).collect::<Atoms>(), set);
        assert_eq!((!Atoms::NONE).numbers().collect::<Vec<_>>(), (0..COUNT).collect::<Vec<_>>());
        assert!(of(Register::RAX).has(of(Register::AH)) && !of(Register::AL).meets(of(Register::AH)));
    }
}
