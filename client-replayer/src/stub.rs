//! How the code cache and the client share the count, and how the one calls the other.
//!
//! A call goes to [`light`] first, which asks the client where to go on. Where DynamoRIO itself is needed, that is
//! [`Stub::heavy`], a clean call.

use crate::assembler::{Other, assembled, in_segment, register};
use crate::counter::COUNTER;
use crate::light::{self, Handler};
use crate::slots::{JUMP, LOAD_R11, LOAD_RCX, PLACE_IN_RCX, STORE_R11, STORE_RCX, Slots};
use crate::state;
use bugnet_dr::assembled;
use bugnet_dr::assembled::Assembled;
use bugnet_dr::ir::{Block, Gpr, Opnd, Segment};
use bugnet_dr::space::{self, Protection};
use hashbrown::HashMap;
use iced_x86::{Code, MemoryOperand, Register};
use std::ffi::c_void;
use std::mem::offset_of;

/// What the code cache and the client share, in thread-local slots.
#[repr(C)]
#[derive(Debug)]
pub struct Shared {
    /// Instructions up to the next thing that is due; below zero only at a block's start. Where blocks count in
    /// [`COUNTER`], it is there instead while the code cache runs, but for instructions of the program's that use the register.
    pub left: u64,
    /// [`COUNTER`] as the program sees it, while it counts.
    pub lent: u64,
    /// RCX of the program while instrumentation uses the register.
    rcx: u64,
    /// A register of the program while something is loaded into it for a mark, or to be compared.
    scratch: u64,
    /// Where code outside of blocks goes on in a block.
    back: u64,
    /// The tag of an access that is told, a register of the program meanwhile, and what [`crate::trace`] needs to find out whether it was told before.
    tag: u64,
    spare: u64,
    /// The table of these, the bits of a hash that are used, and zero unless each is told.
    pub table: u64,
    pub hashed_by: u64,
    pub each: u64,
    /// Not zero while an outline need not tell of a library's code.
    pub inside: u64,
    /// Minus how many instructions will have been executed since an outline was emptied where the next thing is due.
    pub due: u64,
    /// The bits of an address by which marks are found, where that takes more than their number.
    pub marked_by: u64,
    /// Where the next word of an outline is written ([`bugnet_format::trace`]).
    pub outline: u64,
    /// Where the block that is executed has its first word there, if more of its words follow behind accesses.
    entry: u64,
    /// Where the return address is of the allocator's function in which the thread is, with all bits the other way; 0 where there is none.
    pub awaited: u64,
    /// Where the code cache goes on behind the call, except at [`crate::site::Site::Crossing`].
    pub resume: u64,
    /// The x87 status word behind the last instruction that may have changed it: DynamoRIO clears the exception flags on the way
    /// to a signal that it forges where it finds no code.
    pub x87_status: u64,
    /// Number of the site that calls.
    pub site: u64,
    /// Address of the assembly of [`light`].
    call: u64,
}

/// A field for accesses that are told.
#[derive(Clone, Copy)]
pub enum Field {
    /// Where the block goes on.
    Back = offset_of!(Shared, back) as isize,
    /// The access's tag.
    Tag = offset_of!(Shared, tag) as isize,
    /// A register of the program.
    Spare = offset_of!(Shared, spare) as isize,
    /// The table of those that were told.
    Table = offset_of!(Shared, table) as isize,
    /// Zero unless each is told.
    Each = offset_of!(Shared, each) as isize,
    /// Not zero while a library's code need not be told.
    Inside = offset_of!(Shared, inside) as isize,
    /// Minus where the next thing is due.
    Due = offset_of!(Shared, due) as isize,
}

/// Bytes of the page for the clean call.
const HEAVY_BYTES: usize = 4096;
/// Bytes for which memory for [`Stub::crossing`] is taken at a time.
const PIECE: usize = 64 << 10;

