//! What can be found out from all that a recorded program executed.
//!
//! | what one wants | where |
//! |---|---|
//! | how much was executed, loaded and stored, and where | [`stats`] |

pub mod stats;
