//! Hand-made intervals whose every value is known, replayed.

mod common;

use bugnet_format::control::{Request, Response, Stop};
use bugnet_format::record::{OutputStream, SpecialKind, register_number};
use bugnet_format::regs::RegisterFile;
use common::{CODE, DATA, Interval, Replay, STACK, Stopped, assemble, start};
use iced_x86::code_asm::*;

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
fn a_load_takes_the_recorded_value() {
    let code = assemble(CODE, |a| {
        a.mov(rax, qword_ptr(rbx + 8))?;
        a.add(rax, 1)?;
        a.mov(qword_ptr(rbx), rax)?;
        a.mov(rcx, qword_ptr(rbx))?;
        a.mov(rdx, qword_ptr(rbx + 16))?;
        a.nop()
    });
    let mut regs = start();
    regs.gpr[RBX] = DATA + 100;
    let mut end = behind(&code, &regs);
    end.gpr[RAX] = 0x1235;
    end.gpr[RCX] = 0x1235;
    end.gpr[RDX] = 0;
    let interval = Interval::new(&code, &regs);
    let run = interval.clone().load(0, 0, &0x1234u64.to_le_bytes()).end(6, &end).replay().run();
    assert_end(&run);
    assert_eq!(run.counts.loads, 1);
    let bad = interval.clone().load(0, 0, &0x1235u64.to_le_bytes()).end(6, &end).replay().run();
    assert!(differences(&bad).contains("rcx: recorded 0x1235, replayed 0x1236"), "{bad:?}");
    // A value for an instruction that reads nothing.
    let bad = interval.clone().load(1, 0, &0x1234u64.to_le_bytes()).end(6, &end).replay().run();
    assert!(divergence(&bad).contains("no memory read 0"), "{bad:?}");
    assert_eq!(bad.position, 1);
}

#[test]
fn ordinals_and_offsets_choose_the_bytes() {
    let code = assemble(CODE, |a| {
        a.cmpsq()?; // reads [rsi] and [rdi]
        a.setc(al)?;
        a.vmovdqu(ymm1, ymmword_ptr(rdi))
    });
    let mut regs = start();
    regs.gpr[RAX] = 0;
    regs.gpr[RSI] = DATA;
    // Across a page boundary.
    regs.gpr[RDI] = DATA + 0x1ff4;
    let mut end = behind(&code, &regs);
    end.gpr[RSI] += 8;
    end.gpr[RDI] += 8;
    end.gpr[RAX] = 1;
    end.ymm[1] = [0; 32];
    end.ymm[1][30..].copy_from_slice(&[7, 8]);
    let run = Interval::new(&code, &regs)
        .load(0, 0, &4u64.to_le_bytes())
        .load(0, 1, &0x5_0000_0000u64.to_le_bytes())
        .load_at(2, 0, 30, &[7, 8])
        .end(3, &end)
        .replay()
        .run();
    assert_end(&run);
}

#[test]
fn repeated_string_instructions_read_ranges() {
    let code = assemble(CODE, |a| {
        a.rep().movsb()?;
        a.std()?;
        a.mov(rsi, DATA + 0x2ff8)?;
        a.mov(rdi, DATA + 0x8_0000)?;
        a.mov(ecx, 0x300)?;
        a.rep().movsq()?;
        a.cld()
    });
    let mut regs = start();
    regs.gpr[RSI] = DATA + 0xffe;
    regs.gpr[RDI] = DATA + 0x10_0000 - 3;
    regs.gpr[RCX] = 0x2_0000;
    let mut end = behind(&code, &regs);
    // Downwards: 0x300 elements of 8 bytes.
    end.gpr[RSI] = DATA + 0x3000 - 8 - 0x1800;
    end.gpr[RDI] = DATA + 0x8_0000 - 0x1800;
    end.gpr[RCX] = 0;
    let mut replay = Interval::new(&code, &regs)
        .load_at(0, 0, 0, &[1, 2, 3, 4])
        .load_at(0, 0, 0x1_fff0, &[9; 16])
        .load_at(5, 0, 0, &[5, 6]) // at the lowest address, DATA + 0x1800
        .end(7, &end)
        .replay();
    assert_end(&replay.run());
    assert_eq!(replay.read(DATA + 0x10_0000 - 3, 5), [1, 2, 3, 4, 0]);
    assert_eq!(replay.read(DATA + 0x12_0000 - 4, 2), [9, 0]);
    assert_eq!(replay.read(DATA + 0x8_0008 - 0x1800, 3), [5, 6, 0]);
}

