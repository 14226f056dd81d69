//! Positions in code, and code that changes.

use crate::common::{CODE, DATA, Interval, assemble, start};
use crate::{RAX, RBX, RCX, RDI, RDX, assert_end, behind, divergence};
use bugnet_format::control::Stop;
use bugnet_format::regs::RegisterFile;
use iced_x86::code_asm::*;

#[test]
fn loops_count_exactly() {
    let code = assemble(CODE, |a| {
        let mut again = a.create_label();
        a.set_label(&mut again)?;
        a.mov(rax, qword_ptr(rbx + rcx * 8))?; // 4 instructions an iteration
        a.add(rdx, rax)?;
        a.dec(rcx)?;
        a.jnz(again)?;
        a.nop()
    });
    let mut regs = start();
    let count = 1_000_000u64;
    regs.gpr[RCX] = count;
    regs.gpr[RDX] = 0;
    regs.gpr[RBX] = DATA - 0x1000_0000;
    let mut interval = Interval::new(&code, &regs);
    // Every 1000th value is recorded.
    let mut sum = 0;
    for i in (0..count).step_by(1000) {
        interval.load(i * 4, 0, &(i + 1).to_le_bytes());
        sum += i + 1;
    }
    let mut end = behind(&code, &regs);
    end.gpr[RAX] = 0;
    end.gpr[RCX] = 0;
    end.gpr[RDX] = sum;
    end.rflags_known = 0x8d5;
    end.rflags = 0x246;
    interval.end(count * 4 + 1, &end);
    let mut replay = interval.replay();
    // Stops in the middle of a block, with flags of an instruction in the middle.
    for position in [1, 2, 3, 4, 5, 4001, 4002, 4003, 2_000_003] {
        let run = replay.run_to(position);
        assert_eq!((&run.stop, run.position), (&Stop::Reached, position));
        let (iteration, within) = (position / 4, position % 4);
        assert_eq!(run.regs.gpr[RCX], count - iteration - u64::from(within == 3), "{position}");
        let lengths = [0, 4, 7, 10];
        assert_eq!(run.regs.rip, CODE + lengths[within as usize]);
    }
    let run = replay.run();
    assert_end(&run);
    assert_eq!(run.position, count * 4 + 1);
    // Over is over.
    assert_end(&replay.run());
}

#[test]
fn changed_code_runs_as_changed() {
    let second = CODE + 0x1000;
    let returning = |value: u32| {
        assemble(second, |a| {
            a.mov(eax, value)?;
            a.ret()
        })
    };
    let code = assemble(CODE, |a| {
        a.call(second)?; // 0, with 1 and 2
        a.mov(rbx, rax)?; // 3
        a.mov(dword_ptr(rdi), 22)?; // 4: the program changes the code itself
        a.call(second)?; // 5, with 6 and 7
        a.add(rbx, rax)?; // 8
        a.call(second + 0x2000)?; // 9, with 10 and 11: appears later
        a.add(rbx, rax) // 12
    });
    let other = assemble(second + 0x2000, |a| {
        a.mov(eax, 33)?;
        a.ret()
    });
    let mut regs = start();
    regs.gpr[RDI] = second + 1;
    let mut end = behind(&code, &regs);
    end.gpr[RAX] = 33;
    end.gpr[RBX] = 11 + 22 + 33;
    let mut interval = Interval::new(&code, &regs);
    interval.code(second, &returning(11)).later_code(second, &returning(22)).later_code(second + 0x2000, &other);
    let run = interval.clone().new_code(6, 1).new_code(10, 2).end(13, &end).replay().run();
    assert_end(&run);
    // Code that was never recorded.
    let run = interval.clone().new_code(6, 1).end(13, &end).replay().run();
    assert!(divergence(&run).contains("0x555555557000, of which the log has no code"), "{run:?}");
    assert_eq!((run.position, run.regs.rip), (10, second + 0x2000));
}

#[test]
fn an_instruction_across_pages_whose_second_comes_later() {
    let code = assemble(CODE + 4093, |a| a.mov(rax, 0x1122_3344_5566_7788u64));
    let mut first = vec![0x90; 4093];
    first.extend_from_slice(&code[..3]);
    let mut regs = start();
    regs.rip = CODE + 4092;
    let mut end = RegisterFile { rip: CODE + 4103, ..regs.clone() };
    end.gpr[RAX] = 0x1122_3344_5566_7788;
    let mut interval = Interval::new(&first, &regs);
    interval.later_code(CODE + 4096, &code[3..]);
    assert_end(&interval.new_code(1, 1).end(2, &end).replay().run());
}

