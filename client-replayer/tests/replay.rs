//! Hand-made intervals whose every value is known, replayed.

mod common;

use bugnet_format::control::Stop;
use bugnet_format::regs::RegisterFile;
use common::{CODE, DATA, Interval, assemble, start};
use iced_x86::code_asm::*;

fn is_divergence(stop: &Stop) -> bool {
    matches!(stop, Stop::Divergence { .. })
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
    end.gpr[0] = (5 + regs.gpr[3]).wrapping_mul(regs.gpr[1]);
    end.rip = CODE + 100;
    end.rflags_known = 0;
    let mut interval = Interval::new(&code, &regs);
    let good = interval.clone().end(4, &end).replay().run();
    assert_eq!(good.stop, Stop::End, "{good:?}");
    assert_eq!(good.position, 4);
    assert_eq!(good.counts.instructions, 4);
    end.gpr[0] ^= 1;
    let bad = interval.end(4, &end).replay().run();
    let Stop::Divergence { what, expected } = &bad.stop else { panic!("{bad:?}") };
    assert!(what.contains("rax: expected"), "{what}");
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
    regs.gpr[3] = DATA + 100;
    let mut end = RegisterFile { rflags_known: 0, rip: CODE + code.len() as u64, ..regs.clone() };
    end.gpr[0] = 0x1235;
    end.gpr[1] = 0x1235;
    end.gpr[2] = 0;
    let run = Interval::new(&code, &regs).load(0, 0, &0x1234u64.to_le_bytes()).end(6, &end).replay().run();
    assert_eq!(run.stop, Stop::End, "{run:?}");
    assert_eq!(run.counts.loads, 1);
    let bad = Interval::new(&code, &regs).load(0, 0, &0x1235u64.to_le_bytes()).end(6, &end).replay().run();
    assert!(is_divergence(&bad.stop), "{bad:?}");
    // The same value for an instruction that reads nothing.
    let bad = Interval::new(&code, &regs).load(1, 0, &0x1234u64.to_le_bytes()).end(6, &end).replay().run();
    assert!(is_divergence(&bad.stop), "{bad:?}");
}
