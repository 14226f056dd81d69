//! A stretch that was executed: the blocks, and what each of them tells, read from the shared memory where it is asked for.

use super::{Bases, WORDS, Words};
use bugnet_format::trace::{
    CAPACITY, DUE, DUE_WORDS, Entry, LANES, MAX_BLOCKS, MAX_INSTRUCTIONS, NO_ADDRESS, OddAccess, Told, TracedAccess,
    TracedBlock, TracedSegment, WORDS_EACH, WordPlace, address_of, tag, untag,
};
use bugnet_format::types::Position;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The blocks that were executed, as they are read: each is checked before it comes, and they end where one makes no sense.
pub struct Runs<'a> {
    pub(super) words: &'a Words,
    pub(super) counts: &'a [u16],
    pub(super) len: u32,
    pub(super) word: u32,
    /// Of an outline.
    pub(super) outline: Option<Outline<'a>>,
    /// What was met among them.
    met: Met,
}

/// What was met in an outline with shaded memory, in memory that is used again and again.
#[derive(Default)]
pub struct Met {
    /// Accesses of shaded memory, in their order.
    pub told: Vec<ToldAccess>,
    /// Those that were made last, whose entries are of when they were first, and how many words of the outline there were then.
    later: Vec<(ToldAccess, u32)>,
    /// Their order, and all in their order.
    order: Vec<u64>,
    merged: Vec<ToldAccess>,
    /// For each number of words behind which an entry begins, or the outline ends, when the last one before was written.
    times: Vec<u32>,
}

/// In [`Met::times`]: no entry begins there.
const NOWHERE: u32 = u32::MAX;

impl Met {
    /// There are so many words.
    fn begin(&mut self, used: u32) {
        self.told.clear();
        self.later.clear();
        self.times.clear();
        self.times.resize(used as usize + 1, NOWHERE);
    }

    /// Adds what was made last where it belongs.
    fn add_later(&mut self) {
        if self.later.is_empty() {
            return;
        }
        for (access, words) in &mut self.later {
            // What was written later stands there if what was there was taken back.
            let is_there = self.times.get(*words as usize).is_some_and(|time| *time <= access.word);
            access.kind |= if is_there { 0 } else { ToldAccess::OVER };
        }
        // Those of one instruction stay in their order: by numbers, of which one is sooner exchanged for another than whole accesses.
        let number = |(number, (access, _)): (usize, &(ToldAccess, u32))| u64::from(access.word) << 32 | number as u64;
        self.order.clear();
        self.order.extend(self.later.iter().enumerate().map(number));
        self.order.sort_unstable();
        let later = self.order.iter().map(|number| self.later[*number as u32 as usize].0);
        let mut first = self.told.iter().copied().peekable();
        self.merged.clear();
        for one in later {
            while let Some(first) = first.next_if(|first| first.word <= one.word) {
                self.merged.push(first);
            }
            self.merged.push(one);
        }
        self.merged.extend(first);
        std::mem::swap(&mut self.told, &mut self.merged);
    }
}

/// An access of shaded memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldAccess {
    /// Its instruction, counted from the stretch's first.
    pub word: u32,
    /// The number of the block that has this instruction alone, and, above it, [`Self::READS`] and so on.
    kind: u32,
    /// First byte.
    pub addr: u64,
    /// How many.
    pub len: u64,
}

const _: () = assert!(MAX_BLOCKS <= ToldAccess::OVER as usize);

impl ToldAccess {
    const OVER: u32 = 1 << 28;
    const READS: u32 = 1 << 29;
    const WRITES: u32 = 1 << 30;
    const WHOLE: u32 = 1 << 31;

    #[inline]
    fn new(word: u32, block: u32, told: &Told, (addr, len): (u64, u64)) -> Self {
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        let flags = flag(told.reads, Self::READS) | flag(told.writes, Self::WRITES) | flag(told.whole, Self::WHOLE);
        Self { word, kind: block | flags, addr, len }
    }

    /// The number of a block that has its instruction alone.
    #[must_use]
    #[inline]
    pub fn block(&self) -> u32 {
        self.kind & (Self::OVER - 1)
    }

    /// Whether the call in which it was made has returned meanwhile, so that it stands nowhere.
    #[must_use]
    #[inline]
    pub fn is_over(&self) -> bool {
        self.kind & Self::OVER != 0
    }

