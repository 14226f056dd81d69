//! What there is to see at a moment of a run, in terms of the source as far as debug information goes.

use super::both::{BAD, GOOD};
use super::side::Side;
use crate::names::brief;
use bugnet_format::types::Addr;
use bugnet_replay::Result;
use bugnet_replay::backtrace::Frame;
use bugnet_replay::crash::{Variable, is_system, is_system_source, moment};
use bugnet_replay::symbols::{Place, SourceFrame, Symbolizer};
use serde::Serialize;

/// A place in the code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Spot {
    /// The function, as far as it is known. Where another one is inlined that comes from the system's sources, the one around that.
    pub function: Option<String>,
    /// Bytes behind the function's start, where no line is known.
    pub offset: Option<u64>,
    /// The source file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// The mapped file; none for code that was made while the program ran.
    pub object: Option<String>,
}

impl Spot {
    /// What is at an address.
    pub fn of(symbols: &mut Symbolizer, at: u64) -> Self {
        Self::outside(symbols, at, |_| false)
    }

    /// The same, of what is inlined there what is neither from the system's sources nor from others that are not meant, by the file.
    pub fn outside(symbols: &mut Symbolizer, at: u64, is_other: impl Fn(&str) -> bool) -> Self {
        Self::in_place(symbols.lookup(Addr(at)), is_other)
    }

    /// The same, of a place that was looked up.
    pub fn in_place(place: Place, is_other: impl Fn(&str) -> bool) -> Self {
        let is_users =
            |source: &&SourceFrame| source.file.as_ref().is_some_and(|file| !is_system_source(file) && !is_other(file));
        let source = place.source.iter().find(is_users).or(place.source.first()).cloned();
        let (file, line) = source.as_ref().map_or((None, None), |source| (source.file.clone(), source.line));
        let symbol = place.symbol;
        let offset = match (&symbol, &place.module) {
            _ if line.is_some() => None,
            (Some(symbol), _) => Some(symbol.offset),
            (None, module) => module.as_ref().map(|module| module.offset),
        };
        let function = source.and_then(|source| source.function).or(symbol.map(|symbol| symbol.name));
        Self { function, offset, file, line, object: place.module.map(|module| module.path) }
    }

    /// Whether it is of the system's sources, as the functions are that a compiler makes of templates.
    #[must_use]
    pub fn is_systems(&self) -> bool {
        self.file.as_ref().is_some_and(|file| is_system_source(file))
    }
}

impl std::fmt::Display for Spot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let object = self.object.as_ref().and_then(|path| path.rsplit('/').next()).unwrap_or("code made while it ran");
        write!(f, "{}", self.function.as_deref().map_or_else(|| object.to_owned(), brief))?;
        match (&self.file, self.line, self.offset) {
            (Some(file), Some(line), _) => write!(f, " at {file}:{line}"),
            (.., Some(offset)) if self.function.is_some() => write!(f, "+{offset:#x} ({object})"),
            (.., Some(offset)) => write!(f, "+{offset:#x}"),
            _ => Ok(()),
        }
    }
}

/// What is in scope at a moment.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// The function that called the one in which it is, with the line; none of the system's.
    pub caller: Option<String>,
    /// Arguments and variables of the function that the [`Spot`] has; with each, whose it is.
    pub variables: Vec<(Option<String>, Variable)>,
    /// The text of the line.
    pub text: Option<String>,
}

impl Scene {
    /// Where a run's cursor is.
    ///
    /// # Errors
    /// The replay process is lost.
    pub fn of(side: &mut Side<'_>) -> Result<Self> {
        let moment = moment(side.recorded.log, &mut side.cursor)?;
        let mut frames = moment.backtrace.into_iter();
        let scopes = frames.next().map(|frame| frame.scopes).unwrap_or_default();
        let own = |scope: bugnet_replay::crash::Scope| {
            let function = scope.function;
            let all = scope.arguments.into_iter().chain(scope.locals);
            all.map(move |variable| (function.clone(), variable)).collect::<Vec<_>>()
        };
        let at = side.cursor.regs().rip;
        let spot = Spot::of(&mut side.symbols, at);
        let line = spot.file.as_ref().zip(spot.line).and_then(|(file, line)| side.symbols.source_line(file, line));
        let text = line.map(|line| line.trim().to_owned());
        let is_own = |frame: &Frame| frame.place.module.as_ref().is_none_or(|module| !is_system(&module.path));
        let caller = frames.next().filter(is_own).and_then(|frame| frame.place.brief());
        let mut variables: Vec<_> = scopes.into_iter().flat_map(own).collect();
        // Those of what is inlined there from the system's sources say little.
        if variables.iter().any(|(function, _)| *function == spot.function) {
            variables.retain(|(function, _)| *function == spot.function);
        }
        Ok(Self { caller, variables, text })
    }

