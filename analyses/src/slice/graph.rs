//! What a slice found: the instructions of the program that are in it, each once, and which of them want what which others yield.

use super::wants::{SetId, Sets};
use bugnet_events::atoms::Atoms;
use bugnet_format::types::Tid;
use bugnet_replay::cursor::Place;
use hashbrown::{HashMap, HashSet};
use iced_x86::Instruction;
use serde::Serialize;

/// The node for what was asked about.
pub const ASKED: u32 = 0;

/// For what one wants another's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dependence {
    /// It computes with it, or copies it.
    Data,
    /// It says where in memory.
    Address,
    /// It decides whether the instruction is executed.
    Control,
}

impl Dependence {
    const ALL: [Self; 3] = [Self::Data, Self::Address, Self::Control];
}

/// A node, as one that wants something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanting {
    /// The node.
    pub node: u32,
    /// For what.
    pub by: Dependence,
}

impl Wanting {
    /// As a member of a set.
    pub fn packed(self) -> u32 {
        self.node << 2 | self.by as u32
    }

    fn unpacked(packed: u32) -> Self {
        Self { node: packed >> 2, by: Dependence::ALL[(packed & 3) as usize] }
    }
}

/// Where a value comes from that no instruction of the slice has made.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case", tag = "origin")]
pub enum Origin {
    /// A system call.
    Call {
        /// Its number.
        number: u64,
        /// Its arguments.
        args: [u64; 6],
        /// What it returned.
        result: i64,
    },
    /// An instruction whose results do not follow from what the program knows.
    Special {
        /// Its name, as in `rdtsc`.
        name: String,
    },
    /// The kernel, for a signal's handler.
    Signal {
        /// The signal's number.
        number: u64,
    },
    /// A thread that the slice leaves alone.
    Thread {
        /// Its id.
        tid: Tid,
    },
    /// Something that changed memory while no instruction or known call of the process did: the kernel when it liked, or another process.
    Elsewhere {
        /// Behind this place.
        after: Place,
    },
    /// It was there where the search ended.
    Before,
}

/// What a node stands for.
#[derive(Clone, Debug)]
pub enum What {
    /// What was asked about.
    Asked,
    /// An instruction, whenever it is executed for the slice.
    Instruction(Box<Instruction>),
    /// A source of values.
    Source(Source),
}

/// Values that come from outside.
#[derive(Clone, Debug)]
pub struct Source {
    /// From where.
    pub origin: Origin,
    /// Parts of registers that are wanted of it.
    pub atoms: Atoms,
    /// Which thread's.
    pub tid: Option<Tid>,
    /// Bytes of memory that are wanted of it: first ones, and how many. They do not touch each other.
    pub bytes: Vec<(u64, u64)>,
}

/// Something in the slice.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is.
    pub what: What,
    /// How often it was executed for the slice.
    pub count: u64,
    /// Where that was the last time, and the first; a source that was there before has none.
    pub places: Option<[Place; 2]>,
    /// Steps from what was asked about, on the shortest way.
    pub depth: u32,
    /// Whether there is more behind it, which was not looked for.
    pub is_cut: bool,
}

/// One execution of an instruction that is in the slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Where it was.
    pub place: Place,
    /// The node.
    pub node: u32,
    /// Steps from what was asked about, on the shortest way.
    pub depth: u32,
}

/// Nodes, and what they want of each other.
pub struct Graph {
    /// The nodes; the first is [`ASKED`].
    pub nodes: Vec<Node>,
    /// How often a node has yielded what another one wants: who wants, what yields.
    pub edges: HashMap<(u32, Dependence, u32), u64>,
    /// Executions, the last one first; no more than one asks for.
    pub instances: Vec<Instance>,
    /// How many there are in all.
    pub count: u64,
    keep: usize,
    known: HashMap<u64, Vec<u32>>,
    /// Sets of those that want something, whose edges are the same as those of the last time.
    last: HashMap<u32, (SetId, u64)>,
}

impl Graph {
    /// One that keeps so many executions.
    pub fn new(keep: usize) -> Self {
        let asked = Node { what: What::Asked, count: 1, places: None, depth: 0, is_cut: false };
        Self {
            nodes: vec![asked],
            edges: HashMap::new(),
            instances: Vec::new(),
            count: 0,
            keep,
            known: HashMap::new(),
            last: HashMap::new(),
        }
    }

    fn add(&mut self, what: What, place: Option<Place>, depth: u32) -> u32 {
        let places = place.map(|place| [place, place]);
        self.nodes.push(Node { what, count: 0, places, depth, is_cut: false });
        self.nodes.len() as u32 - 1
    }

    /// An instruction is executed for the slice.
    pub fn executed(&mut self, instruction: &Instruction, place: Place, depth: u32) -> u32 {
        let same = |node: &&u32| match &self.nodes[**node as usize].what {
            What::Instruction(known) => known.eq_all_bits(instruction),
            _ => false,
        };
        let known = self.known.get(&instruction.ip()).and_then(|all| all.iter().find(same).copied());
        let node = known.unwrap_or_else(|| {
            let node = self.add(What::Instruction(Box::new(*instruction)), Some(place), depth);
            self.known.entry(instruction.ip()).or_default().push(node);
            node
        });
        let found = &mut self.nodes[node as usize];
        found.count += 1;
        found.depth = found.depth.min(depth);
        if let Some(places) = &mut found.places {
            places[1] = place;
        }
        self.count += 1;
        if self.instances.len() < self.keep {
            self.instances.push(Instance { place, node, depth });
        }
        node
    }

    /// Values come from outside.
    pub fn source(&mut self, source: Source, place: Option<Place>, depth: u32) -> u32 {
        let node = self.add(What::Source(source), place, depth);
        self.nodes[node as usize].count = 1;
        node
    }

    /// A node yields what these want.
    pub fn yields(&mut self, node: u32, who: SetId, sets: &Sets) {
        // In loops, it is mostly the same ones that want something of a node.
        if let Some((last, count)) = self.last.get_mut(&node) {
            if *last == who {
                *count += 1;
                return;
            }
            let before = (*last, *count);
            (*last, *count) = (who, 1);
            self.count_edges(node, before, sets);
        } else {
            self.last.insert(node, (who, 1));
        }
    }

    fn count_edges(&mut self, node: u32, (who, times): (SetId, u64), sets: &Sets) {
        for packed in sets.nodes(who) {
            let Wanting { node: wanting, by } = Wanting::unpacked(*packed);
            *self.edges.entry((wanting, by, node)).or_default() += times;
        }
    }

    /// All is found.
    pub fn finish(&mut self, sets: &Sets) {
        for (node, last) in std::mem::take(&mut self.last) {
            self.count_edges(node, last, sets);
        }
    }

    /// The nodes from which what was asked about can be reached by dependences of these kinds alone.
    pub fn reached(&self, by: impl Fn(Dependence) -> bool) -> HashSet<u32> {
        let mut yielding: HashMap<u32, Vec<u32>> = HashMap::new();
        for (wanting, _, node) in self.edges.keys().filter(|(_, kind, _)| by(*kind)) {
            yielding.entry(*wanting).or_default().push(*node);
        }
        let (mut found, mut left) = (HashSet::from([ASKED]), vec![ASKED]);
        while let Some(node) = left.pop() {
            left.extend(yielding.get(&node).into_iter().flatten().filter(|next| found.insert(**next)));
        }
        found
    }
}
