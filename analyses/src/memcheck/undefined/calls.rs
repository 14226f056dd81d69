//! What system calls, and instructions that replay does not execute, take and make defined.

use super::bits::DEFINED;
use super::origins::OriginId;
use super::recipe::Mask;
use super::regs::Regs;
use super::stored;
use super::{Flow, Thread, Undefined, Use, Used};
use crate::memcheck::heap::Heap;
use bugnet_events::atoms::Atoms;
use bugnet_events::stretch::Ran;
use bugnet_format::types::{Addr, Position, Tid};
use bugnet_replay::cursor::Place;
use bugnet_replay::memory::Memory as _;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::syscall::Made;
use iced_x86::{Instruction, Mnemonic, Register};

/// Registers with a system call's arguments, and its number (System V ABI, A.2.1).
const ARGUMENTS: [Register; 6] =
    [Register::RDI, Register::RSI, Register::RDX, Register::R10, Register::R8, Register::R9];
/// How many arguments calls take, whatever these are.
const COUNTS: &[(i64, usize)] = &[
    (libc::SYS_read, 3),
    (libc::SYS_write, 3),
    (libc::SYS_close, 1),
    (libc::SYS_stat, 2),
    (libc::SYS_fstat, 2),
    (libc::SYS_lstat, 2),
    (libc::SYS_poll, 3),
    (libc::SYS_lseek, 3),
    (libc::SYS_mmap, 6),
    (libc::SYS_mprotect, 3),
    (libc::SYS_munmap, 2),
    (libc::SYS_brk, 1),
    (libc::SYS_rt_sigaction, 4),
    (libc::SYS_rt_sigprocmask, 4),
    (libc::SYS_pread64, 4),
    (libc::SYS_pwrite64, 4),
    (libc::SYS_readv, 3),
    (libc::SYS_writev, 3),
    (libc::SYS_access, 2),
    (libc::SYS_pipe, 1),
    (libc::SYS_dup, 1),
    (libc::SYS_dup2, 2),
    (libc::SYS_nanosleep, 2),
    (libc::SYS_alarm, 1),
    (libc::SYS_socket, 3),
    (libc::SYS_listen, 2),
    (libc::SYS_exit, 1),
    (libc::SYS_exit_group, 1),
    (libc::SYS_kill, 2),
    (libc::SYS_ftruncate, 2),
    (libc::SYS_getdents64, 3),
    (libc::SYS_chdir, 1),
    (libc::SYS_rename, 2),
    (libc::SYS_mkdir, 2),
    (libc::SYS_rmdir, 1),
    (libc::SYS_unlink, 1),
    (libc::SYS_readlink, 3),
    (libc::SYS_clock_gettime, 2),
    (libc::SYS_clock_nanosleep, 4),
    (libc::SYS_newfstatat, 4),
    (libc::SYS_getrandom, 3),
];
/// Which argument of calls is a path.
const PATHS: &[(i64, usize)] = &[
    (libc::SYS_open, 0),
    (libc::SYS_openat, 1),
    (libc::SYS_stat, 0),
    (libc::SYS_lstat, 0),
    (libc::SYS_newfstatat, 1),
    (libc::SYS_access, 0),
    (libc::SYS_chdir, 0),
    (libc::SYS_mkdir, 0),
    (libc::SYS_rmdir, 0),
    (libc::SYS_unlink, 0),
    (libc::SYS_readlink, 0),
    (libc::SYS_execve, 0),
];
/// Bytes of a path that are looked at.
const LONGEST_PATH: u64 = 4096;
/// Bytes that a call may have written of which nobody knows what it writes, behind each address that it was given.
const GUESSED: u64 = 4096;
/// Most buffers of a call.
const BUFFERS: u64 = 1024;

