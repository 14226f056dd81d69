//! Which branch decides whether an instruction is executed: control dependence, by post-dominators of the code that can follow
//! (Ferrante, Ottenstein and Warren; Cooper, Harvey and Kennedy, *A Simple, Fast Dominance Algorithm*).
//!
//! The graph is that of the code as the log has it, within functions: behind a call it goes on where the call returns. Of a conditional
//! branch both ways are looked at, whether they were executed or not; of an indirect jump those that were seen, and one more that
//! was not. Code that is not known leads out of the function.

use bugnet_events::code::Decoded;
use bugnet_events::effects::Control;
use bugnet_replay::code_text::CodeText;
use hashbrown::{HashMap, HashSet};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use smallvec::{SmallVec, smallvec};

/// Instructions at most that are looked at behind a branch; what lies beyond leads out of the function.
const MAX_REACHED: usize = 200_000;
/// Longest instruction, in bytes.
const LONGEST: usize = 15;
/// Out of the function.
const OUT: u64 = u64::MAX;

type Next = SmallVec<[u64; 2]>;

/// The code of a process, as a graph of its instructions.
pub struct Branches {
    code: CodeText,
    /// Where execution can go on behind each instruction.
    next: HashMap<u64, Next>,
    /// Where indirect jumps were seen to go.
    seen: HashMap<u64, Next>,
    /// Blocks that were executed, and calls.
    executed: HashSet<u64>,
    /// Calls behind which nothing was executed, by what is there.
    hanging: HashMap<u64, u64>,
    /// What comes behind an instruction on all ways out, at once; [`OUT`] if nothing does.
    behind: HashMap<u64, u64>,
    /// How often more than was known has been found out of what follows an instruction.
    pub generation: u64,
}

/// Whether an indirect jump only leads to a function of another file, or what stands for one.
fn is_linkage(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Memory && matches!(instruction.memory_base(), Register::RIP | Register::EIP)
}

/// Whether an instruction can go on in several ways.
pub fn decides(decoded: &Decoded) -> bool {
    match decoded.control {
        Control::Branch => true,
        Control::Jump => {
            decoded.instruction.flow_control() == FlowControl::IndirectBranch && !is_linkage(&decoded.instruction)
        }
        _ => false,
    }
}

impl Branches {
    /// Of a process.
    pub fn new(code: CodeText) -> Self {
        let (next, seen, behind) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { code, next, seen, executed: HashSet::new(), hanging: HashMap::new(), behind, generation: 0 }
    }

    /// An instruction was executed, and behind it the one at `next`.
    pub fn went(&mut self, instruction: &Instruction, next: u64) {
        let at = instruction.ip();
        match instruction.flow_control() {
            FlowControl::IndirectBranch if !is_linkage(instruction) => {
                let seen = self.seen.entry(at).or_default();
                if !seen.contains(&next) {
                    seen.push(next);
                    self.look_again(at);
                }
            }
            _ => {}
        }
    }

    /// A block was executed that begins here, or a call that is here.
    pub fn began(&mut self, at: u64) {
        if self.executed.insert(at) {
            self.look_again(at);
            // The call before it was taken for one that does not return.
            if let Some(call) = self.hanging.remove(&at) {
                self.look_again(call);
            }
        }
    }

    /// Whether [`Self::began`] has been told of this block.
    pub fn has_begun(&self, at: u64) -> bool {
        self.executed.contains(&at)
    }

    /// What follows this instruction may be other than was known.
    fn look_again(&mut self, at: u64) {
        let Some(known) = self.next.get(&at).cloned() else { return };
        let found = self.found(at);
        if found != known {
            self.next.insert(at, found);
            self.behind.clear();
            self.generation += 1;
        }
    }

    /// Whether it is this branch that decides, the way it goes, whether the instruction at `at` is executed.
    pub fn decides(&mut self, branch: u64, at: u64) -> bool {
        if !self.behind.contains_key(&branch) {
            self.look_behind(branch);
        }
        let after = self.behind.get(&branch).copied().unwrap_or(OUT);
        let ways = self.ways(branch);
        ways.len() > 1 && ways.iter().any(|way| self.comes_to(*way, at, after))
    }

    /// Whether what is on all ways out from `from` has `at`, before `after`.
    fn comes_to(&self, from: u64, at: u64, after: u64) -> bool {
        let next = |now: &u64| self.behind.get(now).copied();
        std::iter::successors(Some(from), next).take_while(|now| *now != after && *now != OUT).any(|now| now == at)
    }

    fn ways(&mut self, at: u64) -> Next {
        if let Some(known) = self.next.get(&at) {
            return known.clone();
        }
        let next = self.found(at);
        self.next.insert(at, next.clone());
        next
    }