/// Up to the slot and the number.
const STORE_NUMBER: Assembled = assembled!("mov qword ptr gs:[{u32}], {u32}"; 8);
/// Up to what is subtracted: a byte, or 4.
const COUNT: [Assembled; 2] = [assembled!("sub r11, {u8}"; 1), assembled!("sub r11, {u32}"; 4)];
/// The same for what is added, without a change of flags.
const COUNT_QUIETLY: [Assembled; 2] = [assembled!("lea r11, [r11 + {u8}]"; 1), assembled!("lea r11, [r11 + {u32}]"; 4)];
/// Jumps over five bytes unless the number in R11 is negative: its upper half, in the lower one of RCX by `bswap`, then is zero.
const UNLESS_NEGATIVE: Assembled = assembled!("mov rcx, r11", "bswap rcx", "jecxz 2f", ".skip 5", "2:"; 5);
/// Up to the slot.
const STORE_X87_STATUS: Assembled = assembled!("fnstsw gs:[{u32}]"; 4);

/// What the client does when it is called.
#[derive(Clone, Copy)]
pub struct Handlers {
    /// In a light call.
    pub light: Handler,
    /// In a clean call, if that is where the light call goes on.
    pub clean: unsafe extern "C" fn(),
}

/// The slots, and the code by which blocks call the client.
pub struct Stub {
    slots: Slots<Shared>,
    handlers: Handlers,
    /// The clean call, once there is a block that needs it.
    heavy: *mut u8,
    /// Room for [`Self::crossing`], and how much there is of it.
    room: (*mut u8, usize),
    /// Where the numbers of [`Self::constant`] are: blocks are built again and again.
    constants: HashMap<u64, *mut u8>,
    /// Where the code of [`Self::telling`] is.
    telling: HashMap<(u8, bool), *mut u8>,
    /// See [`Self::jump_target`].
    target: *mut c_void,
}

impl Stub {
    /// Allocates the slots.
    pub fn new(handlers: Handlers) -> Result<Self, String> {
        let (heavy, room) = (std::ptr::null_mut(), (std::ptr::null_mut(), 0));
        let (constants, telling) = (HashMap::new(), HashMap::new());
        Ok(Self { slots: Slots::new()?, handlers, heavy, room, constants, telling, target: std::ptr::null_mut() })
    }

    /// The slots of the replayed thread; from the first block on.
    #[allow(clippy::mut_from_ref, reason = "the slots are the code cache's, which does not run while the client does")]
    pub fn shared(&self) -> &mut Shared {
        self.slots.get()
    }

    /// The address at which the clean call begins, for a light call to go on at.
    pub fn heavy(&self) -> u64 {
        light::hide_alignment_check();
        self.heavy as u64
    }

    /// Machine code that counts `instrs` down, at a block's start: a negative number is left if something is due. Arithmetic
    /// flags say so, whatever they were before.
    ///
    /// Code is made here, since DynamoRIO's encoder takes most of a replay's time where much code runs only a few times.
    pub fn count_down(instrs: u32) -> Vec<u8> {
        let [short, long] = COUNT;
        match i8::try_from(instrs) {
            Ok(instrs) => [short.bytes(), &instrs.to_le_bytes()].concat(),
            Err(_) => [long.bytes(), &instrs.to_le_bytes()].concat(),
        }
    }

    /// As [`Self::count_down`], without a change of flags, and jumps over the five bytes behind it if no negative number is
    /// left. RCX is in its slot then.
    pub fn count_down_quietly(&self, instrs: u32) -> Vec<u8> {
        let rcx = self.slots.at(offset_of!(Shared, rcx));
        let minus = (instrs as i32).wrapping_neg().to_le_bytes();
        let [short, long] = COUNT_QUIETLY;
        let (count, minus) = if instrs <= 128 { (short, &minus[..1]) } else { (long, &minus[..]) };
        [STORE_RCX.bytes(), &rcx, count.bytes(), minus, UNLESS_NEGATIVE.bytes()].concat()
    }

