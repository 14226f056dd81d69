//! Floating-point numbers, in as many digits as tell them apart.

use std::fmt::Write;

/// A number of 4, 8 or (x87) 10, 12 or 16 bytes, as `%g` of C prints it with 9, 17 or 18 digits.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    Some(match bytes.len() {
        4 => of_f64(
            f64::from(f32::from_le_bytes(bytes.try_into().ok()?)),
            9,
            u64::from(u32::from_le_bytes(bytes.try_into().ok()?) & 0x7f_ffff),
        ),
        8 => {
            let value = f64::from_le_bytes(bytes.try_into().ok()?);
            of_f64(value, 17, value.to_bits() & 0xf_ffff_ffff_ffff)
        }
        10 | 12 | 16 => extended(bytes)?,
        _ => return None,
    })
}

fn of_f64(value: f64, digits: usize, mantissa: u64) -> String {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_nan() {
        return format!("{sign}nan({mantissa:#x})");
    }
    if value.is_infinite() {
        return format!("{sign}inf");
    }
    if value == 0.0 {
        return format!("{sign}0");
    }
    let scientific = format!("{:.*e}", digits - 1, value.abs());
    let Some((number, exponent)) = scientific.split_once('e') else { return scientific };
    let number: String = number.chars().filter(|c| *c != '.').collect();
    format!("{sign}{}", general(&number, exponent.parse().unwrap_or(0)))
}

/// `0.d1d2d3... * 10^(exponent + 1)` as `%g` writes it.
fn general(digits: &str, exponent: i32) -> String {
    let precision = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let trimmed = digits.trim_end_matches('0');
    let mut out = String::new();
    if exponent < -4 || exponent >= precision {
        let (first, rest) = trimmed.split_at(trimmed.len().min(1));
        let point = if rest.is_empty() { "" } else { "." };
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{first}{point}{rest}e{sign}{:02}", exponent.unsigned_abs());
    } else if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        let _ = write!(out, "0.{zeros}{trimmed}");
    } else {
        let whole = exponent as usize + 1;
        let _ = write!(out, "{}", &digits[..whole.min(digits.len())]);
        let rest = digits.get(whole..).unwrap_or("").trim_end_matches('0');
        if !rest.is_empty() {
            let _ = write!(out, ".{rest}");
        }
    }
    out
}

/// Significant digits of an x87 number, as gdb prints them.
const EXTENDED_DIGITS: usize = 21;

/// The x87 format: 64 bits of mantissa with its leading one, 15 of exponent, the sign.
fn extended(bytes: &[u8]) -> Option<String> {
    let mantissa = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    let top = u16::from_le_bytes(bytes.get(8..10)?.try_into().ok()?);
    let sign = if top >> 15 == 1 { "-" } else { "" };
    let exponent = i32::from(top & 0x7fff);
    if exponent == 0x7fff {
        let fraction = mantissa & (u64::MAX >> 1);
        return Some(if fraction == 0 { format!("{sign}inf") } else { format!("{sign}nan({mantissa:#x})") });
    }
    if mantissa == 0 {
        return Some(format!("{sign}0"));
    }
    // mantissa * 2^shift, as a decimal integer divided by 10^places.
    let shift = exponent.max(1) - 16383 - 63;
    let mut number = Big(vec![mantissa as u32, (mantissa >> 32) as u32]);
    let mut places = 0;
    for _ in 0..shift.unsigned_abs() {
        if shift > 0 {
            number.multiply(2);
        } else {
            // Half is five tenths.
            number.multiply(5);
            places += 1;
        }
    }
    let digits = number.decimal();
    let exponent = i32::try_from(digits.len()).ok()? - 1 - places;
    let (rounded, exponent) = round(&digits, EXTENDED_DIGITS, exponent);
    Some(format!("{sign}{}", general(&rounded, exponent)))
}

/// The first `count` digits, rounded to even where it is a tie; and the exponent, which may grow.
fn round(digits: &str, count: usize, exponent: i32) -> (String, i32) {
    let mut out: Vec<u8> = digits.bytes().take(count).collect();
    let rest = digits.as_bytes().get(count..).unwrap_or_default();
    let tail = rest.iter().skip(1).any(|digit| *digit != b'0');
    let odd = out.last().is_some_and(|digit| digit % 2 == 1);
    let up = rest.first().is_some_and(|digit| *digit > b'5' || (*digit == b'5' && (tail || odd)));
    out.resize(count, b'0');
    if up {
        for digit in out.iter_mut().rev() {
            if *digit == b'9' {
                *digit = b'0';
            } else {
                *digit += 1;
                return (String::from_utf8(out).unwrap_or_default(), exponent);
            }
        }
        out.insert(0, b'1');
        out.truncate(count);
        return (String::from_utf8(out).unwrap_or_default(), exponent + 1);
    }
    (String::from_utf8(out).unwrap_or_default(), exponent)
}

/// A large unsigned integer, lowest part first.
struct Big(Vec<u32>);

impl Big {
    fn multiply(&mut self, by: u32) {
        let mut carry = 0;
        for part in &mut self.0 {
            let product = u64::from(*part) * u64::from(by) + carry;
            *part = product as u32;
            carry = product >> 32;
        }
        if carry != 0 {
            self.0.push(carry as u32);
        }
    }

    fn decimal(mut self) -> String {
        const STEP: u64 = 1_000_000_000;
        let mut parts = Vec::new();
        while self.0.iter().any(|part| *part != 0) {
            let mut rest = 0;
            for part in self.0.iter_mut().rev() {
                let value = rest << 32 | u64::from(*part);
                *part = (value / STEP) as u32;
                rest = value % STEP;
            }
            while self.0.last() == Some(&0) {
                self.0.pop();
            }
            parts.push(rest);
        }
        let mut out = String::new();
        for (number, part) in parts.iter().rev().enumerate() {
            let _ = if number == 0 { write!(out, "{part}") } else { write!(out, "{part:09}") };
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn floats_are_those_of_gdb() {
        let single = |value: f32| text(&value.to_le_bytes()).unwrap();
        let double = |value: f64| text(&value.to_le_bytes()).unwrap();
        assert_eq!(single(2.15), "2.1500001");
        assert_eq!(single(0.5), "0.5");
        assert_eq!(double(2.15), "2.1499999999999999");
        assert_eq!(double(1e100), "1e+100");
        assert_eq!(double(100_000.0), "100000");
        assert_eq!(double(-0.000_01), "-1.0000000000000001e-05");
        assert_eq!(double(0.001), "0.001");
        assert_eq!(double(f64::INFINITY), "inf");
        assert_eq!(double(f64::NAN), "nan(0x8000000000000)");
        assert_eq!(double(-0.0), "-0");
        // 3.14L and 1.0L in the x87 format.
        let pi = [0xc3, 0xf5, 0x28, 0x5c, 0x8f, 0xc2, 0xf5, 0xc8, 0x00, 0x40];
        assert_eq!(text(&pi).unwrap(), "3.1400000000000000001");
        assert_eq!(text(&[0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f]).unwrap(), "1");
    }
}