    /// Whether it reads.
    #[must_use]
    #[inline]
    pub fn reads(&self) -> bool {
        self.kind & Self::READS != 0
    }

    /// Whether it writes.
    #[must_use]
    #[inline]
    pub fn writes(&self) -> bool {
        self.kind & Self::WRITES != 0
    }

    /// Whether all of these bytes are accessed for sure; else, some of them.
    #[must_use]
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.kind & Self::WHOLE != 0
    }
}

/// Where one is in an outline.
pub(super) struct Outline<'a> {
    pub(super) entries: &'a [Option<Entry>],
    /// Words that were used, and those that have been read.
    pub(super) used: u32,
    pub(super) read: u32,
    /// Where the next thing is due.
    pub(super) due: u32,
    /// The instruction of the access that was read last.
    pub(super) last: u32,
    /// Where it began, as an address of the replay process.
    pub(super) start: u64,
}

impl Outline<'_> {
    /// The next entry: the block, and its count of instructions. `None` at the end, or where it makes no sense: that is not the end.
    fn next(
        &mut self,
        words: &Words,
        counts: &[u16],
        (from, len_of_stretch): (u32, u32),
        met: &mut Met,
    ) -> Option<(Run, u32)> {
        let at = |read: u32| words[(WORDS - 1).wrapping_sub(read as usize) % WORDS].load(Ordering::Relaxed);
        while self.read < self.used {
            let word = at(self.read);
            let ((block, count), upper) = (untag(word), (word >> 32) as u32);
            if (block, count) == (DUE, 0) {
                let time = at(self.read + 1) & !NO_ADDRESS;
                (self.due, self.read) = (upper, self.read + DUE_WORDS as u32);
                if self.read > self.used || time > len_of_stretch.into() {
                    return None;
                }
                met.times[self.read as usize] = time as u32;
                continue;
            }
            let entry = self.entries.get(block as usize).copied().flatten()?;
            let is_it = counts.get(block as usize).is_some_and(|known| u32::from(*known) == count);
            if let Some(told) = entry.told {
                let word = self.due.wrapping_sub(upper).wrapping_add_signed(told.ahead.into());
                let read = self.read + u32::from(entry.words);
                if count != 1 || word < self.last || word >= len_of_stretch || read > self.used {
                    return None;
                }
                let second = at(self.read + 1);
                let len = told.bytes.map_or_else(|| at(self.read + 2), u64::from);
                let addr = if told.again { address_of(tag(block, 1), second) } else { second };
                let access = ToldAccess::new(word, block, &told, (addr, len));
                let later = if told.again { at(self.read + 2) as u32 } else { 0 };
                if later != 0 {
                    let later = 0_u32.wrapping_sub(later).wrapping_add_signed(told.ahead.into());
                    if later <= word || later >= len_of_stretch {
                        return None;
                    }
                    // Entries go down from the start.
                    let words = self.start.wrapping_sub(at(self.read + 3)) / 8;
                    met.later.push((ToldAccess { word: later, ..access }, u32::try_from(words).ok()?));
                }
                met.told.push(access);
                met.times[read as usize] = word;
                (self.read, self.last) = (read, word);
                continue;
            }
            let start = self.due.wrapping_sub(upper).wrapping_sub(entry.counted.into());
            let (read, end) = (self.read + u32::from(entry.words), start.checked_add(count)?);
            if !is_it || start < from || end > len_of_stretch || read > self.used {
                return None;
            }
            let at = (CAPACITY as u32).wrapping_sub(WORDS as u32).wrapping_add(self.read);
            self.read = read;
            met.times[read as usize] = start;
            return Some((Run { word: start, block, at }, end));
        }
        None
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    #[inline]
    fn next(&mut self) -> Option<Run> {
        if let Some(outline) = &mut self.outline {
            let (run, end) = outline.next(self.words, self.counts, (self.word, self.len), &mut self.met)?;
            self.word = end;
            return Some(run);
        }
        if self.word >= self.len {
            return None;
        }
        let word = self.word;
        let (block, count) =
            untag(self.words[(CAPACITY - 1).wrapping_sub(word as usize) % WORDS].load(Ordering::Relaxed));
        if self.counts.get(block as usize).is_none_or(|known| u32::from(*known) != count) {
            // None comes behind it, and this is not the end.
            self.word = u32::MAX;
            return None;
        }
        self.word = word + count;
        Some(Run { word, block, at: word })
    }
}

