//! Where a variable is: DWARF location expressions and lists (`.debug_loc`, `.debug_loclists`).

use crate::frame::Stack;
use crate::memory::Memory;
use crate::node::Node;
use crate::registers::Home;
use crate::section::Reader;
use crate::store::{Die, Store};
use gimli::{
    AttributeValue, DieReference, EvaluationResult, Expression, Location, Piece, Unit, UnitOffset, Value as Word,
    ValueType,
};
use std::rc::Rc;

/// Most operations of one expression; what a log brings must not loop for ever.
const MAX_OPERATIONS: u32 = 10_000;
/// How often an expression may ask for another one's value before that is answered.
const MAX_NESTING: usize = 12;
/// Most bytes of a variable that is put together of pieces.
const MAX_PIECES: u64 = 1 << 16;

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// The compiler keeps it nowhere at this place.
    OptimizedOut,
    /// It is in memory, or depends on it, and that is not known.
    Unavailable,
    /// It is in memory of the thread whose address is not known.
    ThreadLocal,
    /// The debug information says it in a way that is not understood.
    Unsupported,
    /// It is a pointer that the compiler does not keep, to a variable or a part of it (`DW_OP_implicit_pointer`).
    Synthetic,
}

/// A byte of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Byte {
    /// Its value, or why there is none.
    pub value: Result<u8, Missing>,
    /// Where it is; none for what is computed, constant or nowhere.
    pub home: Option<Home>,
}

impl Byte {
    /// One that is nowhere.
    pub fn computed(value: u8) -> Self {
        Self { value: Ok(value), home: None }
    }

    fn missing(why: Missing) -> Self {
        Self { value: Err(why), home: None }
    }
}

/// What a value is made of.
#[derive(Clone, Debug)]
pub(crate) enum Contents {
    /// It is in memory, from this address on.
    Memory(u64),
    /// It is in registers, or computed, or in pieces.
    Bytes(Rc<[Byte]>),
    /// There is none.
    Missing(Missing),
}

/// Whose expression is evaluated, and where.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub store: &'a Store,
    pub stack: &'a Stack<'a>,
    /// Which frame; none for what is the same everywhere, as for global variables.
    pub frame: Option<usize>,
    /// How far above the file's own addresses it lies in the process.
    pub bias: u64,
    pub nesting: usize,
}

impl<'a> Place<'a> {
    fn deeper(self) -> Result<Self, Missing> {
        if self.nesting == MAX_NESTING {
            return Err(Missing::Unsupported);
        }
        Ok(Self { nesting: self.nesting + 1, ..self })
    }

    /// What a variable's or parameter's attributes say of its value here.
    pub fn contents(self, node: &Node, size: u64, memory: &mut dyn Memory) -> Contents {
        if let Some((value, owner)) = self.store.inherited(node, gimli::DW_AT_const_value) {
            return constant(&owner, value, size);
        }
        let Some((value, owner)) = self.store.inherited(node, gimli::DW_AT_location) else {
            return Contents::Missing(Missing::OptimizedOut);
        };
        let found = self.expression(&owner, value).and_then(|expression| match expression {
            Some(expression) => self.evaluate(&owner, expression, None, memory),
            None => Err(Missing::OptimizedOut),
        });
        match found {
            Ok(pieces) => self.joined(&pieces, size, memory),
            Err(missing) => Contents::Missing(missing),
        }
    }

