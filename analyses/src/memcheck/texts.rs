//! C libraries' functions for texts and memory, each as a whole: these look at more bytes than they need, and decide by masks of them, from which
//! nothing follows in the end. So what is undefined inside does not count, but what the function needs by its definition (ISO C, 7.24) does.

use super::stubs::slots;
use bugnet_format::folder::Module;
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;

/// Which bytes a function needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// The text in its first argument, whose length it returns.
    Length,
    /// The same, up to so many bytes as its second argument says.
    LengthWithin,
    /// The text in its first argument up to the place that it returns, or all of it.
    Find,
    /// The same, without an end other than that place.
    FindRaw,
    /// Bytes from its first argument on up to the place that it returns, or as many as its third one says.
    FindBytes,
    /// The same from the end on.
    FindBytesBackwards,
    /// All of the text in its first argument.
    All,
    /// The text in its first argument up to what it returns and one more, and all of the second one.
    Span,
    /// The text in its first argument up to what it finds, or all of it, and all of the second one.
    FindText,
    /// Two texts up to where they differ, without regard to case.
    Compare { is_exact: bool, within: bool },
    /// Bytes up to where they differ.
    CompareBytes,
    /// Two strings of PHP's, of the same length, up to where they differ: it compares eight bytes at once, also behind their ends.
    ComparePhp,
    /// All of the text in its second argument, up to so many bytes as its third one says.
    Copy { within: bool },
}

const FUNCTIONS: &[(&str, Needs)] = &[
    ("strlen", Needs::Length),
    ("strnlen", Needs::LengthWithin),
    ("strchr", Needs::Find),
    ("index", Needs::Find),
    ("strchrnul", Needs::FindRaw),
    ("rawmemchr", Needs::FindRaw),
    ("memchr", Needs::FindBytes),
    ("memrchr", Needs::FindBytesBackwards),
    ("strrchr", Needs::All),
    ("rindex", Needs::All),
    ("strspn", Needs::Span),
    ("strcspn", Needs::Span),
    ("strpbrk", Needs::FindText),
    ("strstr", Needs::FindText),
    ("strcasestr", Needs::FindText),
    ("strcmp", Needs::Compare { is_exact: true, within: false }),
    ("strcasecmp", Needs::Compare { is_exact: false, within: false }),
    ("strncmp", Needs::Compare { is_exact: true, within: true }),
    ("strncasecmp", Needs::Compare { is_exact: false, within: true }),
    ("memcmp", Needs::CompareBytes),
    ("bcmp", Needs::CompareBytes),
    ("__memcmpeq", Needs::CompareBytes),
    ("zend_string_equal_val", Needs::ComparePhp),
    ("strcpy", Needs::Copy { within: false }),
    ("stpcpy", Needs::Copy { within: false }),
    ("strncpy", Needs::Copy { within: true }),
    ("stpncpy", Needs::Copy { within: true }),
    ("strcat", Needs::Copy { within: false }),
    ("strncat", Needs::Copy { within: true }),
];

/// What glibc appends to the names of those that are made for a processor.
const VARIANTS: &[&str] = &[
    "sse2",
    "sse2_unaligned",
    "ssse3",
    "sse4_1",
    "sse4_2",
    "sse42",
    "avx",
    "avx2",
    "avx2_rtm",
    "avx2_movbe",
    "avx2_movbe_rtm",
    "evex",
    "evex_movbe",
    "generic",
];

/// Where PHP has the length of a string, and its text (`struct _zend_string`).
const PHP_LENGTH: u64 = 16;
const PHP_TEXT: u64 = 24;
/// What is read of a text at once, and at most.
const PIECE: u64 = 256;
const LONGEST: u64 = 1 << 24;

/// Addresses, with indices of functions.
pub type Places = Vec<(u64, usize)>;

/// The function with an index.
pub fn needs(index: usize) -> Needs {
    FUNCTIONS[index].1
}

/// Where functions are found, by their names, and where others find their addresses, with their indices.
pub fn places(log: &Log, modules: &[Module], symbols: &mut Symbolizer) -> (Places, Places) {
    let mut named: Vec<(String, usize)> = Vec::new();
    for (index, (name, _)) in FUNCTIONS.iter().enumerate() {
        named.push(((*name).to_owned(), index));
        named.extend(VARIANTS.iter().map(|variant| (format!("__{name}_{variant}"), index)));
    }
    let names: Vec<&str> = named.iter().map(|(name, _)| &**name).collect();
    let found = symbols.functions(&names).into_iter().map(|(address, at)| (address, named[at].1)).collect();
    let plain: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
    (found, modules.iter().flat_map(|module| slots(log, module, &plain)).collect())
}

