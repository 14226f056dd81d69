//! Which function a file's code means when it calls one of another file: glibc has one piece of code for `memcpy` and `memmove`, and tells
//! nobody where its string functions are; but what calls them has a stub of its own, whose relocation has the name.

use bugnet_format::folder::Module;
use bugnet_format::types::Addr;
use bugnet_replay::log::Log;
use bugnet_replay::symbols::main_file;
use iced_x86::{Code, Decoder, DecoderOptions, Mnemonic};
use object::{
    Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, RelocationFlags, RelocationTarget,
};
use std::collections::HashMap;

/// A stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stub {
    /// Its first instruction.
    pub address: u64,
    /// Where it finds the function's address.
    pub slot: u64,
    /// Which of the names.
    pub name: usize,
}

/// The stubs of a file for functions with these names.
#[must_use]
pub fn stubs(log: &Log, module: &Module, names: &[&str]) -> Vec<Stub> {
    main_file(log.source(), module).and_then(|file| find(&file, module.base, names)).unwrap_or_default()
}

/// Where a file finds the addresses of functions with these names, or of functions that it chooses itself by the processor, with indices of
/// the names.
#[must_use]
pub fn slots(log: &Log, module: &Module, names: &[&str]) -> Vec<(u64, usize)> {
    main_file(log.source(), module).and_then(|file| find_slots(&file, module.base, names)).unwrap_or_default()
}

fn find_slots(file: &[u8], base: u64, names: &[&str]) -> Option<Vec<(u64, usize)>> {
    let file = object::File::parse(file).ok()?;
    let start = file.segments().map(|segment| segment.address()).min()? & !(Addr::PAGE - 1);
    let symbols = file.dynamic_symbol_table()?;
    let named = |name: &str| names.iter().position(|known| *known == name);
    // Whoever chooses a function has the function's name.
    let choosers: HashMap<u64, usize> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.address() != 0)
        .filter_map(|symbol| Some((symbol.address(), named(symbol.name().ok()?)?)))
        .collect();
    let name_of = |relocation: &object::Relocation| match relocation.target() {
        RelocationTarget::Symbol(index) => {
            let symbol = object::ObjectSymbolTable::symbol_by_index(&symbols, index).ok()?;
            named(symbol.name().ok()?)
        }
        _ => {
            let is_chosen = relocation.flags() == RelocationFlags::Elf { r_type: object::elf::R_X86_64_IRELATIVE };
            choosers.get(&relocation.addend().cast_unsigned()).copied().filter(|_| is_chosen)
        }
    };
    let moved = base.wrapping_sub(start);
    let slots = file.dynamic_relocations()?.filter_map(|(slot, relocation)| Some((slot, name_of(&relocation)?)));
    Some(slots.map(|(slot, name)| (slot.wrapping_add(moved), name)).collect())
}

fn find(file: &[u8], base: u64, names: &[&str]) -> Option<Vec<Stub>> {
    let file = object::File::parse(file).ok()?;
    let start = file.segments().map(|segment| segment.address()).min()? & !(Addr::PAGE - 1);
    let symbols = file.dynamic_symbol_table()?;
    let mut slots: HashMap<u64, usize> = HashMap::new();
    for (slot, relocation) in file.dynamic_relocations()? {
        let RelocationTarget::Symbol(index) = relocation.target() else { continue };
        let Some(name) =
            object::ObjectSymbolTable::symbol_by_index(&symbols, index).ok().and_then(|symbol| symbol.name().ok())
        else {
            continue;
        };
        if let Some(name) = names.iter().position(|known| *known == name) {
            slots.insert(slot, name);
        }
    }
    let moved = base.wrapping_sub(start);
    let mut found = Vec::new();
    for section in file.sections().filter(|section| section.name().is_ok_and(|name| name.starts_with(".plt"))) {
        let Ok(code) = section.data() else { continue };
        let mut marked = None;
        for instruction in Decoder::with_ip(64, code, section.address(), DecoderOptions::NONE) {
            let address = marked.take().unwrap_or(instruction.ip());
            if instruction.mnemonic() == Mnemonic::Endbr64 {
                marked = Some(instruction.ip());
            }
            let is_jump = instruction.code() == Code::Jmp_rm64 && instruction.is_ip_rel_memory_operand();
            if let Some(name) = slots.get(&instruction.ip_rel_memory_address()).filter(|_| is_jump) {
                let slot = instruction.ip_rel_memory_address().wrapping_add(moved);
                found.push(Stub { address: address.wrapping_add(moved), slot, name: *name });
            }
        }
    }
    Some(found)
}
