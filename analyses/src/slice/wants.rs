//! Who wants a value: sets of nodes, each kept once.

use hashbrown::HashMap;
use std::rc::Rc;

/// A set of nodes, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetId(u32);

/// Who wants a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The nodes that do.
    pub who: SetId,
    /// Steps from what was asked about to what yields the value, on the shortest way.
    pub depth: u32,
}

/// Sets of nodes. There are few that differ: those that want the same value at different moments are the same most of the time.
#[derive(Default)]
pub struct Sets {
    all: Vec<Rc<[u32]>>,
    known: HashMap<Rc<[u32]>, SetId>,
    unions: HashMap<(SetId, SetId), SetId>,
}

impl Sets {
    /// The set of this node alone.
    pub fn one(&mut self, node: u32) -> SetId {
        self.set(&[node])
    }

    fn set(&mut self, nodes: &[u32]) -> SetId {
        if let Some(known) = self.known.get(nodes) {
            return *known;
        }
        let (nodes, id): (Rc<[u32]>, _) = (nodes.into(), SetId(self.all.len() as u32));
        self.all.push(nodes.clone());
        self.known.insert(nodes, id);
        id
    }

    /// Its nodes, in ascending order.
    pub fn nodes(&self, set: SetId) -> &[u32] {
        &self.all[set.0 as usize]
    }

    /// Those of both.
    pub fn union(&mut self, one: SetId, other: SetId) -> SetId {
        if one == other {
            return one;
        }
        let key = (one.min(other), one.max(other));
        if let Some(known) = self.unions.get(&key) {
            return *known;
        }
        let mut nodes = [self.nodes(one), self.nodes(other)].concat();
        nodes.sort_unstable();
        nodes.dedup();
        let id = self.set(&nodes);
        self.unions.insert(key, id);
        id
    }

    /// What both want, by the shorter way.
    pub fn join(&mut self, one: Want, other: Want) -> Want {
        Want { who: self.union(one.who, other.who), depth: one.depth.min(other.depth) }
    }
}