#[test]
fn calls_use_the_stack() {
    let code = assemble(CODE, |a| {
        let mut function = a.create_label();
        let mut out = a.create_label();
        a.push(rbx)?; // 0
        a.call(function)?; // 1
        a.pop(rdx)?; // 4
        a.jmp(out)?; // 5
        a.set_label(&mut function)?;
        a.mov(rax, qword_ptr(rsp + 8))?; // 2
        a.ret()?; // 3
        a.set_label(&mut out)?;
        a.ret() // 6: to an address from the log
    });
    let regs = start();
    let mut end = regs.clone();
    end.rflags_known = 0;
    end.gpr[RAX] = regs.gpr[RBX];
    end.gpr[RDX] = regs.gpr[RBX];
    end.gpr[RSP] = STACK + 8;
    end.rip = CODE + 0x800;
    let run = Interval::new(&code, &regs).load(6, 0, &(CODE + 0x800).to_le_bytes()).end(7, &end).replay().run();
    assert_end(&run);
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

#[test]
fn gathers_read_lane_by_lane() {
    let code = assemble(CODE, |a| {
        a.vpxor(xmm2, xmm2, xmm2)?;
        a.vpcmpeqd(ymm3, ymm3, ymm3)?;
        a.db(&[0xc4, 0xe2, 0x65, 0x90, 0x0c, 0xa7]) // vpgatherdd ymm1, [rdi + ymm4 * 4], ymm3
    });
    let mut regs = start();
    regs.gpr[RDI] = DATA;
    let indices: [i32; 8] = [0, 1, -2, 0x4000, 5, 5, 6, 7];
    for (lane, index) in indices.iter().enumerate() {
        regs.ymm[4][4 * lane..4 * lane + 4].copy_from_slice(&index.to_le_bytes());
    }
    let mut end = behind(&code, &regs);
    end.ymm[1] = [0; 32];
    end.ymm[1][8..16].copy_from_slice(&[1, 0, 0, 0, 2, 0, 0, 0]);
    end.ymm[2] = [0; 32];
    end.ymm[3] = [0; 32];
    let mut replay =
        Interval::new(&code, &regs).load(2, 2, &[1, 0, 0, 0]).load(2, 3, &[2, 0, 0, 0]).end(3, &end).replay();
    assert_end(&replay.run());
    assert_eq!(replay.read(DATA - 8, 1), [1]);
}

#[test]
fn addresses_of_our_own_are_refused() {
    let window = 0x3000_0000_0000u64;
    let code = assemble(CODE, |a| a.mov(rax, qword_ptr(rbx)));
    let mut regs = start();
    regs.gpr[RBX] = window + 0x1000_0000;
    let mut replay = Interval::new(&code, &regs).load(0, 0, &[1; 8]).replay();
    replay.send(&Request::RunTo { position: u64::MAX, output: false });
    let Response::Failed(why) = replay.receive() else { panic!("accepted") };
    assert!(why.contains("0x300010000000 collides"), "{why}");
    // A program that goes astray finds nothing of ours to read.
    let mut replay = Interval::new(&code, &regs).replay();
    assert!(replay.read(window, 16).is_empty());
    assert!(replay.read(window - 8, 16).is_empty());
    assert!(replay.read(0, 16).is_empty());
    assert!(replay.read(u64::MAX - 3, 16).is_empty());
}

#[test]
fn the_window_can_be_elsewhere() {
    let code = assemble(CODE, |a| a.mov(rax, qword_ptr(rbx)));
    let mut regs = start();
    regs.gpr[RBX] = 0x3000_1000_0000;
    let mut end = behind(&code, &regs);
    end.gpr[RAX] = 0x0101_0101_0101_0101;
    let package = Interval::new(&code, &regs).load(0, 0, &[1; 8]).end(1, &end).package();
    let mut replay = Replay::start_with(&["window=0x600000000000"], &package);
    assert_eq!(replay.receive(), Response::Ready);
    assert_end(&replay.run());
}

#[test]
fn the_process_is_confined() {
    let replay = Interval::new(&[0x90], &start()).replay();
    let status = std::fs::read_to_string(format!("/proc/{}/status", replay.id())).expect("status");
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    assert_eq!(field("Seccomp:"), Some("2"));
    assert_eq!(field("NoNewPrivs:"), Some("1"));
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
fn one_interval_after_another() {
    let program = |constant: i32| {
        assemble(CODE, |a| {
            a.add(qword_ptr(rbx), constant)?;
            a.mov(rax, qword_ptr(rbx))?;
            a.mov(rcx, qword_ptr(rbx + 0x2000))?;
            a.nop()
        })
    };
    let mut regs = start();
    regs.gpr[RBX] = DATA;
    let expect = |code: &[u8], sum, other| {
        let mut end = behind(code, &regs);
        (end.gpr[RAX], end.gpr[RCX]) = (sum, other);
        end
    };
    let code = program(5);
    let interval = Interval::new(&code, &regs);
    let mut replay = interval
        .clone()
        .load(0, 0, &[7; 1])
        .load(2, 0, &[9; 8])
        .end(4, &expect(&code, 12, 0x909_0909_0909_0909))
        .replay();
    assert_end(&replay.run());
    // The same code; memory is zero again, and records are counted anew.
    replay.next(interval.clone().load(2, 0, &[3; 1]).end(4, &expect(&code, 5, 3)));
    let run = replay.run();
    assert_end(&run);
    assert_eq!((run.position, run.counts.loads), (4, 1));
    // Stopped in the middle, then other code at the same place.
    replay.next(interval.clone().end(4, &expect(&code, 5, 0)));
    assert_eq!(replay.run_to(2).stop, Stop::Reached);
    let code = program(60);
    replay.next(Interval::new(&code, &regs).end(4, &expect(&code, 60, 0)));
    assert_end(&replay.run());
    // An interval that stores to its code page: the next has the code as it was.
    let sum = u64::from_le_bytes([0xcc; 8]).wrapping_add(60);
    let (mut regs, mut end) = (regs.clone(), expect(&code, sum, 0));
    (regs.gpr[RBX], end.gpr[RBX]) = (CODE + 0x800, CODE + 0x800);
    for _ in 0..2 {
        replay.next(Interval::new(&code, &regs).end(4, &end));
        assert_end(&replay.run());
    }
}

#[test]
fn hostile_packages_do_no_harm() {
    let code = assemble(CODE, |a| {
        a.mov(rax, qword_ptr(rbx))?;
        a.nop()
    });
    let regs = start();
    let mut interval = Interval::new(&code, &regs);
    let package = interval.load(0, 0, &[1; 8]).end(2, &regs).package();
    // Not a package.
    for bytes in [&b"nonsense"[..], &package[..40], &package[..package.len() / 2]] {
        assert!(matches!(Replay::start(bytes).receive(), Response::Failed(_)));
    }
    // Code in the replay process's own window, and where no code can be.
    for at in [0x3000_1000_0000, 0, u64::MAX - 0xfff] {
        let mut interval = Interval::new(&code, &regs);
        let package = interval.code(at, &[0xc3]).end(2, &regs).package();
        assert!(matches!(Replay::start(&package).receive(), Response::Failed(_)), "{at:#x}");
    }
    // Any byte of the records changed: an answer, whatever it is.
    for i in (0..120).map(|i| package.len() - 1 - i * 7) {
        let mut altered = package.clone();
        altered[i] ^= 0x81;
        let mut replay = Replay::start(&altered);
        if replay.receive() == Response::Ready {
            replay.send(&Request::RunTo { position: u64::MAX, output: true });
            let answer = replay.receive();
            assert!(matches!(answer, Response::Stopped { .. } | Response::Failed(_)), "byte {i}: {answer:?}");
        }
    }
}
