//! The registers of one frame, as far as they are known.

/// General purpose registers and RIP, by DWARF's numbers 0 to 16 (System V ABI for AMD64, figure 3.36).
pub const GENERAL: usize = 17;
/// DWARF's number of RBP.
pub const RBP: usize = 6;
/// DWARF's number of RSP.
pub const RSP: usize = 7;
/// DWARF's number of the return address column, which stands for RIP.
pub const RIP: usize = 16;
/// DWARF's number of XMM0.
pub const XMM0: usize = 17;
/// How many vector registers there are.
pub const VECTORS: usize = 16;

/// Where a byte of a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In memory.
    Memory(u64),
    /// In a register that the thread has now.
    Register {
        /// By DWARF's number.
        number: usize,
        /// Which byte of it, the lowest first.
        byte: usize,
    },
}

impl Home {
    /// Where the byte is that lies so many behind this one.
    #[must_use]
    pub fn plus(self, bytes: usize) -> Self {
        match self {
            Self::Memory(addr) => Self::Memory(addr.wrapping_add(bytes as u64)),
            Self::Register { number, byte } => Self::Register { number, byte: byte + bytes },
        }
    }
}

/// What a general purpose register of a frame holds, and where that is now: a register of an outer frame may have been stored by an inner one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its value.
    pub value: u64,
    /// Where its first byte is; none if it was computed.
    pub home: Option<Home>,
}

impl Held {
    /// What is nowhere.
    #[must_use]
    pub const fn computed(value: u64) -> Self {
        Self { value, home: None }
    }
}

/// The registers of a frame by DWARF's numbers: 0 to 15 general purpose, then RIP, then XMM0 to XMM15.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// What is known of the first 17.
    pub general: [Option<Held>; GENERAL],
    /// The vector registers, of the innermost frame alone: calls do not keep them.
    pub vectors: Option<Box<[[u8; 32]; VECTORS]>>,
}

impl Registers {
    /// Of the innermost frame: the thread has them now.
    #[must_use]
    pub fn present(general: [u64; GENERAL], vectors: Box<[[u8; 32]; VECTORS]>) -> Self {
        let held = |number| {
            let home = (number != RIP).then_some(Home::Register { number, byte: 0 });
            Some(Held { value: general[number], home })
        };
        Self { general: std::array::from_fn(held), vectors: Some(vectors) }
    }

    /// A general purpose register or RIP.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<u64> {
        self.held(number).map(|held| held.value)
    }

    /// The same, with where it is.
    #[must_use]
    pub fn held(&self, number: usize) -> Option<Held> {
        self.general.get(number).copied().flatten()
    }

    /// The bytes of any register, lowest first, and where the first is.
    #[must_use]
    pub fn bytes(&self, number: usize) -> Option<(Vec<u8>, Option<Home>)> {
        if number < GENERAL {
            return self.held(number).map(|held| (held.value.to_le_bytes().to_vec(), held.home));
        }
        let vectors = self.vectors.as_ref()?;
        Some((vectors.get(number - XMM0)?.to_vec(), Some(Home::Register { number, byte: 0 })))
    }
}
