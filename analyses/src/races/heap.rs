//! Memory that the program has allocated: a block that is allocated again has nothing to do with what was there before.

use bugnet_events::calls::{Called, Entered};
use bugnet_replay::cursor::Place;
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;

/// What a function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// It gives as many bytes as its argument with this number says.
    Gives(usize),
    /// As many as these two say, multiplied.
    GivesArray(usize, usize),
    /// It takes the block of its first argument back, and gives as many bytes as another argument says.
    Changes(usize),
    /// The same, with two to be multiplied.
    ChangesArray(usize, usize),
    /// It takes the block of its first argument back.
    Takes,
}

/// Functions that allocate. Those of C++ call them. What `posix_memalign` gives stands in memory, and is not known.
const FUNCTIONS: [(&str, Does); 10] = [
    ("malloc", Does::Gives(0)),
    ("calloc", Does::GivesArray(0, 1)),
    ("realloc", Does::Changes(1)),
    ("reallocarray", Does::ChangesArray(1, 2)),
    ("memalign", Does::Gives(1)),
    ("aligned_alloc", Does::Gives(1)),
    ("valloc", Does::Gives(0)),
    ("pvalloc", Does::Gives(0)),
    ("free", Does::Takes),
    ("cfree", Does::Takes),
];

/// The functions' names.
#[must_use]
pub fn names() -> [&'static str; FUNCTIONS.len()] {
    FUNCTIONS.map(|(name, _)| name)
}

/// A block that was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its first byte.
    pub start: u64,
    /// How many.
    pub len: u64,
    /// Where the function began that gave it.
    pub place: Place,
    /// That function's name.
    pub function: &'static str,
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Memory is new.
    New { addr: u64, len: u64 },
    /// A block is no longer anybody's; or it was given back, which had been so before.
    Freed { addr: u64, len: u64, again: bool },
}

/// The blocks.
#[derive(Default)]
pub struct Heap {
    functions: HashMap<u64, (&'static str, Does)>,
    /// By their first bytes: the last one that was there.
    blocks: BTreeMap<u64, Block>,
    /// The first bytes of those that were taken back.
    taken: HashSet<u64>,
    /// What happened, the last first.
    pub changes: Vec<Change>,
}

impl Heap {
    /// With the functions' addresses, each with the index of its name in [`names`].
    pub fn new(functions: impl IntoIterator<Item = (u64, usize)>) -> Self {
        let functions = functions.into_iter().map(|(addr, index)| (addr, FUNCTIONS[index])).collect();
        Self { functions, ..Self::default() }
    }

    /// Where the functions begin, in no order.
    pub fn functions(&self) -> impl Iterator<Item = u64> {
        self.functions.keys().copied()
    }

    /// A function is called, or returns.
    pub fn called(&mut self, called: Called<'_>) {
        match called {
            Called::Entered(call) => {
                if let Some((_, Does::Takes)) = self.functions.get(&call.function) {
                    self.take(call);
                }
            }
            Called::Returned { call, result, .. } => {
                let known = self.functions.get(&call.function).copied();
                let (Some((function, does)), Some(start)) = (known, result.filter(|start| *start != 0)) else { return };
                let product = |a: usize, b: usize| Some(call.args[a]?.saturating_mul(call.args[b]?));
                let len = match does {
                    Does::Gives(size) | Does::Changes(size) => call.args[size],
                    Does::GivesArray(count, size) | Does::ChangesArray(count, size) => product(count, size),
                    Does::Takes => return,
                };
                let Some(len) = len else { return };
                self.give(does, call, Block { start, len, place: call.place, function });
            }
            Called::Left(_) => {}
        }
    }

    fn take(&mut self, call: &Entered) {
        let Some(&Block { start, len, .. }) = call.args[0].and_then(|addr| self.blocks.get(&addr)) else { return };
        let again = !self.taken.insert(start);
        self.changes.push(Change::Freed { addr: start, len, again });
    }

    fn give(&mut self, does: Does, call: &Entered, block: Block) {
        let kept = match does {
            // Where it was before, as far as it goes.
            Does::Changes(_) | Does::ChangesArray(..) if call.args[0] == Some(block.start) => {
                self.blocks.get(&block.start).map_or(block.len, |before| before.len.min(block.len))
            }
            _ => 0,
        };
        if block.len > kept {
            self.changes.push(Change::New { addr: block.start + kept, len: block.len - kept });
        }
        if matches!(does, Does::Changes(_) | Does::ChangesArray(..)) {
            self.taken.extend(call.args[0]);
        }
        self.taken.remove(&block.start);
        self.blocks.insert(block.start, block);
    }

    /// The block that was last at an address.
    #[must_use]
    pub fn block(&self, addr: u64) -> Option<Block> {
        let (_, block) = self.blocks.range(..=addr).next_back()?;
        (addr - block.start < block.len).then_some(*block)
    }
}
