//! gdb's `$_siginfo`: what the log has of the signal at which execution is stopped.
//!
//! `gdbstub` does not know this part of the protocol, and takes the question for one that nobody understands. So the connection says that it is
//! understood, remembers which thread gdb asks about, and puts the answer in the place of the empty one.
//!
//! gdb asks for the bytes of what it prints, and no others: a field is answered as soon as its bytes are known, and nothing that has bytes of
//! which nothing is known is.

use crate::serve::packet;
use bugnet_format::types::Tid;
use bugnet_replay::signal;
use std::ops::Range;

/// What gdb is told in the end of the answer about what is supported.
const SUPPORTED: &[u8] = b";qXfer:siginfo:read+;ConditionalBreakpoints+";
/// How the packets begin.
const FEATURES: &[u8] = b"qSupported";
const READ: &[u8] = b"qXfer:siginfo:read::";
const SELECT: &[u8] = b"Hg";
/// Bytes of a packet that are looked at: the questions above are shorter.
pub(crate) const LOOKED_AT: usize = 64;
/// The answer to what is not understood.
const NOT_UNDERSTOOD: &[u8] = b"$#00";
/// The answer that there is none.
const ERROR: &[u8] = b"E01";

/// Bytes of Linux's `siginfo_t`.
const SIZE: usize = 128;
/// Where its fields are on x86-64.
const SIGNO: Range<usize> = 0..4;
const ERRNO: Range<usize> = 4..8;
const CODE: Range<usize> = 8..12;
const ADDR: Range<usize> = 16..24;

/// The bytes of a `siginfo_t`, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SigInfo([Option<u8>; SIZE]);

impl SigInfo {
    /// Of a signal that has a handler, the log has nothing but the number.
    pub fn handled(number: u64) -> Self {
        let mut info = Self([None; SIZE]);
        info.put(SIGNO, &(number as u32).to_le_bytes());
        info
    }

    /// Of a signal that killed, the log has `si_code` and, for a fault, `si_addr`.
    pub fn deadly(number: u32, code: i32, addr: u64) -> Self {
        let mut info = Self::handled(number.into());
        if is_whole(number.cast_signed(), code) {
            // The kernel clears the whole and puts down what there is.
            info = Self([Some(0); SIZE]);
            info.put(SIGNO, &number.to_le_bytes());
        }
        info.put(CODE, &code.to_le_bytes());
        if signal::has_address(number.cast_signed(), code) {
            info.put(ERRNO, &[0; 4]);
            info.put(ADDR, &addr.to_le_bytes());
        }
        info
    }

    fn put(&mut self, at: Range<usize>, bytes: &[u8]) {
        self.0[at].iter_mut().zip(bytes).for_each(|(to, from)| *to = Some(*from));
    }

    /// So many bytes from there on, up to the first that is not known, as the protocol has it.
    fn piece(&self, offset: usize, len: usize) -> Vec<u8> {
        let Some(rest) = self.0.get(offset..) else { return b"l".to_vec() };
        let bytes: Vec<u8> = rest.iter().take(len).map_while(|byte| *byte).collect();
        match bytes.len() {
            0 if !rest.is_empty() => ERROR.to_vec(),
            len => [if len == rest.len() { b"l" } else { b"m" }, &*escaped(&bytes)].concat(),
        }
    }
}

/// Whether number, code and address are all that there is in a signal with this code: it is a fault that has nothing else, or one without any details.
fn is_whole(number: i32, code: i32) -> bool {
    match (number, code) {
        (libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE | libc::SIGTRAP, libc::SI_KERNEL) => true,
        // Others have bounds, or a key.
        (libc::SIGSEGV, code) => matches!(code, 1..=2),
        // Others have the size of what is damaged.
        (libc::SIGBUS, code) => matches!(code, 1..=3),
        // Others have data.
        (libc::SIGTRAP, code) => matches!(code, 1..=2),
        (libc::SIGILL | libc::SIGFPE, code) => code > 0,
        _ => false,
    }
}

/// Bytes as they are in a packet.
fn escaped(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'$' | b'#' | b'}' | b'*' => out.extend([b'}', byte ^ 0x20]),
            _ => out.push(*byte),
        }
    }
    out
}

/// What a connection knows about gdb's interest in signals.
#[derive(Debug, Default)]
pub(crate) struct Interest {
    /// The thread that gdb means; none for the one in which execution has stopped.
    thread: Option<Tid>,
}

impl Interest {
    /// Execution has stopped: gdb means that thread until it says otherwise.
    pub fn stopped(&mut self) {
        self.thread = None;
    }

