//! Which code is the program's own, and which code of one log is the same as that of another: the same place in the same mapped file,
//! whatever address that has, and for code that was made while the program ran, the same instructions.

use super::builds::Twin;
use bugnet_events::code::Block;
use bugnet_format::folder::Module;
use bugnet_format::types::{Addr, ProcessId};
use bugnet_replay::crash::is_system;
use bugnet_replay::log::Log;
use bugnet_replay::mappings::Mappings;
use bugnet_replay::symbols::main_file;
use bugnet_replay::{ReplayError, Result};
use iced_x86::{Instruction, OpKind};
use object::{Object as _, ObjectSection as _, ObjectSegment as _};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// Code, whichever log it is in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// In a mapped file, so many bytes behind its start.
    Mapped(Arc<str>, u64),
    /// Of no file: a hash of the instructions, without addresses that they hold.
    Made(u64),
}

impl Code {
    /// Something that is larger for what lies behind, in the same file.
    #[must_use]
    pub fn order(&self) -> u64 {
        match self {
            Self::Mapped(_, offset) => *offset,
            Self::Made(_) => 0,
        }
    }
}

/// A mapped file.
struct Object {
    module: Module,
    /// The same in all logs: the build id, or the path where it has none.
    name: Arc<str>,
    is_own: bool,
    /// The other run's build of it, if that is another one.
    twin: Option<Twin>,
    /// From its start on.
    stubs: Vec<Range<u64>>,
}

/// What is mapped into a process: which addresses are code of which file, or are code that was made.
pub struct Objects {
    files: Vec<Object>,
    mappings: Mappings,
}

impl Objects {
    /// Of a process that runs `program`; `mappings` are those at its end. Files of the names in `also` count as its own.
    ///
    /// # Errors
    /// The list of its files cannot be read.
    pub fn of(log: &Log, pid: ProcessId, program: &str, also: &[String], mappings: Mappings) -> Result<Self> {
        let is_meant = |path: &str| also.iter().any(|name| path == name || path.rsplit('/').next() == Some(name));
        let object = |module: Module| {
            let name = if module.build_id.is_empty() { &module.path } else { &module.build_id };
            let is_own = module.path == program || !is_system(&module.path) || is_meant(&module.path);
            let stubs =
                is_own.then(|| main_file(log.source(), &module)).flatten().map_or_else(Vec::new, |file| stubs(&file));
            Object { name: name.as_str().into(), is_own, twin: None, stubs, module }
        };
        Ok(Self { files: log.modules(pid)?.into_iter().map(object).collect(), mappings })
    }

    /// The file `program` is another build here than in another run: what both have counts as the other one's.
    ///
    /// # Errors
    /// One of the files cannot be had.
    pub fn is_build_of(&mut self, log: &Log, program: &str, other: (&Self, &Log, &str)) -> Result<()> {
        let missing = |path: &str| {
            ReplayError::OutOfRange(format!(
                "there is no copy of {path}: two builds cannot be compared without their files"
            ))
        };
        let (objects, other_log, path) = other;
        let find = |objects: &Self, path: &str| objects.files.iter().position(|object| object.module.path == path);
        let theirs = &objects.files[find(objects, path).ok_or_else(|| missing(path))?];
        let own = find(self, program).ok_or_else(|| missing(program))?;
        let file = main_file(log.source(), &self.files[own].module).ok_or_else(|| missing(program))?;
        let their_file = main_file(other_log.source(), &theirs.module).ok_or_else(|| missing(path))?;
        self.files[own].twin = Some(Twin::of(&file, &their_file, theirs.name.clone()).ok_or_else(|| missing(program))?);
        Ok(())
    }

    fn at(&self, addr: u64) -> Option<&Object> {
        let holds = |object: &&Object| addr.wrapping_sub(object.module.base) < object.module.size;
        // Of two at the same place, the later one took the other's.
        self.files.iter().rev().find(holds)
    }

    /// Whether the program's own code lies here: its file, what does not belong to the system, and what was made while it ran. The
    /// kernel's own code (vDSO), which no call has mapped, is none of it, and neither are stubs.
    #[must_use]
    pub fn is_own(&self, addr: u64) -> bool {
        let was_mapped = || self.mappings.is_cut || self.mappings.at(addr).is_some();
        self.at(addr).map_or_else(was_mapped, |object| object.is_own) && !self.is_stub(addr)
    }