    /// Machine code that puts the x87 status word into its slot.
    pub fn save_x87_status(&self) -> Vec<u8> {
        [STORE_X87_STATUS.bytes(), &self.slots.at(offset_of!(Shared, x87_status))].concat()
    }

    /// Machine code that puts the count into its slot.
    pub fn save_count(&self) -> Vec<u8> {
        [STORE_R11.bytes(), &self.slots.at(offset_of!(Shared, left))].concat()
    }

    /// Machine code that takes the count from its slot to [`COUNTER`].
    pub fn load_count(&self) -> Vec<u8> {
        [LOAD_R11.bytes(), &self.slots.at(offset_of!(Shared, left))].concat()
    }

    /// Machine code that puts [`COUNTER`], as the program sees it, into its slot.
    pub fn save_lent(&self) -> Vec<u8> {
        [STORE_R11.bytes(), &self.slots.at(offset_of!(Shared, lent))].concat()
    }

    /// Machine code that gives [`COUNTER`] to the program.
    pub fn lend(&self) -> Vec<u8> {
        [&self.save_count()[..], LOAD_R11.bytes(), &self.slots.at(offset_of!(Shared, lent))].concat()
    }

    /// Machine code that makes [`COUNTER`] the count again.
    pub fn take_back(&self) -> Vec<u8> {
        [self.save_lent(), self.load_count()].concat()
    }

    /// Memory for the target of a jump that uses [`COUNTER`].
    pub fn jump_target(&self, bytes: u32) -> Opnd {
        Opnd::near(self.target, bytes)
    }

    /// Machine code that puts RCX back.
    pub fn restore_rcx(&self) -> Vec<u8> {
        [LOAD_RCX.bytes(), &self.slots.at(offset_of!(Shared, rcx))].concat()
    }

    /// Machine code that puts a register into its slot, of which there is one.
    pub fn save_scratch(&self, reg: Gpr) -> Vec<u8> {
        self.store(reg, offset_of!(Shared, scratch))
    }

    /// Machine code that puts the register back.
    pub fn restore_scratch(&self, reg: Gpr) -> Vec<u8> {
        self.load(reg, offset_of!(Shared, scratch))
    }

    /// Machine code that takes the count from its slot to a register.
    pub fn load_count_into(&self, reg: Gpr) -> Vec<u8> {
        self.load(reg, offset_of!(Shared, left))
    }

    /// Machine code that takes the place for the next word of an outline from its slot to a register.
    pub fn load_outline(&self, reg: Gpr) -> Vec<u8> {
        self.load(reg, offset_of!(Shared, outline))
    }

    /// Machine code that puts it into its slot.
    pub fn store_outline(&self, reg: Gpr) -> Vec<u8> {
        self.store(reg, offset_of!(Shared, outline))
    }

    /// Machine code that remembers from a register where a block's entry begins.
    pub fn store_entry(&self, reg: Gpr) -> Vec<u8> {
        self.store(reg, offset_of!(Shared, entry))
    }

    /// Machine code that takes that to a register.
    pub fn load_entry(&self, reg: Gpr) -> Vec<u8> {
        self.load(reg, offset_of!(Shared, entry))
    }

    /// Machine code that takes a field to a register.
    pub fn load_field(&self, reg: Gpr, field: Field) -> Vec<u8> {
        self.load(reg, field as usize)
    }

    /// Machine code that puts a register into a field.
    pub fn store_field(&self, reg: Gpr, field: Field) -> Vec<u8> {
        self.store(reg, field as usize)
    }

    /// The distance of a field, as an instruction holds it.
    pub fn field(&self, field: Field) -> [u8; 4] {
        self.slots.at(field as usize)
    }

    /// Machine code that makes of a hash in a register the place in the table.
    pub fn hashed(&self, reg: Gpr) -> Vec<u8> {
        wide_place(reg, self.slots.at(offset_of!(Shared, hashed_by)))
    }

