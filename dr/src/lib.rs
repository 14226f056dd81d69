//! Thin safe wrappers over DynamoRIO, for the two clients and for nothing else.
//!
//! - [`ir`]: the instructions of a block that is being built, and how to add to them.
//! - [`access`]: what an instruction reads and writes, in the order by which the log counts reads, and which
//!   instructions are not simply executed. Logger and replayer agree because both ask here.
//! - [`actions`]: what the program has set for its signals.
//! - [`mod@assembled`]: machine code that the compiler has assembled.
//! - [`dead_child`]: a child of `vfork` that was killed, as DynamoRIO is to see it.
//! - [`decode`]: one instruction, outside of a block.
//! - [`displaced`]: an instruction's machine code with its operand elsewhere.
//! - [`liveness`]: which registers a block overwrites before it reads them.
//! - [`context`]: machine contexts, as registers.
//! - [`events`]: what DynamoRIO calls, and what it tells then; [`call`]: the system call that one is about.
//! - [`fragments`]: how blocks are thrown away; [`thread`]: words of a thread's own that instrumented code finds.
//! - [`space`]: memory; [`process`]: modules, and how the process ends; [`mod@file`]: files that the program does not see.
//! - [`opcode`]: names of instructions.
//! - [`fpu`]: x87 state and MXCSR, which DynamoRIO's contexts leave out.
//! - [`heap`]: the allocator of whatever links this crate, since not all of `malloc` works inside DynamoRIO.
//!
//! # Safety of the whole
//!
//! An [`ir::Block`] is made inside DynamoRIO's block event from the pointers that the event hands out, and neither it
//! nor an [`ir::Instr`] taken from it is kept beyond the event. That is the one promise which the safe methods here
//! rest on; [`ir::Block::new`] is unsafe and states it.

pub mod access;
pub mod actions;
pub mod assembled;
pub mod call;
pub mod context;
pub mod dead_child;
pub mod decode;
pub mod displaced;
pub mod events;
pub mod file;
pub mod fpu;
pub mod fragments;
pub mod fs_base;
pub mod heap;
pub mod ir;
pub mod liveness;
mod memory;
mod older;
pub mod opcode;
pub mod process;
pub mod space;
pub mod thread;
pub mod vectors;
pub mod zeroing;

use dynamorio_sys as sys;
