//! Call sites that are used often jump here, and do not trap: a call that traps costs more than a microsecond.
//!
//! Libc's wrappers are few, and look alike: `mov eax, NUMBER; syscall`, with several threads sometimes with loads of arguments between the two, and for `read`, whose number is 0,
//! a test of one byte, `xor eax, eax; syscall`, or loads of arguments, `xor eax, eax; syscall`. An instruction in front of the `syscall` becomes a jump to a stub near it:
//!
//! ```text
//! site: jmp stub        stub: what the jump has replaced, and what follows it, but for the number
//!       syscall               mov eax, INDEX << 16 ; jmp [bugnet_fast]
//!       cmp rax, -4095        bugnet_fast: the thread is found by the base of its FS; on a stack of its slot, the call is made and kept
//!                                 ├─ done ──────────────> behind the syscall, RCX and R11 as it leaves them
//!                                 ├─ a signal has come ─> ud2, whose handler delivers it behind the call
//!                                 └─ otherwise, or another thread ─> the syscall, which traps as before
//! ```
//!
//! The jump replaces nothing that an expansion executes otherwise: there, the file has what stood at the site. Moments are kept with those bytes ([`original`]).
//! It is one instruction, so that no thread goes on in its middle, and who writes it has the turn.
//! Signals that come meanwhile find our own code, and wait. Only sites in libc's own code are changed, and only after they have trapped often.

use crate::calls;
use crate::death;
use crate::end;
use crate::epoch::{self, Place};
use crate::layout::MADE_AGAIN;
use crate::moment;
use crate::reach::LINE;
use crate::signals::{self, Context};
use crate::state;
use crate::sys::{self, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE, MAP_PRIVATE, PROT_EXEC, PROT_READ, PROT_WRITE};
use crate::thread::{self, CALLS_END, Thread};
use crate::turn;
use core::arch::{asm, global_asm};
use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicU64, Ordering};

const PAGE: u64 = 4096;
/// So often a site traps before it jumps.
const OFTEN: u32 = 24;
/// Most sites, bytes of each one's stub, and of all of them.
const MOST: usize = 128;
const STUB: usize = 64;
const STUBS: u64 = (MOST * STUB) as u64;
/// The jump's first byte.
const JUMP: u8 = 0xe9;
/// Threads are looked up by so many bits of what the base of FS, times [`SPREAD`], has in its low half.
const BITS: u32 = 15;
const SPREAD: u32 = 0x9e37_79b1;
/// Bases are multiples of this.
const ALIGNED: u32 = 6;

/// A site of a call.
#[derive(Clone, Copy)]
struct Site {
    /// Behind the `syscall`.
    back: u64,
    number: u64,
    times: u32,
    /// What was replaced: where, and how many of these bytes; none of a site that traps.
    at: u64,
    len: usize,
    original: [u8; 8],
}

/// All of them.
pub struct Hot {
    sites: [Site; MOST],
    count: usize,
    /// Where libc's code is.
    libc: (u64, u64),
    /// Where the stubs are, and behind them the address that they jump to; 0 before there are any.
    stubs: u64,
    /// Whether no site is to jump: there are threads that have no base of FS of their own, or each call is to trap.
    pub is_off: bool,
}

impl Hot {
    pub const fn new() -> Self {
        let site = Site { back: 0, number: 0, times: 0, at: 0, len: 0, original: [0; 8] };
        Self { sites: [site; MOST], count: 0, libc: (0, 0), stubs: 0, is_off: false }
    }
}

/// The program's registers while a call is served: vectors, what the call leaves as it is, what it may change, flags, the site's index, which becomes the address at which it goes on, and the
/// stack pointer.
#[repr(C)]
pub struct Frame {
    vectors: [[u64; 2]; 16],
    r15: u64,
    r14: u64,
    r13: u64,
    r12: u64,
    rbp: u64,
    rbx: u64,
    r9: u64,
    r8: u64,
    r10: u64,
    rdx: u64,
    rsi: u64,
    rdi: u64,
    rax: u64,
    flags: u64,
    target: u64,
    rsp: u64,
}