    /// Machine code that puts a number into a field.
    pub fn put_number(&self, number: u32, field: Field) -> Vec<u8> {
        [STORE_NUMBER.bytes(), &self.field(field), &number.to_le_bytes()].concat()
    }

    /// Code outside of blocks that tells an access whose address is in a register, which is in its slot, and then goes on at the place that RCX has. It
    /// is made once for each register. `lent` as for [`Self::differing`].
    pub fn telling(&mut self, reg: Gpr, lent: bool, make: impl FnOnce(&Self, Gpr, bool) -> Vec<u8>) -> *mut u8 {
        if let Some(known) = self.telling.get(&(reg.0, lent)) {
            return *known;
        }
        let code = make(self, reg, lent);
        let at = self.place(&code);
        self.telling.insert((reg.0, lent), at);
        at
    }

    /// Machine code that takes the slot of the return that is awaited to a register.
    pub fn load_awaited(&self, reg: Gpr) -> Vec<u8> {
        self.load(reg, offset_of!(Shared, awaited))
    }

    /// Machine code that takes RCX, which is in its slot, to a register.
    pub fn load_rcx_into(&self, reg: Gpr) -> Vec<u8> {
        self.load(reg, offset_of!(Shared, rcx))
    }

    /// Machine code that takes [`COUNTER`], as the program sees it, from its slot to a register.
    pub fn load_lent_into(&self, reg: Gpr) -> Vec<u8> {
        self.load(reg, offset_of!(Shared, lent))
    }

    fn load(&self, reg: Gpr, slot: usize) -> Vec<u8> {
        load(reg, self.slots.at(slot))
    }

    fn store(&self, reg: Gpr, slot: usize) -> Vec<u8> {
        store(reg, self.slots.at(slot))
    }

    /// Machine code that loads the base of a segment, as the program sees it, into a register.
    pub fn load_segment_base(&self, reg: Gpr, segment: Segment) -> Vec<u8> {
        load(reg, self.slots.segment_base(segment))
    }

    /// Machine code that makes the place of a mark from an address in a register: `pext reg, reg, gs:[slot]`.
    pub fn wide_place(&self, reg: Gpr) -> Vec<u8> {
        wide_place(reg, self.slots.at(offset_of!(Shared, marked_by)))
    }

    /// Machine code that calls the client for `site`.
    pub fn call(&self, site: u32) -> Vec<u8> {
        let [rcx, resume] = [self.slots.at(offset_of!(Shared, rcx)), self.slots.at(offset_of!(Shared, resume))];
        let jump = self.jump(site);
        // Behind all of this, execution goes on.
        let behind = ((STORE_RCX.len() + resume.len() + jump.len()) as i32).to_le_bytes();
        [STORE_RCX.bytes(), &rcx, PLACE_IN_RCX.bytes(), &behind, STORE_RCX.bytes(), &resume, &jump].concat()
    }

    /// Machine code that calls the client for `site`, RCX and perhaps the place to go on being in their slots.
    fn jump(&self, site: u32) -> Vec<u8> {
        let [number, call] = [self.slots.at(offset_of!(Shared, site)), self.slots.at(offset_of!(Shared, call))];
        [STORE_NUMBER.bytes(), &number, &site.to_le_bytes(), JUMP.bytes(), &call].concat()
    }

    /// Code outside of blocks that calls the client for `site`, with RCX in its slot if it is `saved`.
    pub fn crossing(&mut self, site: u32, saved: bool) -> *mut u8 {
        let mut code = self.jump(site);
        if !saved {
            let rcx = self.slots.at(offset_of!(Shared, rcx));
            code.splice(..0, [STORE_RCX.bytes(), &rcx].concat());
        }
        self.place(&code)
    }

    /// Machine code that puts RCX into its slot.
    pub fn save_rcx(&self) -> Vec<u8> {
        [STORE_RCX.bytes(), &self.slots.at(offset_of!(Shared, rcx))].concat()
    }