/// The bytes that a call has needed, by its arguments and its result; none where these are not known. `read` gives bytes of memory, or fewer.
pub fn ranges(
    needs: Needs,
    args: &[Option<u64>; 6],
    result: Option<u64>,
    read: &mut impl FnMut(u64, u64) -> Option<Vec<u8>>,
) -> Option<Vec<(u64, u64)>> {
    let first = args[0]?;
    let up_to = |place: u64| (first, place.wrapping_sub(first).wrapping_add(1));
    Some(match needs {
        Needs::Length => vec![(first, result?.saturating_add(1))],
        Needs::LengthWithin => vec![(first, result?.saturating_add(1).min(args[1]?))],
        Needs::Find | Needs::FindRaw if result? != 0 => vec![up_to(result?)],
        Needs::Find | Needs::FindRaw | Needs::All => vec![(first, length(first, u64::MAX, read)?)],
        Needs::FindBytes if result? != 0 => vec![up_to(result?)],
        Needs::FindBytes => vec![(first, args[2]?)],
        Needs::FindBytesBackwards if result? != 0 => {
            vec![(result?, first.wrapping_add(args[2]?).wrapping_sub(result?))]
        }
        Needs::FindBytesBackwards => vec![(first, args[2]?)],
        Needs::Span => vec![(first, result?.saturating_add(1)), (args[1]?, length(args[1]?, u64::MAX, read)?)],
        Needs::FindText => {
            let second = (args[1]?, length(args[1]?, u64::MAX, read)?);
            match result? {
                0 => vec![(first, length(first, u64::MAX, read)?), second],
                found => vec![up_to(found), second],
            }
        }
        Needs::Compare { is_exact, within } => {
            let most = if within { args[2]? } else { u64::MAX };
            let len = same(first, args[1]?, (most, is_exact, true), read)?;
            vec![(first, len), (args[1]?, len)]
        }
        Needs::CompareBytes => {
            let len = same(first, args[1]?, (args[2]?, true, false), read)?;
            vec![(first, len), (args[1]?, len)]
        }
        Needs::ComparePhp => {
            let len = read(first.wrapping_add(PHP_LENGTH), 8)?.try_into().ok().map(u64::from_le_bytes)?;
            let texts = [first, args[1]?].map(|string| string.wrapping_add(PHP_TEXT));
            let len = same(texts[0], texts[1], (len, true, false), read)?;
            texts.map(|text| (text, len)).to_vec()
        }
        Needs::Copy { within } => {
            let most = if within { args[2]? } else { u64::MAX };
            vec![(args[1]?, length(args[1]?, most, read)?)]
        }
    })
}

/// Bytes of a text with its end.
fn length(addr: u64, most: u64, read: &mut impl FnMut(u64, u64) -> Option<Vec<u8>>) -> Option<u64> {
    let mut len = 0;
    while len < most.min(LONGEST) {
        let bytes = read(addr.checked_add(len)?, PIECE)?;
        if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
            return Some((len + end as u64 + 1).min(most));
        }
        len += u64::try_from(bytes.len()).ok().filter(|got| *got > 0)?;
    }
    Some(most).filter(|most| *most <= LONGEST)
}

/// How many bytes are looked at of two texts, or pieces of memory, up to where they differ, or end.
fn same(
    one: u64,
    other: u64,
    (most, is_exact, has_end): (u64, bool, bool),
    read: &mut impl FnMut(u64, u64) -> Option<Vec<u8>>,
) -> Option<u64> {
    let mut len = 0;
    while len < most.min(LONGEST) {
        let (a, b) = (read(one.checked_add(len)?, PIECE)?, read(other.checked_add(len)?, PIECE)?);
        let differ = |(a, b): (&u8, &u8)| if is_exact { a != b } else { !a.eq_ignore_ascii_case(b) };
        if let Some(at) = a.iter().zip(&b).position(|(a, b)| differ((a, b)) || has_end && *a == 0) {
            return Some((len + at as u64 + 1).min(most));
        }
        len += u64::try_from(a.len().min(b.len())).ok().filter(|got| *got > 0)?;
    }
    Some(most).filter(|most| *most <= LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_functions_need() {
        let memory = b"abcdef\0xxabcxef\0yyy";
        let mut read = |addr: u64, len: u64| {
            let from = memory.get(addr as usize..)?;
            Some(from[..from.len().min(len as usize)].to_vec())
        };
        let mut of = |needs, args: [u64; 3], result| {
            let args = [Some(args[0]), Some(args[1]), Some(args[2]), None, None, None];
            ranges(needs, &args, Some(result), &mut read)
        };
        assert_eq!(of(Needs::Length, [0, 0, 0], 6), Some(vec![(0, 7)]));
        assert_eq!(of(Needs::Find, [0, 99, 0], 2), Some(vec![(0, 3)]));
        assert_eq!(of(Needs::Find, [1, 99, 0], 0), Some(vec![(1, 6)]));
        let compare = Needs::Compare { is_exact: true, within: false };
        assert_eq!(of(compare, [0, 9, 0], 1), Some(vec![(0, 4), (9, 4)]));
        assert_eq!(of(Needs::CompareBytes, [4, 13, 3], 0), Some(vec![(4, 3), (13, 3)]));
        assert_eq!(of(Needs::Copy { within: true }, [0, 9, 3], 0), Some(vec![(9, 3)]));
        assert_eq!(of(Needs::All, [16, 0, 0], 0), None);
    }
}
