//! What the code cache does by itself about the accesses of a block's instructions: it marks them, compares what they find, looks whether they may be wrong,
//! or tells them.

use crate::ahead;
use crate::comparing::{self, Comparing};
use crate::counter::Borrowed;
use crate::engine::{Engine, Style};
use crate::instruction::{Instruction, PlainAccess, end_of};
use crate::lines;
use crate::marking::{self, Marking};
use crate::places::Places;
use crate::shading::{self, Shading};
use crate::site::{Access, Site, SpanId};
use crate::spare::Spares;
use bugnet_dr::access::Action;
use bugnet_dr::ir::{ARITHMETIC, Block, Instr};
use bugnet_dr::opcode;

/// Most bytes of machine code that look at accesses in a block: DynamoRIO's blocks have less than 64 KiB, with all else that is in them.
const MOST_LOOKS: usize = 48 << 10;
/// Bytes of a call of the client.
const CALL_BYTES: usize = 48;

/// What is done about the accesses of each instruction of a block, if the code cache does something about them by itself.
pub enum Looks {
    /// It does not.
    None,
    /// It marks them.
    Marks(Places, Vec<Marking>),
    /// It compares what they find, and marks reads if that is said.
    Compares(Places, bool, Vec<Comparing>),
    /// It looks whether they may be wrong.
    Shades(Places, Vec<Shading>),
    /// It looks whether they are of shaded memory, and tells those.
    Tells(Places, Vec<Shading>),
}

impl Looks {
    /// Inserts what comes behind the instructions, before anything else is there. `behind`: what stands behind them.
    pub fn of(block: &Block, engine: &mut Engine, instrs: &[Instr], behind: Option<Instr>) -> Self {
        match engine.style() {
            Style::Plain | Style::Calls => Self::None,
            Style::Compares(places, marks) => {
                let end = |instr| end_of(block, &engine.code, instr);
                let mut all: Vec<Comparing> = instrs.iter().map(|instr| Comparing::of(*instr, end)).collect();
                fit(&mut all, Comparing::bytes, || Comparing::Call);
                comparing::follow(block, &engine.stub, places, instrs, &all, behind);
                Self::Compares(places, marks, all)
            }
            Style::Shades(places) => {
                let trusted = instrs.first().is_some_and(|first| engine.trusts(first.pc()));
                let mut all = Shading::of_all(instrs, trusted, |addr, len| engine.comes_to_be_wrong(addr, len));
                fit(&mut all, Shading::bytes, || Shading::Call);
                shading::follow_stack(block, &engine.stub, places, instrs);
                Self::Shades(places, all)
            }
            Style::Tells(places) => {
                let mut all = Shading::of_all_told(instrs, |addr, len| engine.comes_to_be_wrong(addr, len));
                fit(&mut all, Shading::bytes, || Shading::Call);
                Self::Tells(places, all)
            }
            Style::Marks(places) => {
                let calls = |instr: Instr| engine.marks_lines() && lines::is_atomic(instr, &engine.code);
                let of = |instr: &Instr| if calls(*instr) { Marking::Call } else { Marking::of(*instr) };
                let mut all: Vec<Marking> = instrs.iter().map(of).collect();
                fit(&mut all, Marking::bytes, || Marking::Call);
                Self::Marks(places, all)
            }
        }
    }

    /// Whether what comes before the instructions may change flags that nobody reads.
    fn may_change_flags(&self) -> bool {
        matches!(self, Self::Shades(..) | Self::Tells(..))
    }

    /// Whether the client is called before an instruction instead.
    pub fn calls(&self, index: usize) -> bool {
        match self {
            Self::None => false,
            Self::Marks(_, all) => all.get(index).is_some_and(Marking::is_called),
            Self::Compares(_, _, all) => all.get(index).is_some_and(Comparing::is_called),
            Self::Shades(_, all) | Self::Tells(_, all) => all.get(index).is_some_and(Shading::is_called),
        }
    }
}

/// Calls the client instead where a block would have more machine code than DynamoRIO takes.
fn fit<T>(all: &mut [T], bytes: impl Fn(&T) -> usize, call: impl Fn() -> T) {
    let mut room = MOST_LOOKS.saturating_sub(all.len() * CALL_BYTES);
    for look in all {
        match room.checked_sub(bytes(look)) {
            Some(rest) => room = rest,
            None => *look = call(),
        }
    }
}

