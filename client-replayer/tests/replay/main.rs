//! Hand-made intervals whose every value is known, replayed.

mod code;
mod common;
mod ends;
mod loads;
mod process;
mod registers;
mod travel;

use bugnet_format::control::Stop;
use bugnet_format::regs::RegisterFile;
use common::{CODE, Stopped};

const RAX: usize = 0;
const RCX: usize = 1;
const RDX: usize = 2;
const RBX: usize = 3;
const RSP: usize = 4;
const RSI: usize = 6;
const RDI: usize = 7;
const R11: usize = 11;

/// The registers behind `code`, as they were before it, flags left open.
fn behind(code: &[u8], regs: &RegisterFile) -> RegisterFile {
    RegisterFile { rflags_known: 0, rip: CODE + code.len() as u64, ..regs.clone() }
}

fn assert_end(run: &Stopped) {
    assert_eq!(run.stop, Stop::End, "{run:#?}");
}

/// Asserts a divergence and returns what it says.
fn divergence(run: &Stopped) -> &str {
    let Stop::Divergence { what, .. } = &run.stop else { panic!("no divergence: {run:#?}") };
    what
}

/// The registers that a divergence is about, as text.
fn differences(run: &Stopped) -> String {
    let Stop::Divergence { expected: Some(expected), .. } = &run.stop else { panic!("no registers: {run:#?}") };
    expected.differences(&run.regs).iter().map(|difference| format!("{difference}\n")).collect()
}