impl Undefined<'_> {
    /// A system call, and registers that it changed.
    pub fn called(
        &mut self,
        place: Place,
        ran: &Ran<'_>,
        (made, changed): (Made, Atoms),
        heap: &Heap,
        symbols: &mut Symbolizer,
    ) {
        let number = Self::thread(&mut self.threads, &mut self.last, place.tid);
        let thread = &mut self.threads[number].1;
        let instruction = ran.block.instructions[0].instruction;
        self.flow.arguments(&mut thread.regs, place, instruction, made);
        self.flow.taken((place, instruction), made, heap);
        thread.regs.clear(mask_of(changed) | 1 | 1 << 1 | 1 << 11);
        self.flow.mapped(made);
        if made.result >= 0 || made.number.cast_signed() == libc::SYS_clock_nanosleep {
            self.flow.written(place, made, heap, symbols);
        }
    }

    /// RAX is defined from now on.
    pub fn define_result(&mut self, tid: Tid) {
        let number = Self::thread(&mut self.threads, &mut self.last, tid);
        self.threads[number].1.regs.clear(1);
    }

    /// Bytes of memory at a place, or fewer.
    pub fn bytes(&mut self, place: Place, addr: u64, len: u64) -> Option<Vec<u8>> {
        self.flow.bytes(place, addr, len)
    }

    /// It is not known what a function has needed.
    pub fn count_unknown(&mut self) {
        self.flow.counts.unknown += 1;
    }

    /// A function needs these bytes, in which something undefined was used: what is undefined of them, if anything.
    pub fn needed(&mut self, ranges: &[(u64, u64)], used: Used, heap: &Heap) -> Option<Used> {
        let found = ranges.iter().find_map(|(addr, len)| self.flow.memory.first_undefined(*addr, *len));
        let (first, origin) = found?;
        let origin = self.flow.origins.load(origin, first, (used.place, used.ip), heap.holding(first));
        Some(Used { origin, ..used })
    }

    /// The process ends by a system call, which is the last instruction, and was not executed to its end.
    pub fn exits(&mut self, place: Place, instruction: Instruction) {
        let number = Self::thread(&mut self.threads, &mut self.last, place.tid);
        let (bits, origin) = self.threads[number].1.regs.get(Register::EDI);
        if bits != DEFINED {
            let (what, ip) = (Use::Argument(0), instruction.ip());
            self.flow.found.push(Used { what, place, ip, instruction, origin });
        }
    }

    /// An instruction whose results come from outside, and registers that it set.
    pub fn set(&mut self, place: Place, ran: &Ran<'_>, changed: Atoms) {
        let number = Self::thread(&mut self.threads, &mut self.last, place.tid);
        let thread = &mut self.threads[number].1;
        thread.regs.clear(mask_of(changed));
        let instruction = ran.block.instructions[0].instruction;
        if !stored::stores(&instruction) {
            return;
        }
        let Some(addr) = self.flow.address(place, &instruction) else { return };
        let is_chosen = stored::is_chosen(&instruction);
        let (asked, saved) = if is_chosen { self.flow.chosen(place, addr) } else { (0, None) };
        for part in stored::parts(&instruction, asked, saved) {
            self.flow.memory.define(addr.wrapping_add(part.start), part.end - part.start);
        }
        if is_chosen || matches!(instruction.mnemonic(), Mnemonic::Fxsave | Mnemonic::Fxsave64) {
            save(thread, addr);
        }
    }
}

/// Vector registers are saved.
fn save(thread: &mut Thread, addr: u64) {
    /// As many as there may be one in another, in signals' handlers.
    const MOST: usize = 64;
    thread.saved.retain(|(known, _)| *known != addr);
    if thread.saved.len() >= MOST {
        thread.saved.remove(0);
    }
    thread.saved.push((addr, thread.regs.clone()));
}

fn mask_of(atoms: Atoms) -> Mask {
    let registers = (0..16).filter(|number| atoms.meets(Atoms::gpr(*number)));
    let mask = registers.fold(0, |mask, number| mask | 1 << number);
    mask | u64::from(atoms.meets(Atoms::ALL_FLAGS)) << super::recipe::FLAGS
}