    /// Code outside of blocks that calls the client for `site`, with RCX and `scratch` in their slots, and in RCX the place in the block to go
    /// on at; where `lent` says so, with [`COUNTER`] being the program's there.
    pub fn differing(&mut self, site: u32, scratch: Gpr, lent: bool) -> *mut u8 {
        let slot = |field| self.slots.at(field);
        let mut code = Vec::new();
        if lent {
            let (call, lend) = ([self.take_back(), self.jump(site)].concat(), self.lend());
            let resume = [STORE_RCX.bytes(), &slot(offset_of!(Shared, resume))].concat();
            let restore = self.restore_scratch(scratch);
            code.extend([STORE_RCX.bytes(), &slot(offset_of!(Shared, back)), PLACE_IN_RCX.bytes()].concat());
            code.extend(((resume.len() + restore.len() + call.len()) as i32).to_le_bytes());
            code.extend(
                [resume, restore, call, lend, [JUMP.bytes(), &slot(offset_of!(Shared, back))].concat()].concat(),
            );
        } else {
            code.extend([STORE_RCX.bytes(), &slot(offset_of!(Shared, resume))].concat());
            code.extend([self.restore_scratch(scratch), self.jump(site)].concat());
        }
        self.place(&code)
    }

    /// Code outside of blocks that calls the client for `site`, with RCX in its slot unless nobody needs it, and in RCX the place in the block to go
    /// on at; `lent` as for [`Self::differing`].
    pub fn suspect(&mut self, site: u32, lent: bool) -> *mut u8 {
        let slot = |field| self.slots.at(field);
        let resume = [STORE_RCX.bytes(), &slot(offset_of!(Shared, resume))].concat();
        let code = if lent {
            let (call, lend) = ([self.take_back(), self.jump(site)].concat(), self.lend());
            let mut code = [STORE_RCX.bytes(), &slot(offset_of!(Shared, back)), PLACE_IN_RCX.bytes()].concat();
            code.extend(((resume.len() + call.len()) as i32).to_le_bytes());
            code.extend([resume, call, lend, [JUMP.bytes(), &slot(offset_of!(Shared, back))].concat()].concat());
            code
        } else {
            [resume, self.jump(site)].concat()
        };
        self.place(&code)
    }

    /// Memory that holds a number, in reach of the code cache.
    pub fn constant(&mut self, number: u64) -> Opnd {
        let at = self.constants.get(&number).copied().unwrap_or_else(|| {
            let at = self.place(&number.to_le_bytes());
            self.constants.insert(number, at);
            at
        });
        Opnd::near(at.cast(), 8)
    }

    /// Puts code or a number outside of blocks, in reach of them.
    fn place(&mut self, code: &[u8]) -> *mut u8 {
        if self.room.1 < code.len() {
            // Never freed.
            let Some(room) = space::allocate_near(PIECE, Protection::ALL) else {
                state::die("DynamoRIO has no memory left for code")
            };
            let room = room.as_ptr();
            self.room = (room, PIECE);
        }
        let at = self.room.0;
        // SAFETY: the room has as many bytes, ours and not used yet; nobody executes them before they are returned.
        unsafe {
            std::ptr::copy_nonoverlapping(code.as_ptr(), at, code.len());
            self.room = (at.add(code.len()), self.room.1 - code.len());
        }
        at
    }

    /// In a light call, where blocks count in [`COUNTER`]: the count is in its slot, and the program's register in its
    /// place, up to [`Self::hand_over`].
    pub fn take_over(&self) {
        let shared = self.shared();
        shared.left = light::exchange(COUNTER, shared.lent);
    }

    /// Ends what [`Self::take_over`] began.
    pub fn hand_over(&self) {
        light::exchange(COUNTER, self.shared().left);
    }

