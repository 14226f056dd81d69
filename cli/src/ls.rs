//! `bugnet ls`: the recordings in the default folder.

use crate::args::LsArgs;
use crate::failure::Failure;
use crate::processes::quoted;
use crate::record::describe_ending;
use crate::recordings::{Entry, LATEST, State, Writers, default_folder, list, together};
use crate::terminal::{one_line, output, width};
use bugnet_format::folder::Ending;
use indicatif::HumanBytes;
use serde::Serialize;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What `--json` prints.
#[derive(Serialize)]
struct Json<'a> {
    /// The default folder.
    folder: &'a Path,
    /// Where `latest` leads, if anywhere.
    latest: Option<&'a Path>,
    /// Bytes that all take together.
    size: u64,
    recordings: Vec<JsonEntry<'a>>,
}

#[derive(Serialize)]
struct JsonEntry<'a> {
    name: String,
    path: &'a Path,
    /// In a word.
    state: &'static str,
    /// What is wrong with it.
    damage: Option<&'a str>,
    /// Whether it is one file.
    packed: bool,
    /// Whether the other commands take it when they are given none.
    latest: bool,
    program: Option<&'a str>,
    args: Option<&'a [String]>,
    ending: Option<&'a Ending>,
    /// Seconds since the Unix epoch.
    started: u64,
    /// Bytes that it takes; what it shares with others counts for each.
    size: u64,
}

/// Prints the list.
pub fn ls(args: &LsArgs) -> Result<(), Failure> {
    let folder = default_folder(|name| std::env::var_os(name)).ok_or(Failure::NoPlace)?;
    let entries = list(&folder, &Writers::default())
        .map_err(Failure::system(format!("list the recordings in {}", folder.display())))?;
    // As it is printed, so that it can be compared.
    let folder = folder.canonicalize().unwrap_or(folder);
    let latest = folder.join(LATEST).canonicalize().ok();
    let listing = Listing { folder, latest, entries };
    let mut out = output(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &listing.json()).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{listing}")?;
    }
    Ok(out.flush()?)
}

/// The recordings of a folder, the newest first.
struct Listing {
    folder: PathBuf,
    latest: Option<PathBuf>,
    entries: Vec<Entry>,
}

impl Listing {
    fn is_latest(&self, entry: &Entry) -> bool {
        self.latest.as_ref().is_some_and(|latest| *latest == self.folder.join(&entry.name))
    }

    fn size(&self) -> u64 {
        together(self.entries.iter().map(|entry| &entry.usage))
    }

    fn json(&self) -> Json<'_> {
        let recordings = self.entries.iter().map(|entry| self.json_entry(entry)).collect();
        Json { folder: &self.folder, latest: self.latest.as_deref(), size: self.size(), recordings }
    }

    fn json_entry<'a>(&self, entry: &'a Entry) -> JsonEntry<'a> {
        let Entry { name, path, state, packed, meta, started, usage } = entry;
        let meta = meta.as_ref();
        JsonEntry {
            name: name.to_string_lossy().into_owned(),
            path,
            state: word(state),
            damage: if let State::Damaged(why) = state { Some(why) } else { None },
            packed: *packed,
            latest: self.is_latest(entry),
            program: meta.map(|meta| meta.program.as_str()),
            args: meta.map(|meta| &meta.args[..]),
            ending: meta.map(|meta| &meta.ending),
            started: *started,
            size: usage.bytes(),
        }
    }
}

/// How it is with a recording, for programs.
fn word(state: &State) -> &'static str {
    match state {
        State::Recording => "recording",
        State::Ended(_) => "ended",
        State::CutOff => "cut-off",
        State::Damaged(_) => "damaged",
        State::Encrypted => "encrypted",
    }
}

/// The same for people.
fn state(entry: &Entry) -> String {
    let state = match &entry.state {
        State::Recording => "being recorded".to_owned(),
        State::Ended(ending) => describe_ending(ending),
        State::CutOff => "cut off".to_owned(),
        State::Damaged(_) => "damaged".to_owned(),
        State::Encrypted => "encrypted".to_owned(),
    };
    if entry.packed { format!("{state}, one file") } else { state }
}