impl Frame {
    /// The registers at the call's instruction, in the order of a signal's; RCX and R11, which the call changes, are not known.
    pub fn registers(&self) -> [u64; 18] {
        let Self { r8, r9, r10, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rsp, target, flags, .. } = *self;
        [r8, r9, r10, 0, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, 0, rsp, target, flags]
    }

    /// The lower halves of the vector registers.
    pub fn vectors(&self) -> &[[u64; 2]; 16] {
        &self.vectors
    }
}

/// Where the slots of threads begin, by the base of FS.
static THREADS: [AtomicU64; 1 << BITS] = [const { AtomicU64::new(0) }; 1 << BITS];
/// Where that is, and where the sites are.
static THREADS_AT: AtomicU64 = AtomicU64::new(0);
static SITES_AT: AtomicU64 = AtomicU64::new(0);

// A call may change RCX and R11, and the number of this one is known: so there are three registers to work with, of which one keeps the flags.
global_asm!(
    ".globl bugnet_fast, bugnet_fast_deliver",
    "bugnet_fast:",
    "lahf",
    "seto al",
    "mov r11, fs:[0]",
    "mov rcx, r11",
    "shr rcx, {aligned}",
    "imul ecx, ecx, {spread}",
    "shr ecx, 32 - {bits}",
    "shl ecx, 3",
    "add rcx, [rip + {threads}]",
    "mov rcx, [rcx]",
    "test rcx, rcx",
    "jz 2f",
    "cmp r11, [rcx + {base}]",
    "jne 2f",
    "mov r11, rsp",
    "lea rsp, [rcx + {end}]",
    "push r11",
    "mov ecx, eax",
    "shr ecx, 16",
    "push rcx",
    "add al, 127",
    "sahf",
    "pushfq",
    "cld",
    "push rax", "push rdi", "push rsi", "push rdx", "push r10", "push r8", "push r9",
    // Whoever begins an epoch meanwhile reads these ([`crate::epoch`]).
    "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15",
    "sub rsp, 256",
    "movups [rsp], xmm0", "movups [rsp + 16], xmm1", "movups [rsp + 32], xmm2", "movups [rsp + 48], xmm3",
    "movups [rsp + 64], xmm4", "movups [rsp + 80], xmm5", "movups [rsp + 96], xmm6", "movups [rsp + 112], xmm7",
    "movups [rsp + 128], xmm8", "movups [rsp + 144], xmm9", "movups [rsp + 160], xmm10", "movups [rsp + 176], xmm11",
    "movups [rsp + 192], xmm12", "movups [rsp + 208], xmm13", "movups [rsp + 224], xmm14", "movups [rsp + 240], xmm15",
    "mov rdi, rsp",
    "call {serve}",
    "movups xmm0, [rsp]", "movups xmm1, [rsp + 16]", "movups xmm2, [rsp + 32]", "movups xmm3, [rsp + 48]",
    "movups xmm4, [rsp + 64]", "movups xmm5, [rsp + 80]", "movups xmm6, [rsp + 96]", "movups xmm7, [rsp + 112]",
    "movups xmm8, [rsp + 128]", "movups xmm9, [rsp + 144]", "movups xmm10, [rsp + 160]", "movups xmm11, [rsp + 176]",
    "movups xmm12, [rsp + 192]", "movups xmm13, [rsp + 208]", "movups xmm14, [rsp + 224]", "movups xmm15, [rsp + 240]",
    "add rsp, 256 + 48",
    "pop r9", "pop r8", "pop r10", "pop rdx", "pop rsi", "pop rdi", "pop rax",
    "pop r11",
    "pop rcx",
    "push r11",
    "popfq",
    "pop rsp",
    "jmp rcx",
    // Not a thread that is known: the call is made as if the site did not jump.
    "2:",
    "mov ecx, eax",
    "shr ecx, 16",
    "imul ecx, ecx, {site}",
    "add rcx, [rip + {sites}]",
    "mov r11, [rcx + {back}]",
    "sub r11, 2",
    "mov ecx, [rcx + {number}]",
    "add al, 127",
    "sahf",
    "mov eax, ecx",
    "jmp r11",
    "bugnet_fast_deliver:",
    "ud2",
    aligned = const ALIGNED,
    spread = const SPREAD.cast_signed(),
    bits = const BITS,
    threads = sym THREADS_AT,
    base = const offset_of!(Thread, base),
    end = const CALLS_END,
    serve = sym serve,
    site = const size_of::<Site>(),
    sites = sym SITES_AT,
    back = const offset_of!(Site, back),
    number = const offset_of!(Site, number),
);

