//! Registers, and what changes them.

use crate::common::{CODE, DATA, Interval, assemble, start};
use crate::{R11, RAX, RBX, RCX, RDI, RDX, RSI, assert_end, behind, differences, divergence};
use bugnet_format::control::Stop;
use bugnet_format::record::{OutputStream, SpecialKind, register_number};
use bugnet_format::regs::RegisterFile;
use iced_x86::code_asm::*;

#[test]
fn straight_code_reaches_its_end() {
    let code = assemble(CODE, |a| {
        a.mov(rax, 5u64)?;
        a.add(rax, rbx)?;
        a.imul_2(rax, rcx)?;
        a.jmp(CODE + 100)
    });
    let regs = start();
    let mut end = regs.clone();
    end.gpr[RAX] = (5 + regs.gpr[RBX]).wrapping_mul(regs.gpr[RCX]);
    end.rip = CODE + 100;
    end.rflags_known = 0;
    let interval = Interval::new(&code, &regs);
    let good = interval.clone().end(4, &end).replay().run();
    assert_end(&good);
    assert_eq!((good.position, good.counts.instructions, good.counts.checks), (4, 4, 1));
    end.gpr[RAX] ^= 1;
    let bad = interval.clone().end(4, &end).replay().run();
    assert!(differences(&bad).starts_with("rax: recorded"), "{bad:?}");
    let Stop::Divergence { expected, .. } = &bad.stop else { unreachable!() };
    assert_eq!(expected.as_deref(), Some(&end));
}

#[test]
fn every_register_is_restored() {
    let code = assemble(CODE, |a| a.nop());
    let mut regs = start();
    regs.rflags = 0xed7;
    regs.fsw = 0x3000;
    regs.ftw = 0xc3;
    for (i, st) in regs.st.iter_mut().enumerate() {
        *st = [i as u8, 1, 2, 3, 4, 5, 6, 0x87, 8, 0x40];
    }
    regs.fs_base = 0x7fff_f700_0000;
    regs.gs_base = 0x1_0000;
    let mut end = regs.clone();
    end.rip += 1;
    let mut replay = Interval::new(&code, &regs).check(0, &regs).check(1, &end).end(1, &end).replay();
    let at_start = replay.run_to(0);
    assert_eq!((at_start.stop, at_start.position), (Stop::Reached, 0));
    assert_eq!(regs.differences(&at_start.regs), []);
    assert_end(&replay.run());
    // Each register counts.
    let one_bit_each: [fn(&mut RegisterFile); 8] = [
        |r| r.gpr[15] ^= 1 << 63,
        |r| r.rflags ^= 0x400,
        |r| r.fs_base ^= 1 << 40,
        |r| r.gs_base ^= 8,
        |r| r.mxcsr ^= 0x8000,
        |r| r.fsw ^= 0x800,
        |r| r.st[7][9] ^= 1,
        |r| r.ymm[15][31] ^= 1,
    ];
    for change in one_bit_each {
        let mut wrong = end.clone();
        change(&mut wrong);
        divergence(&Interval::new(&code, &regs).end(1, &wrong).replay().run());
        let check = Interval::new(&code, &regs).check(1, &wrong).end(1, &end).replay().run();
        assert!(divergence(&check).contains("hash"), "{check:?}");
    }
}

#[test]
fn segment_bases_follow_system_calls() {
    let code = assemble(CODE, |a| {
        a.mov(rax, qword_ptr(8).fs())?; // 0
        a.syscall()?; // 1
        a.mov(rbx, qword_ptr(0x10).fs())?; // 2
        a.mov(qword_ptr(rdx).gs(), rbx) // 3
    });
    let mut regs = start();
    regs.fs_base = DATA;
    regs.gs_base = DATA + 0x5000;
    regs.gpr[RDX] = 0x20;
    let mut end = behind(&code, &regs);
    end.gpr[RAX] = 0;
    end.gpr[RBX] = 22;
    end.gpr[RCX] = CODE + code.len() as u64 - 13;
    end.gpr[R11] = 0x202;
    end.fs_base = DATA + 0x9000;
    let args = [0x1002, DATA + 0x9000, 0, 0, 0, 0];
    let base = [(register_number::FS_BASE, DATA + 0x9000)];
    let mut replay = Interval::new(&code, &regs)
        .load(0, 0, &11u64.to_le_bytes())
        .syscall(1, 158, 0, args, OutputStream::None, &base)
        .load(2, 0, &22u64.to_le_bytes())
        .end(4, &end)
        .replay();
    assert_eq!(replay.run_to(1).regs.gpr[RAX], 11);
    assert_end(&replay.run());
    assert_eq!(replay.read(DATA + 8, 1), [11]);
    assert_eq!(replay.read(DATA + 0x9010, 1), [22]);
    assert_eq!(replay.read(DATA + 0x5020, 1), [22]);
}

