//! Slices found another way: forwards, with what wrote each byte last, and what that followed from.

pub mod random;
pub mod reference;