impl Runs<'_> {
    /// What was met, behind the last block.
    #[must_use]
    pub fn take_met(&mut self) -> Met {
        self.met.add_later();
        std::mem::take(&mut self.met)
    }

    /// Of those that have come to an end: whether they follow each other without a gap, up to the stretch's last instruction; of an outline, whether all
    /// of it was read.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        match &self.outline {
            Some(outline) => outline.read == outline.used,
            None => self.word == self.len,
        }
    }
}

/// Before the first block.
pub(super) fn runs<'a>(
    words: &'a Words,
    counts: &'a [u16],
    len: u32,
    (entries, used, start): (&'a [Option<Entry>], Option<u32>, u64),
    mut met: Met,
) -> Runs<'a> {
    met.begin(used.unwrap_or(0));
    let outline = used.map(|used| Outline { entries, used, read: 0, due: 0, last: 0, start });
    Runs { words, counts, len, word: 0, outline, met }
}

pub(super) fn is_sound(block: &TracedBlock) -> bool {
    let count = block.count;
    let place = |place: WordPlace| match block.entry {
        Some(Entry { words, .. }) => place.lane == 0 && (1..words).contains(&place.at),
        None => usize::from(place.lane) < LANES && place.at < count,
    };
    let is_entry = |entry: &Entry| {
        let returned = entry.returned.is_none_or(|(rax, target)| place(rax) && place(target));
        let is_in = returned && entry.stack.is_none_or(place);
        let words = 1..=(WORDS_EACH - 1) * usize::from(count) + 1;
        if let Some(told) = entry.told {
            // The third word is one or the other.
            return count == 1 && entry.words == told.words() && !(told.again && told.bytes.is_none());
        }
        words.contains(&usize::from(entry.words)) && entry.counted <= count && is_in
    };
    (1..=MAX_INSTRUCTIONS).contains(&usize::from(count))
        && block.code.len() <= usize::from(count) * 15
        && block.entry.as_ref().is_none_or(is_entry)
        && block.registers.iter().all(|(number, at)| *number < 16 && place(*at))
        && block.accesses.is_sorted_by_key(|access| access.instruction)
        && block.accesses.iter().all(|access| {
            access.instruction < count
                && access.base.is_none_or(place)
                && access.index.is_none_or(|(index, scale)| place(index) && matches!(scale, 1 | 2 | 4 | 8))
                && access.operand.is_none_or(|operand| place(operand.place) && (1..=8).contains(&operand.bytes))
        })
}

/// What was executed in a stretch.
pub struct Chunk<'a> {
    /// The first instruction's position.
    pub first: Position,
    /// Instructions, at least one and at most [`CAPACITY`].
    pub len: u32,
    /// The blocks that were executed, in their order.
    pub runs: &'a [Run],
    /// The blocks that there are, those of earlier stretches first; their numbers stay.
    pub blocks: &'a [Arc<TracedBlock>],
    /// Accesses that the blocks do not tell, in their order.
    pub odd: Vec<OddAccess>,
    pub(super) words: &'a Words,
    pub(super) counts: &'a [u16],
    pub(super) entries: &'a [Option<Entry>],
    /// Words that were used, of an outline, and where it began.
    pub(super) used: Option<u32>,
    pub(super) start: u64,
    /// Segment bases from their positions on.
    pub(super) bases: &'a [(Position, Bases)],
}

/// A block that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its first instruction, counted from the stretch's.
    pub word: u32,
    /// Its number.
    pub block: u32,
    /// Where its words are: how many words before those of a block that begins with the stretch.
    at: u32,
}

/// How an address, or a register's value, is computed from the words of a block that was executed: what a block says of it, in a form that
/// takes little room and no decisions, since that is done for each access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// What is added to the words.
    disp: u64,
    /// Words of the buffer, where a block begins in the stretch's first word; one that does not count is any.
    base: u32,
    index: u32,
    /// The instruction, whose segment base is added.
    instruction: u16,
    /// What counts of the first word: all bits, or none where there is no base.
    mask: u64,
    /// What the other one is multiplied by; zero, where there is none.
    scale: u8,
    segment: Option<TracedSegment>,
}

fn word_of(place: WordPlace) -> u32 {
    (usize::from(place.lane) * CAPACITY + CAPACITY - 1 - usize::from(place.at)) as u32
}

