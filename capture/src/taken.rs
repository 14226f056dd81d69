//! What calls take from memory: what arguments point at, of long buffers the start, and all that goes to standard output and error. An expansion does not
//! need it: it is for those who ask a light log of which no log has been made (`bugnet syscalls`, `bugnet replay --output`).

use crate::kernel::{self, Buffer};
use crate::sys;
use crate::table::{Call, Sent, Taken};

/// Buffers of a vector of which the start is kept.
const BUFFERS: u64 = 8;
/// Bytes of an element of a vector (`struct iovec`).
const BUFFER: u64 = 16;
/// Most bytes of a text.
const TEXT: usize = 4096;

fn word(at: u64) -> u64 {
    sys::read_word(at).unwrap_or(0)
}

/// Visits the buffers of what a call has sent.
pub fn sent(call: &Call, args: &[u64; 6], result: i64, see: &mut dyn FnMut(Buffer)) {
    let Ok(mut left) = u64::try_from(result) else { return };
    let mut add = |(at, len): Buffer| {
        let len = len.min(left);
        left -= len;
        if len > 0 {
            see((at, len));
        }
    };
    match call.sends {
        Some(Sent::Bytes(at, len)) => add((args[at], args[len])),
        Some(Sent::Vector(at, count)) => kernel::vector(args[at], args[count], &word, &mut add),
        Some(Sent::Message(at)) => {
            let [buffers, count] = [16, 24].map(|field| word(args[at].wrapping_add(field)));
            kernel::vector(buffers, count, &word, &mut add);
        }
        None => {}
    }
}

/// Visits what is kept of what a call takes; `whole`: of what it sends, all, and first.
pub fn visit(call: &Call, args: &[u64; 6], result: i64, whole: bool, see: &mut dyn FnMut(Buffer)) {
    let whole = whole && result > 0;
    if whole {
        sent(call, args, result, see);
    }
    for (argument, taken) in call.takes {
        let at = args[*argument];
        if at == 0 {
            continue;
        }
        match *taken {
            // Seen above.
            Taken::Arg(..) if whole && call.sends.is_some_and(|sent| sent.is_behind(*argument)) => {}
            Taken::Text => see((at, sys::text_len(at, TEXT).map_or(TEXT, |len| len + 1) as u64)),
            Taken::Bytes(bytes) => see((at, bytes)),
            Taken::Arg(of, times, most) => see((at, args[of].saturating_mul(times).min(most))),
            Taken::Vector(of, and_buffers) => {
                let count = args[of].min(BUFFERS);
                see((at, count * BUFFER));
                if and_buffers && !whole {
                    kernel::vector(at, count, &word, &mut |(at, len)| see((at, len.min(Taken::SHOWN))));
                }
            }
        }
    }
}