    /// The variable in memory that holds an address, as far as it is one of those in scope.
    #[must_use]
    pub fn name_at(&self, addr: u64) -> Option<String> {
        self.variables.iter().find_map(|(_, variable)| {
            let offset = addr.checked_sub(variable.address?)?;
            (offset < variable.size?).then(|| with_offset(&variable.name, offset))
        })
    }
}

fn with_offset(name: &str, offset: u64) -> String {
    if offset == 0 { name.to_owned() } else { format!("{name} (byte {offset})") }
}

/// What memory at an address is called, where a run's cursor is.
pub fn name_of_memory(side: &mut Side<'_>, scene: &Scene, addr: u64) -> Option<String> {
    let global =
        |side: &mut Side<'_>| side.symbols.name_at(Addr(addr)).map(|(name, offset)| with_offset(&name, offset));
    scene.name_at(addr).or_else(|| global(side))
}

/// A variable that has other values in the two runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Differing {
    /// The function whose variable it is.
    pub function: Option<String>,
    /// Its name.
    pub name: String,
    /// In the right run, as gdb prints it.
    pub good: String,
    /// In the wrong one.
    pub bad: String,
}

/// Variables that have other values, where addresses do not count.
#[must_use]
pub fn differing(scenes: &[Scene; 2]) -> Vec<Differing> {
    let mut all = Vec::new();
    let mut others: Vec<_> = scenes[BAD].variables.iter().collect();
    for (function, good) in &scenes[GOOD].variables {
        let is_same = |other: &&(Option<String>, Variable)| {
            (&other.0, &other.1.name, &other.1.type_name) == (function, &good.name, &good.type_name)
        };
        let Some(at) = others.iter().position(is_same) else { continue };
        let (_, bad) = others.remove(at);
        if without_addresses(&good.value) != without_addresses(&bad.value) {
            let (name, good, bad) = (good.name.clone(), good.value.clone(), bad.value.clone());
            all.push(Differing { function: function.clone(), name, good, bad });
        }
    }
    all
}

/// A value as text, in which all that may be an address is the same: hexadecimal numbers of six digits and more, and decimal ones as large
/// as addresses of libraries, stacks and programs that can be moved.
fn without_addresses(value: &str) -> String {
    const DIGITS: usize = 6;
    const DECIMAL: std::ops::Range<u64> = 0x5000_0000_0000..0x8000_0000_0000;
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_address = |word: &str| match word.strip_prefix("0x") {
        Some(digits) => digits.len() >= DIGITS,
        None => word.parse().is_ok_and(|number| DECIMAL.contains(&number)),
    };
    let mut text = String::new();
    let mut rest = value;
    while let Some(start) = rest.find(is_word) {
        let end = rest[start..].find(|c| !is_word(c)).map_or(rest.len(), |len| start + len);
        let word = &rest[start..end];
        text.push_str(&rest[..start]);
        text.push_str(if is_address(word) { "an address" } else { word });
        rest = &rest[end..];
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_do_not_count() {
        let same = |a: &str, b: &str| without_addresses(a) == without_addresses(b);
        assert!(same("0x7ffff7a01010 \"a\"", "0x7ffd01234567 \"a\""));
        assert!(same("{next = 0x5555555592a0, value = 2}", "{next = 0x7f0000000010, value = 2}"));
        assert!(!same("0x7ffff7a01010 \"a\"", "0x7ffff7a01010 \"b\""));
        assert!(!same("{next = 0x0, value = 2}", "{next = 0x5555555592a0, value = 2}"));
        assert!(same("{139809146681024, 7}", "{140737344059072, 7}"));
        assert!(!same("12", "13"));
        assert!(!same("x 12 0xffff", "x 12 0xfffe"));
    }

    #[test]
    fn spots_as_text() {
        let spot = |function: Option<&str>, line: Option<u32>, offset: Option<u64>| Spot {
            function: function.map(Into::into),
            offset,
            file: line.map(|_| "/src/a.c".into()),
            line,
            object: Some("/usr/bin/a".into()),
        };
        assert_eq!(spot(Some("f"), Some(3), None).to_string(), "f at /src/a.c:3");
        assert_eq!(spot(Some("f"), None, Some(16)).to_string(), "f+0x10 (a)");
        assert_eq!(spot(None, None, Some(16)).to_string(), "a+0x10");
        assert_eq!(Spot::default().to_string(), "code made while it ran");
    }
}
