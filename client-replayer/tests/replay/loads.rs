//! Recorded values, and the loads that take them.

use crate::common::{CODE, DATA, Interval, STACK, assemble, start};
use crate::{RAX, RBX, RCX, RDI, RDX, RSI, RSP, assert_end, behind, differences, divergence};
use iced_x86::code_asm::*;

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