unsafe extern "C" {
    fn bugnet_fast();
    fn bugnet_fast_deliver();
}

/// The program has mapped a part of a file: is it libc's code?
pub fn mapped(path: &[u8], at: u64, len: u64, protection: u64) {
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
    if protection & PROT_EXEC != 0 && (name.starts_with(b"libc.so") || name.starts_with(b"libc-2")) {
        state::get().hot.libc = (at, at + len);
    }
}

/// Whether an address is in a stub.
pub fn is_stub(rip: u64) -> bool {
    let stubs = state::get().hot.stubs;
    stubs != 0 && (stubs..stubs + STUBS).contains(&rip)
}

/// A call has trapped, whose instruction ends here.
pub fn count(back: u64, number: u64) {
    let hot = &mut state::get().hot;
    if !(hot.libc.0..hot.libc.1).contains(&back) || !calls::is_plain(number) || hot.is_off {
        return;
    }
    let found = hot.sites[..hot.count].iter().position(|site| site.back == back);
    let index = match found {
        Some(index) => index,
        None if hot.count < MOST => {
            hot.sites[hot.count].back = back;
            hot.count += 1;
            hot.count - 1
        }
        None => return,
    };
    let site = &mut hot.sites[index];
    site.times = site.times.saturating_add(1);
    if site.len > 0 {
        // It has jumped, but was not known by its base.
        has_base(thread::get(), own_base());
    } else if site.times == OFTEN {
        change(hot, index, number);
    }
}

/// The bytes of a line of memory as they would be without us.
pub fn original(at: u64, bytes: &mut [u8; LINE]) {
    let hot = &state::get().hot;
    for site in hot.sites[..hot.count].iter().filter(|site| site.len > 0) {
        for (i, byte) in site.original[..site.len].iter().enumerate() {
            let offset = (site.at + i as u64).wrapping_sub(at) as usize;
            if let Some(slot) = bytes.get_mut(offset) {
                *slot = *byte;
            }
        }
    }
}

/// Code that is being written.
struct Code {
    bytes: [u8; STUB],
    len: usize,
    at: u64,
}

impl Code {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// An address as an instruction has it that ends so many bytes behind it.
    fn relative(&mut self, to: u64, behind: u64) -> bool {
        let distance = to.wrapping_sub(self.at + self.len as u64 + 4 + behind) as i64;
        let Ok(distance) = i32::try_from(distance) else { return false };
        self.put(&distance.to_le_bytes());
        true
    }
}

/// What loads the arguments of `read` where there are several threads: `mov rsi, [rsp + 16]; mov r8d, eax; mov edi, [rsp + 8]; xor eax, eax`.
const LOADS: [u8; 14] = [0x48, 0x8b, 0x74, 0x24, 0x10, 0x41, 0x89, 0xc0, 0x8b, 0x7c, 0x24, 0x08, 0x31, 0xc0];

/// Most bytes of loads between number and `syscall`.
const BETWEEN: usize = 10;

/// Whether code consists of loads of arguments: `mov REGISTER, [rsp + BYTE]`, with EDX, ESI or EDI, or all 64 bits of them.
fn are_loads(code: &[u8]) -> bool {
    match code.strip_prefix(&[0x48]).unwrap_or(code) {
        [] => code.is_empty(),
        [0x8b, 0x54 | 0x74 | 0x7c, 0x24, _, rest @ ..] => are_loads(rest),
        _ => false,
    }
}

