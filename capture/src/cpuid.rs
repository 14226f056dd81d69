//! CPUID on processors that raise no signal for it (AMD's before Zen 5, and where a hypervisor does not offer that): each such instruction in the code of a
//! file that the program maps becomes HLT, which is privileged, and NOP; the signal that this raises is answered as the other one's would be ([`crate::special`]). (UD2 would do,
//! too, but is looked at by hypervisors first, which takes microseconds.)
//!
//! ```text
//! a file's code is mapped ──> bytes of CPUID in the file's code ──> decoded from the start of the function around them: is it an instruction? ──> HLT
//! the light part ends ──────> all are CPUID again
//! ```
//!
//! Where a function starts, the file's table of frames says (`.eh_frame_hdr`); what no frame covers (assembly without them) is decoded from some way before, within a
//! section of code. What cannot be told to be an instruction stays as it is: should the program execute it, an expansion finds a CPUID that the log does not
//! have, and says so. So it is with code that the program makes itself. An expansion has the file's code; moments are kept with those bytes ([`original`]).

use crate::elf::{Elf, PAGE, PF_X, PT_GNU_EH_FRAME};
use crate::files::{self, Key};
use crate::folder::Entry;
use crate::layout::SHARED_PLACES;
use crate::reach::LINE;
use crate::state;
use crate::sys::{self, MAP_FIXED_NOREPLACE, MAP_PRIVATE, PROT_EXEC, PROT_READ, PROT_WRITE};
use crate::trap;
use core::arch::x86_64::{__m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
use core::cell::UnsafeCell;
use core::ops::Range;

/// The instruction, and what takes its place.
const CPUID: [u8; 2] = [0x0f, 0xa2];
pub const HIDDEN: [u8; 2] = [0xf4, 0x90];
/// Most places in a process. What is more stays as it is.
const MOST: usize = 4096;
/// So far back decoding begins where no frame says where the function starts: within a few instructions, it finds into their order.
const BACK: u64 = 4096;
/// So many bytes before it have to be instructions, if decoding from there met others: data between functions is not.
const CLEAN: u64 = 256;
/// Where a file is looked at.
const VIEW: u64 = 0x1080_0000_0000;
/// A section's header: its size, and bits of `sh_flags` (allocated, executable).
const SECTION: u64 = 64;
const CODE_SECTION: u64 = 6;

/// What is known of CPUID in this process.
pub struct Hidden {
    /// Whether the processor raises a signal for it; then there are no places.
    traps: bool,
    places: [u64; MOST],
    count: usize,
}

impl Hidden {
    pub const fn new() -> Self {
        Self { traps: false, places: [0; MOST], count: 0 }
    }

    fn all(&self) -> &[u64] {
        &self.places[..self.count]
    }
}

/// Asks the processor.
pub fn begin() {
    state::get().hidden.traps = trap::allow_cpuid(true);
}

/// Whether the processor raises a signal for it.
pub fn traps() -> bool {
    state::get().hidden.traps
}

/// Whether a CPUID of the program's was here.
pub fn is_hidden(rip: u64) -> bool {
    state::get().hidden.all().contains(&rip)
}

/// The bytes of a line of memory as they would be without us.
pub fn original(at: u64, bytes: &mut [u8; LINE]) {
    for place in state::get().hidden.all() {
        for (i, byte) in CPUID.into_iter().enumerate() {
            if let Some(slot) = bytes.get_mut((place + i as u64).wrapping_sub(at) as usize) {
                *slot = byte;
            }
        }
    }
}

/// The program asks the processor itself again.
pub fn show() {
    let hidden = &mut state::get().hidden;
    for place in hidden.all() {
        // What has been unmapped is not there any more.
        if sys::read(*place) == Some(HIDDEN) {
            changing(place & !(PAGE - 1)..place + CPUID.len() as u64, PROT_READ | PROT_EXEC, || {
                sys::write(*place, &CPUID);
            });
        }
    }
    hidden.count = 0;
}

/// A part of a file has been mapped, from this offset on: if it is code, its CPUIDs are hidden.
pub fn mapped((file, key): (u64, Key), memory: Range<u64>, protection: u64, offset: u64) {
    let hidden = &mut state::get().hidden;
    if hidden.traps {
        return;
    }
    // What was there before is gone.
    let mut kept = 0;
    for i in 0..hidden.count {
        if !memory.contains(&hidden.places[i]) {
            hidden.places[kept] = hidden.places[i];
            kept += 1;
        }
    }
    hidden.count = kept;
    if protection & PROT_EXEC == 0 {
        return;
    }
    // SAFETY: one thread uses it.
    let found = unsafe { &mut *FOUND.0.get() };
    found.of(file, key);
    let part = offset..offset + (memory.end - memory.start);
    let places = || found.places[..found.count].iter().filter(|place| part.contains(place));
    let Some((first, last)) = places().min().zip(places().max()) else { return };
    let pages = (memory.start + (first - offset)) & !(PAGE - 1)..memory.start + (last - offset) + CPUID.len() as u64;
    changing(pages, protection, || {
        for place in places() {
            let at = memory.start + (place - offset);
            if hidden.count < MOST && sys::read(at) == Some(CPUID) && sys::write(at, &HIDDEN) {
                hidden.places[hidden.count] = at;
                hidden.count += 1;
            }
        }
    });
}

/// Changes code that nobody executes meanwhile: there is one thread, and it is here.
fn changing(memory: Range<u64>, protection: u64, change: impl FnOnce()) {
    let len = (memory.end - memory.start).next_multiple_of(PAGE);
    // SAFETY: pages of a private mapping, whose protection becomes what it was.
    unsafe {
        if sys::call3(sys::MPROTECT, memory.start, len, PROT_READ | PROT_WRITE) == 0 {
            change();
            sys::call3(sys::MPROTECT, memory.start, len, protection);
        }
    }
}

/// The places in a file, by their offsets.
struct Found {
    places: [u64; MOST],
    count: usize,
}

struct Room(UnsafeCell<Found>);

// SAFETY: the program has one thread as long as this is used.
unsafe impl Sync for Room {}

static FOUND: Room = Room(UnsafeCell::new(Found { places: [0; MOST], count: 0 }));

impl Found {
    /// Those of a file. Whoever finds them first leaves them for the others, and for other logs, whose system has the same file.
    fn of(&mut self, file: u64, key: Key) {
        let entry = files::entry_in(SHARED_PLACES, key);
        if self.read(&entry) {
            return;
        }
        self.count = 0;
        if let Some(view) = View::open(file) {
            view.instructions(|place| {
                if let Some(slot) = self.places.get_mut(self.count) {
                    *slot = place;
                    self.count += 1;
                }
            });
            view.close();
        }
        self.write(&entry);
    }

    fn bytes(&self) -> u64 {
        size_of_val(&self.places[..self.count]) as u64
    }

    fn read(&mut self, entry: &Entry) -> bool {
        let file = entry.open(0);
        if file < 0 {
            return false;
        }
        // SAFETY: room for so many bytes.
        unsafe {
            let args = [file as u64, self.places.as_mut_ptr() as u64, size_of_val(&self.places) as u64, 0, 0, 0];
            let read = sys::call(sys::PREAD, args);
            sys::call3(sys::CLOSE, file as u64, 0, 0);
            self.count = usize::try_from(read).unwrap_or(0) / size_of::<u64>();
            read >= 0
        }
    }

    fn write(&self, entry: &Entry) {
        // Only what is whole gets the name.
        let new = entry.with(format_args!(".{}", state::get().pid));
        let file = new.open(sys::O_RDWR | sys::O_CREAT | sys::O_EXCL);
        if file < 0 {
            return;
        }
        // SAFETY: so many bytes.
        let written = unsafe {
            let args = [file as u64, self.places.as_ptr() as u64, self.bytes(), 0, 0, 0];
            let written = sys::call(sys::PWRITE, args);
            sys::call3(sys::CLOSE, file as u64, 0, 0);
            written
        };
        if written != self.bytes() as i64 || !new.rename(entry) {
            new.remove();
        }
    }
}

/// A file, all of it in memory.
struct View {
    elf: Elf,
    size: u64,
}

impl View {
    /// None where the file is no ELF file, or there is no memory.
    fn open(file: u64) -> Option<Self> {
        let elf = Elf::read(file)?;
        let size = elf.size();
        let args = [VIEW, size, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, 0];
        // SAFETY: replaces nothing.
        let mapped = unsafe { sys::call(sys::MMAP, args) };
        (mapped == VIEW as i64).then_some(Self { elf, size })
    }

    fn close(&self) {
        // SAFETY: this program's own memory.
        unsafe { sys::call3(sys::MUNMAP, VIEW, self.size, 0) };
    }

    fn bytes(&self, at: u64, len: u64) -> Option<&[u8]> {
        let end = at.checked_add(len).filter(|end| *end <= self.size)?;
        // SAFETY: the file is mapped there, so long.
        Some(unsafe { core::slice::from_raw_parts((VIEW + at) as *const u8, (end - at) as usize) })
    }

    fn number<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        self.bytes(at, N as u64)?.try_into().ok()
    }

    fn offset(&self, at: u64) -> Option<i32> {
        self.number(at).map(i32::from_le_bytes)
    }

    /// Says where in the file its CPUIDs are.
    fn instructions(&self, mut see: impl FnMut(u64)) {
        for segment in self.elf.loads().filter(|segment| segment.flags & PF_X != 0) {
            let start = segment.offset;
            let end = start.saturating_add(segment.file_size).min(self.size);
            let Some(code) = (start < end).then(|| self.bytes(start, end - start)).flatten() else { continue };
            each_pair(code, |at| {
                let place = start + at as u64;
                let address = place - segment.offset + segment.address;
                let clean = match self.frame(address) {
                    Some(range) if range.contains(&address) => self.decode(place, address - range.start) == Some(0),
                    around => {
                        let back = self.way_back(place, around.map_or(u64::MAX, |range| address - range.end));
                        let unclean = back.and_then(|back| Some((back, self.decode(place, back)?)));
                        unclean.is_some_and(|(back, unclean)| unclean == 0 || back - unclean >= CLEAN)
                    }
                };
                if clean {
                    see(place);
                }
            });
        }
    }

    /// The addresses of the last function with a frame that begins before this one; it may end before it, too.
    fn frame(&self, address: u64) -> Option<Range<u64>> {
        /// How numbers in the table are written: relative to it, with 4 bytes; their count is one of 4 bytes.
        const TABLE: [u8; 2] = [3, 0x3b];
        let segment = self.elf.segments().find(|segment| segment.kind == PT_GNU_EH_FRAME)?;
        let head: [u8; 12] = self.number(segment.offset)?;
        if [head[2], head[3]] != TABLE {
            return None;
        }
        let count = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        let entry = |i: u32| {
            let at = segment.offset + 12 + 8 * u64::from(i);
            Some([self.offset(at)?, self.offset(at + 4)?].map(|n| segment.address.wrapping_add_signed(n.into())))
        };
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if entry(middle)?[0] <= address { low = middle + 1 } else { high = middle }
        }
        let [start, frame] = entry(low.checked_sub(1)?)?;
        // A frame: length, place of what is common, start relative to that field, bytes of code.
        let at = frame - segment.address + segment.offset;
        let begins = (frame + 8).wrapping_add_signed(self.offset(at + 8)?.into());
        let bytes = u64::from(u32::from_le_bytes(self.number(at + 12)?));
        (begins == start).then_some(start..start + bytes)
    }

    /// How far before a place decoding begins where no frame covers it: not before the last one's end, within its section of code.
    fn way_back(&self, place: u64, behind_frame: u64) -> Option<u64> {
        let (at, count) = self.elf.sections();
        (0..count).find_map(|i| {
            let header = at + SECTION * i;
            let word = |field: u64| self.number(header + field).map(u64::from_le_bytes);
            let (flags, offset, size) = (word(8)?, word(24)?, word(32)?);
            let holds = flags & CODE_SECTION == CODE_SECTION && (offset..offset.checked_add(size)?).contains(&place);
            holds.then(|| BACK.min(behind_frame).min(place - offset))
        })
    }

    /// Decodes from so far before a place; none unless an instruction starts there. Up to where, from there on, no instruction is: bytes that are none are passed one by one.
    fn decode(&self, place: u64, back: u64) -> Option<u64> {
        let code = self.bytes(place.checked_sub(back)?, back + CPUID.len() as u64)?;
        let (mut at, mut unclean) = (0, 0);
        while at < back as usize {
            match length(&code[at..]) {
                Some(len) => at += len,
                None => {
                    at += 1;
                    unclean = at as u64;
                }
            }
        }
        (at == back as usize).then_some(unclean)
    }
}

