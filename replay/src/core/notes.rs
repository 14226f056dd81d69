//! The notes of a core file: registers, and what a debugger has to know of the process (`elf_prstatus` and the other structures of
//! `linux/elfcore.h`).

use super::PAGE;
use crate::mappings::{Mapping, Mappings};
use crate::symbols::Symbolizer;
use bugnet_format::process::ProcessInfo;
use bugnet_format::regs::RegisterFile;

/// Kinds of notes.
const PRSTATUS: u32 = 1;
const FPREGSET: u32 = 2;
const PRPSINFO: u32 = 3;
const AUXV: u32 = 6;
const XSTATE: u32 = 0x202;
const SIGINFO: u32 = 0x5349_4749;
const FILE: u32 = 0x4649_4c45;

/// Selectors of user code's segments on Linux.
const CODE_SEGMENT: u64 = 0x33;
const STACK_SEGMENT: u64 = 0x2b;
/// Bytes of the area of FXSAVE, and of that of XSAVE with AVX.
const FXSAVE: usize = 512;
const XSAVE: usize = FXSAVE + 64 + 256;
/// x87, SSE and AVX, of XCR0.
const COMPONENTS: u64 = 7;
/// Where XSAVE's area says what the processor had switched on, for debuggers.
const XCR0: usize = 464;

#[derive(Default)]
pub(super) struct Notes {
    pub bytes: Vec<u8>,
}

/// Bytes one after the other, at offsets that the kernel's structures have.
struct Structure(Vec<u8>);

impl Structure {
    fn of(size: usize) -> Self {
        Self(vec![0; size])
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl Notes {
    fn add(&mut self, name: &str, kind: u32, content: &[u8]) {
        let lengths = [name.len() as u32 + 1, content.len() as u32, kind];
        lengths.iter().for_each(|number| self.bytes.extend(number.to_le_bytes()));
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// A thread with its general purpose registers.
    pub fn status(&mut self, tid: u32, parent: u32, signal: i32, regs: &RegisterFile) {
        let mut status = Structure::of(336);
        status.put(0, &signal.to_le_bytes());
        status.put(12, &(signal as u16).to_le_bytes());
        status.put(32, &tid.to_le_bytes());
        status.put(36, &parent.to_le_bytes());
        let [rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15] = regs.gpr;
        // The order of `user_regs_struct`; the number of a system call is none.
        let all = [
            r15,
            r14,
            r13,
            r12,
            rbp,
            rbx,
            r11,
            r10,
            r9,
            r8,
            rax,
            rcx,
            rdx,
            rsi,
            rdi,
            u64::MAX,
            regs.rip,
            CODE_SEGMENT,
            regs.rflags,
            rsp,
            STACK_SEGMENT,
            regs.fs_base,
            regs.gs_base,
            0,
            0,
            0,
            0,
        ];
        for (number, value) in all.iter().enumerate() {
            status.put(112 + 8 * number, &value.to_le_bytes());
        }
        status.put(328, &1_u32.to_le_bytes());
        self.add("CORE", PRSTATUS, &status.0);
    }

    /// A thread's x87, SSE and AVX registers.
    pub fn vectors(&mut self, regs: &RegisterFile) {
        let mut area = Structure::of(XSAVE);
        area.put(0, &regs.fcw.to_le_bytes());
        area.put(2, &regs.fsw.to_le_bytes());
        area.put(4, &[regs.ftw]);
        area.put(24, &regs.mxcsr.to_le_bytes());
        area.put(28, &0xffff_u32.to_le_bytes());
        for (number, register) in regs.st.iter().enumerate() {
            area.put(32 + 16 * number, register);
        }
        for (number, register) in regs.ymm.iter().enumerate() {
            area.put(160 + 16 * number, &register[..16]);
            area.put(FXSAVE + 64 + 16 * number, &register[16..]);
        }
        self.add("CORE", FPREGSET, &area.0[..FXSAVE]);
        area.put(XCR0, &COMPONENTS.to_le_bytes());
        area.put(FXSAVE, &COMPONENTS.to_le_bytes());
        self.add("LINUX", XSTATE, &area.0);
    }

    /// The process: its id, and its command line.
    pub fn process(&mut self, pid: u32, parent: u32, info: Option<&ProcessInfo>) {
        let mut process = Structure::of(136);
        process.put(1, b"R");
        process.put(24, &pid.to_le_bytes());
        process.put(28, &parent.to_le_bytes());
        if let Some(info) = info {
            // Each ends with a zero byte.
            let name = info.program.rsplit('/').next().unwrap_or_default().as_bytes();
            process.put(40, &name[..name.len().min(15)]);
            let args = info.args.join(" ");
            process.put(56, &args.as_bytes()[..args.len().min(79)]);
        }
        self.add("CORE", PRPSINFO, &process.0);
    }

    /// The signal that killed the process.
    pub fn signal(&mut self, number: i32, code: i32, addr: u64) {
        let mut signal = Structure::of(128);
        signal.put(0, &number.to_le_bytes());
        signal.put(8, &code.to_le_bytes());
        signal.put(16, &addr.to_le_bytes());
        self.add("CORE", SIGINFO, &signal.0);
    }

    /// Where the program and its loader are, by which debuggers find all else.
    pub fn auxiliary(&mut self, symbols: &mut Symbolizer, program: &str) {
        let modules = symbols.modules();
        let mut vector: Vec<(u64, u64)> = vec![(6, PAGE)];
        if let Some((module, Some(image))) = modules.iter().find(|(module, _)| module.path == program)
            && let Some((entry, headers, count)) = image.start()
        {
            let bias = module.base.wrapping_sub(image.address(0));
            vector.extend([(3, headers.wrapping_add(bias)), (4, 56), (5, count), (9, entry.wrapping_add(bias))]);
        }
        let is_loader = |path: &str| path.rsplit('/').next().is_some_and(|name| name.starts_with("ld-"));
        if let Some((module, _)) = modules.iter().find(|(module, _)| is_loader(&module.path)) {
            vector.push((7, module.base));
        }
        vector.push((0, 0));
        let bytes: Vec<u8> =
            vector.into_iter().flat_map(|(key, value)| [key, value]).flat_map(u64::to_le_bytes).collect();
        self.add("CORE", AUXV, &bytes);
    }

    /// The files that are mapped.
    pub fn files(&mut self, mappings: &Mappings) {
        let mapped: Vec<&Mapping> = mappings.all.iter().filter(|mapping| mapping.is_of_file()).collect();
        let mut bytes: Vec<u8> = [mapped.len() as u64, PAGE].into_iter().flat_map(u64::to_le_bytes).collect();
        for Mapping { start, end, offset, .. } in &mapped {
            [*start, *end, offset / PAGE].into_iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        }
        for Mapping { name, .. } in &mapped {
            bytes.extend(name.as_bytes());
            bytes.push(0);
        }
        self.add("CORE", FILE, &bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_have_the_sizes_of_the_kernels() {
        let mut notes = Notes::default();
        notes.status(7, 1, 11, &RegisterFile { rip: 0x1234, ..RegisterFile::default() });
        // Header and name, then the structure.
        assert_eq!(notes.bytes.len(), 20 + 336);
        assert_eq!(notes.bytes[20 + 32..20 + 36], 7_u32.to_le_bytes());
        assert_eq!(notes.bytes[20 + 112 + 16 * 8..][..8], 0x1234_u64.to_le_bytes());
        let mut notes = Notes::default();
        notes.vectors(&RegisterFile::default());
        assert_eq!(notes.bytes.len(), 20 + FXSAVE + 20 + XSAVE);
    }
}
