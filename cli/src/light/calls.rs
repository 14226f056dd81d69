//! `bugnet syscalls` of a light log of which no log has been made: the calls as they were captured.

use super::{Light, each_record};
use crate::args::SyscallsArgs;
use crate::failure::{Failure, complain};
use bugnet_format::light::{End, How, Record};
use bugnet_format::types::Tid;
use bugnet_replay::ReplayError;
use bugnet_replay::syscall::{Listed, Wanted};
use std::io;

/// The number of `rt_sigreturn`.
const RT_SIGRETURN: u64 = libc::SYS_rt_sigreturn.cast_unsigned();

impl Light {
    /// Hands over the calls of the process that is meant.
    ///
    /// # Errors
    /// There is no such process or thread, its light log cannot be read, or nobody reads what is printed.
    pub fn syscalls(
        &self,
        args: &SyscallsArgs,
        wanted: &Wanted,
        print: &mut dyn FnMut(&Listed) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let process = self.meant_by(&args.process)?;
        let own = Tid(process.pid.0);
        if let Some(tid) = wanted.thread.filter(|tid| *tid != own) {
            return Err(ReplayError::OutOfRange(format!("process {process} has no thread {tid}; it has {own}")).into());
        }
        complain(
            &"the calls are shown as they were captured; at which positions they were made is known when the log is made (bugnet expand)",
        );
        let parts = self.parts(process)?;
        // A fork begins behind the call that made it, which is its parent's.
        let mut is_made = parts.header.how != How::Forked;
        let mut printed = Ok(());
        let read = each_record(parts, &mut |record| {
            let (number, listed) = match record {
                Record::Call(_) if !is_made => {
                    is_made = true;
                    return;
                }
                // A log has it as a part of the signal.
                Record::Call(call) if call.number == RT_SIGRETURN => return,
                Record::Call(call) => (call.number, Listed::captured(&call)),
                Record::End(End::Exits(call) | End::Executes(call) | End::DiesInCall { call, .. }) => {
                    (call.number, Listed::unfinished(&call))
                }
                _ => return,
            };
            if printed.is_ok() && wanted.has(own, number) {
                printed = print(&listed);
            }
        });
        printed?;
        read.map_err(|source| self.unreadable(source))
    }
}