    /// The expression in force here, of an attribute that has one or a list of them. None: nowhere.
    pub fn expression(
        self,
        owner: &Node,
        value: AttributeValue<Reader>,
    ) -> Result<Option<Expression<Reader>>, Missing> {
        if let AttributeValue::Exprloc(expression) = value {
            return Ok(Some(expression).filter(|expression| !gimli::Reader::is_empty(&expression.0)));
        }
        // DWARF 2 and 3 write expressions as blocks.
        if let AttributeValue::Block(block) = value {
            return Ok(Some(Expression(block)).filter(|expression| !gimli::Reader::is_empty(&expression.0)));
        }
        let list = owner.dwarf.attr_locations(&owner.unit, value).map_err(|_| Missing::Unsupported)?;
        let mut list = list.ok_or(Missing::Unsupported)?;
        let frame = self.frame.and_then(|frame| self.stack.frames.get(frame)).ok_or(Missing::OptimizedOut)?;
        while let Some(entry) = list.next().map_err(|_| Missing::Unsupported)? {
            if (entry.range.begin..entry.range.end).contains(&frame.address) {
                return Ok(Some(entry.data).filter(|expression| !gimli::Reader::is_empty(&expression.0)));
            }
        }
        Ok(None)
    }

    /// Evaluates an expression of `owner`'s unit; `initial` is on the stack at its start.
    pub fn evaluate(
        self,
        owner: &Node,
        expression: Expression<Reader>,
        initial: Option<u64>,
        memory: &mut dyn Memory,
    ) -> Result<Vec<Piece<Reader>>, Missing> {
        let place = self.deeper()?;
        let mut evaluation = expression.evaluation(owner.unit.encoding());
        evaluation.set_max_iterations(MAX_OPERATIONS);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut state = evaluation.evaluate();
        loop {
            state = match state.map_err(|_| Missing::Unsupported)? {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, base_type } => {
                    let (bytes, _) = place.register(usize::from(register.0))?;
                    let word = word(&owner.unit, base_type, &bytes)?;
                    evaluation.resume_with_register(word)
                }
                EvaluationResult::RequiresMemory { address, size, space: None, base_type } => {
                    let bytes = memory.known(address, usize::from(size)).ok_or(Missing::Unavailable)?;
                    evaluation.resume_with_memory(word(&owner.unit, base_type, &bytes)?)
                }
                EvaluationResult::RequiresFrameBase => evaluation.resume_with_frame_base(place.frame_base(memory)?),
                EvaluationResult::RequiresCallFrameCfa => {
                    let frame = place.own_frame()?;
                    evaluation.resume_with_call_frame_cfa(frame.cfa.ok_or(Missing::Unavailable)?)
                }
                EvaluationResult::RequiresTls(offset) => {
                    let at = place.stack.thread_local(place.store, offset).ok_or(Missing::ThreadLocal)?;
                    evaluation.resume_with_tls(at)
                }
                EvaluationResult::RequiresRelocatedAddress(address) => {
                    evaluation.resume_with_relocated_address(address.wrapping_add(place.bias))
                }
                EvaluationResult::RequiresIndexedAddress { index, relocate } => {
                    let address = owner.dwarf.address(&owner.unit, index).map_err(|_| Missing::Unsupported)?;
                    let bias = if relocate { place.bias } else { 0 };
                    evaluation.resume_with_indexed_address(address.wrapping_add(bias))
                }
                EvaluationResult::RequiresBaseType(offset) => {
                    evaluation.resume_with_base_type(value_type(&owner.unit, offset)?)
                }
                EvaluationResult::RequiresEntryValue(inner) => {
                    evaluation.resume_with_entry_value(Word::Generic(place.entry_value(&inner, memory)?))
                }
                EvaluationResult::RequiresParameterRef(offset) => {
                    let die = Die { offset: offset.0, ..owner.die };
                    evaluation.resume_with_parameter_ref(place.parameter_at_entry(die, memory)?)
                }
                EvaluationResult::RequiresAtLocation(reference) => {
                    let called = place.called(owner, reference)?;
                    evaluation.resume_with_at_location(called)
                }
                _ => return Err(Missing::Unsupported),
            };
        }
        Ok(evaluation.result())
    }

    pub fn own_frame(self) -> Result<&'a crate::frame::Frame, Missing> {
        self.frame.and_then(|frame| self.stack.frames.get(frame)).ok_or(Missing::Unsupported)
    }

    fn register(self, number: usize) -> Result<(Vec<u8>, Option<Home>), Missing> {
        self.own_frame()?.registers.bytes(number).ok_or(Missing::OptimizedOut)
    }

    /// The procedure that `DW_OP_call2` and its like name.
    fn called(self, owner: &Node, reference: DieReference<usize>) -> Result<Reader, Missing> {
        let die = match reference {
            DieReference::UnitRef(offset) => Some(Die { offset: offset.0, ..owner.die }),
            DieReference::DebugInfoRef(offset) => self.store.resolve(owner.die, AttributeValue::DebugInfoRef(offset)),
        };
        let node = die.and_then(|die| self.store.node(die)).ok_or(Missing::Unsupported)?;
        let location = node.entry.attr_value(gimli::DW_AT_location).ok_or(Missing::OptimizedOut)?;
        Ok(self.expression(&node, location)?.ok_or(Missing::OptimizedOut)?.0)
    }

    /// The value of an expression that gives a value or an address, as one word.
    pub fn word(self, owner: &Node, expression: Expression<Reader>, memory: &mut dyn Memory) -> Result<u64, Missing> {
        let pieces = self.evaluate(owner, expression, None, memory)?;
        let [piece] = &pieces[..] else { return Err(Missing::Unsupported) };
        match piece.location {
            Location::Address { address } => Ok(address),
            Location::Value { value } => value.to_u64(u64::MAX).map_err(|_| Missing::Unsupported),
            Location::Register { register } => {
                self.own_frame()?.registers.get(usize::from(register.0)).ok_or(Missing::OptimizedOut)
            }
            Location::Empty => Err(Missing::OptimizedOut),
            _ => Err(Missing::Unsupported),
        }
    }

    /// The bytes that pieces say; memory stays where it is if there is one piece.
    fn joined(self, pieces: &[Piece<Reader>], size: u64, memory: &mut dyn Memory) -> Contents {
        if let [only] = pieces
            && only.size_in_bits.is_none()
        {
            return match &only.location {
                Location::Address { address } => Contents::Memory(*address),
                Location::Empty => Contents::Missing(Missing::OptimizedOut),
                Location::ImplicitPointer { .. } => Contents::Missing(Missing::Synthetic),
                _ => Contents::Bytes(self.piece(only, size, memory).into()),
            };
        }
        let mut bytes = Vec::new();
        for piece in pieces {
            let bits = piece.size_in_bits.unwrap_or(0);
            if bits % 8 != 0 || piece.bit_offset.is_some_and(|offset| offset % 8 != 0) {
                return Contents::Missing(Missing::Unsupported);
            }
            if bytes.len() as u64 + bits / 8 > MAX_PIECES {
                return Contents::Missing(Missing::Unsupported);
            }
            bytes.extend(self.piece(piece, bits / 8, memory));
        }
        Contents::Bytes(bytes.into())
    }

    fn piece(self, piece: &Piece<Reader>, size: u64, memory: &mut dyn Memory) -> Vec<Byte> {
        let len = size.min(MAX_PIECES) as usize;
        let skip = (piece.bit_offset.unwrap_or(0) / 8) as usize;
        let missing = |why| vec![Byte::missing(why); len];
        let known = |bytes: &[u8], home: Option<Home>| {
            let byte = |(at, byte): (usize, &u8)| Byte { value: Ok(*byte), home: home.map(|home| home.plus(at)) };
            let bytes = bytes.iter().enumerate().skip(skip).map(byte);
            bytes.chain(std::iter::repeat(Byte::missing(Missing::OptimizedOut))).take(len).collect()
        };
        match &piece.location {
            Location::Empty => missing(Missing::OptimizedOut),
            Location::ImplicitPointer { .. } => missing(Missing::Synthetic),
            Location::Address { address } => {
                let first = Home::Memory(address.wrapping_add(skip as u64));
                let mut bytes = memory.read(address.wrapping_add(skip as u64), len);
                bytes.resize(len, None);
                let byte = |(at, byte): (usize, Option<u8>)| Byte {
                    value: byte.ok_or(Missing::Unavailable),
                    home: Some(first.plus(at)),
                };
                bytes.into_iter().enumerate().map(byte).collect()
            }
            Location::Register { register } => match self.register(usize::from(register.0)) {
                Ok((bytes, home)) => known(&bytes, home),
                Err(why) => missing(why),
            },
            Location::Value { value } => known(&word_bytes(*value), None),
            Location::Bytes { value } => match gimli::Reader::to_slice(value) {
                Ok(bytes) => known(&bytes, None),
                Err(_) => missing(Missing::Unsupported),
            },
        }
    }
}

