//! System calls that the kernel gets in another form than the program made them.

use crate::base::descriptors;
use crate::kernel::arguments::ARGUMENTS;
use bugnet_dr::context::Machine;
use bugnet_format::regs::RAX;
use std::ffi::c_void;
use std::path::Path;

/// What the program had in the registers that the kernel gets with other values.
#[derive(Debug, Default)]
pub struct Substitution {
    registers: Vec<(usize, u64)>,
}

impl Substitution {
    /// Before the system call: puts in these values for the call's number and some of its arguments.
    pub fn make(drcontext: *mut c_void, number: i64, arguments: &[(usize, u64)]) -> Option<Self> {
        let mut machine = Machine::current()?;
        let mut registers = Vec::new();
        let values = arguments.iter().map(|(n, value)| (ARGUMENTS[*n], *value)).chain([(RAX, number as u64)]);
        for (register, value) in values {
            registers.push((register, std::mem::replace(machine.gpr_mut(register), value)));
        }
        // SAFETY: the current context, but for some registers.
        let set = unsafe { machine.set_current(drcontext) };
        set.then_some(Self { registers })
    }

    /// Behind the system call: puts the program's values back, but for the result.
    pub fn undo(self, drcontext: *mut c_void) {
        let Some(mut machine) = Machine::current() else { return };
        for (register, value) in self.registers.into_iter().filter(|(register, _)| *register != RAX) {
            *machine.gpr_mut(register) = value;
        }
        // SAFETY: as above.
        unsafe { machine.set_current(drcontext) };
    }
}

/// The highest descriptor that is open; DynamoRIO looks at each number up to the end of a `close_range`.
pub fn highest_descriptor() -> Option<u64> {
    let open = descriptors::names(Path::new("/proc/self/fd")).ok()?;
    open.iter().filter_map(|name| str::from_utf8(name).ok()?.parse().ok()).max()
}
