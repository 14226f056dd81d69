//! Whether a line that a command printed is the one that the book shows, although process ids, positions, addresses, times and sizes differ; and which
//! number of this run stands for which one of the book.

use std::collections::HashMap;

/// The parts of a line: text, and numbers that may differ from run to run.
fn parts(line: &str) -> Vec<(&str, bool)> {
    let mut parts = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let in_number = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | ',' | ':' | '-' | '+');
        let starts = |(at, c): (usize, char)| {
            c.is_ascii_digit() && !rest[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
        };
        let Some(at) = rest.char_indices().position(starts).and_then(|n| rest.char_indices().nth(n)).map(|(at, _)| at)
        else {
            parts.push((rest, false));
            break;
        };
        let long = rest[at..].find(|c| !in_number(c)).unwrap_or(rest.len() - at);
        // What ends a sentence is no part of the number.
        let word = rest[at..at + long].trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        parts.push((&rest[..at], false));
        parts.push((word, differs(word)));
        rest = &rest[at + word.len()..];
    }
    parts
}

/// Whether a number may differ: a position, an address, a fraction, one of several thousands, or one that is written with commas.
fn differs(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_hexdigit).count();
    digits >= 3 || word.contains('.') || word.contains('/')
}

/// Whether `is` is the line that the book shows as `shown`, of which `...` at the end stands for the rest; numbers of the book then stand for those of this
/// run in `known`.
pub(crate) fn alike(shown: &str, is: &str, known: &mut HashMap<String, String>) -> bool {
    let [shown, is] = [shown, is].map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let (beginning, goes_on) =
        shown.strip_suffix("...").map_or((&*shown, false), |beginning| (beginning.trim_end(), true));
    let [shown, mut is] = [parts(beginning), parts(&is)];
    if goes_on {
        is.truncate(shown.len());
        if let (Some((end, false)), Some((text, false))) = (shown.last(), is.last_mut()) {
            *text = if text.starts_with(end) { *end } else { *text };
        }
    }
    let same = |(one, other): (&(&str, bool), &(&str, bool))| if one.1 { other.1 } else { one.0 == other.0 };
    if shown.len() != is.len() || !shown.iter().zip(&is).all(same) {
        return false;
    }
    for ((one, _), (other, _)) in shown.iter().zip(&is).filter(|((_, differs), _)| *differs) {
        known.insert((*one).to_owned(), (*other).to_owned());
        // A position begins with the thread's id, which is, of the first thread, the process's.
        if let (Some((one, _)), Some((other, _))) = (one.split_once('/'), other.split_once('/')) {
            known.insert(one.to_owned(), other.to_owned());
        }
    }
    true
}

/// A command of the book with the numbers of this run.
pub(crate) fn of_this_run(command: &str, known: &HashMap<String, String>) -> String {
    let now = |(text, _): (&str, bool)| known.get(text).cloned().unwrap_or_else(|| text.to_owned());
    parts(command).into_iter().map(now).collect()
}
