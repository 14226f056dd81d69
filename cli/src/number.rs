//! Counts as people type them: `100M` for 100,000,000.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes() {
        assert_eq!(count("0"), Ok(0));
        assert_eq!(count("123"), Ok(123));
        assert_eq!(count("10k"), Ok(10_000));
        assert_eq!(count("100M"), Ok(100_000_000));
        assert_eq!(count("2G"), Ok(2_000_000_000));
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
