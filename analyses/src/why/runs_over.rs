//! Calls of a library's functions that store into a value which a line of the program's own had stored whole, and of which a part is still there when it is
//! loaded whole: as where a text is copied into a member of a structure and runs over into the next one. No block is left then, so that
//! this is no memory error.

use super::near::{Line, moved};
use super::rank::{Reason, Table};
use crate::runs::scene::Spot;
use crate::slice::{Dependence, Graph, What};
use bugnet_replay::crash::is_system;
use bugnet_replay::symbols::Symbolizer;
use hashbrown::{HashMap, HashSet};
use iced_x86::Instruction;

fn instruction(graph: &Graph, node: u32) -> Option<&Instruction> {
    match &graph.nodes[node as usize].what {
        What::Instruction(instruction) => Some(instruction),
        _ => None,
    }
}

/// Notes such calls in a full slice.
pub fn find(graph: &Graph, symbols: &mut Symbolizer, table: &mut Table) {
    let mut stores: HashMap<u32, Vec<u32>> = HashMap::new();
    for (load, by, store) in graph.edges.keys() {
        let is_loaded = instruction(graph, *load).and_then(|load| moved(load, 1)).is_some();
        if *by == Dependence::Data && is_loaded {
            stores.entry(*load).or_default().push(*store);
        }
    }
    let mut found: Vec<(Line, Line, u32)> = Vec::new();
    for (load, stores) in stores {
        let own = |symbols: &mut Symbolizer, node: u32| Line::of(&Spot::of(symbols, instruction(graph, node)?.ip()));
        let Some(size) = instruction(graph, load).and_then(|load| moved(load, 1)) else { continue };
        let is_whole = |store: &&u32| instruction(graph, **store).and_then(|store| moved(store, 0)) >= Some(size);
        let Some(whole) = stores.iter().filter(is_whole).find_map(|store| own(symbols, *store)) else { continue };
        if own(symbols, load).is_none() {
            continue;
        }
        for store in stores {
            if !is_librarys(graph, symbols, store) {
                continue;
            }
            if let Some((line, call)) = caller(graph, symbols, store).filter(|(line, _)| *line != whole) {
                found.push((line, whole.clone(), call));
            }
        }
    }
    found.sort();
    for (line, whole, call) in found {
        let Some([place, _]) = graph.nodes[call as usize].places else { continue };
        let function = instruction(graph, call).and_then(|call| Spot::of(symbols, call.ip()).function);
        let file = whole.file.rsplit('/').next().unwrap_or_default();
        let text = format!(
            "what it calls overwrites a part of a value that {file}:{} had stored whole, as what runs over into it does",
            whole.line
        );
        table.illegal(line, function, place, Reason::RunsOver { text });
    }
}

fn is_librarys(graph: &Graph, symbols: &mut Symbolizer, node: u32) -> bool {
    let spot = instruction(graph, node).map(|instruction| Spot::of(symbols, instruction.ip()));
    spot.and_then(|spot| spot.object).is_some_and(|object| is_system(&object))
}

/// The one line of the program's own that called the library's code which executed an instruction for the slice, and its call.
fn caller(graph: &Graph, symbols: &mut Symbolizer, node: u32) -> Option<(Line, u32)> {
    let mut decides: HashMap<u32, Vec<u32>> = HashMap::new();
    for (decided, by, node) in graph.edges.keys() {
        if *by == Dependence::Control {
            decides.entry(*decided).or_default().push(*node);
        }
    }
    let (mut seen, mut left, mut callers) = (HashSet::new(), vec![node], Vec::new());
    while let Some(node) = left.pop() {
        for by in decides.get(&node).into_iter().flatten().filter(|by| seen.insert(**by)) {
            let spot = instruction(graph, *by).map(|instruction| Spot::of(symbols, instruction.ip()));
            match spot.and_then(|spot| Line::of(&spot)) {
                Some(line) => callers.push((line, *by)),
                None => left.push(*by),
            }
        }
    }
    // Instructions of a library count once, whoever called it, and so it is not known which call it was where there are several.
    let first = callers.first()?.0.clone();
    callers.iter().all(|(line, _)| *line == first).then(|| callers.swap_remove(0))
}