impl Sum {
    /// Of nothing: it costs as much as any other one, and is zero.
    pub const NOTHING: Self = Self {
        disp: 0,
        base: CAPACITY as u32 - 1,
        index: CAPACITY as u32 - 1,
        instruction: 0,
        mask: 0,
        scale: 0,
        segment: None,
    };

    /// The address of an access.
    #[must_use]
    pub fn of_access(access: &TracedAccess) -> Self {
        let none = WordPlace { lane: 0, at: 0 };
        let (index, scale) = access.index.unwrap_or((none, 0));
        Self {
            disp: access.disp,
            base: word_of(access.base.unwrap_or(none)),
            index: word_of(index),
            instruction: access.instruction,
            mask: if access.base.is_some() { u64::MAX } else { 0 },
            scale,
            segment: access.segment,
        }
    }

    /// The value of a register at a block's start.
    #[must_use]
    pub fn of_register((_, place): (u8, WordPlace)) -> Self {
        let (base, index) = (word_of(place), word_of(place));
        Self { disp: 0, base, index, instruction: 0, mask: u64::MAX, scale: 0, segment: None }
    }
}

impl Chunk<'_> {
    /// The sum for a block that was executed.
    #[must_use]
    #[inline]
    pub fn sum(&self, run: Run, sum: &Sum) -> u64 {
        let word = |at: u32| self.word(at.wrapping_sub(run.at) as usize);
        let index = word(sum.index).wrapping_mul(sum.scale.into());
        let sums = (word(sum.base) & sum.mask).wrapping_add(index).wrapping_add(sum.disp);
        match sum.segment {
            None => sums,
            Some(segment) => sums.wrapping_add(self.base(run.word + u32::from(sum.instruction), segment)),
        }
    }

    /// The blocks that were executed, in their order. `met`: memory for what is met among them.
    #[must_use]
    pub fn read_runs(&self, met: Met) -> Runs<'_> {
        runs(self.words, self.counts, self.len, (self.entries, self.used, self.start), met)
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.words[at % WORDS].load(Ordering::Relaxed)
    }

    /// What stands in a word among those of a block that was executed.
    #[inline]
    fn value(&self, run: Run, place: WordPlace) -> u64 {
        // As `index`, whose checks cost more than the rest: blocks are sound, and runs lie in the buffer.
        let lane = usize::from(place.lane) * CAPACITY + CAPACITY - 1;
        self.word(lane.wrapping_sub(run.at as usize).wrapping_sub(usize::from(place.at)))
    }

    /// Where an access of a block was that was executed.
    #[must_use]
    #[inline]
    pub fn address(&self, run: Run, access: &TracedAccess) -> u64 {
        let base = access.base.map_or(0, |place| self.value(run, place));
        let index = access.index.map_or(0, |(place, scale)| self.value(run, place).wrapping_mul(scale.into()));
        let segment = access.segment.map_or(0, |segment| self.base(run.word + u32::from(access.instruction), segment));
        base.wrapping_add(index).wrapping_add(access.disp).wrapping_add(segment)
    }

    /// What a register had that an access of a block stored, or with which it changed memory; none where no single register tells, or
    /// nobody asked for it. Of vectors, the lowest 8 bytes.
    #[must_use]
    #[inline]
    pub fn operand(&self, run: Run, access: &TracedAccess) -> Option<u64> {
        let operand = access.operand?;
        let value = self.value(run, operand.place).wrapping_add(operand.more);
        Some(value & (u64::MAX >> (64 - 8 * u32::from(operand.bytes))))
    }

    /// The value of a register at the start of a block that was executed: one of those of which the block says where it is.
    #[must_use]
    #[inline]
    pub fn register(&self, run: Run, (_, place): (u8, WordPlace)) -> u64 {
        self.value(run, place)
    }

    /// The base of a segment where an instruction is executed.
    fn base(&self, word: u32, segment: TracedSegment) -> u64 {
        let at = self.first.0 + u64::from(word);
        let behind = self.bases.partition_point(|(position, _)| position.0 <= at);
        let [fs, gs] = behind.checked_sub(1).map_or([0; 2], |last| self.bases[last].1);
        match segment {
            TracedSegment::Fs => fs,
            TracedSegment::Gs => gs,
        }
    }
}
