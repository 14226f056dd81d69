//! How near source lines are to a value, in a slice of it.

use crate::runs::scene::Spot;
use crate::slice::{ASKED, Dependence, Graph, What};
use bugnet_format::types::Addr;
use bugnet_replay::crash::is_system;
use bugnet_replay::cursor::Place;
use bugnet_replay::symbols::Symbolizer;
use hashbrown::HashMap;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A part of a value is small that goes so often into it.
const SMALL: usize = 4;

/// A line of the program's own code: the file, and the line from 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line {
    pub file: String,
    pub line: u32,
}

impl Line {
    /// The line of a place in the code, if it is the program's own and known.
    pub fn of(spot: &Spot) -> Option<Self> {
        let is_own = !spot.is_systems() && spot.object.as_ref().is_none_or(|object| !is_system(object));
        let line = spot.line.filter(|line| *line > 0 && is_own)?;
        Some(Self { file: spot.file.clone()?, line })
    }
}

/// What a line does for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// It moves values.
    Copies,
    /// A constant enters.
    Constant,
    /// It computes.
    Computes,
    /// It decides whether something is executed.
    Decides,
}

/// How near a line is.
#[derive(Clone, Debug)]
pub struct Near {
    /// Lines of the program's own on the shortest way, without this one.
    pub steps: u32,
    /// What it does there.
    pub work: Work,
    /// Whether it is the one of the program's own lines that is executed last.
    pub is_last: bool,
    /// Whether it decides, by a value that the wrong one is made of, whether what follows is executed: a check that has let that value pass.
    pub is_guard: bool,
    /// Whether it stores a small part of a value which another line had stored whole, and which is then loaded whole: as what runs over into it does.
    pub tears: bool,
    /// Its place among them, the last executed first, from 0.
    pub nth: usize,
    /// Where it was executed last for it.
    pub place: Place,
    /// The function.
    pub function: Option<String>,
}

/// What an instruction does.
fn work(instruction: &Instruction) -> Work {
    use Mnemonic::{Call, Cmp, Jmp, Leave, Nop, Pop, Push, Ret, Test};
    let text = format!("{:?}", instruction.mnemonic());
    let is_same = instruction.op_count() == 2
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register() != Register::None
        && instruction.op0_register() == instruction.op1_register();
    let moves = ["Mov", "Cmov", "Set", "Cwd", "Cdq", "Cqo", "Cbw", "Cwde", "Cdqe", "J", "Vmov"];
    match instruction.mnemonic() {
        Mnemonic::Xor | Mnemonic::Pxor | Mnemonic::Sub | Mnemonic::Vpxor if is_same => Work::Constant,
        Cmp | Test | Call | Ret | Push | Pop | Leave | Nop | Jmp => Work::Copies,
        Mnemonic::Mov if (0..instruction.op_count()).any(|number| is_immediate(instruction.op_kind(number))) => {
            Work::Constant
        }
        _ if text.starts_with("Cmov") || text.starts_with("Set") => Work::Computes,
        _ if moves.iter().any(|start| text.starts_with(start)) => Work::Copies,
        _ => Work::Computes,
    }
}

fn is_immediate(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
    )
}

/// Steps from what was asked about to each node: lines of the program's own count, and in code of others what decides. What says where counts twice:
/// most addresses are right.
fn steps(graph: &Graph, lines: &[Option<usize>]) -> HashMap<u32, u32> {
    let mut yields: HashMap<u32, Vec<(Dependence, u32)>> = HashMap::new();
    for (wanting, by, node) in graph.edges.keys() {
        yields.entry(*wanting).or_default().push((*by, *node));
    }
    let (mut found, mut queue) = (HashMap::new(), BinaryHeap::from([(Reverse(0), ASKED)]));
    while let Some((Reverse(steps), node)) = queue.pop() {
        if found.contains_key(&node) {
            continue;
        }
        found.insert(node, steps);
        let own = lines[node as usize];
        for (by, other) in yields.get(&node).into_iter().flatten() {
            let is_same = own.is_some() && lines[*other as usize] == own;
            let further = match by {
                _ if node == ASKED => 0,
                Dependence::Data => u32::from(own.is_some() && !is_same),
                Dependence::Control => u32::from(!is_same),
                Dependence::Address => 2 * u32::from(!is_same),
            };
            queue.push((Reverse(steps + further), *other));
        }
    }
    found
}

