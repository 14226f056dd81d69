//! `bugnet syscalls` of a light log of which no log has been made: the calls as they were captured.

use super::{Light, each_record};
use crate::args::SyscallsArgs;
use crate::failure::{Failure, complain};
use bugnet_format::light::{Call, End, How, Record, Unfinished};
use bugnet_format::types::Tid;
use bugnet_replay::ReplayError;
use bugnet_replay::syscall::{Listed, Wanted};
use std::collections::BTreeSet;
use std::io;

/// The number of `rt_sigreturn`.
const RT_SIGRETURN: u64 = libc::SYS_rt_sigreturn.cast_unsigned();
/// The number of `exit`, by which a thread ends.
const EXIT: u64 = libc::SYS_exit.cast_unsigned();

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
        complain(
            &"the calls are shown as they were captured; at which positions they were made is known when the log is made (bugnet expand)",
        );
        let parts = self.parts(process)?;
        let first = Tid(process.pid.0);
        let is_shared = self.processes().any(|one| one.id == process && one.threads > 1);
        let (mut own, mut all) = (first, BTreeSet::from([first]));
        // A fork begins behind the call that made it, which is its parent's.
        let begins = parts.beginning(&self.path).map_err(|source| self.unreadable(source))?;
        let mut is_made = parts.header.how != How::Forked || begins.is_some();
        let mut printed = Ok(());
        let read = each_record(parts, &mut |record| {
            let (number, mut listed) = match record {
                Record::Call(_) if !is_made => {
                    is_made = true;
                    return;
                }
                // A log has it as a part of the signal.
                Record::Call(call) if call.number == RT_SIGRETURN => return,
                Record::Call(call) if call.number == EXIT && call.result == 0 && is_shared => {
                    let Call { number, args, taken, .. } = call;
                    (number, Listed::unfinished(&Unfinished { number, args, taken }))
                }
                Record::Call(call) => (call.number, Listed::captured(&call)),
                Record::End(End::Exits(call) | End::Executes(call) | End::DiesInCall { call, .. }) => {
                    (call.number, Listed::unfinished(&call))
                }
                Record::Turn { thread, .. } => {
                    own = Tid(thread);
                    all.insert(own);
                    return;
                }
                _ => return,
            };
            listed.thread = is_shared.then_some(own);
            if printed.is_ok() && wanted.has(own, number) {
                printed = print(&listed);
            }
        });
        printed?;
        read.map_err(|source| self.unreadable(source))?;
        match wanted.thread {
            Some(tid) if !all.contains(&tid) => {
                let all: Vec<String> = all.iter().map(Tid::to_string).collect();
                let why = format!("process {process} has no thread {tid}; it has {}", all.join(", "));
                Err(ReplayError::OutOfRange(why).into())
            }
            _ => Ok(()),
        }
    }
}
