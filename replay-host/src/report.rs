//! Failing with a message, and text in a fixed buffer.

use core::fmt;

/// Exit status for what cannot be set up, as of a shell that cannot start a program.
const STATUS: i32 = 127;

/// Why the process cannot be set up.
pub struct Failure {
    what: &'static str,
    errno: i32,
}

impl Failure {
    /// `errno` is 0 where no system call is to blame.
    pub const fn new(what: &'static str, errno: i32) -> Self {
        Self { what, errno }
    }

    /// Says why, and ends the process.
    pub fn exit(&self) -> ! {
        let mut text = Text::new();
        let _ = match self.errno {
            0 => fmt::write(&mut text, format_args!("replay-host: {}\n", self.what)),
            errno => fmt::write(&mut text, format_args!("replay-host: {} (errno {errno})\n", self.what)),
        };
        crate::kernel::write_error(text.as_bytes());
        crate::kernel::exit(STATUS)
    }
}

/// Text of limited length, ended by a zero byte.
pub struct Text {
    bytes: [u8; 8192],
    len: usize,
}

impl Text {
    /// Empty text.
    pub const fn new() -> Self {
        Self { bytes: [0; 8192], len: 0 }
    }

    /// The text without its end.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let end = self.len + s.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?;
        room.copy_from_slice(s.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    Failure::new("internal error: panic", 0).exit()
}
