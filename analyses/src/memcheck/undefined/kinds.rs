//! What kinds of vector instructions there are, by their names: for all of a kind, V bits go the same way.

use iced_x86::Mnemonic;

/// How the result of a vector instruction follows from its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is the last operand, as many bytes of it, and zeros.
    Copy(usize),
    /// The lowest bytes are; the rest stays, or comes from the second of three operands.
    Low(usize),
    /// The upper half of 16 bytes is loaded, or stored.
    High,
    /// `movhlps` and `movlhps`.
    Cross {
        to_high: bool,
    },
    And,
    AndNot,
    Or,
    Xor,
    /// Lanes of so many bytes, each of which follows from those at the same place.
    Lanes(usize),
    /// Lanes of 8 bytes, each of which follows from the lower halves of those at the same place.
    LowerHalves,
    /// The smaller ones of bytes without a sign.
    LeastBytes,
    /// Whether lanes of so many bytes are equal.
    Equal(usize),
    /// The lowest lane follows from the lowest ones; the rest as for `Low`.
    Scalar(usize),
    /// All of the result from all operands.
    Whole,
    /// Bits that say something of each lane of so many bytes.
    Signs(usize),
    /// Flags by an `and` of all bits.
    Test,
    /// Flags by a comparison of the lowest lanes, of so many bytes.
    Compare(usize),
    /// Lanes of so many bytes, by a constant with two bits for each of four; which half of 16 bytes: the lower, the upper, or all.
    Shuffle(usize),
    ShuffleLow,
    ShuffleHigh,
    /// Bytes, as the second operand says.
    ShuffleBytes,
    /// Pairs from two operands.
    ShufflePairs(usize),
    Unpack {
        bytes: usize,
        high: bool,
    },
    /// Lanes of so many bytes become half as large.
    Pack(usize),
    /// Bytes of both operands behind each other, from a constant on.
    Align,
    /// Bytes move.
    ShiftBytes {
        left: bool,
    },
    /// Bits of lanes of so many bytes move.
    Shift {
        bytes: usize,
        left: bool,
        sign: bool,
    },
    /// One lane comes from elsewhere.
    Insert(usize),
    Extract(usize),
    /// Half of 32 bytes.
    InsertHalf,
    ExtractHalf,
    PermuteHalves,
    /// Lanes of 8 bytes of all 32, by a constant.
    PermuteWide,
    Broadcast(usize),
    /// Lanes of so many bytes become larger.
    Extend {
        from: usize,
        to: usize,
        sign: bool,
    },
    /// Lanes of so many bytes from one operand or the other, by a constant.
    Blend(usize),
    /// By the signs of a third operand.
    BlendBy(usize),
    /// The upper half of each register becomes zero, or all of it.
    ZeroUpper,
    ZeroAll,
    Nothing,
}

/// The kind of an instruction; none where nothing is known of it.
pub fn kind(mnemonic: Mnemonic) -> Option<Kind> {
    let name = format!("{mnemonic:?}").to_lowercase();
    let plain = match &*name {
        "verr" | "verw" => return None,
        other => other.strip_prefix('v').unwrap_or(other),
    };
    moves(plain).or_else(|| numbers(plain)).or_else(|| arranges(plain))
}

fn moves(name: &str) -> Option<Kind> {
    Some(match name {
        "movaps" | "movups" | "movapd" | "movupd" | "movdqa" | "movdqu" | "lddqu" | "movntdq" | "movntps"
        | "movntpd" | "movntdqa" => Kind::Copy(32),
        "movd" => Kind::Copy(4),
        "movq" => Kind::Copy(8),
        "movss" => Kind::Low(4),
        "movsd" | "movlps" | "movlpd" => Kind::Low(8),
        "movhps" | "movhpd" => Kind::High,
        "movhlps" => Kind::Cross { to_high: false },
        "movlhps" => Kind::Cross { to_high: true },
        "zeroupper" => Kind::ZeroUpper,
        "zeroall" => Kind::ZeroAll,
        "emms" | "ldmxcsr" | "stmxcsr" => Kind::Nothing,
        _ => return None,
    })
}