impl Flow<'_> {
    /// Where the memory operand of an instruction is that no trace tells.
    fn address(&mut self, place: Place, instr: &Instruction) -> Option<u64> {
        let registers = match self.values.registers(place) {
            Ok(registers) => registers?.clone(),
            Err(error) => return self.fail(error),
        };
        let value = |register: Register| match Regs::bit(register) {
            Some(bit) if bit < super::recipe::VECTORS => registers.gpr[bit as usize],
            _ => 0,
        };
        if matches!(instr.memory_segment(), Register::FS | Register::GS) {
            return None;
        }
        if instr.is_ip_rel_memory_operand() {
            return Some(instr.ip_rel_memory_address());
        }
        let index = value(instr.memory_index()).wrapping_mul(instr.memory_index_scale().into());
        Some(value(instr.memory_base()).wrapping_add(index).wrapping_add(instr.memory_displacement64()))
    }

    /// Which state components an instruction was asked to save, and which ones the header of its area then says that it saved, if that is known.
    fn chosen(&mut self, place: Place, addr: u64) -> (u64, Option<u64>) {
        let asked = match self.values.registers(place) {
            Ok(registers) => registers.map_or(!0, |regs| regs.gpr[2] << 32 | regs.gpr[0] & u64::from(u32::MAX)),
            Err(error) => return self.fail(error).unwrap_or((!0, None)),
        };
        let behind = Place { position: Position(place.position.0 + 1), ..place };
        let bytes = self.bytes(behind, addr.wrapping_add(stored::HEADER), stored::WORD);
        (asked, bytes.and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?))))
    }

    /// The registers with the call's number and arguments are to be defined.
    fn arguments(&mut self, regs: &mut Regs, place: Place, instruction: Instruction, made: Made) {
        let count =
            COUNTS.iter().find(|(number, _)| *number == made.number.cast_signed()).map_or(0, |(_, count)| *count);
        let number = [(6, Register::RAX)];
        let arguments = (0_u8..).zip(ARGUMENTS).take(count);
        for (index, register) in number.into_iter().chain(arguments) {
            // Descriptors, flags and the like are numbers of 32 bits.
            let is_half = is_number(made.number.cast_signed(), index);
            let narrow = if is_half { regs.get(register).0[0] & 0xffff_ffff } else { regs.get(register).0[0] };
            if narrow != 0 {
                let origin = regs.get(register).1;
                let (what, ip) = (Use::Argument(index), instruction.ip());
                self.found.push(Used { what, place, ip, instruction, origin });
                regs.set(register, &DEFINED, OriginId::NONE, false);
            }
        }
    }

    /// Memory that the call reads is to be defined.
    fn taken(&mut self, at: (Place, Instruction), made: Made, heap: &Heap) {
        let mut ranges: Vec<(u64, u64)> = made.read().into_iter().collect();
        let number = made.number.cast_signed();
        if [libc::SYS_writev, libc::SYS_pwritev].contains(&number) && made.result > 0 {
            let mut left = made.result.cast_unsigned();
            for (addr, len) in self.buffers(at.0, made.args[1], made.args[2]) {
                ranges.push((addr, len.min(left)));
                left = left.saturating_sub(len);
            }
        }
        if let Some((_, argument)) = PATHS.iter().find(|(known, _)| *known == number) {
            ranges.extend(self.text(at.0, made.args[*argument]));
        }
        for (addr, len) in ranges {
            let Some((first, origin)) = self.memory.first_undefined(addr, len) else { continue };
            let (place, instruction) = at;
            let origin = self.origins.load(origin, first, (place, instruction.ip()), heap.holding(first));
            let (what, ip) = (Use::Taken(first), instruction.ip());
            self.found.push(Used { what, place, ip, instruction, origin });
        }
    }

    /// A text up to its end, if anything behind its start is undefined.
    fn text(&mut self, place: Place, addr: u64) -> Option<(u64, u64)> {
        if addr == 0 || self.memory.first_undefined(addr, LONGEST_PATH).is_none() {
            return None;
        }
        let bytes = self.bytes(place, addr, LONGEST_PATH)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        Some((addr, end as u64 + 1))
    }

    fn bytes(&mut self, place: Place, addr: u64, len: u64) -> Option<Vec<u8>> {
        let read = match self.values.at(place) {
            Ok(session) => session?.read_memory(Addr(addr), len),
            Err(error) => return self.fail(error),
        };
        match read {
            Ok(bytes) => Some(bytes),
            Err(error) => self.fail(error),
        }
    }

    /// A list of buffers.
    fn buffers(&mut self, place: Place, addr: u64, count: u64) -> Vec<(u64, u64)> {
        let bytes = self.bytes(place, addr, 16 * count.min(BUFFERS)).unwrap_or_default();
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or(0);
        bytes.chunks_exact(16).map(|pair| (word(&pair[..8]), word(&pair[8..]))).collect()
    }

    /// What is mapped anew is defined.
    fn mapped(&mut self, made: Made) {
        let page = |len: u64| len.next_multiple_of(Addr::PAGE);
        let (args, result) = (made.args, made.result);
        let Some(done) = u64::try_from(result).ok().filter(|result| *result < (1 << 47)) else { return };
        match made.number.cast_signed() {
            libc::SYS_mmap => self.memory.define(done, page(args[1])),
            libc::SYS_munmap | libc::SYS_madvise => self.memory.define(args[0], page(args[1])),
            libc::SYS_mremap if done != args[0] => {
                self.memory.copy(args[0], done, page(args[1].min(args[2])));
                self.memory.define(args[0], page(args[1]));
            }
            // What lies behind is not there, or zero.
            libc::SYS_brk => self.memory.define(done, 1 << 24),
            _ => {}
        }
    }

    /// What the call has written is defined, or may have written, where nobody knows.
    fn written(&mut self, place: Place, made: Made, heap: &Heap, symbols: &mut Symbolizer) {
        let number = made.number.cast_signed();
        if [libc::SYS_recvmsg, libc::SYS_recvmmsg].contains(&number) {
            self.received(place, made.args[1]);
        }
        if [libc::SYS_readv, libc::SYS_preadv, libc::SYS_preadv2].contains(&number) {
            for (addr, len) in self.buffers(place, made.args[1], made.args[2]) {
                self.memory.define(addr, len);
            }
            return;
        }
        let ranges = if made.needs_memory() {
            match self.values.at(place) {
                Ok(session) => session.and_then(|session| made.written(Some(session), symbols)),
                Err(error) => self.fail(error),
            }
        } else {
            made.written(None, symbols)
        };
        match ranges {
            Some(ranges) => ranges.iter().for_each(|(addr, len)| self.memory.define(*addr, *len)),
            None => {
                for addr in made.args {
                    let block = heap.holding(addr).and_then(|block| Some(block.start + block.size?));
                    self.memory.define(addr, block.map_or(GUESSED, |end| end - addr));
                }
            }
        }
    }

    /// A `struct msghdr` says where a message goes.
    fn received(&mut self, place: Place, addr: u64) {
        let Some(header) = self.bytes(place, addr, 56).filter(|header| header.len() == 56) else { return };
        let word = |at: usize| header[at..at + 8].try_into().map(u64::from_le_bytes).unwrap_or(0);
        let (name, len, control, control_len) = (word(0), word(8) & 0xffff, word(32), word(40));
        for (addr, len) in self.buffers(place, word(16), word(24)) {
            self.memory.define(addr, len);
        }
        self.memory.define(name, len);
        self.memory.define(control, control_len.min(1 << 20));
        self.memory.define(addr, 56);
    }
}