#[test]
fn system_calls_are_skipped_and_their_output_sent() {
    let code = assemble(CODE, |a| {
        a.mov(rbx, 0x0a6f_6c6c_6568u64)?; // "hello\n"
        a.mov(qword_ptr(rsi), rbx)?;
        a.syscall()?; // 2: write
        a.syscall()?; // 3: writev
        a.syscall()?; // 4: exit, as far as anybody knows
        a.nop()
    });
    let mut regs = start();
    regs.gpr[RSI] = DATA;
    let vector = DATA + 0x800;
    let mut iovec = Vec::new();
    for (at, len) in [(DATA + 1, 2), (DATA, 0), (DATA + 3, 100)] {
        iovec.extend_from_slice(&u64::to_le_bytes(at));
        iovec.extend_from_slice(&u64::to_le_bytes(len));
    }
    let mut interval = Interval::new(&code, &regs);
    interval
        .syscall(2, 1, 6, [1, DATA, 6, 0, 0, 0], OutputStream::Stdout, &[])
        .memory(3, vector, &iovec)
        .syscall(3, 20, 5, [2, vector, 3, 0, 0, 0], OutputStream::Stderr, &[])
        .syscall(4, 60, -38, [0; 6], OutputStream::None, &[(3, 99)]);
    let mut end = behind(&code, &regs);
    end.gpr[RAX] = (-38i64).cast_unsigned();
    end.gpr[RBX] = 99;
    end.gpr[RCX] = end.rip - 1;
    end.gpr[R11] = 0x202;
    let mut replay = interval.clone().end(6, &end).replay();
    // A system call's own position is before it.
    let before = replay.run_to(3);
    assert_eq!(before.output, [(OutputStream::Stdout, b"hello\n".to_vec())]);
    assert_eq!(before.regs.gpr[RAX], 6);
    let run = replay.run();
    assert_end(&run);
    assert_eq!(run.output, [(OutputStream::Stderr, b"el".to_vec()), (OutputStream::Stderr, b"lo\n".to_vec())]);
    // Without the record, the instruction cannot be passed.
    let missing = Interval::new(&code, &regs).end(6, &end).replay().run();
    assert!(divergence(&missing).contains("no record for the instruction"), "{missing:?}");
    assert_eq!(missing.position, 2);
}

#[test]
fn special_results_are_set() {
    let code = assemble(CODE, |a| {
        a.rdtsc()?;
        a.cpuid()?;
        a.rdrand(rsi)?;
        a.fxsave(ptr(rdi))?;
        a.fnstenv(ptr(rdi))?;
        a.mov(rbx, qword_ptr(rdi + 8))
    });
    let mut regs = start();
    regs.gpr[RDI] = DATA;
    let mut end = behind(&code, &regs);
    end.gpr[RAX] = 3;
    end.gpr[RDX] = 4;
    end.gpr[RSI] = 5;
    end.gpr[RBX] = 0x77;
    end.rflags = 0x203;
    end.rflags_known = 0x1;
    end.fcw |= 0x3f;
    let run = Interval::new(&code, &regs)
        .special(0, SpecialKind::Rdtsc, &[(0, 1), (2, 2)])
        .special(1, SpecialKind::Cpuid, &[(0, 3), (2, 4)])
        .special(2, SpecialKind::Rdrand, &[(6, 5), (register_number::RFLAGS, 0x203)])
        .special(3, SpecialKind::OpaqueStore, &[])
        .memory(4, DATA + 8, &[0x77])
        .special(4, SpecialKind::OpaqueStore, &[])
        .end(6, &end)
        .replay()
        .run();
    assert_end(&run);
}

#[test]
fn registers_change_in_the_middle() {
    let code = assemble(CODE, |a| {
        a.inc(rax)?;
        a.inc(rax)?;
        a.inc(rax)?;
        a.inc(rax)
    });
    let mut regs = start();
    regs.gpr[RAX] = 0;
    let mut end = behind(&code, &regs);
    end.gpr[RAX] = 102;
    // After two instructions: another value, and back by one instruction.
    let run = Interval::new(&code, &regs)
        .registers(2, &[(0, 99), (register_number::RIP, CODE + 3)])
        .end(5, &end)
        .replay()
        .run();
    assert_end(&run);
}

#[test]
fn the_counter_is_back_behind_a_block_that_ends_with_its_register() {
    // Blocks of 128 instructions, the last of which changes R11, whole and in copies that call.
    let code = assemble(CODE, |a| {
        for block in 0..4 {
            for index in 0..127 {
                match index {
                    100 => a.mov(rax, qword_ptr(rbx + 8 * block))?,
                    _ => a.nop()?,
                }
            }
            a.add(r11, 5)?;
        }
        a.nop()
    });
    let mut regs = start();
    regs.gpr[RBX] = DATA;
    let mut end = behind(&code, &regs);
    (end.gpr[RAX], end.gpr[R11]) = (4, regs.gpr[R11].wrapping_add(20));
    let mut interval = Interval::new(&code, &regs);
    for block in 0..4 {
        interval.load(128 * block + 100, 0, &(block + 1).to_le_bytes());
    }
    assert_end(&interval.clone().end(513, &end).replay().run());
    let mut replay = interval.end(513, &end).replay();
    for position in [127, 128, 129, 383, 384] {
        assert_eq!(replay.run_to(position).position, position);
    }
    assert_end(&replay.run());
}

#[test]
fn a_copy_of_code_goes_on_behind_instructions_that_name_their_address() {
    // A copy is made from the code's bytes, and those that depend on their address are encoded anew, perhaps longer.
    let code = assemble(CODE, |a| {
        let mut data = a.create_label();
        for _ in 0..127 {
            a.nop()?;
        }
        a.mov(rax, qword_ptr(data))?;
        for _ in 0..127 {
            a.nop()?;
        }
        a.lea(rcx, qword_ptr(data))?;
        a.nop()?;
        a.set_label(&mut data)?;
        a.dq(&[7])
    });
    let (regs, data) = (start(), CODE + code.len() as u64 - 8);
    let mut end = behind(&code, &regs);
    (end.gpr[RAX], end.gpr[RCX], end.rip) = (7, data, data);
    let mut replay = Interval::new(&code, &regs).end(257, &end).replay();
    for position in [1, 120, 127, 128, 200, 255, 256] {
        assert_eq!(replay.run_to(position).position, position);
    }
    assert_end(&replay.run());
}
