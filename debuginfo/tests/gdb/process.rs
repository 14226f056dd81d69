//! A program that dies under gdb: what gdb prints of its frames, and the core that it leaves.

#![allow(dead_code, reason = "each test uses a part")]

use bugnet_debuginfo::Limits;
use bugnet_debuginfo::companions::{self, Kind};
use bugnet_debuginfo::frame::{Frame, Stack};
use bugnet_debuginfo::image::{Files, Image};
use bugnet_debuginfo::memory::Memory;
use bugnet_debuginfo::registers::{GENERAL, RIP, Registers};
use bugnet_debuginfo::split::{SplitFiles, Wanted};
use bugnet_debuginfo::variable::Scope;
use object::Endianness;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Object, ObjectSegment, elf};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;

/// Frames that gdb is asked for.
const FRAMES: usize = 12;
/// Where a position-independent program lies under gdb, which turns randomisation off.
const PIE_BASE: u64 = 0x5555_5555_4000;

/// A value that gdb has printed, with the variants of `Option` and `Result` as one writes them, which is how we print them.
pub fn as_written(value: &str) -> String {
    let mut value = value.to_owned();
    for path in ["core::option::Option<", "core::result::Result<"] {
        while let Some(start) = value.find(path) {
            let mut depth = 0;
            let end = value[start..].find(|c| {
                depth += i32::from(c == '<') - i32::from(c == '>');
                c == '>' && depth == 0
            });
            let Some(end) = end.map(|end| start + end).filter(|end| value[*end..].starts_with(">::")) else { break };
            value.replace_range(start..end + ">::".len(), "");
        }
    }
    value
}

