//! Instructions of a block that DynamoRIO is building.

macro_rules! query {
    ($(#[$doc:meta])* $name:ident, $dr:ident) => {
        $(#[$doc])*
        #[must_use]
        pub fn $name(self) -> bool {
            // SAFETY: see the crate's "Safety of the whole"; the function only looks at its argument.
            unsafe { sys::$dr(self.0) != 0 }
        }
    };
}

use crate::sys;

/// The instructions of a block, as DynamoRIO's event hands them out.
pub type List = sys::instrlist_t;
/// A register's number of DynamoRIO's.
pub type RegId = sys::reg_id_t;
/// The size of an operand, as DynamoRIO counts.
pub type Size = sys::opnd_size_t;
/// No register.
pub const NO_REGISTER: RegId = sys::DR_REG_NULL as RegId;
/// No size.
pub const NO_SIZE: Size = sys::OPSZ_0 as Size;

mod block;
mod instr;
mod operand;
mod registers;

pub use block::{Block, Copied, Emitted, Instrs, segment_base_slot};
pub use instr::{ARITHMETIC, Instr};
pub use operand::{MemoryParts, Opnd, Segment, opsz};
pub use registers::{Gpr, vector_from_id};
