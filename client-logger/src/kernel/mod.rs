//! What the program asks of the kernel and gets otherwise than it would without the recorder: descriptors, limits, memory, its break and environment.

pub mod apart;
pub mod arguments;
pub mod arrivals;
pub mod borrowers;
pub mod descriptor_limit;
pub mod descriptor_list;
pub mod environment;
pub mod exclusion;
pub mod executing;
pub mod joined;
pub mod lending;
pub mod limits;
pub mod mapping_limit;
pub mod memory_limit;
pub mod program_break;
pub mod recorders;
pub mod results;
pub mod streams;
pub mod substitute;
pub mod timers;
pub mod turns;
