use super::*;
use crate::symbols::pack_elf;
use crate::testing::{LogBuilder, PROCESS};
use bugnet_format::folder::Module;
use std::path::Path;
use std::process::Command;

const BASE: u64 = 0x7000_0000_0000;
const STACK: u64 = 0x7fff_0000_0000;

/// `_start` calls `outer` calls `inner`, which faults at `fault`. CFI(...) keeps or drops the tables.
const SOURCE: &str = r"
    .text
    .type _start, @function
    .type outer, @function
    .type inner, @function
    .globl _start
_start:
    CFI(.cfi_startproc)
    CFI(.cfi_undefined rip)
    call outer
after_outer:
    hlt
    CFI(.cfi_endproc)
    .size _start, .-_start
outer:
    CFI(.cfi_startproc)
    push %rbp
    CFI(.cfi_def_cfa_offset 16)
    CFI(.cfi_offset rbp, -16)
    mov %rsp, %rbp
    CFI(.cfi_def_cfa_register rbp)
    sub $0x40, %rsp
    call inner
after_inner:
    leave
    CFI(.cfi_def_cfa rsp, 8)
    ret
    CFI(.cfi_endproc)
    .size outer, .-outer
inner:
    INNER_START
fault:
    mov (%rax), %rcx
    ret
    CFI(.cfi_endproc)
    .size inner, .-inner
";

/// `inner` changes RBP and RBX, so that only its tables tell where `outer`'s frame is.
const WITH_OFFSETS: &str = "CFI(.cfi_startproc); push %rbp; CFI(.cfi_def_cfa_offset 16); CFI(.cfi_offset rbp, -16); \
    push %rbx; CFI(.cfi_def_cfa_offset 24); CFI(.cfi_offset rbx, -24); xor %ebp, %ebp; \
    sub $32, %rsp; CFI(.cfi_def_cfa_offset 56)";
/// The CFA is stored where RBX - 8 points, as in functions that align their stack; RBP is at the CFA - 16 by expression.
const WITH_EXPRESSIONS: &str =
    "CFI(.cfi_startproc); CFI(.cfi_escape 0x0f,3,0x73,0x78,0x06); CFI(.cfi_escape 0x10,6,2,0x40,0x1c)";
const WITH_FRAME_POINTER: &str = "CFI(.cfi_startproc); push %rbp; mov %rsp, %rbp; sub $32, %rsp";

/// Words from [`STACK`] on.
struct Stack(Vec<u8>);

impl Memory for Stack {
    fn read_memory(&mut self, addr: Addr, len: u64) -> Result<Vec<u8>> {
        let from = addr.0.checked_sub(STACK).map_or(self.0.len(), |at| self.0.len().min(at as usize));
        Ok(self.0[from..].iter().copied().take(len as usize).collect())
    }
}

struct Program {
    module: Module,
    nm: String,
    log: crate::log::Log,
    _log: LogBuilder,
}

impl Program {
    fn build(inner: &str, tables: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("frames.S"), folder.path().join("frames"));
        std::fs::write(&source, SOURCE).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["-nostdlib", "-static", "-no-pie", "-Wl,--build-id", "-o"]).arg(&program).arg(&source);
        gcc.arg(if tables { "-DCFI(...)=__VA_ARGS__" } else { "-DCFI(...)=" }).arg(format!("-DINNER_START={inner}"));
        assert!(gcc.status().expect("gcc is needed for this test").success());
        let nm = Command::new("nm").arg(&program).output().unwrap();
        let bytes = std::fs::read(&program).unwrap();
        let path = program.to_str().unwrap().to_owned();
        let module = Module { base: BASE, size: bytes.len() as u64, build_id: build_id_of(&program), path };
        let log = LogBuilder::new().modules(std::slice::from_ref(&module));
        pack_elf(log.folder.path(), std::slice::from_ref(&module)).unwrap();
        Self { module, nm: String::from_utf8(nm.stdout).unwrap(), log: log.open(), _log: log }
    }

    /// Address of a symbol in the process; the program is linked at 0x400000.
    fn at(&self, symbol: &str) -> u64 {
        let line = self.nm.lines().find(|line| line.ends_with(&format!(" {symbol}"))).unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap() - 0x40_0000 + BASE
    }

    fn backtrace(&self, regs: &RegisterFile, stack: &[u64]) -> Vec<(String, Found)> {
        let mut symbols = Symbolizer::new(&self.log, PROCESS).unwrap();
        let mut stack = Stack(stack.iter().flat_map(|word| word.to_le_bytes()).collect());
        let frames = backtrace(regs, &mut stack, &mut symbols, &CodeStore::default()).unwrap();
        assert!(frames.iter().all(|f| f.place.module.as_ref().is_none_or(|m| m.path == self.module.path)));
        frames.into_iter().map(|f| (f.place.symbol.map_or("?".into(), |s| s.name), f.found)).collect()
    }
}

