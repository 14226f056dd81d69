//! Operations of C on atomic variables whose instructions are plain ones: `atomic_load` and `atomic_store`, the compiler's own ones of which these
//! are made, and their like. They are told by the text of the source, at the very column that debug information has for an instruction: what else
//! the line does has columns of its own.

use bugnet_format::types::Addr;
use bugnet_replay::symbols::Symbolizer;
use hashbrown::HashMap;

/// How the names of operations begin that load, or store.
const NAMES: [(&str, Operation); 8] = [
    ("atomic_load", Operation::Load),
    ("__atomic_load", Operation::Load),
    ("__c11_atomic_load", Operation::Load),
    ("atomic_store", Operation::Store),
    ("__atomic_store", Operation::Store),
    ("__c11_atomic_store", Operation::Store),
    ("atomic_flag_clear", Operation::Store),
    ("__atomic_clear", Operation::Store),
];

/// An operation on an atomic variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Its value is read.
    Load,
    /// It is set.
    Store,
}

impl Operation {
    /// The one whose name begins at a column of a line, from 1 in bytes.
    fn at(line: &str, column: u32) -> Option<Self> {
        let text = line.get(column.checked_sub(1)? as usize..)?;
        NAMES.iter().find(|(name, _)| text.starts_with(name)).map(|(_, operation)| *operation)
    }

    /// Whether it is this that an instruction does which reads or writes memory: the operation's arguments are read, too.
    #[must_use]
    pub fn is(self, reads: bool, writes: bool) -> bool {
        match self {
            Self::Load => reads && !writes,
            Self::Store => writes,
        }
    }
}

/// Lines of source files that have operations.
#[derive(Default)]
pub struct Operations {
    /// By path and number.
    lines: HashMap<String, HashMap<u32, String>>,
}

impl Operations {
    /// The one that an instruction belongs to; none where the source is not to be had.
    pub fn of(&mut self, symbols: &mut Symbolizer, at: u64) -> Option<Operation> {
        let innermost = symbols.lookup(Addr(at)).source.into_iter().next()?;
        let (file, line, column) = (innermost.file?, innermost.line?, innermost.column?);
        let lines = self.lines.entry(file).or_insert_with_key(|file| {
            let text = symbols.source_text(file).unwrap_or_default();
            let of_interest = (1..).zip(text.lines()).filter(|(_, line)| line.contains("atomic_"));
            of_interest.map(|(number, line)| (number, line.to_owned())).collect()
        });
        Operation::at(lines.get(&line)?, column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_by_their_columns() {
        let line = "    message = 3; atomic_store_explicit(&published, given, memory_order_release);";
        assert_eq!(Operation::at(line, 18), Some(Operation::Store));
        assert_eq!(Operation::at(line, 5), None, "a plain store of the same line");
        assert_eq!(Operation::at(line, 0), None);
        assert_eq!(Operation::at(line, 999), None);
        assert_eq!(Operation::at("    return 1 + __atomic_load_n(&x, 2);", 16), Some(Operation::Load));
    }

    #[test]
    fn arguments_are_not_what_is_stored() {
        assert!(Operation::Store.is(false, true) && !Operation::Store.is(true, false));
        assert!(Operation::Load.is(true, false) && !Operation::Load.is(false, true));
    }
}