/// The bytes of a word of an expression's stack; a generic one can stand for any integer, so it goes on with its sign.
fn word_bytes(word: Word) -> Vec<u8> {
    match word {
        Word::Generic(value) => i128::from(value.cast_signed()).to_le_bytes().to_vec(),
        Word::I8(value) => value.to_le_bytes().to_vec(),
        Word::U8(value) => value.to_le_bytes().to_vec(),
        Word::I16(value) => value.to_le_bytes().to_vec(),
        Word::U16(value) => value.to_le_bytes().to_vec(),
        Word::I32(value) => value.to_le_bytes().to_vec(),
        Word::U32(value) => value.to_le_bytes().to_vec(),
        Word::I64(value) => i128::from(value).to_le_bytes().to_vec(),
        Word::U64(value) => u128::from(value).to_le_bytes().to_vec(),
        Word::F32(value) => value.to_le_bytes().to_vec(),
        Word::F64(value) => value.to_le_bytes().to_vec(),
    }
}

/// The type of a typed word (`DW_OP_regval_type` and its like); 0 stands for the generic one.
fn value_type(unit: &Unit<Reader>, offset: UnitOffset<usize>) -> Result<ValueType, Missing> {
    if offset.0 == 0 {
        return Ok(ValueType::Generic);
    }
    let entry = unit.entry(offset).map_err(|_| Missing::Unsupported)?;
    ValueType::from_entry(&entry).ok().flatten().ok_or(Missing::Unsupported)
}