/// Whether code of the program's own is in a slice of which the lines are not known. Of a program with lines, what leads to functions of libraries has
/// none.
pub fn lacks_lines(graph: &Graph, symbols: &mut Symbolizer) -> bool {
    let main = symbols.functions(&["main"]);
    if main.keys().any(|at| Spot::of(symbols, *at).line.is_some()) {
        return false;
    }
    graph.nodes.iter().any(|node| {
        let What::Instruction(instruction) = &node.what else { return false };
        let spot = Spot::of(symbols, instruction.ip());
        spot.line.is_none() && spot.object.as_ref().is_some_and(|object| !is_system(object))
    })
}

/// The nodes that decide whether something is executed; and whether they do so by a value from which the wrong one, or its address, follows.
fn deciding(graph: &Graph) -> HashMap<u32, bool> {
    let mut data: HashMap<u32, Vec<u32>> = HashMap::new();
    for (wanting, by, node) in graph.edges.keys() {
        if *by == Dependence::Data {
            data.entry(*wanting).or_default().push(*node);
        }
    }
    let made = graph.reached(|by| by != Dependence::Control);
    let yields = |node: u32| data.get(&node).into_iter().flatten().copied();
    // What is compared may be loaded for that alone.
    let loads = |node: u32| matches!(&graph.nodes[node as usize].what, What::Instruction(instruction) if moved(instruction, 1).is_some());
    let is_made = |node: u32| made.contains(&node) || loads(node) && yields(node).any(|stored| made.contains(&stored));
    // A branch takes flags, and what made these has compared.
    let is_guard = |branch: u32| yields(branch).any(|compared| yields(compared).any(is_made));
    // Functions are executed because they are called, too.
    let is_branch = |node: &u32| match &graph.nodes[*node as usize].what {
        What::Instruction(instruction) => {
            matches!(instruction.flow_control(), FlowControl::ConditionalBranch | FlowControl::IndirectBranch)
        }
        _ => false,
    };
    let deciding = graph.edges.keys().filter(|(_, by, _)| *by == Dependence::Control).map(|(.., node)| *node);
    deciding.filter(is_branch).map(|branch| (branch, is_guard(branch))).collect()
}

/// The checks that have let a wrong value pass by an order, with their lines, and where each was executed last for the slice, before it jumps.
pub fn ordering(graph: &Graph, symbols: &mut Symbolizer) -> Vec<(Line, Place)> {
    let guards = deciding(graph);
    let compares = |branch: u32| {
        let of = graph.edges.keys().filter(move |(wanting, by, _)| *wanting == branch && *by == Dependence::Data);
        of.clone().next().is_some()
            && of.map(|(.., node)| *node).all(|node| is_comparison(&graph.nodes[node as usize].what))
    };
    let mut all = Vec::new();
    for (number, node) in graph.nodes.iter().enumerate() {
        let (What::Instruction(instruction), Some([place, _])) = (&node.what, node.places) else { continue };
        let number = number as u32;
        let is_guard = guards.get(&number).is_some_and(|is_guard| *is_guard) && is_ordering(instruction);
        if is_guard && let Some(line) = Line::of(&Spot::of(symbols, instruction.ip())).filter(|_| compares(number)) {
            all.push((line, place));
        }
    }
    all
}

fn is_comparison(what: &What) -> bool {
    matches!(what, What::Instruction(instruction) if matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Comisd | Mnemonic::Comiss))
}

/// Whether a jump goes by which of two is greater, and is not the one of a loop that ends where both are equal, as most do: one that goes back, and
/// not then.
fn is_ordering(jump: &Instruction) -> bool {
    use Mnemonic::{Ja, Jae, Jb, Jbe, Jg, Jge, Jl, Jle};
    match jump.mnemonic() {
        Jae | Jbe | Jge | Jle => true,
        Ja | Jb | Jg | Jl => jump.near_branch_target() > jump.ip(),
        _ => false,
    }
}

/// The lines that store a small part of what another line stores whole, where both parts are loaded as one value. Where the whole is a constant, one
/// sets memory before its parts.
fn tearing(graph: &Graph, lines: &[Option<usize>]) -> Vec<usize> {
    // By the instruction that loads.
    let (mut wholes, mut parts): (HashMap<u32, Vec<usize>>, HashMap<u32, Vec<usize>>) = Default::default();
    let moved = |node: u32, number: u32| match &graph.nodes[node as usize].what {
        What::Instruction(instruction) => moved(instruction, number),
        _ => None,
    };
    for (wanting, by, node) in graph.edges.keys() {
        let (Dependence::Data, Some(line)) = (*by, lines[*node as usize]) else { continue };
        let (Some(loaded), Some(stored)) = (moved(*wanting, 1), moved(*node, 0)) else { continue };
        if stored >= loaded {
            wholes.entry(*wanting).or_default().push(line);
        } else if stored * SMALL <= loaded {
            parts.entry(*wanting).or_default().push(line);
        }
    }
    let torn = parts.iter().filter_map(|(load, parts)| Some((wholes.get(load)?, parts)));
    torn.flat_map(|(wholes, parts)| parts.iter().filter(|line| !wholes.contains(line))).copied().collect()
}

