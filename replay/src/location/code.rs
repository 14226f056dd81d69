//! From a name to addresses.

use super::Name;
use crate::error::{ReplayError, Result};
use crate::symbols::Symbolizer;
use bugnet_debuginfo::image::Image;
use bugnet_debuginfo::lines::ends_with;
use bugnet_format::control::MAX_CONDITIONS;
use bugnet_format::types::Addr;
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use serde::Serialize;
use std::collections::BTreeSet;

/// Names that an error proposes.
const PROPOSED: usize = 5;
/// How alike two names must be for one to be proposed for the other, from 0 to 1.
const ALIKE: f64 = 0.8;
/// Longest code that is looked through for the start of a function's second line, in bytes.
const LONGEST_PROLOGUE: u64 = 1024;

/// The code that a name stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Code {
    /// What was asked for.
    pub name: String,
    /// Where it begins, in ascending order; at least one.
    pub spots: Vec<Spot>,
    /// What is otherwise than was asked for: another line, since that one has no code.
    pub note: Option<String>,
}

/// A place in the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spot {
    /// Address of the instruction at which it begins.
    pub address: Addr,
    /// The code before which one stops: of a function, where its arguments are where its debug information says. Code that was not
    /// optimized puts them there first.
    pub stop: Addr,
    /// Instructions from the one to the other.
    pub ahead: u64,
    /// What is there: function and line.
    pub what: String,
    /// A function that has no frame of its own there.
    pub is_inlined: bool,
}

impl Code {
    /// The code that a name stands for in the files that a process has mapped.
    ///
    /// # Errors
    /// There is none. The error says what is near.
    pub fn find(name: &Name, symbols: &mut Symbolizer) -> Result<Self> {
        let mut note = None;
        let spots = match name {
            Name::Address(address) => vec![Spot::at(*address, symbols)],
            Name::Line { file, line } => {
                let (found, addresses) = line_addresses(symbols, file, *line)?;
                if found != *line {
                    note = Some(format!("{name} has no code: this is {file}:{found}, the next line that has"));
                }
                addresses.into_iter().map(|address| Spot::at(address, symbols).with_arguments(symbols)).collect()
            }
            Name::Function { file, name: function, offset } => {
                let mut spots = entries(symbols, function);
                if let Some(file) = file {
                    spots.retain(|spot| is_in(symbols, spot.address, file));
                }
                if spots.is_empty() {
                    return Err(no_function(symbols, function, file.as_deref()));
                }
                if let Some(offset) = offset {
                    let moved = |spot: &Spot| Addr(spot.address.0.wrapping_add(*offset));
                    spots = spots
                        .iter()
                        .filter(|spot| !spot.is_inlined)
                        .map(moved)
                        .collect::<BTreeSet<_>>()
                        .into_iter()
                        .map(|address| Spot::at(address, symbols))
                        .collect();
                }
                spots
            }
        };
        if spots.is_empty() || 2 * spots.len() > MAX_CONDITIONS {
            return Err(ReplayError::OutOfRange(format!("{name} is at {} places, which are too many", spots.len())));
        }
        Ok(Self { name: name.to_string(), spots, note })
    }

    /// The addresses at which it begins.
    #[must_use]
    pub fn addresses(&self) -> Vec<u64> {
        self.spots.iter().map(|spot| spot.address.0).collect()
    }

    /// The place at which it begins with this instruction.
    #[must_use]
    pub fn spot(&self, address: Addr) -> Option<&Spot> {
        self.spots.iter().find(|spot| spot.address == address)
    }
}

impl Spot {
    fn at(address: Addr, symbols: &mut Symbolizer) -> Self {
        let what = symbols.lookup(address).brief().unwrap_or_else(|| "no known file".into());
        Self { address, stop: address, ahead: 0, what, is_inlined: false }
    }

    /// If a function begins there: stops where its arguments are.
    fn with_arguments(mut self, symbols: &mut Symbolizer) -> Self {
        if let Some((image, own)) = symbols.file_at(self.address) {
            let ready = image.arguments_ready(own);
            if let Some(ahead) = instructions(&image, own, ready) {
                (self.stop, self.ahead) = (Addr(self.address.0.wrapping_add(ready - own)), ahead);
            }
        }
        self
    }
}