fn word(unit: &Unit<Reader>, base_type: UnitOffset<usize>, bytes: &[u8]) -> Result<Word, Missing> {
    let value_type = value_type(unit, base_type)?;
    let low = bytes.iter().take(8).rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
    Ok(match value_type {
        ValueType::F32 => Word::F32(f32::from_bits(low as u32)),
        ValueType::F64 => Word::F64(f64::from_bits(low)),
        _ => Word::from_u64(value_type, low).map_err(|_| Missing::Unsupported)?,
    })
}

/// The bytes of `DW_AT_const_value`.
fn constant(owner: &Node, value: AttributeValue<Reader>, size: u64) -> Contents {
    use gimli::Reader as _;
    let len = size.clamp(1, MAX_PIECES) as usize;
    let bytes = match &value {
        AttributeValue::Block(block) => block.to_slice().map(|bytes| bytes.to_vec()).unwrap_or_default(),
        AttributeValue::Data1(v) => i128::from(*v).to_le_bytes().to_vec(),
        AttributeValue::Data2(v) => i128::from(*v).to_le_bytes().to_vec(),
        AttributeValue::Data4(v) => i128::from(*v).to_le_bytes().to_vec(),
        AttributeValue::Data8(v) => i128::from(*v).to_le_bytes().to_vec(),
        AttributeValue::Data16(v) => v.to_le_bytes().to_vec(),
        AttributeValue::Udata(v) => u128::from(*v).to_le_bytes().to_vec(),
        AttributeValue::Sdata(v) => i128::from(*v).to_le_bytes().to_vec(),
        other => {
            let mut bytes = owner.text(other.clone()).unwrap_or_default().into_bytes();
            bytes.push(0);
            bytes
        }
    };
    let filler = std::iter::repeat(Byte::missing(Missing::OptimizedOut));
    Contents::Bytes(bytes.into_iter().map(Byte::computed).chain(filler).take(len).collect::<Vec<_>>().into())
}
