//! What memory was when it came to be: zeros, or what a file has.

use super::Cursor;
use super::foreseen::Bits;
use super::known::{Search, Source};
use crate::error::Result;
use crate::mappings::{Origin as Mapped, Range};
use bugnet_format::process::Origin;

/// A page's bytes that nothing has changed since they came to be.
#[derive(Debug)]
pub(super) struct Born {
    /// By a call that mapped a file.
    pub by_call: Bits,
    /// With the process.
    pub with_process: Bits,
}

impl Cursor<'_> {
    /// Whether the log has the process from where it executed its program.
    fn begins_with_program(&mut self) -> Result<bool> {
        if let Some(begins) = self.elsewhere.begins {
            return Ok(begins);
        }
        let info = self.log.processes()?.into_iter().find(|(id, _)| *id == self.pid).and_then(|(_, info)| info);
        let is_fork = info.is_none_or(|info| matches!(info.origin, Origin::Fork { .. }));
        let begins = !is_fork && !self.mapped_is_cut();
        Ok(*self.elsewhere.begins.insert(begins))
    }

    /// Takes what is still as it came to be, as far as the log tells what that was.
    pub(super) fn take_born(&mut self, search: &mut Search<'_>, born: &Born) -> Result<()> {
        self.know_mappings()?;
        let begins = self.begins_with_program()?;
        let (mut at, end) = (search.first(), search.end());
        while at < end {
            let addr = search.page + at as u64;
            let Range { end: to, origin } = self.mapped_at(addr);
            let until = end.min(usize::try_from(to.saturating_sub(search.page)).unwrap_or(end)).max(at + 1);
            match origin {
                Mapped::File { module, offset } => {
                    let called = search.among(&born.by_call, at, until);
                    let bytes = self.files()?.at_offset(module, offset, until - at);
                    search.put(&called, Source::File(module), |offset| bytes.get(offset.checked_sub(at)?).copied());
                    if begins {
                        let first = search.among(&born.with_process, at, until);
                        let bytes = self.files()?.at_start(module, addr, until - at);
                        search.put(&first, Source::File(module), |offset| bytes.get(offset.checked_sub(at)?).copied());
                    }
                }
                Mapped::Nothing if begins => {
                    let first = search.among(&born.with_process, at, until);
                    search.put(&first, Source::Zeros, |_| Some(0));
                }
                Mapped::Nothing | Mapped::Other => {}
            }
            at = until;
        }
        Ok(())
    }
}