/// Whether the kernel takes 32 bits of an argument.
fn is_number(number: i64, argument: u8) -> bool {
    let is_descriptor = argument == 0
        && !matches!(
            number,
            libc::SYS_mmap
                | libc::SYS_munmap
                | libc::SYS_mprotect
                | libc::SYS_brk
                | libc::SYS_stat
                | libc::SYS_lstat
                | libc::SYS_poll
                | libc::SYS_access
                | libc::SYS_pipe
                | libc::SYS_nanosleep
                | libc::SYS_chdir
                | libc::SYS_rename
                | libc::SYS_mkdir
                | libc::SYS_rmdir
                | libc::SYS_unlink
                | libc::SYS_readlink
                | libc::SYS_getrandom
        );
    let of_mmap = number == libc::SYS_mmap && (2..5).contains(&argument);
    let others = [
        (libc::SYS_socket, 1),
        (libc::SYS_socket, 2),
        (libc::SYS_listen, 1),
        (libc::SYS_kill, 1),
        (libc::SYS_dup2, 1),
        (libc::SYS_access, 1),
        (libc::SYS_lseek, 2),
        (libc::SYS_mprotect, 2),
        (libc::SYS_mkdir, 1),
        (libc::SYS_poll, 2),
        (libc::SYS_newfstatat, 3),
        (libc::SYS_getrandom, 2),
        (libc::SYS_clock_nanosleep, 1),
        (libc::SYS_getdents64, 2),
        (libc::SYS_poll, 1),
    ];
    is_descriptor || of_mmap || others.contains(&(number, argument))
}
