//! What is emitted: blocks with their counts, checks and mirrored stores, as machine code; where their slow paths lie, and how these lead into the
//! client.

pub mod branches;
pub mod by_rip;
pub mod callout;
pub mod chunk;
pub mod counter;
pub mod exchange;
pub mod flush;
pub mod instrument;
pub mod lies;
pub mod machine;
pub mod map;
pub mod out_of_line;
pub mod reclaim;
pub mod site;
