//! The stack as the kernel builds it for a new program: arguments, environment, auxiliary vector.

use crate::kernel::{MAP_FIXED_NOREPLACE, PROT_READ, PROT_WRITE, map_zeros};
use crate::layout::{Layout, STACK_SIZE};
use crate::report::{Failure, Text};
use core::ffi::{CStr, c_char};

const AT_NULL: usize = 0;
const AT_PLATFORM: usize = 15;
const AT_BASE_PLATFORM: usize = 24;
const AT_RANDOM: usize = 25;
const AT_EXECFN: usize = 31;
const AT_SYSINFO: usize = 32;
const AT_SYSINFO_EHDR: usize = 33;

/// The stack that the kernel built for this process.
pub struct Kernel {
    argc: usize,
    argv: *const *const c_char,
}

impl Kernel {
    /// # Safety
    /// `initial` is the stack pointer at the program's entry.
    pub unsafe fn new(initial: *const usize) -> Self {
        // SAFETY: argc stands there, and argv behind it.
        unsafe { Self { argc: initial.read(), argv: initial.add(1).cast() } }
    }

    /// The arguments.
    pub fn args(&self) -> impl Iterator<Item = &CStr> {
        // SAFETY: argv has argc pointers to strings, which last as long as the process.
        (0..self.argc).map(|i| unsafe { CStr::from_ptr(self.argv.add(i).read()) })
    }

    /// The auxiliary vector without its end.
    fn auxv(&self) -> impl Iterator<Item = [usize; 2]> {
        // SAFETY: behind argv and its null stands the environment, then a null, then the vector up to AT_NULL.
        unsafe {
            let mut at = self.argv.add(self.argc + 1);
            while !at.read().is_null() {
                at = at.add(1);
            }
            let mut entry = at.add(1).cast::<[usize; 2]>();
            core::iter::from_fn(move || {
                let found = entry.read();
                entry = entry.add(1);
                (found[0] != AT_NULL).then_some(found)
            })
        }
    }

    /// Path of this program, as it was executed.
    fn executable(&self) -> Option<&CStr> {
        let [_, path] = self.auxv().find(|[tag, _]| *tag == AT_EXECFN)?;
        // SAFETY: the kernel's AT_EXECFN is the address of a string.
        Some(unsafe { CStr::from_ptr(path as *const c_char) })
    }
}

/// Fills a stack from its top: bytes first, then the words that point at them.
struct Builder {
    at: usize,
    bottom: usize,
}

impl Builder {
    fn push(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        let at = self.at - bytes.len();
        if at < self.bottom {
            return Err(Failure::new("arguments too long", 0));
        }
        self.at = at;
        // SAFETY: at..at + len lies in the stack that `build` mapped, below all that was pushed before.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
        Ok(at)
    }

    fn push_string(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        self.push(b"\0")?;
        self.push(bytes)
    }
}

/// Maps a stack in the window and fills it for the application; returns the stack pointer.
///
/// The application has no argument, not even its name, which tells the program that it runs under DynamoRIO. The vdso is dropped from
/// the auxiliary vector, and everything else that points to the old stack is copied.
pub fn build(layout: &Layout, kernel: &Kernel, options: &Text) -> Result<usize, Failure> {
    let protection = PROT_READ | PROT_WRITE;
    // SAFETY: the kernel places nothing in the window by itself, and FIXED_NOREPLACE makes sure.
    unsafe { map_zeros(layout.stack, STACK_SIZE, protection, MAP_FIXED_NOREPLACE, "cannot map a stack") }?;
    let mut stack = Builder { at: layout.stack + STACK_SIZE, bottom: layout.stack + STACK_SIZE / 2 };

    let executable = kernel.executable().ok_or(Failure::new("the kernel names no executable", 0))?;
    let path = stack.push_string(executable.to_bytes())?;
    stack.push(b"DYNAMORIO_EXE_PATH=")?;
    // `push_string` put the path right above, so that the variable's value is the path.
    let exe_variable = stack.at;
    let options = stack.push_string(options.as_bytes())?;
    let run_under = stack.push_string(b"DYNAMORIO_RUNUNDER=1")?;

    let mut auxv = [[AT_NULL; 2]; 64];
    let mut used = 0;
    for [tag, value] in kernel.auxv() {
        let value = match tag {
            AT_SYSINFO | AT_SYSINFO_EHDR => continue,
            AT_EXECFN => path,
            AT_PLATFORM | AT_BASE_PLATFORM if value != 0 => {
                // SAFETY: the kernel's value is the address of a string.
                stack.push_string(unsafe { CStr::from_ptr(value as *const c_char) }.to_bytes())?
            }
            AT_RANDOM => {
                // SAFETY: the kernel's value is the address of 16 bytes.
                stack.push(unsafe { core::slice::from_raw_parts(value as *const u8, 16) })?
            }
            _ => value,
        };
        if used + 1 < auxv.len() {
            auxv[used] = [tag, value];
            used += 1;
        }
    }

    let words = [0, 0, exe_variable, run_under, options, 0];
    let size = size_of_val(&words) + (used + 1) * 16;
    stack.at = (stack.at - size) & !15;
    let stack_pointer = stack.at;
    let mut at = stack_pointer as *mut usize;
    for word in words.iter().chain(auxv[..=used].as_flattened()) {
        // SAFETY: `size` bytes above `stack_pointer` are free in the stack, and hold exactly these words.
        unsafe {
            at.write(*word);
            at = at.add(1);
        }
    }
    Ok(stack_pointer)
}
