//! What tests of slices share: slices found another way, forwards, with what wrote each byte last, and what that followed from; and
//! programs with faults that a slice must show.

pub mod bugs;
pub mod random;
pub mod reference;
