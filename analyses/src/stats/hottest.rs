//! The functions and lines that executed most instructions.

use bugnet_format::types::{Addr, ProcessId};
use bugnet_replay::Result;
use bugnet_replay::log::Log;
use bugnet_replay::symbols::{Place, Symbolizer};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

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

/// What executed most, most first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hottest {
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

fn named(place: &Place) -> Named {
    let source = place.source.first();
    let symbol = place.symbol.as_ref().map(|symbol| symbol.name.clone());
    let module = place.module.as_ref().map(|module| module.path.rsplit('/').next().unwrap_or_default());
    let function = source.and_then(|source| source.function.clone()).or(symbol);
    let unknown = || module.map_or_else(|| "code made while it ran".to_owned(), |module| format!("({module})"));
    let function = function.unwrap_or_else(unknown);
    let line = source.and_then(|source| Some(format!("{}:{} {function}", source.file.as_ref()?, source.line?)));
    Named { function, line }
}

impl Hottest {
    /// Of how often the instruction at each address was executed, process by process.
    pub(super) fn of(log: &Log, executed: BTreeMap<ProcessId, HashMap<u64, u64>>, of: u64) -> Result<Self> {
        let (mut functions, mut lines, mut without_line) = (HashMap::new(), HashMap::new(), 0);
        for (pid, executed) in executed {
            let mut symbols = Symbolizer::new(log, pid)?;
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
        Ok(Self { functions: sorted(functions), lines: sorted(lines), without_line, of })
    }
}
