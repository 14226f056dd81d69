//! What is printed reaches a terminal: nothing in a log, nor what a replay process says, may steer that.
//!
//! All that commands print goes through [`output`] or [`crate::failure::complain`], but for what a recorded program wrote,
//! which `replay --output` gives back as it was.

use bugnet_replay::work::Watch;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::borrow::Cow;
use std::io::{BufWriter, Result, StdoutLock, Write, stdout};
use std::time::Duration;

/// Standard output for text, or for JSON, in which other escapes stand for the same.
pub fn output(json: bool) -> Plain<BufWriter<StdoutLock<'static>>> {
    Plain { to: BufWriter::new(stdout().lock()), json }
}

/// A bar that says how much of what is done; drawn on a terminal only.
pub fn progress(what: &str) -> ProgressBar {
    ProgressBar::new(0).with_style(style(&format!("{{wide_bar}} {{pos}} of {{len}} {what}, {{eta}} to go")))
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Shows work on a terminal, unless it is soon done.
#[derive(Debug)]
pub struct Bar(ProgressBar);

/// How soon.
const SOON: Duration = Duration::from_millis(500);

impl Bar {
    pub fn new() -> Self {
        let bar = ProgressBar::new(0);
        bar.set_draw_target(ProgressDrawTarget::hidden());
        Self(bar)
    }
}

impl Watch for Bar {
    fn begins(&self, what: &str, of: u64) {
        // How long it takes is told by what is done of this alone.
        self.0.reset();
        self.0.set_length(of);
        self.0.set_message(what.to_owned());
        self.0.set_style(match of {
            0 => style("{spinner} {msg}: {human_pos} instructions"),
            _ => style("{msg} {wide_bar} {percent} %, {eta} to go"),
        });
    }

    fn did(&self, done: u64) {
        if self.0.is_hidden() && self.0.elapsed() > SOON {
            self.0.set_draw_target(ProgressDrawTarget::stderr());
        }
        // What is gone through twice is done when it is so the first time.
        self.0.set_position(self.0.length().filter(|all| *all > 0).map_or(done, |all| done.min(all)));
    }

    fn ends(&self) {
        self.0.finish_and_clear();
        self.0.set_draw_target(ProgressDrawTarget::hidden());
    }
}

/// Columns of the terminal to which standard output goes; none if it goes elsewhere. `$COLUMNS` has the last word.
pub fn width() -> Option<usize> {
    let wanted = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
    wanted.or_else(|| Some(rustix::termios::tcgetwinsize(stdout()).ok()?.ws_col.into()).filter(|columns| *columns > 0))
}

/// What text is laid out with.
const LAYOUT: [char; 2] = ['\n', '\t'];

/// Passes text on with what could steer a terminal escaped.
pub struct Plain<W> {
    to: W,
    json: bool,
}

impl<W: Write> Write for Plain<W> {
    /// Text comes in whole characters, as formatting writes it; a byte that is none is escaped alone.
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let escape = |c| if self.json { json(c) } else { visible(c) };
        for chunk in bytes.utf8_chunks() {
            self.to.write_all(escaped(chunk.valid(), |c| steers(c) && !LAYOUT.contains(&c), escape).as_bytes())?;
            for byte in chunk.invalid() {
                write!(self.to, "\\x{byte:02x}")?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        self.to.flush()
    }
}

/// `text` as it may be shown, lines and all.
pub fn plain(text: &str) -> Cow<'_, str> {
    escaped(text, |c| steers(c) && !LAYOUT.contains(&c), visible)
}

/// `text` as it may be shown in a line of its own.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, steers, visible)
}

fn escaped(text: &str, which: impl Fn(char) -> bool, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(&which) {
        return Cow::Borrowed(text);
    }
    text.chars().map(|c| if which(c) { escape(c) } else { c.to_string() }).collect::<String>().into()
}

/// Control characters, and those that change the direction in which text runs.
fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn visible(c: char) -> String {
    if c.is_ascii() { format!("\\x{:02x}", u32::from(c)) } else { c.escape_unicode().to_string() }
}

/// All of these are in the basic plane.
fn json(c: char) -> String {
    format!("\\u{:04x}", u32::from(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &[u8], json: bool) -> String {
        let mut out = Plain { to: Vec::new(), json };
        out.write_all(text).unwrap();
        String::from_utf8(out.to).unwrap()
    }

    #[test]
    fn what_steers_is_escaped() {
        let text = "a\x1b[31m\r\u{9b}2J\u{202e}\x7f\tß漢\n";
        assert_eq!(printed(text.as_bytes(), false), "a\\x1b[31m\\x0d\\u{9b}2J\\u{202e}\\x7f\tß漢\n");
        assert_eq!(plain(text), printed(text.as_bytes(), false));
        assert_eq!(one_line("ß\t\n"), "ß\\x09\\x0a");
        assert_eq!(printed(b"x\xff\xc3", false), "x\\xff\\xc3");
        assert!(matches!(plain("all is well\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_stays_what_it_was() {
        let text = "\u{9b}2J \u{202e} \x7f ß";
        let written = printed(serde_json::to_string(text).unwrap().as_bytes(), true);
        assert!(!written.contains(steers), "{written}");
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
    }
}
