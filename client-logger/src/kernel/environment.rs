//! The program's environment, as it would be without the recorder.

use crate::base::memory::{read_memory, read_word, write_memory};
use bugnet_launch::variables::{PREFIX, PROGRAM};

/// More variables or arguments than a process can have.
const LIMIT: u64 = 1 << 22;

/// Takes the recorder's variables out of the environment of a program that is about to execute its first instruction
/// with this stack pointer, which points at argc, argv, a null, envp, a null.
pub fn hide(rsp: u64) {
    let Some(argc) = read_word(rsp).filter(|argc| *argc < LIMIT) else { return };
    let start = rsp + 8 * (argc + 2);
    let mut to = start;
    for at in (start..).step_by(8).take(LIMIT as usize) {
        let Some(string) = read_word(at) else { return };
        let mut name = [0; PREFIX.len()];
        if string != 0 && read_memory(string, &mut name) && name == PREFIX {
            blank(string);
            continue;
        }
        if to != at {
            write_memory(to, &string.to_le_bytes());
        }
        if string == 0 {
            move_auxiliary_vector(at + 8, to + 8);
            return;
        }
        to += 8;
    }
}

/// Blanks a variable also where /proc/self/environ shows it.
fn blank(string: u64) {
    let mut at = string;
    let mut byte = [0; 1];
    let mut name = Vec::new();
    while read_memory(at, &mut byte) && byte[0] != 0 {
        write_memory(at, &[0]);
        at += 1;
        name.push(byte[0]);
        // DynamoRIO makes AT_EXECFN point at the value of this one, which therefore stays.
        if name.strip_suffix(b"=") == Some(PROGRAM.as_bytes()) {
            return;
        }
    }
}

/// The auxiliary vector has to stand right behind the environment's null.
fn move_auxiliary_vector(mut from: u64, mut to: u64) {
    const AT_NULL: u64 = 0;
    const AT_HWCAP2: u64 = 26;
    const FSGSBASE: u64 = 2;
    const AT_COUNT: usize = 256;
    if from == to {
        return;
    }
    for _ in 0..AT_COUNT {
        let (Some(kind), Some(value)) = (read_word(from), read_word(from + 8)) else { return };
        // What CPUID hides is hidden here, too.
        let value = if kind == AT_HWCAP2 { value & !FSGSBASE } else { value };
        write_memory(to, &kind.to_le_bytes());
        write_memory(to + 8, &value.to_le_bytes());
        if kind == AT_NULL {
            return;
        }
        from += 16;
        to += 16;
    }
}
