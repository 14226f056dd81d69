//! How an interval ends.

use crate::common::{CODE, Interval, assemble, start};
use crate::{RAX, RBX, assert_end, divergence};
use bugnet_format::control::Stop;
use bugnet_format::regs::RegisterFile;
use iced_x86::code_asm::*;

#[test]
fn the_end_may_be_a_fault() {
    // A jump to where nothing is: the recording ended with the signal, at the target.
    let code = assemble(CODE, |a| a.jmp(rbx));
    let mut regs = start();
    regs.gpr[RBX] = 0x1234_5000;
    let end = RegisterFile { rip: 0x1234_5000, ..regs.clone() };
    assert_end(&Interval::new(&code, &regs).end(1, &end).replay().run());
    // To no address at all.
    regs.gpr[RBX] = 0xdead_beef_dead_beef;
    let end = RegisterFile { rip: regs.gpr[RBX], ..regs.clone() };
    assert_end(&Interval::new(&code, &regs).end(1, &end).replay().run());
    // An instruction that there is not.
    let invalid = [0x90, 0x0f, 0x0b, 0x90];
    let end = RegisterFile { rip: CODE + 1, ..regs.clone() };
    assert_end(&Interval::new(&invalid, &regs).end(1, &end).replay().run());
    let undecodable = [0x90, 0x06, 0x90];
    assert_end(&Interval::new(&undecodable, &regs).end(1, &end).replay().run());
    let run = Interval::new(&undecodable, &regs).end(2, &end).replay().run();
    assert!(divergence(&run).contains("signal 4"), "{run:?}");
    // A bad access: the interval ends before it; without an end there it is a divergence.
    let store = assemble(CODE, |a| {
        a.nop()?;
        a.mov(qword_ptr(rbx), rax)?;
        a.nop()
    });
    assert_end(&Interval::new(&store, &regs).end(1, &end).replay().run());
    let run = Interval::new(&store, &regs).end(3, &end).replay().run();
    divergence(&run);
    assert_eq!((run.position, run.regs.rip), (1, CODE + 1));
}

#[test]
fn a_log_that_was_cut_off() {
    let code = assemble(CODE, |a| {
        a.mov(rax, qword_ptr(rsp))?;
        a.nop()?;
        a.mov(rax, qword_ptr(rsp))?;
        a.nop()
    });
    let mut interval = Interval::new(&code, &start());
    interval.load(0, 0, &[1; 8]).load(2, 0, &[2; 8]);
    let run = interval.replay().run();
    assert_eq!((run.stop, run.position), (Stop::CutOff, 2));
    assert_eq!(run.regs.gpr[RAX], 0x0101_0101_0101_0101);
}
