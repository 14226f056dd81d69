//! Random programs of which one knows which branch decides whether each instruction is executed.

use std::fmt::Write;

/// A program, as assembly text; each instruction of its functions has a label, `i` and its number.
pub struct Program {
    /// The text.
    pub text: String,
    /// For each instruction, those that decide whether it is executed, within its function.
    pub deciding: Vec<Vec<usize>>,
    /// Whether one may leave an instruction out without that control and the stack go astray.
    pub can_go: Vec<bool>,
}

/// A structure around an instruction.
#[derive(Clone, Copy)]
enum Around {
    /// A condition, with its branch.
    If(usize),
    /// A loop, with the branch at its end.
    Loop(usize),
}

struct Writer {
    random: fastrand::Rng,
    program: Program,
    around: Vec<Around>,
    labels: usize,
    /// Branches at ends of loops, which were written later than what they decide.
    ends: Vec<Option<usize>>,
    /// For each instruction, the loops that decide on it.
    loops: Vec<Vec<usize>>,
}

/// Registers that hold values.
const VALUES: [[&str; 4]; 8] = [
    ["rax", "eax", "ax", "al"],
    ["rbx", "ebx", "bx", "bl"],
    ["rcx", "ecx", "cx", "cl"],
    ["rdx", "edx", "dx", "dl"],
    ["rsi", "esi", "si", "sil"],
    ["rdi", "edi", "di", "dil"],
    ["r8", "r8d", "r8w", "r8b"],
    ["r9", "r9d", "r9w", "r9b"],
];
/// Quadwords of memory that values are put into.
pub const SLOTS: usize = 24;
const CONDITIONS: [&str; 8] = ["z", "nz", "c", "nc", "s", "ns", "l", "g"];

impl Writer {
    fn emit(&mut self, text: &str, can_go: bool) -> usize {
        let number = self.program.deciding.len();
        let _ = writeln!(self.program.text, "i{number}: {text}");
        let (mut deciding, mut loops) = (Vec::new(), Vec::new());
        // Outwards: a loop's end decides, but what the loop is in does, too.
        for around in self.around.iter().rev() {
            match around {
                Around::If(branch) => {
                    deciding.push(*branch);
                    break;
                }
                Around::Loop(number) => loops.push(*number),
            }
        }
        self.program.deciding.push(deciding);
        self.program.can_go.push(can_go);
        self.loops.push(loops);
        number
    }