/// How many bytes of loads are between the instruction that loads a call's number and the `syscall` in front of which these bytes are, if that is how they look.
fn between(before: &[u8], number: u32) -> Option<usize> {
    (0..=BETWEEN).find(|len| {
        let (rest, loads) = before.split_at(before.len() - len);
        rest.ends_with(&number.to_le_bytes()) && rest[rest.len() - 5] == 0xb8 && are_loads(loads)
    })
}

/// The site jumps from here on, if it looks as expected.
fn change(hot: &mut Hot, index: usize, number: u64) {
    let back = hot.sites[index].back;
    let Some(bytes) = sys::read::<24>(back - 24) else { return };
    let before = &bytes[8..];
    let between = between(&bytes[..22], number as u32);
    let tested =
        number == 0 && before[3..5] == [0x80, 0x3d] && before[9..11] == [0, 0x74] && before[12..14] == [0x31, 0xc0];
    let loaded = number == 0 && before[..14] == LOADS;
    if before[14..] != [0x0f, 0x05] || !(between.is_some() || tested || loaded) || !make_room(hot, back) {
        return;
    }
    let (at, len) = if let Some(len) = between {
        (back - calls::BYTES - len as u64 - 5, 5)
    } else if tested {
        (back - 13, 7)
    } else {
        (back - 16, 5)
    };
    let mut code = Code { bytes: [0; STUB], len: 0, at: hot.stubs + (index * STUB) as u64 };
    let mut fits = true;
    if let Some(len) = between {
        code.put(&before[14 - len..14]);
    } else if loaded {
        code.put(&LOADS);
    } else if tested {
        let offset = i32::from_le_bytes([before[5], before[6], before[7], before[8]]);
        let tests = (at + 7).wrapping_add_signed(offset.into());
        let other = (at + 9).wrapping_add_signed((before[11] as i8).into());
        code.put(&before[3..5]);
        fits &= code.relative(tests, 1);
        code.put(&[0, 0x0f, 0x84]);
        fits &= code.relative(other, 0);
        code.put(&[0x31, 0xc0]);
    }
    code.put(&[0xb8]);
    code.put(&((index as u32) << 16).to_le_bytes());
    code.put(&[0xff, 0x25]);
    fits &= code.relative(hot.stubs + STUBS, 0);
    let mut jump = Code { bytes: [0x90; STUB], len: 0, at };
    jump.put(&[JUMP]);
    fits &= jump.relative(code.at, 0);
    if !fits || !write_code(code.at, &code.bytes[..code.len]) || !write_code(at, &jump.bytes[..len]) {
        return;
    }
    let site = &mut hot.sites[index];
    site.original[..len].copy_from_slice(&bytes[(at + 24 - back) as usize..][..len]);
    (site.at, site.len, site.number) = (at, len, number);
}

/// A thread's base of FS is this one: it is found by it where a site jumps.
pub fn has_base(thread: &mut Thread, base: u64) {
    let of = |base: u64| {
        let spread = ((base >> ALIGNED) as u32).wrapping_mul(SPREAD);
        &THREADS[(spread >> (u32::BITS - BITS)) as usize]
    };
    let slot = &raw const *thread as u64;
    let _ = of(thread.base).compare_exchange(slot, 0, Ordering::Relaxed, Ordering::Relaxed);
    thread.base = base;
    // Of two threads at one place, the first one traps from here on.
    of(base).store(slot, Ordering::Relaxed);
}

/// A thread may have another one's base of FS, so that nothing tells them apart: all sites trap.
pub fn turn_off() {
    forget();
    state::get().hot.is_off = true;
}

/// The calling thread changes the base of FS.
pub fn changes_base() {
    if state::get().hot.stubs != 0 {
        turn_off();
    }
}

/// The sites trap again, as they did: the light part is over.
pub fn forget() {
    let hot = &mut state::get().hot;
    for site in hot.sites[..hot.count].iter_mut().filter(|site| site.len > 0) {
        // What has been unmapped is not there any more.
        if sys::read(site.at) == Some([JUMP]) {
            write_code(site.at, &site.original[..site.len]);
        }
        site.len = 0;
    }
}

