//! What can be found out from all that a recorded program executed.
//!
//! | what one wants | where |
//! |---|---|
//! | how much was executed, loaded and stored, and where | [`stats`] |
//! | what has made a value what it is | [`slice`] |

pub mod slice;
pub mod stats;
