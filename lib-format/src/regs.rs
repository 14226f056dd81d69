//! The register file of a thread, as checkpoints hold it (FORMAT.md, "Register file").

use crate::wire::{Reader, WireError};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Names of the general purpose registers in the processor's own numbering, as used in [`RegisterFile::gpr`].
pub const GPR_NAMES: [&str; 16] =
    ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];

/// Index of RAX in [`RegisterFile::gpr`].
pub const RAX: usize = 0;
/// Index of RCX in [`RegisterFile::gpr`].
pub const RCX: usize = 1;
/// Index of RSP in [`RegisterFile::gpr`].
pub const RSP: usize = 4;
/// Index of R11 in [`RegisterFile::gpr`].
pub const R11: usize = 11;

/// The six arithmetic flags (CF, PF, AF, ZF, SF, OF) within RFLAGS.
pub const ARITHMETIC_FLAGS: u64 = 0x8d5;

/// The flags of RFLAGS that user code can change and that are compared: the arithmetic ones and DF.
pub const COMPARED_FLAGS: u64 = ARITHMETIC_FLAGS | 0x400;

/// The flag of RFLAGS for the alignment check: replay sets it where a register file has it, but does not compare it.
pub const ALIGNMENT_CHECK: u64 = 1 << 18;

/// Bit of [`RegisterFile::rflags_known`] that says that x87 state and MXCSR are not known (a signal arrived, whose
/// frame the recorder cannot see); they are not compared then.
pub const FPU_UNKNOWN: u64 = 1 << 63;

/// Bit of [`RegisterFile::rflags_known`] that says that no register is known; none is compared then.
pub const NOTHING_KNOWN: u64 = 1 << 62;

/// Bits of [`RegisterFile::rflags_known`] that say which general purpose registers are not known: this one for the first
/// and the next 15 for the others. A register that is overwritten before anything reads it may be unknown where a
/// signal killed the thread; it is not compared then.
pub const GPR_UNKNOWN: u64 = 1 << 32;

/// Every register that user code can read, of one thread at one position.
///
/// Not held, since nothing on this level can tell them apart between processors: x87's last
/// instruction and data pointers and opcode (FIP, FDP, FOP), and XSAVE's in-use bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterFile {
    /// General purpose registers in the order of [`GPR_NAMES`].
    pub gpr: [u64; 16],
    /// Address of the next instruction.
    pub rip: u64,
    /// RFLAGS; only [`COMPARED_FLAGS`] and [`ALIGNMENT_CHECK`] are meaningful.
    pub rflags: u64,
    /// Which bits of [`Self::rflags`] are known, and with [`FPU_UNKNOWN`] and [`NOTHING_KNOWN`], whether other
    /// registers are. An arithmetic flag that is overwritten before anything reads it may be unknown at a checkpoint.
    pub rflags_known: u64,
    /// Base address of the FS segment.
    pub fs_base: u64,
    /// Base address of the GS segment.
    pub gs_base: u64,
    /// SSE control and status; bits 16 and up are zero.
    pub mxcsr: u32,
    /// x87 control word.
    pub fcw: u16,
    /// x87 status word, with the stack top in bits 11 to 13.
    pub fsw: u16,
    /// x87 tags in FXSAVE's abridged form, a bit a physical register, 1 for in use.
    pub ftw: u8,
    /// x87 registers ST0 to ST7 (MM0 to MM7 in their low 8 bytes), 80 bits each.
    pub st: [[u8; 10]; 8],
    /// YMM0 to YMM15, XMM in the low half; zero above 128 bits where the processor has no AVX.
    #[serde(with = "serde_ymm")]
    pub ymm: [[u8; 32]; 16],
}

mod serde_ymm {
    //! Vector registers: where people read them, as hexadecimal strings, lowest byte last as debuggers print them; else as bytes.
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
    use serde_bytes::{ByteArray, Bytes};
    use std::fmt::Write as _;

    const LEN: usize = 32;
    const ALL: usize = 16 * LEN;

    fn hex(reg: &[u8; LEN]) -> String {
        reg.iter().rev().fold(String::with_capacity(2 * LEN), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }

    fn of_hex(hex: &str) -> Option<[u8; LEN]> {
        let digit = |at: usize| char::from(*hex.as_bytes().get(at)?).to_digit(16).map(|digit| digit as u8);
        let mut reg = [0; LEN];
        for (number, byte) in reg.iter_mut().rev().enumerate() {
            *byte = digit(2 * number)? << 4 | digit(2 * number + 1)?;
        }
        (hex.len() == 2 * LEN).then_some(reg)
    }

    pub fn serialize<S: Serializer>(ymm: &[[u8; LEN]; 16], s: S) -> Result<S::Ok, S::Error> {
        match s.is_human_readable() {
            true => ymm.each_ref().map(hex).serialize(s),
            false => Bytes::new(ymm.as_flattened()).serialize(s),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<[[u8; LEN]; 16], D::Error> {
        if !d.is_human_readable() {
            let bytes = ByteArray::<ALL>::deserialize(d)?.into_array();
            let mut out = [[0; LEN]; 16];
            out.as_flattened_mut().copy_from_slice(&bytes);
            return Ok(out);
        }
        let strings = <[String; 16]>::deserialize(d)?;
        let mut out = [[0; LEN]; 16];
        for (reg, hex) in out.iter_mut().zip(&strings) {
            *reg = of_hex(hex).ok_or_else(|| D::Error::custom("expected 64 hexadecimal digits"))?;
        }
        Ok(out)
    }
}

impl Default for RegisterFile {
    fn default() -> Self {
        Self {
            gpr: [0; 16],
            rip: 0,
            rflags: 0x202,
            rflags_known: COMPARED_FLAGS,
            fs_base: 0,
            gs_base: 0,
            mxcsr: 0x1f80,
            fcw: 0x37f,
            fsw: 0,
            ftw: 0,
            st: [[0; 10]; 8],
            ymm: [[0; 32]; 16],
        }
    }
}

/// A register that two register files disagree about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegisterDifference {
    /// Name as a debugger spells it: `rax`, `rflags`, `ymm3`, `st0`, ...
    pub register: String,
    /// The recorded value, hexadecimal.
    pub expected: String,
    /// The replayed value, hexadecimal.
    pub got: String,
}

impl fmt::Display for RegisterDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: recorded {}, replayed {}", self.register, self.expected, self.got)
    }
}

