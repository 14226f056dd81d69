//! The code picture that the thread's log has. If there are threads, each block asks for that at its start; so that is also
//! where another thread makes this one come out of the code cache: see [`crate::picture::peer`].

use super::Thread;
use crate::base::process;
use crate::emitted::site::Site;
use crate::log::code;
use crate::log::recording;
use crate::run::parts::code_seq::{ANY, bells};
use crate::run::parts::picture::TOO_FAR_APART;
use bugnet_format::record::{EndReason, Record};
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::CodeSeq;

impl Thread {
    /// Code at these addresses is about to run. Returns the oldest code picture that has it.
    pub fn observe_code(&mut self, start: u64, len: u64) -> CodeSeq {
        let observed = code::of_process().observe(start, len);
        match observed {
            Ok(needed) => {
                if self.code_seq < needed {
                    self.catch_up(self.counted());
                }
                needed
            }
            Err(why) => {
                let position = self.counted();
                // Also where this thread has no log yet: there is none without the code.
                recording::end(&why);
                self.stop(position, EndReason::LogStopped { why }, RegisterFile::unknown());
                CodeSeq(0)
            }
        }
    }

    /// Behind a system call, in which a child of `vfork` may have run code first: its blocks ask for no code picture, where there
    /// are no threads.
    pub fn see_code_of_child(&mut self) {
        if self.recording() && self.code_seq < code::of_process().seq() {
            self.catch_up(self.counted());
        }
    }

    /// Brings the code picture in the thread's log up to date.
    fn catch_up(&mut self, position: u64) {
        let code = code::of_process();
        let fits =
            code.pages_since(self.code_seq).all(|(address, bytes)| self.picture.shadow.try_write(address, bytes));
        let seq = code.seq();
        drop(code);
        if !fits && process::threaded() {
            self.make_room_for_code(position);
        } else if !fits {
            recording::end(TOO_FAR_APART);
        }
        if !self.recording() {
            return self.set_code_seq(ANY);
        }
        self.set_code_seq(seq);
        self.record(position, |delta| Record::Code { delta, seq });
    }

    pub(in crate::run) fn set_code_seq(&mut self, seq: CodeSeq) {
        self.code_seq = seq;
        self.show_code_seq();
    }

    /// Puts it where blocks compare it, unless another thread wants them to stop.
    pub(in crate::run) fn show_code_seq(&self) {
        let seq = self.code_seq.0 as u32;
        let values = [seq, if self.picture.shadow.is_at_distance() { seq } else { 0 }];
        match self.peer() {
            Some(peer) => peer.show(values),
            None => bells().show(values),
        }
    }

    /// A block has begun that needs another code picture or another kind of shadow, or another thread wants something. The
    /// block compares again behind this.
    pub(in crate::run) fn stopped_at_start(&mut self, site: &Site, by_fs: bool, saved: bool) {
        let position = self.counted().wrapping_sub(site.back);
        let called = self.pass_at_start(site, saved);
        if by_fs && !self.picture.shadow.is_at_distance() {
            self.begin_by_key(site, saved);
        }
        if called {
            return;
        }
        if self.recording() {
            self.catch_up(position);
        } else {
            self.set_code_seq(ANY);
        }
    }
}
