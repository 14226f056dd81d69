//! The calls of a light log, before a log is made of it: where they were made is not known yet, what they took and wrote is.

use super::list::{Listed, Recorded};
use super::shapes::Pointed;
use bugnet_format::light::{Call, Piece, Unfinished};

/// What is kept of the memory of a call.
struct Kept<'a> {
    taken: &'a [Piece<'a>],
    written: &'a [Piece<'a>],
}

/// The byte at an address, if a piece has it.
fn byte(pieces: &[Piece<'_>], addr: u64) -> Option<u8> {
    pieces.iter().find_map(|piece| {
        let at = usize::try_from(addr.checked_sub(piece.address)?).ok()?;
        piece.bytes.get(at).copied()
    })
}

impl Kept<'_> {
    /// What is at so many addresses.
    fn read(&self, addr: u64, len: u64, of: impl Fn(&Self, u64) -> Option<u8>) -> Vec<Option<u8>> {
        (0..len).map(|at| of(self, addr.wrapping_add(at))).collect()
    }
}

impl Pointed for Kept<'_> {
    fn before(&mut self, _: usize, addr: u64, len: u64) -> Vec<Option<u8>> {
        // What a call takes is kept when it is over: where it wrote, nobody knows what was there before.
        self.read(addr, len, |kept, at| byte(kept.taken, at).filter(|_| byte(kept.written, at).is_none()))
    }

    fn after(&mut self, _: usize, addr: u64, len: u64) -> Vec<Option<u8>> {
        self.read(addr, len, |kept, at| byte(kept.written, at).or_else(|| byte(kept.taken, at)))
    }
}

impl Listed {
    /// A call that was captured.
    #[must_use]
    pub fn captured(call: &Call<'_>) -> Self {
        let recorded = Recorded { number: call.number, args: call.args, result: Some(call.result) };
        recorded.listed(None, None, &mut Kept { taken: &call.taken, written: &call.written })
    }

    /// One that did not return.
    #[must_use]
    pub fn unfinished(call: &Unfinished<'_>) -> Self {
        let recorded = Recorded { number: call.number, args: call.args, result: None };
        recorded.listed(None, None, &mut Kept { taken: &call.taken, written: &[] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call<'a>(
        number: u64,
        args: [u64; 6],
        result: i64,
        taken: &[(u64, &'a [u8])],
        written: &[(u64, &'a [u8])],
    ) -> Call<'a> {
        let pieces =
            |all: &[(u64, &'a [u8])]| all.iter().map(|(address, bytes)| Piece { address: *address, bytes }).collect();
        Call { number, args, result, sent: 0, stream: 0, taken: pieces(taken), written: pieces(written) }
    }

    #[test]
    fn calls_show_what_they_took_and_wrote() {
        let opened = call(257, [-100i64 as u64, 0x1000, 0, 0, 0, 0], 3, &[(0x1000, b"/etc/x\0")], &[]);
        assert_eq!(Listed::captured(&opened).to_string(), "openat(AT_FDCWD, \"/etc/x\", O_RDONLY) = 3");
        let read = call(0, [3, 0x2000, 100, 0, 0, 0], 2, &[], &[(0x2000, b"hi")]);
        assert_eq!(Listed::captured(&read).to_string(), "read(3, \"hi\", 100) = 2");
        let failed = call(1, [1, 0x2000, 4, 0, 0, 0], -32, &[(0x2000, b"text")], &[]);
        assert_eq!(Listed::captured(&failed).to_string(), "write(1, \"text\", 4) = -1 EPIPE (Broken pipe)");
        let exit = Unfinished { number: 231, args: [5, 0, 0, 0, 0, 0], taken: Vec::new() };
        assert_eq!(Listed::unfinished(&exit).to_string(), "exit_group(5) = ?");
    }

    /// Of what a call takes from where it writes, too, only the end is known.
    #[test]
    fn what_is_written_over_is_not_known() {
        let new = 7u64.to_le_bytes();
        let rest = [0; 8];
        let time = [&new[..], &rest].concat();
        let slept = call(35, [0x1000, 0x1000, 0, 0, 0, 0], -4, &[(0x1000, &time)], &[(0x1000, &time)]);
        let shown = Listed::captured(&slept).call;
        assert!(shown.starts_with("nanosleep(0x1000"), "{shown}");
    }
}
