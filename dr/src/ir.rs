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

mod block;
mod instr;
mod operand;
mod registers;

pub use block::{Block, Copied, Instrs, segment_base_slot};
pub use instr::{ARITHMETIC, Instr};
pub use operand::{MemoryParts, Opnd, Segment, opsz};
pub use registers::{Gpr, vector_from_id};
