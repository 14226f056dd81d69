//! The functions and lines that executed most instructions.

use super::called::Called;
use super::own::Own;
use bugnet_format::types::Addr;
use bugnet_replay::symbols::{Place, Symbolizer};
use serde::Serialize;
use std::collections::HashMap;

/// Something that was executed, and how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hot {
    /// A function, or a line of one; where it is not known, the file that was mapped there.
    pub name: String,
    /// The mapped file; none for code that was made while the program ran.
    pub module: Option<String>,
    /// Instructions executed in it.
    pub instructions: u64,
}

/// A function of the program itself, with what it called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Calling {
    /// Its name; where no symbol tells it, its file.
    pub name: String,
    /// The mapped file; none for code that was made while the program ran.
    pub module: Option<String>,
    /// Instructions executed in it, and in what is inlined into it.
    pub instructions: u64,
    /// With the libraries that it called.
    pub with_libraries: u64,
    /// With all that it called; where it called itself, once.
    pub total: u64,
}

/// What executed most, most first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hottest {
    /// The functions of the program itself, those first that executed most with the libraries that they called.
    pub calling: Vec<Calling>,
    /// All functions; an inlined one counts for itself.
    pub functions: Vec<Hot>,
    /// All lines that are known.
    pub lines: Vec<Hot>,
    /// Instructions of which no line is known.
    pub without_line: u64,
    /// All instructions.
    pub of: u64,
}

/// What is known of an instruction's place.
struct Named {
    function: String,
    line: Option<String>,
}

/// What is known of a place without a symbol.
fn unknown(place: &Place) -> String {
    let module = place.module.as_ref().map(|module| module.path.rsplit('/').next().unwrap_or_default());
    module.map_or_else(|| "code made while it ran".to_owned(), |module| format!("({module})"))
}

fn named(place: &Place) -> Named {
    let source = place.source.first();
    let symbol = place.symbol.as_ref().map(|symbol| symbol.name.clone());
    let function = source.and_then(|source| source.function.clone()).or(symbol);
    let function = function.unwrap_or_else(|| unknown(place));
    let line = source.and_then(|source| Some(format!("{}:{} {function}", source.file.as_ref()?, source.line?)));
    Named { function, line }
}

/// What was executed of a process.
pub(super) struct Executed<'a> {
    /// Its functions.
    pub own: &'a Own,
    /// Their names.
    pub symbols: &'a mut Symbolizer,
    /// By address, how often the instruction there was executed.
    pub executed: HashMap<u64, u64>,
    /// What they called.
    pub called: Called,
}

impl Hottest {
    /// Of how often the instruction at each address was executed, process by process, and what the functions of each called.
    pub(super) fn of(executed: Vec<Executed<'_>>, of: u64) -> Self {
        let (mut functions, mut lines, mut without_line) = (HashMap::new(), HashMap::new(), 0);
        let mut calling: HashMap<(String, Option<String>), Calling> = HashMap::new();
        for Executed { own, symbols, executed, called } in executed {
            let mut itself: HashMap<u64, u64> = HashMap::new();
            for (at, times) in &executed {
                own.function(*at).into_iter().for_each(|function| *itself.entry(function).or_default() += times);
            }
            for (function, all) in called.functions {
                let place = symbols.lookup(Addr(function));
                let symbol = place.symbol.as_ref().map(|symbol| symbol.name.clone());
                let (name, module) =
                    (symbol.unwrap_or_else(|| unknown(&place)), place.module.map(|module| module.path));
                let key = (name.clone(), module.clone());
                let none = Calling { name, module, instructions: 0, with_libraries: 0, total: 0 };
                let sum = calling.entry(key).or_insert(none);
                sum.instructions += itself.get(&function).copied().unwrap_or(0);
                sum.with_libraries += all.with_libraries;
                sum.total += all.total;
            }
            for (at, times) in executed {
                let place = symbols.lookup(Addr(at));
                let (module, Named { function, line }) = (place.module.as_ref().map(|m| m.path.clone()), named(&place));
                *functions.entry((function, module.clone())).or_default() += times;
                match line {
                    Some(line) => *lines.entry((line, module)).or_default() += times,
                    None => without_line += times,
                }
            }
        }
        let sorted = |all: HashMap<(String, Option<String>), u64>| {
            let hot = |((name, module), instructions)| Hot { name, module, instructions };
            let mut all: Vec<Hot> = all.into_iter().map(hot).collect();
            all.sort_by(|a, b| b.instructions.cmp(&a.instructions).then_with(|| a.name.cmp(&b.name)));
            all
        };
        let mut calling: Vec<Calling> = calling.into_values().collect();
        calling.sort_by(|a, b| b.with_libraries.cmp(&a.with_libraries).then_with(|| a.name.cmp(&b.name)));
        Self { calling, functions: sorted(functions), lines: sorted(lines), without_line, of }
    }
}