/// Compiles a program of the tests.
pub fn compile(folder: &Path, compiler: &str, source: &str, flags: &[&str]) -> PathBuf {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let copy = folder.join(source);
    fs::copy(programs.join(source), &copy).unwrap();
    let program = folder.join(source.split('.').next().unwrap());
    let mut command = Command::new(compiler);
    command.args(flags).arg("-o").arg(&program).arg(&copy).current_dir(folder);
    let output = command.output().unwrap_or_else(|e| panic!("{compiler} is needed: {e}"));
    assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

fn must(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Moves a program's debug information into a file of `folder`, with a link to it.
pub fn split_off(program: &Path, folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let debug = folder.join(format!("{}.debug", program.file_name().unwrap().to_str().unwrap()));
    must(Command::new("objcopy").arg("--only-keep-debug").arg(program).arg(&debug));
    must(Command::new("strip").arg("-g").arg(program));
    let link = format!("--add-gnu-debuglink={}", debug.display());
    must(Command::new("objcopy").arg(link).arg(program));
}

/// Lets programs share debug information, in the file `shared` of the folder.
pub fn share(folder: &Path, programs: &[&Path]) {
    let mut dwz = Command::new("dwz");
    dwz.arg("-m").arg(folder.join("shared")).args(programs);
    must(&mut dwz);
}

/// What became of a program that died.
pub struct Died {
    /// The variables of each frame as gdb prints them.
    pub frames: Vec<Vec<(String, String)>>,
    image: Rc<Image>,
    core: Core,
    bias: u64,
}

impl Died {
    /// Runs the program under gdb until it dies.
    pub fn under_gdb(folder: &Path, program: &Path) -> Self {
        let core = folder.join("core");
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off"]);
        let begin = ["set width 0", "set print max-depth 100", "run", "generate-core-file core"];
        begin.iter().for_each(|command| {
            gdb.args(["-ex", command]);
        });
        for number in 0..FRAMES {
            let mark = format!("echo @frame {number}\\n");
            for command in [mark.as_str(), &format!("frame {number}"), "echo @variables\\n", "info args", "info locals"]
            {
                gdb.args(["-ex", command]);
            }
        }
        gdb.arg(program).current_dir(folder).env("LC_ALL", "C").env("SHELL", "/bin/sh");
        let output = gdb.output().expect("gdb is needed for this test");
        let text = String::from_utf8_lossy(&output.stdout);
        let core =
            Core::read(&core).unwrap_or_else(|| panic!("no core: {text}\n{}", String::from_utf8_lossy(&output.stderr)));
        let frames = text.split("@frame ").skip(1).map(variables).collect();
        let bytes = fs::read(program).unwrap();
        let bias = match object::File::parse(&*bytes).unwrap().kind() {
            object::ObjectKind::Dynamic => PIE_BASE,
            _ => 0,
        };
        Self { frames, image: Rc::new(image(program, bytes)), core, bias }
    }

    /// All functions of the frames that lie in the program, innermost first, as the crate sees them.
    pub fn scopes(&self) -> Vec<Scope> {
        let limits = Limits { length: 100_000, ..Limits::default() };
        self.with_stack(|stack, _, memory| {
            (0..stack.frames.len()).flat_map(|number| stack.scopes(number, memory, limits)).collect()
        })
    }

    /// Hands over the frames that lie in the program, the program, and the memory.
    pub fn with_stack<T>(&self, look: impl FnOnce(&Stack<'_>, &Image, &mut dyn Memory) -> T) -> T {
        let mut memory = Process { core: &self.core, image: &self.image, bias: self.bias };
        let mut frames = Vec::new();
        let mut registers = self.core.registers.clone();
        let mut exact = true;
        while let Some(pc) = registers.get(RIP) {
            let address = (if exact { pc } else { pc - 1 }).wrapping_sub(self.bias);
            if self.image.function(address).is_none() {
                break;
            }
            let step = self.image.unwind(address, self.bias, &registers, &mut memory);
            let cfa = step.as_ref().and_then(|step| step.registers.get(7));
            frames.push(Frame { image: Some(Rc::clone(&self.image)), pc, address, bias: self.bias, registers, cfa });
            let Some(step) = step else { break };
            (registers, exact) = (step.registers, step.signal_frame);
        }
        let stack = Stack { frames: &frames, fs_base: Some(self.core.fs_base) };
        look(&stack, &self.image, &mut memory)
    }
}

/// `name = value` of each line behind the mark.
fn variables(frame: &str) -> Vec<(String, String)> {
    let Some((_, variables)) = frame.split_once("@variables\n") else { return Vec::new() };
    let one = |line: &str| line.split_once(" = ").map(|(name, value)| (name.to_owned(), value.to_owned()));
    variables.lines().filter_map(one).collect()
}

/// A program with all files that belong to it.
pub fn open(program: &Path) -> Image {
    image(program, fs::read(program).unwrap())
}

/// The program with all files that belong to it, found as when it is recorded.
fn image(program: &Path, main: Vec<u8>) -> Image {
    let (mut debug, mut shared, mut split) = (None, None, Split::default());
    companions::find(Path::new("/"), program, &main, &mut |companion| match companion.kind {
        Kind::Debug => debug = Some(companion.bytes),
        Kind::Shared { .. } => shared = Some(companion.bytes),
        Kind::Split { id } => drop(split.units.borrow_mut().insert(id, companion.bytes)),
        Kind::Package => split.package = Some(companion.bytes.into()),
    });
    Image::parse(Files { main, debug, shared, split: Rc::new(split) }).unwrap()
}

#[derive(Default)]
struct Split {
    units: RefCell<HashMap<u64, Vec<u8>>>,
    package: Option<Arc<[u8]>>,
}

impl SplitFiles for Split {
    fn unit(&self, wanted: &Wanted) -> Option<Vec<u8>> {
        self.units.borrow().get(&wanted.id).cloned()
    }

    fn package(&self) -> Option<Arc<[u8]>> {
        self.package.clone()
    }
}

/// The core of a process.
struct Core {
    memory: Vec<(u64, Vec<u8>)>,
    registers: Registers,
    fs_base: u64,
}

impl Core {
    fn read(path: &Path) -> Option<Self> {
        let bytes = fs::read(path).ok()?;
        let file = ElfFile64::<Endianness>::parse(&*bytes).ok()?;
        let memory = file.segments().filter_map(|segment| Some((segment.address(), segment.data().ok()?.to_vec())));
        let (mut status, mut floats) = (None, None);
        for header in file.elf_program_headers() {
            let Ok(Some(mut notes)) = header.notes(Endianness::Little, &*bytes) else { continue };
            while let Ok(Some(note)) = notes.next() {
                match note.n_type(Endianness::Little).0 {
                    1 if status.is_none() => status = Some(note.desc().to_vec()),
                    2 if floats.is_none() => floats = Some(note.desc().to_vec()),
                    _ => {}
                }
            }
        }
        let _ = elf::PT_NOTE;
        let (status, floats) = (status?, floats?);
        let word = |at: usize| u64::from_le_bytes(status[at..at + 8].try_into().unwrap());
        // struct elf_prstatus: the registers in the order of struct user_regs_struct.
        let user = |number: usize| word(112 + 8 * number);
        let order = [10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16];
        let general: [u64; GENERAL] = order.map(user);
        // FXSAVE's layout: XMM0 at byte 160.
        let vector = |number: usize| {
            let mut all = [0; 32];
            all[..16].copy_from_slice(&floats[160 + 16 * number..176 + 16 * number]);
            all
        };
        let registers = Registers::present(general, Box::new(std::array::from_fn(vector)));
        Some(Self { memory: memory.collect(), registers, fs_base: user(21) })
    }
}

struct Process<'a> {
    core: &'a Core,
    image: &'a Image,
    bias: u64,
}

impl Memory for Process<'_> {
    fn read(&mut self, addr: u64, len: usize) -> Vec<Option<u8>> {
        let byte = |at: u64| {
            let (start, bytes) =
                self.core.memory.iter().find(|(start, bytes)| at.wrapping_sub(*start) < bytes.len() as u64)?;
            bytes.get((at - start) as usize).copied()
        };
        let own = |at: u64| self.image.read_only(at.wrapping_sub(self.bias), 1).map(|bytes| bytes[0]);
        (0..len as u64).map(|offset| addr.wrapping_add(offset)).map(|at| byte(at).or_else(|| own(at))).collect()
    }

    fn symbol(&mut self, addr: u64) -> Option<(String, u64)> {
        let address = addr.wrapping_sub(self.bias);
        self.image.function(address).or_else(|| self.image.variable(address))
    }
}
