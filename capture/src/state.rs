//! What this program knows of the process. Who has the turn uses it ([`crate::turn`]); what there is of each thread is in [`crate::thread`].

use crate::answers::Answers;
use crate::chaos::Chaos;
use crate::cpuid::Hidden;
use crate::epoch::Epochs;
use crate::files::{Known, Last};
use crate::folder::Folder;
use crate::hot::Hot;
use crate::layout::OUTPUT;
use crate::log::Log;
use crate::own::Own;
use crate::shared::Shared;
use crate::signals::Signals;
use core::cell::UnsafeCell;

/// All of it.
pub struct State {
    pub pid: u32,
    /// How many programs of processes with this id came before.
    pub program: u32,
    /// What CPUID shows the program ([`crate::special`]).
    pub cpu: u32,
    /// Whether the light part goes on.
    pub on: bool,
    /// Whether the log's disk is full.
    pub full: bool,
    /// The system's error where the log could not go on in another file.
    pub refused: i64,
    /// Why the light part ends as soon as it can.
    pub ends: Option<&'static str>,
    /// Path of the log's folder, and of this program.
    pub folder: [u8; 1024],
    pub own: [u8; 1024],
    pub descriptors: Own,
    /// The folder of light logs, if the process has it open.
    pub at: Folder,
    /// Path of the program.
    pub elf: [u8; 4096],
    /// Where the program's data is, and the code of its interpreter.
    pub data: (u64, u64),
    pub linker: (u64, u64),
    /// Where in the log the process is.
    pub log: Log,
    /// Which descriptors are the recording's standard output (1) and error (2).
    pub streams: [u8; 256],
    /// How many more bytes of what is written there the log keeps.
    pub output: u64,
    /// Whether the process is a child of `vfork`, so deep.
    pub lent: usize,
    /// How many threads there are, where there were several.
    pub threads: u32,
    pub signals: Signals,
    pub hot: Hot,
    pub hidden: Hidden,
    pub answers: Answers,
    pub last_file: Last,
    pub known_files: Known,
    pub epochs: Epochs,
    pub shared: Shared,
    pub chaos: Chaos,
}

struct Process(UnsafeCell<State>);

// SAFETY: one thread at a time uses it: the one that has the turn.
unsafe impl Sync for Process {}

static STATE: Process = Process(UnsafeCell::new(State {
    pid: 0,
    program: 0,
    cpu: 0,
    on: false,
    full: false,
    refused: 0,
    ends: None,
    folder: [0; 1024],
    own: [0; 1024],
    descriptors: Own::new(),
    at: Folder::new(),
    elf: [0; 4096],
    data: (0, 0),
    linker: (0, 0),
    log: Log::new(),
    streams: [0; 256],
    output: OUTPUT,
    lent: 0,
    threads: 1,
    signals: Signals::new(),
    hot: Hot::new(),
    hidden: Hidden::new(),
    answers: Answers::new(),
    last_file: Last::new(),
    known_files: Known::new(),
    epochs: Epochs::new(),
    shared: Shared::new(),
    chaos: Chaos::new(),
}));

/// The process's.
pub fn get() -> &'static mut State {
    // SAFETY: the turn is one thread's; handlers that interrupt it, or others, read and write single fields, which nobody holds a reference to.
    unsafe { &mut *STATE.0.get() }
}

/// A text in a field, without its end.
pub fn text(field: &[u8]) -> &[u8] {
    &field[..field.iter().position(|b| *b == 0).unwrap_or(field.len())]
}

/// Puts a text into a field; whether there is room for its end, too.
pub fn set(field: &mut [u8], text: &[u8]) -> bool {
    let fits = text.len() < field.len();
    if fits {
        field[..text.len()].copy_from_slice(text);
        field[text.len()] = 0;
    }
    fits
}
