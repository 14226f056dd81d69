//! Text in a fixed buffer, and messages.

use crate::sys;
use core::fmt;

/// Text of limited length, ended by a zero byte.
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    pub const fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    /// The text without its end.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The same, where it has been written in whole characters.
    pub fn text(&self) -> &str {
        core::str::from_utf8(self.bytes()).unwrap_or_default()
    }

    /// Address of the text, which a zero byte ends.
    pub fn address(&self) -> u64 {
        self.bytes.as_ptr() as u64
    }

    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let end = self.len + bytes.len();
        match self.bytes.get_mut(self.len..end) {
            Some(room) if end < N => {
                room.copy_from_slice(bytes);
                self.len = end;
                true
            }
            _ => false,
        }
    }
}

impl<const N: usize> fmt::Write for Text<N> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        if self.push(s.as_bytes()) { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Says something on standard error.
pub fn say(what: fmt::Arguments) {
    let mut text = Text::<512>::new();
    let _ = fmt::write(&mut text, format_args!("bugnet: {what}\n"));
    // SAFETY: the text is readable and as long as stated.
    unsafe { sys::call3(sys::WRITE, 2, text.address(), text.bytes().len() as u64) };
}

/// Exit status for what cannot be started, as of the recorder.
const STATUS: u64 = 125;

/// Says why the program cannot be started, and ends the process.
pub fn fail(what: &str, error: i64) -> ! {
    say(format_args!("light recording: {what} (error {})", -error));
    loop {
        // SAFETY: takes any status and does not return.
        unsafe { sys::call3(sys::EXIT_GROUP, STATUS, 0, 0) };
    }
}
