//! Jumps within code that is emitted, over so many bytes as the one behind them says. They neither read nor change a flag.

use bugnet_dr::assembled;
use bugnet_dr::assembled::Assembled;

/// On if RCX is zero.
pub const IF_RCX_ZERO: Assembled = assembled!("jrcxz 2f", "2:"; 1);
/// On unless it is.
pub const UNLESS_RCX_ZERO: Assembled = assembled!("jrcxz 3f", "jmp 2f", "2:", "3:"; 1);
/// On, or back.
pub const GO: Assembled = assembled!("jmp 2f", "2:"; 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_is_what_it_is_called() {
        assert_eq!(IF_RCX_ZERO.bytes(), [0xe3]);
        assert_eq!(UNLESS_RCX_ZERO.bytes(), [0xe3, 2, 0xeb]);
        assert_eq!(GO.bytes(), [0xeb]);
    }
}
