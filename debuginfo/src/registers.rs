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
const XMM0: usize = 17;

/// The registers of a frame by DWARF's numbers: 0 to 15 general purpose, then RIP, then XMM0 to XMM15.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// What is known of the first 17.
    pub general: [Option<u64>; GENERAL],
    /// The vector registers, of the innermost frame alone: calls do not keep them.
    pub vectors: Option<Box<[[u8; 32]; 16]>>,
}

impl Registers {
    /// A general purpose register or RIP.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<u64> {
        self.general.get(number).copied().flatten()
    }

    /// The bytes of any register, lowest first.
    #[must_use]
    pub fn bytes(&self, number: usize) -> Option<Vec<u8>> {
        if number < GENERAL {
            return self.get(number).map(|value| value.to_le_bytes().to_vec());
        }
        let vectors = self.vectors.as_ref()?;
        Some(vectors.get(number - XMM0)?.to_vec())
    }
}