fn numbers(name: &str) -> Option<Kind> {
    Some(match name {
        "pand" | "andps" | "andpd" => Kind::And,
        "pandn" | "andnps" | "andnpd" => Kind::AndNot,
        "por" | "orps" | "orpd" => Kind::Or,
        "pxor" | "xorps" | "xorpd" => Kind::Xor,
        "pminub" => Kind::LeastBytes,
        "pcmpeqb" => Kind::Equal(1),
        "pcmpeqw" => Kind::Equal(2),
        "pcmpeqd" => Kind::Equal(4),
        "pcmpeqq" => Kind::Equal(8),
        "ptest" | "testps" | "testpd" => Kind::Test,
        "comiss" | "ucomiss" => Kind::Compare(4),
        "comisd" | "ucomisd" => Kind::Compare(8),
        "pmovmskb" => Kind::Signs(1),
        "movmskps" => Kind::Signs(4),
        "movmskpd" => Kind::Signs(8),
        "paddb" | "psubb" | "paddsb" | "paddusb" | "psubsb" | "psubusb" | "pminsb" | "pmaxsb" | "pmaxub" | "pavgb"
        | "pcmpgtb" | "pabsb" | "psignb" => Kind::Lanes(1),
        "paddw" | "psubw" | "paddsw" | "paddusw" | "psubsw" | "psubusw" | "pminsw" | "pminuw" | "pmaxsw" | "pmaxuw"
        | "pavgw" | "pcmpgtw" | "pabsw" | "psignw" | "pmullw" | "pmulhw" | "pmulhuw" | "pmulhrsw" | "pmaddubsw" => {
            Kind::Lanes(2)
        }
        "paddd" | "psubd" | "pminsd" | "pminud" | "pmaxsd" | "pmaxud" | "pcmpgtd" | "pabsd" | "psignd" | "pmulld"
        | "pmaddwd" | "addps" | "subps" | "mulps" | "divps" | "minps" | "maxps" | "sqrtps" | "rcpps" | "rsqrtps"
        | "cmpps" | "cvtdq2ps" | "cvtps2dq" | "cvttps2dq" | "roundps" | "addsubps" | "sllvd" | "srlvd" | "srav"
        | "psllvd" | "psrlvd" | "psravd" => Kind::Lanes(4),
        "pmuludq" | "pmuldq" => Kind::LowerHalves,
        "paddq" | "psubq" | "pcmpgtq" | "addpd" | "subpd" | "mulpd" | "divpd" | "minpd" | "maxpd" | "sqrtpd"
        | "cmppd" | "roundpd" | "addsubpd" | "psllvq" | "psrlvq" | "psadbw" => Kind::Lanes(8),
        "addss" | "subss" | "mulss" | "divss" | "minss" | "maxss" | "sqrtss" | "rcpss" | "rsqrtss" | "cmpss"
        | "roundss" | "cvtsi2ss" | "cvtsd2ss" => Kind::Scalar(4),
        "addsd" | "subsd" | "mulsd" | "divsd" | "minsd" | "maxsd" | "sqrtsd" | "cmpsd" | "roundsd" | "cvtsi2sd"
        | "cvtss2sd" => Kind::Scalar(8),
        "cvtss2si" | "cvttss2si" | "cvtsd2si" | "cvttsd2si" => Kind::Whole,
        _ => {
            let fused = ["fmadd", "fmsub", "fnmadd", "fnmsub"].iter().any(|start| name.starts_with(start));
            match name.get(name.len().saturating_sub(2)..) {
                Some("ps") if fused => Kind::Lanes(4),
                Some("pd") if fused => Kind::Lanes(8),
                Some("ss") if fused => Kind::Scalar(4),
                Some("sd") if fused => Kind::Scalar(8),
                _ if name.starts_with("aes") || name.starts_with("sha") || name.starts_with("pclmul") => Kind::Whole,
                _ => return None,
            }
        }
    })
}

