//! The process in which intervals are replayed.

use crate::common::{CODE, DATA, Interval, Replay, assemble, start};
use crate::{RAX, RBX, RCX, assert_end, behind};
use bugnet_format::control::{Hits, Request, Response, Stop, Target};
use iced_x86::code_asm::*;

#[test]
fn addresses_of_our_own_are_refused() {
    let window = 0x3000_0000_0000u64;
    let code = assemble(CODE, |a| a.mov(rax, qword_ptr(rbx)));
    let mut regs = start();
    regs.gpr[RBX] = window + 0x1000_0000;
    let mut replay = Interval::new(&code, &regs).load(0, 0, &[1; 8]).replay();
    replay.send(&Request::RunTo { target: Target::End, hits: Hits::Ignore, output: false });
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

/// Who stops a replay and lets it go on does not change it.
#[test]
fn signals_that_the_kernel_would_ignore_are_ignored() {
    const ROUNDS: u64 = 200_000_000;
    let code = assemble(CODE, |a| {
        let mut again = a.create_label();
        a.set_label(&mut again)?;
        a.dec(rcx)?;
        a.jnz(again)
    });
    let mut regs = start();
    regs.gpr[RCX] = ROUNDS;
    let mut end = behind(&code, &regs);
    (end.gpr[RCX], end.rflags) = (0, 0x246);
    let mut replay = Interval::new(&code, &regs).end(2 * ROUNDS, &end).replay();
    replay.send(&Request::RunTo { target: Target::End, hits: Hits::Ignore, output: false });
    for _ in 0..20 {
        for signal in [libc::SIGSTOP, libc::SIGCONT, libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH] {
            // SAFETY: a system call on numbers.
            unsafe { libc::kill(replay.id().cast_signed(), signal) };
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_end(&replay.stopped());
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
    let with_rbx = |value| {
        let mut regs = start();
        regs.gpr[RBX] = value;
        regs
    };
    let regs = with_rbx(DATA);
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
    replay.next(Interval::new(&code, &regs).numbered_behind(1).end(4, &expect(&code, 60, 0)));
    assert_end(&replay.run());
    // An interval that stores to its code page: the next has the code as it was.
    let sum = u64::from_le_bytes([0xcc; 8]).wrapping_add(60);
    let (mut regs, mut end) = (regs.clone(), expect(&code, sum, 0));
    (regs.gpr[RBX], end.gpr[RBX]) = (CODE + 0x800, CODE + 0x800);
    for _ in 0..2 {
        replay.next(Interval::new(&code, &regs).numbered_behind(1).end(4, &end));
        assert_end(&replay.run());
    }
    // Back to the code before.
    let (code, regs) = (program(5), with_rbx(DATA));
    replay.next(Interval::new(&code, &regs).end(4, &expect(&code, 5, 0)));
    assert_end(&replay.run());
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
            replay.send(&Request::RunTo { target: Target::End, hits: Hits::Ignore, output: true });
            let answer = replay.receive();
            assert!(matches!(answer, Response::Stopped { .. } | Response::Failed(_)), "byte {i}: {answer:?}");
        }
    }
}