    /// Sets the base of a segment as the program sees it.
    pub fn set_segment_base(&self, segment: Segment, base: u64) {
        self.slots.set_segment_base(segment, base);
        light::set_segment_base(segment, base);
    }

    /// Finds the slots of this thread and makes the code; in the first block event.
    pub fn prepare(&mut self, context: *mut c_void) {
        if !self.slots.find() {
            return;
        }
        let resume = self.slots.operand(offset_of!(Shared, resume));
        let near = |len, protection| {
            let memory = space::allocate_near(len, protection);
            memory.unwrap_or_else(|| state::die("DynamoRIO has no memory left near its code")).as_ptr()
        };
        self.heavy = near(HEAVY_BYTES, Protection::ALL);
        self.target = near(size_of::<u64>(), Protection::READ | Protection::WRITE).cast();
        // SAFETY: in the first block event of the replayed thread, and the page is ours. Behind the call, unless it redirects execution.
        let made = unsafe { Block::encode_clean_call(context, self.handlers.clean, resume, (self.heavy, HEAVY_BYTES)) };
        if made.is_none() {
            state::die("DynamoRIO's call of the client does not fit its page");
        }
        let shared = self.slots.get();
        shared.call = light::address();
        // SAFETY: the slots stay where they are.
        unsafe {
            light::prepare(&raw const shared.rcx, self.handlers.light);
        }
    }
}

/// The memory of a slot.
fn memory(slot: [u8; 4]) -> MemoryOperand {
    in_segment(Register::GS, u32::from_le_bytes(slot))
}

/// `mov reg, gs:[slot]`
fn load(reg: Gpr, slot: [u8; 4]) -> Vec<u8> {
    assembled(Code::Mov_r64_rm64, memory(slot), Other::To(register(reg, 8)))
}

/// `mov gs:[slot], reg`
fn store(reg: Gpr, slot: [u8; 4]) -> Vec<u8> {
    assembled(Code::Mov_rm64_r64, memory(slot), Other::From(register(reg, 8)))
}

/// `pext reg, reg, gs:[slot]`
fn wide_place(reg: Gpr, slot: [u8; 4]) -> Vec<u8> {
    assembled(Code::VEX_Pext_r64_r64_rm64, memory(slot), Other::Twice(register(reg, 8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_is_what_it_is_called() {
        assert_eq!(STORE_NUMBER.bytes(), [0x65, 0x48, 0xc7, 0x04, 0x25]);
        assert_eq!(COUNT.map(Assembled::bytes), [[0x49, 0x83, 0xeb], [0x49, 0x81, 0xeb]]);
        assert_eq!(COUNT_QUIETLY.map(Assembled::bytes), [[0x4d, 0x8d, 0x5b], [0x4d, 0x8d, 0x9b]]);
        assert_eq!(UNLESS_NEGATIVE.bytes(), [0x4c, 0x89, 0xd9, 0x48, 0x0f, 0xc9, 0x67, 0xe3, 5]);
        assert_eq!(STORE_X87_STATUS.bytes(), [0x65, 0xdd, 0x3c, 0x25]);
    }

    #[test]
    fn slots_and_registers() {
        let slot = [0x78, 0x56, 0x34, 0x12];
        for number in 0..16 {
            let (high, low) = (number >> 3, number & 7);
            let mov = |opcode| [0x65, 0x48 | high << 2, opcode, 4 | low << 3, 0x25, 0x78, 0x56, 0x34, 0x12];
            assert_eq!(load(Gpr(number), slot), mov(0x8b));
            assert_eq!(store(Gpr(number), slot), mov(0x89));
            // In VEX, most bits are the other way.
            let vex = [0xc4, 0x62 | (!high & 1) << 7, 0x82 | (!number & 15) << 3];
            let pext = [&[0x65][..], &vex, &[0xf5, 4 | low << 3, 0x25, 0x78, 0x56, 0x34, 0x12]].concat();
            assert_eq!(wide_place(Gpr(number), slot), pext);
        }
    }
}