    /// Where code lies in this process; `None` where it is of no file.
    #[must_use]
    pub fn address(&self, code: &Code) -> Option<u64> {
        let Code::Mapped(name, offset) = code else { return None };
        let translated = self.files.iter().rev().find_map(|object| {
            let twin = object.twin.as_ref().filter(|twin| twin.name == *name)?;
            Some(twin.back(*offset).map(|offset| object.module.base + offset))
        });
        if let Some(found) = translated {
            return found;
        }
        let object = self.files.iter().rfind(|object| object.name == *name)?;
        Some(object.module.base + offset)
    }

    /// Whether here is nothing but what leads to functions of other files, which the loader may have looked for already or not: a procedure
    /// linkage table.
    #[must_use]
    pub fn is_stub(&self, addr: u64) -> bool {
        let is_there = |object: &Object| object.stubs.iter().any(|stubs| stubs.contains(&(addr - object.module.base)));
        self.at(addr).is_some_and(is_there)
    }

    /// What was mapped at the end.
    #[must_use]
    pub fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    /// What lies here, whichever log it is in; none where no file is mapped.
    #[must_use]
    pub fn place(&self, addr: u64) -> Option<(Arc<str>, u64)> {
        self.at(addr).map(|object| {
            let offset = addr - object.module.base;
            let there = object.twin.as_ref().and_then(|twin| Some((twin.name.clone(), twin.there(offset)?)));
            there.unwrap_or_else(|| (object.name.clone(), offset))
        })
    }

    /// A block's instruction with this index as code.
    #[must_use]
    pub fn code(&self, block: &Block, instruction: usize) -> Code {
        match self.place(block.instructions[instruction].instruction.ip()) {
            Some((name, offset)) => Code::Mapped(name, offset),
            None => Code::Made(hash(block.instructions[instruction..].iter().map(|decoded| &decoded.instruction))),
        }
    }
}

/// Where a file has its procedure linkage tables, from its start as it is mapped; none where its sections are not known.
pub fn stubs(file: &[u8]) -> Vec<Range<u64>> {
    let Ok(file) = object::File::parse(file) else { return Vec::new() };
    let Some(start) = file.segments().map(|segment| segment.address()).min() else { return Vec::new() };
    let is_table = |name: &str| name == ".plt" || name.starts_with(".plt.");
    let tables = file.sections().filter(|section| section.name().is_ok_and(is_table));
    let start = start & !(Addr::PAGE - 1);
    tables
        .map(|table| table.address().saturating_sub(start)..(table.address() + table.size()).saturating_sub(start))
        .collect()
}

/// Instructions, without what differs where they lie elsewhere.
pub(super) fn hash<'a>(instructions: impl Iterator<Item = &'a Instruction>) -> u64 {
    let mut hasher = Xxh3::new();
    for instruction in instructions {
        instruction.code().hash(&mut hasher);
        for number in 0..instruction.op_count() {
            match instruction.op_kind(number) {
                OpKind::Register => instruction.op_register(number).hash(&mut hasher),
                OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 | OpKind::Immediate64 => {}
                OpKind::Memory => {
                    let (base, index) = (instruction.memory_base(), instruction.memory_index());
                    (base, index, instruction.memory_index_scale()).hash(&mut hasher);
                    // From an address that is in the code, or relative to it, nothing follows.
                    let is_small = instruction.memory_displacement64().wrapping_add(1 << 20) < 1 << 21;
                    if !instruction.is_ip_rel_memory_operand() && is_small {
                        instruction.memory_displacement64().hash(&mut hasher);
                    }
                }
                _ => instruction.immediate(number).hash(&mut hasher),
            }
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn hashed(code: &[u8], at: u64) -> u64 {
        let instructions: Vec<_> = Decoder::with_ip(64, code, at, DecoderOptions::NONE).into_iter().collect();
        hash(instructions.iter())
    }

    #[test]
    fn addresses_in_code_do_not_count() {
        // mov rax, imm64; jmp
        let code = |address: u8, distance: u8| [0x48, 0xb8, address, 1, 2, 3, 4, 5, 6, 7, 0xeb, distance];
        assert_eq!(hashed(&code(1, 2), 0x1000), hashed(&code(9, 3), 0x7000));
        // add eax, 1; add eax, 2; add ecx, 1
        assert_ne!(hashed(&[0x83, 0xc0, 1], 0), hashed(&[0x83, 0xc0, 2], 0));
        assert_ne!(hashed(&[0x83, 0xc0, 1], 0), hashed(&[0x83, 0xc1, 1], 0));
        // mov eax, [rdi+4]; mov eax, [rdi+8]
        assert_ne!(hashed(&[0x8b, 0x47, 4], 0), hashed(&[0x8b, 0x47, 8], 0));
    }
}
