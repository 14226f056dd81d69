//! Which code was executed in a package: each block sets a byte of its own.

use crate::state;
use bugnet_dr::ir::{Block, Instr, Opnd};
use bugnet_dr::opcode;
use bugnet_dr::space::{self, Protection};
use bugnet_format::types::Addr;
use hashbrown::HashMap;
use std::ops::Range;

const PAGE: u64 = Addr::PAGE;
/// Bytes of a line of code, of which a page has as many as a word has bits.
const LINE: u64 = PAGE / 64;
/// Flags for which memory is taken at a time.
const PIECE: usize = 64 << 10;

/// A flag for each block of the program that was built.
#[derive(Default)]
pub struct Executed {
    pieces: Vec<*mut u8>,
    /// The addresses of each block.
    blocks: Vec<Range<u64>>,
}

impl Executed {
    /// Makes a block, of which `first` is the first instruction, note that it is executed.
    pub fn note(&mut self, block: &Block, first: Instr, code: Range<u64>) {
        let number = self.blocks.len() % PIECE;
        if number == 0 {
            let Some(piece) = space::allocate_near(PIECE, Protection::READ | Protection::WRITE) else {
                state::die("DynamoRIO has no memory left near its code")
            };
            let piece = piece.as_ptr();
            // SAFETY: as many bytes, ours.
            unsafe { piece.write_bytes(0, PIECE) };
            self.pieces.push(piece);
        }
        let Some(piece) = self.pieces.last() else { return };
        self.blocks.push(code);
        // SAFETY: within the piece.
        let flag = unsafe { piece.add(number) };
        let mark = block.make(opcode::OP_mov_st, &[Opnd::near(flag.cast(), 1)], &[Opnd::imm(1, 1)]);
        block.meta(Some(first), mark);
    }

    fn flag(&self, number: usize) -> *mut u8 {
        // SAFETY: each block has a flag in the piece for its number.
        unsafe { self.pieces[number / PIECE].add(number % PIECE) }
    }

    /// The lines of code that were executed, a bit each, by page.
    pub fn lines(&self) -> HashMap<u64, u64> {
        let mut pages: HashMap<u64, u64> = HashMap::new();
        for (number, code) in self.blocks.iter().enumerate() {
            // SAFETY: a flag of ours, which the code cache does not set while the client runs.
            if unsafe { self.flag(number).read() } == 0 {
                continue;
            }
            for line in code.start / LINE..=(code.end - 1) / LINE {
                *pages.entry((line * LINE) & !(PAGE - 1)).or_default() |= 1 << (line % 64);
            }
        }
        pages
    }

    /// Another package begins.
    pub fn clear(&mut self) {
        for piece in &self.pieces {
            // SAFETY: as in [`Self::lines`].
            unsafe { piece.write_bytes(0, PIECE) };
        }
    }
}