impl RegisterFile {
    /// A register file of which nothing is known.
    #[must_use]
    pub fn unknown() -> Self {
        Self { rflags_known: NOTHING_KNOWN, ..Self::default() }
    }

    /// Encoded size in bytes.
    pub const SIZE: usize = 16 * 8 + 5 * 8 + 4 + 2 + 2 + 1 + 8 * 10 + 16 * 32;

    /// Appends the [`Self::SIZE`] bytes of this register file.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for value in self.gpr {
            out.extend_from_slice(&value.to_le_bytes());
        }
        for value in [self.rip, self.rflags, self.rflags_known, self.fs_base, self.gs_base] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&self.mxcsr.to_le_bytes());
        out.extend_from_slice(&self.fcw.to_le_bytes());
        out.extend_from_slice(&self.fsw.to_le_bytes());
        out.push(self.ftw);
        self.st.iter().for_each(|reg| out.extend_from_slice(reg));
        self.ymm.iter().for_each(|reg| out.extend_from_slice(reg));
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let mut regs = Self::default();
        for value in &mut regs.gpr {
            *value = r.u64()?;
        }
        regs.rip = r.u64()?;
        regs.rflags = r.u64()?;
        regs.rflags_known = r.u64()?;
        regs.fs_base = r.u64()?;
        regs.gs_base = r.u64()?;
        regs.mxcsr = r.u32()?;
        if regs.mxcsr > 0xffff {
            return Err(WireError("MXCSR has bits set that no processor has"));
        }
        regs.fcw = r.u16()?;
        regs.fsw = r.u16()?;
        regs.ftw = r.u8()?;
        for reg in &mut regs.st {
            *reg = r.array()?;
        }
        for reg in &mut regs.ymm {
            *reg = r.array()?;
        }
        Ok(regs)
    }

    /// Hash (XXH3, 64 bits) over every register, of which only those count that `mask` says are compared; it is like
    /// [`Self::rflags_known`].
    ///
    /// The `CHECK` record holds this; `mask` is its `rflags_known`.
    #[must_use]
    pub fn hash(&self, mask: u64) -> u64 {
        let mut masked = if mask & NOTHING_KNOWN == 0 { self.clone() } else { Self::default() };
        if mask & FPU_UNKNOWN != 0 {
            let Self { mxcsr, fcw, fsw, ftw, st, .. } = Self::default();
            masked = Self { mxcsr, fcw, fsw, ftw, st, ..masked };
        }
        for (i, gpr) in masked.gpr.iter_mut().enumerate() {
            if mask & GPR_UNKNOWN << i != 0 {
                *gpr = 0;
            }
        }
        masked.rflags_known = mask & COMPARED_FLAGS;
        masked.rflags &= masked.rflags_known;
        let mut bytes = Vec::with_capacity(Self::SIZE);
        masked.encode(&mut bytes);
        xxhash_rust::xxh3::xxh3_64(&bytes)
    }

    /// The registers in which `got`, the replayed file, differs from `self`, the recorded one.
    ///
    /// What either side does not know is not compared.
    #[must_use]
    pub fn differences(&self, got: &Self) -> Vec<RegisterDifference> {
        let mut out = Vec::new();
        let unknown = self.rflags_known | got.rflags_known;
        if unknown & NOTHING_KNOWN != 0 {
            return out;
        }
        let mut compare = |register: String, expected: String, got: String| {
            if expected != got {
                out.push(RegisterDifference { register, expected, got });
            }
        };
        let hex64 = |v: u64| format!("{v:#x}");
        let bytes = |b: &[u8]| {
            let digits: String = b.iter().rev().map(|b| format!("{b:02x}")).collect();
            format!("0x{digits}")
        };
        compare("rip".into(), hex64(self.rip), hex64(got.rip));
        for (i, name) in GPR_NAMES.iter().enumerate() {
            if unknown & GPR_UNKNOWN << i == 0 {
                compare((*name).into(), hex64(self.gpr[i]), hex64(got.gpr[i]));
            }
        }
        let known = self.rflags_known & got.rflags_known & COMPARED_FLAGS;
        compare("rflags".into(), hex64(self.rflags & known), hex64(got.rflags & known));
        compare("fs_base".into(), hex64(self.fs_base), hex64(got.fs_base));
        compare("gs_base".into(), hex64(self.gs_base), hex64(got.gs_base));
        for i in 0..16 {
            compare(format!("ymm{i}"), bytes(&self.ymm[i]), bytes(&got.ymm[i]));
        }
        if unknown & FPU_UNKNOWN != 0 {
            return out;
        }
        compare("mxcsr".into(), hex64(self.mxcsr.into()), hex64(got.mxcsr.into()));
        compare("fcw".into(), hex64(self.fcw.into()), hex64(got.fcw.into()));
        compare("fsw".into(), hex64(self.fsw.into()), hex64(got.fsw.into()));
        compare("ftw".into(), hex64(self.ftw.into()), hex64(got.ftw.into()));
        for i in 0..8 {
            compare(format!("st{i}"), bytes(&self.st[i]), bytes(&got.st[i]));
        }
        out
    }
}