/// Bytes of the instruction at the start of some code; none where it is none.
fn length(code: &[u8]) -> Option<usize> {
    let mut decoded = core::mem::MaybeUninit::<bddisasm_sys::INSTRUX>::uninit();
    let (mode, size) = (bddisasm_sys::ND_CODE_64 as u8, bddisasm_sys::ND_DATA_64 as u8);
    // SAFETY: the decoder reads so many bytes, and writes the structure whenever it says that all is well.
    unsafe {
        let status = bddisasm_sys::NdDecodeEx(decoded.as_mut_ptr(), code.as_ptr(), code.len() as u64, mode, size);
        (status == 0).then(|| usize::from((*decoded.as_ptr()).Length))
    }
}

/// Where in some code the bytes of CPUID are.
fn each_pair(code: &[u8], mut see: impl FnMut(usize)) {
    const STEP: usize = 16;
    let [first, second] = CPUID.map(|byte| {
        // SAFETY: in every processor.
        unsafe { _mm_set1_epi8(byte as i8) }
    });
    let mut at = 0;
    while at + STEP < code.len() {
        // SAFETY: 17 bytes are there.
        let mut found = unsafe {
            let [one, two] = [at, at + 1].map(|at| _mm_loadu_si128(code.as_ptr().add(at).cast::<__m128i>()));
            _mm_movemask_epi8(_mm_and_si128(_mm_cmpeq_epi8(one, first), _mm_cmpeq_epi8(two, second)))
        };
        while found != 0 {
            see(at + found.trailing_zeros() as usize);
            found &= found - 1;
        }
        at += STEP;
    }
    (at..code.len().saturating_sub(1)).filter(|at| code[*at..][..2] == CPUID).for_each(see);
}
