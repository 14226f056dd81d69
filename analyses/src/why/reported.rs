//! How a program itself reported that it fails: a panic that a status tells of only at the end, and the last lines of its standard error.

use bugnet_format::record::OutputStream;
use bugnet_format::types::ProcessId;
use bugnet_replay::Result;
use bugnet_replay::cursor::Cursor;
use bugnet_replay::hits::{Which, hits};
use bugnet_replay::location::{Code, Name};
use bugnet_replay::log::{Log, Selection};
use bugnet_replay::output::output_tail;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use std::ops::ControlFlow;

/// What a panic of Rust begins with, in older and newer versions of its library.
const PANICS: [&str; 2] = ["__rustc::rust_begin_unwind", "rust_begin_unwind"];
/// The status of a Rust program whose main thread panics (`std::process`, `lang_start`).
pub const PANICKED: i32 = 101;

/// Programs that run scripts, by their files' names without versions.
const INTERPRETERS: [&str; 13] =
    ["python", "perl", "ruby", "node", "bash", "sh", "dash", "zsh", "php", "lua", "luajit", "awk", "tclsh"];

/// Bytes at the end of the output in which lines are looked for, and lines that are shown.
const TAIL: usize = 1 << 16;
const LINES: usize = 3;
/// What the first line says of a panic: its message is in the next one.
const PANIC: &str = " panicked at ";
/// Characters of a line that are shown.
const LONGEST: usize = 160;

/// Puts the cursor where the last panic began; whether there was one.
///
/// # Errors
/// The log cannot be read or replayed.
pub fn seek_panic(log: &Log, cursor: &mut Cursor<'_>, symbols: &mut Symbolizer) -> Result<bool> {
    for name in PANICS {
        let name: Name = name.parse().map_err(bugnet_replay::ReplayError::OutOfRange)?;
        // A program without that function does not panic.
        let Ok(code) = Code::find(&name, symbols) else { continue };
        let mut found = None;
        hits(log, cursor, symbols, &code, Which { thread: None, last: Some(1) }, &mut |hit| {
            found = Some(hit.time);
            ControlFlow::Break(())
        })?;
        if let Some(time) = found {
            cursor.seek(bugnet_replay::cursor::Seek::Time(time))?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// The last lines that a process wrote to its standard error; of a panic, those that tell of it.
///
/// # Errors
/// The log cannot be read or replayed.
pub fn said(tools: &Tools, log: &Log, pid: ProcessId) -> Result<Vec<String>> {
    let selection = Selection { processes: Some(vec![pid]), ..Selection::default() };
    let pieces = output_tail(tools, log, &selection, TAIL)?;
    let errors = pieces.into_iter().filter(|piece| piece.stream == OutputStream::Stderr);
    let bytes: Vec<u8> = errors.flat_map(|piece| piece.bytes).collect();
    Ok(lines(&String::from_utf8_lossy(&bytes)))
}

/// What to tell of a program whose source lines are not known.
///
/// # Errors
/// The log cannot be read.
pub fn no_lines(log: &Log, pid: ProcessId) -> Result<String> {
    let info = log.processes()?.into_iter().find(|(id, _)| *id == pid).and_then(|(_, info)| info);
    let program = info.map(|info| info.program).unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or(&program);
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if INTERPRETERS.contains(&plain) {
        return Ok(format!(
            "{name} runs a script: what is recorded are the instructions of the interpreter, which has no line information, and not the lines of \
             the script. bugnet replay --output shows all that the script and {name} reported."
        ));
    }
    Ok(format!(
        "{name} has no line information, so no lines can be named: build it with -g, or install its debug information."
    ))
}

fn lines(text: &str) -> Vec<String> {
    let all: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let shown = match all.iter().rposition(|line| line.contains(PANIC)) {
        Some(panic) => &all[panic..(panic + 2).min(all.len())],
        None => &all[all.len().saturating_sub(LINES)..],
    };
    shown.iter().map(|line| line.chars().take(LONGEST).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn the_lines_that_say_most() {
        assert_eq!(lines("one\n\ntwo\nthree\nfour\n"), ["two", "three", "four"]);
        assert_eq!(lines(""), [""; 0]);
        let panic = "begins\nthread 'main' (7) panicked at a.rs:3:5:\nindex out of bounds\nnote: run\nstack backtrace:\n 0: main\n";
        assert_eq!(lines(panic), ["thread 'main' (7) panicked at a.rs:3:5:", "index out of bounds"]);
    }
}