/// Where functions of a name begin.
fn entries(symbols: &mut Symbolizer, name: &str) -> Vec<Spot> {
    let mut found: Vec<Spot> = Vec::new();
    for (image, bias) in symbols.images() {
        for entry in image.entries_of(name) {
            let spot = Spot::at(Addr(entry.address.wrapping_add(bias)), symbols);
            found.push(if entry.is_inlined { Spot { is_inlined: true, ..spot } } else { spot.with_arguments(symbols) });
        }
    }
    found.sort_by_key(|spot| spot.address);
    found.dedup_by_key(|spot| spot.address);
    found
}

/// How many instructions lie between two addresses, if they are executed one behind the other.
fn instructions(image: &Image, from: u64, to: u64) -> Option<u64> {
    let len = to.checked_sub(from).filter(|len| *len <= LONGEST_PROLOGUE)?;
    let bytes = image.read_only(from, len as usize).filter(|bytes| bytes.len() as u64 == len)?;
    let mut decoder = Decoder::with_ip(64, &bytes, from, DecoderOptions::NONE);
    let mut count = 0;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.is_invalid() || instruction.flow_control() != FlowControl::Next {
            return None;
        }
        count += 1;
    }
    Some(count)
}

/// Whether code is of a file.
fn is_in(symbols: &mut Symbolizer, address: Addr, file: &str) -> bool {
    let place = symbols.lookup(address);
    place.source.iter().any(|source| source.file.as_deref().is_some_and(|path| ends_with(path, file)))
}

/// The line that has code, from this one on, and its addresses.
fn line_addresses(symbols: &mut Symbolizer, file: &str, line: u64) -> Result<(u64, Vec<Addr>)> {
    let images = symbols.images();
    let found: Vec<_> = images
        .iter()
        .filter_map(|(image, bias)| image.line_with_code(file, line).map(|(line, addresses)| (line, addresses, bias)))
        .collect();
    if let Some(first) = found.iter().map(|(line, ..)| *line).min() {
        let here = found.into_iter().filter(|(line, ..)| *line == first);
        let all = here.flat_map(|(_, addresses, bias)| addresses.into_iter().map(|at| Addr(at.wrapping_add(*bias))));
        return Ok((first, all.collect::<BTreeSet<_>>().into_iter().collect()));
    }
    let names: BTreeSet<String> = images.iter().flat_map(|(image, _)| image.file_names()).collect();
    if names.iter().any(|path| ends_with(path, file)) {
        return Err(ReplayError::OutOfRange(format!("{file} has no code in line {line}, nor in any line behind it")));
    }
    let why = if names.is_empty() {
        "the log and this machine have no debug information of the program, which says what lines there are: compile it with -g"
            .to_owned()
    } else {
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let wanted = last(file);
        proposals(&wanted, names.iter().map(|path| last(path)), "no debug information speaks of such a source file")
    };
    Err(ReplayError::OutOfRange(format!("there is no code of {file}: {why}")))
}

fn no_function(symbols: &mut Symbolizer, name: &str, file: Option<&str>) -> ReplayError {
    let of = file.map_or(String::new(), |file| format!(" in {file}"));
    let names: BTreeSet<String> = symbols.images().iter().flat_map(|(image, _)| image.function_names()).collect();
    let why = proposals(name, names.into_iter(), "nothing that the process has mapped has a name like it");
    ReplayError::OutOfRange(format!("there is no function {name}{of}: {why}"))
}

/// Which names somebody may have meant.
fn proposals(wanted: &str, names: impl Iterator<Item = String>, none: &str) -> String {
    let plain = |name: &str| name.rsplit("::").next().unwrap_or_default().to_lowercase();
    let (lower, short) = (wanted.to_lowercase(), plain(wanted));
    let mut near: Vec<(f64, String)> = names
        .filter_map(|name| {
            let own = plain(&name);
            let contains = short.len() > 2 && own.contains(&short);
            let alike = strsim::jaro_winkler(&own, &short).max(strsim::jaro_winkler(&name.to_lowercase(), &lower));
            (contains || alike >= ALIKE).then_some((if contains { alike.max(ALIKE) } else { alike }, name))
        })
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    near.dedup_by(|a, b| a.1 == b.1);
    near.truncate(PROPOSED);
    if near.is_empty() {
        return none.to_owned();
    }
    let names: Vec<String> = near.into_iter().map(|(_, name)| name).collect();
    format!("did you mean {}?", names.join(", or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_proposed() {
        let names = || ["list_add", "list::sum", "main", "unrelated"].map(String::from).into_iter();
        assert_eq!(proposals("list_ad", names(), "none"), "did you mean list_add?");
        assert_eq!(proposals("sum", names(), "none"), "did you mean list::sum?");
        assert_eq!(proposals("zzzzzz", names(), "none"), "none");
    }
}