#[test]
fn an_instruction_that_changes_its_own_block() {
    // The store changes the immediate of the next instruction, in the same block.
    let code = assemble(CODE, |a| {
        a.mov(byte_ptr(rdi), 7)?; // 0: 3 bytes
        a.mov(eax, 1)?; // 1: its immediate is at +4
        a.nop()
    });
    assert_eq!(code.len(), 9);
    let mut changed = code.clone();
    changed[4] = 7;
    let mut regs = start();
    regs.gpr[RDI] = CODE + 4;
    let mut end = behind(&code, &regs);
    end.gpr[RAX] = 7;
    let mut interval = Interval::new(&code, &regs);
    interval.later_code(CODE, &changed);
    assert_end(&interval.new_code(1, 1).end(3, &end).replay().run());
}

#[test]
fn an_instruction_cut_off_by_the_end_of_memory() {
    let mut code = vec![0x90; 4095];
    code.push(0x48); // A prefix, and the next page is missing.
    let mut regs = start();
    regs.rip = CODE + 4093;
    let end = RegisterFile { rip: CODE + 4095, ..regs.clone() };
    assert_end(&Interval::new(&code, &regs).end(2, &end).replay().run());
    let beyond = Interval::new(&code, &regs).load(2, 0, &[1; 8]).end(3, &end).replay().run();
    assert!(divergence(&beyond).contains("no instruction at 0x555555554fff"), "{beyond:?}");
    let missing = Interval::new(&code, &regs).end(3, &end).replay().run();
    divergence(&missing);
    assert_eq!(missing.position, 2);
}

#[test]
fn exception_flags_stay_where_code_comes_to_what_was_none() {
    let second = CODE + 0x1000;
    let first = assemble(CODE, |a| {
        a.fld1()?; // 0
        a.fldz()?; // 1
        a.fdivp(st1, st0)?; // 2: a division by zero
        a.fstp(st0)?; // 3
        a.mov(qword_ptr(rdi), rax)?; // 4
        a.jmp(second) // 5
    });
    let other = assemble(second, |a| a.nop());
    let mut regs = start();
    regs.gpr[RDI] = second;
    // No instruction.
    regs.gpr[RAX] = 0x0606_0606_0606_0606;
    let mut end = RegisterFile { rip: second + 1, fsw: 4, ..regs.clone() };
    end.st[7] = [0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x7f];
    let mut interval = Interval::new(&first, &regs);
    interval.later_code(second, &other);
    let interval = interval.new_code(6, 1).end(7, &end);
    assert_end(&interval.clone().replay().run());
    // Also where it stops before.
    for position in [5, 6] {
        let mut replay = interval.replay();
        assert_eq!((replay.run_to(position).stop, replay.run_to(position).regs.fsw), (Stop::Reached, 4), "{position}");
        assert_end(&replay.run());
    }
}

#[test]
fn an_instruction_finds_what_was_there_before_the_code_behind_it() {
    let second = CODE + 0x1000;
    let first = assemble(CODE, |a| {
        a.fld1()?; // 0
        a.fldz()?; // 1
        a.fdivp(st1, st0)?; // 2: a division by zero
        a.fstp(st0)?; // 3
        a.mov(qword_ptr(rdi), rax)?; // 4
        a.mov(rbx, qword_ptr(rdi + 8))?; // 5
        a.jmp(qword_ptr(rdi + 16)) // 6: reads where it jumps to
    });
    let mut regs = start();
    regs.gpr[RDI] = second;
    // No instruction.
    regs.gpr[RAX] = 0x0606_0606_0606_0606;
    let mut end = RegisterFile { rip: second + 5, fsw: 4, ..regs.clone() };
    end.st[7] = [0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x7f];
    end.gpr[RBX] = 0x1122;
    let mut interval = Interval::new(&first, &regs);
    interval.later_code(second, &[0x90; 32]);
    let interval = interval.load(5, 0, &0x1122u64.to_le_bytes()).load(6, 0, &(second + 4).to_le_bytes());
    assert_end(&interval.new_code(7, 1).end(8, &end).replay().run());
}