    fn value(&mut self, size: usize) -> &'static str {
        VALUES[self.random.usize(0..VALUES.len())][size]
    }

    fn slot(&mut self) -> String {
        format!("[rip + slots + {}]", 8 * self.random.usize(0..SLOTS))
    }

    fn simple(&mut self) {
        let size = *self.random.choice(&[0, 0, 0, 1, 1, 2, 3]).unwrap_or(&0);
        let (one, other) = (self.value(size), self.value(size));
        let width = ["qword", "dword", "word", "byte"][size];
        let condition = CONDITIONS[self.random.usize(0..CONDITIONS.len())];
        let (slot, constant, vector) = (self.slot(), self.random.u32(0..100), self.random.u32(0..4));
        let text = match self.random.u32(0..26) {
            0..3 => format!("mov {one}, {other}"),
            3 => format!("mov {one}, {constant}"),
            4..6 => format!("add {one}, {other}"),
            6 => format!("sub {one}, {constant}"),
            7 => format!("xor {one}, {other}"),
            8 => format!("xor {one}, {one}"),
            9 => format!("and {one}, {constant}"),
            10..13 => format!("mov {width} ptr {slot}, {one}"),
            13..16 => format!("mov {one}, {width} ptr {slot}"),
            16 => format!("add {width} ptr {slot}, {one}"),
            17 => format!("movzx {}, {}", self.value(1), self.value(3)),
            18 => format!("set{condition} {}", self.value(3)),
            19 => format!("cmov{condition} {}, {}", self.value(0), self.value(0)),
            20 => format!("lea {}, [{} + 2*{} + {constant}]", self.value(0), self.value(0), self.value(0)),
            21 => format!("shl {one}, {}", constant % 9),
            22 => format!("movq xmm{vector}, {}", self.value(0)),
            23 => format!("paddb xmm{vector}, xmm{}", self.random.u32(0..4)),
            24 => format!("movq {}, xmm{vector}", self.value(0)),
            _ => format!("adc {one}, {other}"),
        };
        self.emit(&text, true);
    }

    /// A load or store at an address that was computed.
    fn indexed(&mut self) {
        let (from, value) = (self.value(0), self.value(0));
        self.emit(&format!("mov r10, {from}"), true);
        self.emit("and r10, 15", false);
        self.emit("lea r11, [rip + slots]", false);
        if self.random.bool() {
            self.emit(&format!("mov {value}, [r11 + 8*r10]"), true);
        } else {
            self.emit(&format!("mov [r11 + 8*r10], {value}"), true);
        }
    }

    fn copied(&mut self) {
        let (from, to) = (self.random.usize(0..SLOTS / 2), SLOTS / 2 + self.random.usize(0..SLOTS / 4));
        for (name, at) in [("rsi", from), ("rdi", to)] {
            self.emit(&format!("lea {name}, [rip + slots + {}]", 8 * at), false);
        }
        let bytes = self.random.usize(1..40);
        self.emit(&format!("mov ecx, {bytes}"), false);
        self.emit("rep movsb", true);
    }

    fn pushed(&mut self) {
        let (one, other) = (self.value(0), self.value(0));
        self.emit(&format!("push {one}"), false);
        self.simple();
        self.emit(&format!("pop {other}"), false);
    }

    fn block(&mut self, depth: usize, functions: std::ops::Range<usize>) {
        for _ in 0..self.random.usize(2..6) {
            match self.random.u32(0..20) {
                0..11 => self.simple(),
                11..13 => self.indexed(),
                13 => self.pushed(),
                14 => self.copied(),
                15..17 if depth < 3 => self.condition(depth, functions.clone()),
                17 if depth < 3 => self.repeated(depth, functions.clone()),
                18.. if !functions.is_empty() => {
                    let callee = self.random.usize(functions.clone());
                    self.emit(&format!("call f{callee}"), false);
                }
                _ => self.simple(),
            }
        }
    }

    fn condition(&mut self, depth: usize, functions: std::ops::Range<usize>) {
        let (one, other) = (self.value(0), self.value(0));
        let condition = CONDITIONS[self.random.usize(0..CONDITIONS.len())];
        self.labels += 2;
        let (no, end) = (self.labels - 2, self.labels - 1);
        self.emit(&format!("cmp {one}, {other}"), false);
        let branch = self.emit(&format!("j{condition} l{no}"), false);
        self.around.push(Around::If(branch));
        self.block(depth + 1, functions.clone());
        if self.random.bool() {
            self.emit(&format!("jmp l{end}"), false);
            let _ = writeln!(self.program.text, "l{no}:");
            self.block(depth + 1, functions);
        } else {
            let _ = writeln!(self.program.text, "l{no}:");
        }
        self.around.pop();
        let _ = writeln!(self.program.text, "l{end}:");
    }

    fn repeated(&mut self, depth: usize, functions: std::ops::Range<usize>) {
        // Each level has a counter of its own, which calls keep.
        let counter = ["r12", "r13", "r14"][depth];
        self.labels += 1;
        let head = self.labels - 1;
        self.emit(&format!("push {counter}"), false);
        let times = self.random.u32(1..5);
        self.emit(&format!("mov {counter}, {times}"), false);
        let _ = writeln!(self.program.text, "l{head}:");
        let number = self.ends.len();
        self.ends.push(None);
        self.around.push(Around::Loop(number));
        self.block(depth + 1, functions);
        self.emit(&format!("dec {counter}"), false);
        let end = self.emit(&format!("jnz l{head}"), false);
        self.ends[number] = Some(end);
        self.around.pop();
        self.emit(&format!("pop {counter}"), false);
    }
}

/// A program that computes something random, and writes the quadword at `wanted` to standard output.
#[must_use]
pub fn program(seed: u64) -> Program {
    let program = Program {
        text: ".intel_syntax noprefix\n.globl _start\n_start:\n".to_owned(),
        deciding: Vec::new(),
        can_go: Vec::new(),
    };
    let mut writer = Writer {
        random: fastrand::Rng::with_seed(seed),
        program,
        around: Vec::new(),
        labels: 0,
        ends: Vec::new(),
        loops: Vec::new(),
    };
    let functions = writer.random.usize(0..4);
    for [name, ..] in VALUES {
        let (constant, slot) = (writer.random.u32(0..1 << 30), writer.slot());
        let text = if writer.random.bool() { format!("mov {name}, {constant}") } else { format!("mov {name}, {slot}") };
        writer.emit(&text, true);
    }
    for _ in 0..3 {
        writer.block(0, 0..functions);
    }
    // What comes last takes something of what was computed.
    let (wanted, one, other) = (8 * writer.random.usize(0..SLOTS), writer.value(0), writer.value(0));
    writer.emit(&format!("add {one}, {other}"), true);
    writer.emit(&format!("xor [rip + slots + {wanted}], {one}"), true);
    writer.emit("mov eax, 1", false);
    writer.emit("mov edi, 1", false);
    writer.emit(&format!("lea rsi, [rip + slots + {wanted}]"), false);
    writer.emit("mov edx, 8", false);
    let _ = writeln!(writer.program.text, "write:");
    writer.emit("syscall", false);
    writer.emit("mov eax, 60", false);
    writer.emit("xor edi, edi", false);
    writer.emit("syscall", false);
    for function in 0..functions {
        let _ = writeln!(writer.program.text, "f{function}:");
        writer.block(1, function + 1..functions);
        writer.emit("ret", false);
    }
    let count = writer.program.deciding.len();
    let _ = writeln!(writer.program.text, "i{count}:\n.data\n.balign 64\nslots:");
    for _ in 0..SLOTS {
        let _ = writeln!(writer.program.text, ".quad {}", writer.random.u64(..));
    }
    let Writer { mut program, ends, loops, .. } = writer;
    for (deciding, loops) in program.deciding.iter_mut().zip(loops) {
        deciding.extend(loops.into_iter().filter_map(|number| ends[number]));
    }
    program
}
