//! Where undefined bytes come from.

use crate::memcheck::frames::StackId;
use crate::memcheck::heap::{Block, Call};
use bugnet_replay::cursor::Place;
use hashbrown::HashMap;

/// Most undefined bytes that are told apart by their addresses; of others, it is known which code got them.
const MOST: usize = 1 << 20;

/// Where something comes from: an index. 0 is nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OriginId(u32);

impl OriginId {
    /// Nothing is undefined.
    pub const NONE: Self = Self(0);

    #[cfg(test)]
    pub const fn numbered(number: u32) -> Self {
        Self(number)
    }

    /// This one, or the other if there is none.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if self == Self::NONE { other } else { self }
    }
}

/// Which code made memory that is not defined.
#[derive(Clone, Debug)]
pub enum Maker {
    /// An allocator gave it out: the first of its calls from there.
    Heap(Call),
    /// The stack grew by this instruction, or a call left what is below to the function.
    Stack { ip: u64, is_call: bool },
}

/// What is known of an origin.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Which code.
    pub maker: Maker,
    /// Where it was loaded first, and from where.
    pub loaded: Option<Loaded>,
}

/// A load of undefined bytes.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The first of them.
    pub addr: u64,
    /// The instruction.
    pub place: Place,
    /// Its address.
    pub ip: u64,
    /// The block in which they were.
    pub block: Option<Block>,
}

/// All of them.
#[derive(Default)]
pub struct Origins {
    all: Vec<Origin>,
    stacks: HashMap<u64, OriginId>,
    heaps: HashMap<(usize, StackId), OriginId>,
    loaded: HashMap<(OriginId, u64, Option<Place>), OriginId>,
}

impl Origins {
    fn add(&mut self, maker: Maker, loaded: Option<Loaded>) -> OriginId {
        self.all.push(Origin { maker, loaded });
        OriginId(u32::try_from(self.all.len()).unwrap_or(0))
    }

    /// What is known of one.
    pub fn get(&self, id: OriginId) -> Option<&Origin> {
        self.all.get((id.0 as usize).checked_sub(1)?)
    }

    /// The stack grows by an instruction.
    pub fn stack(&mut self, ip: u64, is_call: bool) -> OriginId {
        if let Some(known) = self.stacks.get(&ip) {
            return *known;
        }
        let id = self.add(Maker::Stack { ip, is_call }, None);
        self.stacks.insert(ip, id);
        id
    }

    /// An allocator gives memory out.
    pub fn heap(&mut self, call: Call) -> OriginId {
        let key = (call.function, call.stack);
        if let Some(known) = self.heaps.get(&key) {
            return *known;
        }
        let id = self.add(Maker::Heap(call), None);
        self.heaps.insert(key, id);
        id
    }

    /// Undefined bytes are loaded: the origin that tells them from others which the same code made. `block` is the one that holds them.
    pub fn load(&mut self, id: OriginId, addr: u64, (place, ip): (Place, u64), block: Option<&Block>) -> OriginId {
        let Some(Origin { maker, loaded: None }) = self.get(id).cloned() else { return id };
        let block = block.filter(|_| matches!(maker, Maker::Heap(_)));
        let key = (id, addr, block.and_then(|block| block.allocated).map(|call| call.place));
        if let Some(known) = self.loaded.get(&key) {
            return *known;
        }
        if self.loaded.len() >= MOST {
            return id;
        }
        let loaded = self.add(maker, Some(Loaded { addr, place, ip, block: block.cloned() }));
        self.loaded.insert(key, loaded);
        loaded
    }
}