fn build_id_of(program: &Path) -> String {
    let notes = Command::new("readelf").arg("-n").arg(program).output().unwrap();
    let notes = String::from_utf8(notes.stdout).unwrap();
    notes.split("Build ID: ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned()
}

fn regs(rip: u64, rsp: u64, rbp: u64) -> RegisterFile {
    let mut regs = RegisterFile { rip, ..RegisterFile::default() };
    (regs.gpr[bugnet_format::regs::RSP], regs.gpr[5]) = (rsp, rbp);
    regs
}

fn names(frames: &[(String, Found)]) -> Vec<(&str, Found)> {
    frames.iter().map(|(name, found)| (name.as_str(), *found)).collect()
}

/// What `outer` and `_start` leave above `inner`'s frame, which ends (return address included) at `from` words.
fn outer_frames(program: &Program, from: usize) -> (Vec<u64>, u64) {
    let mut stack = vec![0xdead; from - 1];
    stack.push(program.at("after_inner"));
    stack.extend([0xbad; 8]);
    let rbp = STACK + 8 * stack.len() as u64;
    stack.extend([0, program.at("after_outer"), 1, 0, 0]);
    (stack, rbp)
}

#[test]
fn tables_with_offsets() {
    let program = Program::build(WITH_OFFSETS, true);
    let (mut stack, outer_rbp) = outer_frames(&program, 7);
    stack[5] = outer_rbp;
    let frames = program.backtrace(&regs(program.at("fault"), STACK, 0), &stack);
    assert_eq!(names(&frames), [("inner", Found::Registers), ("outer", Found::Tables), ("_start", Found::Tables)]);
}

#[test]
fn tables_with_expressions() {
    let program = Program::build(WITH_EXPRESSIONS, true);
    let (mut stack, outer_rbp) = outer_frames(&program, 7);
    // RBX - 8 is where the CFA stands; the CFA is behind the return address, and RBP is saved below that.
    stack[2] = STACK + 7 * 8;
    stack[5] = outer_rbp;
    let mut regs = regs(program.at("fault"), STACK, 0);
    regs.gpr[3] = STACK + 3 * 8;
    let frames = program.backtrace(&regs, &stack);
    assert_eq!(names(&frames), [("inner", Found::Registers), ("outer", Found::Tables), ("_start", Found::Tables)]);
}

#[test]
fn frame_pointers_without_tables() {
    let program = Program::build(WITH_FRAME_POINTER, false);
    let (mut stack, outer_rbp) = outer_frames(&program, 6);
    stack[4] = outer_rbp;
    let frames = program.backtrace(&regs(program.at("fault"), STACK, STACK + 32), &stack);
    let by_pointer = Found::FramePointer;
    assert_eq!(names(&frames), [("inner", Found::Registers), ("outer", by_pointer), ("_start", by_pointer)]);
}

#[test]
fn a_call_to_nowhere_has_its_caller_on_the_stack() {
    let program = Program::build(WITH_OFFSETS, true);
    let (stack, outer_rbp) = outer_frames(&program, 1);
    for nowhere in [0, 0x1234_5678] {
        let frames = program.backtrace(&regs(nowhere, STACK, outer_rbp), &stack);
        assert_eq!(names(&frames), [("?", Found::Registers), ("outer", Found::StackTop), ("_start", Found::Tables)]);
    }
}

#[test]
fn a_ruined_stack_ends_the_backtrace() {
    let program = Program::build(WITH_OFFSETS, true);
    let fault = program.at("fault");
    // Memory that is not known, words that are no addresses of code, and a chain without an end.
    assert_eq!(program.backtrace(&regs(fault, 0x10, 0), &[]).len(), 1);
    let all_ones = program.backtrace(&regs(fault, STACK, 0), &[u64::MAX; 64]);
    assert_eq!(names(&all_ones)[0], ("inner", Found::Registers));
    assert!(all_ones.len() <= 2, "{all_ones:?}");
    let endless = program.backtrace(&regs(fault, STACK, 0), &vec![fault; 100_000]);
    assert_eq!(endless.len(), MAX_FRAMES);
}
