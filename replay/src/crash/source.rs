//! The source text around a line, where the log or this machine has the file.

use super::own::OwnFrame;
use crate::backtrace::Frame;
use crate::symbols::Symbolizer;
use bugnet_debuginfo::companions::read_regular;
use bugnet_format::types::Addr;
use md5::{Digest, Md5};
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;

/// Lines before and behind the line.
const AROUND: usize = 3;
/// Largest source file that is read, in bytes.
const MAX_SOURCE: usize = 16 << 20;
/// Longest line that is shown, in characters.
const MAX_LINE: usize = 90;

/// Some lines of a source file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceText {
    /// Its path, as the compiler names it.
    pub file: String,
    /// The line.
    pub line: usize,
    /// Number of the first line of the text.
    pub first: usize,
    /// The lines.
    pub text: Vec<String>,
    /// Whether this is the file that was compiled; none if the debug information has no checksum of it.
    pub same: Option<bool>,
}

/// Source files, each read once.
#[derive(Default)]
pub struct Sources(HashMap<String, Option<Vec<String>>>);

impl Sources {
    /// A line of a source file, from 1, if the log or this machine has the file.
    pub fn line(&mut self, symbols: &Symbolizer, file: &str, line: u32) -> Option<&str> {
        let read = || {
            let path = Path::new(file).is_absolute().then(|| Path::new(file));
            let bytes =
                symbols.packed_source(file).or_else(|| read_regular(path?)).filter(|b| b.len() <= MAX_SOURCE)?;
            Some(String::from_utf8_lossy(&bytes).lines().map(ToOwned::to_owned).collect())
        };
        let lines = self.0.entry(file.to_owned()).or_insert_with(read).as_ref()?;
        lines.get((line as usize).checked_sub(1)?).map(String::as_str)
    }
}

/// The source text around the line of a frame; `None` if it is not known which, or there is no such file.
pub(super) fn around(own: &OwnFrame, backtrace: &[Frame], symbols: &mut Symbolizer) -> Option<SourceText> {
    let frame = backtrace.get(own.frame)?;
    // Inlined functions of libraries may have sources that nobody has here.
    let (file, line, bytes) = frame.place.source.iter().find_map(|source| {
        let (file, line) = (source.file.clone()?, usize::try_from(source.line?).ok()?);
        // A path that is relative to a folder of the machine that compiled it means nothing here.
        let path = Path::new(&file).is_absolute().then(|| Path::new(&file))?;
        let bytes = symbols.packed_source(&file).or_else(|| read_regular(path)).filter(|b| b.len() <= MAX_SOURCE)?;
        Some((file, line, bytes))
    })?;
    let at = if own.frame == 0 { frame.pc } else { frame.pc.wrapping_sub(1) };
    let sum = symbols.file_at(Addr(at)).and_then(|(image, address)| image.source_md5(address, &file));
    let same = sum.map(|sum| Md5::digest(&bytes)[..] == sum[..]);
    let text = String::from_utf8_lossy(&bytes);
    let first = line.saturating_sub(AROUND).max(1);
    let shown = |line: &str| line.chars().take(MAX_LINE).collect::<String>();
    let text: Vec<String> = text.lines().skip(first - 1).take(line + AROUND + 1 - first).map(shown).collect();
    // Another version of the file may be shorter.
    (first + text.len() > line).then_some(SourceText { file, line, first, text, same })
}