/// Inserts what comes before the instructions for these, behind everything else that does. `borrowed`: where R11 is the program's; `called`: before
/// which ones the client is called; `flags`: those that are read behind them, if any may be changed; `ahead`: how far the position of each is ahead of the counter.
pub fn look_before(
    block: &Block,
    engine: &mut Engine,
    instrs: &[Instr],
    looks: &Looks,
    (borrowed, called, flags): (&Borrowed, impl Fn(usize) -> bool, Option<u32>),
    ahead: impl Fn(usize) -> i64,
) {
    let mut spare = Spares::new(instrs, &called, flags);
    match looks {
        Looks::None => {}
        Looks::Marks(places, all) => marking::mark(block, &engine.stub, *places, instrs, all, called),
        Looks::Shades(places, all) => {
            for (index, (instr, shading)) in instrs.iter().zip(all).enumerate() {
                let spare = spare.at(index);
                let Shading::Inside(looks) = shading else { continue };
                let Some(site) = access_site(block, engine, instrs, index, ahead(index)) else { continue };
                let how = (site, spare, borrowed.contains(index));
                shading::look(block, &mut engine.stub, *places, *instr, looks, how);
            }
            let returns = instrs.iter().rposition(|instr| instr.opcode() == opcode::OP_ret);
            if let Some(index) = returns.filter(|_| engine.keeper.is_some()) {
                let how = (&*spare.at(index), borrowed.contains(index));
                let site = engine.sites.add(Site::Leaves);
                shading::await_return(block, &mut engine.stub, instrs[index], site, how);
            }
        }
        Looks::Tells(places, all) => {
            for (index, (instr, shading)) in instrs.iter().zip(all).enumerate() {
                let spare = spare.at(index);
                let Shading::Inside(looks) = shading else { continue };
                let tags: Vec<(u32, bool)> =
                    looks.iter().map(|look| engine.tell(*instr, look.access(), ahead(index))).collect();
                let how = (&tags[..], spare, borrowed.contains(index));
                shading::tell(block, &mut engine.stub, *places, *instr, looks, how);
            }
        }
        Looks::Compares(places, marks, all) => {
            for (index, (instr, comparing)) in instrs.iter().zip(all).enumerate() {
                let Comparing::Inside(inside) = comparing else { continue };
                let Some(site) = access_site(block, engine, instrs, index, ahead(index)) else { continue };
                let lent = borrowed.contains(index);
                comparing::precede(block, &mut engine.stub, (*places, *marks), *instr, inside, site, lent);
            }
        }
    }
}

/// A site for the accesses of an instruction, whose position is so far ahead of what the counter says.
pub fn access_site(block: &Block, engine: &mut Engine, instrs: &[Instr], index: usize, ahead: i64) -> Option<u32> {
    let (instr, last) = (instrs[index], instrs[instrs.len() - 1]);
    let range = instrs[0].pc()..end_of(block, &engine.code, last);
    let pc = instr.pc();
    let instruction = Instruction::decode(pc, &engine.code)?;
    let repeats = matches!(instruction.action(), Action::Repeat(_));
    let bytes = if repeats { engine.code.instruction(pc) } else { Vec::new() };
    let plain = PlainAccess::of(&instruction);
    let is_atomic = engine.marks_lines() && lines::is_atomic(instr, &engine.code);
    let access = engine.sites.add_access(Access { pc, ahead, instruction, plain, bytes, block: range, is_atomic });
    Some(engine.sites.add(Site::Access(access)))
}

/// Arithmetic flags that may be read behind a block, as far as it matters to looks; none if they may change none.
pub fn flags_behind(
    block: &Block,
    engine: &mut Engine,
    instrs: &[Instr],
    looks: &Looks,
    called: impl Fn(usize) -> bool,
    (span, opaque, last): (SpanId, bool, u64),
) -> Option<u32> {
    let (first, final_one) = (instrs.first()?, instrs.last()?);
    if !looks.may_change_flags() || engine.keeps_flags(&[first.pc(), last]) {
        return None;
    }
    let [some, none] = [ARITHMETIC, 0].map(|behind| Spares::new(instrs, &called, Some(behind)));
    if opaque || some == none {
        return Some(ARITHMETIC);
    }
    let (live, pages) = ahead::live_behind(block, *final_one, last + 1, &engine.code);
    if live == ARITHMETIC || engine.keeps_flags(&pages) {
        return Some(ARITHMETIC);
    }
    engine.sites.depends_on(span, &pages, &engine.code);
    Some(live)
}