/// Memory for stubs near the code that jumps to them.
fn make_room(hot: &mut Hot, near: u64) -> bool {
    if hot.stubs != 0 {
        return true;
    }
    for megabytes in 16..512 {
        let at = (near & !0xf_ffff) - (megabytes << 20);
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
        // SAFETY: replaces nothing.
        let mapped = unsafe { sys::call(sys::MMAP, [at, STUBS + PAGE, PROT_READ | PROT_WRITE, flags, u64::MAX, 0]) };
        if mapped != at as i64 {
            continue;
        }
        // SAFETY: memory that was made just now.
        unsafe { ((at + STUBS) as *mut u64).write(bugnet_fast as *const () as u64) };
        THREADS_AT.store(THREADS.as_ptr() as u64, Ordering::Relaxed);
        SITES_AT.store(hot.sites.as_ptr() as u64, Ordering::Relaxed);
        hot.stubs = at;
        has_base(thread::get(), own_base());
        return true;
    }
    false
}

/// Writes code that nobody executes meanwhile: who has the turn is here.
fn write_code(at: u64, bytes: &[u8]) -> bool {
    let first = at & !(PAGE - 1);
    let len = (at + bytes.len() as u64).next_multiple_of(PAGE) - first;
    // SAFETY: libc's code, or a stub's page: readable and executable before and behind.
    unsafe {
        if sys::call3(sys::MPROTECT, first, len, PROT_READ | PROT_WRITE) < 0 {
            return false;
        }
        let written = sys::write(at, bytes);
        sys::call3(sys::MPROTECT, first, len, PROT_READ | PROT_EXEC) >= 0 && written
    }
}

/// The base of FS of the calling thread.
fn own_base() -> u64 {
    let base: u64;
    // SAFETY: libc's code is being executed, whose threads have their base there (the TLS of the ABI).
    unsafe { asm!("mov {}, fs:[0]", out(reg) base, options(nostack, readonly, preserves_flags)) };
    base
}

/// Serves a call at a site that jumps.
unsafe extern "C" fn serve(frame: &mut Frame) {
    let state = state::get();
    let Site { back, number, .. } = state.hot.sites[frame.target as usize % MOST];
    (frame.target, frame.rax) = (back - calls::BYTES, number);
    let me = thread::get();
    if !state.on || state.full || state.ends.is_some() || me.signals.has_come() {
        return;
    }
    let args = [frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8, frame.r9];
    if state.shared.stranger().is_some() || !calls::is_open(number, &args) {
        return;
    }
    me.stand.is_at(Place::Jump(&raw const *frame as u64));
    turn::give_way_if_asked();
    epoch::begin_if_due();
    let result = calls::make_open(number, &args);
    let has_come = me.signals.has_come();
    let is_again = state.ends.is_some() && result == -sys::EINTR
        || has_come
            && (result == MADE_AGAIN || result == -sys::EINTR && (signals::restarts(number) || death::has_come()));
    if !is_again {
        if state.on {
            calls::note_made(number, &args, result);
        }
        frame.rax = result as u64;
        frame.target = back;
        if me.signals.has_come() || turn::is_lost() {
            me.back = back;
            frame.target = bugnet_fast_deliver as *const () as u64;
        }
    }
}

/// Whether a signal is to be delivered behind a call, or the light part to end there.
pub fn is_delivery(rip: u64) -> bool {
    rip == bugnet_fast_deliver as *const () as u64
}

/// It is.
pub fn deliver(context: &mut Context) {
    const RCX: usize = 14;
    let me = thread::get();
    context.set_rip(me.back);
    context.set_register(RCX, me.back);
    context.set_mask(me.signals.mask);
    moment::over();
    if let Some(arrived) = me.signals.take_arrived() {
        signals::deliver(context, &arrived);
    }
    end::if_asked_for(context);
    end::leave_if_over(context);
}
