//! Counts and ranges as people type them: `100M` for 100,000,000.

use std::ops::Range;

/// Parses a count with an optional suffix: `k` for thousands, `M` for millions, `G` for thousand millions.
pub fn count(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    // `u64::from_str` would take a plus sign.
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("expected a number, with k, M or G after it for thousands, millions, thousand millions".into());
    }
    digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).ok_or_else(|| "the number is too large".into())
}

/// Like [`count`], but refuses 0.
pub fn positive(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err("must be at least 1".into()),
        n => Ok(n),
    }
}

/// Parses a size in bytes with an optional suffix: `K`, `M`, `G` or `T`, which are powers of 1024, as those of `du` and `ls` are.
pub fn size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        Some(b'T' | b't') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("expected a size in bytes, with K, M, G or T after it for larger ones, such as 20G".into());
    }
    digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift)).ok_or_else(|| "the size is too large".into())
}

/// Like [`size`], for memory that is kept at the end: what the format of an interval has room for.
pub fn kept_memory(text: &str) -> Result<u64, String> {
    match size(text)? {
        bytes if bytes > 2 << 30 => Err("must be at most 2G".into()),
        bytes => Ok(bytes),
    }
}

/// Parses an address of a program: hexadecimal with or without `0x`.
pub fn address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let hexadecimal = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    match u64::from_str_radix(digits, 16) {
        Ok(address) if hexadecimal && address >> 47 == 0 => Ok(address),
        _ => Err("expected an address below 2^47 in hexadecimal, such as 0x7f3a20001000".into()),
    }
}

/// Parses `A..B` (B not included), `A..`, `..B`, `..` or `A`.
pub fn range(text: &str) -> Result<Range<u64>, String> {
    let range = match text.split_once("..") {
        Some((from, to)) => {
            let bound = |text: &str, missing| if text.is_empty() { Ok(missing) } else { count(text) };
            bound(from, 0)?..bound(to, u64::MAX)?
        }
        None => {
            let only = count(text)?;
            only..only.checked_add(1).ok_or("the number is too large")?
        }
    };
    if range.is_empty() { Err("there is nothing between the two numbers".into()) } else { Ok(range) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(address("0x7fff"), Ok(0x7fff));
        assert_eq!(address("200000000"), Ok(0x2_0000_0000));
        for wrong in ["", "0x", "+1", "x", "0x800000000000", "10000000000000000"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn suffixes() {
        assert_eq!(count("0"), Ok(0));
        assert_eq!(count("123"), Ok(123));
        assert_eq!(count("10k"), Ok(10_000));
        assert_eq!(count("100M"), Ok(100_000_000));
        assert_eq!(count("2G"), Ok(2_000_000_000));
    }

    #[test]
    fn sizes() {
        assert_eq!(size("0"), Ok(0));
        assert_eq!(size("10K"), Ok(10 << 10));
        assert_eq!(size("20G"), Ok(20 << 30));
        assert_eq!(size("3T"), Ok(3 << 40));
        for wrong in ["", "G", "-1", "+1", "1.5G", "1 G", "1GB", "99999999999T"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn memory_that_is_kept_has_a_limit() {
        assert_eq!(kept_memory("0"), Ok(0));
        assert_eq!(kept_memory("2G"), Ok(2 << 30));
        assert!(kept_memory("3G").is_err() && kept_memory("x").is_err());
    }

    #[test]
    fn ranges() {
        assert_eq!(range("2..5"), Ok(2..5));
        assert_eq!(range("2.."), Ok(2..u64::MAX));
        assert_eq!(range("..5"), Ok(0..5));
        assert_eq!(range("7"), Ok(7..8));
        for text in ["", "5..2", "3..3", "a..b", "1..2..3", "-1..2", "1...3"] {
            assert!(range(text).is_err(), "{text}");
        }
    }

    #[test]
    fn refused() {
        for text in ["", "k", "-1", "+1", "1.5M", "1 M", "1T", "99999999999G", "18446744073709551616", "é"] {
            assert!(count(text).is_err(), "{text}");
        }
        assert!(positive("0").is_err());
        assert!(positive("0k").is_err());
    }
}
