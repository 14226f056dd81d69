//! The `monitor` commands: what gdb has no command for.

use crate::debuggee::Debuggee;
use bugnet_format::types::Addr;
use bugnet_replay::ReplayError;
use bugnet_replay::cursor::{LastWrite, Seek};
use bugnet_replay::signal::name;
use gdbstub::outputln;
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd};

const HELP: &str = "\
monitor when                      where this is
monitor seek POSITION             goes to THREAD/INTERVAL/INSTRUCTION, @TIME, start or end
monitor last-write ADDRESS[:N]    who wrote these bytes last, before here
monitor threads                   where each thread is";

/// `0x1234` or `0x1234:8`: an address, and how many bytes.
fn range(text: &str) -> Option<(u64, u64)> {
    let (addr, len) = text.split_once(':').unwrap_or((text, "1"));
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    Some((number(addr)?, number(len).filter(|len| (1..=1 << 20).contains(len))?))
}

/// Bytes in hexadecimal; `??` for each that is not known.
fn hex(bytes: &[Option<u8>]) -> String {
    let byte = |byte: &Option<u8>| byte.map_or_else(|| "??".to_owned(), |byte| format!("{byte:02x}"));
    bytes.iter().map(byte).collect::<Vec<_>>().join(" ")
}

impl MonitorCmd for Debuggee<'_> {
    fn handle_monitor_cmd(&mut self, command: &[u8], mut out: ConsoleOutput<'_>) -> Result<(), ReplayError> {
        let command = String::from_utf8_lossy(command);
        let (verb, rest) = command.trim().split_once(char::is_whitespace).unwrap_or((command.trim(), ""));
        let rest = rest.trim();
        match (verb, rest) {
            ("when", "") => match self.cursor.death()? {
                Some((dead, signal)) if self.cursor.time() == self.cursor.end() => {
                    let signal = name(signal.cast_signed());
                    outputln!(out, "{}, where {signal} killed thread {dead}", self.here()?);
                }
                _ => outputln!(out, "{}", self.here()?),
            },
            ("threads", "") => {
                for thread in self.threads()? {
                    outputln!(out, "{}  {:#x}", thread.place, thread.regs.rip);
                }
            }
            ("seek", position) => match position.parse::<Seek>() {
                Ok(seek) => match self.seek(seek) {
                    Ok(_) => outputln!(out, "{}", self.here()?),
                    Err(ReplayError::OutOfRange(why)) => outputln!(out, "{why}"),
                    Err(error) => return Err(error),
                },
                Err(why) => outputln!(out, "{why}"),
            },
            ("last-write", text) => match range(text) {
                Some((addr, len)) => self.last_write(addr, len, &mut out)?,
                None => outputln!(out, "monitor last-write takes an address and a number of bytes, as 0x7fff1234:8"),
            },
            _ => outputln!(out, "{HELP}"),
        }
        Ok(())
    }
}

impl Debuggee<'_> {
    /// Where the thread in focus is, and the time.
    fn here(&mut self) -> Result<String, ReplayError> {
        // The thread in focus is the first one.
        let place = self.threads()?.first().map(|thread| thread.place);
        let place = place.unwrap_or_else(|| self.cursor.place());
        Ok(format!("{place} (time @{} of {})", self.cursor.time(), self.cursor.end()))
    }

    /// Says who wrote there last, and comes back.
    fn last_write(&mut self, addr: u64, len: u64, out: &mut ConsoleOutput<'_>) -> Result<(), ReplayError> {
        let (time, focus) = (self.cursor.time(), self.focus);
        let found = self.cursor.last_write(Addr(addr), len)?;
        let rip = self.cursor.regs().rip;
        self.seek(Seek::Time(time))?;
        self.focus = focus;
        match found {
            LastWrite::Instruction { place, before, after, .. } => {
                outputln!(
                    out,
                    "{place}  the instruction at {rip:#x}\n  before  {}\n  after   {}",
                    hex(&before),
                    hex(&after)
                );
            }
            LastWrite::Outside { place, before, after, .. } => {
                outputln!(
                    out,
                    "{place}  a system call or another process, noticed here\n  before  {}\n  after   {}",
                    hex(&before),
                    hex(&after)
                );
            }
            LastWrite::Unknown => outputln!(out, "nothing in the recording wrote there"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert_eq!(range("0x10"), Some((16, 1)));
        assert_eq!(range("0x10:8"), Some((16, 8)));
        assert_eq!([range(""), range("x"), range("0x10:0"), range("1:2:3")], [None; 4]);
    }
}
