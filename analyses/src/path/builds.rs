//! Two builds of a program, side by side: which code and which data of the one is the same in the other.
//!
//! Functions are found by their names, and their instructions compared one by one, without the addresses in them: what the compiler made of the
//! same source is mostly the same. Other sections correspond where they are equally long.

use super::objects::hash;
use iced_x86::{Decoder, DecoderOptions};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// How another build of a file has what this one has. Offsets count from where the file is mapped.
pub struct Twin {
    /// The other build's name.
    pub name: Arc<str>,
    /// Instructions, by their offsets: the other build's.
    there: HashMap<u64, u64>,
    /// The other way.
    back: HashMap<u64, u64>,
    /// Sections that are as long in the other build, with where they begin there.
    data: Vec<(Range<u64>, u64)>,
}

/// A function's instructions: their offsets, and what they are.
type Function = Vec<(u64, u64)>;

/// The functions of a file by name; of several with one name, in the order in which they lie.
fn functions(file: &object::File<'_>, start: u64) -> BTreeMap<(String, usize), Function> {
    let mut symbols: Vec<_> = file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
        .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned())))
        .collect();
    symbols.sort();
    // Of those that do not say how long they are, what is up to the next one.
    let starts: Vec<u64> = symbols.iter().map(|(address, ..)| *address).collect();
    for (address, size, _) in symbols.iter_mut().filter(|(_, size, _)| *size == 0) {
        let Some(section) = section_at(file, *address) else { continue };
        let next = starts.get(starts.partition_point(|start| start <= address)).copied().unwrap_or(u64::MAX);
        *size = next.min(section.address() + section.size()) - *address;
    }
    let (mut all, mut times) = (BTreeMap::new(), HashMap::<String, usize>::new());
    for (address, size, name) in symbols {
        let data = section_at(file, address).and_then(|section| section.data_range(address, size).ok().flatten());
        let Some(code) = data else { continue };
        let instructions = Decoder::with_ip(64, code, address, DecoderOptions::NONE).into_iter();
        let instructions = instructions.map(|one| (one.ip().saturating_sub(start), hash(std::iter::once(&one))));
        let nth = times.entry(name.clone()).or_default();
        all.insert((name, *nth), instructions.collect());
        *nth += 1;
    }
    all
}

fn section_at<'a>(file: &'a object::File<'a>, address: u64) -> Option<object::Section<'a, 'a>> {
    file.sections().find(|section| address.wrapping_sub(section.address()) < section.size())
}

/// Sections other than of functions, by name: their offsets, and how long they are.
fn sections(file: &object::File<'_>, start: u64) -> HashMap<String, (u64, u64)> {
    let is_meant =
        |section: &object::Section<'_, '_>| section.address() >= start.max(1) && section.name() != Ok(".text");
    let data = file.sections().filter(is_meant);
    data.filter_map(|section| Some((section.name().ok()?.to_owned(), (section.address() - start, section.size()))))
        .collect()
}

fn start(file: &object::File<'_>) -> u64 {
    file.segments().map(|segment| segment.address()).min().unwrap_or(0) & !0xfff
}

impl Twin {
    /// Of a file, and of the other build with this name; none where one of them is no file of this kind.
    #[must_use]
    pub fn of(own: &[u8], other: &[u8], name: Arc<str>) -> Option<Self> {
        let (own, other) = (object::File::parse(own).ok()?, object::File::parse(other).ok()?);
        let starts = [start(&own), start(&other)];
        let (mut there, mut back) = (HashMap::new(), HashMap::new());
        let others = functions(&other, starts[1]);
        for (name, function) in functions(&own, starts[0]) {
            let Some(counterpart) = others.get(&name) else { continue };
            let [old, new] = [&function, counterpart].map(|all| all.iter().map(|(_, hash)| *hash).collect::<Vec<_>>());
            for operation in capture_diff_slices(Algorithm::Myers, &old, &new) {
                let DiffOp::Equal { old_index, new_index, len } = operation else { continue };
                for nth in 0..len {
                    let (from, to) = (function[old_index + nth].0, counterpart[new_index + nth].0);
                    there.insert(from, to);
                    back.insert(to, from);
                }
            }
        }
        let theirs = sections(&other, starts[1]);
        let same = sections(&own, starts[0]).into_iter().filter_map(|(name, (from, size))| {
            let (to, _) = theirs.get(&name).filter(|(_, len)| *len == size)?;
            Some((from..from + size, *to))
        });
        Some(Self { name, there, back, data: same.collect() })
    }

    /// Where the other build has what is here, if it has.
    #[must_use]
    pub fn there(&self, offset: u64) -> Option<u64> {
        let in_data = || {
            self.data.iter().find(|(range, _)| range.contains(&offset)).map(|(range, to)| to + (offset - range.start))
        };
        self.there.get(&offset).copied().or_else(in_data)
    }

    /// Where this one has an instruction of the other build.
    #[must_use]
    pub fn back(&self, offset: u64) -> Option<u64> {
        self.back.get(&offset).copied()
    }
}