    /// Puts into the answer to a packet what is missing there.
    pub fn put(&mut self, asked: &[u8], answer: &mut Vec<u8>, here: Option<&(Tid, SigInfo)>) {
        if let Some(thread) = asked.strip_prefix(SELECT) {
            self.thread = selected(thread);
        } else if asked.starts_with(FEATURES) {
            add(answer);
        } else if let Some(before) = answer.strip_suffix(NOT_UNDERSTOOD)
            && let Some(wanted) = asked.strip_prefix(READ)
        {
            let here = here.filter(|(tid, _)| self.thread.is_none_or(|thread| thread == *tid));
            let piece = here.and_then(|(_, info)| {
                let (offset, len) = std::str::from_utf8(wanted).ok()?.split_once(',')?;
                let number = |text| usize::from_str_radix(text, 16).ok();
                Some(info.piece(number(offset)?, number(len)?))
            });
            *answer = [before, &packet(piece.as_deref().unwrap_or(ERROR))].concat();
        }
    }
}

/// The thread that `Hg` names: `pPROCESS.THREAD` or `THREAD`; none for any.
fn selected(text: &[u8]) -> Option<Tid> {
    let text = std::str::from_utf8(text).ok()?;
    let thread = text.rsplit('.').next()?;
    u32::from_str_radix(thread, 16).ok().filter(|tid| *tid != 0).map(Tid)
}

/// Adds the feature to the answer that lists them.
fn add(answer: &mut Vec<u8>) {
    let Some(start) = answer.iter().position(|byte| *byte == b'$') else { return };
    let Some(end) = answer.iter().rposition(|byte| *byte == b'#') else { return };
    if end > start {
        let text = [&answer[start + 1..end], SUPPORTED].concat();
        answer.truncate(start);
        answer.extend(packet(&text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEAD: (Tid, u32) = (Tid(0x1234), 11);

    fn ask(interest: &mut Interest, asked: &str, info: &SigInfo) -> String {
        let mut answer = b"+$#00".to_vec();
        interest.put(asked.as_bytes(), &mut answer, Some(&(DEAD.0, info.clone())));
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn what_is_not_known_is_not_told() {
        let handled = SigInfo::handled(10);
        assert_eq!(handled.piece(0, 4), b"m\x0a\0\0\0");
        assert_eq!(handled.piece(0, 128), b"m\x0a\0\0\0");
        assert_eq!(handled.piece(4, 124), ERROR);
        assert_eq!(handled.piece(8, 4), ERROR);
        assert_eq!(handled.piece(128, 4), b"l");
        assert_eq!(handled.piece(1000, 4), b"l");
        // Somebody sent it, of whom the log has nothing.
        let sent = SigInfo::deadly(6, libc::SI_TKILL, 0);
        assert_eq!(sent.piece(8, 4), [b"m", (-6_i32).to_le_bytes().as_slice()].concat());
        assert_eq!([sent.piece(4, 4), sent.piece(16, 4)], [ERROR, ERROR]);
        // A code without a meaning tells of no address, nor that there is none.
        assert_eq!(SigInfo::deadly(11, 4, 8).piece(24, 8), ERROR);
        assert_eq!(SigInfo::deadly(11, 4, 8).piece(16, 8), b"m\x08\0\0\0\0\0\0\0");
    }

    #[test]
    fn a_fault_is_whole() {
        let fault = SigInfo::deadly(11, 1, 0x2a24);
        let whole = fault.piece(0, 128);
        assert_eq!(whole[..13], *b"l\x0b\0\0\0\0\0\0\0\x01\0\0\0");
        // The sign that begins a packet, and the one that repeats, are said otherwise.
        assert_eq!(whole[17..27], *b"}\x04}\x0a\0\0\0\0\0\0");
        assert_eq!(whole.len(), 1 + 128 + 2);
        let general = SigInfo::deadly(11, libc::SI_KERNEL, 0);
        assert_eq!(general.piece(16, 8), b"m\0\0\0\0\0\0\0\0");
    }

    #[test]
    fn only_the_thread_that_got_it_has_it() {
        let (mut interest, info) = (Interest::default(), SigInfo::handled(10));
        let (there, error) = ("+$m\x0a\0\0\0#77", "+$E01#a6");
        assert_eq!(ask(&mut interest, "qXfer:siginfo:read::0,4", &info), there);
        // Other packets are left alone.
        assert_eq!(ask(&mut interest, "Hgp1.1235", &info), "+$#00");
        assert_eq!(ask(&mut interest, "qXfer:siginfo:read::0,4", &info), error);
        assert_eq!(ask(&mut interest, "Hgp1.1234", &info), "+$#00");
        assert_eq!(ask(&mut interest, "qXfer:siginfo:read::0,4", &info), there);
        ask(&mut interest, "Hg1235", &info);
        interest.stopped();
        assert_eq!(ask(&mut interest, "qXfer:siginfo:read::0,4", &info), there);
        assert_eq!(ask(&mut interest, "qXfer:siginfo:read::0", &info), error);
        let mut nothing = b"$#00".to_vec();
        interest.put(b"qXfer:siginfo:read::0,4", &mut nothing, None);
        assert_eq!(nothing, b"$E01#a6");
    }

    #[test]
    fn the_feature_is_announced() {
        let mut answer = b"+$a;b+#00".to_vec();
        Interest::default().put(b"qSupported:multiprocess+", &mut answer, None);
        assert_eq!(answer, [b"+", &*packet(b"a;b+;qXfer:siginfo:read+;ConditionalBreakpoints+")].concat());
    }
}