    fn found(&mut self, at: u64) -> Next {
        let bytes = self.code.read(at, LONGEST);
        let instruction = Decoder::with_ip(64, &bytes, at, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            return smallvec![OUT];
        }
        let behind = instruction.next_ip();
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::XbeginXabortXend => smallvec![behind],
            FlowControl::UnconditionalBranch => smallvec![instruction.near_branch_target()],
            FlowControl::ConditionalBranch => smallvec![behind, instruction.near_branch_target()],
            FlowControl::IndirectBranch if is_linkage(&instruction) => smallvec![OUT],
            FlowControl::IndirectBranch => {
                let mut all = self.seen.get(&at).cloned().unwrap_or_default();
                all.push(OUT);
                all
            }
            // One that was executed, and behind which nothing was, does not return.
            FlowControl::Call | FlowControl::IndirectCall
                if instruction.code() != Code::Syscall
                    && self.executed.contains(&at)
                    && !self.executed.contains(&behind) =>
            {
                self.hanging.insert(behind, at);
                smallvec![OUT]
            }
            FlowControl::Call | FlowControl::IndirectCall => smallvec![behind],
            FlowControl::Interrupt if instruction.code() == Code::Int3 => smallvec![OUT],
            FlowControl::Interrupt => smallvec![behind],
            FlowControl::Return | FlowControl::Exception => smallvec![OUT],
        }
    }

    /// Finds what comes behind each instruction that can follow one, on all ways out.
    fn look_behind(&mut self, from: u64) {
        let (mut all, mut numbers): (Vec<u64>, HashMap<u64, usize>) = (vec![OUT, from], HashMap::new());
        numbers.extend([(OUT, 0), (from, 1)]);
        let mut next: Vec<SmallVec<[usize; 2]>> = vec![SmallVec::new()];
        while next.len() < all.len() {
            let ways = if all.len() > MAX_REACHED { smallvec![OUT] } else { self.ways(all[next.len()]) };
            let number = |way: u64| {
                *numbers.entry(way).or_insert_with(|| {
                    all.push(way);
                    all.len() - 1
                })
            };
            next.push(ways.into_iter().map(number).collect());
        }
        for (number, behind) in post_dominators(next).into_iter().enumerate().skip(1) {
            self.behind.insert(all[number], all[behind]);
        }
    }
}

/// For each node the nearest one that is on all its ways to node 0, which has no way on.
fn post_dominators(mut next: Vec<SmallVec<[usize; 2]>>) -> Vec<usize> {
    let count = next.len();
    let mut before: Vec<SmallVec<[usize; 2]>> = vec![SmallVec::new(); count];
    for (number, ways) in next.iter().enumerate() {
        ways.iter().for_each(|way| before[*way].push(number));
    }
    // Backwards from the way out, each behind all those to which it leads.
    let (mut order, mut places) = (Vec::with_capacity(count), vec![usize::MAX; count]);
    let mut visited = vec![false; count];
    let mut start = 0;
    loop {
        visited[start] = true;
        let mut stack = vec![(start, 0)];
        while let Some((number, tried)) = stack.last_mut() {
            match before[*number].get(*tried) {
                Some(way) => {
                    *tried += 1;
                    if !std::mem::replace(&mut visited[*way], true) {
                        stack.push((*way, 0));
                    }
                }
                None => {
                    places[*number] = order.len();
                    order.push(*number);
                    stack.pop();
                }
            }
        }
        // An endless loop has a way out that nobody ever takes.
        let Some(endless) = visited.iter().rposition(|visited| !visited) else { break };
        next[endless].push(0);
        before[0].push(endless);
        start = endless;
    }
    // The way out is last in the order of its own search, and those of endless loops lie behind it.
    let last = order.len();
    places[0] = last;
    let mut behind: Vec<Option<usize>> = vec![None; count];
    behind[0] = Some(0);
    let mut has_changed = true;
    while has_changed {
        has_changed = false;
        for number in order.iter().rev().copied().filter(|number| *number != 0) {
            let mut ways = next[number].iter().copied().filter(|way| behind[*way].is_some());
            let Some(first) = ways.next() else { continue };
            let met = ways.fold(first, |one, other| meet(one, other, &behind, &places));
            if behind[number] != Some(met) {
                behind[number] = Some(met);
                has_changed = true;
            }
        }
    }
    behind.into_iter().map(|behind| behind.unwrap_or(0)).collect()
}

fn meet(mut one: usize, mut other: usize, behind: &[Option<usize>], places: &[usize]) -> usize {
    while one != other {
        if places[one] < places[other] {
            one = behind[one].unwrap_or(0);
        } else {
            other = behind[other].unwrap_or(0);
        }
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(ways: &[&[usize]]) -> Vec<usize> {
        post_dominators(ways.iter().map(|ways| ways.iter().copied().collect()).collect())
    }

    /// What is on all ways, by trying: taking the node away leaves no way out.
    fn tried(ways: &[SmallVec<[usize; 2]>], from: usize, without: usize) -> bool {
        let (mut found, mut left) = (HashSet::new(), vec![from]);
        while let Some(node) = left.pop() {
            if node != without && found.insert(node) {
                left.extend(ways[node].iter().copied());
            }
        }
        !found.contains(&0)
    }

    #[test]
    fn what_is_on_all_ways_out() {
        // 1 -> 2 or 3 -> 4 -> out
        assert_eq!(graph(&[&[], &[2, 3], &[4], &[4], &[0]]), [0, 4, 4, 4, 0]);
        // A loop: 1 -> 2 -> 1 or 3 -> out
        assert_eq!(graph(&[&[], &[2], &[1, 3], &[0]]), [0, 2, 3, 0]);
        // An endless loop behind a branch.
        let behind = graph(&[&[], &[2, 3], &[0], &[4], &[3]]);
        assert_eq!(behind[1], 0);
        let mut random = fastrand::Rng::with_seed(4);
        for _ in 0..400 {
            let count = random.usize(2..14);
            let mut ways: Vec<SmallVec<[usize; 2]>> = vec![SmallVec::new()];
            ways.extend((1..count).map(|_| (0..random.usize(1..3)).map(|_| random.usize(0..count)).collect()));
            let leads_out = (1..count).all(|from| !tried(&ways, from, usize::MAX));
            if !leads_out {
                continue;
            }
            let behind = post_dominators(ways.clone());
            for from in 1..count {
                let chain: Vec<usize> =
                    std::iter::successors(Some(from), |now| (*now != 0).then(|| behind[*now])).skip(1).collect();
                for other in (1..count).filter(|other| *other != from) {
                    assert_eq!(chain.contains(&other), tried(&ways, from, other), "{ways:?} {from} {other}");
                }
            }
        }
    }
}