/// How many bytes an instruction moves from a register to memory, or from there, where that is its operand of this number.
pub fn moved(instruction: &Instruction, number: u32) -> Option<usize> {
    let is_move = matches!(instruction.mnemonic(), Mnemonic::Mov | Mnemonic::Movsxd);
    let is_so =
        is_move && instruction.op_kind(number) == OpKind::Memory && instruction.op_kind(1 - number) == OpKind::Register;
    is_so.then(|| instruction.memory_size().size())
}

/// Whether an instruction only puts an argument where the function keeps it: what it does is its caller's.
fn is_entry(instruction: &Instruction, symbols: &mut Symbolizer) -> bool {
    use Register::{R8, R9, RBP, RCX, RDI, RDX, RSI, RSP};
    const NEAR: u64 = 100;
    let register = instruction.op1_register();
    let is_argument = register.is_xmm() || [RDI, RSI, RDX, RCX, R8, R9].contains(&register.full_register());
    let is_store = instruction.op_count() == 2
        && instruction.op0_kind() == OpKind::Memory
        && [RBP, RSP].contains(&instruction.memory_base())
        && instruction.op1_kind() == OpKind::Register;
    let is_move = format!("{:?}", instruction.mnemonic()).starts_with("Mov");
    if !(is_argument && is_store && is_move) {
        return false;
    }
    // The lines of the function's head.
    let at = instruction.ip();
    let offset = symbols.lookup(Addr(at)).symbol.map(|symbol| symbol.offset).filter(|offset| *offset < NEAR);
    offset.is_some_and(|offset| Spot::of(symbols, at - offset).line == Spot::of(symbols, at).line)
}

/// Hands on the instructions of each line of the program's own that are in a slice.
pub fn code(graph: &Graph, symbols: &mut Symbolizer, found: &mut dyn FnMut(Line, u64)) {
    for node in &graph.nodes {
        if let What::Instruction(instruction) = &node.what
            && let Some(line) = Line::of(&Spot::of(symbols, instruction.ip()))
        {
            found(line, instruction.ip());
        }
    }
}

/// Hands on each line of the program's own that is in a slice, with how near it is.
pub fn lines(graph: &Graph, symbols: &mut Symbolizer, found: &mut dyn FnMut(Line, Near)) {
    let deciding = deciding(graph);
    let (mut all, mut of_node) = (Vec::new(), vec![None; graph.nodes.len()]);
    let mut known: HashMap<Line, usize> = HashMap::new();
    for (number, node) in graph.nodes.iter().enumerate() {
        let (What::Instruction(instruction), Some([place, _])) = (&node.what, node.places) else { continue };
        let spot = Spot::of(symbols, instruction.ip());
        let Some(line) = Line::of(&spot).filter(|_| !is_entry(instruction, symbols)) else { continue };
        let at = *known.entry(line.clone()).or_insert_with(|| {
            // The nodes come in the order of the search, the last executed first.
            let nth = all.len();
            let near = Near {
                steps: u32::MAX,
                work: Work::Copies,
                is_last: nth == 0,
                is_guard: false,
                tears: false,
                nth,
                place,
                function: spot.function,
            };
            all.push((line, near));
            nth
        });
        of_node[number] = Some(at);
        let near: &mut Near = &mut all[at].1;
        near.work = near.work.max(work(instruction));
        if let Some(is_guard) = deciding.get(&(number as u32)) {
            near.work = Work::Decides;
            near.is_guard |= is_guard;
        }
    }
    for line in tearing(graph, &of_node) {
        all[line].1.tears = true;
    }
    let steps = steps(graph, &of_node);
    let mut nearest: BTreeMap<usize, u32> = BTreeMap::new();
    for (node, steps) in steps {
        if let Some(line) = of_node[node as usize] {
            let known = nearest.entry(line).or_insert(steps);
            *known = (*known).min(steps);
        }
    }
    for (number, (line, near)) in all.into_iter().enumerate() {
        let steps = nearest.get(&number).copied().unwrap_or(u32::MAX);
        found(line, Near { steps, ..near });
    }
}
