//! Machine code that the compiler has assembled, for whoever emits it.
//!
//! What is known only when it is emitted, as the place of a slot, is a hole at the code's end. The source has `{u8}`, `{u32}` or `{u64}`
//! there, which the assembler takes for numbers that need as many bits.

use std::ops::Deref;

/// Machine code up to its holes: see [`assembled!`](crate::assembled!).
#[derive(Clone, Copy)]
pub struct Assembled {
    code: unsafe extern "C" fn(),
    holes: usize,
}

impl Assembled {
    /// What [`assembled!`](crate::assembled!) makes.
    ///
    /// # Safety
    /// At `code`, there are a byte and as many bytes of machine code as it says, `holes` of them holes.
    pub const unsafe fn new(code: unsafe extern "C" fn(), holes: usize) -> Self {
        Self { code, holes }
    }

    /// The code.
    #[must_use]
    pub fn bytes(self) -> &'static [u8] {
        let start = self.code as *const u8;
        // SAFETY: as promised when this was made; code can be read, and does not change.
        unsafe { std::slice::from_raw_parts(start.add(1), usize::from(*start) - self.holes) }
    }
}

impl Deref for Assembled {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes()
    }
}

/// Some lines of assembly as an [`Assembled`], 255 bytes at most: all of it, or, behind a semicolon, all but so many bytes at its end,
/// which are holes.
///
/// [`Assembled`]: crate::assembled::Assembled
///
/// ```
/// use bugnet_dr::assembled;
/// assert_eq!(assembled!("seto al", "lahf").bytes(), [0x0f, 0x90, 0xc0, 0x9f]);
/// assert_eq!(assembled!("sub qword ptr gs:[{u32}], {u32}"; 8).bytes(), [0x65, 0x48, 0x81, 0x2c, 0x25]);
/// ```
#[macro_export]
macro_rules! assembled {
    ($($line:literal),+ $(; $holes:literal)?) => {{
        #[unsafe(naked)]
        unsafe extern "C" fn code() {
            ::std::arch::naked_asm!(
                ".byte 772f - 771f",
                "771:",
                $($line,)+
                "772:",
                // All of them are named once.
                "# {u8} {u32} {u64}",
                u8 = const 0x11,
                u32 = const 0x1122_3344,
                u64 = const 0x1122_3344_5566_7788_u64,
            )
        }
        // SAFETY: as the assembler has made it. Nobody calls it.
        unsafe { $crate::assembled::Assembled::new(code, 0 $(+ $holes)?) }
    }};
}