fn arranges(name: &str) -> Option<Kind> {
    let shift = |bytes, left, sign| Kind::Shift { bytes, left, sign };
    let extend = |from, to, sign| Kind::Extend { from, to, sign };
    let unpack = |bytes, high| Kind::Unpack { bytes, high };
    Some(match name {
        "pshufd" => Kind::Shuffle(4),
        "permilps" => Kind::Shuffle(4),
        "pshuflw" => Kind::ShuffleLow,
        "pshufhw" => Kind::ShuffleHigh,
        "pshufb" => Kind::ShuffleBytes,
        "shufps" => Kind::ShufflePairs(4),
        "shufpd" => Kind::ShufflePairs(8),
        "punpcklbw" => unpack(1, false),
        "punpcklwd" => unpack(2, false),
        "punpckldq" | "unpcklps" => unpack(4, false),
        "punpcklqdq" | "unpcklpd" => unpack(8, false),
        "punpckhbw" => unpack(1, true),
        "punpckhwd" => unpack(2, true),
        "punpckhdq" | "unpckhps" => unpack(4, true),
        "punpckhqdq" | "unpckhpd" => unpack(8, true),
        "packsswb" | "packuswb" => Kind::Pack(2),
        "packssdw" | "packusdw" => Kind::Pack(4),
        "palignr" => Kind::Align,
        "pslldq" => Kind::ShiftBytes { left: true },
        "psrldq" => Kind::ShiftBytes { left: false },
        "psllw" => shift(2, true, false),
        "pslld" => shift(4, true, false),
        "psllq" => shift(8, true, false),
        "psrlw" => shift(2, false, false),
        "psrld" => shift(4, false, false),
        "psrlq" => shift(8, false, false),
        "psraw" => shift(2, false, true),
        "psrad" => shift(4, false, true),
        "pinsrb" => Kind::Insert(1),
        "pinsrw" => Kind::Insert(2),
        "pinsrd" => Kind::Insert(4),
        "pinsrq" => Kind::Insert(8),
        "pextrb" => Kind::Extract(1),
        "pextrw" => Kind::Extract(2),
        "pextrd" | "extractps" => Kind::Extract(4),
        "pextrq" => Kind::Extract(8),
        "inserti128" | "insertf128" => Kind::InsertHalf,
        "extracti128" | "extractf128" => Kind::ExtractHalf,
        "perm2i128" | "perm2f128" => Kind::PermuteHalves,
        "permq" | "permpd" => Kind::PermuteWide,
        "pbroadcastb" => Kind::Broadcast(1),
        "pbroadcastw" => Kind::Broadcast(2),
        "pbroadcastd" | "broadcastss" => Kind::Broadcast(4),
        "pbroadcastq" | "broadcastsd" | "movddup" => Kind::Broadcast(8),
        "broadcasti128" | "broadcastf128" => Kind::Broadcast(16),
        "pmovzxbw" => extend(1, 2, false),
        "pmovzxbd" => extend(1, 4, false),
        "pmovzxbq" => extend(1, 8, false),
        "pmovzxwd" => extend(2, 4, false),
        "pmovzxwq" => extend(2, 8, false),
        "pmovzxdq" => extend(4, 8, false),
        "pmovsxbw" => extend(1, 2, true),
        "pmovsxbd" => extend(1, 4, true),
        "pmovsxbq" => extend(1, 8, true),
        "pmovsxwd" => extend(2, 4, true),
        "pmovsxwq" => extend(2, 8, true),
        "pmovsxdq" => extend(4, 8, true),
        "pblendw" => Kind::Blend(2),
        "pblendd" | "blendps" => Kind::Blend(4),
        "blendpd" => Kind::Blend(8),
        "pblendvb" => Kind::BlendBy(1),
        "blendvps" => Kind::BlendBy(4),
        "blendvpd" => Kind::BlendBy(8),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_kinds() {
        assert_eq!(kind(Mnemonic::Vpcmpeqb), Some(Kind::Equal(1)));
        assert_eq!(kind(Mnemonic::Movdqu), Some(Kind::Copy(32)));
        assert_eq!(kind(Mnemonic::Vfmadd231sd), Some(Kind::Scalar(8)));
        assert_eq!(kind(Mnemonic::Pcmpistri), None);
    }
}
