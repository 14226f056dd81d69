//! Which memory of the process the kernel may write for a call: what the table says, as lists.

use crate::kernel;
pub use crate::kernel::{Buffer, Memory};
use crate::{Kernel, SystemCall};

/// The buffers that the kernel may write for a call; none where that is not known. A call that has failed may have written, too, but for those of which
/// the field `writes_last` says that they have not.
#[must_use]
pub fn written(call: &SystemCall, args: &[u64; 6], result: i64, memory: &impl Memory) -> Option<Vec<Buffer>> {
    let writes = call.writes?;
    let mut all = Vec::new();
    if result >= 0 || result == -i64::from(libc::EFAULT) || !call.writes_last {
        writes
            .iter()
            .for_each(|(arg, size)| kernel::visit(args, result, *arg, *size, memory, &mut |buffer| all.push(buffer)));
    }
    Some(all)
}

/// The buffers of a vector of `count`.
#[must_use]
pub fn vector(at: u64, count: u64, memory: &impl Memory) -> Vec<Buffer> {
    let mut all = Vec::new();
    kernel::vector(at, count, memory, &mut |buffer| all.push(buffer));
    all
}

/// The buffers of a message header, and what is written in itself.
#[must_use]
pub fn message(at: u64, memory: &impl Memory) -> Vec<Buffer> {
    let mut all = Vec::new();
    kernel::message(at, memory, &mut |buffer| all.push(buffer));
    all
}

/// Where a call finds the lengths of buffers ([`Kernel::Counted`]), each with the longest such buffer.
pub fn counted(call: &SystemCall, args: &[u64; 6]) -> impl Iterator<Item = (u64, Buffer)> {
    call.writes.unwrap_or_default().iter().filter_map(|(arg, size)| match size {
        Kernel::Counted(count, most) => Some((args[*count], (args[*arg], *most))),
        _ => None,
    })
}