/// What was recorded; what is wrong, where that cannot be known.
fn what(entry: &Entry) -> String {
    match (&entry.meta, &entry.state) {
        (Some(meta), _) => quoted(&meta.args),
        (None, State::Damaged(why)) => format!("({why})"),
        (None, _) => String::new(),
    }
}

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HEAD: [&str; 4] = ["NAME", "ENDED", "SIZE", "AGE"];
        if self.entries.is_empty() {
            return writeln!(f, "no recordings in {}; record one with: bugnet record PROG", self.folder.display());
        }
        let row = |entry: &Entry| {
            let size = HumanBytes(entry.usage.bytes()).to_string();
            [one_line(&entry.name.to_string_lossy()).into_owned(), state(entry), size, age(entry.age())]
        };
        let rows: Vec<_> = self.entries.iter().map(row).collect();
        let widest = |n: usize| rows.iter().map(|row| row[n].width()).chain([HEAD[n].len()]).max().unwrap_or(0);
        let [name, ended, size, old] = [0, 1, 2, 3].map(widest);
        // A star before the latest, and two spaces before each of the others.
        let left = width().map(|width| width.saturating_sub(2 + name + ended + size + old + 4 * 2));
        let line = |f: &mut fmt::Formatter<'_>, latest: bool, cells: [&str; 4], what: &str| {
            let [a, b, c, d] = cells;
            let pad = |cell: &str, width: usize| " ".repeat(width.saturating_sub(cell.width()));
            let star = if latest { '*' } else { ' ' };
            let what = left.map_or_else(|| what.to_owned(), |left| shortened(what, left));
            let (b_pad, c_pad, d_pad) = (pad(b, ended), pad(c, size), pad(d, old));
            let line = format!("{star} {a}{}  {b}{b_pad}  {c_pad}{c}  {d_pad}{d}  {what}", pad(a, name));
            writeln!(f, "{}", line.trim_end())
        };
        line(f, false, HEAD, "PROGRAM")?;
        for (entry, cells) in self.entries.iter().zip(&rows) {
            line(f, self.is_latest(entry), cells.each_ref().map(String::as_str), &one_line(&what(entry)))?;
        }
        let all = self.entries.len();
        let recordings = if all == 1 { "recording" } else { "recordings" };
        write!(f, "{all} {recordings}, {} on the disk", HumanBytes(self.size()))?;
        match &self.latest {
            _ if self.entries.iter().any(|entry| self.is_latest(entry)) => writeln!(f, "; * is the latest"),
            Some(latest) => writeln!(f, "; the latest is {}", latest.display()),
            None => writeln!(f),
        }
    }
}

/// `text`, with its end cut off where it takes more columns.
fn shortened(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        short.push(c);
    }
    if columns > 0 {
        short.push('…');
    }
    short
}

/// A time in its largest unit.
fn age(age: Duration) -> String {
    const UNITS: [(u64, &str); 4] = [(24 * 60 * 60, "d"), (60 * 60, "h"), (60, "min"), (1, "s")];
    let seconds = age.as_secs();
    let unit = UNITS.iter().find(|(length, _)| seconds >= *length).unwrap_or(&UNITS[3]);
    format!("{} {}", seconds / unit.0, unit.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        let of = |seconds| age(Duration::from_secs(seconds));
        assert_eq!([of(0), of(59), of(60), of(7199)], ["0 s", "59 s", "1 min", "1 h"]);
        assert_eq!([of(86_400), of(86_400 * 400)], ["1 d", "400 d"]);
    }

    #[test]
    fn what_is_too_long_is_cut() {
        assert_eq!(shortened("gzip -9", 7), "gzip -9");
        assert_eq!(shortened("gzip -9", 6), "gzip …");
        assert_eq!(shortened("漢字漢字", 5), "漢字…");
        assert_eq!(shortened("gzip", 1), "…");
        assert_eq!(shortened("gzip", 0), "");
    }
}
